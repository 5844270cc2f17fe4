"""The cases of ``compatibility.py`` for LangChain and LangGraph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from compatibility import COLUMNS, SCOPE, Case, Section, Setting, expect
from langchain_classic.chains import (
    ConversationalRetrievalChain,
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
    RePhraseQueryRetriever,
)
from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_text_splitters import CharacterTextSplitter

from memory_retrievers.langchain import MemoryRetriever

QUESTION: Final = "Where does Bob live?"
ASKED: Final = {"input": QUESTION, "question": QUESTION, "query": QUESTION, "chat_history": []}
CONFIGURABLE: Final = {"configurable": {"user_id": SCOPE}}
METADATA: Final = {"metadata": {"user_id": SCOPE}}
NO_ASYNC: Final = "LangChain has no asynchronous form of it"
LOST: Final = "LangChain hands on no `configurable`: name the scope in `metadata`, or invoke it in a chain"

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

SECTIONS: Final = (
    Section(
        title="LangChain: retrievers and chains",
        packages=("langchain-core", "langchain-classic", "langchain"),
        text="The call names the scope in `configurable`, unless the row says otherwise.",
        cases=RETRIEVAL,
    ),
)
