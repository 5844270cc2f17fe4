"""A memory that is confined to a scope: PostgreSQL itself shows its role nothing of any other, whatever is asked."""

import re
from pathlib import Path

import psycopg
import pytest

import memory_retrievers
from memory_retrievers import AgentMemory, ConfigurationError, Message, NotFoundError
from memory_retrievers.backends.postgres.schema import OTHER_TABLES, TABLES_BY_SCOPE
from memory_retrievers.models import MemoryKey
from memory_retrievers.models.management import Association, AssociationType
from memory_retrievers.storage.diagnosis import diagnose_database
from memory_retrievers.testing import HashEmbedder, inside

PAGE = Path(memory_retrievers.__file__).parents[1] / "docs" / "postgres.md"

pytestmark = [
    pytest.mark.skipif(not PAGE.exists(), reason="the rights are told in a page of a checkout"),
    pytest.mark.usefixtures("own_pools"),
]


def shown(beginning):
    """The SQL of the page that begins with these words."""
    (statements,) = [
        block
        for block in re.findall(r"```sql\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
        if block.startswith(beginning)
    ]
    return statements


@pytest.fixture(scope="module")
def server(postgres_server):
    there = {role for (role,) in postgres_server.run("SELECT rolname FROM pg_roles")}  # a worker may come back to these
    for role in {"agent", "tenant_a"} - there:
        postgres_server.run(f"CREATE ROLE {role} LOGIN")
    return postgres_server


@pytest.fixture
def owner(server, name):
    """The store of all tenants, with what another tenant has in it."""
    with AgentMemory.connect(server.url(name), embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope="tenant/b", fact="The tea of b is in the safe", id="shared-id")
        memory.remember_episode(scope="tenant/b/x", summary="B moved to Lyon with tea", id="e1")
        memory.remember_fact(scope="tenant/bc", fact="The tea of bc", id="shared-id")
        memory.add_messages("tenant/b", [Message(role="user", content="hello from b")])
        memory.retrieve("tea", scope="tenant/b", include_child_scopes=True)
        memory.pending_reviews("tenant/b")
        server.run(shown("GRANT"), database=name)
        yield memory


@pytest.fixture
def confined(server, name, owner):
    with connected(server, name, within="tenant/a") as memory:
        yield memory


def connected(server, name, *, role="agent", **given):
    url = server.url(name).replace("postgres:@", f"{role}:@")
    return AgentMemory.connect(url, embedder=HashEmbedder(), **given)


def counts(memory):
    """The rows of every table that the connections of a memory may look into, by the name of the table."""
    found = {}
    with inside(memory).ledger.database.session() as connection:
        parts = [f"{table}_{number}" for table in TABLES_BY_SCOPE for number in range(8)]
        for table in (*TABLES_BY_SCOPE, *OTHER_TABLES, "projection", *parts):
            try:
                found[table] = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            except psycopg.errors.InsufficientPrivilege:
                found[table] = None
    return {table: count for table, count in found.items() if count and table != "notes"}


def test_it_works_in_its_scope_and_below(confined, owner):
    assert confined.remember_fact(scope="tenant/a", fact="User likes tea", id="shared-id").id == "shared-id"
    confined.remember_episode(scope="tenant/a/x", summary="User had tea in Lyon", id="e1")
    conversation = [
        Message(role=role, content=f"tea {number}") for number in range(4) for role in ("user", "assistant")
    ]
    assert confined.add_messages("tenant/a", conversation).queued == 8
    found = confined.retrieve("tea", scope="tenant/a", include_child_scopes=True)
    assert [each.memory.id for each in found.semantic] == ["shared-id"]
    assert {(each.memory.scope, each.memory.is_open) for each in found.episodic} == {
        ("tenant/a", True),
        ("tenant/a/x", False),
    }
    assert len(confined.pending_reviews("tenant/a")) == 1
    assert confined.flush("tenant/a").episodes
    assert confined.pending_reviews("tenant/a") == []
    assert confined.update("shared-id", scope="tenant/a", fact="User likes more tea").fact == "User likes more tea"
    assert confined.review("e1", scope="tenant/a/x", rating="good").stability
    assert confined.verify().ok
    confined.forget("shared-id", scope="tenant/a")
    assert confined.forget_scope("tenant/a") >= 2
    assert counts(confined) == {}
    assert owner.scopes() == ["tenant/b", "tenant/b/x", "tenant/bc"]
    assert owner.verify().ok


def test_it_sees_nothing_of_another_scope_by_any_method(confined):
    assert confined.scopes() == confined.waiting_scopes() == []
    assert confined.stats().model_dump() == dict.fromkeys(confined.stats().model_dump(), 0)
    for scope in ("tenant", "tenant/b"):
        found = confined.retrieve("tea safe Lyon", scope=scope, include_child_scopes=True, record=False)
        assert (found.semantic, found.episodic) == ((), ())
        assert confined.list(scope).memories == ()
        assert confined.waiting(scope) == confined.pending_reviews(scope) == []
        assert confined.forget_scope(scope) == 0
    with pytest.raises(NotFoundError):
        confined.get("shared-id", scope="tenant/b")
    with pytest.raises(NotFoundError):
        confined.forget("shared-id", scope="tenant/b")
    assert confined.verify().memories == 0


def test_it_writes_to_no_other_scope_and_is_told_the_same_whether_there_is_one(confined, owner):
    told = set()
    for scope in ("tenant/b", "tenant/nobody", "tenant", "tenant/ab"):
        for id in ("shared-id", "new"):
            with pytest.raises(ConfigurationError, match="nothing was written") as refused:
                confined.remember_fact(scope=scope, fact="x", id=id)
            told.add(str(refused.value))
        with pytest.raises(ConfigurationError, match="nothing was written"):
            confined.add_messages(scope, [Message(role="user", content="x")])
    assert len(told) == 1
    assert owner.scopes() == ["tenant/b", "tenant/b/x", "tenant/bc"]


def test_its_connections_show_no_row_of_another_scope_to_any_sql(server, name, confined):
    assert counts(confined) == {}
    server.run("GRANT SELECT ON ALL TABLES IN SCHEMA public TO agent", database=name)  # more than the page says
    assert counts(confined) == {}
    confined.remember_fact(scope="tenant/a", fact="User likes tea")
    seen = counts(confined)
    assert seen.pop("scopes") == seen.pop("memories") == seen.pop("passages") == seen.pop("passage_contents") == 1
    assert set(seen) == {"postings", "keyword_statistics", "changes", "events"}


def test_without_a_scope_such_a_role_sees_nothing(server, name, owner):
    with connected(server, name) as nobody:
        assert nobody.scopes() == []
        assert counts(nobody) == {}
        with pytest.raises(ConfigurationError, match="nothing was written"):
            nobody.remember_fact(scope="tenant/a", fact="x")


@pytest.mark.parametrize("read_only", [False, True])
def test_what_sees_nothing_exports_nothing_as_if_it_were_all(server, name, owner, tmp_path, read_only):
    for role, given, written in (("postgres", {}, 3), ("agent", {"within": "tenant/b"}, 2)):
        with connected(server, name, role=role, read_only=read_only, **given) as sees:
            assert sees.export(tmp_path / role) == written
    with connected(server, name, read_only=read_only) as nobody:
        for scope in (None, "tenant/b"):
            with pytest.raises(ConfigurationError, match=r"sees nothing of the store: connect as the owner .* within="):
                nobody.export(tmp_path / "nothing", scope=scope)
    with connected(server, name, read_only=read_only, within="tenant/new") as new:  # that is empty, and says so
        assert new.export(tmp_path / "new") == 0
    server.run("CREATE POLICY reads ON scopes TO agent USING (scope = 'tenant/b')", database=name)
    with connected(server, name, read_only=read_only) as reporter:  # an administrator lets it look
        assert (reporter.export(tmp_path / "b"), reporter.export(tmp_path / "x", scope="tenant/bc")) == (1, 0)
    assert not (tmp_path / "nothing").exists()


def test_who_looks_after_a_store_is_told_that_such_a_role_sees_a_part_alone(server, name, confined, owner):
    part = "this role sees only the scopes that it is confined to"
    (note,) = confined.verify().notes
    assert (note.startswith(part), confined.verify().ok, owner.verify().notes) == (True, True, ())
    seen = diagnose_database(server.url(name).replace("postgres:@", "agent:@"))
    assert [finding.what for finding in seen.findings] == [part]
    assert (seen.tables.memories, seen.tables.waiting_messages, seen.tables.embedder) == (None, None, "HashEmbedder")
    whole = diagnose_database(server.url(name))
    assert (whole.findings, whole.tables.memories, whole.tables.waiting_messages) == ((), 3, 1)


def test_what_refers_to_its_memories_from_outside_goes_with_them(server, name, confined, owner):
    confined.remember_fact(scope="tenant/a", fact="User likes tea", id="f1")
    pair = {"source": MemoryKey(scope="tenant/b", id="shared-id"), "target": MemoryKey(scope="tenant/a", id="f1")}
    given = {"type": AssociationType.SEMANTIC, "strength": 0.5, "auto_generated": True, "created_at": owner.now()}
    owner.manager.associate([Association(**pair, **given)])
    assert server.run("SELECT count(*) FROM associations", database=name) == [(1,)]
    confined.forget("f1", scope="tenant/a")
    assert server.run("SELECT count(*) FROM associations", database=name) == [(0,)]


def test_a_role_of_one_tenant_cannot_leave_it_by_saying_that_it_is_another(server, name, owner):
    server.run(shown("GRANT").replace("TO agent", "TO tenant_a"), database=name)
    server.run(shown("CREATE POLICY"), database=name)
    with connected(server, name, role="tenant_a", within="tenant/a") as memory:
        memory.remember_fact(scope="tenant/a", fact="User likes tea")
        assert memory.scopes() == ["tenant/a"]
    with connected(server, name, role="tenant_a", within="tenant/b") as memory:
        assert memory.scopes() == []
        assert counts(memory) == {}
        with pytest.raises(ConfigurationError, match="nothing was written"):
            memory.remember_fact(scope="tenant/b", fact="x")


def test_only_the_owner_purges(confined):
    with pytest.raises(ConfigurationError, match="only a role that owns the tables"):
        confined.purge()
