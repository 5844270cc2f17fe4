"""Whatever happens to the file of a store that is closed, answers are right or there is a named error."""

import contextlib
import json
import random
import shutil
import sqlite3
import subprocess
import sys

import pytest
from patience import PATIENCE

from memory_retrievers import AgentMemory, BackendError, MemoryRetrieversError, Message
from memory_retrievers.models import SemanticDraft
from memory_retrievers.storage.open import STORE_FILE
from memory_retrievers.testing import HashEmbedder

SCOPES = ("c0", "c1", "c2")
PAGE = 4096


def opened(store, clock, **given):
    return AgentMemory.open(store, embedder=HashEmbedder(), clock=clock, dense="exact", **given)


@pytest.fixture
def filled(tmp_path, clock):
    store, words = tmp_path / "store", random.Random(1)
    with opened(store, clock) as memory:
        memory.remember_many(
            [
                SemanticDraft(scope=SCOPES[n % 3], id=f"f{n}", fact=_sentence(words), tags=("tea", "garden"))
                for n in range(90)
            ]
        )
        for n in range(20):
            memory.remember_episode(scope=SCOPES[n % 3], summary=_sentence(words), id=f"e{n}")
        memory.add_messages("c0", [Message(role="user", content=f"hello {n}") for n in range(5)])
    return store


def _sentence(words):
    return " ".join(f"word{words.randrange(100)}" for _ in range(12))


def answers(store, clock):
    """What a reader is told: by search, by page, by id, by count."""
    told = []
    with opened(store, clock, read_only=True) as memory:
        for scope in SCOPES:
            for query in ("word3 word9", "word50 word71 word99"):
                found = memory.retrieve(query, scope=scope)
                told += [(hit.memory.id, hit.score, hit.memory.model_dump_json()) for hit in found.episodic]
                told += [(hit.memory.id, hit.score, hit.memory.model_dump_json()) for hit in found.semantic]
            told.append(repr(memory.list(scope=scope, limit=100)))
        told += [memory.get(f"f{n}", scope=SCOPES[n % 3]).model_dump_json() for n in range(0, 90, 7)]
        told += [str(memory.stats()), memory.scopes()]
    return json.dumps(told)


def damaged(content, seed):
    """One bit, twenty bits, a page of zeros, or a piece of something else."""
    chance, content = random.Random(seed), bytearray(content)
    kind = seed % 4
    if kind < 2:
        for _ in range(20 if kind else 1):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    else:
        length = PAGE if kind == 2 else 64
        at = chance.randrange(len(content) // length) * length
        content[at : at + length] = bytes(length) if kind == 2 else chance.randbytes(length)
    return bytes(content)


def test_a_damaged_file_gives_right_answers_or_a_named_error(filled, clock):
    whole, content = answers(filled, clock), (filled / STORE_FILE).read_bytes()
    wrong = {}
    for seed in range(80):
        (filled / STORE_FILE).write_bytes(damaged(content, seed))
        try:
            if answers(filled, clock) != whole:
                wrong[seed] = "another answer"
        except MemoryRetrieversError:
            pass
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            wrong[seed] = repr(error)
    assert wrong == {}


def test_damage_is_told_to_writers_readers_and_copies_and_one_can_go_on_all_the_same(filled, clock, tmp_path):
    with opened(filled, clock) as memory:
        memory.backup(tmp_path / "copy")
    for store in (filled, tmp_path / "copy"):
        content = (store / STORE_FILE).read_bytes()
        (store / STORE_FILE).write_bytes(content.replace(b"word3", b"word4", 1))
        for given in ({}, {"read_only": True}):
            with pytest.raises(BackendError, match=r"is not as it was when it was closed.*remove memory\.db-sum"):
                opened(store, clock, **given)
        (store / f"{STORE_FILE}-sum").unlink()
        with opened(store, clock) as memory:
            assert memory.stats().facts == 90
        with opened(store, clock) as memory:  # it has been noted anew
            assert memory.stats().facts == 90
        assert (store / f"{STORE_FILE}-sum").exists()


KILLED = """
import os, sys
from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder
memory = AgentMemory.open(sys.argv[1], embedder=HashEmbedder(), dense="exact")
assert memory.stats().facts == 90
print(os.path.exists(sys.argv[1] + "/memory.db-sum"))
memory.remember_fact(scope="c0", fact="User lives in Lyon")
print(os.path.exists(sys.argv[1] + "/memory.db-sum"), flush=True)
os._exit(0)
"""


def test_a_store_that_was_killed_after_it_was_written_is_not_taken_for_damaged(filled, clock):
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", KILLED, filled], capture_output=True, text=True, timeout=PATIENCE)
        assert done.stdout.splitlines()[-1] == "False", done.stderr
        with contextlib.closing(sqlite3.connect(filled / STORE_FILE)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("DELETE FROM memories WHERE content LIKE '%Lyon%'")
            connection.commit()
        with opened(filled, clock) as memory:
            assert memory.stats().facts == 90


def test_what_another_program_has_written_and_not_closed_is_there(filled, clock):
    with contextlib.closing(sqlite3.connect(filled / STORE_FILE, isolation_level=None)) as other:
        other.execute("UPDATE memories SET title = 'by another program' WHERE row = 1")
        assert (filled / f"{STORE_FILE}-wal").stat().st_size > 0
        with opened(filled, clock) as memory:
            assert memory.stats().facts == 90


def test_a_copy_that_is_put_over_a_store_whose_process_was_killed_does_not_get_its_latest_changes(
    filled, clock, tmp_path
):
    with opened(filled, clock) as memory:
        memory.backup(tmp_path / "copy")
    done = subprocess.run([sys.executable, "-c", KILLED, filled], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.splitlines()[-1] == "False", done.stderr
    shutil.copytree(tmp_path / "copy", filled, dirs_exist_ok=True)  # with the times of the copy
    for given in ({}, {"read_only": True}):
        with pytest.raises(BackendError, match=r"a copy was put in its place\. Remove memory\.db-wal"):
            opened(filled, clock, **given)
    for name in ("wal", "shm"):
        (filled / f"{STORE_FILE}-{name}").unlink()
    for _ in range(2):
        with opened(filled, clock) as memory:
            assert memory.stats().facts == 90
            assert memory.verify().ok


@pytest.mark.parametrize(
    ("statement", "call"),
    [
        ("UPDATE memories SET tags = '[' WHERE id = 'f0'", lambda memory: memory.get("f0", scope="c0")),
        ("UPDATE memories SET tier = 'mood' WHERE id = 'f0'", lambda memory: memory.list(scope="c0")),
        ("UPDATE memories SET created_at = 'x' WHERE id = 'f0'", lambda memory: memory.get("f0", scope="c0")),
        ("UPDATE memories SET metadata = '{' WHERE id = 'e0'", lambda memory: memory.recent(scope="c0")),
        ("UPDATE passage_contents SET vector = x'00'", lambda memory: memory.retrieve("word3", scope="c0")),
        ("UPDATE passage_contents SET vector = 'text'", lambda memory: memory.retrieve("word3", scope="c0")),
        (
            "INSERT INTO pending_reviews (scope_id, query, memories, created_at) SELECT id, 'q', '[', 0 FROM scopes",
            lambda memory: memory.pending_reviews("c0"),
        ),
    ],
)
def test_a_record_that_is_damaged_while_the_store_is_open_is_a_named_error(filled, clock, statement, call):
    with opened(filled, clock) as memory:
        with contextlib.closing(sqlite3.connect(filled / STORE_FILE)) as other:
            other.execute(statement)
            other.commit()
        with pytest.raises(BackendError, match=r"damaged.*verify.*restore"):
            call(memory)
