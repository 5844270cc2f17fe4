"""The facts of a scope as a LangChain vector store."""

import asyncio
from datetime import UTC, datetime

import numpy as np
import pytest
from langchain_classic.retrievers import MergerRetriever, MultiVectorRetriever
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, aindex, index
from langchain_core.runnables import RunnableLambda
from langchain_core.stores import InMemoryStore
from langchain_tests.integration_tests import VectorStoreIntegrationTests

from memory_retrievers import AgentMemory
from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.langchain import MemoryVectorStore
from memory_retrievers.testing import HashEmbedder

TEXTS = ["Doors close at nine.", "Tea is served at four.", "Tea is served at five on Sundays."]
PAGES = [{"page": 1}, {"page": 2}, {"page": 3}]


class TestStandard(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self):
        with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
            yield MemoryVectorStore(memory, scope="documents")


@pytest.fixture
def memory():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        yield memory


@pytest.fixture
def store(memory):
    store = MemoryVectorStore(memory, scope="handbook")
    store.add_texts(TEXTS, PAGES, ids=["a", "b", "c"])
    return store


def ids(documents):
    return [document.id for document in documents]


def test_of_a_question_longer_than_a_query_both_ends_are_asked(store):
    question = "Doors close? " + "lorem ipsum " * 2_000 + " Tea on Sundays?"
    assert set(ids(store.similarity_search(question, k=2))) == {"a", "c"}


def test_a_document_is_a_fact_and_a_fact_a_document(store, memory):
    assert memory.get("a", scope="handbook").fact == TEXTS[0]
    memory.remember_fact(scope="handbook", id="d", fact="The cat is called Tom")
    assert ids(store.similarity_search("cat Tom", k=1)) == ["d"]
    memory.remember_episode(scope="handbook", id="e", summary="The cat came home")
    assert "e" not in ids(store.similarity_search("cat home", k=10))
    assert store.get_by_ids(["e"]) == []
    store.delete(["e", "d"])
    assert memory.get("e", scope="handbook").id == "e"


def test_a_filter_takes_metadata(store):
    assert ids(store.similarity_search("tea", k=3, filter={"page": 3})) == ["c"]
    assert ids(store.as_retriever(search_kwargs={"k": 3, "filter": {"page": 2}}).invoke("tea")) == ["b"]


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        ({"page": {"$gte": 2}}, ["b", "c"]),
        ({"page": {"$in": [1, 3]}}, ["a", "c"]),
        ({"page": {"$ne": 2}}, ["a", "c"]),
        ({"$and": [{"page": {"$gt": 1}}, {"page": {"$lt": 3}}]}, ["b"]),
        ({"$or": [{"page": 1}, {"$not": {"page": {"$lt": 3}}}]}, ["a", "c"]),
        ({"$ref": 1}, []),
        ({"$not": {"$or": [{"$not": {"$and": [{"$not": {"page": 1}}]}}]}}, ["b", "c"]),
        ({}, ["a", "b", "c"]),
    ],
)
def test_a_filter_takes_the_operators_of_other_stores(store, conditions, found):
    assert sorted(ids(store.similarity_search("tea or doors", k=3, filter=conditions))) == found


def test_a_filter_and_one_over_tags_and_times_hold_both(store):
    for conditions in ({"page": 3}, {"page": {"$gt": 2}}):
        assert ids(store.similarity_search("tea", filter=conditions, where={"time": {"gt": "2000-01-01"}})) == ["c"]
        assert store.similarity_search("tea", filter=conditions, where={"time": {"lt": "2000-01-01"}}) == []


@pytest.mark.parametrize("cleanup", ["incremental", "full"])
async def test_documents_are_indexed_as_in_other_stores(store, cleanup):
    manager = InMemoryRecordManager("handbook")
    manager.create_schema()
    documents = [Document(text, metadata={"source": f"{page}"}) for page, text in enumerate(TEXTS)]
    options = {"cleanup": cleanup, "source_id_key": "source", "key_encoder": "sha256"}
    assert index(documents, manager, store, **options)["num_added"] == 3
    changed = [Document("Doors close at ten.", metadata={"source": "0"}), *documents[1:]]
    told = await aindex(changed, manager, store, **options)
    assert told == {"num_added": 1, "num_updated": 0, "num_skipped": 2, "num_deleted": 1}
    assert "Doors close at ten." in [document.page_content for document in store.similarity_search("doors", k=10)]


def test_equal_texts_with_other_metadata_are_documents_of_their_own(store):
    parts = [Document("Contents", metadata={"parent": parent}) for parent in ("p1", "p2", "p2")]
    first, second, again = store.add_documents(parts)
    assert first != second == again
    assert store.add_documents(parts) == [first, second, second]
    assert {document.metadata["parent"] for document in store.similarity_search("Contents", k=2)} == {"p1", "p2"}
    whole = InMemoryStore()
    whole.mset([("p1", Document("One")), ("p2", Document("Two"))])
    found = MultiVectorRetriever(vectorstore=store, docstore=whole, id_key="parent").invoke("Contents")
    assert {document.page_content for document in found} == {"One", "Two"}


async def test_a_threshold_counts_asynchronously_too(store):
    retriever = store.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.2})
    assert await retriever.ainvoke("When is tea served?") == retriever.invoke("When is tea served?") != []


def test_scores_are_relevance_and_can_be_a_threshold(store):
    scored = store.similarity_search_with_relevance_scores("When is tea served?", k=3)
    assert all(0 <= score <= 1 for _, score in scored)
    best = max(score for _, score in scored)
    retriever = store.as_retriever(
        search_type="similarity_score_threshold", search_kwargs={"score_threshold": best, "k": 3}
    )
    assert ids(retriever.invoke("When is tea served?")) == [doc.id for doc, score in scored if score >= best]
    assert len(ids(retriever.invoke("When is tea served?"))) < 3


def test_a_vector_finds_by_meaning_alone_what_is_nearest(store, memory):
    memory.remember_fact(scope="elsewhere", fact="Tea is served at four.")
    memory.remember_episode(scope="handbook", summary="Tea is served at four.")
    vector = [3 * number for number in HashEmbedder().embed_query("Tea is served at four.")]
    assert ids(store.similarity_search_by_vector(vector, k=3)) == ["b", "c", "a"]
    assert ids(store.similarity_search_by_vector(vector, k=1)) == ["b"]
    assert ids(store.similarity_search_by_vector(vector, filter={"page": {"$gte": 3}})) == ["c"]
    memory.forget("b", scope="handbook")
    assert ids(store.similarity_search_by_vector(vector, k=1)) == ["c"]


@pytest.mark.parametrize(
    ("vector", "given", "error"),
    [
        ([1.0], {}, ValidationError),
        ([0.0] * 256, {}, ValidationError),
        ([float("nan")] * 256, {}, ValidationError),
        ([1e200] * 256, {"k": 0}, ValidationError),
        ([1.0] * 256, {"filter": {"page": {"$near": 1}}}, ValidationError),
        ([1.0] * 256, {"min_relevance": 0.5}, TypeError),
    ],
)
def test_a_vector_or_a_filter_that_is_none_is_refused(store, vector, given, error):
    assert len(HashEmbedder().embed_query("tea")) == 256
    with pytest.raises(error):
        store.similarity_search_by_vector(vector, **given)


def test_marginal_relevance_prefers_what_is_unlike(store, memory):
    memory.remember_fact(scope="handbook", id="twin", fact="Tea is served at four o'clock.")
    assert set(ids(store.max_marginal_relevance_search("tea served at four", k=2, lambda_mult=1.0))) == {"b", "twin"}
    assert set(ids(store.max_marginal_relevance_search("tea served at four", k=2, lambda_mult=0.0))) != {"b", "twin"}
    assert store.max_marginal_relevance_search("tea", k=0) == []
    assert len(store.as_retriever(search_type="mmr").invoke("tea")) == 4


def test_a_text_stored_again_without_an_id_keeps_the_id_it_has(store):
    assert store.add_texts([TEXTS[0]]) == ["a"]
    assert store.add_texts([TEXTS[0]], ids=["again"]) == ["again"]


def test_a_store_is_made_of_texts():
    store = MemoryVectorStore.from_texts(TEXTS, HashEmbedder(), PAGES)
    assert [document.metadata for document in store.similarity_search("doors", k=1)] == [{"page": 1}]


def test_stores_of_two_scopes_never_see_each_other(store, memory):
    other = MemoryVectorStore(memory, scope="other")
    assert other.similarity_search("tea", k=10) == other.get_by_ids(["a"]) == []
    other.delete(["a"])
    assert ids(store.get_by_ids(["a"])) == ["a"]


def test_without_a_scope_that_of_the_run_counts(memory, store):
    shared = MemoryVectorStore(memory)
    step = RunnableLambda(lambda query: shared.as_retriever().invoke(query))
    assert ids(step.invoke("doors", {"configurable": {"user_id": "handbook"}}))[0] == "a"
    with pytest.raises(ConfigurationError, match="whose memory is this"):
        shared.similarity_search("doors")


def nested(levels, inner=None):
    for _ in range(levels):
        inner = {"$and": [inner or {"page": 1}]} if not isinstance(inner, list) else [inner]
    return inner


@pytest.mark.parametrize(
    "bad",
    [
        lambda store: store.add_texts([" "]),
        lambda store: store.add_texts(["a", "b"], ids=["x"]),
        lambda store: store.add_texts(["a"], [{}, {}]),
        lambda store: store.delete(),
        lambda store: store.similarity_search("tea", filter={"page": object()}),
        lambda store: store.similarity_search("tea", filter={"page": {"$near": 1}}),
        lambda store: store.similarity_search("tea", filter={"$and": {"page": 1}}),
        lambda store: store.similarity_search("tea", filter=nested(10_000)),
        lambda store: store.similarity_search("tea", filter=nested(9)),
        lambda store: store.similarity_search("tea", filter={"$and": nested(10_000, [1])}),
        lambda store: store.similarity_search("tea", filter=lambda document: True),
    ],
)
def test_what_breaks_a_rule_is_refused_and_nothing_is_changed(store, bad):
    with pytest.raises(ValidationError):
        bad(store)
    assert sorted(ids(store.similarity_search("tea", k=10))) == ["a", "b", "c"]


def test_an_empty_question_finds_no_documents(store):
    assert (
        store.similarity_search(" ") == store.max_marginal_relevance_search("") == store.as_retriever().invoke("") == []
    )


def test_only_an_agent_memory_can_be_a_vector_store():
    with pytest.raises(ConfigurationError, match="a vector store needs an AgentMemory, not a dict"):
        MemoryVectorStore({}, scope="x")


@pytest.mark.parametrize("filter", [lambda document: True, "page", 7])
def test_a_filter_that_is_no_object_is_refused_by_its_own_name(memory, filter):
    with pytest.raises(ValidationError, match=r"^filter must be an object such as \{'page': \{'\$gte': 2\}\}, not a "):
        MemoryVectorStore(memory, scope="s").similarity_search("tea", filter=filter)


def test_what_before_store_holds_back_stores_none_of_the_texts():
    def hook(draft):
        return None if "secret" in getattr(draft, "fact", "") else draft

    with AgentMemory.in_memory(embedder=HashEmbedder(), before_store=hook) as memory:
        store = MemoryVectorStore(memory, scope="handbook")
        with pytest.raises(ValidationError, match="rejected this; nothing was stored"):
            store.add_texts(["good one", "a secret", "good three"])
        assert memory.stats("handbook").facts == 0
        assert len(store.add_texts(["good one", "good three"])) == 2


def test_a_text_is_no_list_of_ids_or_texts(memory):
    store = MemoryVectorStore(memory, scope="handbook")
    store.add_texts(["One", "Two", "Both"], ids=["a", "b", "ab"])
    for wrong in (
        lambda: store.delete("ab"),
        lambda: store.get_by_ids("ab"),
        lambda: store.add_texts("Three"),
        lambda: store.add_texts(["Three"], ids="c"),
        lambda: store.delete(3),
    ):
        with pytest.raises(ValidationError, match=r"must be a list of texts, not (str|int): write"):
            wrong()
    assert ids(store.get_by_ids(["a", "b", "ab"])) == ["a", "b", "ab"]


def test_marginal_relevance_weighs_each_against_the_nearest_of_those_before(store, memory):
    words = ("tea", "four", "nine", "doors", "sundays", "served")
    store.add_texts([f"{one} and {other}" for one in words for other in words])
    hits = memory.retrieve("tea at four", scope="handbook", episodic_limit=0, semantic_limit=25).semantic
    vectors = memory.manager.vectors_of([hit.memory for hit in hits])
    left, chosen = list(range(len(hits))), []
    while left and len(chosen) < 12:
        worth = {
            place: 0.5 * hits[place].relevance
            - 0.5 * max((vectors[place] @ vectors[each] for each in chosen), default=0)
            for place in left
        }
        chosen.append(max(left, key=worth.__getitem__))
        left.remove(chosen[-1])
    expected = [hits[place].memory.id for place in chosen]
    assert ids(store.max_marginal_relevance_search("tea at four", k=12, fetch_k=25)) == expected
    assert len(store.max_marginal_relevance_search("tea at four", k=25)) == 25


@pytest.mark.parametrize(
    "wrong",
    [
        {"k": None},
        {"k": "3"},
        {"k": -1},
        {"fetch_k": None},
        *({"lambda_mult": each} for each in (None, "x", 2, -1, float("nan"))),
    ],
    ids=str,
)
def test_arguments_of_marginal_relevance_are_checked(store, wrong):
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        store.max_marginal_relevance_search("tea", **wrong)


@pytest.mark.parametrize("value", [datetime(2026, 3, 1, tzinfo=UTC), {"a"}, b"a", np.int64(1)])
def test_metadata_that_is_no_json_is_refused_with_its_key_and_what_to_give(store, value):
    said = rf"^metadata\.when: {type(value).__name__} is not JSON: give a date as its isoformat\(\), a set as a list, a numpy"
    with pytest.raises(ValidationError, match=said):
        store.add_texts(["a"], [{"when": value}])


def test_a_retriever_of_a_store_is_told_the_scope_by_its_call(memory, store):
    shared = MemoryVectorStore(memory).as_retriever(search_kwargs={"k": 1}, tags=["handbook"])
    for config in ({"configurable": {"user_id": "handbook"}}, {"metadata": {"user_id": "handbook"}}):
        assert ids(shared.invoke("When is tea served?", config)) == ["b"]
        assert ids(asyncio.run(shared.ainvoke("When is tea served?", config))) == ["b"]
        assert [ids(found) for found in shared.batch(["tea served at four", "doors close"], config)] == [["b"], ["a"]]
    assert shared.tags == ["handbook"]
    assert shared.vectorstore.as_retriever().tags == ["MemoryVectorStore"]
    with pytest.raises(ConfigurationError, match="whose memory is this"):
        shared.invoke("tea")  # the call before has left nothing behind


def test_a_retriever_of_a_store_with_a_scope_keeps_to_it(memory, store):
    memory.remember_fact(scope="user/bo", fact="Bo drinks tea")
    assert "Bo drinks tea" not in str(store.as_retriever().invoke("tea", {"configurable": {"user_id": "user/bo"}}))
    with pytest.raises(ConfigurationError, match="make one for each scope"):
        store.similarity_search("tea", scope="user/bo")
    with pytest.raises(ConfigurationError, match="make one for each scope"):
        store.as_retriever(search_kwargs={"scope": "user/bo"}).invoke("tea")


def test_another_retriever_hands_the_scope_of_its_metadata_on_to_a_store(memory, store):
    shared = MergerRetriever(retrievers=[MemoryVectorStore(memory).as_retriever(search_kwargs={"k": 1})])
    config = {"metadata": {"user_id": "handbook"}}
    assert ids(shared.invoke("When is tea served?", config)) == ["b"]
    assert ids(asyncio.run(shared.ainvoke("When is tea served?", config))) == ["b"]
