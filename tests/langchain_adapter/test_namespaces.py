"""Namespaces of a LangGraph store and scopes."""

import pytest
from cases import tried_in_one
from hypothesis import assume, given
from hypothesis import strategies as st
from langgraph.store.base import MatchCondition

from memory_retrievers.errors import ValidationError
from memory_retrievers.langchain.store_filters import fits, namespace_of, scope_of
from memory_retrievers.models import scopes

LABELS = st.text(min_size=1, max_size=8) | st.sampled_from(
    [".", "..", "/", "%", "%2F", " ", "  a  ", "\ud800", "\u00a0"]
)
NAMESPACES = st.lists(LABELS, max_size=5).map(tuple)


@given(NAMESPACES)
def test_every_namespace_has_a_scope_that_gives_it_back(namespace):
    scope = scope_of("user/alice", namespace)
    assert scopes.parse(scope) == scope
    assert namespace_of("user/alice", scope) == namespace


@given(NAMESPACES, NAMESPACES)
def test_two_namespaces_never_share_a_scope(one, other):
    assume(one != other)
    assert scope_of("app", one) != scope_of("app", other)


@pytest.mark.parametrize(
    ("namespace", "scope"),
    [
        ((), "app"),
        (("users", "alice@example.com"), "app/users/alice@example.com"),
        (("naïve", "日本"), "app/naïve/日本"),
        (("a/b", "a.b", ".", "50%"), "app/a%2Fb/a.b/%2E/50%25"),
        ((" ", " x "), "app/%20/%20x%20"),
    ],
)
def test_what_people_use_stays_readable(namespace, scope):
    assert scope_of("app", namespace) == scope


@pytest.mark.parametrize("scope", ["apple", "other/app", "app/a%2fb", "app/%61", "app/100%"])
def test_other_scopes_are_no_namespaces(scope):
    assert namespace_of("app", scope) is None


@tried_in_one("namespace", [("",), (1,), (None,), ("a",) * 10, ("x" * 201,), ("é" * 200,) * 3])
def test_a_namespace_that_has_no_scope_is_refused(namespace):
    with pytest.raises(ValidationError):
        scope_of("app", namespace)


@tried_in_one(
    "match_type, path, fitting",
    [
        ("prefix", ("a",), True),
        ("prefix", ("a", "b", "c"), True),
        ("prefix", ("b",), False),
        ("prefix", ("*", "b"), True),
        ("prefix", ("a", "b", "c", "d"), False),
        ("prefix", (), True),
        ("suffix", ("c",), True),
        ("suffix", ("b", "*"), True),
        ("suffix", ("b",), False),
        ("suffix", (), True),
    ],
)
def test_a_condition_matches_the_beginning_or_the_end(match_type, path, fitting):
    assert fits(("a", "b", "c"), MatchCondition(match_type=match_type, path=path)) is fitting


def test_another_condition_is_refused():
    with pytest.raises(ValidationError, match="by prefix or suffix, not by 'infix'"):
        fits(("a",), MatchCondition(match_type="infix", path=("a",)))
