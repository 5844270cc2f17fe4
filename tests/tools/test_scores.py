import pytest

from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext

BAD = {"success": False, "error": True, "error_type": "ValidationError"}


@pytest.fixture
def id(plain_tool):
    return plain_tool("memory_store", content="A note")["id"]


def test_a_new_memory_has_half_the_importance_and_no_access(plain_tool, id):
    """Case D27: new .5/0/null."""
    assert plain_tool("memory_get_score", id=id) == {
        "success": True,
        "memory_id": id,
        "importance_score": 0.5,
        "access_count": 0,
        "last_accessed_at": None,
    }


def test_asking_for_the_score_is_no_access(plain_tool, id):
    for _ in range(3):
        assert plain_tool("memory_get_score", id=id)["access_count"] == 0


@pytest.mark.parametrize(
    ("accesses", "days", "score"),
    [
        (1, 0, 0.604),
        (12, 0, 0.648),
        (12, 30, 0.2687),
        (1, 60, 0.0852),
        (50, 15, 0.5639),
        (100, 0, 1.0),
        (200, 90, 0.4299),
    ],
)
def test_importance_follows_accesses_and_the_days_since(plain_tool, clock, id, accesses, days, score):
    """The examples of §3.5; case D27: 100 accesses then recompute > .8, last access 60 d ago < .3."""
    for _ in range(accesses):
        plain_tool("memory_get", id=id)
    clock.advance(days=days)
    answer = plain_tool("memory_get_score", id=id)
    assert (answer["importance_score"], answer["access_count"]) == (score, accesses)
    assert answer["last_accessed_at"] == "2026-03-01T09:00:00Z"


def test_a_score_set_by_hand_stays_whatever_happens(plain_tool, clock, id):
    """Case D27: set .9 → previous .5."""
    answer = plain_tool("memory_set_score", id=id, score=0.9, reason="It matters")
    assert answer == {"success": True, "memory_id": id, "previous_score": 0.5, "new_score": 0.9}
    plain_tool("memory_get", id=id)
    clock.advance(days=100)
    assert plain_tool("memory_get_score", id=id)["importance_score"] == 0.9
    assert plain_tool("memory_set_score", id=id, score=0.1)["previous_score"] == 0.9


def test_the_reason_is_kept_in_the_audit(plain_tool, small, id):
    plain_tool("memory_set_score", id=id, score=0.9, reason="It matters")
    plain_tool("memory_set_score", id=id, score=0.2)
    entries = small.manager.audit(small.get(id, scope="user/alice"))
    assert [(entry.old, entry.new, entry.reason) for entry in entries] == [
        (0.5, 0.9, "It matters"),
        (0.9, 0.2, "Manual override"),
    ]


def test_nothing_is_a_score_too(plain_tool, id):
    plain_tool("memory_set_score", id=id, score=0.0)
    assert plain_tool("memory_get_score", id=id)["importance_score"] == 0.0


@pytest.mark.parametrize("score", [1.5, -0.1, float("nan"), float("inf")])
def test_a_score_outside_its_range_is_rejected(tool, id, score):
    """Case D27: 1.5 and −.1 rejected."""
    assert tool("memory_set_score", id=id, score=score) == BAD | {"message": "score must be between 0.0 and 1.0"}
    assert tool("memory_get_score", id=id)["importance_score"] == 0.5


def test_a_score_that_is_no_number_or_is_missing_is_rejected(tool, id):
    assert tool("memory_set_score", id=id, score="high")["error_type"] == "ValidationError"
    assert tool("memory_set_score", id=id)["message"] == "score: Field required"


@pytest.mark.parametrize("arguments", [{"name": "memory_get_score"}, {"name": "memory_set_score", "score": 0.5}])
def test_an_unknown_memory_has_no_score(tool, arguments):
    """Case D27: unknown id NotFound."""
    answer = tool(**arguments, id="nope")
    assert (answer["error_type"], answer["message"]) == ("NotFoundError", "Memory not found: nope")


def test_both_kinds_have_a_score(small, plain_tool):
    episode = small.remember_episode(scope="user/alice", summary="They met.")
    assert plain_tool("memory_set_score", id=episode.id, score=0.7)["new_score"] == 0.7
    assert small.get(episode.id, scope="user/alice").importance == 0.7


def test_another_owners_score_is_neither_told_nor_set(small, tool):
    other = LocalToolbox(ToolContext(memory=small, root="user/bob"))
    id = other.call("memory_store", {"content": "x"}).artifact["id"]
    assert tool("memory_set_score", id=id, score=1.0)["error_type"] == "NotFoundError"
    assert small.get(id, scope="user/bob").importance == 0.5


def test_at_each_level_a_score_tells_more(tool, id):
    assert tool("memory_get_score", id=id, response_level="minimal") == {"success": True, "memory_id": id}
    assert list(tool("memory_get_score", id=id)) == ["success", "memory_id", "importance_score", "access_count"]
    full = tool("memory_get_score", id=id, response_level="full")
    assert full["memory_object"]["content"] == "A note"
    assert tool("memory_set_score", id=id, score=0.1, response_level="minimal") == {"success": True, "memory_id": id}
    assert list(tool("memory_set_score", id=id, score=0.2)) == ["success", "memory_id", "previous_score", "new_score"]
    assert tool("memory_set_score", id=id, score=0.3, response_level="full")["memory_object"]["importance_score"] == 0.3
