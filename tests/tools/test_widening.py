import pytest

from memory_retrievers.tools.registry import REGISTRY
from memory_retrievers.tools.search import wider_scopes
from memory_retrievers.tools.tool import ToolContext


def test_the_scopes_above_are_looked_into_level_by_level_and_then_global(alice):
    assert wider_scopes(alice, "user/alice/a/b", 0.3) == [
        ("user/alice/a", 0.3),
        ("user/alice", 0.3),
        ("user/alice/global", 0.25),
    ]


def test_nothing_above_the_root_is_looked_into(alice):
    assert wider_scopes(alice, "user/alice", 0.1) == [("user/alice/global", 0.05)]


@pytest.mark.parametrize(("floor", "lowered"), [(0.0, 0.05), (0.08, 0.05), (0.5, 0.45)])
def test_global_has_a_lower_floor_but_never_none(alice, floor, lowered):
    assert wider_scopes(alice, "user/alice", floor) == [("user/alice/global", pytest.approx(lowered))]


def test_five_scopes_are_looked_into_at_most(alice):
    wider = wider_scopes(alice, "user/alice/a/b/c/d/e/f", 0.1)
    assert len(wider) == 5
    assert wider[-1] == ("user/alice/a", 0.1)


def test_a_root_as_deep_as_can_be_has_no_global(alice):
    deep = ToolContext(memory=alice.memory, root="/".join("abcdefghij"), allow_scopes=True)
    assert wider_scopes(deep, deep.root, 0.1) == []


def test_a_search_that_finds_nothing_says_where_it_would(alice, keep):
    keep(alice, "the nightly backup runs at two", scope="work")
    keep(ToolContext(memory=alice.memory, root="user/bob"), "the nightly backup runs at two", scope="global")
    search = REGISTRY["memory_search"]
    arguments = {"query": "nightly backup", "scope": "work/infra", "min_similarity": 0.2}
    answer = search.call(alice, arguments).artifact
    assert answer["results"] == []
    assert answer["wider_scopes"] == [{"scope": "work", "total_count": 1}]
    assert "wider_scopes" not in search.call(alice, arguments | {"scope": "work"}).artifact
    assert "wider_scopes" not in search.call(alice, arguments | {"response_level": "minimal"}).artifact


def test_a_model_that_may_not_name_scopes_is_offered_none(alice, keep):
    keep(alice, "the nightly backup runs at two")
    hidden = ToolContext(memory=alice.memory, root="user/alice", default_scope="user/alice/work")
    answer = REGISTRY["memory_search"].call(hidden, {"query": "nightly backup", "min_similarity": 0.2}).artifact
    assert answer["results"] == []
    assert "wider_scopes" not in answer
