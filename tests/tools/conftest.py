"""A memory of one user, as the tools see it."""

import json

import pytest

from memory_retrievers import AgentMemory, Message
from memory_retrievers.models import Origin, SemanticMemory
from memory_retrievers.models.management import MemoryFilter
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.tools.registry import REGISTRY, LocalToolbox
from memory_retrievers.tools.tool import ToolContext


@pytest.fixture
def filled(memory, clock):
    """Alice's memory: two facts, an ordinary episode and a key moment."""
    memory.remember_fact(scope="user/alice", fact="User lives in Lyon", category="identity", keywords=["Lyon"])
    memory.remember_fact(scope="user/alice", fact="Assistant should answer in metric units", category="guideline")
    clock.advance(days=-8)
    memory.remember_episode(
        scope="user/alice",
        title="Garden plan",
        summary="The user sketched an irrigation layout for the garden in Lyon.",
        messages=[Message(role="user", content="Where do the pipes go?")],
    )
    clock.advance(days=6)
    memory.remember_episode(
        scope="user/alice",
        title="Broken import",
        summary="The nightly import in Lyon failed again.",
        messages=[
            Message(role="user", content='It died again.\nThird time "this week".'),
            Message(role="assistant", content="Shall we stream it instead?"),
        ],
        surprise=0.9,
    )
    clock.advance(days=2)
    return memory


@pytest.fixture
def context(filled):
    return ToolContext(memory=filled, root="user/alice")


@pytest.fixture
def alice(clock, tmp_path):
    """What the memory tools work on: an empty memory, Alice's root, scopes allowed, a directory for exports."""
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        yield ToolContext(memory=memory, root="user/alice", allow_scopes=True, sync_directory=tmp_path)


@pytest.fixture
def keep():
    """Stores one memory as a tool does, in a scope relative to the root."""

    def keep(context, fact, *, scope=".", **fields):
        draft = SemanticMemory.new(scope=context.scope_named(scope), fact=fact, **{"origin": Origin.TOOL, **fields})
        return context.manager.add([draft])[0]

    return keep


@pytest.fixture
def small(clock):
    """An empty memory with one engine of each kind, for what does not depend on them."""
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, dense="exact") as memory:
        yield memory


@pytest.fixture
def tool(small):
    """Calls a tool in Alice's memory and gives the object it answers with, by response level."""
    toolbox = LocalToolbox(ToolContext(memory=small, root="user/alice"))
    return lambda name, **arguments: toolbox.call(name, arguments).artifact


@pytest.fixture
def plain_tool(small):
    """The same in the plain shape of specification §3.3, on which the conformance cases run."""
    toolbox = LocalToolbox(ToolContext(memory=small, root="user/alice", response_format="plain"))
    return lambda name, **arguments: toolbox.call(name, arguments).artifact


PLAIN_KEYS = ["id", "content", "similarity", "memory_tier", "tags", "created_at"]
"""The keys of a hit in the plain shape of specification §3.3."""

NEARNESS = {"one": 0.9, "two": 0.8, "three": 0.6, "four": 0.5, "five": 0.4, "apart": -0.5}
"""How near a text with this word is to every other question."""


def _vector(text):
    near = next((cosine for word, cosine in NEARNESS.items() if word in text), 1.0)
    return [near, (1 - near**2) ** 0.5]


def by_table(texts):
    return [_vector(text) for text in texts]


@pytest.fixture
def table(clock):
    """A toolbox over a memory whose vectors are those of the table."""
    with AgentMemory.in_memory(embedder=by_table, embedder_id="table", clock=clock, dense="exact") as memory:
        toolbox = LocalToolbox(ToolContext(memory=memory, root="user/alice", response_format="plain"))
        yield lambda name, **arguments: toolbox.call(name, arguments).artifact


def store(call, *contents, **arguments):
    return [call("memory_store", content=content, auto_associate=False, **arguments)["id"] for content in contents]


def contents(answer):
    return [hit["content"] for hit in answer["results"]]


def sync(context, operation, **arguments):
    return REGISTRY["memory_sync"].call(context, {"operation": operation, **arguments}).artifact


def exported(context, **arguments):
    return json.loads(sync(context, "export", **arguments)["data"])


def imported(context, document, **arguments):
    data = document if isinstance(document, str) else json.dumps(document)
    return sync(context, "import", data=data, response_level="full", **arguments)


def everything(context):
    """All memories and associations within a root, as they are stored."""
    manager = context.manager
    seen = MemoryFilter(scope=context.root, include_child_scopes=True, kinds="all", include_invalidated=True)
    memories = manager.select(seen)
    edges = {edge for memory in memories for edge in manager.associations_of(memory, within=context.root)}
    return sorted(memories, key=lambda each: (each.scope, each.id)), edges
