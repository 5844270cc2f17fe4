import pytest

from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext

from .conftest import store

BAD = {"success": False, "error": True, "error_type": "ValidationError"}


def test_the_plain_answer_is_that_of_the_specification(plain_tool, clock):
    (id,) = store(plain_tool, "A note")
    clock.advance(minutes=1)
    answer = plain_tool("memory_update", id=id, tags=["x"])
    assert answer == {"id": id, "updated": True, "updated_at": "2026-03-01T09:01:00Z"}


def test_a_new_content_is_found_and_the_old_one_no_longer(plain_tool):
    (id,) = store(plain_tool, "apple pie")
    plain_tool("memory_update", id=id, content="banana bread")
    assert plain_tool("memory_get", id=id)["content"] == "banana bread"
    assert plain_tool("memory_search", query="apple", search_mode="keyword")["total"] == 0
    (hit,) = plain_tool("memory_search", query="banana bread")["results"]
    assert hit["similarity"] > 0.5


def test_who_changes_or_reads_a_fact_that_has_ended_is_told_so(tool, small):
    (id,) = store(tool, "User works at Acme")
    assert not {"invalid_at", "hint"} & (tool("memory_get", id=id) | tool("memory_update", id=id, tags=["x"])).keys()
    small.invalidate(id, scope="user/alice")
    answer = tool("memory_update", id=id, content="User works at Initech")
    assert "not recalled" in answer["hint"]
    assert answer["invalid_at"] == tool("memory_get", id=id)["invalid_at"] == "2026-03-01T09:00:00Z"


def test_tags_are_replaced_and_metadata_is_merged(plain_tool):
    (id,) = store(plain_tool, "A note", tags=["a", "b"], metadata={"one": 1, "two": {"deep": 2}})
    plain_tool("memory_update", id=id, tags=["c"], metadata={"two": 3, "three": None})
    got = plain_tool("memory_get", id=id)
    assert (got["tags"], got["metadata"]) == (["c"], {"one": 1, "two": 3, "three": None})
    plain_tool("memory_update", id=id, tags=[])
    assert plain_tool("memory_get", id=id)["tags"] == []


def test_without_a_field_nothing_is_updated(plain_tool, clock):
    (id,) = store(plain_tool, "A note")
    clock.advance(minutes=1)
    assert plain_tool("memory_update", id=id, content=None) == {
        "id": id,
        "updated": False,
        "updated_at": "2026-03-01T09:00:00Z",
    }


def test_what_is_promoted_to_long_term_lives_on(plain_tool, clock):
    """Case D30: promotion."""
    (id,) = store(plain_tool, "A note", memory_tier="short_term", ttl_seconds=60)
    plain_tool("memory_update", id=id, memory_tier="long_term")
    clock.advance(minutes=2)
    got = plain_tool("memory_get", id=id)
    assert (got["memory_tier"], got["expires_at"]) == ("long_term", None)


@pytest.mark.parametrize("tier", ["working", "short_term"])
def test_any_other_change_of_tier_touches_nothing_else(plain_tool, tier):
    """Case D30: demotion."""
    (id,) = store(plain_tool, "A note", ttl_seconds=60)
    plain_tool("memory_update", id=id, memory_tier=tier)
    got = plain_tool("memory_get", id=id)
    assert (got["memory_tier"], got["expires_at"]) == (tier, "2026-03-01T09:01:00Z")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"content": "  "}, "Content cannot be empty"),
        ({"content": "x" * 1_000_001}, "Content is too long: 1000001 characters, at most 1000000 are allowed"),
        ({"memory_tier": "x"}, "Invalid memory_tier: x. Must be one of: short_term, long_term, working"),
        ({"tags": ["t"] * 101}, "Too many tags: 101, at most 100 are allowed"),
        (
            {"metadata": {"more": "y" * 999_980}},
            "metadata is too large: 1000002 bytes of JSON, at most 1000000 are allowed",
        ),
        ({"metadata": {"a": float("inf")}}, "metadata must be JSON: NaN, infinity and endless nesting are not"),
        ({"category": "note"}, "category: Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence_and_nothing_changes(tool, arguments, message):
    (id,) = store(tool, "A note", metadata={"had": 1})
    before = tool("memory_get", id=id)
    assert tool("memory_update", id=id, **arguments) == BAD | {"message": message}
    assert tool("memory_get", id=id) == before


def test_an_episodes_content_cannot_be_updated_but_its_labels_can(small, tool):
    episode = small.remember_episode(scope="user/alice", summary="They met.")
    answer = tool("memory_update", id=episode.id, content="They did not.")
    assert answer["error_type"] == "ValidationError"
    assert "episode" in answer["message"]
    assert tool("memory_update", id=episode.id, tags=["x"])["updated"] is True
    assert small.get(episode.id, scope="user/alice").tags == ("x",)


def test_at_each_level_an_update_tells_more(tool):
    (id,) = store(tool, "A note")
    assert tool("memory_update", id=id, tags=["a"], response_level="minimal") == {"success": True, "id": id}
    assert list(tool("memory_update", id=id, tags=["b"])) == ["success", "id", "updated", "updated_at"]
    full = tool("memory_update", id=id, tags=["c"], response_level="full")
    assert full["memory_object"]["tags"] == ["c"]


def test_ten_updates_at_once(plain_tool):
    """Case D26: 10 tag replacements."""
    ids = store(plain_tool, *(f"note {number}" for number in range(10)), tags=["old"])
    answer = plain_tool("memory_batch_update", updates=[{"id": id, "tags": ["new"]} for id in ids])
    assert answer == {"success": True, "updated_count": 10, "updated_ids": ids, "errors": []}
    assert {tuple(plain_tool("memory_get", id=id)["tags"]) for id in ids} == {("new",)}


def test_a_batch_of_contents_is_indexed_anew(plain_tool):
    """Case D26: a content change re-indexes."""
    ids = store(plain_tool, "apple pie", "apple tart")
    plain_tool("memory_batch_update", updates=[{"id": id, "content": f"banana {id}"} for id in ids])
    assert plain_tool("memory_search", query="apple", search_mode="keyword")["total"] == 0
    assert plain_tool("memory_search", query="banana", search_mode="keyword")["total"] == 2


def bad_batch(ids):
    return [{"id": ids[0], "tags": ["new"]}, {"id": "nonexistent", "tags": ["new"]}, {"id": ids[1], "tags": ["new"]}]


@pytest.mark.parametrize(("on_error", "updated"), [("rollback", []), ("stop", [0]), ("continue", [0, 1])])
def test_an_unknown_id_in_a_batch_does_what_was_asked_for(plain_tool, on_error, updated):
    """Case D26: [ok, nonexistent, ok] with continue updates two, and the error names the id."""
    ids = store(plain_tool, "one", "two", tags=["old"])
    answer = plain_tool("memory_batch_update", updates=bad_batch(ids), on_error=on_error)
    error = {
        "index": 1,
        "id": "nonexistent",
        "error_type": "NotFoundError",
        "message": "Memory not found: nonexistent",
    }
    expected = [ids[position] for position in updated]
    assert answer == {
        "success": False,
        "updated_count": len(expected),
        "updated_ids": expected,
        "errors": [error],
    }
    assert [id for id in ids if plain_tool("memory_get", id=id)["tags"] == ["new"]] == expected


def test_two_changes_of_one_memory_are_made_one_after_the_other(plain_tool):
    (id,) = store(plain_tool, "one", metadata={"a": 1})
    answer = plain_tool(
        "memory_batch_update",
        updates=[{"id": id, "metadata": {"b": 2}}, {"id": id, "metadata": {"c": 3}, "content": "two"}],
    )
    assert answer["updated_ids"] == [id, id]
    got = plain_tool("memory_get", id=id)
    assert (got["content"], got["metadata"]) == ("two", {"a": 1, "b": 2, "c": 3})


def test_a_rollback_undoes_also_what_was_written_for_a_second_change(plain_tool):
    (id,) = store(plain_tool, "one")
    answer = plain_tool(
        "memory_batch_update",
        updates=[{"id": id, "content": "two"}, {"id": id, "content": "three"}, {"id": id, "content": " "}],
    )
    assert (answer["updated_count"], answer["updated_ids"], answer["errors"][0]["index"]) == (0, [], 2)
    assert plain_tool("memory_get", id=id)["content"] == "one"
    assert plain_tool("memory_search", query="one", search_mode="keyword")["total"] == 1
    assert plain_tool("memory_search", query="two", search_mode="keyword")["total"] == 0


def test_an_element_without_a_field_changes_and_counts_nothing(plain_tool):
    (id,) = store(plain_tool, "one")
    assert plain_tool("memory_batch_update", updates=[{"id": id}]) == {
        "success": True,
        "updated_count": 0,
        "updated_ids": [],
        "errors": [],
    }


@pytest.mark.parametrize(
    "element", [None, 5, "id", [], {}, {"id": 7}, {"id": "x", "colour": 1}, {"id": "x", "scope": "user/bob"}]
)
def test_an_element_that_does_not_fit_is_an_error_of_its_own(tool, element):
    answer = tool("memory_batch_update", updates=[element], on_error="continue")
    assert (answer["success"], answer["updated_count"]) == (False, 0)
    assert answer["errors"][0]["error_type"] == "ValidationError"


@pytest.mark.parametrize(("count", "word"), [(0, "empty"), (101, "maximum")])
def test_a_batch_of_nothing_or_of_too_much_is_refused(tool, count, word):
    answer = tool("memory_batch_update", updates=[{"id": "x"}] * count, response_level="full")
    assert answer["error_type"] == "ValidationError"
    assert word in answer["message"]
    assert answer["details"] == {"updates_count": count}


def test_a_batch_changes_what_anyone_has_stored_unless_the_host_narrows_the_tools(small, tool):
    fact = small.remember_fact(scope="user/alice", fact="User lives in Lyon")
    update = {"id": fact.id, "tags": ["x"]}
    narrow = LocalToolbox(ToolContext(memory=small, root="user/alice", kinds="tool"))
    refused = narrow.call("memory_batch_update", {"updates": [update]}).artifact
    assert refused["errors"][0]["message"] == f"Memory not found: {fact.id}"
    assert tool("memory_batch_update", updates=[update])["success"] is True


def test_at_the_full_level_a_batch_shows_what_the_memories_have_become(tool):
    ids = store(tool, "one", "two")
    answer = tool("memory_batch_update", updates=[{"id": id, "tags": ["x"]} for id in ids], response_level="full")
    assert [memory["tags"] for memory in answer["memory_objects"]] == [["x"], ["x"]]
    minimal = tool("memory_batch_update", updates=[{"id": ids[0], "tags": ["y"]}], response_level="minimal")
    assert list(minimal) == ["success", "updated_count", "updated_ids", "errors"]
