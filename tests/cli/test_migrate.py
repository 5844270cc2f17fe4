"""A store moves between a directory and a PostgreSQL database, whatever happens meanwhile, to the same bit."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime

import psycopg
import pytest

from memory_retrievers import AgentMemory, BackendError, Message, SemanticMemory
from memory_retrievers.backends.sql import removal
from memory_retrievers.cli.stores import Place, opened
from memory_retrievers.models import MemoryKey
from memory_retrievers.models.contents import MOVING
from memory_retrievers.models.results import PendingReview
from memory_retrievers.storage.export import PAGE
from memory_retrievers.storage.open import STORE_FILE
from memory_retrievers.testing import FixedClock, HashEmbedder, inside

pytestmark = pytest.mark.embedded("it moves stores out of directories, and back")

HASHED = "memory_retrievers.testing:HashEmbedder"
SCOPE = "user/ana"
NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)
MANY = 2 * PAGE

IN_A_PAGE = "memory_retrievers.backends.sql.keyword:PostingsKeywordIndex.add"
IN_THE_REST = "memory_retrievers.backends.sql.management:SQLManagement.associate"
BEFORE_THE_END = "memory_retrievers.storage.migrate:check"
IN_THE_END = "memory_retrievers.storage.maintenance:verify"
DYING = """
import functools, importlib, os, signal, sys
from memory_retrievers.cli import app

point, count, *arguments = sys.argv[1:]
module, _, names = point.partition(":")
*owners, name = names.split(".")
owner = functools.reduce(getattr, owners, importlib.import_module(module))
inner, left = getattr(owner, name), int(count)

def dying(*given, **named):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    return inner(*given, **named)

setattr(owner, name, dying)
app(arguments)
"""
"""A command that kills itself when something is called for the n-th time."""


@pytest.fixture(scope="module")
def store(tmp_path_factory, stock):
    """A directory with something of everything that a store holds, in more than two pages."""
    directory = tmp_path_factory.mktemp("migrate") / "store"
    clock = FixedClock(NOW)
    with AgentMemory.open(directory, embedder=HashEmbedder(), clock=clock) as memory:
        stock(memory, SCOPE)
        found = memory.manager.find("m3", root=SCOPE, scope=SCOPE)
        memory.manager.importance.set(found, score=0.9, reason="asked for every week")
        memory.remember_many(
            [SemanticMemory.new(scope=f"team/{n % 5}", id=f"n{n}", fact=f"Locker {n} is blue ☕") for n in range(MANY)]
        )
        memory.invalidate("n7", scope="team/2")
        memory.remember_fact(scope=SCOPE, id="a\x1fb", fact="A NUL\0 and a \x1a", metadata={"big": 2**80})
        memory.remember_episode(scope=SCOPE, id="e1", summary="They moved.", messages=[said("We move to Lyon")])
        memory.add_messages(SCOPE, [said("Hello"), said("Hello again")])
        ledger, key = inside(memory).ledger, MemoryKey(scope=SCOPE, id="e1")
        review = PendingReview(scope=SCOPE, query="who moved?", memories=(key,), created_at=NOW)
        ledger.add_pending_reviews([review, review], merge=False)
        ledger.conversations.take_reviews(SCOPE, conversation=[said("Indeed")], at=NOW)
        ledger.add_pending_reviews([review], merge=False)
    return directory


@pytest.fixture
def exported(run, tmp_path):
    """The bytes that a store is exported as."""

    def exported(place):
        (tmp_path / "export.jsonl").unlink(missing_ok=True)
        run("export", tmp_path / "export.jsonl", "--store", place)
        return (tmp_path / "export.jsonl").read_bytes()

    return exported


def said(text):
    return Message(role="user", content=text, timestamp=NOW)


def at(place, embedder=None, **named):
    return opened(Place.named(str(place)), embedder=embedder or HashEmbedder(), **named)


def killed(point, count, *arguments):
    """Run a command that dies on its way."""
    command = [sys.executable, "-c", DYING, point, str(count), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr


def reviews(place):
    """The reviews that are part of a job, with all of it, and those that wait for one."""
    with at(place) as memory:
        jobs = inside(memory).ledger.conversations.review_jobs(SCOPE)
        return [(job.reviewed_at, job.conversation, job.reviews) for job in jobs], memory.pending_reviews(SCOPE)


def test_a_store_moves_to_a_database_and_back_to_the_same_bytes(store, postgres_url, run, table, exported, tmp_path):
    before = exported(store)

    (counts,) = table(run("migrate", "--from", store, "--to", postgres_url))
    told = json.loads(run("migrate", "--from", postgres_url, "--to", tmp_path / "back", "--json"))

    kinds = {json.loads(line).get("type") for line in before.splitlines()}
    assert kinds >= {"memory", "pending_review", "review_job", "queue", "association", "audit", "character"}
    assert (counts["problems"], told["problems"]) == ("0", [])
    assert int(counts["memories"]) == told["memories"] > MANY
    assert exported(postgres_url) == exported(tmp_path / "back") == exported(store) == before
    jobs, waiting = reviews(store)
    assert (len(jobs), len(jobs[0][-1]), len(waiting)) == (1, 2, 1)
    assert reviews(postgres_url) == reviews(tmp_path / "back") == (jobs, waiting)


@pytest.mark.parametrize(
    ("point", "count", "there"),
    [(IN_A_PAGE, 2, PAGE), (IN_THE_REST, 1, ...), (IN_THE_END, 1, ...)],
)
def test_a_move_that_is_killed_goes_on_and_doubles_nothing(store, postgres_url, run, exported, point, count, there):
    killed(point, count, "migrate", "--from", store, "--to", postgres_url)

    with at(postgres_url) as memory, at(store, read_only=True) as source:
        counts, all_counts = memory.stats(), source.stats()
        assert inside(memory).ledger.notes()[MOVING]
    if there is not ...:
        assert counts.episodes + counts.facts + counts.invalidated_facts == there
    if point in {IN_A_PAGE, IN_THE_REST}:
        assert (counts.pending_reviews, counts.queued_messages) == (0, 0)
    else:
        assert counts == all_counts
    run("migrate", "--from", store, "--to", postgres_url)
    assert exported(postgres_url) == exported(store)
    assert reviews(postgres_url) == reviews(store)


def test_a_move_to_a_directory_that_is_killed_again_and_again_goes_on(store, run, exported, tmp_path):
    arguments = ("migrate", "--from", store, "--to", tmp_path / "copy")
    for point, count in ((IN_A_PAGE, 1), (IN_A_PAGE, 3), (IN_THE_REST, 1)):
        killed(point, count, *arguments)
    run(*arguments)
    assert exported(tmp_path / "copy") == exported(store)


def test_a_half_moved_store_is_named_and_not_copied_until_the_move_has_ended(store, run, ended, refused, tmp_path):
    half, moving = ("--store", tmp_path / "half"), ("migrate", "--from", store, "--to", tmp_path / "half")
    killed(IN_A_PAGE, 2, *moving)
    again = "a migrate into this store has not ended, .*: run the same migrate command again"
    with at(half[1]) as memory:
        (problem,) = memory.verify().problems
        assert re.match(again, problem)
    (finding,) = json.loads(ended("doctor", *half, "--json")[1])["findings"]
    assert re.match(again, f"{finding['what']}: {finding['remedy']}")
    for command in ("export", "backup"):
        assert re.search(again, refused(command, tmp_path / command, *half))
        assert not (tmp_path / command).exists()
    saved = int(run("export", tmp_path / "saved", *half, "--incomplete"))  # as if the old store were lost
    with AgentMemory.import_(tmp_path / "saved", into=tmp_path / "whole", embedder=HashEmbedder()) as memory:
        assert (memory.verify().ok, len(memory.verify().problems)) == (True, 0)
        assert 0 < memory.verify().memories == saved
    run(*moving)
    for command in ("export", "backup"):
        run(command, tmp_path / command, *half)
    assert json.loads(run("doctor", *half, "--json"))["findings"] == []


def test_a_store_is_only_moved_into_one_that_is_empty(store, postgres_url, refused, tmp_path, run):
    with at(postgres_url) as memory:
        memory.remember_fact(scope="user/ruth", fact="Ruth keeps bees")
    run("migrate", "--from", postgres_url, "--to", tmp_path / "copy")

    for target in (postgres_url, tmp_path / "copy"):
        assert "holds something already" in refused("migrate", "--from", store, "--to", target)
        assert run("scopes", "--store", target) == "user/ruth\n"
        with at(target) as memory:
            assert memory.verify().ok
            assert memory.stats().facts == 1


def test_a_store_is_only_moved_into_one_of_its_embedder(store, postgres_url, refused, run):
    with at(postgres_url, HashEmbedder(8), embedder_id="another") as memory:
        memory.forget(memory.remember_fact(scope="user/ruth", fact="Ruth keeps bees").id, scope="user/ruth")

    line = refused("migrate", "--from", store, "--to", postgres_url)
    assert "'another'" in line
    assert "'HashEmbedder'" in line
    assert run("scopes", "--store", postgres_url) == ""


def test_a_store_whose_own_move_has_not_ended_is_not_moved_on(store, refused, tmp_path):
    killed(IN_THE_REST, 1, "migrate", "--from", store, "--to", tmp_path / "copy")

    assert "end the move into it first" in refused("migrate", "--from", tmp_path / "copy", "--to", tmp_path / "next")


def test_a_store_that_somebody_else_has_open_is_not_moved(store, postgres_url, refused):
    with AgentMemory.open(store, embedder=HashEmbedder()):
        line = refused("migrate", "--from", store, "--to", postgres_url)
    assert f"is open in process {os.getpid()}" in line
    assert "end it first" in line


def test_what_is_no_store_is_not_moved_and_not_made_one(postgres_server, store, refused, tmp_path):
    url = postgres_server.url(postgres_server.create())

    for place in (url, tmp_path / "missing"):
        assert "there is no memory store at" in refused("migrate", "--from", place, "--to", tmp_path / "copy")
        assert "there is no memory store at" in refused("stats", "--store", place)
    assert not (tmp_path / "copy").exists()
    assert not (tmp_path / "missing").exists()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT to_regclass('notes')").fetchone() == (None,)
    assert "the same place" in refused("migrate", "--from", store, "--to", store / ".." / store.name)


def test_a_move_does_not_go_on_into_what_was_changed_meanwhile(store, tmp_path, refused):
    arguments = ("migrate", "--from", store, "--to", tmp_path / "copy")
    killed(IN_A_PAGE, 2, *arguments)
    with at(tmp_path / "copy") as memory:
        memory.update("n5", scope="team/0", fact="Locker 5 is red")

    line = refused(*arguments)
    assert "memory 'n5' in scope 'team/0'" in line
    assert "Locker" not in line


def test_what_differs_in_the_end_is_told_and_ends_with_one(store, postgres_url, ended, run):
    arguments = ("migrate", "--from", store, "--to", postgres_url)
    killed(BEFORE_THE_END, 1, *arguments)
    with at(postgres_url) as memory:
        memory.forget("n9", scope="team/4")
        memory.remember_fact(scope="team/9", id="new", fact="A new locker")
        memory.add_messages("user/ruth", [said("I am new")])
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            """UPDATE passage_contents SET vector = (SELECT vector FROM passage_contents WHERE text LIKE 'They moved%')
            WHERE text LIKE 'Locker 8 %'"""
        )

    code, output, error = ended(*arguments)
    assert (code, error) == (1, "")
    assert output.splitlines()[2:] == [
        "an entry of the log in scope 'team/4' is not the same in both stores",
        "an entry of the log in scope 'team/9' is not in the store moved from",
        "memory 'n8' in scope 'team/3' is not the same in both stores",
        "memory 'n9' in scope 'team/4' is missing in the store moved to",
        "memory 'new' in scope 'team/9' is not in the store moved from",
        "the queue in scope 'user/ruth' is not in the store moved from",
    ]


F1, E1 = "memory 'f1' in scope 'user/ana'", "memory 'e1' in scope 'user/ana'"
VECTOR = "UPDATE passage_contents SET vector = {} WHERE passage = 1"
INFINITE = VECTOR.format("CAST(x'0000807f' || substr(vector, 5) AS BLOB)")
OTHER_TEXT = "UPDATE passage_contents SET text = 'Bob knows the secret' WHERE passage = {}"
DAMAGE = [
    (INFINITE, F1, "has NaN or infinity in it"),
    (VECTOR.format("CAST(x'0000c07f' || substr(vector, 5) AS BLOB)"), F1, "has NaN or infinity in it"),
    (VECTOR.format("zeroblob(1024)"), F1, "has the length 0 instead of 1"),
    (VECTOR.format("CAST(x'00000040' || substr(vector, 5) AS BLOB)"), F1, "instead of 1"),
    (VECTOR.format("x'0000803f'"), F1, "has 1 numbers instead of 256"),
    (VECTOR.format("x'00'"), F1, "a stored vector is damaged"),
    (OTHER_TEXT.format(1), F1, "'semantic' has another text"),
    (OTHER_TEXT.format(2), E1, "'episodic' has another text"),
    (OTHER_TEXT.format(3), E1, "'turn 0' has another text"),
    ("UPDATE memories SET content = 'Bob knows the secret' WHERE id = 'f1'", F1, "'semantic' has another text"),
    ("UPDATE passages SET speaker = 'Mallory' WHERE id = 3", E1, "another text or speaker"),
    ("UPDATE passages SET part = 'turn 7' WHERE id = 3", E1, "'turn 7' is not a part of this memory"),
    ("DELETE FROM passages WHERE id = 3", E1, "others have none"),
    ("DELETE FROM passages WHERE id = 1", F1, "'semantic' is missing"),
    ("UPDATE memories SET tags = '[' WHERE id = 'f1'", F1, "cannot be read"),
    ("UPDATE memories SET tags = '[1]' WHERE id = 'f1'", F1, "a field has a value of another type"),
    ("UPDATE memories SET importance = 7 WHERE id = 'f1'", F1, "importance: Input should be less than"),
    ("UPDATE queued_messages SET content = ' '", "what waits in scope 'user/ana'", "is damaged"),
    ("UPDATE queued_messages SET timestamp = 'then'", "what waits in scope 'user/ana'", "is damaged"),
    ("UPDATE queued_messages SET id = ''", "the queue in scope 'user/ana'", "messages.0.id"),
]


@pytest.fixture
def damaged(tmp_path):
    """Make a small store, and damage it as nothing but a look at what it holds would notice."""

    def damaged(statement):
        with AgentMemory.open(tmp_path / "small", embedder=HashEmbedder(), keyword="sqlite_bm25") as memory:
            memory.remember_fact(scope=SCOPE, id="f1", fact="Ana lives in Lyon")
            messages = [said("We move to Lyon"), said("In May")]
            memory.remember_episode(scope=SCOPE, id="e1", summary="They moved.", messages=messages)
            memory.add_messages(SCOPE, [said("Hello")])
            with inside(memory).ledger.database.write() as connection:
                connection.execute(statement)
        return tmp_path / "small"

    return damaged


def nothing_is_in(place):
    with at(place) as memory:
        assert memory.scopes() == []
        assert MOVING not in inside(memory).ledger.notes()
    return True


@pytest.mark.parametrize(("statement", "name", "problem"), DAMAGE)
def test_what_no_import_would_take_is_named_and_nothing_is_moved(damaged, refused, tmp_path, statement, name, problem):
    source = damaged(statement)
    before = (source / STORE_FILE).read_bytes()

    line = refused("migrate", "--from", source, "--to", tmp_path / "copy")

    assert name in line
    assert problem in line
    assert "verify" in line or "backup" in line
    assert "secret" not in line
    assert nothing_is_in(tmp_path / "copy")
    assert (source / STORE_FILE).read_bytes() == before


def test_damage_is_named_before_a_database_is_filled_and_within_one(damaged, postgres_url, refused, run, tmp_path):
    source = damaged(INFINITE)
    assert F1 in refused("migrate", "--from", source, "--to", postgres_url)
    assert nothing_is_in(postgres_url)

    run("reembed", "--store", source, "--yes", "--embedder", HASHED)
    run("migrate", "--from", source, "--to", postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("UPDATE passage_contents SET text = 'Bob' WHERE text LIKE 'They moved%'")
    assert E1 in refused("migrate", "--from", postgres_url, "--to", tmp_path / "back")
    assert nothing_is_in(tmp_path / "back")


@pytest.mark.parametrize(
    ("statement", "mending"),
    [(INFINITE, ("reembed", "--yes")), (OTHER_TEXT.format(2), ("reindex",)), (OTHER_TEXT.format(3), ("reindex",))],
)
def test_a_store_that_was_mended_as_the_error_says_is_moved(
    damaged, refused, run, exported, tmp_path, statement, mending
):
    source = damaged(statement)
    arguments = ("migrate", "--from", source, "--to", tmp_path / "copy")
    assert mending[0] in refused(*arguments)

    run(*mending, "--store", source, "--embedder", HASHED)
    run(*arguments)

    assert exported(tmp_path / "copy") == exported(source)


def test_a_move_that_was_begun_looks_at_the_rest_before_it_goes_on(store, refused, tmp_path):
    source, copy = tmp_path / "source", tmp_path / "copy"
    with at(store, read_only=True) as memory:
        memory.backup(source)
    killed(IN_A_PAGE, 2, "migrate", "--from", source, "--to", copy)
    with at(copy) as memory:
        before = memory.stats()
    with at(source) as memory, inside(memory).ledger.database.write() as connection:
        connection.execute("UPDATE characters SET scope_id = scope_id, state = 'x'")

    assert "is damaged" in refused("migrate", "--from", source, "--to", copy)
    with at(copy) as memory:
        assert memory.stats() == before


def test_a_file_that_was_changed_behind_the_store_s_back_is_not_moved(damaged, refused, tmp_path):
    source = damaged("UPDATE memories SET importance = 0.5")
    connection = sqlite3.connect(source / STORE_FILE)
    connection.execute(INFINITE)
    connection.commit()
    connection.close()

    line = refused("migrate", "--from", source, "--to", tmp_path / "copy")
    assert "verify" in line
    assert nothing_is_in(tmp_path / "copy")


@pytest.mark.parametrize(("statement", "name", "problem"), DAMAGE[:5])
def test_a_vector_that_no_import_takes_is_not_exported(damaged, tmp_path, statement, name, problem):
    with at(damaged(statement)) as memory, pytest.raises(BackendError, match=f"{name} .*{problem}.* reembed"):
        memory.export(tmp_path / "export.jsonl")
    assert not (tmp_path / "export.jsonl").exists()


def test_what_a_scope_has_forgotten_moves_only_with_what_else_it_holds(tmp_path, run, exported, monkeypatch):
    monkeypatch.setattr(removal, "EMPTY_SCOPES", "FALSE")  # as earlier versions left it
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope="other", id="kept", fact="Alice likes tea")
        memory.remember_fact(scope="user", id="p", fact="Bob lives in Lyon")
        memory.remember_episode(scope="user/a", id="c", summary="A trip to Lyon")
        memory.retrieve("Lyon", scope="user", include_child_scopes=True)
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder()) as memory:
        memory.forget("p", scope="user")  # the review of the search keeps the scope, until its episode goes too
        memory.forget("c", scope="user/a")
        assert memory.events("user") != ()

    run("migrate", "--from", tmp_path / "store", "--to", tmp_path / "moved")

    assert exported(tmp_path / "moved") == exported(tmp_path / "store")
    with at(tmp_path / "moved") as memory:
        assert [each.id for each in memory.list("other")] == ["kept"]
