"""The cases of ``compatibility.py`` for LlamaIndex and for MCP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

from compatibility import COLUMNS, SCOPE, Case, Section, Setting, expect
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.llms import MockFunctionCallingLLM, MockLLM
from llama_index.core.memory import Memory
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import (
    CitationQueryEngine,
    RetrieverQueryEngine,
    RouterQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.retrievers import QueryFusionRetriever, TransformRetriever
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.tools import QueryEngineTool, RetrieverTool

from memory_retrievers.llama_index import ConversationMemory, LongTermMemoryBlock, MemoryRetriever, MemoryToolSpec

QUESTION: Final = "Where does Bob live?"
FACTS: Final = ["Bob likes Bergen", "Bob lives in Bergen"]
USER: Final[ContextVar[str]] = ContextVar("user")
"""How a call names its scope in LlamaIndex, which hands no configuration on: a function is asked for it."""

NO_ASYNC: Final = "LlamaIndex has no asynchronous version"
NO_SYNC: Final = "LlamaIndex has no synchronous version"
FIXED: Final = "a chat has one scope: create one for each user"

Make = Callable[[MemoryRetriever], Any]


def scope_of(setting: Setting) -> str | Callable[[], str]:
    """The scope, or what is asked for it."""
    return SCOPE if setting.given else USER.get


def retriever_of(setting: Setting) -> MemoryRetriever:
    if not setting.given:
        USER.set(SCOPE)
    return MemoryRetriever(setting.memory, scope=scope_of(setting), k=10)


def model(*answers: str) -> MockFunctionCallingLLM:
    """A model that answers in turn, and with the last answer from then on."""
    left = list(answers or ("Bergen",))

    def answer(_messages: object, **_: object) -> ChatMessage:
        return ChatMessage(role="assistant", content=left.pop(0) if len(left) > 1 else left[0])

    return MockFunctionCallingLLM(response_generator=answer, is_chat_model=True)


def calling(tool: str, arguments: dict[str, Any]) -> MockFunctionCallingLLM:
    """A model that calls a tool, and then answers with what that said."""

    def answer(messages: list[ChatMessage], **_: object) -> ChatMessage:
        if messages[-1].role == "tool":
            return ChatMessage(role="assistant", content=str(messages[-1].content))
        call = ToolCallBlock(tool_call_id="1", tool_name=tool, tool_kwargs=arguments)
        return ChatMessage(role="assistant", blocks=[call])

    return MockFunctionCallingLLM(response_generator=answer, is_chat_model=True)


def expect_nodes(nodes: list[Any]) -> None:
    expect(sorted(node.text for node in nodes) == FACTS, [node.text for node in nodes])


def finding(name: str, make: Make, reasons: Mapping[str, str] | None = None) -> Case:
    """A case of something that retrieves: every memory of Bob once, and nobody else's."""

    async def check(setting: Setting) -> None:
        made = make(retriever_of(setting))
        expect_nodes(await made.aretrieve(QUESTION) if setting.asynchronous else made.retrieve(QUESTION))

    return Case(name, check, reasons or {})


def answering(name: str, make: Make) -> Case:
    """A case of a query engine: its sources are the memories of Bob."""

    async def check(setting: Setting) -> None:
        engine = make(retriever_of(setting))
        response = await engine.aquery(QUESTION) if setting.asynchronous else engine.query(QUESTION)
        texts = "\n".join(node.text for node in response.source_nodes)
        expect(all(fact in texts for fact in FACTS) and "Lyon" not in texts, texts)

    return Case(name, check)


def chatting(name: str, make: Make) -> Case:
    """A case of a chat engine over a retriever."""

    async def check(setting: Setting) -> None:
        engine = make(retriever_of(setting))
        response = await engine.achat(QUESTION) if setting.asynchronous else engine.chat(QUESTION)
        texts = "\n".join(node.text for node in response.source_nodes)
        expect(all(fact in texts for fact in FACTS) and "Lyon" not in texts, texts)

    return Case(name, check)


def agents(name: str, run: Callable[[Setting], Awaitable[object]]) -> Case:
    """A case of an agent, which LlamaIndex runs asynchronously alone."""
    return Case(name, run, {COLUMNS[0]: NO_SYNC, COLUMNS[2]: NO_SYNC})


def asynchronous(run: Callable[[Setting], Awaitable[None]]) -> Callable[[Setting], Awaitable[None]]:
    async def check(setting: Setting) -> None:
        expect(setting.asynchronous, NO_SYNC)
        USER.set(SCOPE)
        await run(setting)

    return check


@asynchronous
async def function_agent(setting: Setting) -> None:
    tools = MemoryToolSpec(setting.memory, scope=scope_of(setting)).to_tool_list()
    agent = FunctionAgent(tools=tools, llm=calling("retrieve_memory", {"query": QUESTION}))
    answer = str(await agent.run(QUESTION))
    expect("Bob lives in Bergen" in answer and "Lyon" not in answer, answer)


@asynchronous
async def react_agent(setting: Setting) -> None:
    tools = MemoryToolSpec(setting.memory, scope=scope_of(setting)).to_tool_list()
    steps = f'Thought: I look.\nAction: retrieve_memory\nAction Input: {{"query": "{QUESTION}"}}'
    llm = model(steps, "Thought: I can answer without using any more tools.\nAnswer: In Bergen.")
    running = ReActAgent(tools=tools, llm=llm, streaming=False).run(QUESTION)
    calls = [event async for event in running.stream_events() if isinstance(event, ToolCallResult)]
    await running
    expect("Bob lives in Bergen" in str(calls[0].tool_output), calls)


@asynchronous
async def workflow_with_retriever_tool(setting: Setting) -> None:
    tool = RetrieverTool.from_defaults(retriever_of(setting), name="look", description="Looks into the memory.")
    agent = FunctionAgent(name="host", description="Answers.", tools=[tool], llm=calling("look", {"input": QUESTION}))
    answer = str(await AgentWorkflow(agents=[agent], root_agent="host").run(QUESTION))
    expect("Bob lives in Bergen" in answer and "Lyon" not in answer, answer)


@asynchronous
async def agent_with_block(setting: Setting) -> None:
    block = LongTermMemoryBlock(memory=setting.memory, scope=scope_of(setting), min_relevance=0)
    chat = Memory.from_defaults(session_id="monday", memory_blocks=[block])
    shown: list[str] = []

    def answer(messages: list[ChatMessage], **_: object) -> ChatMessage:
        shown.append(str(messages))
        return ChatMessage(role="assistant", content="In Bergen.")

    llm = MockFunctionCallingLLM(response_generator=answer, is_chat_model=True)
    await FunctionAgent(tools=[], llm=llm).run(QUESTION, memory=chat)
    await block.aflush(chat)
    if (engine := chat.sql_store._async_engine) is not None:  # noqa: SLF001 - LlamaIndex leaves it open otherwise
        await engine.dispose()
    expect("Bob lives in Bergen" in shown[0] and "Lyon" not in shown[0], shown)
    expect(setting.memory.stats(SCOPE).episodes == 1, setting.memory.stats(SCOPE))


async def chat_memory(setting: Setting) -> None:
    chat = ConversationMemory.from_defaults(setting.memory, scope=scope_of(setting), min_relevance=0)
    engine = SimpleChatEngine.from_defaults(llm=model("In Bergen."), memory=chat)
    await engine.achat(QUESTION) if setting.asynchronous else engine.chat(QUESTION)
    told = str(await chat.aget()) if setting.asynchronous else str(chat.get())
    expect("Bob lives in Bergen" in told and "Lyon" not in told, told)
    expect(setting.memory.stats(SCOPE).queued_messages == 2, setting.memory.stats(SCOPE))


async def langchain_tools(setting: Setting) -> None:
    USER.set(SCOPE)
    [tool, *_] = MemoryToolSpec(setting.memory, scope=scope_of(setting)).to_tool_list()
    made, asks = tool.to_langchain_tool(), {"query": QUESTION}
    found = await made.ainvoke(asks) if setting.asynchronous else made.invoke(asks)
    expect("Bob lives in Bergen" in found and "Lyon" not in found, found)


def fusion(mode: str) -> Make:
    return lambda retriever: QueryFusionRetriever(
        [retriever],
        llm=MockFunctionCallingLLM(
            response_generator=lambda *_, **__: ChatMessage(
                role="assistant", content="Where is Bob?\nWhat does he like?"
            )
        ),
        mode=mode,
        num_queries=3,
        similarity_top_k=10,
        use_async=False,
    )


def router(retriever: MemoryRetriever) -> RouterQueryEngine:
    tool = QueryEngineTool.from_defaults(
        RetrieverQueryEngine.from_args(retriever, llm=MockLLM()), name="memory", description="What is known of Bob."
    )
    chosen = '[{"choice": 1, "reason": "it knows"}]'
    return RouterQueryEngine(
        selector=LLMSingleSelector.from_defaults(llm=model(chosen)), query_engine_tools=[tool], llm=MockLLM()
    )


RETRIEVERS: Final = [
    finding("`MemoryRetriever`", lambda retriever: retriever),
    *(
        finding(f"`QueryFusionRetriever`, `{mode}`", fusion(mode))
        for mode in ("reciprocal_rerank", "relative_score", "dist_based_score", "simple")
    ),
    finding(
        "`TransformRetriever`, `HyDEQueryTransform`",
        lambda retriever: TransformRetriever(retriever, HyDEQueryTransform(llm=model("Bob lives in Bergen."))),
    ),
]

ENGINES: Final = [
    answering("`RetrieverQueryEngine`", lambda one: RetrieverQueryEngine.from_args(one, llm=MockLLM())),
    answering(
        "`RetrieverQueryEngine`, `SimilarityPostprocessor`",
        lambda one: RetrieverQueryEngine.from_args(
            one, llm=MockLLM(), node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.0)]
        ),
    ),
    *(
        answering(
            f"`RetrieverQueryEngine`, `{mode}`",
            lambda one, mode=mode: RetrieverQueryEngine.from_args(one, llm=MockLLM(), response_mode=mode),
        )
        for mode in ("refine", "tree_summarize")
    ),
    answering(
        "`CitationQueryEngine`",
        lambda one: CitationQueryEngine(retriever=one, llm=MockLLM()),
    ),
    answering(
        "`TransformQueryEngine`",
        lambda one: TransformQueryEngine(
            RetrieverQueryEngine.from_args(one, llm=MockLLM()), HyDEQueryTransform(llm=model("Bob lives in Bergen."))
        ),
    ),
    answering("`RouterQueryEngine`", router),
]

CHATS: Final = [
    chatting("`ContextChatEngine`", lambda one: ContextChatEngine.from_defaults(retriever=one, llm=model())),
    chatting(
        "`CondensePlusContextChatEngine`",
        lambda one: CondensePlusContextChatEngine.from_defaults(retriever=one, llm=model()),
    ),
    chatting(
        "`CondenseQuestionChatEngine`",
        lambda one: CondenseQuestionChatEngine.from_defaults(
            query_engine=RetrieverQueryEngine.from_args(one, llm=MockLLM()), llm=model(QUESTION)
        ),
    ),
    Case(
        "`SimpleChatEngine` with `ConversationMemory`",
        chat_memory,
        {COLUMNS[2]: FIXED, COLUMNS[3]: FIXED},
    ),
]

AGENTS: Final = [
    agents("`FunctionAgent` with `MemoryToolSpec`", function_agent),
    agents("`ReActAgent` with `MemoryToolSpec`", react_agent),
    agents("`AgentWorkflow` with `RetrieverTool`", workflow_with_retriever_tool),
    agents("`FunctionAgent` with `LongTermMemoryBlock`", agent_with_block),
    Case("`MemoryToolSpec` as LangChain tools", langchain_tools),
]

SECTIONS: Final = (
    Section(
        "LlamaIndex: retrievers, engines, agents and memories",
        ("llama-index-core", "llama-index-workflows"),
        "The scope is a function that returns it for each call, such as the `get` of a context variable.",
        [*RETRIEVERS, *ENGINES, *CHATS, *AGENTS],
    ),
)
