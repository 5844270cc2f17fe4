"""``RemoteMemory``: the memory of a server, with the methods that adapters and applications use."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Final, Self

from memory_retrievers import scopes
from memory_retrievers.errors import ConfigurationError
from memory_retrievers.messages import Message
from memory_retrievers.models import Category, JsonObject
from memory_retrievers.remote.reading import (
    read_queued,
    read_recent,
    read_report,
    read_retrieved,
    understood,
)
from memory_retrievers.remote.remembering import Remembering
from memory_retrievers.remote.transport import DEFAULT_TIMEOUT, Transport
from memory_retrievers.rendering.raw import iso
from memory_retrievers.reports import Queued, Report
from memory_retrievers.retrieval.request import RetrievalRequest
from memory_retrievers.retrieval.result import RecentResult, RetrievalResult

_EXPLAINED: Final[Mapping[str, str]] = {"explain": "true"}


class RemoteMemory(Remembering):
    """A memory on a server: ``RemoteMemory("http://127.0.0.1:8000", token)``.

    It goes wherever an ``AgentMemory`` goes in the LangChain and LlamaIndex classes, except ``MemoryStoreAdapter``.
    What a method does and raises is what the method of ``AgentMemory`` does and raises; besides, every method raises
    BackendError where the server does not answer, and ConfigurationError where it does not let the token do this.
    A request that failed on the way is tried again, and is done once as long as the server lives. May be used from
    several threads.

    Args:
        url: Where the server is.
        token: The bearer token; None sends none.
        timeout: Seconds to connect, to send, and between two pieces of an answer.
        processing_timeout: The same for ``process_due`` and ``flush``, in which language models are called; None is
            ``timeout``.
        retries: How often a request is tried again at most.
        sleep: Waits between attempts.

    Raises:
        ConfigurationError: The URL is not one, or a number is not positive.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        processing_timeout: float | None = None,
        retries: int = 3,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if processing_timeout is not None and not processing_timeout > 0:
            raise ConfigurationError("processing_timeout must be more than 0 seconds, or None")
        self._transport = Transport(url, token=token, timeout=timeout, retries=retries, sleep=sleep)
        self._processing_timeout = processing_timeout

    def retrieve(
        self,
        query: str,
        *,
        scope: str,
        episodic_limit: int = 5,
        semantic_limit: int = 20,
        category: Category | str | None = None,
        include_child_scopes: bool = False,
        limit: int | None = None,
        record: bool = True,
        as_of: datetime | None = None,
    ) -> RetrievalResult:
        """The memories that answer a question; see ``AgentMemory.retrieve``."""
        request = RetrievalRequest.parse(
            query,
            scope=scope,
            episodic_limit=episodic_limit,
            semantic_limit=semantic_limit,
            category=category,
            include_child_scopes=include_child_scopes,
            limit=limit,
            as_of=as_of,
        )
        body = {
            "query": request.query,
            "conversation_id": request.scope,
            "episodic_limit": request.episodic_limit,
            "semantic_limit": request.semantic_limit,
            "category": request.category,
            "include_child_scopes": request.include_child_scopes,
            "joint_limit": request.limit,
            "record": bool(record),
            "as_of": None if request.as_of is None else iso(request.as_of),
        }
        # read again, the same is filed for review once: a minute long the server takes it for one retrieval
        answer = self._transport.read("/retrieve_memory/raw", body, parameters=_EXPLAINED)
        return read_retrieved(answer, query=request.query, scope=request.scope)

    def context(
        self,
        query: str,
        *,
        scope: str,
        semantic_limit: int = 20,
        category: Category | str | None = None,
        include_child_scopes: bool = False,
    ) -> RetrievalResult:
        """The facts that answer a question, without side effects; see ``AgentMemory.context``."""
        return self.retrieve(
            query,
            scope=scope,
            episodic_limit=0,
            semantic_limit=semantic_limit,
            category=category,
            include_child_scopes=include_child_scopes,
            record=False,
        )

    def recent(self, scope: str, *, limit: int = 10, days_limit: float | None = None) -> RecentResult:
        """The newest episodes; see ``AgentMemory.recent``."""
        body = {"conversation_id": scopes.parse(scope), "limit": limit, "days_limit": days_limit}
        return read_recent(self._transport.read("/recent_memory/raw", body, parameters=_EXPLAINED))

    def add_messages(self, scope: str, messages: Sequence[Message]) -> Queued:
        """Queue messages of a conversation; see ``AgentMemory.add_messages``."""
        sent = [message.model_dump(mode="json", exclude_none=True) for message in messages]
        body = {"conversation_id": scopes.parse(scope), "messages": sent}
        return read_queued(self._transport.write("/add_messages", body))

    def process_due(self, scope: str | None = None) -> Report:
        """Turn what is due into memories; see ``AgentMemory.process_due``."""
        return self._process({"conversation_id": None if scope is None else scopes.parse(scope), "flush": False})

    def flush(self, scope: str) -> Report:
        """Make episodes of everything that is queued; see ``AgentMemory.flush``."""
        return self._process({"conversation_id": scopes.parse(scope), "flush": True})

    def forget_scope(self, scope: str, *, include_child_scopes: bool = True) -> int:
        """Remove everything that a scope holds, and give the number of memories; see ``AgentMemory.forget_scope``."""
        body = {"conversation_id": scopes.parse(scope), "include_child_scopes": include_child_scopes}
        answer = self._transport.write("/forget_scope", body)
        with understood():
            return int(answer["forgotten"])

    def run_tool(self, name: str, arguments: Mapping[str, object], *, scope: str) -> JsonObject:
        """Run a memory tool there, and give its data; what ``MemoryToolkit`` and ``MemoryToolSpec`` use.

        Raises:
            MemoryRetrieversError: What the tool raised there.
        """
        body = {"conversation_id": scopes.parse(scope), "arguments": dict(arguments)}
        return self._transport.write(f"/tools/{name}", body)

    def close(self) -> None:
        """Let go of the connections; the memory on the server stays as it is."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _process(self, body: JsonObject) -> Report:
        return read_report(self._transport.write("/process", body, timeout=self._processing_timeout))
