"""Open episodes: what was said in a conversation and still waits to become an episode, as searches see it."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from array import array
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from memory_retrievers import fsrs
from memory_retrievers.errors import EmbeddingError, NotFoundError
from memory_retrievers.models import EpisodicMemory, Origin, SummaryBy
from memory_retrievers.models.messages import Message, is_of_user
from memory_retrievers.models.selection import Embedded, Vector, Vectors
from memory_retrievers.models.storage import PROBE, OpenMessage, QueuedMessage
from memory_retrievers.text.analysis import analyze, one_line
from memory_retrievers.text.languages import forget_words
from memory_retrievers.text.passages import message_passage, said_terms, said_text

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.ledger import SQLLedger
    from memory_retrievers.storage.embedder import ProbedEmbedder, StoreEmbedder

EMBEDDED_BY_SEARCH: Final = 64
"""So many messages, the newest without a vector, are embedded by a search; the worker embeds the rest."""

EMBEDDED_TOGETHER: Final = 32  # by the worker, and stored: of more scopes PostgreSQL keeps every other writer waiting
PARTS_OF_REFUSED: Final = 8  # a request that is refused is made again in so many, to find what is refused in it
MOST_REFUSED: Final = 5  # after so many in a row it is asked what it has embedded before, to see whether it is down

KEPT_BYTES: Final = 20 * 2**20  # that turns take in memory, of the scopes searched last: some 4,000 short messages
KEPT_OF_LAST: Final = 160 * 2**20  # of the scope searched last: what is not kept is read again by each search
_MOST_UNSTORED: Final = 4_096  # messages whose vectors are kept where nothing may be written
REMEMBERED_TEXTS: Final = 512  # vectors of the last looks at queues that are kept: those of eight of the longest
REMEMBERED_SECONDS: Final = 60.0  # after the last look at them: another process may have forgotten the texts
TITLE_LENGTH: Final = 60  # characters of the title that the first words of the user make

_NAMESPACE: Final = uuid.UUID("b0b3ef2c-7b8d-5d6e-8e6e-6a2d7f1c9a54")

_logger = logging.getLogger("memory_retrievers")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTurn:
    """A queued message as the ranking sees it."""

    row: int  # number of the message
    scope: str  # its scope
    conversation: str | None  # its conversation
    id: str  # its id
    said: int  # hash of role and content, by which it is known again
    role: str  # who speaks
    timestamp: datetime  # when
    terms: Mapping[str, int] | None  # how often each term stands in it; None if it has no visible text
    words: array[int]  # hashes of the terms of what it says, in order, as far as its tokens may be of them
    tells_time: bool  # whether it tells when something happens
    embedded: Embedded | None  # what the embedder makes of it; None if nobody has embedded it yet

    @property
    def size(self) -> int:
        """About how many bytes it takes in memory."""
        vectors = 0 if self.embedded is None else self.embedded.vector.nbytes + len(self.embedded.tokens or b"")
        return 1_000 + 100 * len(self.terms or ()) + 8 * len(self.words) + vectors


@dataclass(frozen=True, slots=True)
class OpenEpisode:
    """What a request may see of a conversation that is still queued: the id of its first message, and some turns."""

    first: str
    turns: tuple[OpenTurn, ...]

    @property
    def row(self) -> int:
        """What stands for it among the rows of the ledger, which are above 0."""
        return -self.turns[0].row


_Searched: TypeAlias = tuple[str, bool]
"""The scopes that a search reads together: one, and whether those below it are included."""


class _Kept(NamedTuple):
    """The newest turns of what was searched, by their rows, and about how many bytes they take."""

    turns: dict[int, OpenTurn]
    size: int


class OpenEpisodes:
    """Messages that are queued, found by searches before they are part of an episode.

    The queue is what they are read from: a message is in it or in an episode, and one transaction moves it. Nothing
    is written for a search but vectors, which go on to the episode.
    """

    def __init__(self, ledger: SQLLedger, embedder: StoreEmbedder, *, read_only: bool) -> None:
        self._ledger = ledger
        self._embedder = embedder
        self._read_only = read_only
        self._lock = threading.Lock()
        self.kept: OrderedDict[_Searched, _Kept] = OrderedDict()
        self._unstored: dict[int, Embedded] = {}
        self._looked: dict[int, tuple[float, Vector]] = {}  # with the time, by the hash of the text, oldest first
        self._doubted: set[int] = set()  # rows that were refused at the last look: it may have been by chance
        self._refused: set[int] = set()  # rows, of which the worker asks no more until something is forgotten
        self._state: object = None
        self._cleared = 0

    def prepare(self, rows: Sequence[int]) -> bool:
        """Embed the newest of these messages, as far as a search does; those that fail are left to words.

        Called before a search, outside any transaction, for messages that have no vector; False if all have one, or
        are refused by the embedder.
        """
        missing = sorted(row for row in rows if row not in self._unstored and row not in self._refused)
        if not missing:
            return False
        try:
            self._embed(missing[-EMBEDDED_BY_SEARCH:])
        except EmbeddingError as error:
            _logger.warning("queued messages could not be embedded and are found by words: %s", type(error).__name__)
        return True

    def embed_rest(self, *, ends: Callable[[], bool] = lambda: False) -> None:
        """Embed what has no vector, of many scopes at once, until it ``ends``; one that is refused holds up no others.

        Raises:
            EmbeddingError: The embedder is down.
        """
        self._let_go_of_old()
        last, in_a_row = 0, 0
        failure: EmbeddingError | None = None
        refused: set[int] = set()
        while not ends() and (missing := self._ledger.open_episodes.unembedded(after=last, limit=EMBEDDED_TOGETHER)):
            parts = [[row for row in missing if row not in self._refused]]
            while parts:
                part = parts.pop()
                try:
                    self._embed(part)
                    in_a_row = 0
                except EmbeddingError as error:
                    failure, in_a_row = failure or error, in_a_row + 1
                    if in_a_row % MOST_REFUSED == 0:
                        self._embedder.current().embed_documents([PROBE])
                    if len(part) == 1:
                        refused.update(part)
                        continue
                    size = max(1, len(part) // PARTS_OF_REFUSED)
                    parts += [part[at : at + size] for at in range(0, len(part), size)]
            last = missing[-1]
        if failure is not None:
            self._embedder.current().embed_documents([PROBE])
            _logger.warning("%d messages were refused by the embedder: %s", len(refused), type(failure).__name__)
            self._refused |= refused & self._doubted
        self._doubted = refused

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed n texts to look at a queue, shape (n, d); each look shares some with the one before."""
        import numpy as np  # here, so that importing the package loads no numpy

        embedder, cleared = self._embedder.current(), self._cleared
        with self._lock:
            self._follow(embedder)
            known = {key: vector for key, (_, vector) in self._looked.items()}
        wanted = {hash(text): text for text in texts if hash(text) not in known}
        if wanted or not texts:
            vectors = embedder.embed_documents([*wanted.values()])
            known |= {key: vector.copy() for key, vector in zip(wanted, vectors, strict=True)}  # no views of a batch
        recent = {hash(text): known[hash(text)] for text in texts}
        with self._lock:
            if cleared == self._cleared and self._state == embedder.state:
                looked = {key: (time.monotonic(), vector) for key, vector in recent.items()}
                kept = {key: each for key, each in self._looked.items() if key not in looked}
                self._looked = dict([*kept.items(), *looked.items()][-REMEMBERED_TEXTS:])
        return np.array([known[hash(text)] for text in texts]) if texts else vectors

    def turns(self, scope: str, *, include_child_scopes: bool) -> list[OpenTurn]:
        """What is queued now, conversation by conversation, in the order it came."""
        self._let_go_of_old()
        cleared = self._cleared
        places = self._ledger.open_episodes.places(scope, include_child_scopes=include_child_scopes)
        if not places:
            self.drop(scope, include_child_scopes=include_child_scopes)
            return []
        searched = (scope, include_child_scopes)
        known = self._known(searched, self._embedder.latest())
        wanted = [
            each.row
            for each in places
            if (turn := known.get(each.row)) is None or (each.is_embedded and turn.embedded is None)
        ]
        read = self._ledger.open_episodes.read(wanted, with_vectors=True)
        known |= {each.row: _turn(each, self._unstored.get(each.row)) for each in read}
        turns = {each.row: known[each.row] for each in places if each.row in known}
        with self._lock:
            if cleared == self._cleared and (wanted or len(turns) < len(known)):
                self._keep(searched, turns)
        return list(turns.values())

    def drop(self, scope: str, *, include_child_scopes: bool) -> None:
        """Keep nothing of queues that are empty now: another process may have forgotten what was in them."""
        with self._lock:
            if self.kept.pop((scope, include_child_scopes), None) is not None:
                forget_words()  # and no question: more often they are empty since they became episodes

    def memories(self, episodes: Sequence[OpenEpisode]) -> list[EpisodicMemory | None]:
        """Open episodes as memories, in the order given; None where all that is seen of one is queued no more."""
        rows = [turn.row for each in episodes for turn in each.turns]
        messages = {each.row: each for each in self._ledger.open_episodes.read(rows)}
        left = [[messages[turn.row] for turn in each.turns if turn.row in messages] for each in episodes]
        return [episode_of(its, first=each.first) if its else None for its, each in zip(left, episodes, strict=True)]

    def episodes(self, scope: str, *, include_child_scopes: bool = False) -> list[EpisodicMemory]:
        """List the open episodes, by scope and conversation, with all that is queued of them."""
        places = self._ledger.open_episodes.places(scope, include_child_scopes=include_child_scopes)
        messages = {each.row: each for each in self._ledger.open_episodes.read([place.row for place in places])}
        queued = [messages[place.row] for place in places if place.row in messages]
        return [episode_of(list(each)) for _, each in groupby(queued, key=lambda m: (m.scope, m.conversation))]

    def vectors(
        self, messages: Sequence[QueuedMessage], *, scope: str, conversation: str | None
    ) -> dict[str, Embedded]:
        """Vectors of queued messages by the text that was embedded; of those that have one.

        Args:
            messages: The first of a conversation.
            scope: Scope of the conversation.
            conversation: The conversation.
        """
        rows = self._ledger.open_episodes.first(scope, conversation, limit=len(messages))
        known = {each.id: each.embedded for each in self._ledger.open_episodes.read(rows, with_vectors=True)}
        return {said_text(message): each for its_id, message in messages if (each := known.get(its_id)) is not None}

    def get(self, id: str, *, scope: str) -> EpisodicMemory:
        """The open episode of this id."""
        return episode_of(self._conversation(id, scope=scope))

    def forget(self, id: str, *, scope: str) -> None:
        """Delete the queued messages of an open episode; whoever is about to make an episode of them stores nothing."""
        with self._ledger.database.write(scope):
            first = self._conversation(id, scope=scope)[0]
            self._ledger.open_episodes.forget(scope, first.conversation)
        self.clear()

    def rows_of(self, scope: str, is_meant: Callable[[Message], bool]) -> list[int]:
        """The rows of the queued messages that are meant."""
        rows = [place.row for place in self._ledger.open_episodes.places(scope)]
        return [each.row for each in self._ledger.open_episodes.read(rows) if is_meant(each.message)]

    def clear(self) -> None:
        """Drop all messages from memory with their words, including those that are being read now."""
        self._ledger.snapshots.forget_words()
        with self._lock:
            self._cleared += 1
            self._drop_all()

    def _let_go_of_old(self) -> None:
        with self._lock:
            while self._looked and time.monotonic() - next(iter(self._looked.values()))[0] > REMEMBERED_SECONDS:
                del self._looked[next(iter(self._looked))]

    def _conversation(self, id: str, *, scope: str) -> list[OpenMessage]:
        places = self._ledger.open_episodes.places(scope)
        firsts = [next(queued).row for _, queued in groupby(places, key=lambda place: place.conversation)]
        for first in self._ledger.open_episodes.read(firsts):
            if open_id(scope, first.id) == id:
                return self._ledger.open_episodes.read([p.row for p in places if p.conversation == first.conversation])
        raise NotFoundError(f"Memory not found: {id}")

    def _embed(self, rows: Sequence[int]) -> None:
        """Embed messages outside any transaction, and keep the vectors if they are still of the store's embedder."""
        while True:
            embedder = self._embedder.current()
            messages = [
                each for each in self._ledger.open_episodes.read(rows) if message_passage(each.message) is not None
            ]
            if not messages:
                return
            with self._lock:
                self._follow(embedder)
            vectors = embedder.embed_passages([said_text(each.message) for each in messages])
            made = {each.row: vector for each, vector in zip(messages, vectors, strict=True)}
            if self._read_only:
                with self._lock:
                    self._unstored = dict(list((self._unstored | made).items())[-_MOST_UNSTORED:])
                return
            scopes = sorted({each.scope for each in messages})
            for at in range(0, len(scopes), EMBEDDED_TOGETHER):
                part = scopes[at : at + EMBEDDED_TOGETHER]
                with self._ledger.database.write(*part):
                    if not self._embedder.admits(embedder):
                        break
                    found = {each.row: made[each.row] for each in messages if each.scope in part}
                    self._ledger.open_episodes.keep_vectors(part, found)
            else:
                return

    def _known(self, searched: _Searched, embedder: ProbedEmbedder) -> dict[int, OpenTurn]:
        with self._lock:
            self._follow(embedder)
            if kept := self.kept.get(searched):
                self.kept.move_to_end(searched)
            return dict(kept.turns) if kept else {}

    def _follow(self, embedder: ProbedEmbedder) -> None:
        """Drop the vectors of another embedder; that the store has its first ones makes none of them another's."""
        before_first = embedder.state and embedder.state._replace(probe=None)
        if self._state not in {embedder.state, before_first}:
            self._drop_all()
        self._state = embedder.state

    def _drop_all(self) -> None:
        for kept in (self.kept, self._unstored, self._looked, self._doubted, self._refused):
            kept.clear()

    def _keep(self, searched: _Searched, turns: dict[int, OpenTurn]) -> None:
        """Keep the newest of these, as many as there is room for, and what was searched before them as well."""
        newest, size = list[OpenTurn](), 0
        for turn in reversed(turns.values()):
            if (larger := size + turn.size) > KEPT_OF_LAST:
                break
            newest.append(turn)
            size = larger
        self.kept[searched] = _Kept({turn.row: turn for turn in reversed(newest)}, size)
        self.kept.move_to_end(searched)
        while len(self.kept) > 1 and sum(kept.size for kept in self.kept.values()) > KEPT_BYTES:
            self.kept.popitem(last=False)


def open_id(scope: str, first: str) -> str:
    """Id of an open episode, from its scope and the id of the first message that is queued."""
    return str(uuid.uuid5(_NAMESPACE, f"{scope}\n{first}"))


def episode_of(messages: Sequence[OpenMessage], *, first: str | None = None) -> EpisodicMemory:
    """An open episode of the messages it shows, at least one: titled by the user's first words, and never forgotten.

    Where they are not all, ``first`` is the id of the first message of the conversation that is queued.
    """
    shown = tuple(each.message for each in messages)
    times = [message.timestamp for message in shown if message.timestamp is not None]
    state = fsrs.initial_state(surprise=0.0)
    return EpisodicMemory(
        scope=messages[0].scope,
        id=open_id(messages[0].scope, first or messages[0].id),
        title=_title(shown),
        summary="",
        messages=shown,
        conversation_id=messages[0].conversation,
        summary_by=SummaryBy.RULES,
        is_open=True,
        origin=Origin.CONVERSATION,
        created_at=times[0],
        updated_at=times[-1],
        start_at=min(times),
        end_at=max(times),
        stability=state.stability,
        difficulty=state.difficulty,
        last_reviewed_at=times[-1],
    )


def _title(messages: Sequence[Message]) -> str:
    said = next((message for message in messages if is_of_user(message.role)), messages[0])
    line = one_line(said.content)
    return line if len(line) <= TITLE_LENGTH else f"{line[: TITLE_LENGTH - 1].rstrip()}…"


def _turn(queued: OpenMessage, unstored: Embedded | None) -> OpenTurn:
    passage = message_passage(queued.message)
    terms = () if passage is None else analyze(passage.text)
    assert queued.message.timestamp is not None  # noqa: S101 - given on arrival
    return OpenTurn(
        row=queued.row,
        scope=queued.scope,
        conversation=queued.conversation,
        id=queued.id,
        said=hash((queued.message.role, queued.message.content)),
        role=queued.message.role,
        timestamp=queued.message.timestamp,
        terms=None if passage is None else Counter(terms),
        words=array("q") if passage is None else said_terms(passage.text, terms),
        tells_time=passage is not None and passage.tells_time,
        embedded=unstored if queued.embedded is None else queued.embedded,
    )
