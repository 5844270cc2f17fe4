import pytest

from memory_retrievers.errors import NotFoundError, ValidationError
from memory_retrievers.models.management import Association, AssociationType
from memory_retrievers.tools.registry import REGISTRY, LocalToolbox
from memory_retrievers.tools.responses import MOST_ASSOCIATIONS
from memory_retrievers.tools.store import auto_associate
from memory_retrievers.tools.tool import ToolContext


def manage(context, operation, memory_id="m1", **arguments):
    spec = REGISTRY["memory_manage"]
    return spec.call(context, {"operation": operation, "memory_id": memory_id, **arguments}).artifact


def fact(context, id="m1", scope="."):
    return context.memory.get(id, scope=context.scope_named(scope))


def test_get_at_each_level(alice, keep):
    keep(alice, "y" * 120, id="m1", scope="work", tags=["ops"], metadata={"k": 1})
    keep(alice, "y" * 120 + " x", id="m2", scope="work")
    auto_associate(alice, fact(alice, scope="work"))
    assert manage(alice, "get", response_level="minimal") == {"success": True, "exists": True}
    assert manage(alice, "get") == {
        "success": True,
        "exists": True,
        "memory": {"id": "m1", "scope": "work", "content_preview": "y" * 100 + "..."},
    }
    full = manage(alice, "get", response_level="full")
    assert full["memory"]["content"] == "y" * 120
    assert full["metadata"] == {"k": 1}
    assert "associations" not in full["memory"]  # which said [] beside them
    (edge,) = full["associations"]
    assert (edge["source_id"], edge["target_id"], edge["scope"]) == ("m1", "m2", "work")
    assert (edge["association_type"], edge["auto_generated"]) == ("semantic", True)


def test_getting_counts_an_access(alice, keep):
    keep(alice, "a", id="m1")
    assert manage(alice, "get", response_level="full")["memory"]["access_count"] == 1
    assert manage(alice, "get", response_level="full")["memory"]["access_count"] == 2


def test_a_miss_is_an_answer_at_minimal_and_an_error_otherwise(alice):
    arguments = {"operation": "get", "memory_id": "m9"}
    toolbox = LocalToolbox(alice)
    assert toolbox.call("memory_manage", arguments | {"response_level": "minimal"}).content == (
        '{"success":true,"exists":false}'
    )
    missed = '{"success":false,"error":true,"error_type":"NotFoundError","message":"Memory not found: m9"}'
    for level in ("standard", "full"):
        assert toolbox.call("memory_manage", arguments | {"response_level": level}).content == missed
    with pytest.raises(NotFoundError, match=r"^Memory not found: m9$"):
        manage(alice, "delete", "m9", response_level="minimal")


def test_an_update_at_each_level(alice, keep, clock):
    keep(alice, "old", id="m1", metadata={"a": 1, "b": 1}, tags=["x"])
    clock.advance(minutes=1)
    assert manage(alice, "update", content="new", response_level="minimal") == {"success": True}
    assert manage(alice, "update", tags=["y"], metadata={"b": 2}) == {
        "success": True,
        "affected_count": 1,
        "summary": "Updated tags, metadata",
    }
    full = manage(alice, "update", category="goal", response_level="full")
    assert full["affected_items"][0]["content"] == "new"
    assert full["change_details"] == {
        "operation": "update",
        "changed_fields": ["category"],
        "scope_before": ".",
        "updated_at": "2026-03-01T09:01:00Z",
    }
    now = fact(alice)
    assert (now.fact, now.tags, now.metadata, str(now.category)) == ("new", ("y",), {"a": 1, "b": 2}, "goal")


def test_an_update_of_nothing_changes_nothing(alice, keep, clock):
    before = keep(alice, "old", id="m1")
    clock.advance(minutes=1)
    answer = manage(alice, "update", response_level="full")
    assert (answer["affected_count"], answer["affected_items"]) == (0, [])
    assert fact(alice) == before


def test_an_update_can_move(alice, keep):
    keep(alice, "old", id="m1")
    answer = manage(alice, "update", content="new", scope="work", response_level="full")
    assert answer["affected_items"][0]["scope"] == "work"
    assert fact(alice, scope="work").fact == "new"
    with pytest.raises(NotFoundError):
        fact(alice)


def test_an_update_that_cannot_move_changes_nothing_at_all(alice, keep):
    keep(alice, "old", id="m1")
    keep(alice, "in the way", id="m1", scope="work")
    with pytest.raises(ValidationError):
        manage(alice, "update", content="new", scope="work")
    assert fact(alice).fact == "old"
    assert fact(alice, scope="work").fact == "in the way"


def test_a_new_text_is_what_is_found(alice, keep):
    keep(alice, "the zinnia blooms", id="m1")
    manage(alice, "update", content="the harbour crane")
    found = REGISTRY["memory_search"].call(alice, {"query": "harbour crane", "min_similarity": 0.5}).artifact
    assert [each["id"] for each in found["results"]] == ["m1"]


def test_a_deletion_at_each_level(alice, keep):
    for id in ("m1", "m2", "m3"):
        keep(alice, f"the nightly backup of the database runs {id}", id=id)
    auto_associate(alice, fact(alice, "m3"))
    assert manage(alice, "delete", "m1", response_level="minimal") == {"success": True}
    assert manage(alice, "delete", "m2") == {"success": True, "affected_count": 1, "summary": "Deleted m2"}
    full = manage(alice, "delete", "m3", response_level="full")
    assert full["affected_items"][0]["id"] == "m3"
    assert full["change_details"] == {"operation": "delete", "associations_removed": 0}
    assert alice.memory.list("user/alice").memories == ()


def test_an_unknown_operation_is_named(alice):
    with pytest.raises(ValidationError, match=r"^Invalid operation: explode\. Must be one of: get, update, delete$"):
        manage(alice, "explode")


def test_both_kinds_are_seen_but_the_content_of_an_episode_stays(alice):
    alice.memory.remember_episode(scope="user/alice", summary="They met in Lyon.", messages=[], id="m1")
    assert manage(alice, "get")["memory"]["content_preview"] == "They met in Lyon."
    with pytest.raises(ValidationError, match="episode"):
        manage(alice, "update", content="They met in Paris.")
    manage(alice, "update", tags=["travel"])
    assert fact(alice).tags == ("travel",)
    manage(alice, "delete")
    assert manage(alice, "get", response_level="minimal")["exists"] is False


def test_an_id_in_several_scopes_is_found_where_one_says(alice, keep):
    keep(alice, "one", id="m1", scope="a")
    keep(alice, "two", id="m1", scope="b")
    with pytest.raises(ValidationError, match="several scopes"):
        manage(alice, "get")
    assert manage(alice, "get", scope="b")["memory"]["content_preview"] == "two"
    manage(alice, "delete", scope="a")
    assert manage(alice, "get")["memory"]["content_preview"] == "two"


@pytest.mark.parametrize(
    "arguments",
    [{"content": "  "}, {"category": "weather"}, {"scope": "../bob"}, {"tags": ["x"] * 101}, {"tags": ["x" * 201]}],
)
def test_what_breaks_a_rule_changes_nothing(alice, keep, arguments):
    before = keep(alice, "old", id="m1")
    with pytest.raises(ValidationError):
        manage(alice, "update", **arguments)
    assert fact(alice) == before


@pytest.mark.parametrize("operation", ["get", "update", "delete"])
def test_nothing_outside_the_root_can_be_reached(alice, keep, operation):
    bob = ToolContext(memory=alice.memory, root="user/bob")
    keep(bob, "a", id="m1")
    with pytest.raises(NotFoundError, match=r"^Memory not found: m1$"):
        manage(alice, operation, content="mine now" if operation == "update" else None)
    assert fact(bob).fact == "a"


def test_metadata_does_not_grow_beyond_the_limit_one_update_at_a_time(alice, keep):
    keep(alice, "a", id="m1")
    manage(alice, "update", metadata={"a": "x" * 600_000})
    with pytest.raises(ValidationError, match="metadata is too large"):
        manage(alice, "update", metadata={"b": "x" * 600_000})
    assert set(fact(alice).metadata) == {"a"}


def test_of_one_that_many_others_are_near_to_the_strongest_hundred_are_shown(alice, keep):
    source = keep(alice, "hub", id="m1")
    others = [keep(alice, f"spoke {number}") for number in range(MOST_ASSOCIATIONS + 5)]
    alice.manager.associate([
        Association(
            source=source.key, target=other.key, type=AssociationType.SEMANTIC,
            strength=(number + 1) / 200, auto_generated=True, created_at=alice.manager.now(),
        )
        for number, other in enumerate(others)
    ])  # fmt: skip
    shown = manage(alice, "get", response_level="full")["associations"]
    assert [edge["associated_id"] for edge in shown] == [other.id for other in others[:4:-1]]
    got = LocalToolbox(alice).call("memory_get", {"id": "m1", "response_level": "full"}).artifact["associations"]
    assert got == shown
    deleted = manage(alice, "delete", response_level="full")["change_details"]
    assert deleted["associations_removed"] == len(others)
