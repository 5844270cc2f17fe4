"""A store from before conversations had names: what waits in it goes on in the conversation without one."""

import sqlite3

import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.backends.postgres import migrations
from memory_retrievers.backends.sqlite.schema import MIGRATIONS
from memory_retrievers.storage.open import STORE_FILE
from memory_retrievers.testing import HashEmbedder, inside

VERSION = 7
"""The schema of the file before."""

ROWS = (
    "INSERT INTO scopes (id, scope) VALUES (1, 'c'), (2, 'empty')",
    """INSERT INTO queues (scope_id, fence, fenced_messages, fenced_at, window_doubled, previous_summary)
        VALUES (1, 'whose', 2, 5000000, TRUE, 'They had tea.'), (2, NULL, NULL, NULL, FALSE, 'Nothing waits.')""",
    """INSERT INTO queued_messages (scope_id, id, role, content, timestamp)
        VALUES (1, 'm1', 'user', 'I moved to Nantes.', 1000000), (1, 'm2', 'user', 'And then?', 7000000)""",
)


def check(memory):
    state = inside(memory).ledger.conversations.state("c")
    assert (state.messages, state.window_doubled, state.previous_summary) == (2, True, "They had tea.")
    assert (state.heard_at.timestamp(), state.leased_at) == (7, None)
    assert list(inside(memory).ledger.conversations.states()) == [("c", None)]
    (found,) = memory.retrieve("Nantes", scope="c").episodic
    assert found.memory.is_open
    (episode,) = memory.flush("c").episodes
    assert (len(episode.messages), episode.conversation_id) == (2, None)
    memory.forget(episode.id, scope="c")
    assert memory.verify().ok


@pytest.mark.embedded("it makes a file by hand")
def test_a_file_is_brought_up_to_date_with_what_waits(tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    old = sqlite3.connect(store / STORE_FILE, isolation_level=None)
    for statement in (*(each for migration in MIGRATIONS[:VERSION] for each in migration), *ROWS):
        old.execute(statement)
    old.execute(f"PRAGMA user_version = {VERSION}")
    old.close()
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        check(memory)


@pytest.mark.embedded("it has a server of its own")
def test_a_database_is_brought_up_to_date_with_what_waits(server, name, url, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(migrations, "MIGRATIONS", migrations.MIGRATIONS[:2])
        AgentMemory.connect(url, embedder=HashEmbedder()).close()
    for statement in ROWS:
        server.run(statement, database=name)
    with AgentMemory.connect(url, embedder=HashEmbedder()) as memory:
        check(memory)
