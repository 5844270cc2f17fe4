"""The routes that read: retrieve, context, recent."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from starlette.responses import Response

from memory_retrievers.retrieval.result import RecentResult, RetrievalResult
from memory_retrievers.server.answers import UTF8JSONResponse, markdown
from memory_retrievers.server.bodies import ContextBody, RecentBody, RetrieveBody
from memory_retrievers.server.calls import Call, OneCall

router = APIRouter(prefix="/api/v0", tags=["Read"])

MARKDOWN: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"text/markdown": {"schema": {"type": "string"}}}, "description": "The block; empty if nothing."}
}
JSON: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"application/json": {"schema": {"type": "object"}}}, "description": "The raw memories."}
}

Explain = Annotated[bool, Query(description="Also tell explanation, scope, metadata and tags of each, and now.")]


@router.post("/retrieve_memory", response_class=Response, responses=MARKDOWN)
async def retrieve_memory(body: RetrieveBody, call: OneCall) -> Response:
    """The facts and episodes that answer a question, as markdown for a model to read."""
    result = await _retrieved(body, call)
    return call.make(lambda: markdown(result.to_markdown(body.detail, max_tokens=body.max_tokens)))


@router.post("/retrieve_memory/raw", response_class=UTF8JSONResponse, responses=JSON)
async def retrieve_memory_raw(body: RetrieveBody, call: OneCall, *, explain: Explain = False) -> Response:
    """The same as JSON: complete records, without their vectors."""
    result = await _retrieved(body, call)
    return call.make(lambda: UTF8JSONResponse(result.to_dict(explain=explain)))


@router.post("/context_pre_retrieve", response_class=Response, responses=MARKDOWN)
async def context_pre_retrieve(body: ContextBody, call: OneCall) -> Response:
    """The facts to put before a turn, as markdown; nothing is recorded."""
    work = partial(
        call.memory.context,
        body.query,
        scope=call.access.scope(body.conversation_id),
        semantic_limit=body.semantic_limit,
        category=body.category,
        include_child_scopes=body.include_child_scopes,
    )
    result = await call.run(work)
    return call.make(lambda: markdown(result.to_markdown()))


@router.post("/recent_memory", response_class=Response, responses=MARKDOWN)
async def recent_memory(body: RecentBody, call: OneCall) -> Response:
    """The newest episodes, as markdown; if there are none, a sentence that says so."""
    result = await _recent(body, call)
    return call.make(lambda: markdown(result.to_markdown()))


@router.post("/recent_memory/raw", response_class=UTF8JSONResponse, responses=JSON)
async def recent_memory_raw(body: RecentBody, call: OneCall, *, explain: Explain = False) -> Response:
    """The newest episodes as JSON."""
    result = await _recent(body, call)
    return call.make(lambda: UTF8JSONResponse(result.to_dict(explain=explain)))


async def _retrieved(body: RetrieveBody, call: Call) -> RetrievalResult:
    work = partial(
        call.memory.retrieve,
        body.query,
        scope=call.access.scope(body.conversation_id),
        episodic_limit=body.episodes,
        semantic_limit=body.semantic_limit,
        category=body.category,
        include_child_scopes=body.include_child_scopes,
        limit=body.joint_limit,
        record=body.record and call.access.writes,
        as_of=body.as_of,
    )
    return await call.run(work)


async def _recent(body: RecentBody, call: Call) -> RecentResult:
    scope = call.access.scope(body.conversation_id)
    return await call.run(partial(call.memory.recent, scope, limit=body.limit, days_limit=body.days_limit))
