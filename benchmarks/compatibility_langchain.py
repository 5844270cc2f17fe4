"""The cases of ``compatibility.py`` for LangChain and LangGraph."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from compatibility import COLUMNS, SCOPE, Case, Section, Setting, expect
from langchain.agents import create_agent
from langchain_classic.chains import (
    ConversationalRetrievalChain,
    ConversationChain,
    RetrievalQA,
    RetrievalQAWithSourcesChain,
    create_history_aware_retriever,
    create_retrieval_chain,
)
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_classic.retrievers import (
    ContextualCompressionRetriever,
    EnsembleRetriever,
    MergerRetriever,
    MultiQueryRetriever,
    MultiVectorRetriever,
    RePhraseQueryRetriever,
)
from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, aindex, index
from langchain_core.language_models.fake_chat_models import FakeListChatModel, FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import (
    ConfigurableFieldSpec,
    Runnable,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.stores import InMemoryStore as StoredDocuments
from langchain_text_splitters import CharacterTextSplitter
from langgraph.graph import START, StateGraph
from langgraph.store.base import GetOp, Item, ListNamespacesOp, Op, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from pydantic import Field

from memory_retrievers.langchain import (
    AgentMemoryMiddleware,
    ConversationMemory,
    MemoryChatHistory,
    MemoryRetriever,
    MemoryStoreAdapter,
    MemoryVectorStore,
    RetrieveMemoryTool,
)
from memory_retrievers.testing import HashEmbedder

QUESTION: Final = "Where does Bob live?"
ASKED: Final = {"input": QUESTION, "question": QUESTION, "query": QUESTION, "chat_history": []}
CONFIGURABLE: Final = {"configurable": {"user_id": SCOPE}}
METADATA: Final = {"metadata": {"user_id": SCOPE}}
NO_ASYNC: Final = "LangChain has no asynchronous version"
LOST: Final = "LangChain does not pass `configurable` on: name the scope in `metadata`, or invoke it in a chain"

Make = Callable[[MemoryRetriever], Runnable[Any, Any]]
Config = Mapping[str, Mapping[str, str]]


def model(*answers: str) -> FakeListChatModel:
    return FakeListChatModel(responses=list(answers or ["Bergen"]))


def retriever_of(setting: Setting) -> MemoryRetriever:
    return MemoryRetriever(memory=setting.memory, scope=setting.scope, k=10)


def documents_in(found: dict[str, list[Document]] | list[Document]) -> list[Document]:
    """The documents of an answer, wherever a chain puts them."""
    if isinstance(found, dict):
        return next(found[key] for key in ("source_documents", "context") if key in found)
    return list(found)


def finding(
    name: str,
    make: Make,
    *,
    asks: object = QUESTION,
    config: Config = CONFIGURABLE,
    reasons: Mapping[str, str] | None = None,
) -> Case:
    """A case that has to find every memory of Bob once, and nobody else's.

    Args:
        name: The row.
        make: Puts a retriever into what is tried.
        asks: What it is invoked with.
        config: How the call names the scope.
        reasons: As for ``Case``.
    """

    async def check(setting: Setting) -> None:
        runnable = make(retriever_of(setting))
        told: Any = None if setting.given else config
        found = await runnable.ainvoke(asks, told) if setting.asynchronous else runnable.invoke(asks, told)
        texts = sorted(document.page_content for document in documents_in(found))
        expect(texts == ["Bob likes Bergen", "Bob lives in Bergen"], texts)

    return Case(name, check, reasons or {})


def in_chain(make: Make) -> Make:
    return lambda retriever: RunnablePassthrough() | make(retriever)


WRAPPERS: Final[Mapping[str, Make]] = {
    "MultiQueryRetriever": lambda retriever: MultiQueryRetriever.from_llm(
        retriever=retriever, llm=model("Where is Bob?\nWhich town does Bob like?")
    ),
    "ContextualCompressionRetriever": lambda retriever: ContextualCompressionRetriever(
        base_retriever=retriever,
        base_compressor=DocumentCompressorPipeline(transformers=[CharacterTextSplitter()]),
    ),
    "MergerRetriever": lambda retriever: MergerRetriever(retrievers=[retriever]),
    "RePhraseQueryRetriever": lambda retriever: RePhraseQueryRetriever.from_llm(retriever=retriever, llm=model()),
    "EnsembleRetriever": lambda retriever: EnsembleRetriever(retrievers=[retriever, retriever]),
}

CHAINS: Final[Mapping[str, Make]] = {
    "RetrievalQA": lambda retriever: RetrievalQA.from_llm(
        llm=model(), retriever=retriever, return_source_documents=True
    ),
    "RetrievalQAWithSourcesChain": lambda retriever: RetrievalQAWithSourcesChain.from_chain_type(
        llm=model(), retriever=retriever, return_source_documents=True
    ),
    "ConversationalRetrievalChain": lambda retriever: ConversationalRetrievalChain.from_llm(
        llm=model(), retriever=retriever, return_source_documents=True
    ),
}


def async_reasons(name: str) -> dict[str, str]:
    return {COLUMNS[1]: NO_ASYNC, COLUMNS[3]: NO_ASYNC} if name == "RePhraseQueryRetriever" else {}


def around(name: str, make: Make, *, asks: object) -> list[Case]:
    """The rows of something that invokes a retriever: by itself with either way to name a scope, and in a chain."""
    none, direct = async_reasons(name), {COLUMNS[2]: LOST, COLUMNS[3]: LOST}
    named = (
        []
        if name == "EnsembleRetriever"
        else [finding(f"`{name}`, `configurable`", make, asks=asks, reasons=direct | none)]
    )
    return [
        *named,
        finding(f"`{name}`, `metadata`", make, asks=asks, config=METADATA, reasons=none),
        finding(f"`{name}` in a chain", in_chain(make), asks=asks, reasons=none),
    ]


RETRIEVAL: Final = [
    finding("`MemoryRetriever`", lambda retriever: retriever),
    finding("`MemoryRetriever`, `metadata`", lambda retriever: retriever, config=METADATA),
    finding("`.with_config(run_name=…)`", lambda retriever: retriever.with_config(run_name="recall")),
    finding("`.with_retry()`", lambda retriever: retriever.with_retry()),
    finding("`.with_fallbacks(…)`", lambda retriever: retriever.with_fallbacks([retriever])),
    finding(
        "`RunnableParallel`",
        lambda retriever: RunnableParallel(context=retriever, question=RunnablePassthrough()),
    ),
    finding("`RunnableLambda`", lambda retriever: RunnableLambda(lambda asked: retriever.invoke(f"{asked}"))),
    finding(
        "`create_retrieval_chain`",
        lambda retriever: create_retrieval_chain(
            retriever, create_stuff_documents_chain(model(), ChatPromptTemplate.from_template("{context} {input}"))
        ),
        asks=ASKED,
    ),
    finding(
        "`create_history_aware_retriever`",
        lambda retriever: create_history_aware_retriever(
            model(), retriever, ChatPromptTemplate.from_template("{chat_history} {input}")
        ),
        asks=ASKED,
    ),
    *(row for name, make in WRAPPERS.items() for row in around(name, make, asks=QUESTION)),
    *(row for name, make in CHAINS.items() for row in around(name, make, asks=ASKED)),
]


async def tool(setting: Setting) -> None:
    made = RetrieveMemoryTool(memory=setting.memory, scope=setting.scope)
    config: Any = None if setting.given else CONFIGURABLE
    asked = {"query": QUESTION}
    told = await made.ainvoke(asked, config) if setting.asynchronous else made.invoke(asked, config)
    expect("Bob lives in Bergen" in told and "Alice" not in told, told)


class Listening(FakeMessagesListChatModel):
    """Keeps what it was asked."""

    heard: list[str] = Field(default_factory=list)

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the base class has it
        self.heard.append(" ".join(message.text for message in messages))
        return super()._generate(messages, *args, **kwargs)


async def middleware(setting: Setting) -> None:
    chat = Listening(responses=[AIMessage("In Bergen.")])
    made = AgentMemoryMiddleware(memory=setting.memory, scope=setting.scope, process="never")
    agent = create_agent(chat, middleware=[made])
    asked: Any = {"messages": [("user", QUESTION)]}
    config: Any = None if setting.given else CONFIGURABLE
    _ = await agent.ainvoke(asked, config) if setting.asynchronous else agent.invoke(asked, config)
    expect("Bob lives in Bergen" in chat.heard[0] and "Alice" not in chat.heard[0], chat.heard)


async def node(setting: Setting) -> None:
    inner = WRAPPERS["MultiQueryRetriever"](retriever_of(setting))

    def look(state: dict[str, Any]) -> dict[str, Any]:
        return {"found": inner.invoke(state["asked"])}

    async def alook(state: dict[str, Any]) -> dict[str, Any]:
        return {"found": await inner.ainvoke(state["asked"])}

    builder = StateGraph(dict)
    builder.add_node("look", RunnableLambda(look, alook))
    builder.add_edge(START, "look")
    graph, asked = builder.compile(), {"asked": QUESTION}
    config: Any = None if setting.given else CONFIGURABLE
    state: Any = await graph.ainvoke(asked, config) if setting.asynchronous else graph.invoke(asked, config)
    expect(len(state["found"]) == 2, state)


async def classic_memory(setting: Setting) -> None:
    chat = Listening(responses=[AIMessage("In Bergen.")])
    made = ConversationMemory(memory=setting.memory, scope=setting.scope, process="never")
    chain: Any = RunnablePassthrough() | ConversationChain(llm=chat, memory=made)
    config: Any = None if setting.given else CONFIGURABLE
    asked = {"input": QUESTION}
    _ = await chain.ainvoke(asked, config) if setting.asynchronous else chain.invoke(asked, config)
    expect("Bob lives in Bergen" in chat.heard[0] and "Alice" not in chat.heard[0], chat.heard)


async def vector_store(setting: Setting) -> None:
    store = MemoryVectorStore(setting.memory, scope=setting.scope)
    made = store.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.0, "k": 10})
    config: Any = None if setting.given else CONFIGURABLE
    found = await made.ainvoke(QUESTION, config) if setting.asynchronous else made.invoke(QUESTION, config)
    texts = sorted(document.page_content for document in found)
    expect(texts == ["Bob likes Bergen", "Bob lives in Bergen"], texts)


def with_vector_store(name: str, use: Callable[[MemoryVectorStore, bool], Awaitable[list[Document]]]) -> Case:
    """A case of what is done with a vector store, in a run that names the scope."""

    async def check(setting: Setting) -> None:
        store = MemoryVectorStore(setting.memory, scope=setting.scope)
        config: Any = None if setting.given else CONFIGURABLE
        if setting.asynchronous:
            found = await RunnableLambda(lambda _: None, lambda _: use(store, True)).ainvoke(QUESTION, config)
        else:
            step = RunnableLambda(lambda _: asyncio.run(use(store, False)))
            found = await asyncio.to_thread(step.invoke, QUESTION, config)
        expect(sorted(document.page_content for document in found) == ["Tea at five", "Tea at four"], found)

    return Case(name, check)


SERVED: Final = [Document(f"Tea at {hour}", metadata={"hour": n}) for n, hour in enumerate(["three", "four", "five"])]


async def searched(store: MemoryVectorStore, asked: dict[str, Any], asynchronous: bool) -> list[Document]:
    if asynchronous:
        return await store.asimilarity_search("tea", filter=asked)
    return store.similarity_search("tea", filter=asked)


async def filtered(store: MemoryVectorStore, asynchronous: bool) -> list[Document]:
    await store.aadd_documents(SERVED) if asynchronous else store.add_documents(SERVED)
    either: dict[str, Any] = {"$or": [{"hour": {"$gte": 2}}, {"$and": [{"hour": {"$in": [1]}}]}]}
    return await searched(store, either, asynchronous)


async def indexed(store: MemoryVectorStore, asynchronous: bool) -> list[Document]:
    records = InMemoryRecordManager("tea")
    records.create_schema()
    options: dict[str, Any] = {"cleanup": "full", "key_encoder": "sha256"}
    for documents in (SERVED, SERVED[1:]):
        if asynchronous:
            await aindex(documents, records, store, **options)
        else:
            index(documents, records, store, **options)
    return await searched(store, {"hour": {"$gte": 0}}, asynchronous)


async def parents(store: MemoryVectorStore, asynchronous: bool) -> list[Document]:
    asked, parts, whole = "When is tea?", SERVED[1:], StoredDocuments()
    whole.mset([(document.page_content, document) for document in parts])
    store.add_texts([asked] * len(parts), [{"parent": document.page_content} for document in parts])
    made = MultiVectorRetriever(vectorstore=store, docstore=whole, id_key="parent")
    return await made.ainvoke(asked) if asynchronous else made.invoke(asked)


async def by_vector(setting: Setting) -> None:
    store = MemoryVectorStore(setting.memory, scope=SCOPE)
    asked = HashEmbedder().embed_query(QUESTION)
    made = store.asimilarity_search_by_vector(asked) if setting.asynchronous else None
    expect(bool(store.similarity_search_by_vector(asked) if made is None else await made), "nothing is found")


async def chat_history(setting: Setting) -> None:
    """A turn and another, in a chain that is told what was said before, and beside it what another user has said."""
    MemoryChatHistory(setting.memory, "user/alice", "chat", process="never").add_user_message("I am Alice.")
    prompt = ChatPromptTemplate([("placeholder", "{history}"), ("user", "{input}")])
    chat = Listening(responses=[AIMessage("Noted."), AIMessage("Bergen.")])
    scope_of_call = ConfigurableFieldSpec(id="user_id", annotation=str)

    def history(user_id: str) -> MemoryChatHistory:
        return MemoryChatHistory(setting.memory, setting.scope or user_id, "chat", process="never")

    made = RunnableWithMessageHistory(
        prompt | chat, history, input_messages_key="input", history_messages_key="history",
        history_factory_config=[scope_of_call],
    )  # fmt: skip
    config: Any = {"configurable": {"user_id": "anybody" if setting.given else SCOPE}}
    for said in ("I live in Bergen.", QUESTION):
        asked = {"input": said}
        _ = await made.ainvoke(asked, config) if setting.asynchronous else made.invoke(asked, config)
    expect("I live in Bergen." in chat.heard[1] and "Noted." in chat.heard[1], chat.heard)
    expect("Alice" not in str(chat.heard), chat.heard)


async def graph_store(setting: Setting) -> None:
    """Everything of ``BaseStore``, and beside it LangGraph's own store of the same."""
    theirs, place = InMemoryStore(), ("plans", "bob")
    ours = MemoryStoreAdapter(setting.memory, scope=SCOPE)
    given: list[Any] = []
    for store in (ours, theirs):
        puts: list[Op] = [PutOp(place, f"k{n}", {"n": n, "text": f"plan {n}"}) for n in range(5)]
        asked: list[Op] = [
            GetOp(place, "k3"),
            SearchOp(("plans",), {"n": {"$gte": 2}}, 10),
            SearchOp(("plans",), {"n": 4}, 10),
            ListNamespacesOp(),
        ]
        for ops in (puts, [PutOp(place, "k2", None)]):
            _ = await store.abatch(ops) if setting.asynchronous else store.batch(ops)
        answers = await store.abatch(asked) if setting.asynchronous else store.batch(asked)
        given.append(repr([_plain(answer) for answer in answers]))
    expect(given[0] == given[1], given)


def _plain(answer: Any) -> Any:  # noqa: ANN401 - whatever a store answers
    if isinstance(answer, list):
        return sorted(map(_plain, answer), key=repr)
    return (answer.namespace, answer.key, answer.value) if isinstance(answer, Item) else answer


AGENTS: Final = [
    Case("`RetrieveMemoryTool`", tool),
    Case("`AgentMemoryMiddleware` in `create_agent`", middleware),
    Case("`MultiQueryRetriever` in a LangGraph node", node),
    Case("`ConversationMemory` of a classic `ConversationChain`, in a chain", classic_memory),
    Case("`MemoryVectorStore.as_retriever(…)`", vector_store),
    with_vector_store("`MemoryVectorStore`, filters with `$gte`, `$in`, `$and`, `$or`", filtered),
    with_vector_store("`index(…)` and `aindex(…)` into `MemoryVectorStore`", indexed),
    with_vector_store("`MultiVectorRetriever` over `MemoryVectorStore`", parents),
    Case("`MemoryVectorStore.similarity_search_by_vector`", by_vector),
    Case("`MemoryChatHistory` in `RunnableWithMessageHistory`", chat_history),
    Case("`MemoryStoreAdapter`: put, get, delete, search, filters, namespaces", graph_store),
]

SECTIONS: Final = (
    Section(
        title="LangChain: retrievers and chains",
        packages=("langchain-core", "langchain-classic", "langchain"),
        text="The call names the scope in `configurable`, unless the row says otherwise.",
        cases=RETRIEVAL,
    ),
    Section(
        title="LangChain and LangGraph: agents, tools and stores",
        packages=("langchain", "langgraph", "langgraph-checkpoint"),
        text="The call names the scope in `configurable`. A LangGraph store has one scope, and users are namespaces "
        "below it.",
        cases=AGENTS,
    ),
)
