"""What a search asks the database, on every backend."""

from contextlib import contextmanager

import pytest

from memory_retrievers import AgentMemory, Message
from memory_retrievers.testing import HashEmbedder, inside

SCOPE = "user/ines"
MOST = 4
"""State of the scope, forgetting, memories, and whether the vectors are still those of the embedder."""


@contextmanager
def statements(memory, monkeypatch):
    """What the connections of a memory execute meanwhile."""
    with inside(memory).ledger.database.read() as connection:
        kind = type(connection)
    said, execute = [], kind.execute

    def noted(self, sql, *parameters):
        said.append(" ".join(sql.split()))
        return execute(self, sql, *parameters)

    with monkeypatch.context() as patched:
        patched.setattr(kind, "execute", noted)
        yield said


class Embedder(HashEmbedder):
    """Does what is to happen while it embeds a question, once."""

    def __init__(self):
        super().__init__()
        self.meanwhile = []

    def embed_query(self, text):
        if self.meanwhile:
            self.meanwhile.pop()()
        return super().embed_query(text)


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


def test_a_question_for_which_the_embedder_is_asked_reads_the_state_once_more(filled, monkeypatch):
    filled.retrieve("which pier for boat 3?", scope=SCOPE)
    with statements(filled, monkeypatch) as said:
        filled.retrieve("which boat was late?", scope=SCOPE)
    assert len(said) <= MOST + 1, said
    assert len([each for each in said if "queued_messages" in each]) == 2


def test_what_is_told_while_a_question_is_embedded_is_found(filled, meanwhile):
    meanwhile.append(lambda: filled.remember_fact(scope=SCOPE, fact="Ada mends nets"))
    found = filled.retrieve("who mends nets?", scope=SCOPE)
    assert "Ada mends nets" in [hit.memory.fact for hit in found.semantic]
