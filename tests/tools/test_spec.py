import dataclasses

import pydantic
import pytest
from cases import try_each

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.tools.registry import REGISTRY
from memory_retrievers.tools.tool import ToolContext, ToolPolicy


def test_a_context_works_in_its_root_unless_told_otherwise(memory):
    assert ToolContext(memory=memory, root="user/alice").scope == "user/alice"
    assert ToolContext(memory=memory, root="user/alice", default_scope="user/alice/work").scope == "user/alice/work"
    assert ToolContext(memory=memory, root="user/alice", default_scope="user/alice").scope == "user/alice"


@pytest.mark.parametrize("default_scope", ["user", "user/bob", "user/alice2"])
def test_a_default_scope_outside_the_root_is_refused(memory, default_scope):
    with pytest.raises(ConfigurationError, match="not within root 'user/alice'"):
        ToolContext(memory=memory, root="user/alice", default_scope=default_scope)


@pytest.mark.parametrize("root", ["", "/user", "user//alice", "..", None])
def test_a_malformed_root_is_refused(memory, root):
    with pytest.raises(ValidationError, match="scope"):
        ToolContext(memory=memory, root=root)


@pytest.mark.parametrize("default_scope", ["", "user/alice/", "user/alice/../bob"])
def test_a_malformed_default_scope_is_refused(memory, default_scope):
    with pytest.raises(ValidationError, match="scope"):
        ToolContext(memory=memory, root="user/alice", default_scope=default_scope)


def test_an_unknown_reach_is_refused(memory):
    with pytest.raises(ConfigurationError, match="kinds must be 'tool' or 'all', not 'everything'"):
        ToolContext(memory=memory, root="user/alice", kinds="everything")


def test_an_unknown_format_is_refused(memory):
    with pytest.raises(ConfigurationError, match="response_format must be 'levels' or 'plain', not 'xml'"):
        ToolContext(memory=memory, root="user/alice", response_format="xml")


def test_a_scope_is_named_and_shown_relative_to_the_root(memory):
    context = ToolContext(memory=memory, root="user/alice", default_scope="user/alice/work", allow_scopes=True)
    assert context.scope_named(None) == "user/alice/work"
    assert (context.scope_named("."), context.scope_named("home")) == ("user/alice", "user/alice/home")
    assert (context.shown("user/alice"), context.shown("user/alice/work")) == (".", "work")


def test_only_an_agent_memory_has_a_manager(filled):
    class Remote:
        """Not an AgentMemory."""

    assert ToolContext(memory=filled, root="user/alice").manager is filled.manager
    with pytest.raises(ConfigurationError, match="need an AgentMemory, not Remote"):
        _ = ToolContext(memory=Remote(), root="user/alice").manager


def test_rules_fix_the_root_or_leave_it_to_each_call(memory):
    assert ToolPolicy().context(memory, scope="user/alice").root == "user/alice"
    context = ToolPolicy(root="user", kinds="all").context(memory, scope="user/alice")
    assert (context.root, context.scope, context.kinds) == ("user", "user/alice", "all")


@pytest.mark.parametrize("rules", [{"root": "team"}, {"kinds": "some"}, {"response_format": "xml"}])
def test_rules_that_no_call_could_follow_are_refused_at_once(memory, rules):
    with pytest.raises(ConfigurationError):
        ToolPolicy(**rules).check(memory, scope="user/alice")


def test_rules_are_looked_at_without_a_scope_too(memory):
    ToolPolicy(root="team").check(memory, scope=None)
    ToolPolicy().check(memory, scope=None)
    with pytest.raises(ValidationError):
        ToolPolicy(root="..").check(memory, scope=None)


def test_a_context_cannot_be_changed(context):
    with pytest.raises(dataclasses.FrozenInstanceError):
        context.root = "user/bob"


def test_all_problems_with_the_arguments_stand_on_one_line(context):
    with pytest.raises(ValidationError) as caught:
        REGISTRY["retrieve_memory"].call(context, {"episodic_limit": -1, "colour": "blue"})
    assert str(caught.value) == (
        "query: Field required; episodic_limit: Input should be greater than or equal to 0; "
        "colour: Extra inputs are not permitted"
    )


@pytest.mark.parametrize("given", ["Lyon", None, [("query", "Lyon")]])
def test_arguments_that_are_no_object_are_refused(given):
    def check(name):
        with pytest.raises(pydantic.ValidationError, match="valid dictionary"):
            REGISTRY[name].arguments.model_validate(given)

    try_each(check, REGISTRY)
