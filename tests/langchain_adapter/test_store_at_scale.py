"""The store with many items and many callers: filters, limits, order, scores, lifetimes and joined batches."""

import asyncio
import gc
from datetime import UTC, datetime, timedelta

import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from patience import A_LONG_TIME, PATIENCE, until

from memory_retrievers import AgentMemory
from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.langchain import MemoryStoreAdapter
from memory_retrievers.langchain.store_filters import lets_through
from memory_retrievers.models import MemoryKey
from memory_retrievers.testing import FixedClock, HashEmbedder, inside

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLACE = ("notes", "alice")


@pytest.fixture
def clock():
    return FixedClock(NOON)


@pytest.fixture
def memory(clock):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        yield memory


@pytest.fixture
def store(memory):
    return MemoryStoreAdapter(memory, scope="app", fields=["text"])


@pytest.fixture(scope="module")
def crowded():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope="app/elsewhere", fact="No item")
        store = MemoryStoreAdapter(memory, scope="app", fields=["text"])
        store.batch([PutOp(PLACE, f"k{n:04}", {"text": f"note {n}", "n": n, "even": n % 2 == 0}) for n in range(1_501)])
        store.put(("drafts", "bob"), "k", {"text": "x"})
        yield store


def keys(found):
    return [item.key for item in found]


# --- filters and limits


@pytest.mark.parametrize("query", [None, "note"])
@pytest.mark.parametrize(
    "conditions", [{"n": 0}, {"n": {"$eq": 0}}, {"n": {"$lt": 1}}, {"n": {"$lte": 0}, "even": True}]
)
def test_the_one_item_that_fits_is_found_among_many(crowded, query, conditions):
    assert keys(crowded.search(PLACE, query=query, filter=conditions)) == ["k0000"]


@pytest.mark.parametrize("query", [None, "note"])
def test_as_many_are_given_as_are_asked_for(crowded, query):
    assert len(crowded.search(PLACE, query=query, limit=2_000)) == 1_501
    odd = crowded.search(PLACE, query=query, filter={"even": False}, limit=2_000)
    assert sorted(item.value["n"] for item in odd) == list(range(1, 1_501, 2))
    some = crowded.search(PLACE, query=query, filter={"n": {"$gte": 700}}, limit=300, offset=600)
    assert len(some) == 201
    assert crowded.search(PLACE, query=query, limit=0) == []


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        ({"v": 1}, ["number"]),
        ({"v": True}, ["truth"]),
        ({"v": "1"}, ["text"]),
        ({"v": None}, ["nothing", "other"]),
        ({"v": {"$ne": 1}}, ["nothing", "other", "text", "truth", "twin"]),
        ({"a'b": 2}, ["twin"]),
        ({"a\nb": 2}, ["twin"]),
        ({'"': "\x00\ud800"}, []),
        ({f"k{n}": n for n in range(20)}, ["other"]),
        ({"v": float("inf")}, []),
        ({"v": 2**70}, []),
    ],
)
@pytest.mark.parametrize("query", [None, "thing"])
def test_values_are_compared_as_json(store, conditions, found, query):
    values = {
        "number": {"v": 1},
        "truth": {"v": True},
        "text": {"v": "1"},
        "nothing": {"v": None},
        "twin": {"v": {"v": 1}, "a'b": 2, "a\nb": 2},
        "other": {f"k{n}": n for n in range(20)},
    }
    for key, value in values.items():
        store.put(PLACE, key, value | {"text": "a thing"})
    assert sorted(keys(store.search((), query=query, filter=conditions))) == found


@pytest.mark.parametrize("conditions", [{"n": {"$in": [1]}}, {"a": {"b": {"$regex": "x"}}}, {"n": [{"$or": 1}]}])
def test_an_unknown_operator_is_refused_whatever_the_store_holds(store, conditions):
    with pytest.raises(ValidationError, match="unknown operator"):
        store.search((), filter=conditions)


def test_a_query_that_is_too_long_is_refused(store, memory):
    with pytest.raises(ValidationError, match="query is too long"):
        store.search((), query="x" * (memory.query_characters + 1))


# --- order and scores


def test_what_was_put_last_comes_first_also_if_it_was_there_before(store, clock):
    for key in ("a", "b", "c", "a"):
        clock.advance(seconds=1)
        store.put(PLACE, key, {"text": key})
    assert keys(store.search(())) == ["a", "c", "b"]


def test_a_score_is_the_cosine_whatever_else_is_there(store):
    store.put(PLACE, "tea", {"text": "green tea in the morning"})
    (alone,) = store.search((), query="green tea")
    store.put(PLACE, "more", {"text": "green tea"})
    both = store.search((), query="green tea")
    assert [(item.key, item.score) for item in both][1] == ("tea", alone.score)
    assert store.search((), query="green tea", filter={"text": {"$ne": "green tea"}})[0].score == alone.score


def test_scores_are_those_of_the_in_memory_store(store):
    embedder = HashEmbedder()
    oracle = InMemoryStore(
        index={"embed": embedder.embed_documents, "dims": len(embedder.embed_query("x")), "fields": ["text"]}
    )
    for number in range(20):
        for each in (store, oracle):
            each.put(PLACE, f"k{number}", {"text": f"note {number} of green tea", "n": number % 3})
    for conditions in (None, {"n": 1}, {"n": {"$gte": 1}}):
        ours, theirs = (each.search((), query="note 7", filter=conditions, limit=50) for each in (store, oracle))
        assert {item.key: item.score for item in ours} == {
            item.key: pytest.approx(item.score, abs=1e-3) for item in theirs
        }
        assert [item.score for item in ours] == sorted((item.score for item in ours), reverse=True)


def test_namespaces_are_those_that_hold_an_item(crowded):
    assert crowded.list_namespaces() == [("drafts", "bob"), PLACE]


# --- batches


def test_equal_searches_of_a_batch_give_items_of_their_own(store):
    store.put(PLACE, "k", {"list": [1]})
    first, second = store.batch([SearchOp(()), SearchOp(())])
    first[0].value["list"].append(2)
    assert second[0].value == {"list": [1]}


def test_a_batch_is_stored_by_few_writes(store, memory, monkeypatch):
    written, ledger = [], memory.items._ledger
    add = ledger.put
    monkeypatch.setattr(
        ledger, "put", lambda items, *given, **more: written.append(len(items)) or add(items, *given, **more)
    )
    store.batch([PutOp(PLACE, f"k{n % 400}", {"text": f"{n}"}) for n in range(500)])
    assert written == [400]
    assert store.get(PLACE, "k0").value == {"text": "400"}


async def test_concurrent_tasks_are_answered_together(store, memory, monkeypatch):
    batches = []
    batch = store._joined._batch
    monkeypatch.setattr(store._joined, "_batch", lambda ops: batches.append(len(ops)) or batch(ops))
    await asyncio.gather(*(store.aput(PLACE, f"k{n}", {"n": n}) for n in range(300)))
    found = await asyncio.gather(*(store.aget(PLACE, f"k{n}") for n in range(300)))
    assert [item.value["n"] for item in found] == list(range(300))
    assert sum(batches) == 600
    assert len(batches) < 10
    assert memory.verify().problems == ()


async def test_a_batch_is_never_divided_and_a_mistake_is_nobody_elses(store):
    answers = await asyncio.gather(
        store.abatch([PutOp(PLACE, "good", {"n": 1}), GetOp(PLACE, "good")]),
        store.abatch([PutOp(PLACE, "half", {"n": 1}), PutOp(PLACE, " ", {"n": 2})]),
        store.abatch([PutOp(PLACE, "other", {"n": 3}), ListNamespacesOp()]),
        return_exceptions=True,
    )
    assert [type(answer) for answer in answers] == [list, ValidationError, list]
    assert sorted(keys(store.search(()))) == ["good", "other"]


async def test_a_task_that_is_given_up_holds_nobody_up(store):
    given_up = asyncio.ensure_future(store.aput(PLACE, "a", {"n": 1}))
    kept = asyncio.ensure_future(store.aput(PLACE, "b", {"n": 2}))
    await asyncio.sleep(0)
    given_up.cancel()
    await kept
    assert (await store.aget(PLACE, "b")).value == {"n": 2}


def test_every_event_loop_has_its_own_batches(store):
    for number in range(3):
        asyncio.run(store.aput(PLACE, f"k{number}", {"n": number}))
    assert len(store.search(())) == 3


# --- time to live


def test_reading_prolongs_a_lifetime_and_changes_nothing_else(store, clock):
    store.put(PLACE, "a", {"text": "x"}, ttl=5)
    clock.advance(minutes=1)
    store.put(PLACE, "b", {"text": "x"})
    clock.advance(minutes=3)
    assert store.get(PLACE, "a").updated_at == NOON
    clock.advance(minutes=4)
    assert keys(store.search(())) == ["b", "a"]


def kept(memory):
    """How many facts are in the store, those that have expired and are not swept yet among them."""
    return inside(memory).ledger.statistics(None).facts


def test_what_has_expired_is_swept_below_the_scope_alone(store, memory, clock):
    other = MemoryStoreAdapter(memory, scope="other")
    for each in (store, other):
        each.batch([PutOp(PLACE, f"k{n}", {"n": n}, ttl=n) for n in (1, 2, 50)])
    memory.remember_many([{"fact": "A note", "scope": "app/notes/alice", "expires_at": NOON + timedelta(minutes=1)}])
    assert store.sweep_ttl() == 0
    clock.advance(minutes=3)
    assert store.sweep_ttl() == 2
    assert kept(memory) == 1 + 3 + 1
    assert memory.verify().problems == ()


def test_a_sweeper_removes_what_has_expired_until_it_is_stopped(memory, clock):
    store = MemoryStoreAdapter(memory, scope="app", ttl={"sweep_interval_minutes": 1 / 60_000})
    running = store.start_ttl_sweeper()
    assert store.start_ttl_sweeper() is running
    for _ in range(2):
        store.put(PLACE, "a", {"n": 1}, ttl=5)
        clock.advance(minutes=6)
        until(lambda: kept(memory) == 0, "sweeping")
    assert store.stop_ttl_sweeper(timeout=PATIENCE)
    assert running.done()
    store.put(PLACE, "a", {"n": 1}, ttl=5)
    clock.advance(minutes=6)
    again = store.start_ttl_sweeper(A_LONG_TIME)
    assert again.cancel()
    until(lambda: store.stop_ttl_sweeper(timeout=0), "its end")
    assert kept(memory) == 1


def test_a_sweeper_goes_on_after_what_went_wrong(memory, clock, caplog, monkeypatch):
    store = MemoryStoreAdapter(memory, scope="app", ttl={"default_ttl": 5})
    with monkeypatch.context() as broken:
        broken.setattr(memory.items, "sweep", lambda scope: 1 / 0)
        store.start_ttl_sweeper(1 / 60_000)
        until(lambda: "ZeroDivisionError" in caplog.text, "the warning")
    store.put(PLACE, "a", {"n": 1}, ttl=5)
    clock.advance(minutes=6)
    until(lambda: kept(memory) == 0, "sweeping")
    assert store.stop_ttl_sweeper(timeout=PATIENCE)
    assert store.stop_ttl_sweeper()


def test_a_sweeper_needs_a_ttl_and_a_time_above_zero(store, memory):
    assert store.start_ttl_sweeper().done()
    with pytest.raises(ValidationError, match="above 0"):
        MemoryStoreAdapter(memory, scope="app", ttl={"default_ttl": 5}).start_ttl_sweeper(-1)


def test_a_sweeper_ends_with_its_store(memory):
    store = MemoryStoreAdapter(memory, scope="app", ttl={"default_ttl": 5})
    running = store.start_ttl_sweeper(1 / 60_000)
    del store
    until(lambda: gc.collect() >= 0 and running.done(), "the end of the sweeper")  # which may just be sweeping


def test_a_sweeper_ends_with_its_memory():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        store = MemoryStoreAdapter(memory, scope="app", ttl={"default_ttl": 5})
        running = store.start_ttl_sweeper(1 / 60_000)
    running.result(timeout=PATIENCE)


def test_a_memory_that_may_only_be_read_is_not_swept(tmp_path, clock):
    with AgentMemory.open(tmp_path / "memory", embedder=HashEmbedder(), clock=clock) as memory:
        MemoryStoreAdapter(memory, scope="app").put(PLACE, "a", {"n": 1}, ttl=5)
    clock.advance(minutes=6)
    with (
        AgentMemory.open(tmp_path / "memory", embedder=HashEmbedder(), clock=clock, read_only=True) as memory,
        pytest.raises(ConfigurationError, match="read-only"),
    ):
        MemoryStoreAdapter(memory, scope="app").sweep_ttl()


# --- what the database compares

VALUES = [None, True, False, 0, 1, -1, 2.5, 1e30, 10**17 + 1, "", "1", "a", "ä", "Z", "2", "😀", [1], {"b": 1}]


@pytest.mark.parametrize("operator", ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"])
def test_the_database_compares_as_a_filter_says(memory, operator, monkeypatch):
    store = MemoryStoreAdapter(memory, scope="app")
    there = {f"k{n}": {"n": n, "a": value} for n, value in enumerate(VALUES)} | {"none": {"n": -1}}
    store.batch([PutOp(PLACE, key, value) for key, value in there.items()])
    read = []  # by a check of what the database does not compare
    monkeypatch.setattr("memory_retrievers.langchain.store_filters.lets_through", lambda *given: read.append(given))
    for wanted in (0, 1, -1, 2.5, 10**17 + 1, "", "1", "a", "ä", "Z", "😀"):
        conditions = {"a": {operator: wanted}, "n": {"$gt": -5, "$ne": 7}}
        fitting = sorted(key for key, value in there.items() if lets_through(conditions, value))
        assert sorted(keys(store.search((), filter=conditions, limit=100))) == fitting
        assert sorted(keys(store.search((), query="a", filter=conditions, limit=100))) == fitting
    assert read == []


def test_a_put_over_an_item_overwrites_it_in_place(store, memory):
    key = MemoryKey(scope="app/notes/alice", id="k")
    passages = []
    for value in (
        {"text": "Owls hunt at night"},
        {"text": "Owls hunt at night", "seen": 3},
        {"text": "Bees dance at noon"},
        {"text": ["Bees dance", "at noon"]},
    ):
        store.put(PLACE, "k", value)
        item = memory.items.get([key])[key]
        passages.append((item.row, [each.id for each in inside(memory).ledger.passages_of(key.scope, id="k")]))
        assert store.get(PLACE, "k").value == value
        assert memory.verify().problems == ()
    rows, ids = zip(*passages, strict=True)
    assert len(set(rows)) == 1
    assert ids[0] == ids[1]  # what is searched has not changed
    assert len({*ids[0], *ids[2], *ids[3]}) == len(ids[0]) + len(ids[2]) + len(ids[3])
    assert [hit.key for hit in store.search((), query="at noon")] == ["k"]
    found = memory.retrieve("Owls hunt at night", scope="app", include_child_scopes=True).to_dict()
    assert "Owls" not in str(found)


def test_a_search_elsewhere_knows_what_was_put_over_an_item(store, memory):
    store.put(PLACE, "k", {"text": "Owls hunt at night"})
    store.put(PLACE, "other", {"text": "Cats sleep by day"})
    assert store.search((), query="Bees dance at noon", limit=1)[0].score < 0.9
    store.batch([PutOp(PLACE, "k", {"text": "Bees dance at noon"}), PutOp(PLACE, "new", {"text": "Third"})])
    found = store.search((), query="Bees dance at noon", limit=1)[0]
    assert (found.key, found.score) == ("k", 1.0)
    store.put(PLACE, "k", {"text": "Bees dance at noon"}, index=False)
    assert "k" not in [hit.key for hit in store.search((), query="Bees dance at noon")]


def test_a_put_over_an_item_that_a_tool_has_changed_leaves_nothing_of_what_it_said(store, memory):
    store.put(PLACE, "k", {"text": "The code is 1111"})
    memory.update("k", scope="app/notes/alice", fact="The code is 2222")
    store.put(PLACE, "k", {"text": "The code is 3333"})
    assert [version.fact for version in memory.history("k", scope="app/notes/alice")] == ["The code is 3333"]
    assert store.get(PLACE, "k").value == {"text": "The code is 3333"}
    assert memory.verify().problems == ()
