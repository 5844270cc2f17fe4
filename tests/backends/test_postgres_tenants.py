"""A role of one tenant that runs SQL of its own: it has no way to the rows of another, nor to the owner's rights."""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress

import psycopg
import pytest
from patience import PATIENCE

from memory_retrievers import AgentMemory, BackendError, ConfigurationError, MemoryRetrieversError, Message
from memory_retrievers.backends.postgres import database, migrations
from memory_retrievers.backends.postgres.database import Pool
from memory_retrievers.backends.postgres.schema import OTHER_TABLES, TABLES_BY_SCOPE
from memory_retrievers.models import MemoryKey
from memory_retrievers.models.management import Association, AssociationType
from memory_retrievers.testing import HashEmbedder, inside

from .hostile_sql import Hostile
from .postgres_first_schema import first_schema
from .test_postgres_within import PAGE, connected, shown

MARKER = "zugzwang"
"""Stands in every text of the other tenant, and in nothing else."""

TABLES = (*TABLES_BY_SCOPE, *OTHER_TABLES, "projection", "schema_version")

pytestmark = [
    pytest.mark.skipif(not PAGE.exists(), reason="the rights are told in a page of a checkout"),
    pytest.mark.usefixtures("own_pools"),
]


@pytest.fixture(scope="module")
def server(postgres_server):
    there = {role for (role,) in postgres_server.run("SELECT rolname FROM pg_roles")}
    for role in {"agent", "tenant_a"} - there:
        postgres_server.run(f"CREATE ROLE {role} LOGIN")
    return postgres_server


def fill(memory, scope, text):
    """Put something into every table that holds what scopes hold, all of it with a text."""
    memory.remember_fact(scope=scope, fact=f"The {text} of tea", id=f"{text}-fact", tags=[text], metadata={"k": text})
    memory.remember_episode(
        scope=f"{scope}/x", summary=f"Moved to {text}", id=f"{text}-episode", messages=[said(text), said(text)]
    )
    memory.add_messages(scope, [said(text)])
    memory.retrieve(text, scope=scope, include_child_scopes=True)
    memory.pending_reviews(scope)
    pair = {"source": MemoryKey(scope=scope, id=f"{text}-fact")}
    pair["target"] = MemoryKey(scope=f"{scope}/x", id=f"{text}-episode")
    given = {"type": AssociationType.SEMANTIC, "strength": 0.5, "auto_generated": True, "created_at": memory.now()}
    memory.manager.associate([Association(**pair, **given)])


def said(text):
    return Message(role="user", content=f"hello from {text}")


@contextmanager
def filled(server, name):
    """The store of two tenants, one of which has a role of its own, with exactly the rights of the page."""
    with AgentMemory.connect(server.url(name), embedder=HashEmbedder()) as memory:
        fill(memory, "tenant/b", MARKER)
        fill(memory, "tenant/a", "own")
        server.run(shown("GRANT").replace("TO agent", "TO tenant_a"), database=name)
        server.run(shown("CREATE POLICY"), database=name)
        yield memory


@pytest.fixture
def store(server, name):
    with filled(server, name) as memory:
        yield memory


@pytest.fixture
def tenant(server, name, store):
    """A connection of that role, for any SQL, confined as ``within`` does it."""
    url = server.url(name).replace("postgres:@", "tenant_a:@")
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute("SET memory_retrievers.within = 'tenant/a'")
        yield connection


def rows_of_others(server, name):
    """Every row of the database that is not tenant a's, by its table."""
    mine = "SELECT id FROM scopes WHERE scope = 'tenant/a' OR scope LIKE 'tenant/a/%'"
    found = {}
    for table in TABLES:
        column = {"scopes": "id"}.get(table, "scope_id" if table in TABLES_BY_SCOPE else None)
        where = f"WHERE {column} NOT IN ({mine})" if column else ""
        found[table] = server.run(f"SELECT each::text FROM {table} each {where} ORDER BY 1", database=name)
    return found


def privileges(server, name):
    """What a role can do, and what belongs to whom, outside of its own schemas."""
    return server.run(
        """SELECT rolname::text, rolsuper::text, rolbypassrls::text FROM pg_roles
        UNION ALL SELECT roleid::text, member::text, '' FROM pg_auth_members
        UNION ALL SELECT relname::text, relowner::text, relacl::text FROM pg_class
            WHERE relnamespace = 'public'::regnamespace
        UNION ALL SELECT polname::text, polrelid::text, polqual::text FROM pg_policy
        UNION ALL SELECT proname::text, proowner::text, proacl::text FROM pg_proc
            WHERE pronamespace = 'public'::regnamespace ORDER BY 1, 2, 3""",
        database=name,
    )


GRABS = "CREATE FUNCTION pg_temp.grab() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; RETURN NULL; END $$"
TAKES_ALL = "INSERT INTO loot SELECT current_user, content FROM public.memories"


def loot(tenant):
    """What the code of a tenant sees when a trigger of the store comes upon a temporary table of that tenant."""
    tenant.execute("CREATE TEMP TABLE loot (who text, content text)")
    tenant.execute("GRANT ALL ON loot TO PUBLIC")
    tenant.execute("CREATE TEMP TABLE scopes (LIKE public.scopes)")
    tenant.execute("INSERT INTO scopes SELECT * FROM public.scopes")
    tenant.execute("GRANT ALL ON scopes TO PUBLIC")
    tenant.execute(GRABS.format(body=TAKES_ALL))
    tenant.execute("CREATE TRIGGER grab AFTER UPDATE ON scopes FOR EACH STATEMENT EXECUTE FUNCTION pg_temp.grab()")
    assert tenant.execute("DELETE FROM public.memories WHERE id = 'own-fact'").rowcount == 1
    found = tenant.execute("SELECT * FROM loot").fetchall()
    tenant.execute("DISCARD TEMP")
    return found


def test_a_temporary_table_in_the_place_of_the_stores_runs_no_code_as_the_owner(server, name, tenant):
    before = rows_of_others(server, name)
    assert loot(tenant) == []
    assert rows_of_others(server, name) == before


class TestADatabaseOfTheFirstSchema:
    @pytest.fixture
    def store(self, server, name, monkeypatch):
        """As the first schema made it."""
        with first_schema(monkeypatch), filled(server, name):
            pass

    def test_is_open_to_a_tenant_until_its_owner_connects(self, server, name, tenant):
        assert ("postgres", f"The {MARKER} of tea") in loot(tenant)
        with pytest.raises(ConfigurationError, match=r"schema 1, .* let the owner connect once"):
            connected(server, name, role="tenant_a", within="tenant/a")
        with pytest.raises(ConfigurationError, match="connect once without read_only"):
            AgentMemory.connect(server.url(name), embedder=HashEmbedder(), read_only=True)
        with AgentMemory.connect(server.url(name), embedder=HashEmbedder()) as memory:
            # of the statements of the tenant, the words of its own memory are left behind, and nothing else is wrong
            assert not [problem for problem in memory.verify().problems if "function" in problem or "b'" in problem]
            memory.remember_fact(scope="tenant/a", fact="The own of tea", id="own-fact")
        before = rows_of_others(server, name)
        assert loot(tenant) == []
        assert rows_of_others(server, name) == before
        with connected(server, name, role="tenant_a", within="tenant/a") as memory:
            assert memory.remember_fact(scope="tenant/a", fact="The own of tea").id


@pytest.mark.parametrize(
    ("opened", "told"),
    [
        (
            "GRANT EXECUTE ON FUNCTION passages_added() TO PUBLIC",
            "every role may attach the trigger function passages_",
        ),
        (
            "ALTER FUNCTION passages_added() RESET search_path",
            "schemas that the trigger function passages_added searches",
        ),
        (
            "ALTER FUNCTION passages_added() SET search_path TO public",
            "schemas that the trigger function passages_added",
        ),
        ("GRANT CREATE ON SCHEMA public TO PUBLIC", "every role may create functions in the schema public"),
    ],
)
def test_verify_says_where_a_database_is_open_to_code_of_other_roles_and_how_it_is_closed(
    server, name, store, opened, told
):
    server.run(opened, database=name)
    (problem,) = store.verify().problems
    assert told in problem
    server.run(problem.rpartition(" run ")[2], database=name)
    assert store.verify().problems == ()


@pytest.mark.parametrize(
    ("function", "event", "tables"),
    [
        ("memories_added", "INSERT", "NEW TABLE AS added"),
        ("memories_changed", "UPDATE", "OLD TABLE AS was NEW TABLE AS is_now"),
        ("memories_removed", "DELETE", "OLD TABLE AS removed"),
        ("passages_added", "INSERT", "NEW TABLE AS added"),
        ("passages_removed", "DELETE", "OLD TABLE AS removed"),
    ],
)
def test_a_trigger_function_of_the_store_is_not_attached_to_a_table_of_a_tenant(
    server, name, tenant, function, event, tables
):
    before, refused = rows_of_others(server, name), None
    tenant.execute(f"CREATE TEMP TABLE bait AS SELECT * FROM public.{function.split('_')[0]} LIMIT 0")
    try:
        tenant.execute(
            f"CREATE TRIGGER t AFTER {event} ON bait REFERENCING {tables} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION public.{function}()"
        )
    except psycopg.errors.InsufficientPrivilege as error:
        refused = error
    rows = "SELECT number, number FROM generate_series(1, 9) number"
    tenant.execute(f"INSERT INTO bait ({'id' if 'passages' in function else 'row'}, scope_id) {rows}")
    tenant.execute("UPDATE bait SET scope_id = scope_id + 1")
    tenant.execute("DELETE FROM bait")
    assert rows_of_others(server, name) == before
    assert "permission denied for function" in str(refused)


def test_a_trigger_function_that_is_attached_to_another_table_all_the_same_does_nothing(server, name, tenant):
    """As by a role that was given the right to, or where a dump was restored without privileges."""
    server.run("GRANT EXECUTE ON FUNCTION memories_removed() TO PUBLIC", database=name)
    before = rows_of_others(server, name)
    tenant.execute("CREATE TEMP TABLE bait (row bigint, scope_id bigint, kind text, content text)")
    tenant.execute("INSERT INTO bait SELECT number, number FROM generate_series(1, 9) number")
    tenant.execute(
        "CREATE TRIGGER t AFTER DELETE ON bait REFERENCING OLD TABLE AS removed "
        "FOR EACH STATEMENT EXECUTE FUNCTION public.memories_removed()"
    )
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="memories_removed is for memories alone"):
        tenant.execute("DELETE FROM bait")
    assert rows_of_others(server, name) == before


COPIED = """INSERT INTO public.memories (scope_id, row, id, kind, created_at, updated_at, tier, content_type, origin,
    importance, importance_pinned, access_count, tags, consolidated_from, content, metadata)
    SELECT scope_id, {row}, 'forged', kind, created_at, updated_at, tier, content_type, origin,
    importance, importance_pinned, access_count, tags, consolidated_from, content, metadata
    FROM public.memories WHERE id = 'own-fact'"""


def test_a_memory_with_the_number_of_another_tenants_takes_nothing_with_it_when_it_goes(server, name, tenant):
    before = rows_of_others(server, name)
    ((row,),) = server.run(f"SELECT row FROM memories WHERE id = '{MARKER}-episode'", database=name)
    assert len(before["associations"]) == 1
    for attack in (COPIED.format(row=row), f"UPDATE public.memories SET row = {row} WHERE id = 'own-fact'"):
        with suppress(psycopg.errors.InsufficientPrivilege):
            tenant.execute(attack)
        tenant.execute(f"DELETE FROM public.memories WHERE row = {row}")
        assert rows_of_others(server, name) == before


NUMBERED = {
    "memories": COPIED.format(row="{number}"),
    "passages": """INSERT INTO passages (scope_id, id, memory, part)
        SELECT scope_id, {number}, memory, 'turn-9' FROM passages LIMIT 1""",
    "scopes": "INSERT INTO scopes (id, scope) VALUES ({number}, 'tenant/a/new')",
    "review_jobs": """INSERT INTO review_jobs (id, scope_id, reviewed_at, conversation)
        SELECT {number}, id, 1, '[]' FROM scopes WHERE scope = 'tenant/a'""",
    "characters": """INSERT INTO characters (row, scope_id, name, known_events, state)
        SELECT {number}, id, 'x', '[]', '{{}}' FROM scopes WHERE scope = 'tenant/a'""",
}


@pytest.mark.parametrize("table", NUMBERED)
def test_a_number_that_the_store_has_not_given_or_has_given_to_another_is_not_taken(server, name, tenant, table):
    column = "row" if table in {"memories", "characters"} else "id"
    held = server.run(f"SELECT max({column}) FROM {table}", database=name)[0][0] or 1
    for number in (held, 1, 10**6):
        with pytest.raises(psycopg.Error, match=r"the store gives rows their numbers|is not yet defined"):
            tenant.execute(NUMBERED[table].format(number=number))
    with suppress(psycopg.Error):
        tenant.execute(f"UPDATE {table} SET {column} = {column} + 1000")
    assert server.run(f"SELECT count(*) FROM {table} WHERE {column} > 1000", database=name) == [(0,)]


class Session:
    """A connection of the tenant that is made anew when it is lost, and all that it has been told."""

    def __init__(self, url):
        self.url, self.told, self.done = url, [], 0
        self.connection = self._connected()

    def _connected(self):
        connection = psycopg.connect(self.url, autocommit=True, options="-cstatement_timeout=5s -clock_timeout=2s")
        connection.add_notice_handler(lambda notice: self.told.append(notice.message_primary))
        connection.execute("SET memory_retrievers.within = 'tenant/a'")
        return connection

    def run(self, statement):
        try:
            cursor = self.connection.cursor()
            if statement.startswith("COPY") and "STDOUT" in statement:
                with cursor.copy(statement) as copied:
                    self.told.append(b"".join(bytes(part) for part in copied).decode())
            else:
                cursor.execute(statement.encode())
                self.told += map(repr, self._rows(cursor))
            self.done += 1
        except (psycopg.Error, UnicodeError, ValueError) as error:
            self.told.append(str(error))
        if self.connection.closed:
            self.connection = self._connected()

    def close(self):
        self.connection.close()

    def refresh(self):
        """Let what has been made stand, and only the settings be as they were."""
        for statement in ("ROLLBACK", "RESET ALL", "SET memory_retrievers.within = 'tenant/a'"):
            self.run(statement)

    @staticmethod
    def _rows(cursor):
        while True:
            if cursor.description:
                yield from cursor.fetchall()
            if not cursor.nextset():
                return


@pytest.mark.parametrize("seed", range(3))
def test_nothing_that_a_tenant_says_shows_or_changes_a_row_of_another(server, name, store, seed):
    settings = [setting for (setting,) in server.run("SELECT name FROM pg_settings WHERE context = 'user'")]
    named = "SELECT format('%I.%I', schemaname, viewname) FROM pg_views UNION SELECT oid::regclass::text FROM pg_class"
    catalogs = [each for (each,) in server.run(f"{named} WHERE relnamespace = 11 AND relkind = 'r'", database=name)]
    hostile = Hostile(random.Random(seed), settings=[*settings, "role", "session_authorization"], catalogs=catalogs)
    rights = privileges(server, name)
    with closing(Session(server.url(name).replace("postgres:@", "tenant_a:@"))) as session:
        for _ in range(12):
            before, said = rows_of_others(server, name), []
            for _ in range(50):
                said.append(hostile.statement())
                session.run(said[-1])
            session.refresh()
            for added in OWN_ROWS:  # so that there is always something to delete
                session.run(added)
            assert rows_of_others(server, name) == before, said
            store.remember_fact(
                scope="tenant/b", fact=f"{MARKER} drinks tea"
            )  # nor does the owner run what others made
            assert store.retrieve("tea", scope="tenant/b", record=False).semantic
            with suppress(MemoryRetrieversError):  # it may have damaged its own
                store.retrieve("tea", scope="tenant", include_child_scopes=True, record=False)
            store.forget_scope("tenant/a/x")
            assert privileges(server, name) == rights, said
            assert MARKER not in "".join(session.told), said
            session.told.clear()
        assert session.done > 100  # of 600; most are refused
    assert not [problem for problem in store.verify().problems if "tenant/b" in problem]


OWN_ROWS = (
    "INSERT INTO public.scopes (scope) VALUES ('tenant/a') ON CONFLICT DO NOTHING",
    """INSERT INTO public.memories (scope_id, id, kind, created_at, updated_at, tier, content_type, origin,
    importance, importance_pinned, access_count, tags, consolidated_from, content, metadata)
    SELECT id, gen_random_uuid(), 'semantic', 1, 1, 'long_term', 'text', 'tool', 0.5, FALSE, 0, '[]', '[]', 'own', '{}'
    FROM public.scopes WHERE scope = 'tenant/a'""",
    """INSERT INTO public.passages (scope_id, id, memory, part)
    SELECT scope_id, nextval('public.passage_ids'), row, kind FROM public.memories ON CONFLICT DO NOTHING""",
)


class TestHoldingOthersUp:
    """Which no right keeps a tenant from: it lasts for so long, and an administrator ends it."""

    HELD = (
        "LOCK TABLE memories IN ACCESS EXCLUSIVE MODE",
        # what every role can compute, and a lock that every role can list
        "SELECT pg_advisory_xact_lock({key})",
    )

    @pytest.fixture
    def store(self, server, name, monkeypatch):
        def patient(address, *, patience, **given):
            return Pool(address, patience=PATIENCE, **given)

        monkeypatch.setattr(database, "_PATIENCE", 1.0)
        monkeypatch.setattr(database, "Pool", patient)  # what is given up so soon are locks, and no connections
        with filled(server, name) as memory:
            yield memory

    @pytest.mark.parametrize("held", HELD)
    def test_they_are_told_and_have_written_nothing_and_work_on_when_the_lock_is_gone(self, server, name, tenant, held):
        with AgentMemory.connect(server.url(name), embedder=HashEmbedder()) as memory:
            before = rows_of_others(server, name)
            with tenant.transaction():
                tenant.execute(held.format(key=inside(memory).ledger.database._key))
                with pytest.raises(BackendError, match="lock timeout; memory-retrievers doctor names the sessions"):
                    memory.remember_fact(scope="tenant/b", fact="late", id="late")
            assert rows_of_others(server, name) == before
            assert memory.remember_fact(scope="tenant/b", fact="late", id="late").id == "late"

    def test_an_administrator_finds_and_ends_who_does(self, server, name, store, tenant):
        tenant.execute("BEGIN; LOCK TABLE memories")
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(server.run, "SELECT count(*) FROM memories", database=name)
            while not (ended := server.run(shown("SELECT DISTINCT pg_terminate").rstrip().rstrip(";"), database=name)):
                assert not waiting.done()
            assert [row[:2] for row in ended] == [(True, "tenant_a")]
            assert waiting.result(PATIENCE)[0][0] > 0

    def test_a_migration_that_is_not_let_in_gives_up(self, server, name, tenant, monkeypatch):
        monkeypatch.setattr(migrations, "_PATIENCE", 1)
        server.run("UPDATE schema_version SET version = 1", database=name)
        with tenant.transaction():
            tenant.execute("SELECT pg_advisory_xact_lock(hashtext('memory-retrievers/migrate'))")
            with pytest.raises(BackendError, match="lock timeout"):
                AgentMemory.connect(server.url(name), embedder=HashEmbedder())
