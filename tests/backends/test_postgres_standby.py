"""A second server that follows the first: it is looked into, takes over, or holds what was there at a moment."""

import contextlib
from datetime import UTC, datetime

import pytest
from patience import until
from postgres_server import base_backup, running_backup, running_postgres
from typer.testing import CliRunner

from memory_retrievers import (
    AgentMemory,
    BackendError,
    ConfigurationError,
    Message,
    RetrievalSettings,
    StoreLockedError,
)
from memory_retrievers.backends.postgres import HNSWVectorIndex
from memory_retrievers.cli import app
from memory_retrievers.testing import FixedClock, HashEmbedder

HASHED = "memory_retrievers.testing:HashEmbedder"
FOLLOWS = "--write-recovery-conf"
NOW = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)

pytestmark = pytest.mark.usefixtures("own_pools")


def connected(url, **given):
    return AgentMemory.connect(url, embedder=HashEmbedder(), clock=FixedClock(NOW), **given)


def looking(url, **given):
    return connected(url, read_only=True, **given)


def facts(memory, scope="c1"):
    return {each.id for each in memory.list(scope).memories}


def wait_until(holds):
    until(holds)


class TestReadOnly:
    """Of any server, whether it takes writes or not."""

    def test_an_empty_database_is_not_looked_into_and_stays_empty(self, server, name, url):
        with pytest.raises(ConfigurationError, match="no memory store in this database"):
            looking(url)
        assert server.run("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", database=name) == [(0,)]

    def test_tables_of_another_version_are_refused_and_left_as_they_are(self, server, name, url):
        connected(url).close()
        for version, told in ((0, "no memory store"), (99, "newer version of memory-retrievers \\(schema 99")):
            server.run(f"UPDATE schema_version SET version = {version}", database=name)
            with pytest.raises(ConfigurationError, match=told):
                looking(url)
            assert server.run("SELECT version FROM schema_version", database=name) == [(version,)]

    def test_tables_of_an_older_version_are_refused_with_what_to_do(self, url, monkeypatch):
        from memory_retrievers.backends.postgres import migrations

        connected(url).close()
        monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, ("SELECT 1",)))
        with pytest.raises(ConfigurationError, match=r"older version .* connect once without read_only=True"):
            looking(url)
        connected(url).close()
        looking(url).close()

    def test_nothing_is_changed_or_noted(self, url, tmp_path):
        with connected(url) as memory:
            memory.remember_fact(scope="c1", fact="User likes tea", id="f1")
            memory.export(tmp_path / "before.jsonl")
        with looking(url) as memory:
            assert [each.memory.id for each in memory.retrieve("tea", scope="c1").semantic] == ["f1"]
            for change in (
                lambda: memory.remember_fact(scope="c1", fact="User likes coffee"),
                lambda: memory.add_messages("c1", [Message(role="user", content="hello")]),
                lambda: memory.forget("f1", scope="c1"),
                lambda: memory.forget_scope("c1"),
                lambda: memory.update("f1", scope="c1", fact="User likes coffee"),
                lambda: memory.reembed(HashEmbedder(64), embedder_id="small"),
                lambda: memory.rebuild("dense"),
                lambda: memory.rebuild("sparse"),
                memory.purge,
                memory.start_worker,
            ):
                with pytest.raises(ConfigurationError, match="opened read-only"):
                    change()
            memory.export(tmp_path / "after.jsonl")
        assert (tmp_path / "before.jsonl").read_bytes() == (tmp_path / "after.jsonl").read_bytes()

    def test_no_index_is_made_for_wide_searches_which_stay_exact(self, server, name, url, caplog):
        with connected(url) as memory:
            for number in range(20):
                memory.remember_fact(scope="c1", fact=f"User likes tea {number}", id=f"f{number}")
        with looking(url, retrieval=RetrievalSettings(exact_limit=5)) as memory:
            assert memory.retrieve("tea 7", scope="c1").semantic[0].memory.id == "f7"
        assert "searches stay exact: this memory was opened read-only" in caplog.text
        made = "SELECT count(*) FROM pg_indexes WHERE starts_with(indexname, 'passage_vectors_')"
        assert server.run(made, database=name) == [(0,)]


@pytest.fixture(scope="module")
def primary():
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def standby(primary):
    """Follows the primary, which waits with every commit until the standby shows it."""
    with base_backup(primary, FOLLOWS) as directory, running_backup(directory) as copy:
        primary.run("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.run("ALTER SYSTEM SET synchronous_commit = 'remote_apply'")
        primary.run("SELECT pg_reload_conf()")
        wait_until(lambda: primary.run("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"))
        yield copy


@pytest.fixture
def stored(primary, standby):
    """The name of a database on both servers."""
    return primary.create()


class TestStandby:
    def test_it_is_not_written_and_that_is_said_at_once(self, primary, standby, stored):
        for _ in ("without tables", "with tables"):
            with pytest.raises(StoreLockedError, match=r"takes no writes.*read_only=True"):
                connected(standby.url(stored))
            connected(primary.url(stored)).close()

    def test_it_answers_as_the_primary_does(self, primary, standby, stored, tmp_path):
        with connected(primary.url(stored)) as memory:
            memory.remember_fact(scope="c1", fact="User likes tea", id="f1")
            memory.remember_episode(
                scope="c1/child", summary="The user moved to Lyon", messages=[Message(role="user", content="hi")]
            )
            memory.add_messages("c1", [Message(role="user", content="hello")])
            with looking(standby.url(stored)) as look:
                for question in ("tea", "Where does the user live?"):
                    asked = {"scope": "c1", "include_child_scopes": True, "record": False}
                    assert look.retrieve(question, **asked) == memory.retrieve(question, **asked)
                    assert look.context(question, scope="c1") == memory.context(question, scope="c1")
                assert look.stats("c1") == memory.stats("c1")
                assert look.verify() == memory.verify()
                memory.export(tmp_path / "primary.jsonl")
                look.export(tmp_path / "standby.jsonl")
        assert (tmp_path / "primary.jsonl").read_bytes() == (tmp_path / "standby.jsonl").read_bytes()

    def test_what_changes_on_the_primary_changes_in_a_memory_that_is_open(self, primary, standby, stored):
        with connected(primary.url(stored)) as memory:
            memory.remember_fact(scope="c1", fact="User likes tea", id="f1")
            with looking(standby.url(stored)) as look:
                assert facts(look) == {"f1"}
                memory.remember_fact(scope="c1", fact="User likes green tea", id="f2")
                assert {each.memory.id for each in look.retrieve("tea", scope="c1").semantic} == {"f1", "f2"}
                memory.forget("f1", scope="c1")
                assert {each.memory.id for each in look.retrieve("tea", scope="c1").semantic} == {"f2"}

    def test_the_index_of_the_primary_is_searched(self, primary, standby, stored, monkeypatch):
        wide = RetrievalSettings(exact_limit=5)
        with connected(primary.url(stored), retrieval=wide) as memory:
            for number in range(20):
                memory.remember_fact(scope="c1", fact=f"User likes tea {number}", id=f"f{number}")
            memory.retrieve("tea 7", scope="c1")
            made = "SELECT count(*) FROM pg_indexes WHERE starts_with(indexname, 'passage_vectors_')"
            wait_until(lambda: standby.run(made, database=stored) == [(8,)])
        with looking(standby.url(stored), retrieval=wide) as look:
            found, search = [], HNSWVectorIndex._approximate
            monkeypatch.setattr(
                HNSWVectorIndex, "_approximate", lambda self, *asked: found.append(search(self, *asked)) or found[-1]
            )
            assert look.retrieve("tea 7", scope="c1").semantic[0].memory.id == "f7"
        assert found, "the index was asked"
        assert None not in found, "and answered"

    def test_commands_look_into_it(self, primary, standby, stored):
        with connected(primary.url(stored)) as memory:
            memory.remember_fact(scope="c1", fact="User likes tea", id="f1")
        place = ("--store", standby.url(stored))
        for command in (
            ("retrieve", "tea", "--scope", "c1", "--embedder", HASHED),
            ("list", "--scope", "c1"),
            ("verify",),
        ):
            result = CliRunner().invoke(app, [*command, *place])
            assert (result.exit_code, result.stderr) == (0, ""), result.output
            assert ("User likes tea" in result.stdout) == (command != ("verify",))
        refused = CliRunner().invoke(app, ["remember", "--fact", "x", "--scope", "c1", "--embedder", HASHED, *place])
        assert (refused.exit_code, "takes no writes" in refused.stderr) == (2, True), refused.output


def test_a_memory_goes_on_with_the_standby_when_the_primary_is_gone():
    """One address names both; nothing acknowledged is lost, since the primary waited for the standby with it."""
    with (
        running_postgres() as first,
        base_backup(first, FOLLOWS) as directory,
        running_backup(directory) as second,
    ):
        first.run("ALTER SYSTEM SET synchronous_standby_names = '*'")
        first.run("SELECT pg_reload_conf()")
        wait_until(lambda: first.run("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"))
        either = (
            f"postgresql://postgres@/postgres?host={first.directory},{second.directory}&target_session_attrs=read-write"
        )
        with connected(either) as memory:
            for number in range(30):
                memory.remember_fact(scope="c1", fact=f"User likes tea {number}", id=f"f{number}")
            memory.add_messages("c1", [Message(role="user", content="hello")])
            first.cut_power()
            with pytest.raises(BackendError):
                memory.remember_fact(scope="c1", fact="lost", id="lost")
            second.promote()
            memory.remember_fact(scope="c1", fact="User likes coffee", id="later")
            assert facts(memory) == {f"f{number}" for number in range(30)} | {"later"}
            assert memory.flush("c1").episodes
            assert memory.verify().ok


def test_after_a_failover_that_lost_the_last_moment_a_running_process_searches_what_is_there():
    """Versions of a scope are given anew then: what it had read of the lost ones looks as new as what came since."""
    with running_postgres() as first:
        with connected(first.url()) as memory:
            memory.remember_fact(scope="c1", fact="User likes tea", id="f1")
        with base_backup(first) as directory, running_backup(directory) as second:
            either = (
                f"postgresql://postgres@/postgres?host={first.directory},{second.directory}"
                "&target_session_attrs=read-write"
            )
            with connected(either) as memory, connected(second.url()) as other:
                memory.remember_fact(scope="c1", fact="User plays chess", id="lost")
                assert memory.retrieve("chess", scope="c1").semantic[0].memory.id == "lost"
                first.cut_power()
                other.remember_fact(scope="c1", fact="User sails", id="f2")
                with contextlib.suppress(BackendError):  # the call that is under way
                    memory.list("c1")
                for asked, found in (("sails", "f2"), ("tea", "f1")):
                    assert memory.retrieve(asked, scope="c1").semantic[0].memory.id == found


def test_a_server_whose_power_was_cut_is_ended_whenever_its_process_is_reaped(monkeypatch):
    with running_postgres() as server:
        server.cut_power()
        process = server._server.get_postmaster_info().process
        monkeypatch.setattr(process, "is_running", lambda: True)  # as long as nobody has reaped it


def test_a_base_backup_and_the_archived_log_bring_back_what_was_there_at_a_moment():
    with running_postgres() as server:
        archive = server.directory / "archived"
        archive.mkdir()
        archive.chmod(0o777)
        server.run("ALTER SYSTEM SET archive_mode = on")
        server.run(f"ALTER SYSTEM SET archive_command = 'cp %p {archive}/%f'")
        server.restart()
        with connected(server.url()) as memory:
            memory.remember_fact(scope="c1", fact="User likes tea", id="f1")
            with base_backup(server) as directory:
                memory.remember_fact(scope="c1", fact="User likes coffee", id="f2")
                server.run("SELECT pg_create_restore_point('well')")
                memory.forget_scope("c1")
                (ended,) = server.run("SELECT pg_walfile_name(pg_switch_wal())")[0]
                wait_until((archive / ended).exists)
                (directory / "recovery.signal").touch()
                recovery = (
                    "archive_mode = off",
                    f"restore_command = 'cp {archive}/%f %p'",
                    "recovery_target_name = 'well'",
                    "recovery_target_action = 'promote'",
                )
                with running_backup(directory, settings=recovery) as restored:
                    wait_until(lambda: restored.run("SELECT NOT pg_is_in_recovery()") == [(True,)])
                    with connected(restored.url()) as found:
                        assert facts(found) == {"f1", "f2"}
                        assert found.verify().ok
                        found.remember_fact(scope="c1", fact="User likes water", id="f3")
            assert facts(memory) == set()
