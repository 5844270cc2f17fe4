"""The framework's own retrievers and chains around ours: each finds every memory once, and that of its run alone."""

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_classic.chains import ConversationalRetrievalChain, RetrievalQA, RetrievalQAWithSourcesChain
from langchain_classic.retrievers import (
    ContextualCompressionRetriever,
    EnsembleRetriever,
    MergerRetriever,
    MultiQueryRetriever,
    RePhraseQueryRetriever,
)
from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.load import dumps
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_text_splitters import CharacterTextSplitter
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from memory_retrievers import AgentMemory
from memory_retrievers.errors import ConfigurationError
from memory_retrievers.langchain import MemoryRetriever
from memory_retrievers.testing import HashEmbedder

QUESTION = "Who lives where?"
TWO_QUESTIONS = "Who lives in Lyon?\nWhat happened in Lyon?"


def saying(text):
    return FakeListChatModel(responses=[text])


class State(TypedDict, total=False):
    question: str
    documents: list


def graph(retriever):
    """A LangGraph node that calls a wrapper without handing a configuration on."""
    inner = multi_query(retriever)

    def look(state):
        return {"documents": inner.invoke(state["question"])}

    async def alook(state):
        return {"documents": await inner.ainvoke(state["question"])}

    built = StateGraph(State)
    built.add_node("look", RunnableLambda(look, alook))
    built.add_edge(START, "look")
    return (
        RunnableLambda(lambda question: {"question": question}) | built.compile() | (lambda state: state["documents"])
    )


def multi_query(retriever):
    return MultiQueryRetriever.from_llm(retriever=retriever, llm=saying(TWO_QUESTIONS))


def answers(chain, key):
    """A classic chain, of which only the documents are of interest."""
    return (
        RunnableLambda(lambda question: {key: question, "chat_history": []})
        | chain
        | (lambda answer: answer["source_documents"])
    )


def classic(chain, **options):
    return lambda retriever: chain(llm=saying("x"), retriever=retriever, return_source_documents=True, **options)


RETRIEVERS = {
    "multi_query": multi_query,
    "compression": lambda retriever: ContextualCompressionRetriever(
        base_retriever=retriever,
        base_compressor=DocumentCompressorPipeline(transformers=[CharacterTextSplitter()]),
    ),
    "merger": lambda retriever: MergerRetriever(retrievers=[retriever]),
    "rephrase": lambda retriever: RePhraseQueryRetriever.from_llm(retriever=retriever, llm=saying(QUESTION)),
    "ensemble": lambda retriever: EnsembleRetriever(retrievers=[retriever, retriever]),
}
CHAINS = {
    "retrieval_qa": (classic(RetrievalQA.from_llm), "query"),
    "with_sources": (classic(RetrievalQAWithSourcesChain.from_chain_type), "question"),
    "conversational": (classic(ConversationalRetrievalChain.from_llm), "question"),
}
WITHIN_A_RUN = {
    "parallel": lambda retriever: RunnableParallel(a=retriever, b=retriever) | (lambda found: found["a"] + found["b"]),
    "node": graph,
    **{name: lambda retriever, make=make: RunnablePassthrough() | make(retriever) for name, make in RETRIEVERS.items()},
    **{
        name: lambda retriever, make=make, key=key: answers(make(retriever), key)
        for name, (make, key) in CHAINS.items()
    },
}


ONLY_SYNCHRONOUS = {"rephrase"}
"""LangChain has no asynchronous form of these."""


def both_ways(names):
    return [(name, way) for name in names for way in (False, True) if not (way and name in ONLY_SYNCHRONOUS)]


@pytest.fixture
def crowd():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        for user in ("alice", "bob"):
            for number in range(3):
                memory.remember_fact(scope=f"user/{user}", id=f"{number}", fact=f"{user} lives in Lyon {number}")
        yield memory


def texts(documents):
    return [document.page_content for document in documents]


# --- equal memories are equal documents


@pytest.mark.parametrize("name", ["multi_query", "ensemble"])
def test_a_memory_that_two_questions_find_is_one_document(memory, name):
    retriever = MemoryRetriever(memory=memory, scope="user/alice", k=10)
    found = RETRIEVERS[name](retriever).invoke(QUESTION)
    assert sorted(texts(found)) == sorted(texts(retriever.invoke(QUESTION)))
    assert len({dumps(document) for document in found}) == len({document.id for document in found}) == len(found) == 3


def test_a_fusion_by_dumps_adds_up_what_each_question_gave(memory):
    retriever = MemoryRetriever(memory=memory, scope="user/alice", k=10)
    fused = {}
    for question in TWO_QUESTIONS.splitlines():
        for rank, document in enumerate(retriever.invoke(question)):
            fused[dumps(document)] = fused.get(dumps(document), 0) + 1 / (60 + rank)
    assert len(fused) == 3
    assert min(fused.values()) > 1 / 60


def test_an_ensemble_gives_what_both_found_first(memory):
    memory.remember_fact(scope="user/alice", fact="Tea in Lyon", tags=["tea"], category="preference")
    tea = MemoryRetriever(memory=memory, scope="user/alice", k=10, memory_tags=["tea"])
    everything = MemoryRetriever(memory=memory, scope="user/alice", k=10)
    found = EnsembleRetriever(retrievers=[everything, tea]).invoke("What happened in Lyon?")
    assert texts(found)[0] == "Tea in Lyon"
    assert len(found) == 4


def test_a_chain_with_sources_names_them(memory):
    chain = RetrievalQAWithSourcesChain.from_chain_type(
        llm=saying("Lyon.\nSOURCES: memory://user/bob#1"), retriever=MemoryRetriever(memory=memory, scope="user/bob")
    )
    assert chain.invoke({"question": QUESTION})["sources"] == "memory://user/bob#1"


# --- scopes


def by_metadata(user):
    return {"metadata": {"user_id": f"user/{user}"}}


def by_configurable(user):
    return {"configurable": {"user_id": f"user/{user}"}}


async def _called(runnable, question, config, *, asynchronous):
    if asynchronous:
        return await runnable.ainvoke(question, config)
    return await asyncio.to_thread(runnable.invoke, question, config)


@pytest.mark.parametrize(("name", "asynchronous"), both_ways(RETRIEVERS))
async def test_a_retriever_that_is_invoked_hands_on_the_scope_of_its_metadata(crowd, name, asynchronous):
    wrapper = RETRIEVERS[name](MemoryRetriever(memory=crowd))
    found = await _called(wrapper, QUESTION, by_metadata("bob"), asynchronous=asynchronous)
    assert sorted(set(texts(found))) == [f"bob lives in Lyon {number}" for number in range(3)]


@pytest.mark.parametrize(("name", "asynchronous"), both_ways(CHAINS))
async def test_a_chain_that_is_invoked_hands_on_the_scope_of_its_metadata(crowd, name, asynchronous):
    make, key = CHAINS[name]
    chain = make(MemoryRetriever(memory=crowd))
    asked = {key: QUESTION, "chat_history": []}
    found = await _called(chain, asked, by_metadata("bob"), asynchronous=asynchronous)
    assert {document.metadata["scope"] for document in found["source_documents"]} == {"user/bob"}


@pytest.mark.parametrize(("name", "asynchronous"), both_ways(WITHIN_A_RUN))
async def test_within_a_run_everything_has_the_scope_of_the_run(crowd, name, asynchronous):
    runnable = WITHIN_A_RUN[name](MemoryRetriever(memory=crowd))
    for user in ("bob", "alice"):
        found = await _called(runnable, QUESTION, by_configurable(user), asynchronous=asynchronous)
        assert {document.metadata["scope"] for document in found} == {f"user/{user}"}


@pytest.mark.parametrize("name", RETRIEVERS)
def test_where_nothing_names_a_scope_the_error_names_every_place(crowd, name):
    with pytest.raises(ConfigurationError, match=r"of its callbacks.*passes on only 'metadata'"):
        RETRIEVERS[name](MemoryRetriever(memory=crowd)).invoke(QUESTION, {"metadata": {"thread_id": "t1"}})


def test_configurable_comes_before_metadata_and_the_call_before_the_run(crowd):
    retriever = MemoryRetriever(memory=crowd, k=1)
    both = by_configurable("alice") | by_metadata("bob")
    assert retriever.invoke(QUESTION, both)[0].metadata["scope"] == "user/alice"
    step = RunnableLambda(lambda question: retriever.invoke(question, by_configurable("bob")))
    assert step.invoke(QUESTION, by_configurable("alice"))[0].metadata["scope"] == "user/bob"
    step = RunnableLambda(lambda question: multi_query(retriever).invoke(question, by_metadata("bob")))
    assert step.invoke(QUESTION, by_configurable("alice"))[0].metadata["scope"] == "user/alice"


def test_one_memory_per_thread_is_found_inside_wrappers_too(crowd):
    crowd.remember_fact(scope="t1", fact="Of this thread")
    wrapper = RETRIEVERS["merger"](MemoryRetriever(memory=crowd, scope_from="thread"))
    assert texts(wrapper.invoke(QUESTION, {"metadata": {"thread_id": "t1"}})) == ["Of this thread"]


def _calls(crowd, number, *, without=frozenset()):
    """Wrappers with users, mixed, and of each call whose memories it must give."""
    retriever = MemoryRetriever(memory=crowd, k=1)
    direct = [(make(retriever), by_metadata) for name, make in RETRIEVERS.items() if name not in without]
    within = [(make(retriever), by_configurable) for name, make in WITHIN_A_RUN.items() if name not in without]
    calls = [(*each, user) for each in direct + within for user in ("alice", "bob") for _ in range(number)]
    random.Random(7).shuffle(calls)
    return calls


# so many calls of each wrapper for each user: with the slow ones, more than 10,000 together
TIMES = [4, pytest.param(180, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]


@pytest.mark.parametrize("times", TIMES)
def test_runs_of_two_users_in_threads_find_no_foreign_memory(crowd, times):
    def call(each):
        runnable, config, user = each
        return user, runnable.invoke(QUESTION, config(user))

    with ThreadPoolExecutor(8) as threads:
        for user, found in threads.map(call, _calls(crowd, times)):
            assert {document.metadata["scope"] for document in found} == {f"user/{user}"}


@pytest.mark.parametrize("times", TIMES)
async def test_runs_of_two_users_in_tasks_find_no_foreign_memory(crowd, times):
    calls = _calls(crowd, times, without=ONLY_SYNCHRONOUS)
    answers = await asyncio.gather(*(runnable.ainvoke(QUESTION, config(user)) for runnable, config, user in calls))
    for (*_, user), found in zip(calls, answers, strict=True):
        assert {document.metadata["scope"] for document in found} == {f"user/{user}"}
