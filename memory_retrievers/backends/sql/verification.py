"""Checks a whole store, memories, passages, vectors and postings; and what its tables say of its state at a glance."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

import numpy as np

from memory_retrievers.backends.sql import characters, events
from memory_retrievers.backends.sql.connection import Connection, Database, Dialect, one
from memory_retrievers.backends.sql.contents import RawMemory, RawPassage, all_rows, read_page
from memory_retrievers.backends.sql.passages import holding
from memory_retrievers.backends.sql.rows import UNREADABLE, decode
from memory_retrievers.errors import BackendError
from memory_retrievers.models import AnyMemory, Category, Kind
from memory_retrievers.models.contents import MOVING, Problems, VerificationReport
from memory_retrievers.models.fields import moment
from memory_retrievers.models.selection import MAX_LENGTH_ERROR, TOKEN_WIDTHS, Passage
from memory_retrievers.text.analysis import analyze
from memory_retrievers.text.passages import passage_text, passage_texts, turn_place

PAGE: Final = 256  # passages in a page

_KINDS: Final = frozenset(Kind)
_EMBEDDER: Final = "SELECT value FROM notes WHERE name = 'embedder_id'"

# The page comes first, whatever the planner believes: a database that was just restored has no statistics.
_PASSAGES: Final = """
    SELECT p.id, p.memory, s.scope, m.kind, p.part, c.text
    FROM (SELECT * FROM passages WHERE id > ? ORDER BY id LIMIT ?) p
    LEFT JOIN passage_contents c ON c.passage = p.id {c_beside}
    LEFT JOIN memories m ON m.row = p.memory {m_beside} LEFT JOIN scopes s ON s.id = m.scope_id ORDER BY p.id
"""

# Of the words of some passages, in one scan each; by range, since no planner takes a list of passages for what it is.
_OF_PAGE: Final = "passage BETWEEN :first AND :last"
_POSTINGS: Final = f"""
    SELECT passage, term, memory, frequency, length FROM postings WHERE {{within}} AND {{among_terms}} AND {_OF_PAGE}
"""
_STATISTICS: Final = """
    SELECT s.scope, k.scope_id, substr(k.kind, 1, {position}(k.kind || ':', ':') - 1) AS field,
        CAST(sum(k.passages) AS BIGINT), CAST(sum(k.terms) AS BIGINT)
    FROM keyword_statistics k LEFT JOIN scopes s ON s.id = k.scope_id GROUP BY s.scope, k.scope_id, field
    HAVING sum(k.passages) <> 0 OR sum(k.terms) <> 0
"""


def read_passages(connection: Connection) -> Iterator[list[Passage]]:
    """Yield all passages that have a text, in pages, by id."""
    beside, last = connection.dialect.beside, -1
    next_page = _PASSAGES.format(c_beside=beside("c", "p"), m_beside=beside("m", "p"))
    while page := connection.execute(next_page, (last, PAGE)).fetchall():
        yield [
            Passage(id=passage, memory=memory, scope=scope, kind=Kind(kind), part=part, text=text)
            for passage, memory, scope, kind, part, text in page
            if isinstance(text, str) and kind in _KINDS and scope is not None  # a damaged file may hold anything
        ]
        last = page[-1][0]


def verify_postings(database: Database) -> VerificationReport:
    """Compare postings and statistics with the texts, page by page."""
    problems, postings = Problems(), 0
    try:
        with database.read(snapshot=True) as connection:
            postings = int(one(connection, "SELECT count(*) FROM postings"))
            problems.add(_index_problems(connection, postings))
    except BackendError as error:
        if not error.tells_of_store:
            raise
        problems.add([f"{error}; the rest of the keyword index could not be looked at"])
    return VerificationReport(postings=postings, problems=problems.listed())


def _index_problems(connection: Connection, postings: int) -> Iterator[str]:
    passages: Counter[tuple[object, object]] = Counter()
    terms: Counter[tuple[object, object]] = Counter()
    in_place = 0
    for page in read_passages(connection):
        words = {passage.id: Counter(analyze(passage.text)) for passage in page}
        found = _look_up(connection, page, words)
        for passage in page:
            terms_now, kept = words[passage.id], found[passage.id]
            length = terms_now.total()
            right = {term: (passage.memory, frequency, length) for term, frequency in terms_now.items()}
            if wrong := sum(kept.get(term) != values for term, values in right.items()):
                yield f"{wrong} postings of {_name(connection, passage)} are missing or wrong"
            in_place += len(kept.keys() & right.keys())
            passages[passage.scope, str(passage.field)] += 1
            terms[passage.scope, str(passage.field)] += length
    if postings > in_place:
        yield f"{postings - in_place} postings stand for words that no passage has"
    yield from _statistics_problems(connection, passages, terms)


def _look_up(
    connection: Connection, page: Sequence[Passage], words: Mapping[int, Counter[str]]
) -> dict[int, dict[object, tuple[object, ...]]]:
    """Read what is kept of the words of passages, ascending by id: memory, frequency and length by passage and term."""
    dialect = connection.dialect
    within = holding(dialect, ":kind", dialect.among("term", ":some"), _OF_PAGE)
    look_up = _POSTINGS.format(within=within, among_terms=dialect.among("term", ":terms"))
    found: dict[int, dict[object, tuple[object, ...]]] = {passage.id: {} for passage in page}
    fields: dict[tuple[str, object], list[int]] = {}
    for passage in page:
        fields.setdefault((passage.scope, passage.field), []).append(passage.id)
    for (scope, kind), ids in fields.items():
        terms = dialect.listed(sorted(set().union(*(words[each] for each in ids))))
        # two terms of each tell in which volume it is, should one be missing
        some = dialect.listed(sorted({end(words[each], default="") for each in ids for end in (min, max)}))
        values = {"scope": scope, "kind": kind, "terms": terms, "some": some, "first": ids[0], "last": ids[-1]}
        for passage, term, *posting in connection.execute(look_up, values):
            if passage in found:
                found[passage][term] = tuple(posting)
    return found


def _name(connection: Connection, passage: Passage) -> str:
    name = one(connection, "SELECT id FROM memories WHERE row = ?", (passage.memory,))
    memory = f"memory {name!r} in scope {passage.scope!r}"
    return memory if passage.part == passage.kind else f"passage {passage.part!r} of {memory}"


def _statistics_problems(
    connection: Connection, passages: Counter[tuple[object, object]], terms: Counter[tuple[object, object]]
) -> Iterator[str]:
    found = connection.execute(_STATISTICS.format(position=connection.dialect.position))
    kept = {(scope_id if scope is None else scope, kind): counts for scope, scope_id, kind, *counts in found}
    for scope, kind in passages.keys() | kept.keys():
        right, found = [passages[scope, kind], terms[scope, kind]], kept.get((scope, kind), [0, 0])
        if found != right:
            yield (
                f"the keyword statistics of scope {scope!r} ({kind}) say {found[0]} passages with {found[1]} words "
                f"instead of {right[0]} with {right[1]}"
            )


def verify(database: Database) -> VerificationReport:
    """Check the whole ledger page by page; damage is listed in the report, not raised."""
    problems, memories, passages = Problems(), 0, 0
    try:
        with database.read(snapshot=True) as connection:
            problems.add(database.problems(connection))
            dimension, width = _dimension(connection), TOKEN_WIDTHS.get(str(one(connection, _EMBEDDER)), 1)
            for page in all_rows(connection):
                for memory in read_page(connection, page):
                    memories, passages = memories + 1, passages + len(memory.passages)
                    problems.add(_memory_problems(memory, dimension, width, connection.dialect))
            problems.add(_version_problems(connection, dimension))
            problems.add(characters.problems(connection))
            problems.add(events.problems(connection))
    except BackendError as error:
        if not error.tells_of_store:
            raise
        problems.add([f"{error}; what comes behind could not be looked at"])
    return VerificationReport(
        memories=memories, passages=passages, problems=problems.listed(), notes=tuple(database.notes())
    )


def _dimension(connection: Connection) -> int | None:
    noted = one(connection, "SELECT value FROM notes WHERE name = 'dimension'")
    return int(noted) if noted is not None and str(noted).isdecimal() else None


def _memory_problems(raw: RawMemory, dimension: int | None, width: int, dialect: Dialect) -> Iterator[str]:
    name = raw.name
    try:
        memory = decode(raw.row)
    except UNREADABLE as error:
        yield f"{name} cannot be read: {type(error).__name__}: {error}"
        return
    if memory.is_searchable and memory.kind not in {passage.part for passage in raw.passages}:
        yield f"{name} has no passage, so no search finds it"
    turns = {passage.part for passage in raw.passages if turn_place(str(passage.part)) is not None}
    if turns and any(text.part not in turns for text in passage_texts(memory, searched="turns")[1:]):
        yield f"{name} is not found by all of its messages"
    for passage in raw.passages:
        whose = f"passage {passage.part!r} of {name}"
        if passage.text is None and passage.vector is None:
            yield f"{whose} has neither text nor vector"
        else:
            yield from (f"{whose} {problem}" for problem in _text_problems(passage, memory))
        problems = _vector_problems(passage.vector, dimension, dialect)
        yield from (f"{whose} has a vector that {problem}" for problem in problems)
        tokens = passage.tokens
        if tokens is not None and (not isinstance(tokens, bytes) or len(tokens) % width):
            yield f"{whose} has vectors of tokens that are cut off"


def _version_problems(connection: Connection, dimension: int | None) -> Iterator[str]:
    rows = connection.execute(
        """SELECT s.scope, m.id, m.kind, v.fact, v.category, v.keywords, v.valid_at, v.invalid_at, v.vector
        FROM fact_versions v JOIN memories m ON m.row = v.memory JOIN scopes s ON s.id = m.scope_id ORDER BY v.id"""
    )
    for scope, its_id, kind, fact, category, keywords, valid_at, invalid_at, vector in rows:
        name = f"a former version of memory {its_id!r} in scope {scope!r}"
        if kind != Kind.SEMANTIC:
            yield f"{name}, which is no fact"
        try:
            is_whole = bool(fact.strip()) and isinstance(json.loads(keywords), list) and Category(category)
            if not is_whole or moment(valid_at) > moment(invalid_at):
                yield f"{name} says nothing, or held until before it began"
        except UNREADABLE as error:
            yield f"{name} cannot be read: {type(error).__name__}: {error}"
        problems = _vector_problems(vector, dimension, connection.dialect)
        yield from (f"{name} has a vector that {each}" for each in problems)


def _text_problems(passage: RawPassage, memory: AnyMemory) -> Iterator[str]:
    passage_now = passage_text(memory, str(passage.part))
    if passage_now is None:
        if turn_place(str(passage.part)) is not None:
            yield "is of a message that its memory does not have"
    elif passage.text != passage_now.text:
        yield "has another text than its memory"


def _vector_problems(stored: object, dimension: int | None, dialect: Dialect) -> Iterator[str]:
    if stored is None:
        return
    if not isinstance(stored, bytes) or len(stored) % 4:
        yield "is no row of single-precision numbers"
        return
    (vector,) = dialect.stacked([stored])
    if dimension is not None and len(vector) != dimension:
        yield f"has {len(vector)} numbers instead of {dimension}"
    with np.errstate(all="ignore"):
        length = float(np.linalg.norm(vector.astype(np.float64)))
    if not math.isfinite(length):
        yield "has NaN or infinity in it"
    elif abs(length - 1) > MAX_LENGTH_ERROR:
        yield f"has the length {length:.4f} instead of 1"


Ask: TypeAlias = Callable[[str], Sequence[Sequence[Any]] | None]
"""Gives the rows of a statement; None where a table or column is not there, as in another version of the schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Who makes episodes of a scope's messages."""

    scope: str  # the scope
    holder: str  # id of the handle or process that holds it; empty if an older version took it
    since: datetime | None  # when it was taken


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """The state of a store as its tables tell it; None stands for what they do not tell."""

    embedder: str | None  # id of the embedder that filled it
    dimension: int | None  # length of its vectors
    memories: int | None  # how many it holds
    projection: bool | None  # whether Chroma is fed from it
    unprojected: int | None  # how many passages Chroma has yet to take
    reembedded: int | None  # how many passages have a vector of another embedder, beside the one that serves
    waiting_messages: int | None  # how many messages wait to become episodes
    waiting_since: datetime | None  # the time of the oldest of them
    leases: tuple[Lease, ...]  # who is making episodes
    pending_reviews: int | None  # how many retrievals wait for a conversation to be rated by
    review_jobs: int | None  # how many conversations wait to be worked on for that
    unwritten: int | None  # how many changes an adopted collection has yet to take
    is_half_moved: bool  # whether a move into it has not ended


def state_of_tables(ask: Ask) -> TableState:
    """Read the state of a store."""
    noted = (
        ask(f"SELECT name, value FROM notes WHERE name IN ('embedder_id', 'dimension', 'reembedding', '{MOVING}')")
        or ()
    )
    notes: dict[str, str] = {name: value for name, value in noted}  # noqa: C416 - rows, which dict takes for sequences
    generation, mark = (ask("SELECT generation, mark FROM projection") or [(None, None)])[0]
    is_projected = None if mark is None else generation is not None
    beyond = ("outbox", f"passages WHERE id > {mark}")
    dimension = str(notes.get("dimension", ""))
    waiting = ask("SELECT count(*), min(timestamp) FROM queued_messages") or [(None, None)]
    leased = (
        ask("SELECT s.scope, q.fence, q.fenced_at FROM queues q JOIN scopes s ON s.id = q.scope_id ORDER BY 1") or ()
    )
    return TableState(
        embedder=notes.get("embedder_id"),
        dimension=int(dimension) if dimension.isdecimal() else None,
        memories=_count(ask, "memories"),
        projection=is_projected,
        unprojected=sum(_count(ask, each) or 0 for each in beyond) if is_projected else None,
        reembedded=_count(ask, "new_vectors") if "reembedding" in notes else None,
        waiting_messages=waiting[0][0],
        waiting_since=_time(waiting[0][1]),
        leases=tuple(
            Lease(scope=scope, holder=fence.rpartition(":")[0], since=_time(since))
            for scope, fence, since in leased
            if fence is not None
        ),
        pending_reviews=_count(ask, "pending_reviews"),
        review_jobs=_count(ask, "review_jobs"),
        unwritten=_count(ask, "unwritten"),
        is_half_moved=bool(notes.get(MOVING)),
    )


def _count(ask: Ask, rows: str) -> int | None:
    counted = ask(f"SELECT count(*) FROM {rows}")
    return None if counted is None else int(counted[0][0])


def _time(value: object) -> datetime | None:
    try:
        return moment(value) if isinstance(value, int) else None
    except OverflowError:  # a damaged or made-up number
        return None
