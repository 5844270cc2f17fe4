import re

import pytest
from cases import tried_in_one
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import scopes
from memory_retrievers.tools.registry import REGISTRY
from memory_retrievers.tools.scopes import suggestions
from memory_retrievers.tools.tool import ToolContext


def listed(context, **arguments):
    return REGISTRY["scope_list"].call(context, arguments).artifact


def suggest(context, content, **arguments):
    return REGISTRY["scope_suggest"].call(context, {"content": content, **arguments}).artifact


def best(content, current_scope="."):
    return suggestions(content, current_scope=current_scope)[0].scope


@pytest.fixture
def filled_scopes(alice, keep):
    for number, scope in enumerate(
        ["work/projects", "work/projects", "work/projects/a", "work/testing/deep", "personal", "."]
    ):
        keep(alice, f"memory {number}", scope=scope)
    keep(ToolContext(memory=alice.memory, root="user/alicent"), "not hers", scope="work/secret")
    return alice


def test_a_list_at_each_level(filled_scopes):
    assert listed(filled_scopes, response_level="minimal") == {"success": True, "scope_count": 5}
    standard = listed(filled_scopes)
    assert standard == {
        "success": True,
        "scope_count": 5,
        "scopes": [
            {"name": ".", "memory_count": 1},
            {"name": "personal", "memory_count": 1},
            {"name": "work/projects", "memory_count": 2},
            {"name": "work/projects/a", "memory_count": 1},
            {"name": "work/testing/deep", "memory_count": 1},
        ],
    }
    full = listed(filled_scopes, response_level="full")
    assert full["statistics"] == {"total_scopes": 5, "filtered_scopes": 5, "include_memory_counts": True}


def node(scope, memory_count, *child_scopes):
    return {"scope": scope, "memory_count": memory_count, "child_scopes": list(child_scopes)}


DEEP = node("work/testing", 0, node("work/testing/deep", 1))
WORK = node("work", 0, node("work/projects", 2, node("work/projects/a", 1)), DEEP)


def test_the_hierarchy_is_a_tree_in_which_every_scope_stands_once_below_its_parent(filled_scopes):
    hierarchy = listed(filled_scopes, response_level="full")["hierarchy"]
    assert hierarchy == [node(".", 1, node("personal", 1), WORK)]


def test_without_memories_in_the_root_itself_the_tree_begins_below_it(alice, keep):
    keep(alice, "one", scope="work/projects")
    keep(alice, "two", scope="personal")
    keep(alice, "three", scope="work-shop")  # sorts between work and work/projects
    assert listed(alice, response_level="full")["hierarchy"] == [
        node("personal", 1),
        node("work", 0, node("work/projects", 1)),
        node("work-shop", 1),
    ]


def test_a_tree_is_as_deep_as_scopes_can_be(alice, keep):
    segments = "abcdefgh"  # with user/alice, ten
    keep(alice, "deep", scope="/".join(segments))
    (tree,) = listed(alice, response_level="full")["hierarchy"]
    for depth in range(1, len(segments) + 1):
        assert tree["scope"] == "/".join(segments[:depth])
        assert tree["memory_count"] == (1 if depth == len(segments) else 0)
        (tree,) = tree["child_scopes"] or [None]


def test_a_parent_lists_its_direct_children_only(filled_scopes):
    answer = listed(filled_scopes, parent_scope="work", response_level="full")
    assert answer["scopes"] == [
        {"name": "work/projects", "memory_count": 2},
        {"name": "work/testing", "memory_count": 0},
    ]
    assert answer["hierarchy"] == WORK["child_scopes"]
    assert answer["statistics"]["filtered_scopes"] == 2


def test_the_children_of_the_root_are_listed_under_a_dot(filled_scopes):
    assert [each["name"] for each in listed(filled_scopes, parent_scope=".")["scopes"]] == ["personal", "work"]


def test_a_parent_without_children_lists_nothing(filled_scopes):
    answer = listed(filled_scopes, parent_scope="wor")
    assert (answer["scope_count"], answer["scopes"]) == (0, [])


@pytest.mark.parametrize("parent", ["..", "work//projects", "/work", "work/", "../alicent", "work/../.."])
def test_an_invalid_parent_is_refused(filled_scopes, parent):
    with pytest.raises(ValidationError):
        listed(filled_scopes, parent_scope=parent)


def test_counts_can_be_left_out(filled_scopes):
    answer = listed(filled_scopes, include_memory_counts=False, response_level="full")
    assert {each["memory_count"] for each in answer["scopes"]} == {0}
    assert set(re.findall(r"'memory_count': (\d+)", repr(answer["hierarchy"]))) == {"0"}


def test_an_empty_memory_has_no_scopes(alice):
    assert listed(alice) == {"success": True, "scope_count": 0, "scopes": []}


def test_no_level_tells_of_scopes_outside_the_root(filled_scopes):
    assert "secret" not in repr(listed(filled_scopes, response_level="full"))


@tried_in_one(
    "content, scope",
    [
        ("Python programming tutorial", "learning/programming"),
        ("Meeting notes from standup", "work/meetings"),
        ("Personal diary entry", "personal/thoughts"),
        ("API endpoint documentation", "learning/api-design"),
        ("Bug fix implementation", "work/debugging"),
        ("The milestone is in May", "work/projects"),
        ("An innovation", "personal/ideas"),
        ("A training in first aid", "learning/general"),
        ("why C++ is fast", "learning/programming"),
        ("C++, again", "learning/programming"),
        ("this is good", "user/default"),
        ("javascripts and debugged tasks", "user/default"),
        ("c plus plus", "user/default"),
        ("nothing at all", "user/default"),
    ],
)
def test_words_decide_what_is_suggested(content, scope):
    assert best(content) == scope


def test_the_most_confident_comes_first_and_ties_keep_their_order():
    found = suggestions("idea bug api meeting python diary", current_scope=".")
    assert [(each.scope, each.confidence) for each in found] == [
        ("learning/programming", 0.9),
        ("work/meetings", 0.9),
        ("personal/thoughts", 0.9),
        ("work/debugging", 0.85),
        ("learning/api-design", 0.8),
        ("personal/ideas", 0.8),
    ]


@tried_in_one(
    "current, content, expected",
    [
        ("work/projects", "nothing at all", [("work/general", 0.6)]),
        ("learning/x", "nothing at all", [("learning/general", 0.6)]),
        ("learning/x", "a diary", [("personal/thoughts", 0.9), ("learning/general", 0.6)]),
        ("work/x", "a meeting", [("work/meetings", 0.9)]),
        ("work", "nothing at all", [("user/default", 0.5)]),
        ("personal/x", "nothing at all", [("user/default", 0.5)]),
    ],
)
def test_the_current_scope_has_a_say_if_the_words_have_none(current, content, expected):
    assert [(each.scope, each.confidence) for each in suggestions(content, current_scope=current)] == expected


def test_a_suggestion_at_each_level(alice):
    content = "idea bug api meeting python diary"
    assert suggest(alice, content, response_level="minimal") == {
        "success": True,
        "suggested_scope": "learning/programming",
    }
    standard = suggest(alice, content)
    assert standard == {
        "success": True,
        "suggested_scope": "learning/programming",
        "confidence": 0.9,
        "alternatives": [
            {"scope": "work/meetings", "confidence": 0.9},
            {"scope": "personal/thoughts", "confidence": 0.9},
            {"scope": "work/debugging", "confidence": 0.85},
        ],
    }
    full = suggest(alice, content, current_scope="work/x", response_level="full")
    assert full | standard == full
    assert len(full["all_alternatives"]) == 5
    assert full["reasoning"] == "The text says python."
    assert full["suggestion_analysis"] == {
        "current_scope": "work/x",
        "matched_keywords": ["python"],
        "content_length": len(content),
    }


def test_a_suggestion_without_alternatives_keeps_the_list(alice):
    assert suggest(alice, "nothing at all") == {
        "success": True,
        "suggested_scope": "user/default",
        "confidence": 0.5,
        "alternatives": [],
    }


def test_every_suggestion_tells_why(alice):
    assert suggest(alice, "x", response_level="full")["reasoning"] == "No word of the text speaks for any other scope."
    full = suggest(alice, "x", current_scope="work/x", response_level="full")
    assert full["reasoning"] == "The current scope is a neighbour."


@pytest.mark.parametrize("arguments", [{"content": "  "}, {"content": "x", "current_scope": "../bob"}])
def test_what_cannot_be_meant_is_refused(alice, arguments):
    with pytest.raises(ValidationError):
        suggest(alice, **arguments)


@given(st.text(max_size=200), st.sampled_from([".", "work/x", "learning/x"]))
def test_there_is_always_a_suggestion_and_it_is_a_scope(content, current):
    found = suggestions(content, current_scope=current)
    assert found
    assert [each.confidence for each in found] == sorted((each.confidence for each in found), reverse=True)
    assert all(scopes.parse(each.scope) for each in found)
