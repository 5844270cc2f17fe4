"""A LangChain conversation: recall for a turn, queueing of its messages, and a chat history."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, ToolMessage, convert_to_messages
from langchain_core.runnables import ensure_config
from langchain_core.runnables.config import get_callback_manager_for_config
from pydantic import BeforeValidator, ConfigDict, Field

from memory_retrievers.errors import ValidationError
from memory_retrievers.ingestion.worker import Process, process_queue
from memory_retrievers.langchain.scope import ScopedByConfig, is_by_user, zone_of
from memory_retrievers.models import DetailLevel, scopes
from memory_retrievers.models.filters import MinRelevance, SearchOptions
from memory_retrievers.models.messages import Message, is_of_user, parse_conversation
from memory_retrievers.models.results import MAX_PAGE, parse_page_size
from memory_retrievers.retrieval.documents import documents
from memory_retrievers.retrieval.memory import GivenMemory, Memory
from memory_retrievers.retrieval.request import asked_by, parse_relevance
from memory_retrievers.retrieval.results import RetrievalResult, parse_detail
from memory_retrievers.text.analysis import estimate_tokens
from memory_retrievers.tools.registry import REGISTRY

Recall: TypeAlias = Literal["full", "facts", "none"]
"""What to recall: episodes and facts, facts alone without side effects, or nothing."""

RUN_NAME: Final = "AgentMemory"  # of the retriever run in traces
_INSTRUCTIONS = frozenset({"system", "developer"})
# marks of LangChain and deepagents in messages that no user typed
_NOTIFICATIONS = frozenset({"lc_source", "deepagents_notification", "read_file_media_result"})

# notices of LangChain's middleware for failed or exhausted model calls
_NOTICE: Final = re.compile(
    r"Model call (?:limits exceeded: |failed after \d+ attempts? with )|(?:Tool|'[^']*' tool) call limit reached: "
)

_logger = logging.getLogger("memory_retrievers")


class TurnMemory(ScopedByConfig):
    """Memory for the turns of a conversation: recalls before an answer, and queues messages after it.

    Its fields are explained as arguments of ``AgentMemoryMiddleware``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: GivenMemory = Field(exclude=True, repr=False)
    recall: Recall = "full"
    episodic_limit: int = Field(default=5, ge=0)
    semantic_limit: int = Field(default=20, ge=0)
    detail: Annotated[DetailLevel | str, BeforeValidator(parse_detail)] = DetailLevel.AUTO
    min_relevance: Annotated[MinRelevance, BeforeValidator(parse_relevance)] = "auto"
    max_tokens: int | None = Field(default=None, ge=0)
    token_counter: Callable[[str], int] = Field(default=estimate_tokens, exclude=True, repr=False)
    process: Process = "background"
    include_tools: bool = False

    def recalled(
        self, query: str, *, scope: str, known: Collection[str] = (), in_prompt: Sequence[Message] = ()
    ) -> str:
        """Return the markdown block for a query; empty if nothing is found.

        Of a message longer than a query may be, beginning and end are searched for.

        Args:
            query: The user's message.
            scope: Scope to search.
            known: Ids of facts that are in the prompt anyway.
            in_prompt: Messages in the prompt.
        """
        if self.recall == "none" or not query.strip():
            return ""
        query = asked_by(self.memory, query, said=in_prompt)
        found = self._traced(query, scope=scope, in_prompt=in_prompt).without_facts(known)
        return found.to_markdown(self.detail, max_tokens=self.max_tokens, token_counter=self.token_counter)

    def _traced(self, query: str, *, scope: str, in_prompt: Sequence[Message]) -> RetrievalResult:
        """Search in a retriever run below the current run, so that tracers and callbacks see what was found."""
        run = get_callback_manager_for_config(ensure_config()).on_retriever_start(
            {"name": RUN_NAME}, query, name=RUN_NAME
        )
        try:
            found = self._search(query, scope=scope, in_prompt=in_prompt)
        except Exception as error:
            run.on_retriever_error(error)
            raise
        if run.handlers:
            shown = documents(found.semantic, found.episodic, detail=parse_detail(self.detail), with_scores=True)
            run.on_retriever_end([Document(id=one.id, page_content=one.text, metadata=one.metadata) for one in shown])
        return found

    def _search(self, query: str, *, scope: str, in_prompt: Sequence[Message]) -> RetrievalResult:
        are_facts_alone = self.recall == "facts"
        options: SearchOptions = {
            "episodic_limit": 0 if are_facts_alone else self.episodic_limit,
            "semantic_limit": self.semantic_limit,
            "in_prompt": () if are_facts_alone else in_prompt,
            "min_relevance": self.min_relevance,
            "time_zone": zone_of(),
        }
        return self.memory.retrieve(query, scope=scope, record=not are_facts_alone, **options)

    def keep(self, messages: Sequence[Message], *, scope: str, conversation: str | None, is_end: bool = True) -> None:
        """Queue messages, and have due messages processed.

        Queued messages are safe: if they cannot be processed now, they stay queued.

        Args:
            messages: Messages in order.
            scope: Their scope.
            conversation: Their conversation within the scope.
            is_end: Whether the turn ends with them, so that it may wait for processing.
        """
        if not messages:
            return
        self.memory.add_messages(scope, messages, conversation=conversation)
        if is_end:
            process_queue(self.memory, scope, process=self.process)

    def queued(self, messages: Sequence[Message], *, since: Sequence[Message], conversation: str | None) -> int:
        """Return how many of the first messages already are the last of a conversation.

        Args:
            messages: New messages.
            since: Messages after them, which may be in the conversation or not.
            conversation: The conversation within the scope.
        """
        new, later = ([(each.role, each.content) for each in said] for said in (messages, since))
        before = self.memory.transcript(self.scope_of(None), conversation, limit=min(len(new) + len(later), MAX_PAGE))
        known = [(each.role, each.content) for each in before]
        while known and known[-1] in later:
            known.pop()
        return max(count for count in range(len(known) + 1) if known[len(known) - count :] == new[:count])

    def said(self, messages: Sequence[BaseMessage]) -> list[Message]:
        """Return the messages to keep, without instructions, notifications and notices."""
        converted = [self._message_of(message) for message in messages if not _is_no_word(message)]
        return [message for message in converted if message is not None and message.role not in _INSTRUCTIONS]

    def answered_by_tools(self, messages: Sequence[BaseMessage]) -> list[Message]:
        """Return answers of tools as messages of the agent; empty if they are kept as messages of tools."""
        answers = [] if self.include_tools else [each for each in messages if isinstance(each, ToolMessage)]
        return self.said([AIMessage(each.content) for each in answers])

    def _message_of(self, message: BaseMessage) -> Message | None:
        try:
            # what a tool of the memory was asked and told is in the memory, or was forgotten by it
            return Message.from_langchain(message, include_tools=self.include_tools, without=REGISTRY)
        except ValidationError:
            _logger.warning("a message is left out, since it or its role is too long to be stored")
        except Exception as error:  # noqa: BLE001 - LangChain reads the parts of each provider, and may raise anything
            _logger.warning("a message cannot be read and is left out (%s)", type(error).__name__)
        return None


def is_notification(message: BaseMessage) -> bool:
    """True for what no user typed, though it is in a message like a user's, such as a summary of LangChain."""
    marks = (message.additional_kwargs.get(each) for each in _NOTIFICATIONS)
    return is_by_user(message) and any(mark is not None for mark in marks)


def _is_no_word(message: BaseMessage) -> bool:
    """True for a notification, what langgraph-supervisor says for an agent, and notices of LangChain, by no model."""
    is_notice = isinstance(message, AIMessage) and not message.response_metadata and _NOTICE.match(message.text)
    return is_notification(message) or bool(is_notice or message.response_metadata.get("__is_handoff_back"))


class MemoryChatHistory(BaseChatMessageHistory):
    """A LangChain ``BaseChatMessageHistory`` over a conversation of a scope, for ``RunnableWithMessageHistory``.

    ::

        RunnableWithMessageHistory(chain, lambda session_id: MemoryChatHistory(memory, "user/alice", session_id), ...)

    Added messages are queued as by ``add_messages`` of the memory: every search finds them, and they stay in the
    history when they become an episode. They are stored as text with a role or, for one of several users, a ``name``.
    System and tool messages, messages without text, and notifications (summaries) are left out. (LangChain will remove
    ``RunnableWithMessageHistory`` in LangChain 2.0; use ``AgentMemoryMiddleware`` for new code.)

    Args:
        memory: An AgentMemory, or an object with its methods.
        scope: Scope of the conversation.
        conversation: Name of the conversation within the scope, such as a session id; None is the one without a name.
        limit: Maximum number of :attr:`messages`, the last ones, 1 to 1000.
        process: When queued messages are processed: ``background`` leaves it to the memory's worker, ``due`` delays the
            chain for it, ``never`` leaves it to the caller of ``process_due``.

    Raises:
        ValidationError: An argument breaks a rule.
    """

    def __init__(
        self,
        memory: Memory,
        scope: str,
        conversation: str | None = None,
        *,
        limit: int = 1_000,
        process: Process = "background",
    ) -> None:
        self._memory = memory
        self._scope = scopes.parse(scope)
        self._conversation = parse_conversation(conversation)
        self._limit = parse_page_size(limit)
        self._turns = TurnMemory(memory=memory, process=process)

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # LangChain's own histories have a property, too
        """The messages of the conversation, in order.

        Raises:
            MemoryRetrieversError: The memory failed.
        """
        return [*map(_as_langchain, self._memory.transcript(self._scope, self._conversation, limit=self._limit))]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Queue messages, and have due messages processed.

        Raises:
            ValidationError: One of them is no message.
            MemoryRetrieversError: They could not be queued.
        """
        is_pair = isinstance(messages, tuple) and [*map(type, messages)] == [str, str]  # a role and its words
        one_or_more: Any = [messages] if is_pair or isinstance(messages, str | BaseMessage | Mapping) else messages
        try:
            given = convert_to_messages(one_or_more)  # a dict, a pair or a text is one, too
        except Exception:  # noqa: BLE001 - LangChain raises what it stumbles over, and repeats what was given
            needed = "a role and a content; a tool call needs name, args and id, and its answer a tool_call_id"
            raise ValidationError(f"LangChain cannot read this as a message, which needs {needed}") from None
        said = self._turns.said(given)
        self._turns.keep(said, scope=self._scope, conversation=self._conversation)

    def clear(self) -> None:
        """Delete the conversation, queued or in episodes; facts learned from it stay.

        Raises:
            MemoryRetrieversError: The memory failed.
        """
        self._memory.forget_conversation(self._scope, self._conversation)


def _as_langchain(message: Message) -> BaseMessage:
    role = message.role.casefold()
    if is_of_user(role):  # no provider knows the name of a person as a role
        return HumanMessage(message.content, name=None if role == "user" else message.role)
    return AIMessage(message.content) if role == "assistant" else ChatMessage(content=message.content, role=role)
