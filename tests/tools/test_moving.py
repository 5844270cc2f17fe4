import pytest

from memory_retrievers.errors import NotFoundError, ValidationError
from memory_retrievers.tools.registry import REGISTRY, LocalToolbox
from memory_retrievers.tools.store import auto_associate
from memory_retrievers.tools.tool import ToolContext


def move(context, *ids, target_scope="work/done", **arguments):
    return (
        REGISTRY["memory_move"].call(context, {"memory_ids": ids, "target_scope": target_scope, **arguments}).artifact
    )


def where(context, id):
    return context.shown(context.manager.find(id, root=context.root, scope=context.scope).scope)


def test_an_answer_at_each_level(alice, keep):
    for id in ("m1", "m2", "m3"):
        keep(alice, f"memory {id}", id=id, scope="work")
    assert move(alice, "m1", response_level="minimal") == {"success": True}
    assert move(alice, "m2") == {"success": True, "moved_count": 1, "target_scope": "work/done"}
    assert move(alice, "m3", response_level="full") == {
        "success": True,
        "moved_count": 1,
        "target_scope": "work/done",
        "moved_items": ["m3"],
        "source_scope": "work",
    }
    assert {where(alice, id) for id in ("m1", "m2", "m3")} == {"work/done"}


def test_three_of_three_from_two_scopes(alice, keep):
    keep(alice, "a", id="m1", scope="work")
    keep(alice, "b", id="m2")
    keep(alice, "c", id="m3", scope="work")
    answer = move(alice, "m1", "m2", "m3", response_level="full")
    assert answer["moved_count"] == 3
    assert answer["moved_items"] == ["m1", "m2", "m3"]
    assert answer["source_scope"] == [".", "work"]


def test_an_empty_list_moves_nothing_and_succeeds(alice):
    assert move(alice, response_level="full") == {
        "success": True,
        "moved_count": 0,
        "target_scope": "work/done",
        "moved_items": [],
        "source_scope": [],
    }


def test_unknown_ids_are_skipped_and_told(alice, keep):
    keep(alice, "a", id="m1")
    assert move(alice, "m1", "m9") == {
        "success": True,
        "moved_count": 1,
        "target_scope": "work/done",
        "failed_items": [{"memory_id": "m9", "message": "Memory not found: m9"}],
    }
    assert where(alice, "m1") == "work/done"


def test_it_fails_if_nothing_can_be_moved_and_tells_what(alice):
    with pytest.raises(NotFoundError, match=r"^Memory not found: m8; Memory not found: m9$"):
        move(alice, "m8", "m9")
    arguments = {"memory_ids": ["m9"], "target_scope": "work"}
    plain = {"success": False, "error": True, "error_type": "NotFoundError", "message": "Memory not found: m9"}
    assert LocalToolbox(alice).call("memory_move", arguments).artifact == plain
    assert LocalToolbox(alice).call("memory_move", arguments | {"response_level": "full"}).artifact == plain | {
        "details": {"failed_items": [{"memory_id": "m9", "message": "Memory not found: m9"}]}
    }


def test_an_id_that_is_taken_in_the_target_stays_and_the_others_move(alice, keep):
    keep(alice, "new", id="m1")
    keep(alice, "old", id="m1", scope="work/done")
    keep(alice, "other", id="m2")
    answer = move(alice, "m1", "m2", response_level="full")
    assert answer["moved_items"] == ["m2"]
    assert [each["memory_id"] for each in answer["failed_items"]] == ["m1"]
    assert alice.memory.get("m1", scope="user/alice").fact == "new"
    assert alice.memory.get("m1", scope="user/alice/work/done").fact == "old"
    with pytest.raises(ValidationError):
        move(alice, "m1")


def test_ids_times_and_associations_stay(alice, keep, clock):
    old = keep(alice, "the nightly backup runs at two", id="m1")
    new = keep(alice, "the nightly backup runs at two o'clock", id="m2")
    made = auto_associate(alice, new)
    clock.advance(days=1)
    move(alice, "m1")
    moved = alice.memory.get("m1", scope="user/alice/work/done")
    assert (moved.created_at, moved.updated_at) == (old.created_at, old.updated_at)
    (edge,) = alice.manager.associations_of(moved, within="user/alice")
    assert {edge.source.id, edge.target.id} == {"m1", "m2"}
    assert edge.strength == made[0].strength


@pytest.mark.parametrize("target", ["..", "../bob", "work/../..", "/etc", "work//done", "", "work/"])
def test_no_target_leads_out_of_the_root(alice, keep, target):
    keep(alice, "a", id="m1")
    with pytest.raises(ValidationError):
        move(alice, "m1", target_scope=target)
    assert where(alice, "m1") == "."


def test_a_scope_of_somebody_else_is_one_of_ones_own_below_the_root(alice, keep):
    keep(alice, "a", id="m1")
    move(alice, "m1", target_scope="user/bob")
    assert alice.memory.get("m1", scope="user/alice/user/bob").fact == "a"
    assert alice.memory.list("user/bob").memories == ()


def test_nothing_outside_the_root_can_be_moved(alice, keep):
    bob = ToolContext(memory=alice.memory, root="user/bob")
    keep(bob, "a", id="m1")
    with pytest.raises(NotFoundError, match=r"^Memory not found: m1$"):
        move(alice, "m1")
    assert where(bob, "m1") == "."


def test_it_is_not_offered_to_a_model_that_may_not_name_scopes(alice):
    toolbox = LocalToolbox(ToolContext(memory=alice.memory, root="user/alice"))
    answer = toolbox.call("memory_move", {"memory_ids": [], "target_scope": "work"}).artifact
    assert answer["error_type"] == "NotFoundError"
