"""Who is there, and what they may know."""

import pytest

from memory_retrievers.models.scenes import CharacterState
from memory_retrievers.scene.events import known_to


@pytest.fixture
def story(scene_episode):
    return [
        scene_episode(id="seen", witnesses=["Ann"], characters_involved=["Bob"]),
        scene_episode(id="seen secret", witnesses=["ANN"], is_secret=True),
        scene_episode(id="involved", witnesses=["Bob"], characters_involved=["ann", "Bob"]),
        scene_episode(id="involved secret", witnesses=["Bob"], characters_involved=["Ann"], is_secret=True),
        scene_episode(id="elsewhere", witnesses=["Bob"], characters_involved=["Bob"]),
        scene_episode(id="elsewhere secret", witnesses=["Bob"], is_secret=True),
    ]


def ids(episodes):
    return [episode.id for episode in episodes]


def test_what_a_character_witnessed_it_knows_and_what_it_took_part_in_unless_that_is_a_secret(story):
    assert ids(known_to(["Ann"], story)) == ["seen", "seen secret", "involved"]


@pytest.mark.parametrize("name", ["ann", "ANN", " Ann "])
def test_names_are_compared_without_regard_to_case(story, name):
    assert ids(known_to([name], story)) == ["seen", "seen secret", "involved"]


def test_what_the_state_of_a_character_lists_it_knows_even_if_it_is_a_secret(story):
    states = [
        CharacterState(name="ann", known_events=("elsewhere secret",)),
        CharacterState(name="Bob", known_events=("elsewhere",)),
    ]
    assert ids(known_to(["Ann"], story, characters=states)) == ["seen", "seen secret", "involved", "elsewhere secret"]


def test_several_characters_know_what_any_of_them_knows(story):
    assert ids(known_to({"Ann", "Bob"}, story)) == ids(story)


def test_without_a_point_of_view_all_is_known(story):
    assert known_to([], story) == story


def test_nobody_else_knows_anything(story):
    assert known_to(["Nobody"], story) == []


def test_a_secret_that_a_character_takes_part_in_but_does_not_see_is_kept_from_it(story):
    assert "involved secret" not in ids(known_to(["Ann"], story))


def test_a_conversation_is_known_to_nobody(story, scene_episode):
    conversation = scene_episode(id="chat").model_copy(update={"scene": None})
    assert ids(known_to(["Ann"], [conversation, *story])) == ["seen", "seen secret", "involved"]
