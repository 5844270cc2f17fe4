"""The agent middleware: recalls memories before an agent answers, and queues what the user and the agent say."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile
from typing import Annotated, ClassVar, Final, Literal, NotRequired, TypeAlias, TypeVar

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.runtime import Runtime
from langgraph.typing import ContextT

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.ingestion.worker import Process, going_on, process_queue, recording, without_repeats
from memory_retrievers.langchain.scope import ScopeSource, conversation_of, is_by_user, zone_of
from memory_retrievers.langchain.turns import Recall, TurnMemory, is_notification
from memory_retrievers.models import DetailLevel
from memory_retrievers.models.filters import MinRelevance
from memory_retrievers.models.messages import MEDIA
from memory_retrievers.retrieval.documents import profile_block
from memory_retrievers.retrieval.markdown import NOTES, TAG, between_tags
from memory_retrievers.retrieval.memory import Memory
from memory_retrievers.retrieval.request import asked_by, parse_zone
from memory_retrievers.scene import PromptFormat, ScenePrompt
from memory_retrievers.settings import MAX_TOKENS, SCENE_BUDGET, SceneSettings
from memory_retrievers.text.analysis import estimate_tokens

MessageT = TypeVar("MessageT", bound=BaseMessage)

Placement: TypeAlias = Literal["tail", "system"]
"""Position of recalled memories: after the last message of the user, or in the system message."""

MOST_RUNS: Final = 256  # active runs whose recall is kept; a run beyond recalls again
MOST_COMPARED: Final = 1_000  # new messages of a thread that are compared with the end of its conversation
_FORKED: Final = "_deepagents_forked_context"  # in the state of a subagent that deepagents gives the agent's middleware


class RunRecall:
    """Recalls once per run, at its first model call; ``asked`` is the user's last message.

    The result is the profile and the block of memories for the message; either may be empty.
    """

    def __init__(self, scope: str, asked: BaseMessage | None) -> None:
        self.scope, self.asked = scope, asked
        self._lock = threading.Lock()
        self._recalled: tuple[str, str] | None = None

    def __deepcopy__(self, _memo: object = None) -> RunRecall:
        """Return the object itself: a copy of a middleware continues the active runs."""
        return self

    def __call__(self, recall: Callable[[], tuple[str, str]]) -> tuple[str, str]:
        """Return what the run has recalled before, or the result of ``recall``."""
        with self._lock:
            if self._recalled is None:
                self._recalled = recall()
            return self._recalled


class MemoryState(AgentState[object]):
    """State that the middleware adds to an agent's; no input sets it, and ``invoke`` does not return it.

    Attributes:
        memory_recall: Key of what this run has recalled; not part of a checkpoint.
        memory_done: Ids of the messages that are recorded, or older than the middleware.
    """

    memory_recall: NotRequired[Annotated[str, UntrackedValue, PrivateStateAttr]]
    memory_done: NotRequired[Annotated[list[str], PrivateStateAttr]]


class AgentMemoryMiddleware(AgentMiddleware[MemoryState, ContextT, object]):
    """Gives an agent of ``create_agent`` a long-term memory.

    ::

        agent = create_agent(model, tools, middleware=[AgentMemoryMiddleware(memory=memory)], checkpointer=checkpointer)
        agent.invoke(messages, {"configurable": {"thread_id": "t1", "user_id": "user/alice"}})

    Once per run it recalls memories for the user's last message, and appends them to that message in every model call.
    They are part of the prompt, never of the thread. (A run that continues after an interrupt recalls for each model
    call.) ``memory.profile(scope)`` is appended to the system message. It is byte-identical until one of its facts
    changes, so a provider's prompt cache holds from turn to turn.

    The user's messages are queued in the memory before the model is called, and the agent's answer at the end of the
    run, each message once, however many runs the thread has. ``thread_id`` is their conversation. System messages,
    summaries and other notifications, and notices of LangChain's limits and ``ModelRetryMiddleware`` are not
    recorded. Answers of tools are not recorded either, unless the run ends with one (structured output,
    ``return_direct``), which is then recorded as the agent's answer. If a thread begins with messages of earlier turns,
    as without a checkpointer, only the messages after the last answer before the user's latest words are new. Later
    answers of others, such as a router, are not recorded.

    Messages in the prompt are not recalled. Messages that other middleware has trimmed or summarised are, if this
    middleware comes after the other in the list.

    An agent has one of these. If the memory fails, the agent answers without recalled memories. Messages that could not
    be queued are queued at the end of the run, or with the next one of the thread. A warning without any text is
    logged. Only wrong configuration raises: a missing or malformed scope or an unknown time zone, before the model is
    called, and a memory that is closed or read-only.

    Args:
        memory: An AgentMemory, or an object with its methods.
        scope: Scope of the memory; no configuration overrides it. None reads it from the run's ``configurable``:
            ``scope``, ``user_id``, ``langgraph_user_id`` or ``conversation_id``.
        scope_from: Replaces these keys: a function of the configuration, or ``"thread"`` for one memory per thread.
        recall: ``full`` recalls episodes and facts, ``facts`` facts alone, ``none`` nothing.
        episodic_limit: Maximum number of episodes.
        semantic_limit: Maximum number of facts.
        detail: Which episodes include their messages, as for ``to_markdown``.
        min_relevance: Recall nothing below this relevance, 0 to 1. The default is fitted to the embedder, so that a
            greeting recalls nothing.
        max_tokens: Maximum number of tokens recalled for a turn; None sets no limit. The profile has at most 300.
        token_counter: Counts the tokens of a text; the default estimates four characters a token.
        placement: Position of recalled memories: ``tail``, after the user's last message, or ``system``, at the end of
            the system message, which then changes with every turn, so that no prompt cache holds.
        record: Queue the messages.
        process: ``background`` starts the memory's worker, which processes the queue, so that no answer waits for it;
            ``due`` processes what is due at the end of a run, which delays it; ``never`` leaves it to others.
        include_tools: Also record calls and answers of tools, except those of the memory.
        format: What is recalled. ``block``: memories for the user's message, as above. ``scene``: the story so far, for
            role-play, from the events stored with ``memory.add_scene_events``; if not all fit, those that are relevant
            to the user's last message.
        scene: Settings of the scene; None uses the defaults.
        present: Returns the names of the characters who are present, given the thread's messages; None names none.
        pov: Show only what these characters know; empty shows everything.
        budget: Maximum number of tokens of the scene.
        chat_length: Returns the number of messages in the chat, counted like the events' ``message_ids``. The default
            counts those of the thread, which is right as long as none are removed.

    Raises:
        ConfigurationError: The arguments do not fit together, or the memory cannot render scenes.
        ValidationError: An argument breaks a rule.
    """

    state_schema = MemoryState
    _lock: ClassVar = threading.Lock()  # of all: what is done with it takes no time, and a copy needs none

    def __init__(
        self,
        memory: Memory,
        *,
        scope: str | None = None,
        scope_from: ScopeSource | None = None,
        recall: Recall = "full",
        episodic_limit: int = 5,
        semantic_limit: int = 20,
        detail: DetailLevel | str = DetailLevel.AUTO,
        min_relevance: MinRelevance = "auto",
        max_tokens: int | None = MAX_TOKENS,
        token_counter: Callable[[str], int] = estimate_tokens,
        placement: Placement = "tail",
        record: bool = True,
        process: Process = "background",
        include_tools: bool = False,
        format: PromptFormat = "block",
        scene: SceneSettings | None = None,
        present: Callable[[Sequence[BaseMessage]], Sequence[str]] | None = None,
        pov: Sequence[str] = (),
        budget: int = SCENE_BUDGET,
        chat_length: Callable[[Sequence[BaseMessage]], int] = len,
    ) -> None:
        super().__init__()
        self.tools = []
        self._runs: OrderedDict[str, RunRecall] = OrderedDict()
        if not isinstance(record, bool):  # "no" out of a setting would record
            raise ConfigurationError(f"record must be True or False, not {record!r}")
        self._record = record
        if placement not in {"tail", "system"}:
            raise ConfigurationError(f"placement must be 'tail' or 'system', not {placement!r}")
        self._placement = placement
        if format == "scene" and recall != "full":
            raise ConfigurationError("recall= has no meaning for a scene: leave it out with format='scene'")
        self._scene = ScenePrompt(
            memory=memory,
            format=format,
            settings=scene,
            present=present,
            pov=pov,
            budget=budget,
            chat_length=chat_length,
        )
        self._turn = TurnMemory(
            memory=memory,
            scope=scope,
            scope_from=scope_from,
            recall=recall,
            episodic_limit=episodic_limit,
            semantic_limit=semantic_limit,
            detail=detail,
            min_relevance=min_relevance,
            max_tokens=max_tokens,
            token_counter=token_counter,
            process=process,
            include_tools=include_tools,
        )

    def before_agent(self, state: MemoryState, runtime: Runtime[ContextT]) -> dict[str, object]:  # noqa: ARG002
        """Find the user's message, and the messages that are new to the thread."""
        messages, key = state["messages"], uuid.uuid4().hex
        run = self._run(messages)
        with self._lock:  # in the state it would be copied and stored with what hands the state on
            self._runs[key] = run
            while len(self._runs) > MOST_RUNS:
                self._runs.popitem(last=False)
        is_new = self._record and not state.get(_FORKED) and "memory_done" not in state
        return {"memory_recall": key} | ({"memory_done": self._done_before(messages)} if is_new else {})

    async def abefore_agent(self, state: MemoryState, runtime: Runtime[ContextT]) -> dict[str, object]:
        """:meth:`before_agent` in a thread."""
        return await asyncio.to_thread(self.before_agent, state, runtime)

    def before_model(self, state: MemoryState, runtime: Runtime[ContextT]) -> dict[str, object] | None:  # noqa: ARG002
        """Queue the user's messages, so that they are found even if the run fails."""
        done = state.get("memory_done")
        if not self._record or done is None:
            return None
        known = set(done)
        new = [each for each in state["messages"] if each.id not in known]
        while new and not is_by_user(new[-1]):
            new.pop()  # the agent's own words of this run
        return self._queued(new, new, done=done) if new else None

    async def abefore_model(self, state: MemoryState, runtime: Runtime[ContextT]) -> dict[str, object] | None:
        """:meth:`before_model` in a thread."""
        return await asyncio.to_thread(self.before_model, state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[ContextT], handler: Callable[[ModelRequest[ContextT]], ModelResponse[object]]
    ) -> ModelResponse[object]:
        """Append recalled memories to the user's last message, and the profile to the system message."""
        return handler(self._informed(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], Awaitable[ModelResponse[object]]],
    ) -> ModelResponse[object]:
        """:meth:`wrap_model_call`, asynchronously."""
        return await handler(await asyncio.to_thread(self._informed, request))

    def after_agent(self, state: MemoryState, runtime: Runtime[ContextT]) -> dict[str, object] | None:  # noqa: ARG002
        """Queue new messages, and have due messages processed."""
        with self._lock:
            self._runs.pop(state.get("memory_recall", ""), None)
        if not self._record or state.get(_FORKED):
            return None
        messages = state["messages"]
        # a middleware in front may have ended the first run of a thread before this one saw it
        known = set(state["memory_done"] if "memory_done" in state else self._done_before(messages))
        new = [each for each in messages if each.id not in known]
        answered = [*takewhile(lambda each: isinstance(each, ToolMessage), reversed(new))][::-1]
        return self._queued(new, messages, done=[], answered=answered, is_end=True)

    async def aafter_agent(self, state: MemoryState, runtime: Runtime[ContextT]) -> dict[str, object] | None:
        """:meth:`after_agent` in a thread."""
        return await asyncio.to_thread(self.after_agent, state, runtime)

    def _done_before(self, messages: Sequence[BaseMessage]) -> list[str]:
        """The ids of earlier turns, of what a run that failed or handed over queued, and of what others answered."""
        start, asked, answered = _last_turn(messages)
        new = [(each, said) for each in messages[start:asked] for said in self._turn.said([each])][:MOST_COMPARED]
        queued = 0
        with going_on("what is queued already may be queued again"):
            if new:
                since = self._turn.said(messages[asked:])
                queued = self._turn.queued([said for _, said in new], since=since, conversation=conversation_of())
        return _ids([*messages[:start], *messages[asked:answered], *(each for each, _ in new[:queued])])

    def _queued(
        self,
        new: Sequence[BaseMessage],
        seen: Sequence[BaseMessage],
        *,
        done: Sequence[str],
        answered: Sequence[BaseMessage] = (),
        is_end: bool = False,
    ) -> dict[str, object] | None:
        """Queue messages, and note those that are done then in the state; None if they could not be queued."""
        scope, conversation = self._turn.scope_of(None), conversation_of()
        with going_on("messages are queued later"):
            said = self._turn.said(new) + self._turn.answered_by_tools(answered)
            with recording(scope, conversation):
                # an answer was recorded already where a stream was closed between that and its checkpoint
                said = without_repeats(self._turn.memory, scope, said, conversation=conversation, answers=not is_end)
                self._turn.keep(said, scope=scope, conversation=conversation, is_end=False)
            if said and is_end:
                process_queue(self._turn.memory, scope, process=self._turn.process)
            return {"memory_done": [*done, *_ids(seen)]}
        return None

    def _run(self, messages: Sequence[BaseMessage]) -> RunRecall:
        conversation_of()  # a thread whose id cannot name a conversation is refused before the model is called,
        parse_zone(zone_of())  # and a time zone that nobody knows: each search of the run would fail
        of_user = [message for message in reversed(messages[_last_turn(messages)[0] :]) if is_by_user(message)]
        asked = min(of_user, key=is_notification, default=None)  # the last; a summary may be all that is left of it
        return RunRecall(self._turn.scope_of(None), asked)

    def _recalled(self, run: RunRecall, messages: Sequence[BaseMessage]) -> tuple[str, str]:
        query = "" if run.asked is None else run.asked.text
        if run.asked is not None and not query:  # it may be in parts that LangChain takes for no text
            query = MEDIA.sub("", "".join(each.content for each in self._turn.said([run.asked])))
        profile, block, known = "", "", frozenset[str]()
        is_block, turn = self._scene.format == "block", self._turn
        with going_on("no profile was read"):
            if is_block and turn.recall != "none":
                profile, known = profile_block(turn.memory, run.scope, token_counter=turn.token_counter)
        with going_on("nothing was recalled"):
            in_prompt = turn.said(messages) + turn.answered_by_tools(messages)
            if is_block:
                found = turn.recalled(query, scope=run.scope, known=known, in_prompt=in_prompt)
                block = between_tags(found, tag=TAG)
            else:
                query = asked_by(turn.memory, query, said=in_prompt) if query.strip() else ""
                block = f"{NOTES}\n\n{self._scene.render(messages, scope=run.scope, query=query)}"
        return profile, block

    def _informed(self, request: ModelRequest[ContextT]) -> ModelRequest[ContextT]:
        # a run that goes on after an interrupt has none: what it recalled is in no checkpoint
        with self._lock:
            begun = self._runs.get(str(request.state.get("memory_recall")))
        run = self._run(request.messages) if begun is None else begun
        in_system, behind = run(lambda: self._recalled(run, request.messages))
        place = _place_of(run.asked, request.messages) if self._placement == "tail" else None
        if place is None:
            in_system, behind = "\n\n".join(filter(None, (in_system, behind))), ""
        if in_system:
            instructions = request.system_message or SystemMessage("")
            request = request.override(system_message=_with_text(instructions, in_system))
        if behind and place is not None:
            messages = [*request.messages]
            messages[place] = _with_text(messages[place], behind)
            request = request.override(messages=messages)
        return request


def _place_of(asked: BaseMessage | None, messages: Sequence[BaseMessage]) -> int | None:
    """The place of the message that was asked or, where it is no longer there, of the last one of the user."""
    of_user = [place for place, message in enumerate(messages) if is_by_user(message)]
    same = [place for place in of_user if asked is not None and messages[place].id == asked.id is not None]
    return next(reversed(same or of_user), None)


def _with_text(message: MessageT, text: str) -> MessageT:
    """A copy of a message with further text at its end; a text stays one, since some models take nothing else."""
    content, gap = message.content, "\n\n" if message.content else ""  # some providers join parts with nothing between
    told = f"{content}{gap}{text}" if isinstance(content, str) else [*content, {"type": "text", "text": f"{gap}{text}"}]
    return message.model_copy(update={"content": told})


def _last_turn(messages: Sequence[BaseMessage]) -> tuple[int, int, int]:
    """Where the last turn begins, where the user's words in it end, and where what others have answered since ends."""
    asked = max((place for place, each in enumerate(messages, 1) if is_by_user(each)), default=0)
    answers = [(place, each) for place, each in enumerate(messages, 1) if isinstance(each, AIMessage)]
    start = max((place for place, _ in answers if place < asked), default=0)
    return start, asked, max((place for place, each in answers if place > asked and not each.tool_calls), default=asked)


def _ids(messages: Sequence[BaseMessage]) -> list[str]:
    return [message.id for message in messages if message.id is not None]
