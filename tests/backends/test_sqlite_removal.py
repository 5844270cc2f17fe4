"""What removal, purging and copying do to the file itself."""

import pytest

from memory_retrievers.backends import sqlite_bm25
from memory_retrievers.backends.sqlite import SQLiteLedger
from memory_retrievers.backends.sqlite_bm25 import SQLiteKeywordIndex
from memory_retrievers.errors import BackendError, ConfigurationError
from memory_retrievers.testing.contracts.samples import SCOPE, add, fact, facts_in, review

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
    ledger = SQLiteLedger(tmp_path / "memory.db")
    yield ledger
    ledger.close()


@pytest.fixture
def index(ledger):
    return SQLiteKeywordIndex(ledger, k1=0.9, b=0.4)


def _store(ledger, index, memories):
    with ledger.transaction():
        passages = add(ledger, memories)
        index.add(passages)
    return passages


def _rows(ledger):
    with ledger.database.read() as connection:
        return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES}


def test_after_the_last_memory_every_table_is_empty(ledger, index):
    _store(ledger, index, [fact("f1"), fact("f2", "...")])
    ledger.add_pending_reviews([review(ids=["f1"])])
    for id in ("f1", "f2"):
        with ledger.transaction():
            index.remove(ledger.passages_of(SCOPE, id=id))
            ledger.remove(scope=SCOPE, id=id)
    assert set(_rows(ledger).values()) == {0}


def test_words_that_an_earlier_analyzer_had_found_go_too(ledger, index, monkeypatch):
    monkeypatch.setattr(sqlite_bm25, "analyze", lambda text: [*text.split(), "extra"])
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
    statement = sqlite_bm25._REMOVE_POSTINGS.format(narrowed="AND term IN (SELECT value FROM json_each(:terms))")
    values = {"scope": SCOPE, "kind": "semantic", "passage": 1, "terms": "[]"}
    with ledger.database.read() as connection:
        plan = " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values))
    assert "scope_id=? AND kind=? AND term=? AND passage=?" in plan


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
    with pytest.raises(ConfigurationError, match="inside a transaction"), ledger.transaction():
        ledger.purge()


def test_a_copy_that_fails_leaves_nothing(ledger, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.rename", fail)
    with pytest.raises(ConfigurationError, match="disk full"):
        ledger.backup(tmp_path / "copy" / "memory.db")
    assert list(tmp_path.glob("*copy*")) == []
