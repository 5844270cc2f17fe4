from datetime import timedelta

import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.models import SemanticDraft
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext, ToolPolicy

from .conftest import store

BAD = {"success": False, "error": True, "error_type": "ValidationError"}


def listed(answer):
    return [memory["content"] for memory in answer["memories"]]


def test_the_plain_answer_of_get_is_that_of_the_specification(plain_tool):
    (id,) = store(plain_tool, "A note", tags=["a"], metadata={"n": 1}, ttl_seconds=60)
    assert plain_tool("memory_get", id=id) == {
        "id": id,
        "content": "A note",
        "content_type": "text",
        "memory_tier": "long_term",
        "tags": ["a"],
        "metadata": {"n": 1},
        "created_at": "2026-03-01T09:00:00Z",
        "updated_at": "2026-03-01T09:00:00Z",
        "expires_at": "2026-03-01T09:01:00Z",
    }


@pytest.mark.parametrize("tool_name", ["memory_get", "memory_update", "memory_get_score", "memory_set_score"])
def test_an_unknown_id_is_the_worked_example(plain_tool, tool_name):
    arguments = {"score": 0.5} if tool_name == "memory_set_score" else {}
    assert plain_tool(tool_name, id="nope", **arguments) == {
        "error": True,
        "error_type": "NotFoundError",
        "message": "Memory not found: nope",
    }


def test_what_another_owner_has_is_as_unknown_as_anything(small, plain_tool):
    other = LocalToolbox(ToolContext(memory=small, root="user/bob"))
    id = other.call("memory_store", {"content": "Bob's secret"}).artifact["id"]
    for name in ("memory_get", "memory_update", "memory_get_score"):
        assert plain_tool(name, id=id)["message"] == f"Memory not found: {id}"
    assert plain_tool("memory_delete", id=id) == {"deleted_count": 0, "deleted_ids": []}
    assert plain_tool("memory_delete", ids=[id]) == {"deleted_count": 0, "deleted_ids": []}
    assert small.get(id, scope="user/bob").fact == "Bob's secret"


def test_an_id_that_nothing_has_deletes_nothing_and_is_told_where_ids_are(tool):
    id = tool("memory_store", content="The door code is 4711")["id"]
    answer = tool("memory_delete", id="The door code is 4711")
    assert answer["deleted_count"] == 0
    assert "response_level full" in answer.get("hint", "")
    assert "hint" not in tool("memory_delete", id="nope", response_level="minimal")
    assert "hint" not in tool("memory_delete", ids=["nope"])
    assert "hint" not in tool("memory_delete", id=id)


def test_get_sees_both_kinds_whatever_their_origin(small, plain_tool):
    fact = small.remember_fact(scope="user/alice", fact="User lives in Lyon")
    episode = small.remember_episode(scope="user/alice/work", summary="They met.")
    assert plain_tool("memory_get", id=fact.id)["content"] == "User lives in Lyon"
    assert plain_tool("memory_get", id=episode.id)["content"] == "They met."


def test_at_each_level_get_tells_more(tool):
    id = tool("memory_store", content="A note")["id"]
    minimal = tool("memory_get", id=id, response_level="minimal")
    assert minimal == {"success": True, "id": id}
    standard = tool("memory_get", id=id)
    assert set(standard) == {
        *("success", "id", "content", "content_type", "memory_tier"),
        *("tags", "metadata", "created_at", "updated_at"),
    }
    full = tool("memory_get", id=id, response_level="full")
    assert set(full) == {*standard, "scope", "category", "importance_score", "access_count", "last_accessed_at"} | {
        "associations"
    }
    assert full["access_count"] == 3


def test_a_list_is_newest_first_and_tells_the_total_before_paging(plain_tool, clock):
    """Case D30: pages disjoint."""
    for number in range(7):
        store(plain_tool, f"note {number}")
        clock.advance(minutes=1)
    first = plain_tool("memory_list", limit=3)
    assert list(first) == ["memories", "total", "limit", "offset"]
    assert list(first["memories"][0]) == ["id", "content", "content_type", "memory_tier", "tags", "created_at"]
    assert (listed(first), first["total"], first["limit"], first["offset"]) == (
        ["note 6", "note 5", "note 4"],
        7,
        3,
        0,
    )
    rest = [listed(plain_tool("memory_list", limit=3, offset=offset)) for offset in (3, 6, 9)]
    assert rest == [["note 3", "note 2", "note 1"], ["note 0"], []]
    assert (plain_tool("memory_list")["limit"], plain_tool("memory_list")["offset"]) == (50, 0)


def test_a_list_obeys_its_filters_and_its_moments_are_inclusive(plain_tool, clock):
    """Case D30: filters."""
    start = clock.now()
    for number, arguments in enumerate(
        [{"memory_tier": "working"}, {"tags": ["a", "b"]}, {"tags": ["b"]}, {"content_type": "code"}]
    ):
        store(plain_tool, f"note {number}", **arguments)
        clock.advance(hours=1)

    def found(**filters):
        return listed(plain_tool("memory_list", **filters))

    assert found(memory_tier="working") == ["note 0"]
    assert found(tags=["b"]) == ["note 2", "note 1"]
    assert found(tags=["b", "a"]) == ["note 1"]
    assert found(content_type="code") == ["note 3"]
    one, two = (start + timedelta(hours=hours) for hours in (1, 2))
    assert found(created_after=one.isoformat(), created_before=two.isoformat()) == ["note 2", "note 1"]
    assert found(created_after="2026-03-01T12:00:00Z") == ["note 3"]
    assert found(created_before="2026-03-01T10:00:00") == ["note 1", "note 0"]
    assert found(created_after="2026-03-02") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"limit": 0}, "limit must be between 1 and 1000"),
        ({"limit": 1_001}, "limit must be between 1 and 1000"),
        ({"offset": -1}, "offset must be >= 0"),
        ({"memory_tier": "x"}, "Invalid memory_tier: x. Must be one of: short_term, long_term, working"),
        ({"content_type": "x"}, "Invalid content_type: x. Must be one of: text, image, code, json, yaml"),
        ({"owner": "bob"}, "owner: Extra inputs are not permitted"),
        ({"tags": ["t"] * 101}, "Too many tags: 101, at most 100 are allowed"),
    ],
)
def test_what_is_wrong_with_a_list_is_told_in_one_sentence(tool, arguments, message):
    assert tool("memory_list", **arguments) == BAD | {"message": message}


def test_a_moment_that_is_none_is_refused(tool):
    assert tool("memory_list", created_after="yesterday")["error_type"] == "ValidationError"
    assert tool("memory_delete", older_than="long ago")["error_type"] == "ValidationError"


def test_an_offset_beyond_every_number_is_no_failure_of_the_store(tool):
    store(tool, "A note")
    answer = tool("memory_list", offset=10**30)
    assert (answer["memories"], answer["total"], answer["offset"]) == ([], 1, 10**30)


def test_at_each_level_a_list_tells_more(tool):
    store(tool, "A note")
    assert tool("memory_list", response_level="minimal") == {"success": True, "total": 1}
    standard = tool("memory_list")
    assert list(standard) == ["success", "total", "memories", "limit", "offset"]
    full = tool("memory_list", response_level="full")
    assert list(full) == list(standard)
    assert {"scope", "metadata", "importance_score"} <= set(full["memories"][0])


def test_listing_is_no_access(plain_tool):
    (id,) = store(plain_tool, "A note")
    plain_tool("memory_list")
    assert plain_tool("memory_get_score", id=id)["access_count"] == 0


def test_delete_by_id_takes_that_one_and_ignores_the_rest(plain_tool):
    """Case D30: by id; an id alone wins."""
    one, two = store(plain_tool, "one", "two")
    answer = plain_tool("memory_delete", id=one, ids=[two], memory_tier="long_term", older_than="2100-01-01")
    assert answer == {"deleted_count": 1, "deleted_ids": [one]}
    assert listed(plain_tool("memory_list")) == ["two"]


def test_delete_by_ids_counts_only_what_there_was(plain_tool):
    """Case D30: by ids."""
    one, two, _ = store(plain_tool, "one", "two", "three")
    assert plain_tool("memory_delete", ids=[two, "nope", one, two]) == {"deleted_count": 2, "deleted_ids": [two, one]}
    assert plain_tool("memory_delete", ids=[two]) == {"deleted_count": 0, "deleted_ids": []}
    assert plain_tool("memory_delete", id=two) == {"deleted_count": 0, "deleted_ids": []}
    assert plain_tool("memory_delete", ids=[]) == {"deleted_count": 0, "deleted_ids": []}


def test_delete_by_tier(plain_tool):
    """Case D30: by tier."""
    store(plain_tool, "one", "two", memory_tier="working")
    store(plain_tool, "three")
    assert plain_tool("memory_delete", memory_tier="working")["deleted_count"] == 2
    assert listed(plain_tool("memory_list")) == ["three"]


def test_delete_by_age_takes_what_is_strictly_older(plain_tool, clock):
    """Case D30: older_than; a moment to come deletes all, and the first that there is nothing."""
    store(plain_tool, "one")
    assert plain_tool("memory_delete", older_than="0001-01-01T00:00:00Z")["deleted_count"] == 0
    clock.advance(hours=1)
    store(plain_tool, "two")
    assert plain_tool("memory_delete", older_than="2026-03-01T10:00:00Z")["deleted_count"] == 1
    assert listed(plain_tool("memory_list")) == ["two"]
    assert plain_tool("memory_delete", older_than="2100-01-01T00:00:00Z")["deleted_count"] == 1
    assert plain_tool("memory_list")["total"] == 0


def test_all_conditions_of_a_delete_hold_together(plain_tool, clock):
    one, two = store(plain_tool, "one", "two", memory_tier="working")
    (three,) = store(plain_tool, "three")
    clock.advance(hours=1)
    (four,) = store(plain_tool, "four", memory_tier="working")
    answer = plain_tool(
        "memory_delete", ids=[one, three, four], memory_tier="working", older_than="2026-03-01T10:00:00Z"
    )
    assert answer["deleted_ids"] == [one]
    assert plain_tool("memory_list")["total"] == 3
    assert plain_tool("memory_get", id=two)["id"] == two


def test_a_delete_without_a_criterion_or_with_too_many_ids_is_refused(tool):
    store(tool, "one")
    message = "Say what to delete: give id, ids, message, memory_tier or older_than"
    assert tool("memory_delete") == BAD | {"message": message}
    message = "Too many ids: 1001, at most 1000 are allowed"
    assert tool("memory_delete", ids=["x"] * 1_001) == BAD | {"message": message}
    assert tool("memory_list")["total"] == 1


def test_a_delete_leaves_no_trace(plain_tool, small):
    one, two = (plain_tool("memory_store", content=f"Nightly backups run at {hour}")["id"] for hour in ("two", "three"))
    plain_tool("memory_delete", id=one)
    assert plain_tool("memory_get", id=one)["error_type"] == "NotFoundError"
    for mode in ("semantic", "keyword", "hybrid"):
        found = plain_tool("memory_search", query="backups at two", search_mode=mode)["results"]
        assert one not in [hit["id"] for hit in found]
    left = small.get(two, scope="user/alice")
    assert small.manager.associations_of(left, within="user/alice") == []


def test_a_delete_by_condition_spares_what_no_tool_has_stored(small, tool):
    small.remember_fact(scope="user/alice", fact="User lives in Lyon")
    small.remember_episode(scope="user/alice", summary="They met.")
    store(tool, "A note")
    assert tool("memory_delete", memory_tier="long_term")["deleted_count"] == 1
    assert small.stats("user/alice").facts + small.stats("user/alice").episodes == 2
    narrow = LocalToolbox(ToolContext(memory=small, root="user/alice", kinds="tool", deletes="all"))
    assert narrow.call("memory_delete", {"memory_tier": "long_term"}).artifact["deleted_count"] == 0
    host = LocalToolbox(ToolContext(memory=small, root="user/alice", deletes="all"))
    assert host.call("memory_delete", {"memory_tier": "long_term"}).artifact["deleted_count"] == 2


def test_a_delete_by_id_sees_both_kinds(small, plain_tool):
    fact = small.remember_fact(scope="user/alice", fact="User lives in Lyon")
    episode = small.remember_episode(scope="user/alice", summary="They met.")
    assert plain_tool("memory_delete", ids=[fact.id, episode.id])["deleted_count"] == 2


def test_at_each_level_a_delete_tells_more(tool):
    one, two = store(tool, "one", "two")
    assert tool("memory_delete", id=one, response_level="minimal") == {
        "success": True,
        "deleted_count": 1,
        "deleted_ids": [one],
    }
    full = tool("memory_delete", id=two, response_level="full")
    assert [item["content"] for item in full["affected_items"]] == ["two"]


def test_an_id_of_several_scopes_deletes_nothing_and_asks_which_is_meant():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        for scope, id in (("r/a", "twice"), ("r/b", "twice"), ("r", "once")):
            memory.remember_many([SemanticDraft(scope=scope, id=id, fact=f"{id} of {scope}")])
        toolbox = LocalToolbox(ToolPolicy(root="r").context(memory, scope="r"))
        for arguments in ({"id": "twice"}, {"ids": ["twice", "once"]}):
            answer = toolbox.call("memory_delete", arguments)
            assert (answer.is_error, "name the one meant" in answer.content) == (True, True)
        assert memory.stats().facts == 3
