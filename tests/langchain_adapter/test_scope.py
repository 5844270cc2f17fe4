import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pydantic
import pytest
from cases import tried_in_one
from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.runnables.config import ContextThreadPoolExecutor

from memory_retrievers import AgentMemory
from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.langchain import (
    AgentMemoryMiddleware,
    ConversationMemory,
    MemoryChatHistory,
    MemoryRetriever,
    MemoryToolkit,
    RetrieveMemoryTool,
)
from memory_retrievers.langchain.scope import CONFIGURABLE_KEYS, resolve_scope


def config(**configurable):
    return {"configurable": configurable}


@pytest.mark.parametrize("position", range(len(CONFIGURABLE_KEYS)))
def test_the_first_key_of_the_chain_that_is_there_names_the_scope(position):
    present = {key: f"from/{key}" for key in CONFIGURABLE_KEYS[position:]}
    assert resolve_scope(config(**present, thread_id="t1")) == f"from/{CONFIGURABLE_KEYS[position]}"


def test_the_chain_is_documented_in_its_order():
    assert CONFIGURABLE_KEYS == ("scope", "user_id", "langgraph_user_id", "conversation_id")


def test_none_counts_as_absent():
    assert resolve_scope(config(scope=None, user_id=None, conversation_id="c1")) == "c1"


@pytest.mark.parametrize("nameless", [None, {}, config(), config(thread_id="t1"), {"metadata": {"user": "alice"}}])
def test_without_a_scope_the_error_says_what_to_do(nameless):
    with pytest.raises(ConfigurationError) as caught:
        resolve_scope(nameless)
    assert str(caught.value) == (
        "whose memory is this? Give the object a scope (scope='user/alice'), or invoke it with "
        "config={'configurable': {'user_id': ...}} (looked for: scope, user_id, langgraph_user_id, conversation_id in "
        "'configurable' of the call and of the run around it, scope and user_id of LangGraph's context=, and in "
        "'metadata' of both and of its callbacks). A retriever that calls this one passes on only 'metadata': name it "
        "there. A thread_id needs scope_from='thread': a memory for each thread."
    )


def test_one_memory_per_thread_has_to_be_asked_for():
    assert resolve_scope(config(thread_id="t1", user_id="alice"), scope_from="thread") == "t1"
    with pytest.raises(ConfigurationError, match=re.escape("{'thread_id': ...}} (looked for: thread_id in")):
        resolve_scope(config(user_id="alice"), scope_from="thread")


def test_a_function_replaces_the_chain():
    def tenant_and_user(run):
        return f"{run['configurable']['tenant']}/{run['configurable']['user_id']}"

    assert resolve_scope(config(tenant="acme", user_id="alice"), scope_from=tenant_and_user) == "acme/alice"
    with pytest.raises(KeyError):
        resolve_scope(config(user_id="alice"), scope_from=tenant_and_user)


@tried_in_one("malformed", ["", "user/", "../bob", "a\nb", 42, ["user/alice"]])
def test_a_malformed_scope_is_an_error_and_never_everyone(malformed):
    with pytest.raises(ValidationError, match="scope" if isinstance(malformed, str) else "^user_id must be a string"):
        resolve_scope(config(user_id=malformed, conversation_id="c1"))
    with pytest.raises(ValidationError, match="scope"):
        resolve_scope(config(), scope_from=lambda _: malformed)


def test_an_object_with_a_scope_looks_at_no_configuration(memory):
    retriever = MemoryRetriever(memory=memory, scope="user/alice")
    found = retriever.invoke("Who lives where?", config(scope="user/bob", user_id="user/bob"))
    assert {document.metadata["scope"] for document in found} == {"user/alice"}
    tool = RetrieveMemoryTool(memory=memory, scope="user/alice")
    assert "Bob" not in tool.invoke({"query": "Who lives where?"}, config(scope="user/bob"))


def test_a_scope_is_checked_when_the_object_is_made(memory):
    with pytest.raises(ValidationError, match="scope 'user/' is malformed"):
        MemoryRetriever(memory=memory, scope="user/")
    with pytest.raises(ValidationError, match="scope must not be empty"):
        RetrieveMemoryTool(memory=memory, scope="")


def test_a_scope_and_a_source_of_scopes_exclude_each_other(memory):
    with pytest.raises(ValidationError, match="give scope or scope_from, not both"):
        MemoryRetriever(memory=memory, scope="user/alice", scope_from="thread")


def test_an_unknown_source_of_scopes_is_refused(memory):
    with pytest.raises(ValidationError, match="scope_from"):
        MemoryRetriever(memory=memory, scope_from="session")


def test_inside_a_run_the_scope_of_the_run_is_found_without_passing_it_on(memory):
    retriever = MemoryRetriever(memory=memory)
    step = RunnableLambda(lambda name: retriever.invoke(f"Where does {name} live?"))
    found = step.invoke("Bob", config(user_id="user/bob"))
    assert [document.page_content for document in found] == ["Bob lives in Bergen"]


def test_a_thread_that_is_started_in_a_run_finds_its_scope_where_it_has_the_context_or_the_config(memory):
    retriever = MemoryRetriever(memory=memory)

    def asked(question, config: RunnableConfig):
        with ContextThreadPoolExecutor(1) as told, ThreadPoolExecutor(1) as untold:
            answers = told.submit(retriever.invoke, question), untold.submit(retriever.invoke, question, config)
            with pytest.raises(ConfigurationError, match="whose memory is this"):
                untold.submit(retriever.invoke, question).result()
            return [answer.result()[0].page_content for answer in answers]

    step = RunnableLambda(asked)
    assert step.invoke("Where does Bob live?", config(user_id="user/bob")) == ["Bob lives in Bergen"] * 2


@dataclass
class Caller:
    user_id: str | None = None
    scope: str | None = None


class CheckedCaller(pydantic.BaseModel):
    user_id: str


CONTEXTS = [
    Caller(user_id="user/bob"),
    CheckedCaller(user_id="user/bob"),
    {"user_id": "user/bob"},
    {"scope": "user/bob"},
]


def bob_asks(memory, saying, schema):
    """An agent that asks its memory by a tool, and what the tool was told, by one invocation."""
    tool = RetrieveMemoryTool(memory=memory)
    agent = create_agent(
        saying(("retrieve_memory", {"query": "Who lives where?"}), "Done."), [tool], context_schema=schema
    )
    return agent, {"messages": [{"role": "user", "content": "Who lives where?"}]}


def told(state):
    return next(message.content for message in state["messages"] if message.type == "tool")


@pytest.mark.parametrize("context", CONTEXTS, ids=repr)
def test_the_context_of_a_langgraph_run_names_the_scope(memory, saying, context):
    agent, asked = bob_asks(memory, saying, type(context))
    answer = told(agent.invoke(asked, context=context))
    assert "Bob lives in Bergen" in answer
    assert "Alice" not in answer


@pytest.mark.parametrize("context", CONTEXTS, ids=repr)
async def test_the_context_names_the_scope_of_an_asynchronous_run_too(memory, saying, context):
    agent, asked = bob_asks(memory, saying, type(context))
    assert "Bob lives in Bergen" in told(await agent.ainvoke(asked, context=context))


def test_the_configuration_comes_before_the_context_and_scope_before_user_id(memory, saying):
    agent, asked = bob_asks(memory, saying, Caller)
    answer = told(agent.invoke(asked, config(user_id="user/alice"), context=Caller(user_id="user/bob")))
    assert "Alice lives in Lyon" in answer
    assert "Bob" not in answer
    agent, asked = bob_asks(memory, saying, Caller)
    assert "Bob" in told(agent.invoke(asked, context=Caller(user_id="user/alice", scope="user/bob")))


@pytest.mark.parametrize("context", [None, Caller(), {"user_id": None}, {"thread_id": "user/bob"}], ids=repr)
def test_a_context_that_names_nobody_is_an_error_and_never_everyone(memory, saying, context):
    agent, asked = bob_asks(memory, saying, type(context))
    with pytest.raises(ConfigurationError, match="whose memory is this"):
        agent.invoke(asked, context=context)


def test_a_source_of_scopes_replaces_the_context_as_well(memory, saying):
    tool = RetrieveMemoryTool(memory=memory, scope_from="thread")
    agent = create_agent(saying(("retrieve_memory", {"query": "Who?"}), "Done."), [tool], context_schema=Caller)
    with pytest.raises(ConfigurationError, match="looked for: thread_id"):
        agent.invoke({"messages": [{"role": "user", "content": "Who?"}]}, context=Caller(user_id="user/bob"))


@pytest.mark.parametrize("slip", ["./agent-memory", AgentMemory, None])
@pytest.mark.parametrize(
    "make",
    [
        lambda slip: MemoryRetriever(memory=slip),
        lambda slip: RetrieveMemoryTool(memory=slip),
        lambda slip: MemoryToolkit(slip, scope="user/alice"),
        lambda slip: MemoryChatHistory(slip, "user/alice"),
        lambda slip: ConversationMemory(memory=slip),
        lambda slip: AgentMemoryMiddleware(memory=slip),
    ],
)
def test_what_is_no_memory_is_refused_when_an_object_is_made_of_it(make, slip):
    with pytest.raises(TypeError, match=r"^memory must be what AgentMemory.open\(...\) returns, not a"):
        make(slip)
