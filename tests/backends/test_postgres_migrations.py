"""The tables on a PostgreSQL server are made once, by whoever may, or not at all."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from patience import PATIENCE

from memory_retrievers import AgentMemory, BackendError, ConfigurationError, Message, RetrievalSettings, SemanticMemory
from memory_retrievers.backends.postgres import Database, guards, migrations, schema
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.storage.diagnosis import diagnose_database
from memory_retrievers.testing import HashEmbedder

CONNECT = """
import sys
from memory_retrievers import AgentMemory
from memory_retrievers.backends import postgres
from memory_retrievers.testing import HashEmbedder
print("ready", flush=True)
sys.stdin.readline()
with AgentMemory.connect(sys.argv[1], embedder=HashEmbedder()) as memory:
    memory.remember_fact(scope="c1", fact=f"fact of {sys.argv[2]}", id=sys.argv[2])
"""


pytestmark = pytest.mark.usefixtures("own_pools")


def connected(url):
    return AgentMemory.connect(url, embedder=HashEmbedder())


def objects(server, name):
    """The names of all that is in a database, beside what a new one has."""
    named = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    return [relname for (relname,) in server.run(f"{named} UNION SELECT extname FROM pg_extension", database=name)]


def test_threads_that_connect_at_once_to_an_empty_database_make_the_tables_once(server, name, url):
    with ThreadPoolExecutor(8) as threads:
        ledgers = list(threads.map(lambda _: SQLLedger(Database(url)), range(8)))
    for ledger in ledgers:
        ledger.close()
    assert server.run("SELECT version FROM schema_version", database=name) == [(len(schema.MIGRATIONS),)]
    assert server.run("SELECT count(*) FROM projection", database=name) == [(1,)]


def test_processes_that_connect_at_once_to_an_empty_database_all_store_what_they_have(url):
    command = [sys.executable, "-c", CONNECT, url]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    processes = [subprocess.Popen([*command, f"f{number}"], text=True, **pipes) for number in range(4)]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 4
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate(timeout=PATIENCE) for process in processes] == [("", "")] * 4
    with connected(url) as memory:
        assert {each.id for each in memory.list("c1").memories} == {"f0", "f1", "f2", "f3"}
        assert memory.verify().ok


def test_a_store_of_a_newer_version_is_refused_and_left_as_it_is(server, name, url):
    SQLLedger(Database(url)).close()
    server.run("UPDATE schema_version SET version = 99", database=name)
    before = objects(server, name)
    for look in (lambda: SQLLedger(Database(url)), lambda: migrations.read_note(url, "embedder_id")):
        with pytest.raises(ConfigurationError, match="newer version of memory-retrievers \\(schema 99"):
            look()
    assert objects(server, name) == before
    assert server.run("SELECT version FROM schema_version", database=name) == [(99,)]


def test_a_migration_that_fails_leaves_nothing(server, name, url, monkeypatch):
    empty = objects(server, name)
    broken = ((*schema.MIGRATIONS[0], "SELECT 1 / 0"),)
    monkeypatch.setattr(migrations, "MIGRATIONS", broken)
    with pytest.raises((BackendError, ValueError), match="division by zero"):
        SQLLedger(Database(url))
    assert objects(server, name) == empty
    monkeypatch.undo()
    SQLLedger(Database(url)).close()


def test_a_role_that_may_not_make_pgvector_is_told_what_an_administrator_has_to_do(server, name, url):
    server.run("CREATE ROLE plain LOGIN; GRANT CREATE ON SCHEMA public TO plain", database=name)
    plain = url.replace("postgres:@", "plain:@")
    with pytest.raises(ConfigurationError, match="administrator run CREATE EXTENSION vector in this database"):
        SQLLedger(Database(plain))
    server.run("CREATE EXTENSION vector", database=name)
    with connected(plain) as memory:
        assert memory.remember_fact(scope="c1", fact="User likes tea").id


def test_a_role_that_may_not_make_tables_is_told_so(server, name, url):
    server.run("CREATE ROLE reader LOGIN; CREATE EXTENSION vector", database=name)
    with pytest.raises(ConfigurationError, match="permission denied for schema public; nothing was written"):
        SQLLedger(Database(url.replace("postgres:@", "reader:@")))


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE events (id bigint)",
        "CREATE TABLE schema_version (installed_rank int, version text); INSERT INTO schema_version VALUES (1, '1')",
        "CREATE TABLE schema_version (version bigint)",
        "CREATE TABLE schema_version (number int)",
    ],
)
def test_beside_tables_of_another_program_a_store_takes_a_schema_of_its_own(server, name, url, statement):
    server.run(statement, database=name)
    before = objects(server, name)
    with pytest.raises(
        ConfigurationError, match=r"(events.*|schema_version.*)a schema of its own.*Nothing was changed"
    ):
        SQLLedger(Database(url))
    assert objects(server, name) == before
    server.run("CREATE SCHEMA store", database=name)
    with connected(f"{url}&options=-csearch_path%3Dstore,public") as memory:
        assert memory.verify().ok


def test_several_stores_in_one_database_take_a_schema_each(server, name, url):
    with connected(url) as first:
        first.remember_fact(scope="c1", fact="User likes tea")
    with pytest.raises(ConfigurationError, match="CREATE SCHEMA"):
        connected(f"{url}&options=-csearch_path%3Dsecond")
    server.run("CREATE SCHEMA second", database=name)
    with pytest.raises(ConfigurationError, match=r"pgvector is in the schema public.*csearch_path%3Dstore,public"):
        connected(f"{url}&options=-csearch_path%3Dsecond")
    with connected(f"{url}&options=-csearch_path%3Dsecond,public") as second:
        second.remember_fact(scope="c2", fact="User likes coffee")
        assert second.scopes() == ["c2"]
        second.forget_scope("c2")
        assert second.verify().ok
    with connected(url) as first:
        assert first.scopes() == ["c1"]


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_does_not_hold_every_text_is_refused(server, name, url, encoding):
    server.run(f"CREATE DATABASE of_{encoding} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(ConfigurationError, match=f"encoded as {encoding}.*ENCODING 'UTF8'"):
        connected(url.replace(f"/{name}", f"/of_{encoding.lower()}"))


def test_a_store_that_is_in_such_a_database_is_still_opened(server, name, url, monkeypatch, tmp_path):
    server.run("CREATE DATABASE of_former ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    place = url.replace(f"/{name}", "/of_former")
    with monkeypatch.context() as former:
        former.setattr(migrations, "_require_unicode", lambda _: None)
        with connected(place) as memory:
            memory.remember_fact(scope="c1", fact="Zoë likes tea", id="a")
    with connected(place) as memory:
        assert memory.get("a", scope="c1").fact == "Zoë likes tea"
        assert memory.export(tmp_path / "moved.jsonl") == 1


def test_whatever_encoding_the_environment_asks_for_text_is_text(url, monkeypatch):
    monkeypatch.setenv("PGCLIENTENCODING", "SQL_ASCII")
    with connected(f"{url}&client_encoding=latin1") as memory:
        kept = memory.remember_fact(scope="用户", fact="Zoë likes 😀")
        assert memory.retrieve("Zoë", scope="用户").semantic[0].memory == kept


@pytest.mark.parametrize("schema_name", ["Agents", "Ü s"])
def test_a_schema_may_have_any_name(server, name, url, schema_name):
    with connected(url):
        server.run(f'CREATE SCHEMA "{schema_name}"', database=name)
    place = f"{url}&options=-csearch_path%3D%22{schema_name.replace(' ', '%5C%20')}%22,public"
    with AgentMemory.connect(place, embedder=HashEmbedder(), retrieval=RetrievalSettings(exact_limit=3)) as memory:
        facts = [SemanticMemory.new(scope="c1", fact=f"User likes tea number {number}") for number in range(10)]
        memory.remember_many(facts)
        server.run(f'ANALYZE "{schema_name}".passages', database=name)
        assert memory.retrieve("tea", scope="c1").semantic
        memory.forget_scope("c1")
        memory.purge()
        assert memory.verify().problems == ()


@pytest.mark.parametrize(
    "setting", ["standard_conforming_strings = off", "quote_all_identifiers = on", "datestyle = 'German, DMY'"]
)
def test_settings_of_the_database_change_neither_statements_nor_what_is_told_of_it(server, name, url, setting):
    server.run(f"ALTER DATABASE {name} SET {setting}")
    told = "User writes C:\\new\\ and 'it\\'s' \x00 \\u0041"
    with connected(url) as memory:
        memory.remember_fact(scope="c1", fact=told, id="a")
        memory.add_messages("c1", [Message(role="user", content="hello \\n there \\")])
        assert len(memory.flush("c1").episodes) == 1
        memory.update("a", scope="c1", metadata={"where": "C:\\new\\"})
        assert [each.id for each in memory.list("c1", where={"metadata.where": "C:\\new\\"}).memories] == ["a"]
        assert memory.get("a", scope="c1").fact == told
        memory.purge()
        assert memory.verify().problems == ()
    assert diagnose_database(url).damage == ()


def test_a_schema_that_was_renamed_is_named(server, name, url):
    with connected(url):
        server.run("CREATE SCHEMA store", database=name)
    connected(f"{url}&options=-csearch_path%3Dstore,public").close()
    server.run("ALTER SCHEMA store RENAME TO archive", database=name)
    with connected(f"{url}&options=-csearch_path%3Darchive,public") as memory:
        with pytest.raises(BackendError, match="does not exist"):
            memory.remember_fact(scope="c1", fact="User likes tea")
        problems = memory.verify().problems
        assert len(problems) == len(guards._BODIES)
        assert all("let its owner give it its former name again" in problem for problem in problems)
        server.run("ALTER SCHEMA archive RENAME TO store", database=name)
    with connected(f"{url}&options=-csearch_path%3Dstore,public") as memory:
        memory.remember_fact(scope="c1", fact="User likes tea")
        assert memory.verify().problems == ()


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_writers_take_turns_whatever_the_database_has_by_default(server, name, url, level):
    server.run(f"ALTER DATABASE {name} SET default_transaction_isolation = '{level}'")
    with connected(url) as one, connected(url) as two, ThreadPoolExecutor(4) as threads:
        stored = threads.map(
            lambda number: (one, two)[number % 2].remember_fact(scope="c1", fact=f"User likes tea number {number}"),
            range(40),
        )
        assert len({fact.id for fact in stored}) == 40
