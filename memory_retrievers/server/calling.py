"""The routes of the tools: one for each row of the registry, with the schema of its arguments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache, partial
from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.responses import Response

from memory_retrievers.errors import NotFoundError
from memory_retrievers.server.answers import UTF8JSONResponse, failure
from memory_retrievers.server.bodies import ToolBody, tool_body
from memory_retrievers.server.calls import OneCall
from memory_retrievers.server.reading import JSON
from memory_retrievers.tools import toolbox
from memory_retrievers.tools.registry import REGISTRY, AnyToolSpec, find_tool, offered_tools
from memory_retrievers.tools.spec import ToolContext

PREFIX: Final = "/api/v0/tools/"

WithContent = Annotated[
    bool, Query(description="Give {content, artifact}: also the text that a model is to read, beside the object.")
]


def tool_routes(*, allow_scopes: bool) -> APIRouter:
    """A route for each tool.

    Args:
        allow_scopes: Whether arguments may name scopes within the conversation.
    """
    router = APIRouter(prefix=PREFIX.removesuffix("/"), tags=["Tools"])
    offered = {tool.name: tool for tool in offered_tools(allow_scopes=allow_scopes)}
    for tool in offered.values():
        router.add_api_route(
            f"/{tool.name}",
            _route(tool, allow_scopes=allow_scopes),
            methods=["POST"],
            name=tool.name,
            description=tool.description,
            response_class=UTF8JSONResponse,
            responses=JSON,
        )

    @router.post("/{name}", include_in_schema=False)
    async def unknown(name: str) -> Response:
        try:
            find_tool(name, among=offered)
        except NotFoundError as error:
            return failure(error)
        raise AssertionError(name)  # pragma: no cover - what is offered has a route of its own

    return router


def is_write(path: str) -> bool:
    """Whether the path is that of a tool that writes."""
    tool = REGISTRY.get(path.removeprefix(PREFIX)) if path.startswith(PREFIX) else None
    return tool is not None and tool.writes


def _route(tool: AnyToolSpec, *, allow_scopes: bool) -> Callable[..., Awaitable[Response]]:
    async def call_tool(body: ToolBody, call: OneCall, *, with_content: WithContent = False) -> Response:
        context = ToolContext(
            memory=call.memory,
            root=call.access.scope(body.conversation_id, writes=tool.writes),
            allow_scopes=allow_scopes,
            read_only=not call.access.writes,
        )
        try:
            output = await call.run(partial(tool.call, context, body.arguments))
        except toolbox.FAILURES as error:
            return failure(error, toolbox.failure(tool, context, body.arguments, error).artifact)
        answer = {"content": output.content, "artifact": output.artifact} if with_content else output.artifact
        return call.make(lambda: UTF8JSONResponse(answer))

    call_tool.__annotations__ |= {
        "body": _body(tool.name, allow_scopes=allow_scopes),
        "call": OneCall,
        "with_content": WithContent,
        "return": Response,
    }
    return call_tool


@cache
def _body(name: str, *, allow_scopes: bool) -> type[ToolBody]:
    """The body of a tool's calls, made once: to make those of all tools takes a tenth of a second."""
    return tool_body(name, REGISTRY[name].offered_arguments(allow_scopes=allow_scopes).model_json_schema())
