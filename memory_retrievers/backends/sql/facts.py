"""Facts by their text: which are known already, and what each said before it was changed.

Former versions have a table of their own. Searches of a moment in the past read it, as do histories and exports; no
index knows of it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from memory_retrievers.backends.snapshot import finite
from memory_retrievers.backends.sql import selection as where
from memory_retrievers.backends.sql.connection import OF_SCOPE, Connection, Part, Whole, insert, places_of
from memory_retrievers.backends.sql.rows import (
    Plan,
    decode_category,
    decode_texts,
    encode_time,
    load,
    memory_of,
    memory_query,
    readable,
)
from memory_retrievers.models import (
    AnyMemory,
    ContentType,
    EpisodicMemory,
    Kind,
    MemoryKey,
    Origin,
    SemanticDraft,
    SemanticMemory,
)
from memory_retrievers.models.contents import FactVersion
from memory_retrievers.models.fields import moment
from memory_retrievers.models.results import MemoryDiff, difference, held
from memory_retrievers.models.selection import Selection, Vectors
from memory_retrievers.text.duplicates import text_hash

PAGE: Final = 2_048  # versions that are read at a time

_FIELDS: Final = "v.fact, v.category, v.keywords, v.valid_at, v.invalid_at"
_VERSION: Final = Plan(
    {"fact": None, "category": decode_category, "keywords": decode_texts, "valid_at": moment, "invalid_at": moment}
)
_WITHOUT_HASH: Final = """SELECT row, content, content_type FROM memories
    WHERE scope_id = ? AND kind = 'semantic' AND text_hash IS NULL LIMIT ?"""
_STATE_OF_HASHES: Final = """SELECT s.id, EXISTS (SELECT 1 FROM memories m
    WHERE m.scope_id = s.id AND m.kind = 'semantic' AND m.text_hash IS NULL) FROM scopes s WHERE s.scope = ?"""
_CHAIN: Final = f"""
    WITH RECURSIVE before (id) AS (
        SELECT m.id FROM memories m WHERE m.{OF_SCOPE} AND m.id = :id
        UNION SELECT m.id FROM memories m JOIN before b ON m.replaced_by = b.id WHERE m.{OF_SCOPE}
    ), after (id) AS (
        SELECT id FROM before
        UNION SELECT m.replaced_by FROM memories m JOIN after a ON m.id = a.id
        WHERE m.{OF_SCOPE} AND m.replaced_by IS NOT NULL
    )
"""


class PastPassages(NamedTuple):
    """The texts of n former versions, as they were searched."""

    memories: list[int]  # rows of their memories, ascending; each is there once
    texts: list[str]  # what words are counted of
    matrix: Vectors  # unit vectors, shape (n, d)


class SQLFacts(Part):
    """The part of the ledger that knows facts by their texts, and the former versions of each."""

    def alike(self, scope: str, hashes: Collection[int], *, now: datetime) -> list[SemanticMemory]:
        """List the scope's facts that hold and have one of these hashes, oldest first; in a write transaction.

        Args:
            scope: The scope.
            hashes: Numbers of texts, as ``text_hash`` gives them.
            now: Leave out facts that expired by this time.
        """
        with self.database.read() as connection:
            found = connection.execute(_STATE_OF_HASHES, (scope,)).fetchone()
            if found is None:
                return []
            scope_id, lacks_hashes = found
            if lacks_hashes:
                with self.database.write(scope) as writer:
                    _fill_hashes(writer, scope_id)
            dialect = connection.dialect
            by_text = dialect.indexed_by("facts_by_text")  # else SQLite reads all facts of the scope in their order
            rows = connection.execute(
                f"""{memory_query(dialect)} {by_text} WHERE m.scope_id = :scope_id AND m.kind = 'semantic'
                AND {dialect.among("m.text_hash", ":hashes")} AND m.invalid_at IS NULL AND {where.NOT_EXPIRED}
                ORDER BY m.created_at, m.id""",
                {"scope_id": scope_id, "hashes": dialect.listed(sorted(hashes)), "now": encode_time(now)},
            ).fetchall()
        return [fact for fact in map(memory_of, rows) if isinstance(fact, SemanticMemory)]

    def comparable(self, rows: Sequence[int], *, longest: int) -> dict[int, tuple[str, str, int]]:
        """Read those of the given rows that are plain facts of this store's own, hold, and have no more characters.

        Each is its id, what it says, and since when it holds, in microseconds since 1970.
        """
        found = self.query(
            f"""SELECT m.row, m.id, m.content, m.valid_at FROM memories m WHERE {self.dialect.among("m.row", ":rows")}
            AND m.kind = 'semantic' AND m.content_type = '{ContentType.TEXT}' AND m.origin <> '{Origin.STORE}'
            AND m.invalid_at IS NULL""",
            {"rows": self.dialect.listed(rows)},
        )
        return {row: (its_id, said, since) for row, its_id, said, since in found if len(said) <= longest}

    def keep_version(self, key: MemoryKey, *, until: datetime) -> None:
        """Keep what a fact says now, with its vector, as a former version that held until a moment."""
        scope_id = "scope_id, " if self.dialect.keyed_by_scope else ""
        with self.database.write(key.scope) as connection:
            connection.execute(
                f"""INSERT INTO fact_versions
                ({scope_id}memory, fact, category, keywords, valid_at, invalid_at, vector)
                SELECT {scope_id and "m.scope_id, "}m.row, m.content, m.category, m.keywords, m.valid_at,
                CAST(:until AS BIGINT), (SELECT c.vector FROM passages p JOIN passage_contents c ON c.passage = p.id
                    WHERE p.memory = m.row AND p.part = 'semantic')
                FROM memories m WHERE m.{OF_SCOPE} AND m.id = :id AND m.kind = 'semantic'""",
                {"scope": key.scope, "id": key.id, "until": encode_time(until)},
            )

    def drop_version(self, fact: SemanticMemory, *, until: datetime) -> None:
        """Drop the version kept last of what a fact said until a moment, since it is to say so again."""
        values = {"scope": fact.scope, "id": fact.id, "fact": fact.fact}
        with self.database.write(fact.scope) as connection:
            connection.execute(
                f"""DELETE FROM fact_versions
                WHERE memory = (SELECT m.row FROM memories m WHERE m.{OF_SCOPE} AND m.id = :id)
                AND id = (SELECT max(v.id) FROM fact_versions v WHERE v.memory = fact_versions.memory
                    AND v.fact = :fact AND v.valid_at = :since AND v.invalid_at = :until)""",
                values | {"since": encode_time(fact.valid_at), "until": encode_time(until)},
            )

    def history(self, *, scope: str, id: str) -> list[SemanticMemory]:
        """List the versions of a fact, of those it has replaced and of those that have replaced it, as they held."""
        asked = {"scope": scope, "id": id}
        with self.database.read(snapshot=True) as connection:
            rows = connection.execute(
                f"""{_CHAIN} {memory_query(connection.dialect)} WHERE m.{OF_SCOPE} AND m.kind = 'semantic'
                AND m.id IN (SELECT id FROM after)""",
                asked,
            ).fetchall()
            former = connection.execute(
                f"""{_CHAIN} SELECT m.id, {_FIELDS} FROM memories m JOIN fact_versions v ON v.memory = m.row
                {self.dialect.beside("v", "m")} WHERE m.{OF_SCOPE} AND m.id IN (SELECT id FROM after) ORDER BY v.id""",
                asked,
            ).fetchall()
        facts = {fact.id: fact for fact in map(memory_of, rows) if isinstance(fact, SemanticMemory)}
        versions = [_version_of(facts[its_id], fields) for its_id, *fields in former if its_id in facts]
        return sorted((*facts.values(), *versions), key=_validity)

    def between(self, selection: Selection, *, since: datetime, until: datetime, limit: int) -> MemoryDiff:
        """Compare what held at two moments.

        Args:
            selection: Scope and now; of either kind, and what has expired is left out.
            since: The earlier moment.
            until: The later one.
            limit: Largest number of memories that are read, those first that changed first.
        """
        with self.database.read(snapshot=True) as connection:
            dialect = connection.dialect
            moments = {"since": encode_time(since), "until": encode_time(until), "limit": limit + 1}
            asked = where.parameters(dialect, selection) | moments
            visible = f"m.scope_id {where.scope_condition(selection)} AND {where.NOT_EXPIRED}"
            found = connection.execute(
                f"""WITH turns (row, at) AS (
                    SELECT m.row, coalesce(m.start_at, m.valid_at) FROM memories m WHERE {visible}
                    UNION ALL SELECT m.row, m.invalid_at FROM memories m WHERE {visible} AND m.invalid_at IS NOT NULL
                    UNION ALL SELECT m.row, v.valid_at FROM memories m JOIN fact_versions v ON v.memory = m.row
                    {dialect.beside("v", "m")} WHERE {visible})
                SELECT row FROM turns WHERE at > :since AND at <= :until GROUP BY row ORDER BY min(at), row
                LIMIT :limit""",
                asked,
            ).fetchall()
            rows = [row for (row,) in found[:limit]]
            memories = load(connection, rows)
            former = connection.execute(
                f"SELECT v.memory, {_FIELDS} FROM fact_versions v WHERE {dialect.among('v.memory', ':rows')}",
                {"rows": dialect.listed(rows)},
            ).fetchall()
        facts = {row: memory for row, memory in memories.items() if isinstance(memory, SemanticMemory)}
        versions = (_version_of(facts[row], fields) for row, *fields in former if row in facts)
        return difference(
            [*versions, *facts.values()],
            [memory for memory in memories.values() if isinstance(memory, EpisodicMemory)],
            since=since,
            until=until,
            is_complete=len(found) <= limit,
        )

    def then(self, memories: Mapping[int, AnyMemory], *, as_of: datetime) -> dict[int, AnyMemory]:
        """Return memories, by row, as they were at a moment: a fact that was changed since says what it said then."""
        later = [row for row, fact in memories.items() if isinstance(fact, SemanticMemory) and fact.valid_at > as_of]
        if not later:
            return dict(memories)
        found = self.query(
            f"""SELECT v.memory, {_FIELDS} FROM fact_versions v
            WHERE {self.dialect.among("v.memory", ":rows")} AND v.valid_at <= :as_of AND v.invalid_at > :as_of""",
            {"rows": self.dialect.listed(later), "as_of": encode_time(as_of)},
        )
        then = dict(memories)
        for row, *fields in found:
            fact = memories[row]
            assert isinstance(fact, SemanticMemory)  # noqa: S101 - asked for
            then[row] = _version_of(fact, fields)
        return then

    def then_of(self, memory: AnyMemory, *, as_of: datetime) -> AnyMemory:
        """Return one memory as it was at a moment, or as it is now if it said nothing then."""
        versions = self.history(scope=memory.scope, id=memory.id) if isinstance(memory, SemanticMemory) else []
        return next((each for each in versions if each.id == memory.id and held(each, as_of)), memory)

    def searched_then(self, selection: Selection) -> Iterator[PastPassages]:
        """Yield the former versions of facts that a selection lets through and that held at its moment, in pages."""
        if selection.as_of is None or selection.kind is not Kind.SEMANTIC:
            return
        last = -1
        while page := self._page_then(selection, after=last):
            yield PastPassages(
                memories=[row for row, *_ in page],
                texts=[_draft(fact, category, keywords).search_text for _, fact, category, keywords, _ in page],
                matrix=finite(self.dialect.stacked([vector for *_, vector in page])),
            )
            last = page[-1][0]

    def _page_then(self, selection: Selection, *, after: int) -> list[Any]:
        narrowing = [each.replace("m.category", "v.category") for each in where.narrowing(self.dialect, selection)]
        return self.query(
            f"""SELECT m.row, v.fact, v.category, v.keywords, v.vector
            FROM memories m JOIN fact_versions v ON v.memory = m.row {self.dialect.beside("v", "m")}
            WHERE {" AND ".join([where.in_scope(selection), where.NOT_EXPIRED, *narrowing])} AND v.vector IS NOT NULL
            AND v.valid_at <= :as_of AND v.invalid_at > :as_of AND m.row > :after ORDER BY m.row LIMIT :page""",
            {**where.parameters(self.dialect, selection), "after": after, "page": PAGE},
        )

    def restore(self, version: FactVersion) -> bool:
        """Store a former version of a fact as it is; False if the fact is not there."""
        key = MemoryKey(scope=version.scope, id=version.id)
        with self.database.write(version.scope) as connection:
            place = places_of(connection, [key]).get(key)
            if place is None or place.kind != Kind.SEMANTIC:
                return False
            vector = None if version.vector is None else self.dialect.vector(version.vector)
            values = {"memory": place.row, **_VERSION.encoded(version), "vector": vector}
            insert(connection, "fact_versions", [(place.scope_id, values)])
            return True

    def without_new_vector(self, *, limit: int) -> dict[int, str]:
        """List versions whose vector has not been made anew yet: what is embedded, by their ids."""
        rows = self.query(
            """SELECT id, fact, category, keywords FROM fact_versions
            WHERE vector IS NOT NULL AND new_vector IS NULL ORDER BY id LIMIT ?""",
            (limit,),
        )
        return {its_id: _draft(*fields).embedding_text for its_id, *fields in rows}

    def keep_new_vectors(self, ids: Sequence[int], vectors: Vectors) -> None:
        """Keep new unit vectors, shape (n, d), of n versions beside those that are read, for those that still exist."""
        with self.database.write() as connection:
            connection.executemany(
                f"UPDATE fact_versions SET new_vector = {self.dialect.vector_value} WHERE id = ?",
                [(self.dialect.vector(vector), its_id) for its_id, vector in zip(ids, vectors, strict=True)],
            )


def _fill_hashes(connection: Connection, scope_id: int) -> None:
    """Give the facts of a scope that an older version has stored their hashes, once."""
    while rows := connection.execute(_WITHOUT_HASH, (scope_id, PAGE)).fetchall():
        hashes = [(text_hash(content, content_type), row) for row, content, content_type in rows]
        connection.executemany("UPDATE memories SET text_hash = ? WHERE row = ?", hashes)


def _draft(fact: str, category: str, keywords: str) -> SemanticDraft:
    """What a version says, in the form in which facts are embedded and searched."""
    with readable("a former version of a fact"):
        words = {"category": decode_category(category), "keywords": decode_texts(keywords)}
        return SemanticDraft.trusted({"fact": fact, **words, "origin": Origin.API})


def _version_of(memory: SemanticMemory, row: Sequence[Any]) -> SemanticMemory:
    """What a fact said in a former version, by a row of ``_FIELDS``; all but words and times is the fact's own."""
    with readable("a former version of a fact"):
        said = _VERSION.decoded(row)
    return SemanticMemory.trusted({**dict(memory), **said, "replaced_by": memory.id, "last_confirmed_at": None})


def _validity(fact: SemanticMemory) -> tuple[datetime, float, datetime, str]:
    until = math.inf if fact.invalid_at is None else fact.invalid_at.timestamp()
    return fact.valid_at, until, fact.created_at, fact.id


VERSIONS_OF_SCOPES: Final = """
    FROM fact_versions v JOIN memories m ON m.row = v.memory JOIN scopes s ON s.id = m.scope_id
    WHERE m.scope_id IN ({scopes})"""


def read_all_versions(whole: Whole) -> Iterator[FactVersion]:
    """Read the former versions of the facts of the scopes, by scope, id and time."""
    rows = whole.execute(
        f"""SELECT s.scope, m.id, {_FIELDS}, v.vector {VERSIONS_OF_SCOPES.format(scopes=whole.scopes)}
        ORDER BY s.scope, m.id, v.valid_at, v.id"""
    )
    for scope, its_id, *fields, stored in rows:
        with readable(f"a former version of memory {its_id!r} in scope {scope!r}"):
            vector = None if stored is None else whole.connection.dialect.stacked([stored])[0]
            yield FactVersion(scope=scope, id=its_id, **_VERSION.decoded(fields), vector=vector)
