"""Keyword indexes: BM25 over postings that are written with the memories, and rank_bm25 over a scope in memory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import numpy as np
import rank_bm25
from numpy.typing import NDArray

from memory_retrievers.backends.sql import selection as where
from memory_retrievers.backends.sql import verification
from memory_retrievers.backends.sql.connection import OF_SCOPE, Connection, Dialect, joining
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.backends.sql.passages import holding, in_scope
from memory_retrievers.backends.terms import EMPTY
from memory_retrievers.models.contents import VerificationReport
from memory_retrievers.models.selection import Hits, Passage, Selection, TermCounts, TermStatistics
from memory_retrievers.text.analysis import analyze

if TYPE_CHECKING:
    from memory_retrievers.backends.snapshot import ScopeSnapshot
    from memory_retrievers.backends.terms import TermBlock

_POSTING: Final = ("scope_id", "kind", "term", "passage", "memory", "frequency", "length")
_ADD_STATISTICS: Final = """
    INSERT INTO keyword_statistics (scope_id, kind, passages, terms) VALUES (?, ?, ?, ?)
    ON CONFLICT (scope_id, kind) DO UPDATE
    SET passages = keyword_statistics.passages + excluded.passages, terms = keyword_statistics.terms + excluded.terms
"""
_REMOVE_POSTINGS: Final = """
    DELETE FROM postings WHERE {within} AND passage = :passage {narrowed} RETURNING frequency, length, kind
"""
_REMOVE_STATISTICS: Final = (
    f"""UPDATE keyword_statistics SET passages = passages - 1, terms = terms - :length
    WHERE {OF_SCOPE} AND kind = :field""",
    f"""DELETE FROM keyword_statistics WHERE {OF_SCOPE} AND kind = :field AND passages <= 0""",
)
_TEXTS: Final = """
    SELECT p.id, p.memory, c.text FROM {asked} {in_order} passages p ON p.id = each.value
    JOIN memories m ON m.row = p.memory {m_beside} JOIN passage_contents c ON c.passage = p.id {c_beside}
    WHERE {scope} AND {fields} ORDER BY p.id
"""

_NOTHING: Final = Hits([], [], [])


class PostingsKeywordIndex:
    """BM25 over postings stored in the database, with the statistics of the scope that is searched.

    The formula is Lucene's: ``idf = ln(1 + (N − df + 0.5) / (df + 0.5))`` and
    ``score = Σ idf · tf / (tf + k1 · (1 − b + b · length / average length))``, where N, df and the average length
    are those of the searched scope and kind, or of the union of the scopes when child scopes are included.

    Args:
        ledger: Where the passages are; the postings go into its database.
        k1: Saturation of term counts.
        b: How strongly long passages are discounted.
    """

    def __init__(self, ledger: SQLLedger, *, k1: float, b: float) -> None:
        self._ledger = ledger
        self._k1 = k1
        self._b = b

    def add(self, passages: Sequence[Passage]) -> None:
        """Index new passages. Called inside the ledger's transaction."""
        with joining(self._ledger.database, *{passage.scope for passage in passages}) as connection:
            ids = _scope_ids(connection, passages)
            # where no passage has such a number yet, no scope has so many: that need not be asked
            is_wide = 0 < connection.dialect.volume < max((passage.id for passage in passages), default=0)
            volumes = _volumes(connection, sorted(ids.values())) if is_wide else {}
            postings: dict[tuple[int, str], list[tuple[int, str, str, int, int, int, int]]] = {}
            lengths: dict[tuple[int, str], list[int]] = {}
            for passage in passages:
                scope_id, field, number, memory = ids[passage.scope], str(passage.field), passage.id, passage.memory
                terms = analyze(passage.text) if passage.terms is None else passage.terms
                length = len(terms)
                kind = volumes.get((scope_id, field), field) if terms else field  # without a posting nothing tells it
                lengths.setdefault((scope_id, kind), []).append(length)
                of_kind = postings.setdefault((scope_id, kind), [])
                of_kind += [(scope_id, kind, term, number, memory, n, length) for term, n in Counter(terms).items()]
            # In the order of the primary key: each page of its tree is changed once, however large the scope is.
            ordered = [row for _, rows in sorted(postings.items()) for row in sorted(rows, key=itemgetter(2))]
            connection.insert_rows("postings", _POSTING, ordered)
            statistics = [(*place, len(each), sum(each)) for place, each in sorted(lengths.items())]
            connection.executemany(_ADD_STATISTICS, statistics)

    def remove(self, passages: Sequence[Passage]) -> None:
        """Undo :meth:`add` exactly. Called inside the ledger's transaction, before the passages leave the ledger."""
        with joining(self._ledger.database, *{passage.scope for passage in passages}) as connection:
            for passage in passages:
                _remove(connection, passage)

    def search(self, terms: Sequence[str], selection: Selection, *, limit: int) -> Hits:
        """Find the passages with the highest BM25 scores, best first, ties by lower id.

        Args:
            terms: Terms of the query, as :func:`~memory_retrievers.text.analysis.analyze` gives them; repeats count. No
                terms, no hits.
            selection: The scope, kind and filters that passages must match.
            limit: Maximum number of passages.

        Returns:
            At most ``limit`` passages that contain at least one term.
        """
        if not terms:
            return _NOTHING
        seen = self._ledger.snapshots.seen(selection)
        if seen is not None:
            block, visible, repeats = seen[0].terms, seen[1], Counter(terms)
            scores = block.scores(repeats, k1=self._k1, b=self._b)
            return block.best(scores, visible & block.holding(repeats), limit=limit)
        values = {"terms": json.dumps(Counter(terms)), "k1": self._k1, "b": self._b, "limit": limit}
        dialect = self._ledger.dialect
        rows = self._ledger.query(_search(dialect, selection), where.parameters(dialect, selection) | values)
        return Hits(*(list(column) for column in zip(*rows, strict=True))) if rows else _NOTHING

    def statistics(self, terms: Sequence[str], selection: Selection) -> TermStatistics:
        """Document frequencies of the terms and the average length, over the selection's scope and fields."""
        snapshot = self._snapshot(selection)
        if snapshot is not None:
            return snapshot.terms.statistics(terms)
        dialect = self._ledger.dialect
        values = where.parameters(dialect, selection) | {"terms": json.dumps(dict.fromkeys(terms, 1))}
        rows = self._ledger.query(_statistics(dialect, selection), values)
        (_, passages, length), *frequencies = rows
        return TermStatistics(
            passages or 0,
            max(length or 0, 1) / max(passages or 0, 1),
            {term: frequency for term, frequency, _ in frequencies},
        )

    def counts(self, terms: Sequence[str], selection: Selection, passages: NDArray[np.int64]) -> TermCounts:
        """Term frequencies in passages that match the selection.

        Args:
            terms: Distinct terms.
            selection: The scope, kind and filters that the passages match.
            passages: Passage ids, shape (n,).

        Returns:
            Lengths of shape (n,) and counts of shape (number of terms, n), in the order given.
        """
        snapshot = self._snapshot(selection)
        if snapshot is not None:
            return snapshot.terms.counts(terms, passages)
        dialect = self._ledger.dialect
        sql = _TEXTS.format(
            asked=dialect.each(":passages"),
            in_order=dialect.in_order,
            m_beside=dialect.beside("m", "p"),
            c_beside=dialect.beside("c", "p"),
            scope=where.in_scope(selection),
            fields=where.searched(selection),
        )
        asked = {"passages": dialect.listed(sorted(set(passages.tolist())))}
        texts = self._ledger.query(sql, where.parameters(dialect, selection) | asked)
        owners = {passage: memory for passage, memory, _ in texts}
        return EMPTY.appended(owners, [Counter(analyze(text)) for _, _, text in texts]).counts(terms, passages)

    def verify(self) -> VerificationReport:
        """Compare the stored postings with the ledger's passages."""
        return verification.verify_postings(self._ledger.database)

    def rebuild(self) -> None:
        """Recreate all stored and cached data from the ledger's passages, in one transaction."""
        with self._ledger.database.write() as connection:
            connection.execute("DELETE FROM postings")
            connection.execute("DELETE FROM keyword_statistics")
            for page in verification.read_passages(connection):
                self.add(page)
        self._ledger.snapshots.forget(None)

    def _snapshot(self, selection: Selection) -> ScopeSnapshot | None:
        return self._ledger.snapshots.of(selection)


def _scope_ids(connection: Connection, passages: Sequence[Passage]) -> dict[str, int]:
    """Row ids of the passages' scopes."""
    ids, dialect = {each.scope: each.scope_id for each in passages if each.scope_id is not None}, connection.dialect
    if asked := sorted({passage.scope for passage in passages}.difference(ids)):
        sql = f"SELECT scope, id FROM scopes WHERE {dialect.among('scope', ':scopes')}"
        ids.update(connection.execute(sql, {"scopes": dialect.listed(asked)}))
    return ids


def _volumes(connection: Connection, scopes: Sequence[int]) -> dict[tuple[int, str], str]:
    """Volumes that new postings go into, by the scope's row id and field; those are left out that are in the first."""
    volume, held = connection.dialect.volume, Counter[tuple[int, str]]()
    sql = f"SELECT scope_id, kind, passages FROM keyword_statistics WHERE {connection.dialect.among('scope_id', '?')}"
    for scope_id, kind, passages in connection.execute(sql, (connection.dialect.listed(scopes),)):
        held[scope_id, kind.partition(":")[0]] += passages
    return {place: f"{place[1]}:{full}" for place, passages in held.items() if (full := passages // volume) > 0}


def _remove(connection: Connection, passage: Passage) -> None:
    """Remove one passage from postings and statistics, as if it had never been added."""
    counts = Counter(analyze(passage.text))
    dialect = connection.dialect
    values = {
        "scope": passage.scope,
        "field": passage.field,
        "passage": passage.id,
        "terms": dialect.listed(list(counts)),
        "term": next(iter(counts), ""),
    }
    by_term = f"AND {dialect.among('term', ':terms')}"  # one key per term, not the whole scope
    within = holding(dialect, ":field", "term = :term", "passage = :passage")
    removed = connection.execute(_REMOVE_POSTINGS.format(within=within, narrowed=by_term), values).fetchall()
    length = removed[0][1] if removed else counts.total()
    if sum(frequency for frequency, *_ in removed) < length:  # added by an analyzer of other terms, or not at all
        within = f"{OF_SCOPE} AND {dialect.volumes(OF_SCOPE, ':field')}"
        removed += connection.execute(_REMOVE_POSTINGS.format(within=within, narrowed=""), values).fetchall()
        if not removed:
            return
    _, length, kind = removed[0] if removed else (0, 0, passage.field)
    for statement in _REMOVE_STATISTICS:
        connection.execute(statement, values | {"length": length, "field": kind})


def _statistics(dialect: Dialect, selection: Selection) -> str:
    """One statement, so that all figures are of one point in time: the scope's first, then each term's."""
    within = in_scope(dialect, selection)
    return f"""
        SELECT NULL, CAST(sum(passages) AS BIGINT), CAST(sum(terms) AS BIGINT) FROM keyword_statistics WHERE {within}
        UNION ALL SELECT asked.key, (SELECT count(*) FROM postings WHERE {within} AND term = asked.key), NULL
        FROM {dialect.counted(":terms", "asked")}
    """


def _search(dialect: Dialect, selection: Selection) -> str:
    """One statement, so that statistics and postings are of one point in time."""
    within = in_scope(dialect, selection)
    summed = dialect.summed("weight * frequency / (frequency + norm + norm_per_term * length)", "postings.term")
    return f"""
        WITH scope AS MATERIALIZED (
            SELECT CAST(sum(passages) AS DOUBLE PRECISION) AS passages,
                CAST(sum(passages) AS DOUBLE PRECISION) / {dialect.greatest}(sum(terms), 1) AS inverse_average_length
            FROM keyword_statistics WHERE {within}
        ),
        asked AS MATERIALIZED (
            SELECT given.key AS term, given.value AS repeats,
                (SELECT count(*) FROM postings WHERE {within} AND term = given.key) AS frequency
            FROM {dialect.counted(":terms", "given")}
        ),
        weighted AS MATERIALIZED (
            SELECT term, repeats * ln(1 + (passages - frequency + 0.5) / (frequency + 0.5)) AS weight,
                :k1 * (1 - :b) AS norm, :k1 * :b * inverse_average_length AS norm_per_term
            FROM asked, scope WHERE frequency > 0
        ),
        scored AS (
            SELECT passage, memory, {summed} AS score
            FROM weighted {dialect.in_order} postings ON {within} AND postings.term = weighted.term
            GROUP BY passage, memory
        )
        SELECT scored.passage, scored.memory, scored.score
        FROM scored {dialect.in_order} memories m ON m.row = scored.memory
        WHERE {where.where(dialect, selection)} ORDER BY scored.score DESC, scored.passage LIMIT :limit
    """


_SMALLEST_K1: Final = 1e-300

_POSTING_BYTES: Final = 100
_PASSAGE_BYTES: Final = 400
"""What rank_bm25 takes for a passage, and for each term that stands in it: entries of mappings."""


class _Model:
    """The rank_bm25 model of a block's passages."""

    def __init__(self, block: TermBlock, *, k1: float, b: float) -> None:
        self.block = block
        postings = sum(each.shape[1] for each in block.postings.values())
        self.size = _POSTING_BYTES * (postings + len(block.postings)) + _PASSAGE_BYTES * (1 + len(block.ids))
        documents: list[list[str]] = [[] for _ in block.ids]
        for term, (positions, frequencies) in block.postings.items():
            for position, frequency in zip(positions.tolist(), frequencies.tolist(), strict=True):
                documents[position] += [term] * frequency
        # BM25Plus with delta 0 has Lucene's form up to a constant factor and idf = ln((N + 1) / df), always positive.
        # With k1 = 0 it would divide nothing by nothing where a term is missing.
        k1 = max(k1, _SMALLEST_K1)
        self._bm25 = rank_bm25.BM25Plus(documents, k1=k1, b=b, delta=0) if block.postings else None

    def best(self, query: Sequence[str], visible: NDArray[np.bool_], *, limit: int) -> Hits:
        """Rank the visible passages that share a term with the query, best first, ties by lower id."""
        terms = [term for term in query if term in self.block.postings]
        candidates = visible & self.block.holding(terms)
        scores = np.zeros(len(candidates))
        if self._bm25 is not None and candidates.any():
            scores[candidates] = self._bm25.get_batch_scores(terms, np.flatnonzero(candidates).tolist())
        return self.block.best(scores, candidates, limit=limit)


class RankBM25KeywordIndex(PostingsKeywordIndex):
    """A keyword index that searches by rank_bm25: for small stores, and as a reference.

    The postings are kept up to date all the same, so that the store, or a copy of it, can be opened with either engine.
    """

    def search(self, terms: Sequence[str], selection: Selection, *, limit: int) -> Hits:
        """See :meth:`PostingsKeywordIndex.search`."""
        if not terms:
            return _NOTHING
        snapshot = self._snapshot(selection)
        matching = self._ledger.matching(selection) if selection.needs_ledger else None
        model = self._ledger.snapshots.attach(
            snapshot,
            f"rank_bm25 {self._k1} {self._b}",
            lambda: _Model(snapshot.terms, k1=self._k1, b=self._b),
            lambda model: model.size,
        )
        return model.best(terms, snapshot.visible(selection, matching=matching), limit=limit)

    def _snapshot(self, selection: Selection) -> ScopeSnapshot:
        """The snapshot of a scope of any size: this engine has no other way to answer."""
        snapshot = self._ledger.snapshots.of(selection, at_any_size=True)
        assert snapshot is not None  # noqa: S101 - asked for at any size
        return snapshot
