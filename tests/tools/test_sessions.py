from concurrent.futures import ThreadPoolExecutor

import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.errors import ValidationError
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.tools.registry import REGISTRY
from memory_retrievers.tools.tool import ToolContext


def manage(context, action, **arguments):
    return REGISTRY["session_manage"].call(context, {"action": action, **arguments}).artifact


def sessions(context):
    return {each["session_id"]: each for each in manage(context, "list")["session_info"]["sessions"]}


def test_a_new_session_at_each_level(alice):
    minimal = manage(alice, "create", session_id="a", response_level="minimal")
    assert minimal == {"success": True, "session_id": "a"}
    assert manage(alice, "create", session_id="b") == {
        "success": True,
        "session_id": "b",
        "session_info": {
            "session_id": "b",
            "scope": "session/b",
            "memory_count": 1,
            "created_at": "2026-03-01T09:00:00Z",
            "last_activity": "2026-03-01T09:00:00Z",
        },
        "action_summary": "Session created: b",
    }
    full = manage(alice, "create", session_id="c", response_level="full")
    (marker,) = full["affected_memories"]
    assert full["session_details"]["tags"] == ["session", "marker"]
    stored = alice.memory.get(marker, scope="user/alice/session/c")
    assert (stored.fact, stored.tags) == ("Session created: c", ("session", "marker"))


def test_a_session_without_a_name_is_called_by_its_time(alice):
    assert manage(alice, "create")["session_id"] == "session-20260301-090000"
    assert manage(alice, "create")["session_id"] == "session-20260301-090000-2"
    assert manage(alice, "create")["session_id"] == "session-20260301-090000-3"


def test_a_session_that_is_there_stays_as_it_is(alice):
    manage(alice, "create", session_id="a")
    again = manage(alice, "create", session_id="a", response_level="full")
    assert again["action_summary"] == "Session exists already: a"
    assert again["affected_memories"] == []
    assert again["session_info"]["memory_count"] == 1


def test_sessions_are_listed_with_what_they_hold(alice, keep, clock):
    manage(alice, "create", session_id="b")
    clock.advance(hours=1)
    manage(alice, "create", session_id="a")
    clock.advance(hours=1)
    keep(alice, "work in progress", scope="session/b/deeper")
    keep(alice, "elsewhere", scope="sessions/x")
    keep(alice, "no session", scope="session")
    assert manage(alice, "list") == {
        "success": True,
        "session_info": {
            "session_count": 2,
            "sessions": [
                {
                    "session_id": "a",
                    "memory_count": 1,
                    "created_at": "2026-03-01T10:00:00Z",
                    "last_activity": "2026-03-01T10:00:00Z",
                },
                {
                    "session_id": "b",
                    "memory_count": 2,
                    "created_at": "2026-03-01T09:00:00Z",
                    "last_activity": "2026-03-01T11:00:00Z",
                },
            ],
        },
        "action_summary": "2 sessions",
    }
    assert manage(alice, "list", response_level="minimal") == {"success": True}
    full = manage(alice, "list", response_level="full")
    assert [each["scope"] for each in full["session_details"]["sessions"]] == ["session/a", "session/b"]
    assert full["affected_memories"] == []


def test_a_cleanup_removes_what_is_older_than_a_week_from_sessions_only(alice, keep, clock):
    keep(alice, "old", id="old", scope="session/a")
    keep(alice, "old too", id="old too", scope="session/b")
    keep(alice, "old, but no session", id="kept", scope="work")
    keep(alice, "old, above sessions", id="above", scope="session")
    clock.advance(days=1)
    keep(alice, "exactly as old as the limit", id="limit", scope="session/b")
    clock.advance(days=7)
    answer = manage(alice, "cleanup", response_level="full")
    assert answer["cleanup_stats"] == {
        "cleaned_count": 2,
        "cleaned_sessions": ["a", "b"],
        "cutoff_date": "2026-03-02T09:00:00Z",
    }
    assert sorted(answer["affected_memories"]) == ["old", "old too"]
    assert answer["session_info"] == {"session_count": 1, "cleaned_count": 2}
    assert answer["action_summary"] == "Removed 2 memories of 2 sessions"
    assert list(sessions(alice)) == ["b"]
    assert alice.memory.get("kept", scope="user/alice/work")
    assert alice.memory.get("above", scope="user/alice/session")


def test_a_cleanup_can_be_of_one_session_and_of_any_age(alice, clock):
    manage(alice, "create", session_id="a")
    manage(alice, "create", session_id="b")
    clock.advance(seconds=1)
    manage(alice, "cleanup", session_id="a", max_age_days=0)
    assert list(sessions(alice)) == ["b"]


def test_a_cleanup_of_nothing_removes_nothing(alice):
    manage(alice, "create", session_id="a")
    answer = manage(alice, "cleanup", response_level="full")
    assert answer["cleanup_stats"]["cleaned_count"] == 0
    assert answer["cleanup_stats"]["cleaned_sessions"] == []
    assert list(sessions(alice)) == ["a"]


def test_an_unknown_action_is_named(alice):
    with pytest.raises(ValidationError, match=r"^Unknown action: explode\."):
        manage(alice, "explode")


@pytest.mark.parametrize("session_id", ["..", ".", "a/b", "../x", " a", "a\n", "x" * 201])
@pytest.mark.parametrize("action", ["create", "list", "cleanup"])
def test_no_session_leads_out_of_its_place(alice, action, session_id):
    with pytest.raises(ValidationError):
        manage(alice, action, session_id=session_id)
    assert sessions(alice) == {}


@pytest.mark.parametrize("days", [-1, 36_501, 10**30])
def test_an_age_outside_its_bounds_is_refused(alice, days):
    with pytest.raises(ValidationError, match="max_age_days"):
        manage(alice, "cleanup", max_age_days=days)


def test_sessions_of_another_root_are_neither_seen_nor_cleaned(alice, clock):
    bob = ToolContext(memory=alice.memory, root="user/bob")
    manage(bob, "create", session_id="secret")
    clock.advance(days=30)
    assert "secret" not in repr(manage(alice, "list", response_level="full"))
    assert manage(alice, "cleanup", response_level="full")["cleanup_stats"]["cleaned_count"] == 0
    assert list(sessions(bob)) == ["secret"]


def test_a_cleanup_leaves_what_tools_did_not_store(alice, clock):
    alice.memory.remember_fact(scope="user/alice/session/a", fact="learned in a conversation", id="learned")
    clock.advance(days=30)
    manage(alice, "cleanup")
    assert alice.memory.get("learned", scope="user/alice/session/a")


def test_sessions_created_in_the_same_second_are_different_ones(tmp_path, clock):
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), clock=clock) as memory:
        context = ToolContext(memory=memory, root="user/alice")
        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(lambda _: manage(context, "create")["session_id"], range(16)))
        assert len(set(made)) == 16
        assert {each["memory_count"] for each in sessions(context).values()} == {1}
