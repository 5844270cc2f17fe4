import pytest

from memory_retrievers.tools.registry import REGISTRY
from memory_retrievers.tools.search import wider_scopes
from memory_retrievers.tools.tool import ToolContext


@pytest.fixture
def asked():
    """Which scopes were looked into, from which similarity on."""
    return []


def offered(context, scope, asked, *, min_similarity=0.1, found=1):
    def count(where, floor):
        asked.append((where, round(floor, 4)))
        return found

    return wider_scopes(context, scope, min_similarity=min_similarity, count=count)


def test_the_scopes_above_are_offered_level_by_level_and_then_global(alice, asked):
    assert offered(alice, "user/alice/a/b", asked, min_similarity=0.3) == [
        {"scope": "a", "total_count": 1},
        {"scope": ".", "total_count": 1},
        {"scope": "global", "total_count": 1},
    ]
    assert asked == [("user/alice/a", 0.3), ("user/alice", 0.3), ("user/alice/global", 0.25)]


def test_nothing_above_the_root_is_looked_into(alice, asked):
    offered(alice, "user/alice", asked)
    assert asked == [("user/alice/global", 0.05)]


@pytest.mark.parametrize(("floor", "lowered"), [(0.0, 0.05), (0.08, 0.05), (0.5, 0.45)])
def test_global_has_a_lower_floor_but_never_none(alice, asked, floor, lowered):
    offered(alice, "user/alice", asked, min_similarity=floor)
    assert asked == [("user/alice/global", lowered)]


def test_five_scopes_are_looked_into_at_most(alice, asked):
    assert len(offered(alice, "user/alice/a/b/c/d/e/f", asked)) == 5
    assert [where for where, _ in asked][-1] == "user/alice/a"


def test_what_would_find_nothing_is_not_offered(alice, asked):
    assert offered(alice, "user/alice/a", asked, found=0) == []


def test_a_model_that_may_not_name_scopes_is_offered_none(alice, asked):
    hidden = ToolContext(memory=alice.memory, root="user/alice", default_scope="user/alice/a")
    assert offered(hidden, "user/alice/a", asked) == []
    assert asked == []


def test_a_root_as_deep_as_can_be_has_no_global(alice, asked):
    deep = ToolContext(memory=alice.memory, root="/".join("abcdefghij"), allow_scopes=True)
    assert offered(deep, deep.root, asked) == []


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
