import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

from memory_retrievers import AgentMemory, Message, RetrievalSettings
from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.langchain import MemoryRetriever
from memory_retrievers.testing import HashEmbedder

BOB = {"configurable": {"user_id": "user/bob"}}
ALICE = {"configurable": {"user_id": "user/alice"}}


@pytest.fixture
def retriever(memory):
    return MemoryRetriever(memory=memory)


def texts(documents):
    return [document.page_content for document in documents]


def test_memories_come_as_documents_best_first(memory):
    found = MemoryRetriever(memory=memory, scope="user/alice", with_scores=True).invoke("Where does Alice live?")
    assert found[0] == Document(
        id=memory.retrieve("Alice", scope="user/alice", episodic_limit=0).semantic[0].memory.id,
        page_content="Alice lives in Lyon",
        metadata=found[0].metadata,
    )
    assert found[0].metadata["kind"] == "semantic"
    scores = [document.metadata["relevance_score"] for document in found]
    assert scores == sorted(scores, reverse=True)
    assert len(found) == 3


def test_of_a_question_longer_than_a_query_both_ends_are_asked(memory):
    question = "Broken import? " + "lorem ipsum " * 2_000 + " Where does Alice live?"
    found = texts(MemoryRetriever(memory=memory, scope="user/alice", k=9).invoke(question))
    assert "Alice lives in Lyon" in found
    assert [text for text in found if "nightly import" in text]
    with pytest.raises(ValidationError, match="query must be a string"):
        MemoryRetriever(memory=memory, scope="user/alice").invoke({"query": question})


async def test_today_is_that_of_who_asks(memory):
    said = {"role": "user", "content": "We planted quinces.", "timestamp": "2026-03-01T09:00:00Z"}
    memory.add_messages("user/dora", [said])
    memory.flush("user/dora")
    retriever = MemoryRetriever(memory=memory, min_relevance="auto")

    def within_a_run(question):
        return len(retriever.invoke(question))

    question = "What did we talk about yesterday?"
    for zone, found in (("Pacific/Kiritimati", 1), (None, 0), ("UTC", 0)):  # it is 2 March there, and 1 March in UTC
        config = {"configurable": {"user_id": "user/dora", "time_zone": zone}}
        assert (len(retriever.invoke(question, config)), len(await retriever.ainvoke(question, config))) == (
            found,
            found,
        )
        assert RunnableLambda(within_a_run).invoke(question, config) == found
    with pytest.raises(ValidationError, match="Mars/Olympus"):
        retriever.invoke(question, {"configurable": {"user_id": "user/dora", "time_zone": "Mars/Olympus"}})


def test_a_score_is_relevance_which_falls_with_rank(memory):
    for number in range(6):
        memory.remember_episode(scope="user/alice", summary=f"Trip {number} to Lyon and the sea")
        memory.remember_fact(scope="user/alice", fact=f"Lyon has bridge number {number}")
    found = MemoryRetriever(memory=memory, scope="user/alice", with_scores=True, k=15).invoke("a bridge in Lyon")
    hits = memory.retrieve(
        "a bridge in Lyon", scope="user/alice", limit=15, episodic_limit=15, semantic_limit=15, record=False
    )
    relevance = {hit.memory.id: hit.relevance for hit in (*hits.semantic, *hits.episodic)}
    scores = [document.metadata["relevance_score"] for document in found]
    assert scores == [relevance[document.id] for document in found] == sorted(scores, reverse=True)
    assert {document.metadata["kind"] for document in found} == {"semantic", "episodic"}
    assert [hit.score for hit in hits.semantic] != [hit.relevance for hit in hits.semantic]


def test_what_is_of_less_relevance_is_left_out(memory):
    found = MemoryRetriever(memory=memory, scope="user/alice", with_scores=True).invoke("Where does Alice live?")
    best, *_, last = [document.metadata["relevance_score"] for document in found]
    assert best > last
    least = MemoryRetriever(memory=memory, scope="user/alice", min_relevance=best)
    assert texts(least.invoke("Where does Alice live?")) == [
        "Alice lives in Lyon",
        "Answer in metric units",
    ]  # a guideline stays
    with pytest.raises(ValidationError, match="min_relevance must be a number from 0 to 1, or 'auto'"):
        MemoryRetriever(memory=memory, scope="user/alice", min_relevance=2)


def test_where_ranks_are_fused_a_score_is_the_specified_one():
    with AgentMemory.in_memory(embedder=HashEmbedder(), retrieval=RetrievalSettings.reference()) as memory:
        memory.remember_fact(scope="a", fact="Lyon has many bridges")
        memory.remember_episode(scope="a", summary="A walk in Lyon")
        found = MemoryRetriever(memory=memory, scope="a", with_scores=True).invoke("Lyon")
        hits = memory.retrieve("Lyon", scope="a", record=False)
    specified = {hit.memory.id: hit.score for hit in (*hits.semantic, *hits.episodic)}
    assert {document.id: document.metadata["relevance_score"] for document in found} == specified


@pytest.mark.parametrize("detail", ["low", "excerpts"])
def test_where_a_text_is_of_the_question_id_and_metadata_are_the_memorys(memory, detail):
    said = [Message(role="user", content=text) for text in ("The garden needs rain.", "My boat needs paint.")]
    memory.remember_episode(scope="user/alice", title="Chores", summary="What is to be done.", messages=said)
    retriever = MemoryRetriever(memory=memory, scope="user/alice", detail=detail, k=10)
    first, second = (
        {document.id: document.metadata for document in retriever.invoke(question)}
        for question in ("Does the garden need rain?", "What does my boat need?")
    )
    assert first.keys() & second.keys()
    assert all(first[each] == second[each] for each in first.keys() & second.keys())


def test_detail_brings_the_messages_of_an_episode_along(memory):
    shown = {
        detail: "It died again." in "".join(texts(MemoryRetriever(
            memory=memory, scope="user/alice", detail=detail).invoke("nightly import")))
        for detail in ("auto", "none", "HIGH")
    }  # fmt: skip
    assert shown == {"auto": True, "none": False, "HIGH": True}


def test_a_category_filters_the_facts(memory):
    found = MemoryRetriever(memory=memory, scope="user/alice", category="guideline").invoke("Lyon")
    assert {document.metadata.get("category") for document in found} == {"guideline", None}


def test_child_scopes_are_included_on_request(memory):
    found = MemoryRetriever(memory=memory, scope="user", include_child_scopes=True, k=10).invoke("lives")
    assert {document.metadata["scope"] for document in found} == {"user/alice", "user/bob"}
    assert MemoryRetriever(memory=memory, scope="user").invoke("lives") == []


def test_tags_metadata_and_times_filter_the_documents(memory):
    memory.remember_fact(scope="user/alice", fact="Alice moved to Lyon", tags=["city"], metadata={"sure": True})
    one = MemoryRetriever(memory=memory, scope="user/alice", memory_tags=["city"], memory_metadata={"sure": True})
    assert texts(one.invoke("Lyon")) == ["Alice moved to Lyon"]
    assert MemoryRetriever(memory=memory, scope="user/alice", until="2020-01-01").invoke("Lyon") == []
    assert len(MemoryRetriever(memory=memory, scope="user/alice", since="2020-01-01").invoke("Lyon")) == 4


def test_a_filter_with_operators_filters_the_documents(memory):
    for number in range(4):
        memory.remember_fact(scope="user/alice", fact=f"Lyon has {number} bridges", metadata={"bridges": number})
    where = {"or": [{"metadata.bridges": {"gte": 3}}, {"metadata.bridges": 0}]}
    found = MemoryRetriever(memory=memory, scope="user/alice", where=where, k=9).invoke("Lyon")
    assert sorted(texts(found)) == ["Lyon has 0 bridges", "Lyon has 3 bridges"]
    with pytest.raises(ValidationError, match=r"where\.owner is not a field"):
        MemoryRetriever(memory=memory, scope="user/alice", where={"owner": "bob"})


def test_k_of_a_call_wins_over_k_of_the_retriever(memory):
    retriever = MemoryRetriever(memory=memory, scope="user/alice", k=1)
    assert len(retriever.invoke("Lyon")) == 1
    assert len(retriever.invoke("Lyon", None, k=3)) == 3
    assert len(retriever.bind(k=2).invoke("Lyon")) == 2
    for wrong in (0, "3", 2.5):
        with pytest.raises(ValidationError, match="k must be an integer of at least 1"):
            retriever.invoke("Lyon", k=wrong)


async def test_an_empty_question_finds_nothing_and_ends_no_chain(memory):
    retriever = MemoryRetriever(memory=memory, scope="user/alice")
    for empty in ("", " \n"):
        assert retriever.invoke(empty) == await retriever.ainvoke(empty) == []
    assert (RunnableLambda(lambda _: "") | retriever | len).invoke("Where is she?") == 0
    with pytest.raises(ValidationError, match="query must be a string, not NoneType"):
        retriever.invoke(None)


@pytest.mark.parametrize("unknown", [{"top_k": 3}, {"scope": "user/bob"}, {"filter": {}}])
async def test_an_unknown_keyword_of_a_call_raises(memory, unknown):
    retriever = MemoryRetriever(memory=memory, scope="user/alice")
    with pytest.raises(TypeError, match=next(iter(unknown))):
        retriever.invoke("Lyon", None, **unknown)
    with pytest.raises(TypeError, match=next(iter(unknown))):
        await retriever.ainvoke("Lyon", None, **unknown)


class OfTheirs(MemoryRetriever):
    """One with an option of its own, as LangChain's base class passes it on."""

    def _get_relevant_documents(self, query, *, run_manager, extra=None, **options):
        return super()._get_relevant_documents(f"{query} {extra}", run_manager=run_manager, **options)


async def test_a_retriever_made_of_ours_may_have_options_of_its_own(memory):
    theirs = OfTheirs(memory=memory, scope="user/alice")
    assert theirs.invoke("Lyon", extra="boat")
    assert await theirs.bind(extra="boat").ainvoke("Lyon")


@pytest.mark.parametrize("mistake", [{"k": 0}, {"top_k": 3}, {"detail": "loud"}, {"category": "my hobby"}])
def test_a_mistake_in_the_constructor_raises(memory, mistake):
    with pytest.raises(ValidationError, match=next(iter(mistake))):
        MemoryRetriever(memory=memory, scope="user/alice", **mistake)


def test_an_option_of_other_retrievers_is_answered_with_those_of_this_one(memory):
    with pytest.raises(ValidationError, match=r"^search_kwargs: Extra.*; MemoryRetriever takes .*\bk\b"):
        MemoryRetriever(memory=memory, scope="user/alice", search_kwargs={"k": 3})


def test_the_configuration_names_the_scope_in_every_way_of_calling(retriever):
    expected = ["Bob lives in Bergen"]
    assert texts(retriever.invoke("Who lives where?", BOB)) == expected
    assert [texts(found) for found in retriever.batch(["Who?", "Where?"], BOB)] == [expected, expected]
    assert [texts(found) for found in retriever.stream("Who lives where?", BOB)] == [expected]
    assert texts(retriever.with_config(BOB).invoke("Who lives where?")) == expected


async def test_the_configuration_names_the_scope_in_every_asynchronous_way_of_calling(retriever):
    expected = ["Bob lives in Bergen"]
    assert texts(await retriever.ainvoke("Who lives where?", BOB)) == expected
    assert [texts(found) for found in await retriever.abatch(["Who?", "Where?"], BOB)] == [expected, expected]
    assert [texts(found) async for found in retriever.astream("Who lives where?", BOB)] == [expected]


def test_each_call_of_a_batch_has_its_own_scope(retriever):
    alice, bob = retriever.batch(["Who lives where?"] * 2, [ALICE, BOB], k=1)
    assert (texts(alice), texts(bob)) == (["Alice lives in Lyon"], ["Bob lives in Bergen"])


async def test_calls_at_the_same_time_keep_their_scopes_apart(retriever):
    results = await retriever.abatch(["Who lives where?"] * 20, [ALICE, BOB] * 10, k=1)
    assert [texts(found) for found in results] == [["Alice lives in Lyon"], ["Bob lives in Bergen"]] * 10


def test_without_a_scope_nothing_is_searched(retriever):
    with pytest.raises(ConfigurationError, match="whose memory is this"):
        retriever.invoke("Who lives where?", {"configurable": {"thread_id": "t1"}})


def _chain(retriever):
    prompt = ChatPromptTemplate.from_template("{context}\n\n{question}")
    answer = RunnableLambda(lambda value: value.to_string())
    context = retriever | RunnableLambda(lambda found: "\n".join(texts(found)))
    return {"context": context, "question": RunnablePassthrough()} | prompt | answer


def test_a_chain_hands_the_configuration_down(retriever):
    assert _chain(retriever).invoke("Who?", BOB) == "Human: Bob lives in Bergen\n\nWho?"


async def test_an_asynchronous_chain_hands_the_configuration_down(retriever):
    assert await _chain(retriever).ainvoke("Who?", BOB) == "Human: Bob lives in Bergen\n\nWho?"
    assert [part async for part in _chain(retriever).astream("Who?", BOB)] == ["Human: Bob lives in Bergen\n\nWho?"]


def test_other_retrievers_can_call_it_from_within(retriever):
    class Wrapper(BaseRetriever):
        inner: BaseRetriever

        def _get_relevant_documents(self, query, *, run_manager):
            return self.inner._get_relevant_documents(query, run_manager=run_manager)

    chain = RunnableLambda(lambda question: question) | Wrapper(inner=retriever)
    assert texts(chain.invoke("Who?", BOB)) == ["Bob lives in Bergen"]


class _Recorder(BaseCallbackHandler):
    def __init__(self):
        self.starts, self.ends, self.errors = [], [], []

    def on_retriever_start(self, serialized, query, **kwargs):
        self.starts.append((query, kwargs["metadata"]))

    def on_retriever_end(self, documents, **kwargs):
        self.ends.append(texts(documents))

    def on_retriever_error(self, error, **kwargs):
        self.errors.append(error)


def test_callbacks_hear_of_a_call_and_traces_do_not_hear_whose_memory_it_was(retriever):
    recorder = _Recorder()
    retriever.invoke("Who?", {**BOB, "callbacks": [recorder]})
    ((query, metadata),) = recorder.starts
    assert query == "Who?"
    assert metadata["ls_retriever_name"] == "memory"
    assert metadata["ls_vector_store_provider"] == "memory_retrievers"
    assert "scope" not in metadata
    assert recorder.ends == [["Bob lives in Bergen"]]


def test_callbacks_hear_of_a_failure(retriever):
    recorder = _Recorder()
    with pytest.raises(ValidationError) as caught:
        retriever.invoke("Lyon", {**BOB, "callbacks": [recorder]}, k=0)
    assert recorder.errors == [caught.value]


def test_documents_are_fresh_copies(retriever):
    retriever.invoke("Who?", BOB)[0].metadata["scope"] = "changed"
    assert retriever.invoke("Who?", BOB)[0].metadata["scope"] == "user/bob"


def test_the_live_memory_is_neither_shown_nor_dumped(memory):
    retriever = MemoryRetriever(memory=memory, scope="user/alice")
    assert "AgentMemory" not in repr(retriever)
    assert "memory" not in retriever.model_dump()
    assert retriever.model_copy(update={"k": 1}).memory is memory


def test_no_memory_no_retriever():
    with pytest.raises(ValidationError, match="memory"):
        MemoryRetriever(scope="user/alice")
