"""The memory block: recalls long-term memories for LlamaIndex's ``Memory``, and stores messages that leave the chat."""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from sys import getsizeof
from typing import Annotated, Any, Final, Self, TypeAlias

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import BaseMemoryBlock
from llama_index.core.memory import Memory as ChatMemory
from llama_index.core.storage.chat_store.base_db import MessageStatus
from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.ingestion.worker import Process, going_on, process_queue
from memory_retrievers.llama_index import turns
from memory_retrievers.models import DetailLevel
from memory_retrievers.models.fields import ValidatedModel
from memory_retrievers.models.filters import MinRelevance
from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import Report
from memory_retrievers.retrieval.markdown import notes
from memory_retrievers.retrieval.memory import GivenMemory
from memory_retrievers.retrieval.request import asked_by, parse_relevance, parse_zone
from memory_retrievers.retrieval.results import RetrievalResult, parse_detail
from memory_retrievers.scene import PromptFormat, ScenePrompt
from memory_retrievers.settings import MAX_TOKENS, SCENE_BUDGET, SceneSettings
from memory_retrievers.text.analysis import estimate_scene_tokens, estimate_tokens

MARGIN: Final = 1.15
"""Factor on the tokens to cut: token counters differ, and LlamaIndex drops a block that stays too long."""

_Shorter: TypeAlias = Callable[[int], str | None]
"""Renders the same memories in a number of tokens, if possible."""


class LongTermMemoryBlock(ValidatedModel, BaseMemoryBlock[str]):
    """Long-term memories for LlamaIndex's ``Memory``: recalled for every question, made from messages that leave it.

    ::

        block = LongTermMemoryBlock(memory=memory, scope="user/alice")
        chat = Memory.from_defaults(session_id="monday", memory_blocks=[block])
        await agent.run("Where did we stop?", memory=chat)
        await block.aflush(chat)  # at the end of the session

    A turn is recalled once, for the user's last message, and recorded once, however many tools are called in it.

    ``Memory`` passes messages on only when its own queue overflows (from about 21,000 tokens on by default), so a short
    chat reaches the long-term memory by :meth:`aflush`. Each message leaves the queue once, one way or the other. If
    every message must be safe at once, use ``ConversationMemory``. Tool messages, instructions (``system``,
    ``developer``) and empty messages are not stored.

    A chat continues if a model or the store fails, or a function of yours while it recalls: a warning without any text
    is logged, nothing is recalled, and messages that could not be processed stay queued. Only wrong configuration and a
    failure to queue raise.

    With ``Memory.from_defaults(..., insert_method="user")`` LlamaIndex puts the block into the user's last message, so
    that a provider's prompt cache holds up to it. Otherwise it is part of the system message and changes with each
    turn. The session's id is the conversation of its messages.

    A deep copy shares the memory. A pickle, as in a workflow's ``Context``, contains the address of a store opened by
    ``AgentMemory.open``, and opens it again. LlamaIndex leaves out a block that cannot be pickled, such as one with a
    store in memory, with a warning.

    When ``Memory`` runs out of room, the block first leaves out the messages of episodes, then the lowest-ranked
    memories, then itself; with priority 0 LlamaIndex never asks it to. A scene gets a smaller budget.

    Attributes:
        name: Tag around the block in the prompt; unique within a ``Memory``.
        memory: An AgentMemory, or an object with its methods; not part of a dump.
        scope: Whose memory: a path such as ``user/alice``, or a function that is called for it at each use.
        episodic_limit: Maximum number of episodes.
        semantic_limit: Maximum number of facts.
        detail: Which episodes include their messages (specification §2.6).
        min_relevance: Recall nothing below this relevance, 0 to 1. The default is fitted to the embedder, so that a
            greeting recalls nothing.
        max_tokens: Maximum number of tokens recalled for a turn; None sets no limit.
        priority: LlamaIndex's own.
        process: When queued messages become memories: ``background`` leaves it to the memory's worker, ``due`` delays
            the chat for as long as it takes, ``never`` leaves it to the caller of ``process_due``.
        format: ``block`` shows what answers the user, as above. ``scene`` shows the story so far, for role-play: the
            events stored with ``memory.add_scene_events``; if not all fit, those that are relevant to the user's last
            message.
        scene: Settings of the scene; None uses the defaults.
        present: Returns the names of the characters who are present, given the messages; None names none. Not part of
            a dump.
        pov: Show only what these characters know; empty shows everything.
        budget: Maximum number of tokens of the scene.
        chat_length: Returns the number of messages in the chat, counted like the events' ``message_ids``. The default
            counts those in the queue of ``Memory``; if some have left it, pass your own. Not part of a dump.
        token_counter: Counts the tokens of a text; by default a token is four characters.
        time_zone: Time zone of "today" and of the days in blocks: a name such as ``America/Lima``, or a function that
            is called for it at each use. None uses that of the memory's settings.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    name: str = "long_term_memory"
    description: str | None = "What is remembered of earlier conversations."
    priority: int = 1
    memory: GivenMemory = Field(exclude=True, repr=False)
    scope: Annotated[turns.Scope, BeforeValidator(turns.checked_scope)]
    episodic_limit: Annotated[int, Field(ge=0)] = 5
    semantic_limit: Annotated[int, Field(ge=0)] = 20
    detail: Annotated[DetailLevel | str, BeforeValidator(parse_detail)] = DetailLevel.AUTO
    min_relevance: Annotated[MinRelevance, BeforeValidator(parse_relevance)] = "auto"
    max_tokens: Annotated[int, Field(ge=0)] | None = MAX_TOKENS
    process: Process = "background"
    format: PromptFormat = "block"
    scene: SceneSettings | None = None
    present: Callable[[Sequence[ChatMessage]], Sequence[str]] | None = Field(default=None, exclude=True, repr=False)
    pov: tuple[str, ...] = ()
    budget: Annotated[int, Field(ge=1)] = SCENE_BUDGET
    chat_length: Callable[[Sequence[ChatMessage]], int] = Field(default=len, exclude=True, repr=False)
    token_counter: Callable[[str], int] = Field(default=estimate_tokens, exclude=True, repr=False)
    time_zone: Annotated[turns.Zone, BeforeValidator(turns.checked_zone)] = None

    _recall: turns.TurnRecall[RetrievalResult] = PrivateAttr(default_factory=lambda: turns.TurnRecall(turns.size_of))
    _scenes: turns.TurnRecall[str] = PrivateAttr(default_factory=lambda: turns.TurnRecall[str](getsizeof))
    _scene_prompt: ScenePrompt[ChatMessage] = PrivateAttr()
    _shorter: turns.Latest[tuple[str, str], tuple[_Shorter, int]] = PrivateAttr(
        default_factory=lambda: turns.Latest(lambda kept: kept[1])
    )

    def __deepcopy__(self, _memo: object = None) -> Self:
        """A separate block that shares the memory."""
        return self.__reduce__()[0]()

    def __reduce__(self) -> tuple[Callable[[], Self], tuple[()]]:
        """All attributes, with the address of the memory, from which it is opened again."""
        return partial(type(self), **{name: getattr(self, name) for name in type(self).model_fields}), ()

    @model_validator(mode="after")
    def _make_scene_prompt(self) -> Self:
        self._scene_prompt = ScenePrompt(
            memory=self.memory,
            format=self.format,
            settings=self.scene,
            present=self.present,
            pov=self.pov,
            budget=self.budget,
            chat_length=self.chat_length,
        )
        return self

    async def aflush(self, chat: ChatMemory) -> Report:
        """Store the remaining messages of a chat, and process all that are queued: the end of a session.

        The messages leave the chat's queue as if it had overflowed: every block of ``chat`` gets them, and a second
        call, or one after a restart, stores none of them again. ``chat.get_all()`` still returns them.

        Args:
            chat: The ``Memory`` that contains this block. No message may be added meanwhile.

        Returns:
            Report of the episodes and facts made from the conversation of the chat's ``session_id``.

        Raises:
            ConfigurationError: The block is not part of ``chat``, or the memory cannot be written.
            LanguageModelError: A language model failed; messages that were not processed stay queued.
            EmbeddingError: The embedder failed, likewise.
        """
        others = [block for block in chat.memory_blocks if block is not self]
        if len(others) == len(chat.memory_blocks):
            raise ConfigurationError(f"block {self.name!r} is not part of this Memory: flush one that it was given to")
        scope = turns.scope_of(self.scope)
        # hand on the queue: to the end, also where nobody waits for it any more, so that no message goes twice
        await asyncio.shield(self._handed_on(chat, others, scope))
        self._recall.forget((scope, chat.session_id))  # the same question is the first of a new chat from now on
        self._scenes.forget((scope, chat.session_id))
        return await asyncio.to_thread(self.memory.flush, scope, chat.session_id)

    async def _handed_on(self, chat: ChatMemory, others: Sequence[BaseMemoryBlock[Any]], scope: str) -> None:
        """Pass the queue to all blocks, to this one last, so that a failure doubles nothing here; then empty it."""
        waiting = await chat.aget_all(status=MessageStatus.ACTIVE)
        for block in others:
            await block.aput(waiting, from_short_term_memory=True, session_id=chat.session_id)
        if self.accept_short_term_memory:
            await asyncio.to_thread(turns.queue_messages, self.memory, scope, waiting, conversation=chat.session_id)
        await chat.sql_store.archive_oldest_messages(chat.session_id, n=len(waiting))

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Return the memories with less detail or, if that is not enough, the best of them; None if none fits."""
        if not content:
            return None
        with going_on("nothing was recalled"):
            room = self.token_counter(content) - math.ceil(MARGIN * tokens_to_truncate)
            return await asyncio.to_thread(self._truncated, content, room)
        return None

    async def _aget(self, messages: list[ChatMessage] | None = None, session_id: str | None = None, **_: object) -> str:
        return await asyncio.to_thread(self._recalled, messages or [], session_id)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        await asyncio.to_thread(self._stored, messages)

    def _recalled(self, messages: list[ChatMessage], session_id: str | None) -> str:
        scope, turn = turns.scope_of(self.scope), turns.last_turn(messages)
        is_search = self._scene_prompt.format != "scene" and turn is not None and turn.asks
        zone = parse_zone(turns.zone_of(self.time_zone)) if is_search else None  # an unknown one is the host's to mend
        with going_on("nothing was recalled"):
            return self._content(messages, scope, session_id, turn, zone)
        return ""

    def _content(
        self, messages: list[ChatMessage], scope: str, session_id: str | None, turn: turns.Turn | None, zone: str | None
    ) -> str:
        shorter: _Shorter
        size = 0
        if self._scene_prompt.format == "scene":
            render = partial(self._scene, messages, scope)
            content = render() if turn is None else self._scenes((scope, session_id), turn, lambda _: render())
            shorter = partial(self._shortened_scene, render, content)
        elif turn is not None and turn.asks:
            retrieved = partial(self._retrieved, scope=scope, zone=zone, in_prompt=turns.spoken(messages))
            found = self._recall((scope, session_id), turn, retrieved)
            if not (found.semantic or found.episodic):  # so a chat that is reset may ask the same anew
                self._recall.forget((scope, session_id))
            content = self._rendered(found, self.detail)
            shorter, size = partial(self._shortened, found, partial(retrieved, turn.asks)), turns.size_of(found)
        else:
            return ""
        if content:
            self._shorter.keep((scope, content), (shorter, size + 2 * getsizeof(content)))
        return content

    def _stored(self, messages: list[ChatMessage]) -> None:
        scope = turns.scope_of(self.scope)
        for session, said in groupby(messages, key=lambda message: message.additional_kwargs.get("session_id")):
            conversation = None if session is None else str(session)
            if turns.queue_messages(self.memory, scope, [*said], conversation=conversation):
                process_queue(self.memory, scope, process=self.process)

    def _truncated(self, content: str, room: int) -> str | None:
        kept = self._shorter.get((turns.scope_of(self.scope), content))  # two scopes may hold the same text
        return kept[0](room) if kept is not None and room > 0 else None

    def _rendered(self, found: RetrievalResult, detail: DetailLevel | str) -> str:
        text = found.to_markdown(detail, max_tokens=self.max_tokens, token_counter=self.token_counter)
        return notes(text, tag=self.name)

    def _shortened(self, shown: RetrievalResult, retrieved: Callable[..., RetrievalResult], room: int) -> str | None:
        render = partial(self._rendered, detail=DetailLevel.NONE)

        def best(count: int) -> str:
            return render(retrieved(limit=count, record=False))

        # 1. less detail
        text = render(shown)
        if self.token_counter(text) <= room:
            return text
        # 2. fewer memories: the most of them that fit
        counts = range(1, len(shown.semantic) + len(shown.episodic))
        fitting = bisect_right(counts, room, key=lambda count: self.token_counter(best(count)))
        return best(fitting) if fitting else None

    def _scene(self, messages: list[ChatMessage], scope: str, *, budget: int | None = None) -> str:
        turn = turns.last_turn(messages)
        query = asked_by(self.memory, turn.asks, said=turns.spoken(messages)) if turn and turn.asks else ""
        return notes(self._scene_prompt.render(messages, scope=scope, query=query, budget=budget), tag=self.name)

    def _shortened_scene(self, render: Callable[..., str], content: str, room: int) -> str | None:
        # a scene counts tokens in its own way: start with what the room is worth there, and come down until it fits
        budget = min(self.budget, room * estimate_scene_tokens(content) // self.token_counter(content))
        while budget > 0:
            text = render(budget=budget)
            tokens = self.token_counter(text)
            if tokens <= room:
                return text
            budget = budget * room // tokens
        return None

    def _retrieved(
        self,
        query: str,
        *,
        scope: str,
        zone: str | None,
        in_prompt: Sequence[Message],
        limit: int | None = None,
        record: bool = True,
    ) -> RetrievalResult:
        return self.memory.retrieve(
            asked_by(self.memory, query, said=in_prompt),
            scope=scope,
            episodic_limit=self.episodic_limit,
            semantic_limit=self.semantic_limit,
            limit=limit,
            record=record,
            in_prompt=in_prompt,
            min_relevance=self.min_relevance,
            time_zone=zone,
        )
