import asyncio
import copy
from contextvars import ContextVar

import numpy as np
import pytest
from blockbuster import BlockingError
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager, LlamaDebugHandler
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle

from memory_retrievers import AgentMemory, RetrievalSettings
from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.llama_index import ConversationMemory, LongTermMemoryBlock, MemoryRetriever, MemoryToolSpec
from memory_retrievers.testing import HashEmbedder


@pytest.fixture
def retriever(memory):
    return MemoryRetriever(memory, scope="user/alice")


def texts(nodes):
    return [node.get_content(metadata_mode=MetadataMode.NONE) for node in nodes]


def test_it_is_a_retriever():
    assert BaseRetriever.__name__ in [base.__name__ for base in MemoryRetriever.__mro__]


def test_memories_come_as_nodes_best_first(memory, retriever):
    nodes = retriever.retrieve("Where does Alice live?")
    expected = memory.retrieve("Where does Alice live?", scope="user/alice", record=False)
    assert all(isinstance(node, NodeWithScore) for node in nodes)
    assert texts(nodes)[0] == "Alice lives in Lyon"
    assert nodes[0].node_id == expected.semantic[0].memory.id
    assert nodes[0].score == expected.semantic[0].relevance
    assert [node.score for node in nodes] == sorted((node.score for node in nodes), reverse=True)
    assert len(nodes) == 3


def test_of_a_question_longer_than_a_query_both_ends_are_asked(retriever):
    found = texts(retriever.retrieve("Broken import? " + "lorem ipsum " * 2_000 + " Where does Alice live?"))
    assert "Alice lives in Lyon" in found
    assert [text for text in found if "nightly import" in text]


def test_what_is_of_less_relevance_is_left_out(memory, retriever):
    best, *_, last = [node.score for node in retriever.retrieve("Where does Alice live?")]
    assert best > last
    least = MemoryRetriever(memory, scope="user/alice", min_relevance=best)
    assert texts(least.retrieve("Where does Alice live?")) == [
        "Alice lives in Lyon",
        "Answer in metric units",
    ]  # a guideline stays
    assert MemoryRetriever(memory, scope="user/alice", min_relevance=np.float32(0.5)).retrieve("Where does Alice live?")
    for wrong in (2, -0.1, 10**400, float("nan")):
        with pytest.raises(ValidationError, match="min_relevance must be a number from 0 to 1, or 'auto'"):
            MemoryRetriever(memory, scope="user/alice", min_relevance=wrong)


async def test_asynchronously_it_finds_the_same(retriever):
    assert await retriever.aretrieve("Lyon") == retriever.retrieve("Lyon")


@pytest.mark.parametrize(("detail", "told"), [("auto", True), ("none", False), ("HIGH", True)])
def test_detail_brings_the_messages_of_an_episode_along(memory, detail, told):
    nodes = MemoryRetriever(memory, scope="user/alice", detail=detail).retrieve("nightly import")
    assert ('- user: "It died again."' in "\n".join(texts(nodes))) is told


def test_a_node_has_the_relevance_of_its_hit_and_falls_with_rank(memory, retriever):
    asked = "Where does Alice live?"
    found = memory.retrieve(asked, scope="user/alice", record=False)
    nodes = retriever.retrieve(asked)
    assert {node.node_id: node.score for node in nodes} == {
        hit.memory.id: hit.relevance for hit in (*found.semantic, *found.episodic)
    }
    scores = [node.score for node in nodes]
    assert scores == sorted(scores, reverse=True)
    cut = SimilarityPostprocessor(similarity_cutoff=scores[0]).postprocess_nodes(nodes)
    assert texts(cut) == ["Alice lives in Lyon"]


def test_under_the_specification_a_node_has_the_specified_score(clock):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, retrieval=RetrievalSettings.reference()) as memory:
        memory.remember_fact(scope="user/alice", fact="Alice lives in Lyon")
        memory.remember_fact(scope="user/alice", fact="Alice likes tea")
        hits = memory.retrieve("Where does Alice live?", scope="user/alice").semantic
        nodes = MemoryRetriever(memory, scope="user/alice").retrieve("Where does Alice live?")
        assert [node.score for node in nodes] == [hit.score for hit in hits]


def test_a_memory_is_the_same_node_whatever_question_found_it(retriever):
    one, other = retriever.retrieve("Where does Alice live?"), retriever.retrieve("the nightly import in Lyon")
    hashes = {node.node_id: node.node.hash for node in one}
    assert len(hashes) == 3
    assert {node.node_id: node.node.hash for node in other} == hashes
    assert {node.node_id: node.node for node in other} == {node.node_id: node.node for node in one}


@pytest.mark.parametrize("mode", ["reciprocal_rerank", "relative_score", "dist_based_score", "simple"])
async def test_what_several_questions_found_is_fused_to_one_node_each(retriever, mode):
    asks = MockLLM()
    fusion = QueryFusionRetriever(
        [retriever, retriever], llm=asks, mode=mode, num_queries=1, similarity_top_k=9, use_async=False
    )
    nodes = fusion.retrieve("Where does Alice live?")
    assert len(nodes) == len({node.node_id for node in nodes}) == 3
    assert [node.score for node in nodes] == sorted((node.score for node in nodes), reverse=True)
    if mode == "reciprocal_rerank":
        assert [node.score for node in nodes] == pytest.approx([2 / 60, 2 / 61, 2 / 62])
    assert [node.node_id for node in await fusion.aretrieve("Where does Alice live?")] == [
        node.node_id for node in nodes
    ]


def test_copies_share_the_memory(retriever):
    copied = copy.deepcopy(retriever)
    assert copied.retrieve("Where does Alice live?") == retriever.retrieve("Where does Alice live?")


def test_scope_and_on_request_scores_are_in_the_metadata_but_in_no_prompt_and_no_embedding(memory):
    retriever = MemoryRetriever(memory, scope="user/alice", with_scores=True)
    node = retriever.retrieve("Where does Alice live?")[0].node
    assert {"scope", "relevance_score", "fused_score", "retrievability", "dense_rank", "bm25_rank"} <= set(
        node.metadata
    )
    assert node.get_content(metadata_mode=MetadataMode.LLM) == (
        "source: crm\npage: 3\nkind: semantic\ncategory: identity\ncreated_at: 2026-03-01T12:00:00Z\n\n"
        "Alice lives in Lyon"
    )
    assert node.get_content(metadata_mode=MetadataMode.EMBED) == "Alice lives in Lyon"


def test_a_title_is_in_the_text_and_not_told_twice(retriever):
    node = retriever.retrieve("nightly import")[0].node
    assert node.metadata["title"] == "Broken import"
    assert node.get_content(metadata_mode=MetadataMode.LLM).count("Broken import") == 1


def test_nodes_are_fresh_for_every_call(retriever):
    first = retriever.retrieve("Lyon")
    first[0].score = 99
    first[0].node.metadata["scope"] = "changed"
    first[0].node.set_content("changed")
    second = retriever.retrieve("Lyon")
    assert second[0].score <= 1
    assert second[0].metadata["scope"] == "user/alice"
    assert "changed" not in texts(second)


@pytest.mark.parametrize("k", [1, 2, 3, 50])
def test_k_counts_both_kinds_together(memory, k):
    assert len(MemoryRetriever(memory, scope="user/alice", k=k).retrieve("Lyon")) == min(k, 3)


def test_a_category_filters_the_facts(memory):
    nodes = MemoryRetriever(memory, scope="user/alice", category="guideline").retrieve("Lyon")
    assert {node.metadata.get("category") for node in nodes} == {"guideline", None}


def test_child_scopes_are_included_on_request(memory):
    nodes = MemoryRetriever(memory, scope="user", include_child_scopes=True, k=10).retrieve("lives")
    assert {node.metadata["scope"] for node in nodes} == {"user/alice", "user/bob"}


def test_tags_metadata_and_times_filter_the_nodes(memory):
    memory.remember_fact(scope="user/alice", fact="Alice moved to Lyon", tags=["city"], metadata={"sure": True})
    one = MemoryRetriever(memory, scope="user/alice", tags=["city"], metadata={"sure": True})
    assert [node.text for node in one.retrieve("Lyon")] == ["Alice moved to Lyon"]
    assert MemoryRetriever(memory, scope="user/alice", until="2020-01-01").retrieve("Lyon") == []
    with pytest.raises(ValidationError, match="until is before since"):
        MemoryRetriever(memory, scope="user/alice", since="2020-01-02", until="2020-01-01")


def test_one_tag_in_place_of_a_list_is_refused_and_an_iterator_of_them_is_read_once(memory):
    memory.remember_fact(scope="user/alice", fact="Alice moved to Lyon", tags=["city"])
    with pytest.raises(ValidationError, match=r"write tags=\['work'\]"):
        MemoryRetriever(memory, scope="user/alice", tags="city")
    one = MemoryRetriever(memory, scope="user/alice", tags=iter(["city"]))
    assert [[node.text for node in one.retrieve("Lyon")] for _ in "ab"] == [["Alice moved to Lyon"]] * 2


def test_a_filter_with_operators_filters_the_nodes(memory):
    for number in range(4):
        memory.remember_fact(scope="user/alice", fact=f"Lyon has {number} bridges", metadata={"bridges": number})
    where = {"not": {"metadata.bridges": {"in": [1, 2]}}, "metadata.bridges": {"gte": 0}}
    nodes = MemoryRetriever(memory, scope="user/alice", where=where, k=9).retrieve("Lyon")
    assert sorted(node.text for node in nodes) == ["Lyon has 0 bridges", "Lyon has 3 bridges"]
    with pytest.raises(ValidationError, match=r"where\.owner is not a field"):
        MemoryRetriever(memory, scope="user/alice", where={"owner": "bob"})


def test_an_empty_memory_gives_no_nodes(memory):
    assert MemoryRetriever(memory, scope="nobody").retrieve("Lyon") == []


async def test_an_empty_question_finds_no_nodes(retriever):
    for empty in ("", " \n"):
        assert retriever.retrieve(empty) == await retriever.aretrieve(empty) == []


def test_the_embedding_of_a_query_is_ignored(retriever):
    with_embedding = QueryBundle("Where does Alice live?", embedding=[1.0, 2.0])
    assert retriever.retrieve(with_embedding) == retriever.retrieve("Where does Alice live?")


def test_a_function_is_asked_for_the_scope_at_each_call(memory):
    users = iter(["user/bob", "user/alice"])
    retriever = MemoryRetriever(memory, scope=lambda: next(users), k=1)
    assert texts(retriever.retrieve("Who lives where?")) == ["Bob lives in Bergen"]
    assert texts(retriever.retrieve("Who lives where?")) == ["Alice lives in Lyon"]


async def test_a_context_variable_keeps_the_scopes_of_simultaneous_calls_apart(memory):
    user = ContextVar("user")
    retriever = MemoryRetriever(memory, scope=user.get, k=1)

    async def ask(name):
        user.set(name)
        return texts(await retriever.aretrieve("Who lives where?"))

    answers = await asyncio.gather(*(ask(name) for name in ["user/alice", "user/bob"] * 10))
    assert answers == [["Alice lives in Lyon"], ["Bob lives in Bergen"]] * 10


def test_a_function_is_asked_for_the_time_zone_at_each_call(memory):
    said = {"role": "user", "content": "We planted quinces.", "timestamp": "2026-03-01T09:00:00Z"}
    memory.add_messages("user/dora", [said])
    memory.flush("user/dora")
    zones = iter(["Pacific/Kiritimati", None, "Pacific/Kiritimati"])  # it is 2 March there, and 1 March in UTC
    retriever = MemoryRetriever(memory, scope="user/dora", min_relevance="auto", time_zone=lambda: next(zones))
    found = [retriever.retrieve("What did we talk about yesterday?") for _ in range(3)]
    assert [bool(nodes) for nodes in found] == [True, False, True]


@pytest.mark.parametrize("scope", ["", "user/", None, 42])
def test_a_malformed_scope_is_refused_when_the_retriever_is_made(memory, scope):
    with pytest.raises(ValidationError, match="scope"):
        MemoryRetriever(memory, scope=scope)


def test_a_malformed_scope_from_a_function_is_refused_when_it_is_used(memory):
    with pytest.raises(ValidationError, match="scope must not be empty"):
        MemoryRetriever(memory, scope=lambda: "").retrieve("Lyon")


def test_a_context_variable_that_is_not_set_is_named_when_it_is_asked_for_the_scope(memory):
    retriever = MemoryRetriever(memory, scope=ContextVar("who").get)
    with pytest.raises(ConfigurationError, match=r"name='who'.* which names the scope, is not set: set it before"):
        retriever.retrieve("Lyon")
    with pytest.raises(KeyError, match="who"):
        MemoryRetriever(memory, scope=lambda: {}["who"]).retrieve("Lyon")


@pytest.mark.parametrize(
    ("mistake", "message"),
    [({"detail": "loud"}, "unknown detail"), ({"category": "no word"}, "unknown category"), ({"k": 0}, "at least 1")],
)
def test_a_mistake_is_named_when_the_retriever_is_made(memory, mistake, message):
    with pytest.raises(ValidationError, match=message):
        MemoryRetriever(memory, scope="user/alice", **mistake)


def test_a_category_that_the_memory_does_not_have_is_named(memory):
    with pytest.raises(ValidationError, match="unknown category"):
        MemoryRetriever(memory, scope="user/alice", category="hobby").retrieve("Lyon")


def test_scopes_of_like_names_stay_apart(memory):
    for scope in ("user/1", "user/10", "user/1/work", "User/1"):
        memory.remember_fact(scope=scope, id="same", fact=f"The code of {scope}")
        memory.remember_episode(scope=scope, id="story", summary=f"The code of {scope} was changed")
    for scope in ("user/1", "user/10", "user/1/work", "User/1"):
        nodes = MemoryRetriever(memory, scope=scope, k=50).retrieve("The code of user/1 and user/10")
        assert {node.metadata["scope"] for node in nodes} == {scope}
        assert sorted(texts(nodes)) == [f"The code of {scope}", f"The code of {scope} was changed"]


def test_callbacks_hear_of_a_call(memory):
    handler = LlamaDebugHandler(print_trace_on_end=False)
    retriever = MemoryRetriever(memory, scope="user/bob", callback_manager=CallbackManager([handler]))
    retriever.retrieve("Who?")
    assert [event.event_type.value for event in handler.get_events()] == ["retrieve", "retrieve"]


def test_a_query_engine_answers_from_memory(retriever):
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
    response = engine.query("Where does Alice live?")
    assert "Alice lives in Lyon" in str(response)
    assert "relevance_score" not in str(response)
    assert len(response.source_nodes) == 3


async def test_a_query_engine_answers_from_memory_asynchronously(retriever):
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
    assert "Alice lives in Lyon" in str(await engine.aquery("Where does Alice live?"))


async def test_the_guard_notices_a_retrieval_on_the_event_loop(retriever, no_blocking):
    with pytest.raises(BlockingError):
        retriever.retrieve("Lyon")


async def test_it_does_not_block_the_event_loop(retriever, no_blocking):
    assert len(await retriever.aretrieve("Lyon")) == 3


@pytest.mark.parametrize("slip", ["./agent-memory", AgentMemory])
@pytest.mark.parametrize(
    "make",
    [
        lambda slip: MemoryRetriever(slip, scope="user/alice"),
        lambda slip: MemoryToolSpec(slip, scope="user/alice"),
        lambda slip: LongTermMemoryBlock(memory=slip, scope="user/alice"),
        lambda slip: ConversationMemory.from_defaults(slip, scope="user/alice"),
    ],
)
def test_what_is_no_memory_is_refused_when_an_object_is_made_of_it(make, slip):
    with pytest.raises(TypeError, match=r"^memory must be what AgentMemory.open\(...\) returns, not a"):
        make(slip)


def test_an_unknown_option_is_refused_when_the_retriever_is_made(memory):
    expected = "unexpected keyword argument 'tag'; the arguments of MemoryRetriever are memory, scope, k, .*, until, wh"
    with pytest.raises(TypeError, match=expected):
        MemoryRetriever(memory, scope="user/alice", tag="work")
