"""What the middleware recalls is a retriever run in the trace of the agent's run, with what was found and why."""

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler

from memory_retrievers.errors import BackendError
from memory_retrievers.langchain import AgentMemoryMiddleware

ALICE = {"user_id": "user/alice", "thread_id": "t1"}
QUESTION = "Where does Alice live?"


class Seen:
    """Keeps the retriever runs, and the runs that they belong to."""

    def __init__(self):
        self.runs, self.asked, self.found, self.failed = {}, [], [], []

    def starts(self, query, run_id, parent_run_id, name):
        self.runs[run_id] = parent_run_id
        self.asked.append((name, query))


class Watching(Seen, BaseCallbackHandler):
    def on_chain_start(self, *_, run_id, parent_run_id=None, **__):
        self.runs[run_id] = parent_run_id

    def on_retriever_start(self, _, query, *, run_id, parent_run_id=None, name=None, **__):
        self.starts(query, run_id, parent_run_id, name)

    def on_retriever_end(self, documents, **_):
        self.found.append(documents)

    def on_retriever_error(self, error, **_):
        self.failed.append(error)


class WatchingAsync(Seen, AsyncCallbackHandler):
    async def on_chain_start(self, *_, run_id, parent_run_id=None, **__):
        self.runs[run_id] = parent_run_id

    async def on_retriever_start(self, _, query, *, run_id, parent_run_id=None, name=None, **__):
        self.starts(query, run_id, parent_run_id, name)

    async def on_retriever_end(self, documents, **_):
        self.found.append(documents)


def agent_of(memory, model):
    return create_agent(model, middleware=[AgentMemoryMiddleware(memory=memory, process="never")])


def asking(watching):
    return {"messages": [{"role": "user", "content": QUESTION}]}, {"configurable": ALICE, "callbacks": [watching]}


def check(seen):
    assert seen.asked == [("AgentMemory", QUESTION)]
    ((first, *_),) = seen.found
    assert first.page_content == "Alice lives in Lyon"
    assert 0 < first.metadata["relevance_score"] <= 1
    assert all(document.metadata["scope"] == "user/alice" for document in seen.found[0])
    parents = [parent for run, parent in seen.runs.items() if parent is not None]
    assert len(parents) > 1
    assert set(parents) <= set(seen.runs), "each run stands below one that was seen"


def test_a_run_shows_what_was_recalled_for_it(memory, saying):
    watching = Watching()
    agent_of(memory, saying("In Lyon.")).invoke(*asking(watching))
    check(watching)


@pytest.mark.parametrize("kind", [Watching, WatchingAsync])
async def test_an_asynchronous_run_does_too(memory, saying, kind):
    watching = kind()
    await agent_of(memory, saying("In Lyon.")).ainvoke(*asking(watching))
    check(watching)


@pytest.mark.parametrize("kind", [BackendError, OSError])  # an object with the methods of a memory raises its own
def test_a_memory_that_fails_is_an_error_of_that_run_and_of_no_other(memory, saying, monkeypatch, kind):
    def fail(*_, **__):
        raise kind("secret disk")

    monkeypatch.setattr(memory, "retrieve", fail)
    watching = Watching()
    state = agent_of(memory, saying("I do not know.")).invoke(*asking(watching))
    assert state["messages"][-1].text == "I do not know."
    assert [type(error) for error in watching.failed] == [kind]
    assert watching.found == []
