"""Conversations of several sessions with questions and gold evidence, which are turned into episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Final

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.ingestion.extractive import fallback_summary, fallback_title, term_counts
from memory_retrievers.models import EpisodicDraft, EpisodicMemory, Origin, SummaryBy
from memory_retrievers.models.messages import Message

PACE: Final = timedelta(seconds=1)  # between two turns of a session, where only the session has a time
LATER: Final = timedelta(days=1)  # time from the last session to the questions


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Something that was said."""

    id: str  # unique in the conversation
    speaker: str  # who says it
    text: str  # what; not blank


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Turns of one sitting; it becomes one episode."""

    id: str  # unique in the conversation; the id of the episode
    at: datetime  # when it began, in UTC
    turns: tuple[Turn, ...]  # at least one, in order

    def messages(self) -> tuple[Message, ...]:
        """The turns as messages; the speaker is the role."""
        return tuple(
            Message(role=turn.speaker, content=turn.text, timestamp=self.at + PACE * place)
            for place, turn in enumerate(self.turns)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, and the turns that answer it."""

    text: str  # the question
    category: str  # what sort of question it is; figures are also given by category
    gold: frozenset[str]  # the ids of the turns that are needed for the answer; at least one


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """Sessions and the questions about them."""

    scope: str  # where its episodes are kept
    sessions: tuple[Session, ...]  # in the order of time
    questions: tuple[Question, ...]  # what is asked a day after the last session

    @property
    def asked_at(self) -> datetime:
        """The moment at which the questions are asked."""
        return self.sessions[-1].at + LATER

    @property
    def ended_at(self) -> datetime:
        """The moment after the last turn."""
        last = self.sessions[-1]
        return last.at + PACE * len(last.turns)

    @cached_property
    def session_of(self) -> Mapping[str, str]:
        """The id of the session of each turn."""
        return {turn.id: session.id for session in self.sessions for turn in session.turns}

    @cached_property
    def turns(self) -> Mapping[str, Turn]:
        """The turns by their ids, in order."""
        return {turn.id: turn for session in self.sessions for turn in session.turns}

    def drafts(self) -> list[EpisodicDraft]:
        """One episode for each session, with the title and the summary that are made without a language model.

        The words of the sessions so far are what rarity is measured against, as when messages arrive one by one.
        """
        words: Counter[str] = Counter()
        drafts = []
        for session in self.sessions:
            messages = session.messages()
            words.update(term_counts(message.content for message in messages))
            drafts.append(
                EpisodicMemory.new(
                    scope=self.scope,
                    id=session.id,
                    title=fallback_title(messages, words),
                    summary=fallback_summary(messages, words),
                    summary_by=SummaryBy.RULES,
                    messages=messages,
                    start_at=messages[0].timestamp,
                    end_at=messages[-1].timestamp,
                    created_at=messages[-1].timestamp,
                    origin=Origin.CONVERSATION,
                )
            )
        return drafts


MAX_BYTES: Final = 100_000_000
"""Largest size of an input file. LoCoMo has 3 MB, and parsed JSON takes about ten times the space of its text."""


def read_text(path: Path) -> str:
    """The text of a file; not a byte beyond :data:`MAX_BYTES` is read.

    Raises:
        ConfigurationError: The file cannot be read.
        ValidationError: It is longer, or no UTF-8.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise ValidationError(f"{path} has more than {MAX_BYTES:,} bytes: measure with a part of it")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValidationError(f"{path} is no UTF-8 text: {error}") from error
