"""What a search asks the database, on every backend."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import numpy as np
import pytest
from kept import kept_snapshots

from memory_retrievers import AgentMemory, Message
from memory_retrievers.backends.sql import snapshots
from memory_retrievers.models.management import Association, AssociationType, AuditEntry, AuditType, MemoryFilter
from memory_retrievers.models.selection import Embedded
from memory_retrievers.testing import HashEmbedder, inside

SCOPE = "user/ines"
MOST = 4
"""State of the scope, forgetting, memories, and whether the vectors are still those of the embedder."""


@contextmanager
def statements(memory, monkeypatch, before=lambda: None):
    """What this thread's connections execute meanwhile; ``before`` is called before each statement."""
    with inside(memory).ledger.database.read() as connection:
        kind = type(connection)
    said, execute, thread = [], kind.execute, threading.get_ident()

    def noted(self, sql, *parameters):
        if threading.get_ident() == thread:
            before()
            said.append(" ".join(sql.split()))
        return execute(self, sql, *parameters)

    with monkeypatch.context() as patched:
        patched.setattr(kind, "execute", noted)
        yield said


class Embedder(HashEmbedder):
    """Does what is to happen while it embeds a question, once; gives a vector for each token."""

    id = "hash-statements"

    def __init__(self):
        super().__init__()
        self.meanwhile = []

    def embed_query(self, text):
        if self.meanwhile:
            self.meanwhile.pop()()
        return np.array(super().embed_query(text), np.float32)

    def embed_documents(self, texts):
        return np.array(super().embed_documents(texts), np.float32).reshape(len(texts), 256)

    def embed_tokens(self, texts, *, is_query=False):
        embed = self.embed_query if is_query else super().embed_query
        return [self._with_tokens(embed(text), text) for text in texts]

    @staticmethod
    def _with_tokens(vector, text):
        words = tuple(text.casefold().split())
        tokens = b"".join(
            np.random.default_rng(list(word.encode())).integers(-9, 9, 8).astype(np.int8) for word in words
        )
        return Embedded(np.array(vector, np.float32), tokens, words)


@pytest.fixture
def embedder():
    return Embedder()


@pytest.fixture
def meanwhile(embedder):
    return embedder.meanwhile


@pytest.fixture
def filled(tmp_path, embedder):
    with AgentMemory.open(tmp_path / "store", embedder=embedder) as memory:
        for number in range(6):
            memory.remember_fact(scope=SCOPE, fact=f"The boat {number} lands at pier {number}")
            memory.remember_episode(
                scope=SCOPE,
                summary=f"Boat {number} was late and the price of cod was discussed.",
                messages=[Message(role="user", content=f"Boat {number} is late")],
            )
        yield memory


def test_a_warm_search_asks_at_most_four_things(filled, monkeypatch):
    first = filled.retrieve("which pier for boat 3?", scope=SCOPE)
    with statements(filled, monkeypatch) as said:
        again = filled.retrieve("which pier for boat 3?", scope=SCOPE)
    assert len(said) <= MOST, said
    ids = [[hit.memory.id for hit in (*found.semantic, *found.episodic)] for found in (first, again)]
    assert ids[0] == ids[1] != []
    assert "tokens" in again.episodic[0].explanation.stages


def test_what_no_question_has_been_measured_by_is_read_by_one_statement_more(filled, monkeypatch):
    filled.retrieve("which pier for boat 3?", scope=SCOPE)
    for snapshot in kept_snapshots(inside(filled).ledger):
        snapshot.attached.clear()
    with statements(filled, monkeypatch) as said:
        filled.retrieve("which pier for boat 3?", scope=SCOPE)
    assert len(said) <= MOST + 1, said
    assert len([each for each in said if "tokens" in each]) == 1


@pytest.mark.parametrize(("at_once", "states"), [(0.0, 2), (10.0, 1)], ids=["a slow embedder", "a fast one"])
def test_a_question_for_which_the_embedder_takes_its_time_reads_the_state_once_more(
    filled, monkeypatch, at_once, states
):
    monkeypatch.setattr("memory_retrievers.storage.store._AT_ONCE", at_once)
    filled.retrieve("which pier for boat 3?", scope=SCOPE)
    with statements(filled, monkeypatch) as said:
        filled.retrieve("which boat was late?", scope=SCOPE)
    assert len(said) <= MOST - 1 + states, said
    assert len([each for each in said if "queued_messages" in each]) == states


def test_what_is_told_while_a_question_is_embedded_is_found(filled, meanwhile):
    meanwhile.append(lambda: filled.remember_fact(scope=SCOPE, fact="Ada mends nets"))
    found = filled.retrieve("who mends nets?", scope=SCOPE)
    assert "Ada mends nets" in [hit.memory.fact for hit in found.semantic]


def all_of(memory):
    """The ids of all memories, as a search finds them."""
    found = memory.retrieve("boat", scope=SCOPE, semantic_limit=100, episodic_limit=100, record=False)
    return sorted(hit.memory.id for hit in (*found.semantic, *found.episodic))


@pytest.mark.parametrize("few", [snapshots._FEW, 0], ids=["by texts", "by postings"])
@pytest.mark.parametrize("is_cold", [True, False], ids=["cold", "behind"])
def test_updates_between_all_statements_of_a_search_hide_nothing(filled, monkeypatch, is_cold, few):
    monkeypatch.setattr(snapshots, "_FEW", few)
    there, texts = all_of(filled), iter(range(10**6))
    found = filled.retrieve("boat 2", scope=SCOPE)
    fact, episode = found.semantic[0].memory.id, found.episodic[0].memory.id

    def update():
        filled.update(fact, scope=SCOPE, fact=f"The boat sails at {next(texts)}")
        filled.update(episode, scope=SCOPE, summary=f"The boat sailed at {next(texts)}")

    update()
    if is_cold:
        inside(filled).ledger.snapshots.forget(None)
    with (
        ThreadPoolExecutor(1) as writer,
        statements(filled, monkeypatch, lambda: writer.submit(update).result()) as said,
    ):
        assert all_of(filled) == there
    assert len(said) > MOST
    assert all_of(filled) == there


@pytest.mark.parametrize("few", [snapshots._FEW, 0], ids=["by texts", "by postings"])
@pytest.mark.parametrize("is_cold", [True, False], ids=["cold", "behind"])
def test_nor_of_one_in_a_transaction_that_has_not_locked_its_scope(filled, monkeypatch, is_cold, few):
    """On disk nobody else writes meanwhile, and the update comes before."""
    monkeypatch.setattr(snapshots, "_FEW", few)
    there, texts = all_of(filled), iter(range(10**6))
    fact = filled.retrieve("boat 2", scope=SCOPE).semantic[0].memory.id

    def update():
        filled.update(fact, scope=SCOPE, fact=f"The boat sails at {next(texts)}")

    update()
    if is_cold:
        inside(filled).ledger.snapshots.forget(None)
    ledger = inside(filled).ledger
    with ledger.database.read() as connection:
        others_write = connection.dialect.keyed_by_scope
    with (
        ThreadPoolExecutor(1) as writer,
        statements(filled, monkeypatch, lambda: writer.submit(update).result() if others_write else None) as said,
        ledger.database.write("somebody/else"),
    ):
        assert all_of(filled) == there
    assert len(said) > MOST
    assert all_of(filled) == there


def keys_of(memory):
    return [each.key for each in memory.manager.select(MemoryFilter(scope=SCOPE, kinds="all"))]


def test_ten_associations_are_stored_by_few_statements(filled, monkeypatch):
    it, *others = keys_of(filled)
    edges = [
        Association(
            source=it,
            target=other,
            type=AssociationType.SIMILAR,
            strength=0.5,
            auto_generated=True,
            created_at=filled.now(),
        )
        for other in others
    ]
    with statements(filled, monkeypatch) as said:
        assert filled.manager.associate(edges) == len(edges) > 9
    assert len([each for each in said if each.startswith(("SELECT", "INSERT"))]) <= 5, said


def test_accesses_of_ten_memories_are_looked_up_and_spaced_at_once(filled, monkeypatch):
    now, keys = filled.now(), keys_of(filled)[:10]
    entries = [AuditEntry(memory=key, type=AuditType.SEARCH, at=now, old=0.1, new=0.2) for key in keys]
    with statements(filled, monkeypatch) as said:
        assert inside(filled).ledger.management.note(entries, spacing=timedelta(seconds=9)) == len(keys) == 10
        assert inside(filled).ledger.management.note(entries, spacing=timedelta(seconds=9)) == 0
    assert len([each for each in said if each.startswith("SELECT")]) <= 4, said


def test_a_page_of_a_wide_tree_is_two_statements(filled, monkeypatch):
    filled.remember_many([{"scope": f"boat/{n:03}/crew", "fact": "It has three oars"} for n in range(60)])
    filled.remember_many([{"scope": f"boat/{n:03}", "fact": "It has two oars"} for n in range(0, 60, 2)])
    overview = inside(filled).ledger.overview
    with statements(filled, monkeypatch) as said:
        page = overview.children("boat", after=None, limit=30)
    assert [(each.scope, each.facts, each.below) for each in page] == [
        (f"boat/{n:03}", 1 - n % 2, 1) for n in range(30)
    ]
    assert len([each for each in said if each.startswith("SELECT")]) <= 4, said
    assert [each.scope for each in overview.children("boat", after="boat/029", limit=2)] == ["boat/030", "boat/031"]
