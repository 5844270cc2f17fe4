"""BM25 over postings in the ledger's own SQLite file, written in the transaction of the records."""

from __future__ import annotations

import json
import math
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from memory_retrievers.backends.sqlite import SQLiteLedger, keyword_check
from memory_retrievers.backends.sqlite import selection as where
from memory_retrievers.backends.sqlite.database import one
from memory_retrievers.contents import VerificationReport
from memory_retrievers.passages import Hits, Passage, Selection
from memory_retrievers.text import analyze

if TYPE_CHECKING:
    import sqlite3

_ADD_POSTINGS: Final = """
    INSERT INTO postings
    SELECT scopes.id, ?, posting.key, ?, ?, posting.value, ? FROM scopes, json_each(?) AS posting WHERE scopes.scope = ?
"""
_ADD_STATISTICS: Final = """
    INSERT INTO keyword_statistics SELECT id, ?, 1, ? FROM scopes WHERE scope = ?
    ON CONFLICT DO UPDATE SET passages = passages + 1, terms = terms + excluded.terms
"""
_REMOVE_POSTINGS: Final = """
    DELETE FROM postings WHERE scope_id = (SELECT id FROM scopes WHERE scope = :scope) AND kind = :kind
    AND passage = :passage {narrowed} RETURNING frequency, length
"""
_REMOVE_STATISTICS: Final = (
    """UPDATE keyword_statistics SET passages = passages - 1, terms = terms - :length
    WHERE scope_id = (SELECT id FROM scopes WHERE scope = :scope) AND kind = :kind""",
    """DELETE FROM keyword_statistics
    WHERE scope_id = (SELECT id FROM scopes WHERE scope = :scope) AND kind = :kind AND passages <= 0""",
)

_POSTINGS: Final = """
    SELECT passage, memory, length, term, frequency FROM postings
    WHERE scope_id {scope} AND kind = :kind AND passage IN (SELECT value FROM json_each(:passages))
"""

SCAN_LIMIT: Final = 400
"""Up to so many passages in scope, counting through remembered term counts beats SQLite's joins."""

REMEMBERED_PASSAGES: Final = 20_000
"""How many passages keep their term counts in memory; about 3 KB each."""

_NOTHING: Final = Hits([], [], [])


class _Document(NamedTuple):
    """What BM25 needs of a passage; it never changes."""

    memory: int
    length: int
    frequencies: dict[str, int]


class SQLiteKeywordIndex:
    """A ``protocols.KeywordIndex`` over postings that SQLite keeps.

    A small scope is counted through in memory, a large one read as one index range per term; both by one formula.

    Args:
        ledger: Where the passages are; the postings go into its database.
        k1: Saturation of term counts.
        b: How strongly long passages are discounted.
        scan_limit: Up to how many passages a scope is small.
    """

    def __init__(self, ledger: SQLiteLedger, *, k1: float, b: float, scan_limit: int = SCAN_LIMIT) -> None:
        self._ledger = ledger
        self._k1 = k1
        self._b = b
        self._scan_limit = scan_limit
        self._documents: dict[int, _Document] = {}
        self._forgotten = 0  # how often something was
        self._lock = threading.Lock()

    def add(self, passages: Sequence[Passage]) -> None:
        """See ``protocols.KeywordIndex``."""
        with self._ledger.database.write() as connection:
            for passage in passages:
                counts = Counter(analyze(passage.text))
                values = (passage.kind, passage.id, passage.memory, counts.total(), json.dumps(counts), passage.scope)
                connection.execute(_ADD_POSTINGS, values)
                connection.execute(_ADD_STATISTICS, (passage.kind, counts.total(), passage.scope))

    def remove(self, passages: Sequence[Passage]) -> None:
        """See ``protocols.KeywordIndex``."""
        with self._ledger.database.write() as connection:
            for passage in passages:
                _remove(connection, passage)

    def forget(self, passages: Sequence[int]) -> None:
        """See ``protocols.KeywordIndex``."""
        gone = set(passages)
        with self._lock:
            self._forgotten += 1
            self._documents = {key: document for key, document in self._documents.items() if key not in gone}

    def search(self, terms: Sequence[str], selection: Selection, *, limit: int) -> Hits:
        """See ``protocols.KeywordIndex``."""
        if not terms:
            return _NOTHING
        forgotten = self._forgotten
        if self._is_small(selection):
            indexed = self._ledger.indexed(selection)
            documents = self._read(indexed, selection, forgotten=forgotten)
            scores = self._scores(Counter(terms), documents, total=len(indexed))
            visible = scores.keys() & set(self._ledger.eligible(selection))
            best = sorted(visible, key=lambda passage: (-scores[passage], passage))[:limit]
            return Hits(best, [documents[passage].memory for passage in best], [scores[passage] for passage in best])
        values = {"terms": json.dumps(Counter(terms)), "k1": self._k1, "b": self._b, "limit": limit}
        with self._ledger.database.read() as connection:
            rows = connection.execute(_search(selection), {**where.parameters(selection), **values}).fetchall()
        return Hits(*(list(column) for column in zip(*rows, strict=True))) if rows else _NOTHING

    def _is_small(self, selection: Selection) -> bool:
        """A single scope's passages are remembered by the ledger; those of many scopes together are only counted."""
        if not selection.include_child_scopes:
            return len(self._ledger.indexed(selection)) <= self._scan_limit
        with self._ledger.database.read() as connection:
            counted = one(
                connection,
                f"""SELECT sum(passages) FROM keyword_statistics
                WHERE scope_id {where.scope_condition(selection)} AND kind = :kind""",
                where.parameters(selection),
            )
            return (counted or 0) <= self._scan_limit

    def verify(self) -> VerificationReport:
        """See ``protocols.KeywordIndex``."""
        return keyword_check.verify(self._ledger.database)

    def rebuild(self) -> None:
        """See ``protocols.KeywordIndex``."""
        with self._ledger.database.write() as connection:
            connection.execute("DELETE FROM postings")
            connection.execute("DELETE FROM keyword_statistics")
            for page in keyword_check.read_passages(connection):
                self.add(page)
        with self._lock:
            self._forgotten += 1
            self._documents = {}

    def _read(self, passages: Sequence[int], selection: Selection, *, forgotten: int) -> dict[int, _Document]:
        """Term counts of the passages that have any; what is not remembered is read."""
        remembered = self._documents
        documents = {passage: remembered[passage] for passage in passages if passage in remembered}
        if len(documents) < len(passages):
            counted = self._count([passage for passage in passages if passage not in documents], selection)
            documents |= counted
            with self._lock:
                if forgotten != self._forgotten:  # some may have been read before that
                    return documents
                if len(self._documents) + len(counted) > REMEMBERED_PASSAGES:
                    self._documents = {}  # a fresh one: others may be reading the old
                self._documents |= counted
        return documents

    def _count(self, passages: Sequence[int], selection: Selection) -> dict[int, _Document]:
        documents: dict[int, _Document] = {}
        with self._ledger.database.read() as connection:
            sql = _POSTINGS.format(scope=where.scope_condition(selection))
            postings = connection.execute(sql, {**where.parameters(selection), "passages": json.dumps(passages)})
            for passage, memory, length, term, frequency in postings:
                if passage not in documents:
                    documents[passage] = _Document(memory, length, {})
                documents[passage].frequencies[term] = frequency
        return documents

    def _scores(
        self, repeats: Mapping[str, int], documents: Mapping[int, _Document], *, total: int
    ) -> dict[int, float]:
        """The formula of :func:`_search` over term counts in memory."""
        average_length = max(sum(document.length for document in documents.values()), 1) / max(total, 1)
        norm, norm_per_term = self._k1 * (1 - self._b), self._k1 * self._b / average_length
        scores: dict[int, float] = {}
        for term, repeated in repeats.items():
            holding = [item for item in documents.items() if term in item[1].frequencies]
            weight = repeated * math.log(1 + (total - len(holding) + 0.5) / (len(holding) + 0.5))
            for passage, (_, length, frequencies) in holding:
                frequency = frequencies[term]
                gain = weight * frequency / (frequency + norm + norm_per_term * length)
                scores[passage] = scores.get(passage, 0.0) + gain
        return scores


def _remove(connection: sqlite3.Connection, passage: Passage) -> None:
    """Take one passage out of postings and statistics, as if it had never been added."""
    counts = Counter(analyze(passage.text))
    values = {"scope": passage.scope, "kind": passage.kind, "passage": passage.id, "terms": json.dumps(list(counts))}
    by_term = "AND term IN (SELECT value FROM json_each(:terms))"  # one key per term, not the whole scope
    removed = connection.execute(_REMOVE_POSTINGS.format(narrowed=by_term), values).fetchall()
    length = removed[0][1] if removed else counts.total()
    if sum(frequency for frequency, _ in removed) < length:  # added by an analyzer of other terms, or not at all
        removed += connection.execute(_REMOVE_POSTINGS.format(narrowed=""), values).fetchall()
        if not removed:
            return
    for statement in _REMOVE_STATISTICS:
        connection.execute(statement, values | {"length": removed[0][1] if removed else 0})


def _search(selection: Selection) -> str:
    """One statement, so that statistics and postings are those of one moment."""
    in_scope = f"scope_id {where.scope_condition(selection)} AND kind = :kind"
    return f"""
        WITH scope AS MATERIALIZED (
            SELECT sum(passages) AS passages, sum(passages) * 1.0 / max(sum(terms), 1) AS inverse_average_length
            FROM keyword_statistics WHERE {in_scope}
        ),
        asked AS MATERIALIZED (
            SELECT key AS term, value AS repeats,
                (SELECT count(*) FROM postings WHERE {in_scope} AND term = key) AS frequency
            FROM json_each(:terms)
        ),
        weighted AS MATERIALIZED (
            SELECT term, repeats * ln(1 + (passages - frequency + 0.5) / (frequency + 0.5)) AS weight,
                :k1 * (1 - :b) AS norm, :k1 * :b * inverse_average_length AS norm_per_term
            FROM asked, scope WHERE frequency > 0
        ),
        scored AS (
            SELECT passage, memory, sum(weight * frequency / (frequency + norm + norm_per_term * length)) AS score
            FROM weighted CROSS JOIN postings
            WHERE {in_scope} AND postings.term = weighted.term
            GROUP BY passage
        )
        SELECT scored.passage, scored.memory, scored.score FROM scored CROSS JOIN memories m ON m.row = scored.memory
        WHERE {where.where(selection)} ORDER BY scored.score DESC, scored.passage LIMIT :limit
    """
