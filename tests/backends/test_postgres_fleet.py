"""Several processes on one PostgreSQL server that is killed under them lose nothing; the long form is a benchmark."""

import fleet
import fleet_account
import pytest
from fleet_process import RATED
from postgres_server import running_postgres

from memory_retrievers import AgentMemory, Message
from memory_retrievers.testing import HashEmbedder

SAID = ["p0 1 tea", "p0 2 key", "p0 3 lamp"]


def test_processes_that_share_scopes_lose_and_double_nothing_when_the_server_is_killed():
    with running_postgres() as server:
        kinds = {"messages", "fact", "update", "forget", "retrieve", "review"}
        figures, problems = fleet.run(server, seconds=4, processes=4, kills=1, kinds=kinds)
    assert problems == []
    assert figures["failed with the server"] > 0
    worked = ("messages", "facts", "updates", "forgotten", "retrievals", "reviews by hand", "episodes")
    assert all(figures[each] > 0 for each in worked), figures


@pytest.fixture
def journal():
    """What a process says that it did, all of it true."""
    return [
        {"did": "messages", "ok": True, "scope": "team", "texts": SAID},
        {"did": "fact", "ok": True, "scope": "team", "fact": "f1", "text": "old"},
        {"did": "update", "ok": True, "scope": "team", "fact": "f1", "text": "new"},
        {"did": "review", "ok": True, "id": "rated-0"},
    ]


@pytest.fixture
def rested():
    """A store that holds what the journal tells of, and has nothing left to do."""
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        memory.add_messages("team", [Message(role="user", content=text) for text in SAID])
        memory.flush("team")
        memory.remember_fact(scope="team", fact="new", id="f1")
        yield memory


def told(memory, journal, reviews=((RATED, "rated-0", 1, 1),)):
    return "\n".join(fleet_account.problems(memory, [journal], reviews))


def test_the_account_of_a_store_that_lost_nothing_is_empty(rested, journal):
    assert told(rested, journal) == ""
    unsure = {"did": "update", "ok": False, "scope": "team", "fact": "f1", "text": "newer"}
    assert told(rested, [*journal, unsure]) == ""


def test_the_account_names_a_message_that_is_lost_doubled_or_out_of_order(rested, journal):
    assert "'p0 4 key'] only []" in told(
        rested, [*journal, {"did": "messages", "ok": True, "scope": "team", "texts": ["p0 4 key"]}]
    )
    assert "in the order [2, 1, 0]" in told(rested, [journal[0] | {"texts": SAID[::-1]}, *journal[1:]])
    assert "'p0 1 tea' was never said" in told(rested, [journal[0] | {"texts": SAID[1:]}, *journal[1:]])
    assert "a part is there: ['p0 1 tea']" in told(
        rested, [journal[0] | {"texts": SAID[1:]}, {**journal[0], "ok": False, "texts": [SAID[0], "x"]}, *journal[1:]]
    )
    rested.remember_episode(scope="team", summary="again", messages=[Message(role="user", content=SAID[0])])
    assert "'p0 1 tea' is in 2 episodes" in told(rested, journal)


def test_the_account_names_a_fact_a_review_and_a_forgotten_fact_that_are_not_as_acknowledged(rested, journal):
    assert "f1 says 'new' and should say one of ['old']" in told(rested, [*journal[:2], journal[3]])
    forgotten = {"did": "forget", "ok": True, "scope": "team", "fact": "f1"}
    assert "f1 says 'new' and should say one of ['None']" in told(rested, [*journal, forgotten])
    assert "counted 2 times" in told(rested, journal, [(RATED, "rated-0", 1, 2)])
    assert "was reviewed 1 times (perhaps 0 more) and counted 0" in told(rested, journal, [])
    assert "has 1 acknowledged reviews, of which 0 count" in told(
        rested, [*journal, {"did": "process", "ok": True, "reviews": [["team", "e1"]]}]
    )


def test_the_account_names_what_still_waits_and_a_process_that_ended(rested, journal):
    rested.add_messages("late", [Message(role="user", content="hello")])
    assert "late still waits" in told(rested, journal)
    assert "a process ended: Traceback" in told(rested, [*journal, {"did": "error", "told": "Traceback ..."}])
