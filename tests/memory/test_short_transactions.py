"""No embedder, model, hook or vector database is waited for inside a write transaction, which holds up all others."""

import threading
import time

import pytest

from memory_retrievers import AgentMemory, EpisodicMemory, Message, SemanticMemory
from memory_retrievers.backends.chroma.collection import ChromaProjection
from memory_retrievers.backends.sql import keyword
from memory_retrievers.models.storage import HELD_UNTIL
from memory_retrievers.storage import embedder as storage_embedder
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
        self.asked_of_chroma = set()

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


class Model:
    """A language model that has an answer to everything, and notes what it is asked for."""

    def __init__(self, embedder):
        self.embedder, self.asked = embedder, set()

    def generate(self, system, user, schema):
        self.embedder.look(schema.__name__)
        self.asked.add(schema.__name__)
        segment = {"num_messages": 10, "title": "Birds", "summary": "Ana counts birds.", "surprise_level": "high"}
        fact = {"action": "new", "category": "identity", "fact": f"Ana counts birds, {len(self.asked)}."}
        ratings = [{"memory_id": "M1", "rating": "good"}]
        return schema.model_validate({"segments": [segment] * 3, "facts": [fact], "ratings": ratings})


@pytest.fixture
def model(embedder):
    return Model(embedder)


@pytest.fixture
def memory(embedder, model, clock, tmp_path, dense, monkeypatch):
    def hook(record):
        embedder.look(record)
        return record

    def watched(name):
        method = getattr(ChromaProjection, name)

        def call(self, *given, **more):
            embedder.look(name)
            embedder.asked_of_chroma.add(name)
            return method(self, *given, **more)

        return call

    for name in ("open", "create", "put", "remove", "count", "search", "destroy"):
        monkeypatch.setattr(ChromaProjection, name, watched(name))
    with AgentMemory.open(
        tmp_path / "store", embedder=embedder, clock=clock, before_store=hook, dense=dense, language_model=model
    ) as memory:
        embedder.memory = memory
        yield memory
        embedder.memory = None  # it is closed now, where nothing is written


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


def live_some_days(memory, call):
    for day in range(4):
        memory.add_messages(SCOPE, say(30))
        memory.process_due()
        memory.retrieve("How many birds has Ana counted?", scope=SCOPE)
        memory.add_messages(SCOPE, [Message(role="user", content=f"It rained on day {day}") for _ in range(3)])
        memory.flush(SCOPE)
        call("memory_store", content=f"Ana likes bird number {day}")


class New(Watching):
    """Another embedder, beside which somebody writes each time before its first texts of a page are embedded."""

    def __init__(self, memory, *, writes):
        super().__init__()
        self.memory, self.writes, self.threads = memory, writes, []

    def embed_documents(self, texts):
        if self.writes:
            self.writes -= 1
            number = self.writes
            said = {"scope": SCOPE, "fact": f"Ana has seen bird {number}"}
            self.threads.append(threading.Thread(target=self.memory.remember_fact, kwargs=said))
            self.threads[-1].start()
            if len(self.threads) == 1:  # nobody is held yet
                self.threads[-1].join()
        return super().embed_documents(texts)


def test_nothing_slow_is_waited_for_inside_a_transaction_of_reembed_beside_writers(memory):
    memory.remember_fact(scope=SCOPE, fact="Ana lives in Lyon")
    new = New(memory, writes=2)
    memory.reembed(new, embedder_id="new")
    assert len(new.threads) == 2
    for thread in new.threads:
        thread.join()
    assert new.inside_a_transaction == []
    assert memory.stats(SCOPE).facts == 3
    assert HELD_UNTIL not in inside(memory).ledger.notes()
    assert memory.verify().problems == ()


def test_the_words_of_what_is_stored_are_counted_before_the_transaction(memory, monkeypatch):
    with monkeypatch.context() as within:
        within.setattr(keyword, "analyze", lambda text: pytest.fail(f"{text} is analyzed while others wait"))
        memory.remember_fact(scope=SCOPE, fact="Ana counts owls")
        said = [Message(role="user", content="I saw herons")]
        memory.remember_episode(scope=SCOPE, summary="Ana was at the lake.", messages=said)
    (fact,) = memory.retrieve("owls", scope=SCOPE).semantic
    (episode,) = memory.retrieve("herons", scope=SCOPE).episodic
    assert fact.explanation.bm25_rank == episode.explanation.bm25_rank == 1
    assert memory.verify().problems == ()


def test_who_holds_writers_and_never_comes_back_holds_them_for_a_while_only(memory, monkeypatch):
    embedder = inside(memory).store.embedder
    monkeypatch.setattr(storage_embedder, "HELD", 0.3)
    memory.remember_fact(scope=SCOPE, fact="Ana lives in Lyon")
    embedder.hold_writers()
    held_until = float(inside(memory).ledger.notes()[HELD_UNTIL])
    assert len(memory.retrieve("Lyon", scope=SCOPE).semantic) == 1  # who searches does not wait
    memory.remember_fact(scope=SCOPE, fact="Ana likes tea")
    assert held_until <= time.time()
    assert memory.stats(SCOPE).facts == 2


@pytest.mark.parametrize("write", [write_by_the_memory, store_by_tools, change_by_tools, live_some_days])
def test_nothing_slow_is_waited_for_inside_a_transaction(memory, embedder, model, dense, clock, write):
    tools = LocalToolbox(ToolPolicy().context(memory, scope=SCOPE))

    def call(name, **arguments):
        clock.advance(days=2)
        output = tools.call(name, arguments)
        assert not output.is_error, output
        return output.artifact

    write(memory, call)
    assert embedder.calls
    assert embedder.inside_a_transaction == []
    if write is live_some_days:
        assert model.asked == {"SegmentationAnswer", "ConsolidationAnswer", "ReviewAnswer"}
        assert embedder.asked_of_chroma >= ({"put", "search"} if dense == "chroma" else set())
