import pytest

from memory_retrievers import AgentMemory, Message, ValidationError
from memory_retrievers.cli import inspect as inspection
from memory_retrievers.cli.inspect import survey_of
from memory_retrievers.testing import HashEmbedder


def scopes_of(found):
    return [scope["scope"] for scope in found["scopes"]]


def test_a_survey_shows_every_scope_that_holds_something(stocked):
    found = survey_of(stocked)

    assert scopes_of(found) == ["story", "user/new", "user/ruth", "user/tom"]
    assert found["counts"] == stocked.stats().model_dump()
    assert (found["within"], found["hidden_scopes"], found["explained"]) == (None, 0, None)
    story, new, ruth, _ = found["scopes"]
    assert [state["name"] for state in story["characters"]] == ["Oren"]
    assert [message["content"] for message in new["queue"]] == ["Hello, I am new."]
    assert [review["query"] for review in ruth["reviews"]] == ["hives"]
    assert {memory["id"] for memory in ruth["memories"]} >= {"bees", "wedding"}
    assert not ruth["more"]


def test_a_survey_within_a_scope_holds_nothing_of_others(stocked):
    found = survey_of(stocked, within="user/ruth", explained=stocked.explain("Who keeps goats?", scope="user/ruth"))

    assert scopes_of(found) == ["user/ruth"]
    assert found["counts"] == stocked.stats("user/ruth").model_dump()
    assert "goats" not in repr(found).replace("Who keeps goats?", "")
    assert scopes_of(survey_of(stocked, within="user")) == ["user/new", "user/ruth", "user/tom"]
    assert scopes_of(survey_of(stocked, within="user/rut")) == []


def test_a_review_is_shown_that_waits_in_a_scope_above_all_memories(stocked):
    stocked.retrieve("hives", scope="user", include_child_scopes=True)

    assert scopes_of(survey_of(stocked, within="user"))[0] == "user"


def test_looking_leaves_no_trace(stocked):
    before = stocked.stats()
    survey_of(stocked, explained=stocked.explain("hives", scope="user/ruth"))

    assert stocked.stats() == before
    assert stocked.get("bees", scope="user/ruth").access_count == 0


def test_only_the_newest_memories_of_a_scope_are_shown(stocked):
    *_, ruth, tom = survey_of(stocked, limit=2)["scopes"]

    newest = [memory.id for memory in stocked.list("user/ruth", limit=2).memories]
    assert ([memory["id"] for memory in ruth["memories"]], ruth["more"]) == (newest, True)
    assert (len(tom["memories"]), tom["more"]) == (1, False)


def test_a_full_page_shows_no_more_memories_but_still_counts_them(stocked, monkeypatch):
    monkeypatch.setattr(inspection, "MOST_MEMORIES", 2)
    story, new, ruth, tom = survey_of(stocked)["scopes"]

    assert (len(story["memories"]), len(ruth["memories"]), len(tom["memories"])) == (1, 1, 0)
    assert (story["more"], new["more"], ruth["more"], tom["more"]) == (False, False, True, True)
    assert tom["counts"]["facts"] == 1


def test_scopes_beyond_the_first_are_counted(stocked, monkeypatch):
    monkeypatch.setattr(inspection, "MOST_SCOPES", 1)
    found = survey_of(stocked)

    assert (scopes_of(found), found["hidden_scopes"]) == (["story"], 3)
    assert found["counts"] == stocked.stats().model_dump()


def test_what_waits_is_bounded(clock):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        memory.add_messages("c1", [Message(role="user", content=f"message {number}") for number in range(60)])
        (scope,) = survey_of(memory)["scopes"]

    assert [message["content"] for message in scope["queue"]] == [f"message {number}" for number in range(50)]
    assert scope["counts"]["queued_messages"] == 60


def test_an_empty_memory_has_an_empty_survey(clock):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        assert survey_of(memory)["scopes"] == []
        with pytest.raises(ValidationError, match="limit must be an integer from 1 to 1000"):
            survey_of(memory, limit=0)
        with pytest.raises(ValidationError, match="malformed"):
            survey_of(memory, within="user/")
