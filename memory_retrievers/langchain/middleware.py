"""The agent middleware: recalls memories before an agent answers, and queues the new messages afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, NotRequired

import pydantic
from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.runtime import Runtime
from langgraph.typing import ContextT

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.langchain.scope import ScopeSource
from memory_retrievers.langchain.turns import Process, Recall, TurnMemory, going_on
from memory_retrievers.protocols import Memory
from memory_retrievers.retrieval.markdown import NOTES
from memory_retrievers.scene.prompt import PromptFormat, scene_prompt
from memory_retrievers.settings import SCENE_BUDGET, SceneSettings


class MemoryState(AgentState[object]):
    """State that the middleware adds to that of an agent; no input sets it and no output shows it.

    Attributes:
        memory_block: What was recalled for this run; not part of any checkpoint.
        memory_done: The ids of the messages that are recorded, or are older than the middleware.
    """

    memory_block: NotRequired[Annotated[str, UntrackedValue, PrivateStateAttr]]
    memory_done: NotRequired[Annotated[list[str], PrivateStateAttr]]


class AgentMemoryMiddleware(AgentMiddleware[MemoryState, ContextT, object]):
    """Gives an agent of ``create_agent`` a long-term memory.

    ::

        agent = create_agent(model, tools, middleware=[AgentMemoryMiddleware(memory=memory)], checkpointer=checkpointer)
        agent.invoke(messages, {"configurable": {"thread_id": "t1", "user_id": "user/alice"}})

    Once per run it recalls what answers the last message of the user, and puts it last into the system message of
    every model call: into the prompt, never into the thread. (A run that goes on after an interrupt recalls for each
    model call.) When the run has ended, what is new in the thread is
    queued in the memory, each message once, however many runs the thread has. Instructions (system messages) and the
    summaries of ``SummarizationMiddleware`` are not recorded. Where a thread begins with messages of earlier turns, as
    without a checkpointer, only those after the last answer are new.

    An agent has one of these. A memory that fails does not fail the agent, which answers without what could not be
    recalled; messages that could not be queued are queued after the next run of the thread; a warning without any
    text goes to the log. Only what is set up wrongly raises: no scope or a malformed one, before the model is called,
    or a memory that is closed or may only be read.

    Args:
        memory: An AgentMemory, or anything of that shape.
        scope: Whose memory it is; no configuration overrides it. None takes it from the run's ``configurable``:
            ``scope``, ``user_id``, ``langgraph_user_id`` or ``conversation_id``.
        scope_from: Replaces those keys: a function of the configuration, or ``"thread"`` for one memory per thread.
        recall: ``full`` recalls episodes and facts, ``facts`` facts alone, ``none`` nothing.
        episodic_limit: At most this many episodes.
        semantic_limit: At most this many facts.
        record: Whether to queue what is said.
        process: ``due`` turns the queue into memories at the end of a run that makes it due, which holds up the end of
            the run; ``never`` leaves that to others, such as ``memory.start_worker()``.
        include_tools: Also record which tools were called, and what they answered.
        format: What is put into the system message. ``block``: what answers the user, as above. ``scene``: the story
            so far, for role-play; it takes the events that were stored with ``memory.add_scene_events``, and where not
            all fit, those that bear on the user's last message.
        scene: Settings of the scene's rendering; None takes the defaults.
        present: Names the characters who are there, from the thread's messages; None names none.
        pov: Only what these characters know of is shown; naming none means everything.
        budget: At most this many tokens of scene.
        chat_length: Gives the number of messages in the chat, counted as the events' ``message_ids`` are. The default
            counts those of the thread, which is right as long as none are removed from it.

    Raises:
        ConfigurationError: The arguments do not fit together, or the memory cannot render scenes.
    """

    state_schema = MemoryState

    def __init__(
        self,
        *,
        memory: Memory,
        scope: str | None = None,
        scope_from: ScopeSource | None = None,
        recall: Recall = "full",
        episodic_limit: int = 5,
        semantic_limit: int = 20,
        record: bool = True,
        process: Process = "due",
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
        self._record = record
        if format == "scene" and recall != "full":
            raise ConfigurationError("recall= chooses what a block tells: leave it out with format='scene'")
        self._scene_prompt = scene_prompt(
            memory,
            format=format,
            settings=scene,
            present=present,
            pov=pov,
            budget=budget,
            chat_length=chat_length,
        )
        try:
            self._turn = TurnMemory(
                memory=memory,
                scope=scope,
                scope_from=scope_from,
                recall=recall,
                episodic_limit=episodic_limit,
                semantic_limit=semantic_limit,
                process=process,
                include_tools=include_tools,
            )
        except pydantic.ValidationError as error:
            raise ConfigurationError(str(ValidationError.from_pydantic(error))) from error

    def before_agent(self, state: MemoryState, runtime: Runtime[ContextT]) -> dict[str, object]:  # noqa: ARG002
        """Recall, and see which messages are new to the thread."""
        messages = state["messages"]
        recalled: dict[str, object] = {"memory_block": self._recalled(messages)}
        if not self._record or "memory_done" in state:
            return recalled
        return recalled | {"memory_done": _ids(_answered(messages))}

    async def abefore_agent(self, state: MemoryState, runtime: Runtime[ContextT]) -> dict[str, object]:
        """:meth:`before_agent` in a thread."""
        return await asyncio.to_thread(self.before_agent, state, runtime)

    def wrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], ModelResponse[object]],
    ) -> ModelResponse[object]:
        """Put what was recalled last into the system message."""
        return handler(self._informed(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], Awaitable[ModelResponse[object]]],
    ) -> ModelResponse[object]:
        """:meth:`wrap_model_call`, asynchronously."""
        return await handler(await asyncio.to_thread(self._informed, request))

    def after_agent(self, state: MemoryState, runtime: Runtime[ContextT]) -> dict[str, object] | None:  # noqa: ARG002
        """Queue what is new, and turn into memories what is due."""
        done = state.get("memory_done")
        if not self._record or done is None:
            return None
        messages, known = state["messages"], set(done)
        scope = self._turn.scope_of(None)
        with going_on("messages are queued after the next run"):
            self._turn.keep(self._turn.said([each for each in messages if each.id not in known]), scope=scope)
            return {"memory_done": _ids(messages)}
        return None

    async def aafter_agent(self, state: MemoryState, runtime: Runtime[ContextT]) -> dict[str, object] | None:
        """:meth:`after_agent` in a thread."""
        return await asyncio.to_thread(self.after_agent, state, runtime)

    def _recalled(self, messages: Sequence[BaseMessage]) -> str:
        scope = self._turn.scope_of(None)
        asked = next((message for message in reversed(messages) if isinstance(message, HumanMessage)), None)
        query = "" if asked is None else asked.text
        if self._scene_prompt is None:
            return self._turn.framed(query, scope=scope)
        with going_on("nothing was recalled"):
            return f"{NOTES}\n\n{self._scene_prompt.render(messages, scope=scope, query=query)}"
        return ""

    def _informed(self, request: ModelRequest[ContextT]) -> ModelRequest[ContextT]:
        block = request.state.get("memory_block")
        if block is None:  # a run that goes on after an interrupt: what it recalled is in no checkpoint
            block = self._recalled(request.messages)
        if not block:
            return request
        instructions = request.system_message or SystemMessage([])
        content = instructions.content
        before = [{"type": "text", "text": content}] if isinstance(content, str) else content
        gap = "\n\n" if before else ""  # some providers join the parts with nothing between
        whole = instructions.model_copy(update={"content": [*before, {"type": "text", "text": f"{gap}{block}"}]})
        return request.override(system_message=whole)


def _answered(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """The messages up to the last answer: they belong to earlier turns."""
    last = max((index for index, message in enumerate(messages) if isinstance(message, AIMessage)), default=-1)
    return messages[: last + 1]


def _ids(messages: Sequence[BaseMessage]) -> list[str]:
    return [message.id for message in messages if message.id is not None]
