"""The store against LangGraph's own ``InMemoryStore``: the same answers to any sequence of operations."""

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from memory_retrievers import AgentMemory
from memory_retrievers.langchain import MemoryStoreAdapter
from memory_retrievers.testing import FixedClock, HashEmbedder

LABELS = st.sampled_from(["a", "b", "ü", "x.y", "1/2", "%", "."])
NAMESPACES = st.lists(LABELS, max_size=3).map(tuple)
KEYS = st.sampled_from(["k1", "k2", "K1", " k1"])
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=5,
)
VALUES = st.fixed_dictionaries(
    {"n": st.integers(0, 3)}, optional={"text": st.text(), "kind": st.sampled_from(["tea", "coffee"]), "any": JSON}
)
FILTERS = st.none() | st.sampled_from(
    [
        *({"n": 1}, {"n": {"$gte": 1}}, {"n": {"$gt": 1, "$lt": 3}}, {"n": {"$lte": 1}}, {"n": {"$ne": 2}}),
        *({"kind": "tea"}, {"kind": {"$eq": "tea"}}, {"kind": {"$ne": "tea"}, "n": 0}),
    ]
)
INDEXES = st.sampled_from([None, False, ["text"], ["any", "kind"]])

OPERATIONS = st.one_of(
    st.builds(PutOp, NAMESPACES, KEYS, VALUES, INDEXES, st.none()),
    st.builds(PutOp, NAMESPACES, KEYS, st.none(), st.none(), st.none()),
    st.builds(GetOp, NAMESPACES, KEYS),
    st.builds(SearchOp, NAMESPACES, FILTERS, st.just(1_000), st.just(0), st.none()),
)


def comparable(result):
    """Items without their times, and searches without their order, which the two choose differently."""
    if isinstance(result, list):
        return sorted((each.namespace, each.key, repr(each.value)) for each in result)
    return (result.namespace, result.key, result.value) if isinstance(result, Item) else result


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(OPERATIONS, min_size=1, max_size=4), max_size=8))
def test_any_batches_are_answered_as_by_the_in_memory_store(batches):
    clock = FixedClock(datetime(2026, 3, 1, tzinfo=UTC))
    oracle = InMemoryStore()
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        store = MemoryStoreAdapter(memory, scope="app/store", fields=["text"])
        for batch in batches:
            clock.advance(seconds=1)
            assert list(map(comparable, store.batch(batch))) == list(map(comparable, oracle.batch(batch)))
        everything = SearchOp((), None, 1_000)
        assert list(map(comparable, store.batch([everything]))) == list(map(comparable, oracle.batch([everything])))
        assert memory.verify().problems == ()


@settings(max_examples=40, deadline=None)
@given(
    filled=st.lists(NAMESPACES, max_size=8),
    conditions=st.lists(
        st.builds(
            MatchCondition,
            st.sampled_from(["prefix", "suffix"]),
            st.lists(LABELS | st.just("*"), max_size=3).map(tuple),
        ),
        max_size=2,
    ),
    max_depth=st.none() | st.integers(1, 3),
    offset=st.integers(0, 2),
    limit=st.integers(0, 5),
)
def test_namespaces_are_listed_as_by_the_in_memory_store(filled, conditions, max_depth, offset, limit):
    oracle = InMemoryStore()
    op = ListNamespacesOp(match_conditions=tuple(conditions), max_depth=max_depth, limit=limit, offset=offset)
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        store = MemoryStoreAdapter(memory, scope="app")
        for each in (store, oracle):
            each.batch([PutOp(namespace, "k", {"n": 1}) for namespace in filled])
        assert store.batch([op]) == oracle.batch([op])
