import pytest

from memory_retrievers.errors import ValidationError
from memory_retrievers.tools.registry import REGISTRY
from memory_retrievers.tools.store import auto_associate
from memory_retrievers.tools.tool import ToolContext


def leaf(context, **arguments):
    return REGISTRY["memory_list_all"].call(context, arguments).artifact


@pytest.fixture
def twelve(alice, keep, clock):
    for number in range(12):
        keep(alice, f"memory number {number}", id=f"m{number:02}", scope="work" if number % 2 else ".")
        clock.advance(minutes=1)
    return alice


def test_an_answer_at_each_level(alice, keep):
    keep(alice, "the nightly backup of the database runs at two", id="m1", scope="work", tags=["ops"])
    assert leaf(alice, response_level="minimal") == {"success": True, "total_count": 1}
    assert leaf(alice) == {
        "success": True,
        "total_count": 1,
        "memories": [{"id": "m1", "scope": "work", "preview": "the nightly backup of the data..."}],
    }
    full = leaf(alice, response_level="full")
    assert full["memories"][0]["content"] == "the nightly backup of the database runs at two"
    assert full["memories"][0]["tags"] == ["ops"]
    assert full["memories"][0]["associations"] == []
    assert full["pagination_info"] == {
        "page": 1,
        "per_page": 10,
        "total_items": 1,
        "total_pages": 1,
        "has_next": False,
        "has_previous": False,
    }


def test_the_second_page_of_twelve_at_five(twelve):
    answer = leaf(twelve, page=2, per_page=5, response_level="full")
    assert [each["id"] for each in answer["memories"]] == ["m06", "m05", "m04", "m03", "m02"]
    assert answer["pagination_info"] == {
        "page": 2,
        "per_page": 5,
        "total_items": 12,
        "total_pages": 3,
        "has_next": True,
        "has_previous": True,
    }


def test_pages_are_disjoint_and_complete(twelve):
    pages = [[each["id"] for each in leaf(twelve, page=page, per_page=5)["memories"]] for page in (1, 2, 3)]
    assert [id for page in pages for id in page] == [f"m{number:02}" for number in reversed(range(12))]


@pytest.mark.parametrize("page", [4, 1_000, 10**30])
def test_a_page_past_the_end_is_empty(twelve, page):
    answer = leaf(twelve, page=page, per_page=5, response_level="full")
    assert answer["memories"] == []
    assert answer["total_count"] == 12
    assert not answer["pagination_info"]["has_next"]
    assert answer["pagination_info"]["has_previous"]


def test_ten_are_shown_unless_told_otherwise(twelve):
    assert len(leaf(twelve)["memories"]) == 10


def test_memories_of_the_same_moment_come_in_the_order_of_their_ids(alice, keep):
    for id in ("b", "c", "a"):
        keep(alice, f"memory {id}", id=id)
    assert [each["id"] for each in leaf(alice)["memories"]] == ["a", "b", "c"]


def test_three_associations_are_shown_of_each_at_most(alice, keep):
    for number in range(5):
        keep(alice, f"the nightly backup of the database runs at {number}")
    auto_associate(alice, keep(alice, "the nightly backup of the database runs at", id="m"))
    shown = {each["id"]: each["associations"] for each in leaf(alice, response_level="full")["memories"]}
    assert len(shown["m"]) == 3
    assert all(len(each) <= 3 for each in shown.values())


@pytest.mark.parametrize("arguments", [{"page": 0}, {"page": -1}, {"per_page": 0}, {"per_page": 101}])
def test_numbers_outside_their_bounds_are_refused(alice, arguments):
    with pytest.raises(ValidationError, match=next(iter(arguments))):
        leaf(alice, **arguments)


def test_what_is_within_the_root_is_listed_whoever_stored_it_unless_the_host_narrows_the_tools(alice, keep):
    keep(alice, "mine", id="mine")
    keep(ToolContext(memory=alice.memory, root="user/bob"), "bobs", id="bobs")
    alice.memory.remember_fact(scope="user/alice", fact="told", id="told")
    assert sorted(each["id"] for each in leaf(alice)["memories"]) == ["mine", "told"]
    for narrow in ({"kinds": "tool"}, {"response_format": "plain"}):
        context = ToolContext(memory=alice.memory, root="user/alice", **narrow)
        assert [each["id"] for each in leaf(context)["memories"]] == ["mine"]


def test_a_preview_is_on_one_line(alice, keep):
    keep(alice, "first\n\n  second\tthird", id="m1")
    assert leaf(alice)["memories"][0]["preview"] == "first second third"
