"""What LangGraph's own tests ask of a store, asked of ours: ``langgraph_functions.py`` says which test is for which.

On disk, and on PostgreSQL with ``make test-postgres``.
"""

import asyncio
import random
from datetime import UTC, datetime, timedelta

import pytest
from langgraph.store.base import GetOp, InvalidNamespaceError, Item, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from patience import PATIENCE, until

from memory_retrievers import AgentMemory
from memory_retrievers.errors import ValidationError
from memory_retrievers.langchain import MemoryStoreAdapter
from memory_retrievers.testing import FixedClock, HashEmbedder, inside

from .langgraph_functions import COVERED

HERE = ("t", "docs")

OWN = {
    "a_text_that_is_changed_by_hand_is_one_text_again",
    "an_item_of_many_texts_has_as_many_vectors_as_may_be",
    "every_field_outlives_export_and_another_embedder",
    "every_function_of_langgraph_has_a_test_or_a_reason",
    "keys_and_namespaces_are_bounded",
}
"""Tests of what LangGraph's stores do not have."""


@pytest.fixture
def clock():
    return FixedClock(datetime(2026, 3, 1, 12, tzinfo=UTC))


@pytest.fixture
def memory(tmp_path, clock):
    with AgentMemory.open(tmp_path / "memory", embedder=HashEmbedder(), clock=clock) as memory:
        yield memory


@pytest.fixture
def store(memory):
    return MemoryStoreAdapter(memory, scope="app")


@pytest.fixture(params=["called", "awaited"])
def do(store, request):
    """Calls a method of the store, or awaits its other form."""
    if request.param == "called":
        return lambda name, *given, **more: getattr(store, name)(*given, **more)
    return lambda name, *given, **more: asyncio.run(getattr(store, f"a{name}")(*given, **more))


def keys(found):
    return [item.key for item in found]


def filled(store, *namespaces):
    for namespace in namespaces:
        store.put(namespace, "k", {"n": 1})


def test_every_function_of_langgraph_has_a_test_or_a_reason():
    ours = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    named = {told for functions in COVERED.values() for told in functions.values() if not told.startswith("(")}
    assert named <= ours
    assert ours - named == OWN


# --- batches


def check_order(batch, put):
    put(("t", "foo"), "one", {"data": "a"})
    put(("t", "bar"), "two", {"data": "b"})
    got, none, found, namespaces, missing = batch(
        [
            GetOp(("t", "foo"), "one"),
            PutOp(("t", "bar"), "two", {"data": "c"}),
            SearchOp(("t",), {"data": "a"}),
            ListNamespacesOp(),
            GetOp(("t",), "three"),
        ]
    )
    assert isinstance(got, Item)
    assert (got.value, got.key, got.namespace) == ({"data": "a"}, "one", ("t", "foo"))
    assert (none, keys(found), missing) == (None, ["one"], None)
    assert namespaces == [("t", "bar"), ("t", "foo")]
    found, got, _, _ = batch(
        [SearchOp(("t",), limit=5), GetOp(("t", "bar"), "two"), PutOp(("t",), "three", {}), ListNamespacesOp()]
    )
    assert len(found) == 2
    assert got.value == {"data": "c"}
    assert batch([GetOp(("t",), "three")])[0].value == {}


def test_batches_answer_in_their_order(store):
    check_order(store.batch, store.put)


def test_awaited_batches_answer_in_their_order(store):
    check_order(lambda ops: asyncio.run(store.abatch(ops)), store.put)


def test_gets_in_a_batch(do):
    do("batch", [PutOp(HERE, "a", {"n": 1}), PutOp(HERE, "b", {"n": 2})])
    first, second, missing = do("batch", [GetOp(HERE, key) for key in "abc"])
    assert (first.value, second.value, missing) == ({"n": 1}, {"n": 2}, None)


def test_puts_and_deletes_in_a_batch(do):
    do("put", HERE, "b", {"n": 0})
    assert do("batch", [PutOp(HERE, "a", {"n": 1}), PutOp(HERE, "b", None), PutOp(HERE, "c", None)]) == [None] * 3
    assert keys(do("search", HERE)) == ["a"]


def test_searches_in_a_batch(do):
    for number, name in enumerate(("foo", "bar", "baz")):
        do("put", ("t", name), name, {"tag": "x" if number < 2 else "y"})
    tagged, two, one = do("batch", [SearchOp(("t",), {"tag": "x"}), SearchOp(("t",), limit=2), SearchOp(("t", "foo"))])
    assert sorted(keys(tagged)) == ["bar", "foo"]
    assert (len(two), keys(one)) == (2, ["foo"])


def test_namespaces_in_a_batch(do, store):
    there = [("t", "docs", "public"), ("t", "docs", "private"), ("t", "img", "public"), ("p", "docs", "public")]
    filled(store, *there)
    public = MatchCondition("suffix", ("public",))
    every, short, fitting = do(
        "batch", [ListNamespacesOp(), ListNamespacesOp(max_depth=2), ListNamespacesOp(match_conditions=(public,))]
    )
    assert every == sorted(there)
    assert short == [("p", "docs"), ("t", "docs"), ("t", "img")]
    assert fitting == sorted(each for each in there if each[-1] == "public")


def test_concurrent_reads_are_one_batch(store, memory, monkeypatch):
    async def work():
        await asyncio.gather(*(store.aput(HERE, "same", {"n": n}) for n in range(3)), store.aput(HERE, "other", {}))
        gets = [store.aget(HERE, key) for key in ("same", "same", "other")]
        return await asyncio.gather(*gets, *(store.asearch(HERE, filter={"n": 2}) for _ in range(4)))

    asked = []
    newest = memory.items.newest
    monkeypatch.setattr(memory.items, "newest", lambda *given, **more: asked.append(given) or newest(*given, **more))
    first, second, other, *found = asyncio.run(work())
    assert first == second != other
    assert first.value == {"n": 2}  # the last of them
    assert [keys(each) for each in found] == [["same"]] * 4
    assert len(asked) == 1


@pytest.mark.slow
def test_thousands_of_concurrent_operations(store, memory):
    async def work():
        tasks = []
        for turn in range(6):
            for number in range(60):
                place = ("t", "a", "b", "c", str(turn % 2)), f"k{number}"
                tasks += [store.aput(*place, {"n": number}), store.aget(*place), store.adelete(*place)]
                tasks += [store.alist_namespaces(max_depth=turn + 1), store.asearch(("t",)), store.aput(*place, {})]
        return await asyncio.gather(*tasks)

    assert len(asyncio.run(work())) == 6 * 60 * 6
    assert len(store.search((), limit=500)) == 120
    assert memory.verify().problems == ()


# --- keys and namespaces


def test_put_get_update_delete(do, clock):
    do("put", HERE, "d", {"title": "First"})
    first = do("get", HERE, "d")
    clock.advance(seconds=1)
    do("put", HERE, "d", {"title": "Second"})
    second = do("get", HERE, "d")
    assert (first.value, second.value) == ({"title": "First"}, {"title": "Second"})
    assert (second.created_at, second.updated_at) == (first.created_at, first.updated_at + timedelta(seconds=1))
    assert do("get", ("t", "elsewhere"), "d") is None
    do("delete", HERE, "d")
    assert do("get", HERE, "d") is None
    assert do("search", ("t",)) == do("list_namespaces") == []


NAMED = [("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "b", "f"), ("a", "c", "f"), ("b", "a", "f")]


def test_namespaces_by_prefix_suffix_depth_and_page(do, store):
    filled(store, *NAMED)
    assert do("list_namespaces") == NAMED
    assert do("list_namespaces", prefix=("a", "b")) == NAMED[:4]
    assert do("list_namespaces", suffix=("f",)) == NAMED[3:]
    assert do("list_namespaces", prefix=("a",), suffix=("f",)) == NAMED[3:5]
    assert do("list_namespaces", prefix=("a", "b"), max_depth=3) == [*NAMED[:1], ("a", "b", "d"), NAMED[3]]
    assert do("list_namespaces", prefix=("a", "b"), limit=2) == NAMED[:2]
    assert do("list_namespaces", prefix=("a", "b"), offset=2) == NAMED[2:4]
    assert do("list_namespaces", prefix=("nowhere",)) == []


def test_namespaces_by_wildcards(do, store):
    filled(store, *NAMED)
    assert do("list_namespaces", prefix=("a", "*", "f")) == NAMED[3:5]
    assert do("list_namespaces", suffix=("*", "f")) == NAMED[3:]
    assert do("list_namespaces", prefix=("*", "b"), suffix=("d", "*")) == NAMED[1:3]
    assert do("list_namespaces", prefix=("*", "*", "*", "*", "*")) == []


def test_namespaces_page_by_page(do, store):
    there = [("n", f"s{number:02}") for number in range(20)]
    filled(store, *there)
    assert [do("list_namespaces", limit=5, offset=offset) for offset in (0, 5, 15)] == [
        there[:5],
        there[5:10],
        there[15:],
    ]


def test_an_empty_store_has_no_namespaces(do):
    assert do("list_namespaces") == []


@pytest.mark.parametrize("namespace", [(), ("the", "thing.about"), ("some", ""), ("langgraph", "foo"), (123,)])
def test_malformed_namespaces_are_refused(do, namespace):
    with pytest.raises((InvalidNamespaceError, ValueError)):
        do("put", namespace, "k", {})
    assert do("search", ()) == []


def test_a_prefix_ends_with_a_label(do, store):
    filled(store, ("foo",), ("foo", "child"), ("foobar",), ("foo2",), ("u", "alice"), ("u", "malice"))
    assert sorted(item.namespace for item in do("search", ("foo",))) == [("foo",), ("foo", "child")]
    assert do("search", ("fo",)) == []
    assert do("list_namespaces", prefix=("foo",)) == [("foo",), ("foo", "child")]
    assert do("list_namespaces", suffix=("alice",)) == [("u", "alice")]


@pytest.mark.parametrize(
    ("label", "other"),
    [("user_1", "userX1"), ("a%b", "axxb"), ("s*", "sX"), ("q?", "qX"), ("b[a]", "ba"), ("Foo", "foo"), ("x\n", "x")],
)
def test_labels_are_taken_literally(do, store, label, other):
    filled(store, (label,), (label, "child"), (other,))
    assert sorted(item.namespace for item in do("search", (label,))) == [(label,), (label, "child")]
    assert do("list_namespaces", prefix=(label,)) == [(label,), (label, "child")]
    assert do("list_namespaces", suffix=(other,)) == [(other,)]


def test_the_empty_prefix_is_everything(do, store):
    filled(store, ("a",), ("b", "c"), ("d", "e", "f"))
    assert {item.namespace for item in do("search", ())} == {("a",), ("b", "c"), ("d", "e", "f")}


def test_keys_and_namespaces_are_bounded(do):
    letters = "".join(map(chr, random.Random(7).choices(range(0x20000, 0x2A000), k=251)))  # no index makes them shorter
    for longest in ("k" * 1_000, letters[1:]):
        do("put", tuple("abcdefghi"), longest, {})
        assert keys(do("search", tuple("abcdefghi"))) == [longest]
        do("delete", tuple("abcdefghi"), longest)
    for namespace, key in [
        (tuple("abcdefghij"), "k"),
        (HERE, "k" * 1_001),
        (HERE, letters),
        (("x" * 201,), "k"),
        (HERE, ""),
        (HERE, " "),
    ]:
        with pytest.raises(ValidationError):
            do("put", namespace, key, {})
    assert do("search", ()) == []


# --- filters


def test_browsing_by_namespace_filter_and_page(do):
    do("put", ("t", "docs", "u1"), "1", {"author": "Alice", "tags": ["draft"]})
    do("put", ("t", "docs", "u2"), "2", {"author": "Bob", "tags": ["final"]})
    do("put", ("t", "images"), "3", {"author": "Alice", "tags": ["draft", "final"]})
    assert sorted(keys(do("search", ("t", "docs")))) == ["1", "2"]
    assert sorted(keys(do("search", ("t",), filter={"author": "Alice"}))) == ["1", "3"]
    assert keys(do("search", ("t",), filter={"tags": ["draft"]})) == ["1"]
    assert len(do("search", ("t",), limit=2)) == 2
    assert len(do("search", ("t",), offset=2)) == 1
    assert all(item.score is None for item in do("search", ("t",)))


def test_numbers_and_texts_are_ordered_among_themselves(do):
    for key, value in {"a": 2, "b": 9, "c": 10, "d": 9.5, "e": "9", "f": "banana"}.items():
        do("put", HERE, key, {"v": value})
    fitting = {sign: sorted(keys(do("search", HERE, filter={"v": {sign: 9.5}}))) for sign in ("$gt", "$gte", "$lt")}
    assert fitting == {"$gt": ["c"], "$gte": ["c", "d"], "$lt": ["a", "b"]}
    assert keys(do("search", HERE, filter={"v": {"$gt": "apple"}})) == ["f"]


def test_numbers_of_any_size(do):
    for key, price in {"a": 10, "b": 20, "c": -10}.items():
        do("put", HERE, key, {"price": price})
    sought = [{"$lt": float("inf")}, {"$gt": float("-inf")}, {"$lt": 10**400}, {"$lt": 0}, {"$eq": float("nan")}]
    assert [len(do("search", HERE, filter={"price": each})) for each in sought] == [3, 3, 3, 1, 0]


def test_truth_values(do):
    for key, value in {"a": True, "b": False, "c": 1, "d": "true"}.items():
        do("put", HERE, key, {"on": value})
    assert [keys(do("search", HERE, filter={"on": on})) for on in (True, False, 1)] == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize(
    "text", ["public' OR '1'='1", "x'; --", "' UNION SELECT 1 --", "x\x00' OR '1'='1", "''''", '" OR ""="']
)
def test_filters_are_never_sql(do, text):
    do("put", HERE, "public", {"access": "public"})
    do("put", HERE, "private", {"access": "private", "title": "O'Brien's"})
    assert do("search", HERE, filter={"access": text}) == []
    assert do("search", HERE, filter={text: "private"}) == []
    assert do("search", HERE, filter={f"access') = 'public' OR json_extract(value, '$.{text}": "x"}) == []
    assert keys(do("search", HERE, filter={"title": "O'Brien's"})) == ["private"]


def test_any_key_can_be_filtered_by_and_dots_lead_inside(do):
    do("put", HERE, "hyphen", {"access-level": "x", "user": {"access-level": "y"}})
    do("put", HERE, "digit", {"12ab": "x", "user": {"12ab": "y"}})
    do("put", HERE, "dot", {"user.name": "z", 'a"b': 1, "": 2})
    for conditions, key in [
        ({"access-level": "x"}, "hyphen"),
        ({"user.access-level": "y"}, "hyphen"),
        ({"12ab": "x"}, "digit"),
        ({"user.12ab": {"$gte": "y"}}, "digit"),
        ({"user.name": "z"}, "dot"),
        ({'a"b': 1}, "dot"),
        ({"": 2}, "dot"),
    ]:
        assert keys(do("search", HERE, filter=conditions)) == [key], conditions
        assert keys(do("search", HERE, query="x", filter=conditions)) == [key], conditions


# --- vectors


def test_what_is_put_is_found_by_its_text(do):
    for key, value in {"a": {"text": "short text"}, "b": {"body": "long text"}, "c": {"text": "birds"}}.items():
        do("put", HERE, key, value)
    assert keys(do("search", HERE, query="long text"))[0] == "b"


def test_a_new_text_is_found_in_place_of_the_old(do):
    do("put", HERE, "a", {"text": "zany zebra"})
    do("put", HERE, "b", {"text": "something about dogs"})
    before = do("search", HERE, query="zany zebra")[0]
    do("put", HERE, "a", {"text": "new text about dogs"})
    after = {item.key: item.score for item in do("search", HERE, query="zany zebra")}
    assert (before.key, after["a"] < before.score) == ("a", True)
    assert keys(do("search", HERE, query="new text about dogs"))[0] == "a"
    do("put", HERE, "c", {"text": "new text about dogs"}, index=False)
    assert "c" not in keys(do("search", HERE, query="new text about dogs"))


def test_search_with_filters(store, do):
    store.batch(
        [
            PutOp(HERE, key, {"text": f"{color} {thing}", "color": color, "score": score}, index=["text"])
            for key, color, thing, score in [
                ("1", "red", "apple", 4.5),
                ("2", "red", "car", 3.0),
                ("3", "green", "apple", 4.0),
                ("4", "blue", "car", 3.5),
            ]
        ]
    )
    assert keys(do("search", HERE, query="apple", filter={"color": "red"})) == ["1", "2"]
    assert keys(do("search", HERE, query="car", filter={"color": "red"})) == ["2", "1"]
    assert keys(do("search", HERE, query="blue", filter={"score": {"$gt": 3.2}}))[0] == "4"
    assert keys(do("search", HERE, query="apple", filter={"score": {"$gte": 4.0}, "color": "green"})) == ["3"]


def test_pages_of_a_search_do_not_overlap(do):
    for number in range(5):
        do("put", HERE, f"d{number}", {"text": f"test document number {number}"})
    pages = [do("search", HERE, query="test", limit=2, offset=offset) for offset in (0, 2, 4)]
    assert sorted(key for page in pages for key in keys(page)) == [f"d{number}" for number in range(5)]
    scores = [item.score for page in pages for item in page]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("query", ["", None, "test " * 100, "test!@#$%^&*()", "\x00", "ü" * 50])
def test_odd_queries(do, query):
    do("put", HERE, "d", {"text": "test document"})
    assert keys(do("search", HERE, query=query)) == ["d"]


def test_an_item_is_as_near_as_its_best_field(memory, do, store):
    store = MemoryStoreAdapter(memory, scope="app", fields=["key0", "key1", "key3"])
    store.put(HERE, "one", {"key1": "xxx", "key2": "yyy", "key3": "zzz"})
    store.put(HERE, "two", {"key0": "uuu", "key1": "vvv", "key2": "www", "key3": "xxx"})
    assert {item.key: item.score for item in do("search", HERE, query="xxx")} == {"one": 1, "two": 1}
    for query, key in [("uuu", "two"), ("vvv", "two"), ("zzz", "one")]:
        best, other = do("search", HERE, query=query)
        assert (best.key, best.score, other.score < 0.9) == (key, 1, True)
    assert all(item.score < 0.9 for item in do("search", HERE, query="www"))
    assert memory.verify().problems == ()


def test_every_field_outlives_export_and_another_embedder(memory, tmp_path):
    store = MemoryStoreAdapter(memory, scope="app", fields=["a", "b"])
    store.put(HERE, "k", {"a": "green tea", "b": "a red car"})
    memory.export(tmp_path / "copy.jsonl")
    file, other = tmp_path / "copy.jsonl", tmp_path / "other"
    with AgentMemory.import_(file, into=other, embedder=HashEmbedder()) as other:
        copied = MemoryStoreAdapter(other, scope="app").search((), query="a red car")
    memory.reembed(HashEmbedder(512), embedder_id="wider")
    moved = store.search((), query="a red car") + store.search((), query="green tea")
    assert [item.score for item in [*copied, *moved]] == [1, 1, 1]
    assert [hit.memory.id for hit in memory.retrieve("a red car", scope="app/t/docs").semantic] == ["k"]
    assert memory.verify().problems == ()


def test_a_text_that_is_changed_by_hand_is_one_text_again(memory):
    store = MemoryStoreAdapter(memory, scope="app", fields=["a", "b"])
    store.put(HERE, "k", {"a": "green tea", "b": "a red car"})
    memory.update("k", scope="app/t/docs", fact="a blue bicycle")
    assert store.search((), query="a blue bicycle")[0].score == 1
    assert store.search((), query="a red car")[0].score < 0.9
    assert memory.verify().problems == ()


def test_an_item_of_many_texts_has_as_many_vectors_as_may_be(memory):
    store = MemoryStoreAdapter(memory, scope="app", fields=["words[*]"])
    store.put(HERE, "k", {"words": [f"word{n}" for n in range(50)] + [" "]})
    assert [store.search((), query=f"word{n}")[0].score for n in (0, 30)] == [1, 1]
    assert 0 < store.search((), query="word49")[0].score < 0.9
    assert memory.verify().problems == ()


def test_a_put_names_its_fields(do, memory):
    do("put", HERE, "3", {"key0": "aaa", "key1": "bbb", "key2": "ccc"}, index=["key0", "key1"])
    do("put", HERE, "4", {"key0": "eee", "key1": "bbb", "key3": "ggg"}, index=["key1", "key3"])
    do("put", HERE, "5", {"key0": "hhh"}, index=False)
    assert keys(do("search", HERE, query="aaa")) == ["3", "4"]
    assert keys(do("search", HERE, query="ggg")) == ["4", "3"]
    assert [item.score for item in do("search", HERE, query="bbb")] == [1, 1]
    assert all(item.score < 0.9 for item in do("search", HERE, query="ccc"))
    assert sorted(keys(do("search", HERE))) == ["3", "4", "5"]


@pytest.mark.parametrize("query", ["aaa", "bbb", "abcd", "aaa bbb"])
def test_scores_are_cosines(do, query):
    do("put", HERE, "d", {"text": "aaa", "more": "aaa bbb ccc"}, index=["text", "more"])
    embedder = HashEmbedder()
    asked = embedder.embed_query(query)
    cosines = [sum(map(float.__mul__, asked, vector)) for vector in embedder.embed_documents(["aaa", "aaa bbb ccc"])]
    assert do("search", (), query=query)[0].score == pytest.approx(max(cosines), abs=1e-5)


def test_texts_in_other_scripts(do):
    texts = ["这是中文", "これは日本語です", "이건 한국어야", "Это русский", "यह रूसी है"]
    for text in texts:
        do("put", HERE, text, {"text": text}, index=["text"])
    assert [keys(do("search", HERE, query=text))[0] for text in texts] == texts


def test_concurrent_writes_then_searches_with_filters(store):
    values = {f"d{n}": {"text": f"thing {n}", "color": ("red", "blue")[n % 2], "n": n} for n in range(30)}

    async def work():
        puts = [store.aput(HERE, key, value) for key, value in values.items()]
        again = [store.aput(HERE, key, value) for key, value in values.items()]
        await asyncio.gather(*puts, *(store.adelete(HERE, key) for key in values), *again)
        asked = [{"color": "red"}, {"n": {"$gt": 25}}, {"n": {"$lte": 10}, "color": "blue"}]
        return await asyncio.gather(*(store.asearch(HERE, query="thing", filter=each, limit=50) for each in asked))

    red, late, early = asyncio.run(work())
    assert sorted(item.value["n"] for item in red) == list(range(0, 30, 2))
    assert sorted(item.value["n"] for item in late) == [26, 27, 28, 29]
    assert sorted(item.value["n"] for item in early) == [1, 3, 5, 7, 9]


# --- time to live


def test_a_lifetime_by_default_and_of_its_own(memory, do, clock):
    store = MemoryStoreAdapter(memory, scope="app", ttl={"default_ttl": 5})
    store.put(HERE, "short", {}, ttl=1)
    store.put(HERE, "default", {})
    store.put(HERE, "forever", {}, ttl=None)
    clock.advance(minutes=2)
    assert store.sweep_ttl() == 1
    assert sorted(keys(do("search", HERE, refresh_ttl=False))) == ["default", "forever"]
    clock.advance(minutes=4)
    assert store.sweep_ttl() == 1
    assert keys(do("search", HERE)) == ["forever"]


def test_what_has_expired_is_not_read(do, clock):
    do("put", HERE, "gone", {"text": "tea"}, ttl=1)
    do("put", ("t", "kept"), "kept", {"text": "tea"})
    clock.advance(minutes=2)
    assert do("get", HERE, "gone") is None
    assert keys(do("search", ("t",))) == keys(do("search", ("t",), query="tea")) == ["kept"]
    assert keys(do("search", ("t",), filter={"text": "tea"})) == ["kept"]
    assert keys(do("search", ("t",), filter={"text": "tea"}, query="tea")) == ["kept"]
    assert do("list_namespaces") == [("t", "kept")]


def test_reading_does_not_bring_back_what_has_expired(do, clock, store):
    do("put", HERE, "gone", {}, ttl=1)
    clock.advance(minutes=2)
    assert (do("get", HERE, "gone", refresh_ttl=True), do("search", HERE, refresh_ttl=True)) == (None, [])
    assert store.sweep_ttl() == 1


def test_pages_leave_out_what_has_expired(do, clock):
    for key in ("c", "b", "gone", "a"):
        clock.advance(seconds=1)
        do("put", HERE, key, {}, ttl=1 if key == "gone" else 50)
    clock.advance(minutes=2)
    assert [keys(do("search", HERE, limit=2, offset=offset)) for offset in (0, 2)] == [["a", "b"], ["c"]]


@pytest.mark.parametrize("read", ["get", "browse", "search"])
def test_reads_refresh_a_lifetime(do, clock, read):
    do("put", HERE, "a", {"text": "tea", "id": 1}, ttl=4)
    do("put", HERE, "b", {"text": "tea", "id": 2}, ttl=4)
    clock.advance(minutes=3)
    if read == "get":
        do("get", HERE, "a", refresh_ttl=True)
    else:
        do("search", HERE, filter={"id": 1}, query="tea" if read == "search" else None, refresh_ttl=True)
    do("search", HERE, refresh_ttl=False)
    clock.advance(minutes=2)
    assert (do("get", HERE, "a", refresh_ttl=False) is None, do("get", HERE, "b") is None) == (False, True)
    clock.advance(minutes=3)
    assert do("get", HERE, "a") is None


def test_the_sweeper_removes_by_itself(memory, clock):
    store = MemoryStoreAdapter(memory, scope="app", ttl={"default_ttl": 2, "sweep_interval_minutes": 1 / 6_000})
    store.start_ttl_sweeper()
    store.put(HERE, "a", {})
    clock.advance(minutes=3)
    until(lambda: inside(memory).ledger.statistics(None).facts == 0, "sweeping")
    assert store.stop_ttl_sweeper(timeout=PATIENCE)
