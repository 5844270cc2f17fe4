"""A memory on a server, used like one in this process, and its memory tools, called by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, Final, Self, Unpack
from urllib.parse import quote

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.memory.agent import AgentMemory
from memory_retrievers.memory.base import ArgumentsT, BaseMemory, ResultT, awaited, check_replacing
from memory_retrievers.models import AnyMemory, Draft, EpisodicDraft, JsonObject, scopes
from memory_retrievers.models.filters import SearchOptions
from memory_retrievers.models.memories import ANSWER_FIELDS, draft_of
from memory_retrievers.models.messages import MessageLike, messages_of, parse_conversation
from memory_retrievers.models.results import Queued, Report
from memory_retrievers.retrieval.request import RetrievalRequest
from memory_retrievers.retrieval.results import Profile, RecentResult, RetrievalResult
from memory_retrievers.server.bodies import MAX_REMEMBERED, search_body
from memory_retrievers.server.methods import METHODS, Method
from memory_retrievers.server.transport import (
    DEFAULT_TIMEOUT,
    Transport,
    is_seconds,
    read_episode,
    read_fact,
    read_profile,
    read_queued,
    read_recent,
    read_report,
    read_retrieved,
    understood,
)
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext, ToolOutput

__all__ = ["RemoteMemory", "RemoteToolbox"]

_EXPLAINED: Final[Mapping[str, str]] = {"explain": "true"}


def _remote(
    method: Callable[Concatenate[AgentMemory, ArgumentsT], ResultT],
) -> Callable[Concatenate[RemoteMemory, ArgumentsT], ResultT]:
    """The method of the same name, arguments and description on a server."""
    method_spec = METHODS[method.__name__]

    @wraps(method)
    def call(memory: RemoteMemory, /, *args: ArgumentsT.args, **kwargs: ArgumentsT.kwargs) -> ResultT:
        result: ResultT = memory.call(method_spec, *args, **kwargs)
        return result

    return call


class RemoteMemory(BaseMemory):
    """A memory on a server: ``RemoteMemory("http://127.0.0.1:8000", token)``.

    It goes wherever an ``AgentMemory`` goes in the LangChain and LlamaIndex classes, except ``MemoryStoreAdapter``.
    Each method does and raises what the method of ``AgentMemory`` does and raises; besides, every method raises
    BackendError where the server does not answer or sends more than 128 MB, and ConfigurationError where it does not
    let the token do this. A request that failed on the way is tried again, and is done once; where the server was
    killed after the work and no longer has the answer, BackendError says "is done". May be used from several threads.

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
        if processing_timeout is not None and not is_seconds(processing_timeout):
            raise ConfigurationError("processing_timeout must be more than 0 seconds, a day at most, or None")
        self._transport = Transport(url, token=token, timeout=timeout, retries=retries, sleep=sleep)
        self._processing_timeout = processing_timeout

    def retrieve(
        self, query: str, *, scope: str, record: bool = True, **options: Unpack[SearchOptions]
    ) -> RetrievalResult:
        """The memories that answer a question, best first; see ``AgentMemory.retrieve``.

        Args:
            query: The question, in plain words.
            scope: The scope to search.
            record: File the returned episodes for review; a token that may only read files none.
            options: See :class:`SearchOptions`.

        Raises:
            ValidationError: An argument breaks a rule.
            EmbeddingError: The embedder of the server failed.
        """
        request = RetrievalRequest.parse(query, scope=scope, **options)
        body = search_body(request) | {"record": bool(record)}
        # read again, the same is filed for review once: a minute long the server takes it for one retrieval
        answer = self._transport.ask("/retrieve_memory/raw", body, parameters=_EXPLAINED)
        return read_retrieved(answer, query=request.query, scope=request.scope)

    def remember_many(
        self,
        drafts: Sequence[Draft | Mapping[str, object]],
        *,
        replace: bool = False,
        allow_duplicates: bool = False,
        replacing: Sequence[str | None] = (),
    ) -> list[AnyMemory]:
        """Store many memories of one scope, at most 256: all of them or none.

        Args:
            drafts: From ``EpisodicMemory.new(...)`` and ``SemanticMemory.new(...)``, or mappings of their fields.
            replace: Forget the memories whose ids the drafts have; otherwise an id must not be taken.
            allow_duplicates: Also store facts that are known.
            replacing: For each draft the id of the fact that it holds instead of, or None.

        Returns:
            The memories, complete, in the order given; where some were held back, episodes come first.

        Raises:
            ValidationError: There are more than 256 drafts, they are of several scopes, a scope is malformed, or an id
                is taken; nothing was stored.
        """
        if not drafts:
            return []
        checked = [draft_of(draft) for draft in drafts]
        replaced = [*check_replacing(checked, replacing)] or [None] * len(checked)
        if len(checked) > MAX_REMEMBERED:
            raise ValidationError(
                f"a server stores at most {MAX_REMEMBERED} memories at once, all of them or none, and these are "
                f"{len(checked)}: call it for every {MAX_REMEMBERED} of them"
            )
        named = {draft.scope for draft in checked}
        if len(named) > 1:
            raise ValidationError("a server stores the memories of one scope at once: call it for each scope")
        sent: dict[bool, list[JsonObject]] = {True: [], False: []}
        for draft, old in zip(checked, replaced, strict=True):
            sent[isinstance(draft, EpisodicDraft)].append(_sent(draft, old))
        body: JsonObject = {"conversation_id": scopes.parse(named.pop()), "episodes": sent[True], "facts": sent[False]}
        body |= {"replace": replace, "allow_duplicates": allow_duplicates}
        answer = self._transport.ask("/remember", body, writes=True)
        with understood():
            episodes, facts = map(read_episode, answer["episodes"]), map(read_fact, answer["facts"])
            stored: dict[bool, list[AnyMemory]] = {True: [*episodes], False: [*facts]}
        if len(stored[True]) + len(stored[False]) < len(checked):
            return [*stored[True], *stored[False]]
        left = {is_episode: iter(memories) for is_episode, memories in stored.items()}
        return [next(left[isinstance(draft, EpisodicDraft)]) for draft in checked]

    def recent(
        self, scope: str, *, limit: int = 10, days_limit: float | None = None, facts: bool = False
    ) -> RecentResult:
        """The newest memories; see ``AgentMemory.recent``.

        Args:
            scope: The scope of the memories.
            limit: The most of either kind to return; brought into 1 to 100.
            days_limit: Only those of the last so many days; None means all.
            facts: Also the facts that hold.

        Raises:
            ValidationError: An argument breaks a rule.
        """
        body = {"conversation_id": scopes.parse(scope), "limit": limit, "days_limit": days_limit, "facts": bool(facts)}
        return read_recent(self._transport.ask("/recent_memory/raw", body, parameters=_EXPLAINED))

    def profile(self, scope: str) -> Profile:
        """What a model should always know of a scope; see ``AgentMemory.profile``."""
        parsed = scopes.parse(scope)
        return read_profile(self._transport.ask("/profile/raw", parameters={"conversation_id": parsed}), scope=parsed)

    def add_messages(self, scope: str, messages: Iterable[MessageLike], *, conversation: str | None = None) -> Queued:
        """Queue messages of a conversation; see ``AgentMemory.add_messages``.

        Args:
            scope: The scope of the conversation.
            messages: What was said, in order.
            conversation: The conversation, if the scope has several.
        """
        sent = [message.model_dump(mode="json", exclude_none=True) for message in messages_of(messages)]
        body = {
            "conversation_id": scopes.parse(scope),
            "conversation": parse_conversation(conversation),
            "messages": sent,
        }
        return read_queued(self._transport.ask("/add_messages", body, writes=True))

    def start_worker(self) -> None:
        """Do nothing: a server turns what is due into memories by itself."""

    def process_due(self, scope: str | None = None, *, include_child_scopes: bool = False) -> Report:
        """Turn what is due into memories; see ``AgentMemory.process_due``."""
        named = None if scope is None else scopes.parse(scope)
        return self._process({"conversation_id": named, "include_child_scopes": bool(include_child_scopes)})

    def flush(self, scope: str, conversation: str | None = None) -> Report:
        """Make episodes of everything that is queued; see ``AgentMemory.flush``."""
        named = parse_conversation(conversation)
        return self._process({"conversation_id": scopes.parse(scope), "conversation": named, "flush": True})

    def forget_scope(self, scope: str, *, include_child_scopes: bool = True) -> int:
        """Remove everything that a scope holds, and give the number of memories; see ``AgentMemory.forget_scope``."""
        body = {"conversation_id": scopes.parse(scope), "include_child_scopes": include_child_scopes}
        answer = self._transport.ask("/forget_scope", body, writes=True)
        with understood():
            return int(answer["forgotten"])

    arecent = awaited(recent)
    aprofile = awaited(profile)
    aforget_scope = awaited(forget_scope)
    aadd_messages = awaited(add_messages)
    aprocess_due = awaited(process_due)
    aflush = awaited(flush)

    get = _remote(AgentMemory.get)
    list = _remote(AgentMemory.list)
    history = _remote(AgentMemory.history)
    events = _remote(AgentMemory.events)
    diff = _remote(AgentMemory.diff)
    scopes = _remote(AgentMemory.scopes)
    stats = _remote(AgentMemory.stats)
    now = _remote(AgentMemory.now)
    explain = _remote(AgentMemory.explain)
    explain_missing = _remote(AgentMemory.explain_missing)
    waiting = _remote(AgentMemory.waiting)
    waiting_scopes = _remote(AgentMemory.waiting_scopes)
    transcript = _remote(AgentMemory.transcript)
    pending_reviews = _remote(AgentMemory.pending_reviews)
    characters = _remote(AgentMemory.characters)
    scene = _remote(AgentMemory.scene)
    update = _remote(AgentMemory.update)
    invalidate = _remote(AgentMemory.invalidate)
    forget = _remote(AgentMemory.forget)
    forget_messages = _remote(AgentMemory.forget_messages)
    forget_conversation = _remote(AgentMemory.forget_conversation)
    review = _remote(AgentMemory.review)
    add_scene_events = _remote(AgentMemory.add_scene_events)

    aget = awaited(get)
    alist = awaited(list)  # noqa: A003 - the method
    ahistory = awaited(history)
    aevents = awaited(events)
    atranscript = awaited(transcript)
    aupdate = awaited(update)
    ainvalidate = awaited(invalidate)
    aforget = awaited(forget)
    aforget_messages = awaited(forget_messages)
    aforget_conversation = awaited(forget_conversation)
    areview = awaited(review)

    def run_tool(self, name: str, arguments: Mapping[str, object], *, scope: str) -> JsonObject:
        """Run a memory tool there, and give its data; what ``MemoryToolkit`` and ``MemoryToolSpec`` use.

        Args:
            name: The name of the tool.
            arguments: Its arguments, as a model gives them.
            scope: The scope that the tool works in and cannot leave.

        Raises:
            MemoryRetrieversError: What the tool raised there.
        """
        body = {"conversation_id": scopes.parse(scope), "arguments": dict(arguments)}
        return self._transport.ask(f"/tools/{quote(name, safe='', errors='replace')}", body, writes=True)

    def close(self) -> None:
        """Close the connections; the memory on the server stays as it is."""
        self._transport.close()

    def call(self, method: Method, *given: object, **named: object) -> Any:  # noqa: ANN401 - what the method gives
        """Call a method of the table on the server; what the methods that are made of it do.

        Args:
            method: The method.
            given: Its positional arguments.
            named: Its arguments by name.
        """
        body = method.request(self, *given, **named)
        answer = self._transport.ask(f"/{method.name}", body, writes=method.writes)
        with understood():
            return method.answer.validate_python(answer["result"])

    def _process(self, body: JsonObject) -> Report:
        return read_report(self._transport.ask("/process", body, writes=True, timeout=self._processing_timeout))


def _sent(draft: Draft, replaces: str | None) -> JsonObject:
    fields = draft.model_dump(mode="json", exclude={"scope", *ANSWER_FIELDS}, exclude_none=True)
    return fields if replaces is None else {**fields, "replaces": replaces}


class RemoteToolbox:
    """All tools of the registry, on the memory of a server; answers as a ``LocalToolbox`` does.

    Args:
        url: Where the server is.
        token: The bearer token; None sends none.
        scope: Whose memory the tools work on; nothing a model says can leave it.
        allow_scopes: Whether models may name scopes below it; the server has to allow that too.
        timeout: Seconds to connect, to send, and between two pieces of an answer.
        retries: How often a request is tried again at most.
        sleep: Waits between attempts.

    Attributes:
        memory: The memory of the server.

    Raises:
        ConfigurationError: The URL is not one, or a number is not positive.
        ValidationError: The scope is malformed.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        scope: str,
        allow_scopes: bool = False,
        timeout: float = DEFAULT_TIMEOUT,
        retries: int = 3,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        scopes.parse(scope)
        self.memory = RemoteMemory(url, token, timeout=timeout, retries=retries, sleep=sleep)
        self._tools = LocalToolbox(ToolContext(memory=self.memory, root=scope, allow_scopes=allow_scopes))

    def call(self, name: str, arguments: Mapping[str, object]) -> ToolOutput:
        """Run a tool. Errors, and a server that does not answer, are answered with the error object."""
        return self._tools.call(name, arguments)

    def close(self) -> None:
        """Close the connections."""
        self.memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
