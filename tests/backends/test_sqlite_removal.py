"""What removal, purging and copying do to the file itself."""

import numpy as np
import pytest
from contracts.samples import NOW, SCOPE, add, episode, fact, facts_in, review, scene

from memory_retrievers.backends.sql import keyword
from memory_retrievers.backends.sql.keyword import PostingsKeywordIndex
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.backends.sql.passages import holding
from memory_retrievers.backends.sql.sync import SQLAdoptedRows
from memory_retrievers.backends.sqlite import Database
from memory_retrievers.errors import BackendError, ConfigurationError
from memory_retrievers.models import MemoryKey
from memory_retrievers.models.contents import StoredQueue
from memory_retrievers.models.management import Association, AuditEntry
from memory_retrievers.models.messages import Message
from memory_retrievers.models.scenes import CharacterState, SceneDetails
from memory_retrievers.models.storage import AdoptedRow, QueuedMessage

TABLES = [
    "memories",
    "excerpts",
    "passages",
    "passage_contents",
    "postings",
    "keyword_statistics",
    "pending_reviews",
    "scopes",
]


@pytest.fixture
def ledger(tmp_path):
    ledger = SQLLedger(Database(tmp_path / "memory.db"))
    yield ledger
    ledger.close()


@pytest.fixture
def index(ledger):
    return PostingsKeywordIndex(ledger, k1=0.9, b=0.4)


def _store(ledger, index, memories):
    with ledger.database.write():
        passages = add(ledger, memories)
        index.add(passages)
    return passages


def _rows(ledger, *, all_tables=False):
    with ledger.database.read() as connection:
        tables = TABLES
        if all_tables:  # but for those that hold one row, or none, for the whole store
            found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            tables = {name for (name,) in found} - {"sqlite_sequence", "notes", "projection", "outbox", "unwritten"}
        return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}


def test_after_the_last_memory_every_table_is_empty(ledger, index):
    _store(ledger, index, [fact("f1"), fact("f2", "...")])
    ledger.add_pending_reviews([review(ids=["f1"])])
    for id in ("f1", "f2"):
        with ledger.database.write():
            index.remove(ledger.passages_of(SCOPE, id=id))
            ledger.remove([MemoryKey(scope=SCOPE, id=id)])
    assert set(_rows(ledger).values()) == {0}


def test_words_that_an_earlier_analyzer_had_found_go_too(ledger, index, monkeypatch):
    monkeypatch.setattr(keyword, "analyze", lambda text: [*text.split(), "extra"])
    _store(ledger, index, [fact("f1", "green tea"), fact("f2", "tea")])
    monkeypatch.undo()
    index.remove(ledger.passages_of(SCOPE, id="f1"))
    with ledger.database.read() as connection:
        assert connection.execute("SELECT term FROM postings ORDER BY term").fetchall() == [("extra",), ("tea",)]
        assert connection.execute("SELECT passages, terms FROM keyword_statistics").fetchall() == [(1, 2)]


def test_a_passage_that_was_never_indexed_counts_for_nothing_when_it_goes(ledger, index):
    _store(ledger, index, [fact("f1", "green tea")])
    before = _rows(ledger)
    index.remove(add(ledger, [fact("f2", "coffee")]))
    with ledger.database.read() as connection:
        assert connection.execute("SELECT passages, terms FROM keyword_statistics").fetchall() == [(1, 2)]
    assert _rows(ledger)["postings"] == before["postings"]


def test_postings_are_removed_by_key_and_not_by_reading_the_scope(ledger):
    within = holding(ledger.dialect, ":field", "term = :term", "passage = :passage")
    by_term = ledger.dialect.among("term", ":terms")
    statement = keyword._REMOVE_POSTINGS.format(within=within, narrowed=f"AND {by_term}")
    values = {"scope": SCOPE, "field": "semantic", "passage": 1, "terms": "[]", "term": ""}
    with ledger.database.read() as connection:
        plan = " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values))
    assert plan.count("postings") == plan.count("scope_id=? AND kind=? AND term=? AND passage=?") == 2


def test_a_purge_beside_a_reader_says_so_and_a_later_one_succeeds(ledger):
    add(ledger, [fact("f1")])
    ledger.database._writer.execute("PRAGMA busy_timeout = 1")
    with ledger.database.read(snapshot=True) as connection:
        connection.execute("SELECT count(*) FROM memories").fetchone()
        add(ledger, [fact("f2")])
        with pytest.raises(BackendError, match="still being read"):
            ledger.purge()
    ledger.purge()
    assert len(ledger.eligible(facts_in())) == 2


def test_a_purge_inside_a_transaction_is_refused(ledger):
    with pytest.raises(ConfigurationError, match="inside a transaction"), ledger.database.write():
        ledger.purge()


def test_a_copy_that_fails_leaves_nothing(ledger, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr("os.rename", fail)
    with pytest.raises(ConfigurationError, match="disk full"):
        ledger.database.copy_to(tmp_path / "copy" / "memory.db")
    assert list(tmp_path.glob("*copy*")) == []


GONE = "zebra"
"""A word that only what is to be forgotten has: scopes, ids and texts hold it."""


def message(text):
    return Message(role="user", content=text, timestamp=NOW)


def _fill_every_table(ledger, index, *, scope, id, word):
    """Put something of a scope, an id and a word wherever a ledger keeps anything of a memory."""
    key, other = MemoryKey(scope=scope, id=id), MemoryKey(scope=scope, id="kept")
    lists = {"source_episodic_ids": (id,), "consolidated_from": (id,), "keywords": (word,)}
    told = episode(id, f"They had {word}", scope=scope).model_copy(update={"messages": (message(word),)})
    witnessed = SceneDetails(sequence=0, witnesses=(word,), location=word, emotional_impact={word: word})
    told = told.model_copy(update={"scene": witnessed})
    episodes = [told, scene("kept", scope=scope)]
    facts = [
        fact(f"{id}-fact", f"A {word}").model_copy(update={"scope": scope, **lists}),
        fact("kept-fact", scope=scope),
    ]
    passages = _store(ledger, index, [*episodes, *facts])
    ledger.invalidate(scope=scope, id="kept-fact", at=NOW, replaced_by=f"{id}-fact")
    ledger.add_pending_reviews([review(ids=[id], scope=scope)])
    ledger.characters.put(scope, [CharacterState(name="Ada", known_events=(id, "kept"))])
    ledger.conversations.take_reviews(scope, conversation=[message(word)], at=NOW)
    ledger.add_pending_reviews([review(ids=[id, "kept"], scope=scope)])
    waiting = (QueuedMessage(f"{id}-message", message(word)),)
    ledger.conversations.restore(
        StoredQueue(scope=scope, messages=waiting, window_doubled=False, previous_summary=f"They had {word}")
    )
    associated = Association(
        source=key, target=other, type="causal", strength=0.5, auto_generated=False, created_at=NOW
    )
    ledger.management.associate([associated])
    entry = AuditEntry(memory=key, type="score", at=NOW, old=0.1, new=0.9, reason=f"about {word}")
    ledger.management.note([entry])
    rows = SQLAdoptedRows(ledger.database)
    rows.note({f"{id}-there": AdoptedRow(memory=passages[0].memory, digest=b"")})
    ledger.new_vectors.keep([passage.id for passage in passages], np.ones((len(passages), 4), np.float32))


def _places_of(ledger, word):
    """Every table and column in which the word stands, whatever the table is called."""
    with ledger.database.read() as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            (table, column)
            for table in tables
            for _, column, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall()
            if connection.execute(f"SELECT 1 FROM {table} WHERE instr({column}, ?)", (word,)).fetchone()
        }


def test_a_forgotten_scope_leaves_its_name_its_ids_and_its_words_in_no_table(ledger, index):
    _fill_every_table(ledger, index, scope="user/zebra", id="zebra", word="zebra")
    _fill_every_table(ledger, index, scope="user/other", id="camel", word="camel")
    before = _places_of(ledger, "camel")
    assert _places_of(ledger, GONE) == {*before, ("scopes", "scope")}
    rows = _rows(ledger, all_tables=True)
    with ledger.database.write():
        index.remove(ledger.passages_of("user/zebra"))
        ledger.remove_scope("user/zebra", include_child_scopes=True)
    assert _places_of(ledger, GONE) == set()
    assert _places_of(ledger, "camel") == before
    left = _rows(ledger, all_tables=True)
    assert {table: 2 * left[table] for table in left} == rows


def test_a_forgotten_memory_leaves_its_id_and_its_words_in_no_table(ledger, index):
    _fill_every_table(ledger, index, scope="user/a", id="zebra", word="zebra")
    for id in ("zebra", "zebra-fact"):
        with ledger.database.write():
            index.remove(ledger.passages_of("user/a", id=id))
            ledger.remove([MemoryKey(scope="user/a", id=id)])
    # what was said stays: messages that are still to become memories
    assert _places_of(ledger, GONE) == {("queued_messages", "id"), ("queued_messages", "content")}
    assert set(_rows(ledger, all_tables=True).items()) >= {
        ("memories", 2),
        ("associations", 0),
        ("audit", 0),
        ("adopted", 0),
        ("review_jobs", 0),
        ("pending_reviews", 1),
        ("characters", 1),
    }
