"""Routes of the HTTP server: reading, writing and tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import cache, partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query
from fastapi.routing import APIRoute
from starlette.responses import Response

from memory_retrievers.backends.sql.requests import DoneRequest, under_way
from memory_retrievers.errors import NotFoundError
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import AnyMemory, EpisodicMemory, SemanticMemory
from memory_retrievers.models.results import Queued
from memory_retrievers.retrieval.results import RetrievalResult
from memory_retrievers.server import bodies
from memory_retrievers.server.methods import METHODS, PLAIN, PROCESSING, Method
from memory_retrievers.server.requests import CurrentRequest, RequestContext, check_query
from memory_retrievers.server.responses import UTF8JSONResponse, failure, markdown
from memory_retrievers.tools.registry import REGISTRY, find_tool, offered_tools
from memory_retrievers.tools.tool import FAILURES, AnyTool, ToolContext
from memory_retrievers.tools.tool import failure as tool_failure

_CHECKED: Final = [Depends(check_query)]
read_routes = APIRouter(prefix="/api/v0", tags=["Read"], dependencies=_CHECKED)

MARKDOWN: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"text/markdown": {"schema": {"type": "string"}}}, "description": "Markdown; it may be empty."}
}
JSON: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"application/json": {"schema": {"type": "object"}}}, "description": "The raw memories."}
}

RESULT: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "content": {"application/json": {"schema": {"type": "object", "required": ["result"]}}},
        "description": "What the method returns.",
    }
}

Explain = Annotated[bool, Query(description="Also return explanation, scope, metadata and tags of each, and now.")]


@read_routes.post("/retrieve_memory", response_class=Response, responses=MARKDOWN)
async def retrieve_memory(body: bodies.RetrieveBody, request: CurrentRequest) -> Response:
    """The facts and episodes that answer a question, as markdown for a model to read."""
    result = await _retrieved(body, request)
    return request.make(lambda: markdown(result.to_markdown(body.detail, max_tokens=body.max_tokens)))


@read_routes.post("/retrieve_memory/raw", response_class=UTF8JSONResponse, responses=JSON)
async def retrieve_memory_raw(
    body: bodies.RetrieveBody, request: CurrentRequest, *, explain: Explain = False
) -> Response:
    """The same as JSON: complete records, without their vectors."""
    result = await _retrieved(body, request)
    return request.make(lambda: UTF8JSONResponse(result.to_dict(explain=explain)))


@read_routes.post("/context_pre_retrieve", response_class=Response, responses=MARKDOWN)
async def context_pre_retrieve(body: bodies.ContextBody, request: CurrentRequest) -> Response:
    """The facts to put before a turn, as markdown; nothing is recorded."""
    scope = request.access.scope(body.conversation_id)
    options = body.model_dump(exclude={"conversation_id", "max_tokens"})
    result = await request.run(partial(request.memory.context, scope=scope, **options))
    return request.make(lambda: markdown(result.to_markdown(max_tokens=body.max_tokens)))


@read_routes.post("/recent_memory", response_class=Response, responses=MARKDOWN)
async def recent_memory(body: bodies.RecentBody, request: CurrentRequest) -> Response:
    """The newest episodes, with facts if asked, as markdown; if there are none, a sentence that says so."""
    options = body.model_dump(exclude={"conversation_id"})
    result = await request.run(partial(request.memory.recent, request.access.scope(body.conversation_id), **options))
    return request.make(lambda: markdown(result.to_markdown()))


async def _retrieved(body: bodies.RetrieveBody, request: RequestContext) -> RetrievalResult:
    scope, record = request.access.scope(body.conversation_id), body.record and request.access.writes
    return await request.run(lambda: request.memory.retrieve(body.query, scope=scope, record=record, **body.options()))


Conversation = Annotated[str, Query(description="The scope, as a whole path, for example user/alice.")]
Budget = Annotated[int, Query(ge=0, description="Maximum tokens of the markdown, four characters each.")]


@read_routes.get("/profile", response_class=Response, responses=MARKDOWN)
async def profile(conversation_id: Conversation, request: CurrentRequest, max_tokens: Budget = 300) -> Response:
    """What a model should always know, as markdown for its instructions; empty if there is nothing."""
    result = await request.run(partial(request.memory.profile, request.access.scope(conversation_id)))
    return request.make(lambda: markdown(result.to_markdown(max_tokens=max_tokens)))


write_routes = APIRouter(prefix="/api/v0", tags=["Write"], dependencies=_CHECKED)

_REMEMBER: Final = "/api/v0/remember"


@write_routes.post("/add_message")
async def add_message(body: bodies.AddMessageBody, request: CurrentRequest) -> Queued:
    """Put one message of a conversation into the queue."""
    scope, said = request.access.scope(body.conversation_id, writes=True), [body.message] if body.message else []
    return await request.run(partial(request.memory.add_messages, scope, said, conversation=body.conversation))


@write_routes.post("/remember", response_class=UTF8JSONResponse, responses=JSON)
async def remember(body: bodies.RememberBody, request: CurrentRequest) -> Response:
    """Store episodes and facts, all of them or none; gives them complete, in the order given.

    A fact that is known is not stored again: the known one is given, with `duplicate_of`. The answer to a request with
    one fact alone names, in `near`, facts that it may contradict.
    """
    scope = request.access.scope(body.conversation_id, writes=True)
    stored = await request.run(
        lambda: request.memory.remember_many(
            body.drafts(scope), replace=body.replace, allow_duplicates=body.allow_duplicates, replacing=body.replacing()
        )
    )
    return request.make(lambda: _stored(stored))


def made_anew(memory: AgentMemory, path: str, done: DoneRequest) -> Response | None:
    """Rebuild the response to a write of another process from the memories that it stored, as they are now.

    Returns None for another path, and where a memory is forgotten or unknown.

    Args:
        memory: The memory that contains them.
        path: The path of the write.
        done: The record of the write.
    """
    if path != _REMEMBER or done.made is None or done.has_lost:
        return None
    made: list[AnyMemory] = []
    for key, was_known in done.made:
        try:
            found = memory.get(key.id, scope=key.scope)
        except NotFoundError:
            return None
        is_fact = isinstance(found, SemanticMemory)
        made.append(found.model_copy(update={"duplicate_of": found.id}) if was_known and is_fact else found)
    return _stored(made)


def _stored(memories: Sequence[AnyMemory]) -> Response:
    return UTF8JSONResponse(
        {
            "episodes": [each.model_dump(mode="json") for each in memories if isinstance(each, EpisodicMemory)],
            "facts": [each.model_dump(mode="json") for each in memories if isinstance(each, SemanticMemory)],
        }
    )


def _method_route(method: Method) -> Callable[..., Awaitable[Response]]:
    async def call_method(body: bodies.Body, request: CurrentRequest) -> Response:
        arguments, named = method.arguments(body), getattr(body, "conversation_id", None)
        if method.place is not None:
            arguments[method.place] = _place(method, request, named)
        if method.name == "process_due" and named is None and request.access.root is not None:
            arguments["include_child_scopes"] = True
        if method.name == "retrieve":
            arguments["record"] = arguments.get("record", True) and request.access.writes
        among = request.processing if method.name in PROCESSING else None
        result = await request.run(partial(getattr(request.memory, method.name), **arguments), among=among)
        if isinstance(result, EpisodicMemory | SemanticMemory) and (noted := under_way.get()) is not None:
            noted.quoted.add(result.key)  # also where nothing was to change

        def made() -> Response:
            answer = method.answer.dump_python(result, mode="json")
            return UTF8JSONResponse(answer if method.name in PLAIN else {"result": answer})

        return request.make(made)

    call_method.__annotations__ |= {"body": method.body, "request": CurrentRequest, "return": Response}
    return call_method


def _place(method: Method, request: RequestContext, named: str | None) -> str | None:
    """Return the scope that a method works in: the given one, or the root of the token."""
    if named is not None:
        return request.access.scope(named, writes=method.writes)
    if method.writes:
        request.access.require_writing()
    elif method.place == "scope":
        request.access.require_everything()
    return request.access.root


for _method in METHODS.values():
    (write_routes if _method.writes else read_routes).add_api_route(
        f"/{_method.name}",
        _method_route(_method),
        methods=["POST"],
        name=_method.name,
        description=_method.summary,
        response_class=UTF8JSONResponse,
        response_model=Queued if _method.name in PLAIN else None,
        responses=None if _method.name in PLAIN else RESULT,
    )


PREFIX: Final = "/api/v0/tools/"


@cache
def tool_routes(*, allow_scopes: bool) -> APIRouter:
    """Return a route for each tool; they depend on no memory and are shared by all applications."""
    tool_routes = APIRouter(prefix=PREFIX.removesuffix("/"), tags=["Tools"], dependencies=_CHECKED)
    offered = {tool.name: tool for tool in offered_tools("all", allow_scopes=allow_scopes)}
    for tool in offered.values():
        tool_routes.add_api_route(
            f"/{tool.name}",
            _route(tool, allow_scopes=allow_scopes),
            methods=["POST"],
            name=tool.name,
            description=tool.description,
            response_class=UTF8JSONResponse,
            responses=JSON,
        )

    @tool_routes.post("/{name}", include_in_schema=False)
    async def unknown(name: str) -> None:
        find_tool(name, among=offered)  # raises, since what is offered has a route of its own

    return tool_routes


_WRITES: Final = frozenset(
    (
        *(route.path for route in write_routes.routes if isinstance(route, APIRoute)),
        *(f"{PREFIX}{tool.name}" for tool in REGISTRY.values() if tool.writes),
    )
)


def is_write(path: str) -> bool:
    """Return True for the path of a route that writes, and so accepts an ``Idempotency-Key``."""
    return path in _WRITES


def _route(tool: AnyTool, *, allow_scopes: bool) -> Callable[..., Awaitable[Response]]:
    async def call_tool(body: bodies.ToolBody, request: CurrentRequest) -> Response:
        context = ToolContext(
            memory=request.memory,
            root=request.access.scope(body.conversation_id, writes=tool.writes),
            allow_scopes=allow_scopes,
            read_only=not request.access.writes,
        )
        try:
            output = await request.run(partial(tool.call, context, body.arguments))
        except FAILURES as error:
            return failure(error, tool_failure(tool, context, body.arguments, error).artifact)
        return request.make(lambda: UTF8JSONResponse(output.artifact))

    call_tool.__annotations__ |= {
        "body": _body(tool.name, allow_scopes=allow_scopes),
        "request": CurrentRequest,
        "return": Response,
    }
    return call_tool


@cache
def _body(name: str, *, allow_scopes: bool) -> type[bodies.ToolBody]:
    """The body of a tool's calls, made once: to make those of all tools takes a tenth of a second."""
    return bodies.tool_body(name, REGISTRY[name].offered_arguments(allow_scopes=allow_scopes).model_json_schema())
