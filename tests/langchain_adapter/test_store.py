"""A LangGraph store whose items are memories."""

from datetime import UTC, datetime, timedelta

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.tools import tool
from langgraph.store.base import GetOp, InvalidNamespaceError, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from memory_retrievers import AgentMemory, NotFoundError, SemanticMemory
from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.langchain import MemoryStoreAdapter
from memory_retrievers.testing import FixedClock, HashEmbedder

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LYON, BERGEN = {"content": "Alice lives in Lyon"}, {"content": "Bob lives in Bergen"}
ALICE, BOB = ("memories", "alice"), ("memories", "bob")


@pytest.fixture
def clock():
    return FixedClock(NOON)


@pytest.fixture
def memory(clock, keyword):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, keyword=keyword) as memory:
        yield memory


@pytest.fixture
def store(memory):
    return MemoryStoreAdapter(memory, scope="app", fields=["content"])


def keys(found):
    return [(item.namespace, item.key) for item in found]


# --- exact keys


def test_what_was_put_is_got_whole(store):
    value = {"content": "Tea", "nested": {"list": [1, 2.5, None, True, "ü"]}, "": {}}
    store.put(ALICE, "m1", value)
    item = store.get(ALICE, "m1")
    assert (item.value, item.key, item.namespace) == (value, "m1", ALICE)
    assert item.created_at == item.updated_at == NOON


def test_a_value_is_kept_as_json_has_it(store):
    store.put(ALICE, "m1", {"pair": (1, 2), 3: "three"})
    assert store.get(ALICE, "m1").value == {"pair": [1, 2], "3": "three"}


def deep():
    """What is deeper than JSON is written."""
    value = {}
    for _ in range(100_000):
        value = {"in": value}
    return value


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("Tea", r"must be a dict of JSON such as \{'text': …\}"),
        ({"when": object()}, "type object is not JSON serializable"),
        ({"temperature": float("nan")}, "the value of 'm1' must be a dict of JSON"),
        (deep(), "the value of 'm1' must be a dict of JSON"),
    ],
)
def test_a_value_that_is_no_dict_of_json_is_refused_with_what_is_wrong(store, value, complaint):
    with pytest.raises(ValidationError, match=complaint):
        store.put(ALICE, "m1", value)
    assert store.get(ALICE, "m1") is None


def test_the_same_key_in_two_namespaces_is_two_items(store):
    store.put(ALICE, "m1", LYON)
    store.put(BOB, "m1", BERGEN)
    assert (store.get(ALICE, "m1").value, store.get(BOB, "m1").value) == (LYON, BERGEN)
    store.delete(ALICE, "m1")
    assert store.get(ALICE, "m1") is None
    assert store.get(BOB, "m1").value == BERGEN


def test_a_value_that_was_got_can_be_changed_without_harm(store):
    store.put(ALICE, "m1", {"content": "Tea", "list": [1]})
    store.get(ALICE, "m1").value["list"].append(2)
    assert store.get(ALICE, "m1").value["list"] == [1]


def test_a_put_over_an_item_takes_its_place_and_keeps_its_age(store, memory, clock):
    store.put(ALICE, "m1", LYON)
    clock.advance(hours=1)
    store.put(ALICE, "m1", {"content": "Alice lives in Paris"})
    item = store.get(ALICE, "m1")
    assert item.value == {"content": "Alice lives in Paris"}
    assert (item.created_at, item.updated_at) == (NOON, NOON + timedelta(hours=1))
    assert [hit.memory.fact for hit in memory.retrieve("Lyon", scope="app/memories/alice").semantic] == [
        "Alice lives in Paris"
    ]
    assert memory.verify().problems == ()


def test_a_delete_leaves_no_trace(store, memory):
    store.put(ALICE, "m1", LYON)
    store.delete(ALICE, "m1")
    store.delete(ALICE, "m1")
    assert memory.retrieve("Lyon", scope="app", include_child_scopes=True).semantic == ()
    with pytest.raises(NotFoundError):
        memory.get("m1", scope="app/memories/alice")


def test_the_last_write_to_a_key_in_a_batch_counts_and_reads_come_first(store):
    store.put(ALICE, "m1", LYON)
    before, *_ = store.batch(
        [GetOp(ALICE, "m1"), PutOp(ALICE, "m1", None), PutOp(ALICE, "m1", BERGEN), PutOp(BOB, "m2", None)]
    )
    assert before.value == LYON
    assert store.get(ALICE, "m1").value == BERGEN


@pytest.mark.parametrize(
    "bad",
    [
        PutOp(ALICE, " ", LYON),
        PutOp(ALICE, "k" * 1001, LYON),
        PutOp(("a",) * 10, "k", LYON),
        PutOp(("",), "k", LYON),
        PutOp(ALICE, "k", {"content": float("nan")}),
        PutOp(ALICE, "k", {"content": object()}),
        PutOp(ALICE, "k", {"content": "x" * 1_000_001}),
        PutOp(ALICE, "k", LYON, ttl=float("inf")),
    ],
)
def test_one_bad_put_leaves_the_whole_batch_undone(store, memory, bad):
    store.put(BOB, "m1", BERGEN)
    with pytest.raises(ValidationError):
        store.batch([PutOp(ALICE, "m1", LYON), PutOp(BOB, "m1", None), bad])
    assert keys(store.search(())) == [(BOB, "m1")]


def test_an_unknown_operation_is_refused(store):
    with pytest.raises(ValidationError, match="does not support the operation str"):
        store.batch(["get"])


def test_a_key_that_cannot_be_stored_as_it_is_is_found_under_what_it_became(store):
    store.put(ALICE, "a\ud800b", LYON)
    assert store.get(ALICE, "a\ud800b").value == LYON
    store.delete(ALICE, "a\ud800b")
    assert store.search(()) == []


@pytest.mark.parametrize("namespace", [("a/b",), ("a.b", ".."), ("日本", "naïve@example.com"), ("50 %", " x ")])
def test_labels_may_hold_any_character(store, namespace):
    store.batch([PutOp(namespace, "m1", LYON)])
    (found,) = store.batch([GetOp(namespace, "m1")])
    assert found.namespace == namespace
    assert store.list_namespaces() == [namespace]
    assert keys(store.batch([SearchOp(namespace[:1])])[0]) == [(namespace, "m1")]


def test_the_empty_namespace_is_the_scope_of_the_store(store, memory):
    store.batch([PutOp((), "m1", LYON)])
    assert store.get((), "m1").value == LYON
    assert memory.get("m1", scope="app").fact == "Alice lives in Lyon"
    with pytest.raises(InvalidNamespaceError):
        store.put((), "m2", LYON)


# --- items and other memories


def test_an_item_is_a_fact_that_retrieval_finds(store, memory):
    store.put(ALICE, "m1", {"content": "Alice lives in Lyon", "source": "form"})
    (hit,) = memory.retrieve("Who lives in Lyon?", scope="app/memories/alice").semantic
    assert hit.memory.id == "m1"
    assert hit.memory.origin == "store"
    assert hit.memory.fact == "Alice lives in Lyon"
    assert hit.memory.metadata == {"value": {"content": "Alice lives in Lyon", "source": "form"}}


def test_its_text_are_the_indexed_fields(memory):
    store = MemoryStoreAdapter(memory, scope="app")
    value = {"title": "Tea", "notes": [{"text": "green"}, {"text": "hot"}], "price": 3}
    store.put(ALICE, "default", value)
    store.put(ALICE, "chosen", value, index=["title", "notes[*].text", "missing"])
    assert memory.get("default", scope="app/memories/alice").fact == (
        '{"notes": [{"text": "green"}, {"text": "hot"}], "price": 3, "title": "Tea"}'
    )
    assert memory.get("chosen", scope="app/memories/alice").fact == "Tea\ngreen\nhot"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"content": "Alice lives in Lyon"}, "Alice lives in Lyon"),
        ({"text": "Alice lives in Lyon"}, "Alice lives in Lyon"),
        ({"lives in": "Lyon"}, '{"lives in": "Lyon"}'),
        ({"content": {"city": "Lyon"}}, '{"content": {"city": "Lyon"}}'),
    ],
)
def test_a_value_that_is_but_a_text_is_recalled_without_braces(memory, value, text):
    store = MemoryStoreAdapter(memory, scope="app")
    store.put(ALICE, "m1", value)
    assert store.search(ALICE, query="Who lives in Lyon?")[0].value == value
    assert memory.retrieve("Lyon?", scope="app/memories/alice").to_markdown() == f"## Semantic Memory\n- [note] {text}"


def test_a_blank_text_is_found_by_the_value_as_it_is(memory):
    store = MemoryStoreAdapter(memory, scope="app")
    store.put(ALICE, "m1", {"text": "   "})
    assert keys(store.search(ALICE, query="text")) == [(ALICE, "m1")]


@pytest.mark.parametrize("index", [False, ["missing"], [], ["blank"]])
def test_what_is_not_indexed_is_kept_and_not_found(store, memory, index):
    value = {"content": "Alice lives in Lyon", "blank": " "}
    store.put(ALICE, "m1", value, index=index)
    assert store.get(ALICE, "m1").value == value
    assert keys(store.search(ALICE)) == [(ALICE, "m1")]
    assert store.search(ALICE, query="Who lives in Lyon?") == []
    assert memory.retrieve("Who lives in Lyon?", scope="app/memories/alice").semantic == ()
    assert memory.get("m1", scope="app/memories/alice").fact == '{"blank": " ", "content": "Alice lives in Lyon"}'
    report = memory.verify()
    assert (report.memories, report.passages, report.problems) == (1, 0, ())


def test_an_item_can_become_indexed_and_unindexed(store, memory):
    for index, found in ((False, []), (None, [(ALICE, "m1")]), (False, [])):
        store.put(ALICE, "m1", LYON, index=index)
        assert keys(store.search((), query="Lyon")) == found
        assert memory.verify().problems == ()


def test_what_is_not_indexed_survives_an_export(store, memory, tmp_path):
    store.put(ALICE, "m1", LYON, index=False)
    store.put(BOB, "m1", BERGEN)
    memory.export(tmp_path / "all.jsonl")
    with AgentMemory.import_(tmp_path / "all.jsonl", into=tmp_path / "copy", embedder=HashEmbedder()) as copy:
        there = MemoryStoreAdapter(copy, scope="app")
        assert there.get(ALICE, "m1").value == LYON
        assert keys(there.search((), query="Who lives where?")) == [(BOB, "m1")]
        assert copy.verify().problems == ()


def test_other_memories_are_no_items_and_are_left_alone(store, memory):
    memory.remember_fact(scope="app/memories/alice", id="m1", fact="Alice lives in Nice")
    memory.remember_episode(scope="app/memories/alice", id="m2", summary="Alice moved to Nice")
    assert store.get(ALICE, "m1") is None
    assert store.search(()) == []
    assert store.search((), query="Nice") == []
    assert store.list_namespaces() == []
    for key in ("m1", "m2"):
        with pytest.raises(ValidationError, match="that no store has put"):
            store.put(ALICE, key, LYON)
        store.delete(ALICE, key)
    assert memory.get("m1", scope="app/memories/alice").fact == "Alice lives in Nice"
    assert memory.get("m2", scope="app/memories/alice").summary == "Alice moved to Nice"


def test_an_invalidated_item_is_gone_until_it_is_put_again(store, memory):
    store.put(ALICE, "m1", LYON)
    memory.invalidate("m1", scope="app/memories/alice")
    assert store.get(ALICE, "m1") is None
    assert store.search(()) == []
    store.put(ALICE, "m1", BERGEN)
    assert store.get(ALICE, "m1").value == BERGEN


def test_stores_of_two_scopes_never_see_each_other(memory):
    one, other = MemoryStoreAdapter(memory, scope="app"), MemoryStoreAdapter(memory, scope="app2")
    one.put(ALICE, "m1", LYON)
    assert other.get(ALICE, "m1") is None
    assert other.search(()) == other.search((), query="Lyon") == other.list_namespaces() == []
    other.delete(ALICE, "m1")
    assert one.get(ALICE, "m1").value == LYON


def test_only_an_agent_memory_can_be_a_store(memory):
    with pytest.raises(ConfigurationError, match="a store needs an AgentMemory, not a dict"):
        MemoryStoreAdapter({}, scope="app")
    with pytest.raises(ValidationError, match="scope"):
        MemoryStoreAdapter(memory, scope="")


# --- search


def test_search_ranks_by_the_query_and_gives_scores(store):
    store.put(ALICE, "m1", LYON)
    store.put(BOB, "m1", BERGEN)
    first, second = store.search(("memories",), query="Who lives in Bergen?")
    assert (first.namespace, second.namespace) == (BOB, ALICE)
    assert 1 >= first.score > second.score > 0


def test_search_stays_below_its_prefix(store):
    store.put(ALICE, "m1", LYON)
    store.put(("memories", "alice", "work"), "m2", LYON)
    store.put(("memories", "alice2"), "m3", LYON)
    for query in (None, "Lyon", " "):
        assert sorted(keys(store.search(ALICE, query=query))) == [(ALICE, "m1"), ((*ALICE, "work"), "m2")]


@pytest.mark.parametrize("query", [None, "number"])
def test_pages_of_a_search_join_to_the_whole(store, clock, query):
    for number in range(7):
        clock.advance(seconds=1)
        store.put(ALICE, f"m{number}", {"content": f"the number {number}"})
    whole = keys(store.search((), query=query, limit=100))
    pages = [keys(store.search((), query=query, limit=3, offset=offset)) for offset in (0, 3, 6, 9)]
    assert [key for page in pages for key in page] == whole
    assert [len(page) for page in pages] == [3, 3, 1, 0]
    if query is None:
        assert [key for _, key in whole] == [f"m{number}" for number in reversed(range(7))]


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        ({"kind": "tea"}, "ab"),
        ({"kind": {"$eq": "tea"}}, "ab"),
        ({"kind": {"$ne": "tea"}}, "cd"),
        ({"price": {"$gt": 3}}, "bc"),
        ({"price": {"$gte": 3}}, "abc"),
        ({"price": {"$lt": 4.5}}, "a"),
        ({"price": {"$lte": 4.5}}, "ab"),
        ({"price": {"$gt": 3, "$lt": 9}}, "b"),
        ({"kind": "tea", "price": 3}, "a"),
        ({"kind": {"$gt": "s"}}, "ab"),
        ({"kind": {"$gt": 1}}, ""),
        ({"maker": {"town": "Lyon"}}, "a"),
        ({"maker": {"town": {"$ne": "Lyon"}}}, "b"),
        ({"tags": ["hot", "green"]}, "c"),
        ({"tags": ["hot"]}, ""),
        ({"missing": None}, "abcd"),
        ({}, "abcd"),
    ],
)
@pytest.mark.parametrize("query", [None, "drink"])
def test_filters_let_through_what_fits(store, conditions, found, query):
    values = {
        "a": {"kind": "tea", "price": 3, "maker": {"town": "Lyon"}},
        "b": {"kind": "tea", "price": 4.5, "maker": {"town": "Bergen"}},
        "c": {"kind": "coffee", "price": 9, "tags": ["hot", "green"]},
        "d": {"kind": None},
    }
    for key, value in values.items():
        store.put(ALICE, key, value | {"content": f"drink {key}"})
    assert "".join(sorted(item.key for item in store.search((), query=query, filter=conditions))) == found


def test_what_reads_as_an_escape_is_no_other_text(store):
    store.put(ALICE, "m1", {"kind": r"\u0000"})
    store.put(ALICE, "m2", {"kind": r"\u001a0"})
    for key, kind in (("m1", r"\u0000"), ("m2", r"\u001a0")):
        assert [item.key for item in store.search((), filter={"kind": kind})] == [key]


def test_an_unknown_operator_is_refused(store):
    store.put(ALICE, "m1", LYON)
    with pytest.raises(ValidationError, match=r"unknown operator '\$in' in a filter"):
        store.search((), filter={"content": {"$in": ["x"]}})


def test_one_path_in_place_of_a_list_is_refused_and_not_taken_for_its_letters(memory):
    with pytest.raises(ConfigurationError, match=r"write fields=\['content'\]"):
        MemoryStoreAdapter(memory, scope="app", fields="content")


def test_one_text_in_place_of_a_namespace_is_refused_and_not_taken_for_its_letters(store):
    for look in (
        lambda: store.put("users", "m1", LYON),
        lambda: store.get("users", "m1"),
        lambda: store.search("users"),
        lambda: store.list_namespaces(prefix="users"),
        lambda: store.list_namespaces(suffix="users"),
        lambda: store.search(map(str, ALICE)),  # an iterator is empty when it has been looked at
    ):
        store.put(ALICE, "m1", LYON)
        with pytest.raises(ValidationError, match=r"^a namespace is a tuple of texts .* not ('users'|<map object)"):
            look()


@pytest.mark.parametrize("page", [{"offset": -1}, {"limit": -1}, {"limit": 2.5}, {"offset": "3"}])
def test_a_page_that_there_cannot_be_is_refused_however_it_is_looked_for(store, page):
    store.put(ALICE, "m1", LYON)
    (name,) = page
    for look in (
        lambda: store.search(ALICE, **page),
        lambda: store.search(ALICE, query="Lyon", **page),
        lambda: store.list_namespaces(**page),
    ):
        with pytest.raises(ValidationError, match=name):
            look()


# --- namespaces


def test_namespaces_are_listed_like_those_of_the_in_memory_store(store):
    oracle = InMemoryStore()
    for namespace in [("a",), ("a", "b"), ("a", "b", "c"), ("a", "x", "c"), ("b", "b"), ("z",)]:
        for each in (store, oracle):
            each.put(namespace, "m1", LYON)
    conditions = [None, [("prefix", ("a",))], [("suffix", ("c",))], [("prefix", ("*", "b"))]]
    conditions.append([("prefix", ("a",)), ("suffix", ("*", "c"))])
    for condition in conditions:
        for max_depth in (None, 1, 2, 5):
            for offset, limit in ((0, 100), (1, 2)):
                matches = condition and tuple(MatchCondition(match_type=kind, path=path) for kind, path in condition)
                op = ListNamespacesOp(match_conditions=matches, max_depth=max_depth, limit=limit, offset=offset)
                assert store.batch([op]) == oracle.batch([op])


def test_a_namespace_without_items_is_not_listed(store):
    store.put(ALICE, "m1", LYON)
    store.put(BOB, "m1", LYON)
    store.delete(BOB, "m1")
    assert store.list_namespaces() == [ALICE]


# --- time to live


def test_an_item_expires_after_its_lifetime(store, memory, clock):
    store.put(ALICE, "m1", LYON, ttl=5)
    store.put(ALICE, "m2", LYON, ttl=None)
    clock.advance(minutes=5)
    assert store.get(ALICE, "m1") is None
    assert [item.key for item in store.search((), query="Lyon")] == ["m2"]
    assert [item.key for item in store.search(())] == ["m2"]
    store.put(ALICE, "m1", BERGEN)
    assert store.get(ALICE, "m1").value == BERGEN


def test_a_namespace_of_which_everything_has_expired_is_not_listed(store, clock):
    store.put(ALICE, "m1", LYON, ttl=5)
    clock.advance(minutes=6)
    assert store.list_namespaces() == []


@pytest.mark.parametrize(
    "read",
    [
        lambda store, refresh: store.get(ALICE, "m1", refresh_ttl=refresh),
        lambda store, refresh: store.search(ALICE, refresh_ttl=refresh),
        lambda store, refresh: store.search(ALICE, query="Lyon", refresh_ttl=refresh),
    ],
)
@pytest.mark.parametrize("refresh", [True, False])
def test_reading_prolongs_a_lifetime_unless_it_should_not(store, clock, read, refresh):
    store.put(ALICE, "m1", LYON, ttl=5)
    clock.advance(minutes=3)
    assert read(store, refresh)
    clock.advance(minutes=3)
    assert (store.get(ALICE, "m1") is not None) is refresh


def test_a_memory_that_may_only_be_read_prolongs_nothing(tmp_path):
    with AgentMemory.open(tmp_path / "memory", embedder=HashEmbedder()) as memory:
        MemoryStoreAdapter(memory, scope="app").put(ALICE, "m1", LYON, ttl=5)
    with AgentMemory.open(tmp_path / "memory", embedder=HashEmbedder(), read_only=True) as memory:
        store = MemoryStoreAdapter(memory, scope="app")
        assert store.get(ALICE, "m1").value == LYON
        assert keys(store.search((), query="Lyon")) == [(ALICE, "m1")]
        with pytest.raises(ConfigurationError, match="read-only"):
            store.put(ALICE, "m1", BERGEN)
        with pytest.raises(ConfigurationError, match="read-only"):
            store.delete(ALICE, "m1")


def test_an_item_that_may_not_be_stored_any_more_is_read_and_not_prolonged(clock):
    kept_out = False
    with AgentMemory.in_memory(
        embedder=HashEmbedder(), clock=clock, before_store=lambda record: None if kept_out else record
    ) as memory:
        store = MemoryStoreAdapter(memory, scope="app")
        store.put(ALICE, "m1", LYON, ttl=5)
        kept_out = True
        clock.advance(minutes=4)
        assert store.get(ALICE, "m1").value == LYON
        clock.advance(minutes=2)
        assert store.get(ALICE, "m1") is None


def test_the_lifetimes_of_a_store_have_defaults(memory, clock):
    store = MemoryStoreAdapter(memory, scope="app", ttl={"default_ttl": 5, "refresh_on_read": False})
    store.put(ALICE, "m1", LYON)
    store.put(ALICE, "forever", LYON, ttl=None)
    clock.advance(minutes=3)
    assert store.get(ALICE, "m1") is not None
    clock.advance(minutes=3)
    assert [item.key for item in store.search(())] == ["forever"]


# --- at work


async def test_the_asynchronous_methods_do_the_same_and_hold_up_nothing(tmp_path, no_blocking):
    import asyncio

    memory = await asyncio.to_thread(AgentMemory.open, tmp_path / "memory", embedder=HashEmbedder())
    try:
        store = MemoryStoreAdapter(memory, scope="app", fields=["content"])
        await store.aput(ALICE, "m1", LYON, ttl=5)
        assert (await store.aget(ALICE, "m1")).value == LYON
        assert keys(await store.asearch((), query="Lyon")) == [(ALICE, "m1")]
        assert await store.alist_namespaces() == [ALICE]
        await store.adelete(ALICE, "m1")
        assert await store.asearch(()) == []
    finally:
        await asyncio.to_thread(memory.close)


def test_an_agent_uses_it_as_its_store(memory, store, saying):
    @tool
    def keep(content: str, runtime: ToolRuntime) -> str:
        """Keep something."""
        runtime.store.put(ALICE, "m1", {"content": content})
        return "kept"

    @tool
    def look(query: str, runtime: ToolRuntime) -> str:
        """Look something up."""
        return "; ".join(item.value["content"] for item in runtime.store.search(("memories",), query=query))

    model = saying(("keep", {"content": "Alice lives in Lyon"}), ("look", {"query": "Lyon"}), "In Lyon.")
    state = create_agent(model, tools=[keep, look], store=store).invoke({"messages": [("user", "Where?")]})
    assert [message.content for message in state["messages"] if message.type == "tool"] == [
        "kept",
        "Alice lives in Lyon",
    ]
    assert "Alice lives in Lyon" in memory.retrieve("Lyon?", scope="app/memories/alice").to_markdown()


def test_the_tools_of_langmem_work_on_it(store, memory):
    langmem = pytest.importorskip("langmem", reason="it depends on the clients of two providers")
    namespace = ("memories",)
    manage = langmem.create_manage_memory_tool(namespace, store=store)
    search = langmem.create_search_memory_tool(namespace, store=store)
    manage.invoke({"content": "Alice lives in Lyon", "action": "create"})
    assert "Alice lives in Lyon" in search.invoke({"query": "Where does Alice live?"})
    assert "Alice lives in Lyon" in memory.retrieve("Alice?", scope="app/memories").to_markdown()


def test_an_item_may_be_written_by_hand_as_a_memory(store, memory):
    draft = SemanticMemory.new(
        scope="app/memories/alice", id="m1", fact="Tea", origin="store", metadata={"value": LYON}
    )
    memory.remember_many([draft])
    assert store.get(ALICE, "m1").value == LYON


@pytest.mark.parametrize("hook", [None, lambda record: record], ids=["without a hook", "with a hook"])
def test_an_item_keeps_when_it_was_made_also_where_it_was_changed_by_hand(clock, hook):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, before_store=hook) as memory:
        store = MemoryStoreAdapter(memory, scope="app")
        store.put(("a",), "k", {"content": "Anna likes tea"})
        clock.advance(hours=1)
        memory.update("k", scope="app/a", fact="Anna likes coffee")
        clock.advance(hours=1)
        store.put(("a",), "k", {"content": "Anna likes water"})
        item = store.get(("a",), "k")
        assert (item.created_at, item.updated_at) == (NOON, NOON + timedelta(hours=2))
        clock.advance(hours=1)
        store.put(("a",), "k", {"content": "Anna likes rain"}, ttl=1)
        clock.advance(hours=1)
        store.put(("a",), "k", {"content": "Anna likes snow"})  # what was there has expired
        assert store.get(("a",), "k").created_at == NOON + timedelta(hours=4)
        assert not memory.verify().problems
