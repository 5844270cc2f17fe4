import pytest
from cases import tried_in_one
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.models import scopes
from memory_retrievers.tools.tool import ToolContext

ROOT = "user/alice"
CONTEXT = ToolContext(memory=None, root=ROOT)

segments = st.text(alphabet="ab .0-/é", min_size=1, max_size=5)
paths = st.lists(segments, min_size=1, max_size=4).map("/".join)


@pytest.mark.parametrize(
    ("named", "scope"), [(".", "user/alice"), ("work", "user/alice/work"), ("user/bob", "user/alice/user/bob")]
)
def test_a_path_is_read_from_the_root(named, scope):
    assert CONTEXT.scope_named(named) == scope
    assert CONTEXT.shown(scope) == named


@tried_in_one(
    "named", ["", "..", "../bob", "work/../../bob", "/user/bob", "./work", "work/", "//", " ", "work//x", "a\nb", "./."]
)
def test_there_is_no_way_out(named):
    with pytest.raises(ValidationError, match="scope"):
        CONTEXT.scope_named(named)


@given(paths | st.text(max_size=20))
def test_whatever_a_model_names_lies_within_the_root_and_is_shown_as_it_was_named(named):
    try:
        scope = CONTEXT.scope_named(named)
    except ValidationError:
        return
    assert scopes.parse(scope) == scope
    assert scopes.is_within(ROOT, scope)
    assert CONTEXT.shown(scope) == named


@pytest.mark.parametrize("scope", ["user", "user/bob", "user/alice2", "user/alice2/work", "other"])
def test_a_scope_outside_is_never_shown_and_not_even_named(scope):
    assert not scopes.is_within(ROOT, scope)
    with pytest.raises(ConfigurationError) as caught:
        CONTEXT.shown(scope)
    assert repr(scope) not in str(caught.value)


def test_a_path_that_is_too_long_together_with_the_root_is_refused():
    context = ToolContext(memory=None, root="a/b")
    assert context.scope_named("/".join("cdefghij")) == "a/b/c/d/e/f/g/h/i/j"
    with pytest.raises(ValidationError, match="11 segments; at most 10"):
        context.scope_named("/".join("cdefghijk"))
