"""Requests that a server does once for all processes of a store, whichever of them is asked again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_retrievers.errors import NotFoundError
from memory_retrievers.models import AnyMemory, SemanticMemory

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.requests import SQLRequests
    from memory_retrievers.memory.agent import AgentMemory
    from memory_retrievers.models.requests import DoneRequest


def requests_of(memory: AgentMemory) -> SQLRequests:
    """Return what the store of a memory knows of requests that are done."""
    return memory._store.ledger.requests  # noqa: SLF001 - no method of its own, since every face would have it


def made_again(memory: AgentMemory, done: DoneRequest) -> list[AnyMemory] | None:
    """Return the memories that a request has made, as they are now; None if one of them is gone, or they are not known.

    Args:
        memory: Where they are.
        done: What is known of the request.
    """
    if done.made is None or done.has_lost:
        return None
    made: list[AnyMemory] = []
    for key, was_known in done.made:
        try:
            found = memory.get(key.id, scope=key.scope)
        except NotFoundError:
            return None
        is_fact = isinstance(found, SemanticMemory)
        made.append(found.model_copy(update={"duplicate_of": found.id}) if was_known and is_fact else found)
    return made
