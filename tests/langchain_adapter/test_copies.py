"""A copy shares the store, and a pickle opens it again by its address."""

import copy
import pickle

import pytest
from langchain.agents import create_agent
from langchain_classic.retrievers import EnsembleRetriever

from memory_retrievers import AgentMemory
from memory_retrievers.langchain import (
    AgentMemoryMiddleware,
    ConversationMemory,
    MemoryRetriever,
    MemoryStoreAdapter,
    MemoryToolkit,
    MemoryVectorStore,
    RetrieveMemoryTool,
)
from memory_retrievers.testing import HashEmbedder

WHOLE = {
    "retriever": (lambda memory: MemoryRetriever(memory=memory, scope="s"), lambda made: made.invoke("Bergen")),
    "ensemble": (
        lambda memory: EnsembleRetriever(retrievers=[MemoryRetriever(memory=memory, scope="s")]),
        lambda made: made.invoke("Bergen"),
    ),
    "tool": (lambda memory: RetrieveMemoryTool(memory=memory, scope="s"), lambda made: made.invoke("Bergen")),
    "tool of the registry": (
        lambda memory: MemoryToolkit(memory, scope="s", tools=["memory_search"]).get_tools()[0],
        lambda made: "Bergen" in made.invoke({"query": "Bergen"}) and "Bergen",
    ),
    "essential tool": (
        lambda memory: MemoryToolkit(memory, scope="s").get_tools()[0],
        lambda made: made.invoke({"query": "Bergen"}),
    ),
    "toolkit": (
        lambda memory: MemoryToolkit(memory, scope="s"),
        lambda made: made.get_tools()[0].invoke({"query": "Bergen"}),
    ),
    "store": (lambda memory: MemoryStoreAdapter(memory, scope="s"), lambda made: made.get(("a",), "k").value),
    "classic memory": (
        lambda memory: ConversationMemory(memory=memory, scope="s"),
        lambda made: made.load_memory_variables({"input": "Bergen"}),
    ),
    "vector store": (
        lambda memory: MemoryVectorStore(memory, scope="s"),
        lambda made: made.similarity_search("Bergen"),
    ),
}


@pytest.fixture
def memory(tmp_path):
    with AgentMemory.open(tmp_path / "memory", embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope="s", fact="Bob lives in Bergen")
        MemoryStoreAdapter(memory, scope="s").put(("a",), "k", {"town": "Bergen"})
        yield memory


@pytest.mark.parametrize("name", WHOLE)
def test_a_copy_shares_the_store(memory, name):
    make, use = WHOLE[name]
    made = make(memory)
    assert "Bergen" in str(use(made))
    assert use(copy.deepcopy(made)) == use(copy.copy(made)) == use(made)


@pytest.mark.embedded("a directory is opened again")
@pytest.mark.parametrize("name", WHOLE)
def test_a_pickle_opens_the_store_again(memory, name):
    make, use = WHOLE[name]
    made = make(memory)
    assert use(pickle.loads(pickle.dumps(made))) == use(made)  # noqa: S301 - our own


def test_the_middleware_of_an_agent_can_be_copied(memory, saying):
    middleware = copy.deepcopy(AgentMemoryMiddleware(memory=memory, scope="s", process="never"))
    model = saying("In Bergen.")
    create_agent(model, middleware=[middleware]).invoke({"messages": [("user", "Where does Bob live?")]})
    assert "Bergen" in str(model.heard[0])
