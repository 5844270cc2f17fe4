"""The routes that write: messages in, memories out, memories stored and forgotten."""

from __future__ import annotations

from functools import partial
from typing import Final

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import Response

from memory_retrievers.models import AnyMemory, EpisodicMemory, JsonObject, SemanticMemory
from memory_retrievers.reports import Queued, Report
from memory_retrievers.server.answers import UTF8JSONResponse
from memory_retrievers.server.bodies import (
    AddMessageBody,
    AddMessagesBody,
    ForgetScopeBody,
    MessageBody,
    ProcessBody,
    RememberBody,
)
from memory_retrievers.server.calls import Call, OneCall
from memory_retrievers.server.reading import JSON

router = APIRouter(prefix="/api/v0", tags=["Write"])

PATHS: Final = frozenset(
    f"/api/v0/{name}" for name in ("add_message", "add_messages", "process", "remember", "forget_scope")
)
"""All of them, for ``Idempotency-Key``."""


class QueuedAnswer(BaseModel):
    """How many messages were accepted, how many wait, and whether something is due."""

    accepted: int
    queued: int
    due: bool


class ForgottenAnswer(BaseModel):
    """How many memories were forgotten."""

    forgotten: int


@router.post("/add_message")
async def add_message(body: AddMessageBody, call: OneCall) -> QueuedAnswer:
    """Put one message of a conversation into the queue."""
    return await _queued(call, body.conversation_id, [body.message])


@router.post("/add_messages")
async def add_messages(body: AddMessagesBody, call: OneCall) -> QueuedAnswer:
    """Put messages of a conversation into the queue, in order."""
    return await _queued(call, body.conversation_id, body.messages)


@router.post("/process", response_class=UTF8JSONResponse, responses=JSON)
async def process(body: ProcessBody, call: OneCall) -> Response:
    """Turn what is due, or all that waits, into memories now; gives the report of what was made."""
    memory, access = call.memory, call.access
    if body.conversation_id is None:
        access.require_writing()
        work = partial(memory.process_due, access.root, include_child_scopes=access.root is not None)
    else:
        scope = access.scope(body.conversation_id, writes=True)
        work = partial(memory.flush if body.flush else memory.process_due, scope)
    report = await call.run(work)
    return call.make(lambda: UTF8JSONResponse(_report(report)))


@router.post("/remember", response_class=UTF8JSONResponse, responses=JSON)
async def remember(body: RememberBody, call: OneCall) -> Response:
    """Store episodes and facts, all of them or none; gives them complete, in the order given."""
    scope = call.access.scope(body.conversation_id, writes=True)
    stored = await call.run(lambda: call.memory.remember_many(body.drafts(scope)))
    return call.make(
        lambda: UTF8JSONResponse(
            {
                "episodes": [_record(each) for each in stored if isinstance(each, EpisodicMemory)],
                "facts": [_record(each) for each in stored if isinstance(each, SemanticMemory)],
            }
        )
    )


@router.post("/forget_scope")
async def forget_scope(body: ForgetScopeBody, call: OneCall) -> ForgottenAnswer:
    """Forget everything of a conversation for good, with every trace."""
    scope = call.access.scope(body.conversation_id, writes=True)
    work = partial(call.memory.forget_scope, scope, include_child_scopes=body.include_child_scopes)
    return ForgottenAnswer(forgotten=await call.run(work))


async def _queued(call: Call, conversation_id: str, bodies: list[MessageBody]) -> QueuedAnswer:
    scope = call.access.scope(conversation_id, writes=True)

    def work() -> Queued:
        return call.memory.add_messages(scope, [body.message() for body in bodies])

    queued = await call.run(work)
    return QueuedAnswer(accepted=queued.accepted, queued=queued.queued, due=queued.due)


def _report(report: Report) -> JsonObject:
    return {
        "episodes": list(map(_record, report.episodes)),
        "facts": list(map(_record, report.facts)),
        "reinforced": list(map(_record, report.reinforced)),
        "invalidated": list(map(_record, report.invalidated)),
        "reviews": [{"scope": key.scope, "id": key.id, "rating": str(rating)} for key, rating in report.reviews],
        "waiting": report.waiting,
    }


def _record(memory: AnyMemory) -> JsonObject:
    return memory.model_dump(mode="json")
