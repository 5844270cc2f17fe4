"""No embedder or hook is waited for inside a write transaction, which holds up all others."""

import pytest

from memory_retrievers import AgentMemory, EpisodicMemory, Message, SemanticMemory
from memory_retrievers.testing import HashEmbedder, inside
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolPolicy

SCOPE = "user/ana"


class Watching(HashEmbedder):
    """Embeds, and notes every call that is made inside a write transaction."""

    def __init__(self):
        super().__init__()
        self.memory = None
        self.calls = 0
        self.inside_a_transaction = []

    def look(self, what):
        self.calls += 1
        if self.memory is not None and inside(self.memory).is_writing:
            self.inside_a_transaction.append(what)

    def embed_documents(self, texts):
        self.look(list(texts))
        return super().embed_documents(texts)

    def embed_query(self, text):
        self.look(text)
        return super().embed_query(text)


@pytest.fixture
def embedder():
    return Watching()


@pytest.fixture
def memory(embedder, clock, tmp_path):
    def hook(record):
        embedder.look(record)
        return record

    with AgentMemory.open(tmp_path / "store", embedder=embedder, clock=clock, before_store=hook) as memory:
        embedder.memory = memory
        yield memory


def say(number):
    return [Message(role="user", content=f"I have seen bird number {each}") for each in range(number)]


def write_by_the_memory(memory, _):
    fact = memory.remember_fact(scope=SCOPE, fact="Ana lives in Lyon")
    episode = memory.remember_episode(scope=SCOPE, summary="Ana moved to Lyon.", messages=say(2))
    memory.remember_many([SemanticMemory.new(scope=SCOPE, fact=f"Ana has seen bird {n}") for n in range(3)])
    memory.remember_many([EpisodicMemory.new(scope=SCOPE, summary="Ana left.", id=episode.id)], replace=True)
    memory.update(fact.id, scope=SCOPE, fact="Ana lives in Rome")
    memory.add_messages(SCOPE, say(40))
    memory.invalidate(fact.id, scope=SCOPE)
    memory.forget(fact.id, scope=SCOPE)
    memory.purge()


def store_by_tools(_, call):
    call("memory_store", content="Ana likes tea")
    call("memory_store", content="Ana likes tea", allow_duplicates=False)
    call("memory_store", content="Ana likes green tea", duplicate_threshold=0.99, auto_associate=True)
    items = [{"content": f"Ana has read book {n}", "allow_duplicates": bool(n % 2)} for n in range(6)]
    assert len(call("memory_batch_store", items=items)["stored_ids"]) == 6


def change_by_tools(_, call):
    first, second = (call("memory_store", content=f"Ana likes {what}")["memory_id"] for what in ("tea", "milk"))
    call("memory_update", id=first, content="Ana likes coffee")
    call("memory_batch_update", updates=[{"id": each, "content": f"Ana drinks {each}"} for each in (first, second)])
    call("memory_consolidate", memory_ids=[first, second])


@pytest.mark.parametrize("write", [write_by_the_memory, store_by_tools, change_by_tools])
def test_nothing_slow_is_waited_for_inside_a_transaction(memory, embedder, clock, write):
    tools = LocalToolbox(ToolPolicy().context(memory, scope=SCOPE))

    def call(name, **arguments):
        clock.advance(seconds=1)
        output = tools.call(name, arguments)
        assert not output.is_error, output
        return output.artifact

    write(memory, call)
    assert embedder.calls
    assert embedder.inside_a_transaction == []
