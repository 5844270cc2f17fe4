"""A memory on a server, used like one in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate
from urllib.parse import quote

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.memory.agent import AgentMemory
from memory_retrievers.memory.base import ArgumentsT, BaseMemory, ResultT, awaited, check_replacing
from memory_retrievers.models import AnyMemory, Draft, EpisodicDraft, EpisodicMemory, JsonObject, SemanticMemory, scopes
from memory_retrievers.models.memories import ANSWER_FIELDS, draft_of
from memory_retrievers.server.bodies import MAX_REMEMBERED
from memory_retrievers.server.methods import METHODS, PLAIN, PROCESSING, Method
from memory_retrievers.server.transport import DEFAULT_TIMEOUT, Transport, is_seconds, understood

__all__ = ["RemoteMemory"]


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

    It replaces an ``AgentMemory`` in the LangChain and LlamaIndex classes, except ``MemoryStoreAdapter`` and
    ``MemoryVectorStore``. Its methods do and raise what those of ``AgentMemory`` do. Besides, each raises BackendError
    if the server does not answer or sends more than 128 MB, and ConfigurationError if the token does not permit the
    request. A request that failed on the way is repeated, and executed only once; if the server was killed after the
    work and has lost the answer, BackendError says "is done". May be used from several threads.

    Args:
        url: The address of the server.
        token: The bearer token; None sends none.
        timeout: Seconds to connect, to send, and between two pieces of an answer.
        processing_timeout: The same for ``process_due`` and ``flush``, in which language models are called; None is
            ``timeout``.
        retries: The most repetitions of a request.

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
    ) -> None:
        if processing_timeout is not None and not is_seconds(processing_timeout):
            raise ConfigurationError("processing_timeout must be more than 0 seconds, a day at most, or None")
        self._transport = Transport(url, token=token, timeout=timeout, retries=retries)
        self._processing_timeout = processing_timeout

    def __repr__(self) -> str:
        return f"RemoteMemory({self._transport.url!r})"

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
            replace: Forget memories with the id of a draft; otherwise such an id is refused.
            allow_duplicates: Also store facts that are known.
            replacing: For each draft the id of the fact that it replaces, or None.

        Returns:
            The memories, complete, in the given order; if some were rejected, episodes come first.

        Raises:
            ValidationError: There are more than 256 drafts, they are of several scopes, a scope is malformed, or an id
                is taken; nothing was stored.
        """
        checked = [draft_of(draft) for draft in drafts]
        replaced = [*check_replacing(checked, replacing)] or [None] * len(checked)
        if not checked:
            return []
        if len(checked) > MAX_REMEMBERED:
            raise ValidationError(
                f"a server stores at most {MAX_REMEMBERED} memories in one call, all of them or none, and these are "
                f"{len(checked)}: divide them among several calls"
            )
        named = {draft.scope for draft in checked}
        if len(named) > 1:
            raise ValidationError("a server stores memories of one scope in one call: make a call for each scope")
        sent: dict[bool, list[JsonObject]] = {True: [], False: []}
        for draft, old in zip(checked, replaced, strict=True):
            fields = draft.model_dump(mode="json", exclude={"scope", *ANSWER_FIELDS}, exclude_none=True)
            sent[isinstance(draft, EpisodicDraft)].append(fields if old is None else {**fields, "replaces": old})
        body: JsonObject = {"conversation_id": scopes.parse(named.pop()), "episodes": sent[True], "facts": sent[False]}
        body |= {"replace": bool(replace), "allow_duplicates": bool(allow_duplicates)}
        answer = self._transport.ask("/remember", body, writes=True)
        with understood():
            stored: dict[bool, list[AnyMemory]] = {
                True: [*map(EpisodicMemory.model_validate, answer["episodes"])],
                False: [*map(SemanticMemory.model_validate, answer["facts"])],
            }
        if len(stored[True]) + len(stored[False]) < len(checked):
            return [*stored[True], *stored[False]]
        left = {is_episode: iter(memories) for is_episode, memories in stored.items()}
        return [next(left[isinstance(draft, EpisodicDraft)]) for draft in checked]

    def start_worker(self) -> None:
        """Do nothing: a server turns what is due into memories by itself."""

    retrieve = _remote(AgentMemory.retrieve)
    recent = _remote(AgentMemory.recent)
    profile = _remote(AgentMemory.profile)
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
    add_messages = _remote(AgentMemory.add_messages)
    update = _remote(AgentMemory.update)
    invalidate = _remote(AgentMemory.invalidate)
    forget = _remote(AgentMemory.forget)
    forget_messages = _remote(AgentMemory.forget_messages)
    forget_conversation = _remote(AgentMemory.forget_conversation)
    forget_scope = _remote(AgentMemory.forget_scope)
    review = _remote(AgentMemory.review)
    process_due = _remote(AgentMemory.process_due)
    flush = _remote(AgentMemory.flush)
    add_scene_events = _remote(AgentMemory.add_scene_events)

    arecent = awaited(recent)
    aprofile = awaited(profile)
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
    aforget_scope = awaited(forget_scope)
    areview = awaited(review)
    aadd_messages = awaited(add_messages)
    aprocess_due = awaited(process_due)
    aflush = awaited(flush)

    def run_tool(self, name: str, arguments: Mapping[str, object], *, scope: str) -> JsonObject:
        """Run a memory tool on the server and return its data; ``MemoryToolkit`` and ``MemoryToolSpec`` use this.

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
        """Call a method on the server by its name; the other methods use this.

        Args:
            method: The method.
            given: Its positional arguments.
            named: Its arguments by name.
        """
        body = method.request(self, *given, **named)
        timeout = self._processing_timeout if method.name in PROCESSING else None
        answer = self._transport.ask(f"/{method.name}", body, writes=method.writes, timeout=timeout)
        with understood():
            return method.answer.validate_python(answer if method.name in PLAIN else answer["result"])
