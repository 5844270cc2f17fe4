"""The ledger and the indexes on a real PostgreSQL server: every contract that the embedded ones keep."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress

import numpy as np
import psycopg
import pytest
from contracts import KeywordIndexContract, LedgerContract, VectorIndexContract
from contracts.samples import NOW, SCOPE, add, columns_read, fact, facts_in
from kept import kept_terms
from patience import PATIENCE, until
from postgres_server import EMPTIED

from memory_retrievers import AgentMemory, BackendError, ConfigurationError, Message, ValidationError
from memory_retrievers.backends.postgres import Database, HNSWVectorIndex
from memory_retrievers.backends.postgres.schema import PARTITIONS
from memory_retrievers.backends.sql.connection import one
from memory_retrievers.backends.sql.keyword import PostingsKeywordIndex, RankBM25KeywordIndex
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.backends.vectors import ExactVectorIndex
from memory_retrievers.models import Category, MemoryKey
from memory_retrievers.settings import SNAPSHOT_BYTES
from memory_retrievers.testing import HashEmbedder, inside


@pytest.fixture(scope="module")
def ledgers(postgres_server):
    """One that is used again: a new connection has some hundred tables to read about."""
    with postgres_server.lent() as url:
        ledgers = [SQLLedger(Database(url, pool_size=4)), url]
        yield ledgers
        ledgers[0].close()


@pytest.fixture
def ledger(ledgers):
    yield ledgers[0]
    try:
        _empty(ledgers[0])
    except ConfigurationError:  # the test has closed it
        ledgers[0] = SQLLedger(Database(ledgers[1], pool_size=4))
        _empty(ledgers[0])


def _empty(ledger):
    with ledger.database.session() as connection:
        connection.run(EMPTIED)


class TestPostgresLedger(LedgerContract):
    pass


def test_a_snapshot_catches_up_by_what_others_have_changed(ledger, ledgers, monkeypatch):
    def kept():
        with ledger.database.read() as connection:
            return one(connection, "SELECT count(*) FROM changes")

    add(ledger, [fact("f1"), fact("f2")])
    assert len(ledger.snapshots.of(facts_in())) == 2
    asked = columns_read(ledger, monkeypatch)
    other = SQLLedger(Database(ledgers[1], pool_size=2))
    try:
        (third,) = add(other, [fact("f3")])
        assert len(ledger.snapshots.of(facts_in())) == 3
        other.invalidate(scope=SCOPE, id="f3", at=NOW)
        assert np.count_nonzero(ledger.snapshots.seen(facts_in())[1]) == 2
        other.remove([MemoryKey(scope=SCOPE, id="f3")])
        assert len(ledger.snapshots.of(facts_in())) == 2
        assert [each["memories"] for each in asked] == [[third.memory]] * 3
        with other.database.write():
            add(other, [fact(f"m{each}") for each in range(2_400)])  # too many to name
        assert kept() < 2_400
        assert len(ledger.snapshots.of(facts_in())) == 2_402
        assert any(each.get("memories", 0) is None for each in asked)
        other.remove_scope(SCOPE, include_child_scopes=True)
        assert kept() == 0
    finally:
        other.close()


def test_a_transaction_that_postgresql_has_undone_does_not_pass_for_written(ledger):
    def goes_on_after_an_error(result):
        with ledger.database.write("user/1"):
            add(ledger, [fact("f1")])
            with ledger.database.read() as connection, suppress(psycopg.Error):
                result(connection.execute("SELECT 1 / 0"))

    with pytest.raises(BackendError, match="has undone the transaction"):
        goes_on_after_an_error(lambda cursor: cursor.fetchall())
    with pytest.raises(ValidationError, match="division by zero"):  # it is sent with the end of the transaction
        goes_on_after_an_error(lambda cursor: None)
    assert ledger.statistics(None).facts == 0
    add(ledger, [fact("f1")])


class TestPostings(KeywordIndexContract):
    @pytest.fixture(params=[SNAPSHOT_BYTES, -1], ids=["with snapshots", "without"])
    def index(self, ledger, request):
        ledger.snapshots.most = request.param
        return PostingsKeywordIndex(ledger, k1=0.9, b=0.4)


class TestRankBM25(KeywordIndexContract):
    @pytest.fixture
    def index(self, ledger):
        return RankBM25KeywordIndex(ledger, k1=0.9, b=0.4)


class TestHNSWVectors(VectorIndexContract):
    """By an index that is made at the first search of vectors of a length, and is there at the next."""

    @pytest.fixture
    def index(self, ledger, monkeypatch):
        index = HNSWVectorIndex(ledger, database=ledger.database, exact_limit=0)
        for dimension in (2, 3, 4, 8, 16):
            index.make(dimension)
        yield index
        index.close()


def _wide(ledger, number=3_000, dimension=32):
    """An index that answers from the first passage on, and as many passages, an eighth of them of a category."""
    generator = np.random.default_rng(3)
    vectors = generator.standard_normal((number + 20, dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    categories = [Category.GOAL if each % 8 == 0 else Category.NOTE for each in range(number)]
    ledger.write_notes({"dimension": str(dimension)})
    add(ledger, [fact(f"f{each}", category=category) for each, category in enumerate(categories)], vectors[:number])
    return HNSWVectorIndex(ledger, database=ledger.database, exact_limit=10), vectors[number:]


_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"


def _indexes(ledger):
    with ledger.database.session() as connection:
        sql = "SELECT count(*), sum(idx_scan) FROM pg_stat_user_indexes WHERE indexrelname LIKE 'passage_vectors_32%'"
        return connection.execute(sql).fetchone()


@pytest.mark.parametrize("selection", [facts_in(), facts_in(category=Category.GOAL)], ids=["scope", "category"])
def test_a_wide_search_asks_the_index_and_finds_nearly_all_that_an_exact_one_finds(ledger, selection):
    index, queries = _wide(ledger)
    index.make(32)
    _, before = _indexes(ledger)
    recalls = []
    for query in queries:
        exact = ExactVectorIndex(ledger).search(query, selection, limit=50)
        found = index._approximate(query, selection, 50)
        assert found.scores == sorted(found.scores, reverse=True)
        recalls.append(len({*exact.passages} & {*found.passages}) / 50)
    assert np.mean(recalls) >= 0.95
    until(lambda: _indexes(ledger)[1] > before, "a question to the index")  # the server counts with a delay
    index.close()


def test_the_index_is_made_behind_the_first_wide_search_and_gone_after_a_rebuild(ledger):
    index, (query, *_) = _wide(ledger, 200)
    index.rebuild()
    assert _indexes(ledger)[0] == 0
    first = index.search(query, facts_in(), limit=20)  # exact
    index._thread.join(PATIENCE)
    assert _indexes(ledger)[0] == PARTITIONS
    assert index.search(query, facts_in(), limit=20).passages == first.passages
    assert index._ready == {32}
    index.rebuild()
    assert _indexes(ledger)[0] == 0
    index.close()


def test_an_index_that_another_process_is_making_is_left_to_it(ledger):
    index, (query, *_) = _wide(ledger, 200)
    index.rebuild()
    with ledger.database.alone("indexing") as connection:
        assert connection is not None
        index.make(32)
        assert _indexes(ledger)[0] == 0
        assert len(index.search(query, facts_in(), limit=20).passages) == 20
    index.close()


def test_purging_and_making_the_index_do_not_wait_for_each_other(ledgers, ledger):
    index, _ = _wide(ledger, 200)
    index.rebuild()
    url = ledgers[1]
    with psycopg.connect(url) as writer, psycopg.connect(url, autocommit=True) as other, ThreadPoolExecutor(2) as pool:
        writer.execute("LOCK TABLE passage_contents_0 IN ROW EXCLUSIVE MODE")
        made = pool.submit(index.make, 32)
        until(lambda: made.done() or other.execute(_WAITING, ("%CREATE INDEX%",)).fetchone()[0], "making the index")
        purged = pool.submit(ledger.database.compact)
        time.sleep(1)  # if purging waits for a lock of a table, it does before the writer ends
        writer.commit()
        assert made.result(PATIENCE) is None
        assert purged.result(PATIENCE) is None
    assert _indexes(ledger)[0] == PARTITIONS
    index.close()


class TestExactVectors(VectorIndexContract):
    @pytest.fixture
    def index(self, ledger):
        return ExactVectorIndex(ledger)


def test_the_statistics_of_words_are_looked_through_after_everything_is_forgotten(postgres_url):
    with AgentMemory.connect(postgres_url, embedder=HashEmbedder()) as memory:
        fact = memory.remember_fact(scope="user/1", fact="User lives in Lyon")
        memory.forget(fact.id, scope="user/1")
        assert memory.verify().problems == ()


def test_what_another_process_forgets_leaves_the_snapshots_of_one_that_searches_no_more(postgres_url):
    with (
        AgentMemory.connect(postgres_url, embedder=HashEmbedder()) as memory,
        AgentMemory.connect(postgres_url, embedder=HashEmbedder()) as other,  # as of a process
    ):
        memory.remember_fact(scope="c1", fact="The code is zanzibar", id="f1")
        memory.remember_fact(scope="c2", fact="The weather is fine")
        for scope in ("c1", "c2"):
            memory.retrieve("zanzibar weather", scope=scope)
        other.forget("f1", scope="c1")
        assert "zanzibar" in kept_terms(inside(memory))
        inside(memory).ledger.snapshots.let_go_of_forgotten(idle=0)
        assert kept_terms(inside(memory)) == {"weather", "fine"}


def test_what_many_users_have_just_said_is_embedded_while_others_write(postgres_url):
    with (
        AgentMemory.connect(postgres_url, embedder=HashEmbedder()) as memory,
        AgentMemory.connect(postgres_url, embedder=HashEmbedder()) as other,  # as of a process
    ):
        for number in range(100):
            memory.add_messages(f"user/{number}", [Message(role="user", content=f"I am number {number}.")])
        with inside(other).ledger.database.write("elsewhere"):
            inside(memory).pipeline.embed_open()
        assert inside(memory).ledger.open_episodes.unembedded(after=0, limit=1) == []


def test_only_one_process_moves_a_store_to_another_embedder(postgres_url):
    with (
        AgentMemory.connect(postgres_url, embedder=HashEmbedder(), embedder_id="old") as memory,
        AgentMemory.connect(postgres_url, embedder=HashEmbedder(), embedder_id="old") as other,  # as of a process
    ):
        memory.remember_fact(scope="user/1", fact="User lives in Lyon")
        with inside(other).ledger.database.alone("moving") as is_alone:
            assert is_alone
            with pytest.raises(ConfigurationError, match="being re-embedded already"):
                memory.reembed(HashEmbedder(64), embedder_id="new")
        memory.reembed(HashEmbedder(64), embedder_id="new")
        assert [hit.memory.fact for hit in memory.context("Lyon", scope="user/1").semantic] == ["User lives in Lyon"]
        assert memory.verify().problems == ()


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM passages WHERE part = 'semantic'", "memory 'f1' in scope 'user/1' has no passage"),
        ("UPDATE memories SET tags = '['", "memory 'f1' in scope 'user/1' cannot be read: JSONDecodeError"),
        ("UPDATE memories SET content = 'a\x1a0b'", "of memory 'f1' in scope 'user/1' has another text"),
        ("UPDATE passage_contents SET vector = '[1]'", "has 1 numbers instead of 256"),
        ("UPDATE postings SET length = 9", "postings of memory 'f1' in scope 'user/1' are missing or wrong"),
        ("DELETE FROM keyword_statistics", "scope 'user/1' (semantic) say 0 passages with 0 words"),
    ],
)
def test_damage_is_named_and_a_keyword_index_mended(postgres_url, statement, problem):
    with AgentMemory.connect(postgres_url, embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope="user/1", fact="User lives in Lyon", id="f1")
        assert memory.verify().problems == ()
        with psycopg.connect(postgres_url) as connection:
            connection.execute(f"SET session_replication_role = replica; {statement}")
        problems = memory.verify().problems
        assert any(problem in found for found in problems), problems
        memory.rebuild()
        assert ("posting" in problem or "say 0" in problem) == (memory.verify().problems == ())


def test_a_transaction_raises_the_version_of_a_scope_once(ledger):
    with ledger.database.write("user/1"):
        add(ledger, [fact("f1"), fact("f2")])
        add(ledger, [fact("f3")])
    assert _version(ledger) <= 1
    before = _version(ledger)
    ledger.remove([MemoryKey(scope="user/1", id="f1")])
    assert _version(ledger) == before + 1


def _version(ledger):
    with ledger.database.read() as connection:
        return one(connection, "SELECT version FROM scopes WHERE scope = 'user/1'")


def test_what_waits_for_a_round_trip_is_undone_with_what_fails_and_can_be_written_after(ledger):
    def put(number, *, fails=False):
        with ledger.database.write() as connection:
            connection.execute("INSERT INTO notes VALUES (?, '')", (f"{number}",))
            if fails:  # so late that all is sent by then
                connection.execute("SELECT 1 / (SELECT 0 FROM pg_sleep(0.02))")
            connection.execute("UPDATE notes SET value = ? WHERE name = ?", ("put", f"{number}"))

    def fails(number, *, within):
        with (
            ledger.database.write() if within else nullcontext(),
            pytest.raises(ValidationError, match="division by zero"),
        ):
            put(number, fails=True)

    for number in range(20):  # while all goes well, psycopg comes to prepare each; or behind one that fails
        if number < 4 or number > 8:
            fails(number, within=number % 3 == 0)
            fails(number, within=number % 3 == 1)
        put(number)
    assert ledger.notes() == {f"{number}": "put" for number in range(20)}


def test_a_statement_of_a_transaction_waits_until_a_result_is_needed(ledger, monkeypatch):
    sent = []
    execute = psycopg.Cursor.execute
    monkeypatch.setattr(
        psycopg.Cursor,
        "execute",
        lambda cursor, sql, *also, **how: (sent.append(str(sql)), execute(cursor, sql, *also, **how))[1],
    )
    with ledger.database.write() as connection:
        sent.clear()
        first = connection.execute("INSERT INTO notes VALUES ('a', '')")
        connection.execute("UPDATE notes SET value = 'b'")
        assert sent == []
        assert one(connection, "SELECT value FROM notes") == "b"
        assert len(sent) == 3
        assert first.rowcount == 1
        for number in range(40):
            connection.execute("INSERT INTO notes VALUES (?, '')", (str(number),))
        assert len(sent) == 3 + 32
    assert len(ledger.notes()) == 41
