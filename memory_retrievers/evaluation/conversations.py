"""Conversations of several sessions with questions and gold evidence, and stores filled with them."""

from __future__ import annotations

import hashlib
import json
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import Final, Self

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.ingestion.extractive import fallback_summary, fallback_title, term_counts
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import EpisodicDraft, EpisodicMemory, Origin, Rating, SummaryBy
from memory_retrievers.models.messages import Message
from memory_retrievers.models.selection import Embedded, Vector, Vectors
from memory_retrievers.protocols import Embedder, TokenEmbedder
from memory_retrievers.settings import RetrievalSettings

PACE: Final = timedelta(seconds=1)  # between two turns of a session, where only the session has a time
LATER: Final = timedelta(days=1)  # time from the last session to the questions

_SORTS: Final = ("documents", "queries", "documents by tokens", "queries by tokens")  # what a text is embedded as


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A message of a conversation."""

    id: str  # unique in the conversation
    speaker: str  # who says it
    text: str  # what; not blank


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Turns of one session, which becomes one episode."""

    id: str  # unique in the conversation; the id of the episode
    at: datetime  # when it began, in UTC
    turns: tuple[Turn, ...]  # at least one, in order

    def messages(self) -> tuple[Message, ...]:
        """Return the turns as messages; the speaker is the role."""
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
        """The time at which the questions are asked."""
        return self.sessions[-1].at + LATER

    @cached_property
    def session_of(self) -> Mapping[str, str]:
        """The id of the session of each turn."""
        return {turn.id: session.id for session in self.sessions for turn in session.turns}

    @cached_property
    def turns(self) -> Mapping[str, Turn]:
        """The turns by their ids, in order."""
        return {turn.id: turn for session in self.sessions for turn in session.turns}

    def drafts(self) -> list[EpisodicDraft]:
        """Return an episode for each session, with title and summary made by rules.

        Rarity of words is measured against the sessions so far, as when messages arrive one by one.
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
"""Maximum size of an input file. LoCoMo has 3 MB, and parsed JSON takes about ten times the space of its text."""


def read_text(path: Path) -> str:
    """Read the text of a file of at most :data:`MAX_BYTES`.

    Raises:
        ConfigurationError: The file cannot be read.
        ValidationError: It is longer, or not UTF-8.
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
        raise ValidationError(f"{path} is not UTF-8 text: {error}") from error


class RememberedVectors:
    """An embedder that caches the vectors of another, under its id.

    Raises:
        ConfigurationError: The file exists and does not contain vectors of this embedder.
    """

    def __init__(self, embedder: Embedder, *, file: Path | None = None) -> None:
        self._embedder = embedder
        self._file = file
        self._lock = threading.Lock()
        self._known: dict[str, dict[str, Embedded]] = {sort: {} for sort in _SORTS}
        if isinstance(embedder, TokenEmbedder):
            self.embed_tokens = self._embed_tokens
        if file is not None and file.exists():
            self._load(file)

    @property
    def id(self) -> str:
        """The id of the cached embedder."""
        return self._embedder.id

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts, each distinct one once: a unit vector per text, shape (n, d)."""
        import numpy as np

        if not texts:
            return self._embedder.embed_documents(texts)
        vectors = self._remembered("documents", texts, lambda new: map(Embedded, self._embedder.embed_documents(new)))
        return np.array([each.vector for each in vectors])

    def embed_query(self, text: str) -> Vector:
        """Embed a query, once; shape (d,)."""
        return self._remembered("queries", [text], lambda _: [Embedded(self._embedder.embed_query(text))])[0].vector

    def _embed_tokens(self, texts: Sequence[str], *, is_query: bool = False) -> list[Embedded]:
        """Embed texts by their tokens, each distinct text once."""
        assert isinstance(self._embedder, TokenEmbedder)  # noqa: S101 - only then it is offered
        sort = "queries by tokens" if is_query else "documents by tokens"
        return self._remembered(sort, texts, partial(self._embedder.embed_tokens, is_query=is_query))

    def _remembered(
        self, sort: str, texts: Sequence[str], embed: Callable[[list[str]], Iterable[Embedded]]
    ) -> list[Embedded]:
        known, said = self._known[sort], [text.encode("utf-8", "surrogatepass") for text in texts]
        keys = [hashlib.blake2b(text, digest_size=16).hexdigest() for text in said]
        with self._lock:
            new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
            known.update(zip(new, embed(list(new.values())) if new else (), strict=True))
            return [known[key] for key in keys]

    def save(self) -> None:
        """Save what was embedded to the file, if there is one, completely or not at all."""
        import numpy as np

        if self._file is None or not any(self._known.values()):
            return
        arrays = {"embedder": np.array(self.id)}
        for sort, known in self._known.items():
            others = [(key, each.tokens and each.tokens.hex(), each.words) for key, each in known.items()]
            arrays[f"{sort}: others"] = np.array(json.dumps(others))
            arrays[f"{sort}: vectors"] = np.array([each.vector for each in known.values()])
        unfinished = self._file.with_name(f"{self._file.name}.unfinished")
        try:
            with unfinished.open("wb") as opened:
                np.savez(opened, allow_pickle=False, **arrays)
            unfinished.replace(self._file)
        except OSError as error:
            raise ConfigurationError(f"{self._file} cannot be written: {error.strerror}") from error

    def _load(self, file: Path) -> None:
        import numpy as np

        try:
            with np.load(file, allow_pickle=False) as kept:
                embedder = str(kept["embedder"])
                known = {sort: _read(str(kept[f"{sort}: others"]), kept[f"{sort}: vectors"]) for sort in _SORTS}
        except Exception as error:
            raise ConfigurationError(f"{file} was not written by an evaluation of this version: remove it") from error
        if embedder != self.id:
            raise ConfigurationError(f"{file} holds vectors of {embedder}, not of {self.id}: name another file")
        self._known = known


def _read(others: str, vectors: Vectors) -> dict[str, Embedded]:
    return {
        key: Embedded(vector, tokens and bytes.fromhex(tokens), tuple(words))
        for (key, tokens, words), vector in zip(json.loads(others), vectors, strict=True)
    }


@dataclass
class MovableClock:
    """A clock that is set by hand."""

    moment: datetime  # what it is set to

    def now(self) -> datetime:
        """Return the time it is set to."""
        return self.moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A use of a memory that proved helpful."""

    scope: str  # the scope of the memory
    session: str  # the session it is of
    at: datetime


class FilledStores:
    """Conversations in stores in a temporary directory, until the end of a ``with`` statement.

    Each session is an episode, and each conversation a scope of a store.

    Args:
        conversations: The conversations.
        embedder: The embedder.
        uses: Uses of memories before the questions are asked, in order of time.
        live: Queue every session message by message, and ask at once; each session is then an open episode.
    """

    def __init__(
        self, conversations: Sequence[Conversation], *, embedder: Embedder, uses: Sequence[Use] = (), live: bool = False
    ) -> None:
        self.conversations = tuple(conversations)
        self.embedder = embedder
        self.live = live
        self._uses = tuple(uses)
        self._directory = tempfile.TemporaryDirectory(prefix="memory-retrievers-")
        self._filled: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._directory.cleanup()

    @contextmanager
    def opened(self, settings: RetrievalSettings) -> Iterator[tuple[AgentMemory, MovableClock]]:
        """Open the store for these settings, and return it with its clock."""
        clock = MovableClock(max(conversation.asked_at for conversation in self.conversations))
        place = Path(self._directory.name) / settings.passages
        if settings.passages not in self._filled:
            whole = RetrievalSettings(passages=settings.passages)  # whatever any of the settings may need
            with AgentMemory.open(place, embedder=self.embedder, retrieval=whole, clock=clock) as memory:
                self._fill(memory, clock)
            self._filled.add(settings.passages)
        with AgentMemory.open(place, embedder=self.embedder, retrieval=settings, clock=clock) as memory:
            yield memory, clock

    def asked_at(self, conversation: Conversation) -> datetime:
        """Return the time at which the questions of a conversation are asked."""
        last = conversation.sessions[-1]
        return last.at + PACE * len(last.turns) if self.live else conversation.asked_at

    def _fill(self, memory: AgentMemory, clock: MovableClock) -> None:
        for conversation in self.conversations:
            if not self.live:
                memory.remember_many(conversation.drafts())
                continue
            for session in conversation.sessions:
                for message in session.messages():
                    clock.moment = message.timestamp or session.at
                    memory.add_messages(conversation.scope, [message], conversation=session.id)
        for use in self._uses:
            clock.moment = use.at
            memory.review(use.session, scope=use.scope, rating=Rating.GOOD)
