"""What only a PostgreSQL server can do to a store: vanish and come back, be dumped, and have many connect at once."""

import contextlib
import gc
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import psycopg_pool
import pytest
from markdown_it import MarkdownIt
from patience import PATIENCE, until
from postgres_memories import PostgresMemories
from postgres_server import running_postgres
from starlette.testclient import TestClient

import memory_retrievers
from memory_retrievers import (
    AgentMemory,
    BackendError,
    ConfigurationError,
    EmbeddingMismatchError,
    Message,
    RetrievalSettings,
)
from memory_retrievers.backends.chroma.collection import ChromaProjection
from memory_retrievers.backends.postgres import database
from memory_retrievers.backends.postgres.database import Pool
from memory_retrievers.backends.sql import verification
from memory_retrievers.server import ServerSettings, create_app
from memory_retrievers.testing import HashEmbedder, inside

PAGE = Path(memory_retrievers.__file__).parents[1] / "docs" / "postgres.md"

FORK = """
import os, sys
from memory_retrievers import AgentMemory, ConfigurationError
from memory_retrievers.testing import HashEmbedder, inside
memory = AgentMemory.connect(sys.argv[1], embedder=HashEmbedder())
memory.remember_fact(scope="c1", fact="User lives in Lyon")
child = os.fork()
if child == 0:
    outcome = []
    for call in (
        lambda: memory.retrieve("Lyon", scope="c1"),
        lambda: memory.remember_fact(scope="c1", fact="x"),
        lambda: memory.process_due(),
    ):
        try:
            call()
        except ConfigurationError as error:
            outcome.append("open it again in the child" in str(error))
    memory.close()
    with AgentMemory.connect(sys.argv[1], embedder=HashEmbedder()) as own:
        outcome.append(len(own.retrieve("Lyon", scope="c1").semantic))
    print(*outcome, flush=True)
    os._exit(0)
os.waitpid(child, 0)
memory.remember_fact(scope="c1", fact="User likes Lyon")
print(len(memory.retrieve("Lyon", scope="c1").semantic), flush=True)
memory.close()
"""


pytestmark = pytest.mark.usefixtures("own_pools")


def connected(url, **given):
    return AgentMemory.connect(url, embedder=HashEmbedder(), **given)


class TestTwoEmbedders:
    def test_that_differ_cannot_both_fill_an_empty_store(self, url):
        begin, outcomes = threading.Barrier(2, timeout=PATIENCE), {}

        def fill(dimension):
            with AgentMemory.connect(url, embedder=HashEmbedder(dimension), embedder_id=f"hash-{dimension}") as memory:
                begin.wait()
                try:
                    memory.remember_fact(scope="c1", fact="User likes tea", id=f"f{dimension}")
                    outcomes[dimension] = "stored"
                except EmbeddingMismatchError:
                    outcomes[dimension] = "refused"

        with ThreadPoolExecutor(2) as threads:
            list(threads.map(fill, (32, 64)))
        assert sorted(outcomes.values()) == ["refused", "stored"]
        (stored,) = [dimension for dimension, outcome in outcomes.items() if outcome == "stored"]
        with AgentMemory.connect(url, embedder=HashEmbedder(stored), embedder_id=f"hash-{stored}") as memory:
            assert [each.id for each in memory.list("c1").memories] == [f"f{stored}"]
            assert memory.verify().ok


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_a_memory_from_before_a_fork_is_refused_in_the_child_and_goes_on_in_the_parent(url):
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK, url]  # Python 3.12 warns of threads
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.stderr) == ("True True True 1\n2\n", "")


class TestConnectionLoss:
    def test_connections_that_were_cut_while_idle_are_replaced_without_an_error(self, server, name, url):
        with connected(url) as memory:
            memory.remember_fact(scope="c1", fact="User likes tea")
            time.sleep(0.7)  # one that has just been used is not asked whether it is there
            cut = f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'"
            assert len(server.run(cut)) >= 2
            assert len(memory.retrieve("tea", scope="c1").semantic) == 1
            memory.remember_fact(scope="c1", fact="User likes more tea")
            assert memory.verify().memories == 2

    @pytest.mark.parametrize("part", ["all_rows", "read_passages"])
    def test_one_that_is_lost_while_a_store_is_verified_is_no_damage(self, server, name, url, monkeypatch, part):
        read = getattr(verification, part)

        def cut(connection):
            server.run(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'")
            return read(connection)

        with connected(url) as memory:
            memory.remember_fact(scope="c1", fact="User likes tea")
            with monkeypatch.context() as patched:
                patched.setattr(verification, part, cut)
                with pytest.raises(BackendError, match="PostgreSQL failed"):
                    memory.verify()
            assert memory.verify().ok

    def test_one_that_the_server_ends_while_a_store_is_verified_is_no_damage(self, server, name, url, monkeypatch):
        read = verification.read_passages

        def is_slow(connection):  # a bound of this session alone: opening may pause for longer on a busy machine
            connection.run("SET idle_in_transaction_session_timeout = '100ms'")
            own = connection.raw.info.backend_pid
            until(lambda: not server.run(f"SELECT 1 FROM pg_stat_activity WHERE pid = {own}"), "the end")
            return read(connection)

        with connected(url) as memory:
            memory.remember_fact(scope="c1", fact="User likes tea")
            with monkeypatch.context() as patched:
                patched.setattr(verification, "read_passages", is_slow)
                with pytest.raises(BackendError, match="PostgreSQL failed"):
                    memory.verify()
            assert memory.verify().ok

    def test_a_file_that_is_missing_on_the_server_is_damage(self, server, name, url):
        with connected(url) as memory:
            memory.remember_fact(scope="c1", fact="User likes tea")
        ((path,),) = server.run("SELECT pg_relation_filepath('passage_contents_0')", database=name)
        server.run("CHECKPOINT")
        file = server.directory / path
        file.rename(file.with_suffix(".away"))
        try:
            with connected(url) as memory:
                problems = memory.verify().problems
        finally:
            file.with_suffix(".away").rename(file)
        assert any("No such file" in each for each in problems)

    def test_a_server_that_is_away_is_no_damage_to_the_command_either(self, tmp_path):
        store = f"postgresql://nobody@/store?host={tmp_path}"
        command = [Path(sys.executable).parent / "memory-retrievers", "verify", "--store", store]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert (done.returncode, done.stdout) == (2, "")
        assert "PostgreSQL failed" in done.stderr

    def test_a_server_that_has_come_to_take_no_writes_says_how_another_is_found(self, server, name, url):
        with connected(url) as memory:
            memory.remember_fact(scope="c1", fact="User likes tea")
            time.sleep(0.7)
            server.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")  # as a primary that was demoted
            server.run(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'")
            assert len(memory.retrieve("tea", scope="c1").semantic) == 1
            with pytest.raises(BackendError, match="target_session_attrs=read-write in the address"):
                memory.remember_fact(scope="c1", fact="User likes more tea")

    def test_one_that_comes_back_after_another_was_found_dead_is_asked_whether_it_is_there(self, server, name, url):
        pool = Pool(url, size=2, patience=PATIENCE, settings={}, sign=1)
        try:
            with pool.taken(), pool.taken() as lost:
                server.run(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'")
                with pytest.raises(psycopg.OperationalError):
                    lost.execute("SELECT 1")
            with pool.taken() as one, pool.taken() as other:
                assert [each.execute("SELECT 1").fetchone() for each in (one, other)] == [(1,), (1,)]
        finally:
            pool.close()

    def test_what_one_handle_could_not_give_back_another_of_the_process_takes_up(self, server, name, url):
        cut = f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'"

        class IsCutOff:
            def segment(self, messages, context):
                server.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
                server.run(cut)
                raise TimeoutError

        with AgentMemory.connect(url, embedder=HashEmbedder(), segmenter=IsCutOff()) as memory:
            memory.add_messages("c", [Message(role="user", content="I keep bees.")])
            with pytest.raises(BackendError):
                memory.flush("c")
        server.run(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        with connected(url) as memory:
            claim = inside(memory).pipeline.queue.claim("c", whole=True)
            assert claim is not None
            assert [each.message.content for each in claim.messages] == ["I keep bees."]

    def test_connections_that_interrupts_have_lost_are_replaced(self, server, name, url, monkeypatch):
        pool = Pool(url, size=2, patience=PATIENCE, settings={}, sign=1)
        here = f"SELECT pid FROM pg_stat_activity WHERE datname = '{name}'"
        try:
            take = pool._pool.getconn

            def taken_and_interrupted():
                take()
                raise KeyboardInterrupt

            with monkeypatch.context() as pressed:
                pressed.setattr(pool._pool, "getconn", taken_and_interrupted)
                for _ in range(5):
                    with pytest.raises(KeyboardInterrupt), pool.taken():
                        pass
            with pool.taken() as one, pool.taken() as other:
                assert [each.execute("SELECT 1").fetchone() for each in (one, other)] == [(1,), (1,)]
                until(lambda: len(server.run(here)) == 2, "the end of those that were lost")
        finally:
            pool.close()

    def test_ctrl_c_ends_a_flush_that_waits_for_its_scope(self, server, name, url):
        def interrupt():
            until(lambda: server.run(f"SELECT pid {waiting}"), "the flush that waits")
            os.kill(os.getpid(), signal.SIGINT)

        waiting = f"FROM pg_stat_activity WHERE datname = '{name}' AND wait_event_type = 'Lock'"
        with connected(url) as memory, connected(url) as other, ThreadPoolExecutor(1) as pool:
            memory.add_messages("c1", [Message(role="user", content="I keep bees.")])
            with inside(other).ledger.database.write("c1"):
                interrupted = pool.submit(interrupt)
                with pytest.raises(KeyboardInterrupt):
                    memory.flush("c1")
                interrupted.result()
            assert len(memory.flush("c1").episodes) == 1

    def test_a_time_limit_that_ends_a_call_is_what_the_caller_gets(self, server, name, url):
        """As of Celery's ``SoftTimeLimitExceeded``; the driver puts an error of its own in its place."""

        class TimeIsUpError(Exception):
            pass

        def end(*_signal):
            raise TimeIsUpError

        def end_what_sleeps():
            until(lambda: server.run(f"SELECT pid {asleep}"), "the statement that takes long")
            os.kill(os.getpid(), signal.SIGUSR1)

        asleep = f"FROM pg_stat_activity WHERE datname = '{name}' AND wait_event = 'PgSleep'"
        before = signal.signal(signal.SIGUSR1, end)
        try:
            with connected(url) as memory, ThreadPoolExecutor(1) as pool:
                ended = pool.submit(end_what_sleeps)
                with pytest.raises(TimeIsUpError), inside(memory).ledger.database.write("c") as connection:
                    connection.send("SELECT pg_sleep(600)", "SELECT 1")
                ended.result()
                server.run(f"SELECT pg_terminate_backend(pid) {asleep}")
                memory.remember_fact(scope="c", fact="User likes tea")
                assert memory.verify().ok
        finally:
            signal.signal(signal.SIGUSR1, before)

    def test_connections_that_cannot_be_set_up_make_no_room_for_more(self, url, caplog):
        caplog.set_level("CRITICAL", logger="psycopg.pool")  # what is logged keeps the connection
        pool = Pool(url, size=2, patience=PATIENCE, settings={}, sign=1)
        try:
            pool._settings["work_mem"] = "none"
            with pool.taken() as one, pool.taken() as other:
                one.close()
                other.close()
            with pytest.raises(psycopg_pool.PoolTimeout):
                pool._pool.getconn(timeout=0.5)
            del pool._settings["work_mem"]
            gc.collect()
            with pool.taken():
                assert pool._pool.max_size == 2
        finally:
            pool.close()

    def test_a_server_that_is_down_is_told_of_soon_and_without_the_password_and_used_when_it_is_back(self, monkeypatch):
        with running_postgres() as own:
            url = own.url(own.create()).replace("postgres:@", "postgres:hush-hush@")
            with connected(url) as memory:
                memory.remember_fact(scope="c1", fact="User likes tea", id="f1")
                pool = inside(memory).ledger.database._pool._pool
                usual = pool.timeout
                own.cut_power()
                monkeypatch.setattr(database, "_PATIENCE", 2.0)
                pool.timeout = pool.reconnect_timeout = 2.0
                for call in (
                    lambda: memory.retrieve("tea", scope="c1"),
                    lambda: memory.remember_fact(scope="c1", fact="lost"),
                    lambda: memory.add_messages("c1", [Message(role="user", content="lost")]),
                    lambda: memory.forget("f1", scope="c1"),
                    lambda: memory.list("c1"),
                    lambda: connected(url),
                ):
                    began = time.monotonic()
                    with pytest.raises(BackendError, match=r"^PostgreSQL failed: \w+") as caught:
                        call()
                    assert time.monotonic() - began < usual - 5
                    assert "hush" not in str(caught.value)
                own.start()
                pool.timeout = usual
                memory.remember_fact(scope="c1", fact="User likes more tea", id="f2")
                assert {each.id for each in memory.list("c1").memories} == {"f1", "f2"}
                assert memory.verify().ok

    @pytest.mark.parametrize(
        "address",
        [
            *(
                "user:hush@[::1/x",
                "user:hu%sh@h/x",
                "user:hush@h/x?pgbouncer=true",
                "user:hush@h/\ud800",
                "user:pa@hush@h,g/x",
            ),
            *("user:pa/hush@h:1/x", "user:pa@hush/word@h/x", "user:pa/hush@h", "user:pa/hush@h?sslmode=require"),
        ],
    )
    def test_an_address_that_cannot_be_read_is_not_shown(self, address):
        with pytest.raises(ConfigurationError, match=r"cannot be read: .* with parameters that libpq knows") as caught:
            connected(f"postgresql://{address}")
        assert "hush" not in str(caught.value)
        assert caught.value.__cause__ is None

    def test_who_waits_for_a_connection_in_vain_is_told_what_it_may_be(self, url):
        with connected(url, pool_size=2) as memory:
            database = inside(memory).ledger.database
            database._pool._pool.timeout = 0.5
            told = pytest.raises(BackendError, match=r"cannot be reached, or all connections that pool_size allows")
            with database.session(), database.session(), told:
                memory.list("c1")

    def test_a_database_that_was_made_anew_says_that_the_store_is_not_there(self, server, url, name):
        with connected(url) as memory:
            memory.remember_fact(scope="c1", fact="User likes tea")
            server.run(f"DROP DATABASE {name} WITH (FORCE)")
            server.run(f"CREATE DATABASE {name}")
            with contextlib.suppress(BackendError):  # the call that finds its connection lost
                memory.list("c1")
            with pytest.raises(BackendError, match=r"does not exist; tables of the store are missing: restore"):
                memory.list("c1")
            assert "the table memories is missing: restore the database from a backup" in memory.verify().problems

    @pytest.mark.parametrize(
        "setting", ["statement_timeout", "transaction_timeout", "idle_in_transaction_session_timeout"]
    )
    def test_what_takes_longer_than_the_database_lets_it_says_which_setting_that_is(self, server, url, setting):
        def take_longer():
            with inside(memory).ledger.database.read(snapshot=True) as connection:
                connection.run(f"SET {setting} = '50ms'")
                if setting.startswith("idle"):
                    own = connection.raw.info.backend_pid
                    until(lambda: not server.run(f"SELECT 1 FROM pg_stat_activity WHERE pid = {own}"), "the end")
                connection.run("SELECT pg_sleep(9)")

        with connected(url) as memory:
            with pytest.raises(BackendError, match=f"timeout; if {setting} is set for this role .*, make it longer"):
                take_longer()
            assert memory.verify().ok

    def test_a_first_connection_says_why_the_database_ended_it(self, server, name, url):
        server.run(f"ALTER DATABASE {name} SET transaction_timeout = '500ms'")
        with psycopg.connect(url, options="-ctransaction_timeout=0") as other:  # has the turn to make the tables
            other.execute("SELECT pg_advisory_xact_lock(hashtext('memory-retrievers/migrate'))")
            told = r"due to transaction timeout; if transaction_timeout .* make it longer"
            with pytest.raises(BackendError, match=told):
                connected(url)
        server.run(f"ALTER DATABASE {name} RESET transaction_timeout")
        connected(url).close()

    @pytest.mark.parametrize("setting", ["transaction_timeout", "idle_in_transaction_session_timeout"])
    def test_a_reason_that_is_read_before_anything_else_is_asked_is_told(self, server, url, setting):
        """As where this process stands still, and what the server answered and said last lies there at once."""
        with connected(url) as memory:
            told = pytest.raises(BackendError, match=f"timeout; if {setting} is set for this role .*, make it longer")
            with told, inside(memory).ledger.database.read(snapshot=True) as connection:
                own, libpq = connection.raw.info.backend_pid, connection.raw.pgconn
                libpq.send_query(f"SET {setting} = '50ms'".encode())
                until(lambda: not server.run(f"SELECT 1 FROM pg_stat_activity WHERE pid = {own}"), "the end")
                libpq.consume_input()
                while libpq.get_result():
                    pass
                connection.run("SELECT 1")
            assert memory.verify().ok

    @pytest.mark.parametrize("size", [1, "3", None, 2.5])
    def test_a_single_connection_is_too_few_and_another_type_no_number(self, url, size):
        with pytest.raises(ConfigurationError, match=f"pool_size must be a whole number and at least 2, not {size!r}"):
            connected(url, pool_size=size)


def test_a_dump_is_restored_as_the_same_store(server, url, tmp_path):
    with connected(url) as memory:
        memory.remember_episode(
            scope="c1", summary="The user moved to Lyon", messages=[Message(role="user", content="hi")]
        )
        memory.add_messages("c1", [Message(role="user", content="hello")])
        held = memory.list("c1").memories
    restored = server.url(server.create())
    dump = tmp_path / "store.dump"
    subprocess.run([server.program("pg_dump"), "--format=custom", f"--file={dump}", url], check=True)
    subprocess.run([server.program("pg_restore"), "--exit-on-error", f"--dbname={restored}", dump], check=True)
    with connected(restored) as memory:
        assert memory.list("c1").memories == held
        assert memory.verify().ok
        assert memory.flush("c1").episodes
        memory.forget(held[0].id, scope="c1")
        assert memory.verify().ok


def test_what_a_restore_over_an_existing_store_has_dropped_is_named(server, url, tmp_path):
    connected(url).close()
    dump = tmp_path / "store.dump"
    subprocess.run([server.program("pg_dump"), "--format=custom", f"--file={dump}", url], check=True)
    restore = [server.program("pg_restore"), "--clean", "--exit-on-error", f"--dbname={url}", dump]
    assert subprocess.run(restore, check=False, capture_output=True).returncode == 1
    with connected(url) as memory:
        problems = memory.verify().problems
    for what in ("policy within of scopes", "index memories_by_id of memories"):
        assert f"the {what} is missing: restore the database from a backup" in problems
    lost = "the trigger memories_removed of memories is missing or disabled: enable it, or restore the database from"
    assert f"{lost} a backup" in problems


class TestAWriteUnderAKeyWhoseConnectionIsLost:
    @pytest.fixture
    def write(self, server, name, url):
        """Writes over HTTP under one key."""
        server.run(f"ALTER DATABASE {name} SET synchronous_commit = on")
        body = {"conversation_id": "c1", "messages": [{"role": "user", "content": "hello"}]}
        headers = {"Idempotency-Key": "once"}
        app = create_app(connected(url), settings=ServerSettings(worker=False))
        with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
            yield lambda: client.post("/api/v0/add_messages", json=body, headers=headers)

    def test_before_it_is_done_may_be_tried_again(self, server, name, write, monkeypatch):
        with monkeypatch.context() as patched:
            patched.setattr(database, "_IDLE", math.inf)  # none is asked whether it is there
            server.run(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'")
            failed = write()
        assert (failed.status_code, failed.json()["error_type"]) == (503, "BackendError")
        assert "Retry-After" in failed.headers
        assert write().json() == {"accepted": 1, "queued": 1, "due": False}

    def test_where_it_was_committed_all_the_same_is_done_once(self, server, name, write):
        """As at a failover: the server has committed, and waits for a standby before it says so."""
        waiting = f"SELECT pid FROM pg_stat_activity WHERE datname = '{name}' AND wait_event = 'SyncRep'"
        with ThreadPoolExecutor(1) as other:
            try:
                server.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
                server.run("SELECT pg_reload_conf()")
                first = other.submit(write)
                until(lambda: server.run(waiting), "the commit")
            finally:
                server.run("ALTER SYSTEM RESET synchronous_standby_names")
                server.run(f"SELECT pg_terminate_backend(pid, 5000) FROM ({waiting}) AS each")
                server.run("SELECT pg_reload_conf()")
            assert first.result(PATIENCE).status_code == 503
        again = write()
        assert (again.status_code, "is done" in again.json()["message"]) == (409, True)
        assert server.run("SELECT count(*) FROM queued_messages", database=name) == [(1,)]


@pytest.mark.skipif(not PAGE.exists(), reason="the page is part of a checkout only")
def test_the_python_of_the_page_on_postgresql_runs(url, monkeypatch, capsys):
    monkeypatch.setenv("DATABASE_URL", url)
    blocks = [fence for fence in MarkdownIt().parse(PAGE.read_text("utf-8")) if fence.info == "py"]
    names = {}
    for block in blocks:
        exec(re.sub("postgresql://[a-z]+@[a-z]+.example/agents", url, block.content), names)  # noqa: S102
    names["confined"].close()
    assert len(blocks) == 3
    assert capsys.readouterr().out.count("Alice is allergic to peanuts") == 2


class TestChroma:
    @pytest.fixture
    def asked(self, monkeypatch):
        """The threads' names, once for every search that Chroma has answered."""
        asked, search = [], ChromaProjection.search

        def searched(*given, **named):
            found = search(*given, **named)
            asked.append(threading.current_thread().name)
            return found

        monkeypatch.setattr(ChromaProjection, "search", searched)
        return asked

    def test_two_memories_feed_one_collection_that_answers_wide_searches(self, url, run_chroma, tmp_path, asked):
        with run_chroma(tmp_path) as client:
            given = {"dense": client, "retrieval": RetrievalSettings(exact_limit=5)}
            with connected(url, **given) as first, connected(url, **given) as second:
                for number in range(10):
                    first.remember_fact(scope="c1", fact=f"User likes tea {number}", id=f"a{number}")
                    second.remember_fact(scope="c1", fact=f"User likes coffee {number}", id=f"b{number}")
                for memory in (first, second):
                    self.search_until_asked(memory, asked)
                    assert (memory.verify().projected > 0, memory.verify().problems) == (True, ())
                    assert memory.retrieve("coffee 3", scope="c1").semantic[0].memory.id == "b3"
                first.forget("b3", scope="c1")
                assert "b3" not in {each.memory.id for each in second.retrieve("coffee 3", scope="c1").semantic}
                with ThreadPoolExecutor(2) as threads:
                    list(threads.map(self.add_and_search, (first, second), ("water", "juice")))
            with connected(url, **given) as third:
                assert (third.verify().projected, third.verify().problems) == (59, ())
                (collection,) = client.list_collections()
                assert collection.count() == 59

    @staticmethod
    def search_until_asked(memory, asked):
        """Searches are exact until the projection is open and fed."""
        answered, deadline = len(asked), time.monotonic() + PATIENCE
        while len(asked) == answered:
            assert time.monotonic() < deadline
            memory.retrieve("coffee 3", scope="c1")
            time.sleep(0.05)

    @staticmethod
    def add_and_search(memory, drink):
        for number in range(20):
            memory.remember_fact(scope="c1", fact=f"User drinks {drink} {number}")
            memory.retrieve(drink, scope="c1")

    def test_a_confined_memory_cannot_feed_chroma(self, url, run_chroma, tmp_path):
        with run_chroma(tmp_path) as client, pytest.raises(ConfigurationError, match="cannot use Chroma"):
            connected(url, dense=client, within="tenant/a")


def test_a_store_is_opened_again_while_its_connections_are_out(postgres_server, tmp_path):
    """The tests' own pools are shared; waiting for a shared one to fill once closed it under everybody."""
    memories = PostgresMemories(postgres_server)
    with memories.in_place(), AgentMemory.open(tmp_path, embedder=HashEmbedder()) as memory:
        with inside(memory).ledger.database.session(), AgentMemory.open(tmp_path, embedder=HashEmbedder()) as second:
            second.remember_fact(scope="u", fact="User likes tea", id="f1")
        assert memory.get("f1", scope="u").fact == "User likes tea"


THINKS = """
import sys, time
from memory_retrievers import AgentMemory, Message
from memory_retrievers.testing import HashEmbedder

class Thinks:
    def segment(self, messages, context):
        print("thinking", flush=True)
        time.sleep(3600)

with AgentMemory.connect(sys.argv[1], embedder=HashEmbedder(), segmenter=Thinks()) as memory:
    memory.add_messages("c", [Message(role="user", content="I keep bees.")])
    memory.flush("c")
"""


def test_what_a_killed_process_was_working_on_is_taken_over_at_once_and_that_of_a_living_one_is_not(url):
    command = [sys.executable, "-c", THINKS, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, connected(url) as memory:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "thinking\n"
            queue = inside(memory).pipeline.queue
            assert queue.claim("c", whole=True) is None
            sessions = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'"
            assert inside(memory).ledger.conversations.value(sessions) == 0  # nobody waits for the one that thinks
        finally:
            process.kill()
        process.wait(PATIENCE)
        claim = until(lambda: queue.claim("c", whole=True), "the end of the lease")
        assert [each.message.content for each in claim.messages] == ["I keep bees."]
