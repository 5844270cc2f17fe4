"""What is told of a story when there is no room for all of it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers.models.scenes import CharacterState
from memory_retrievers.scene.render import by_priority, placed, scene_block
from memory_retrievers.settings import SceneSettings
from memory_retrievers.text.analysis import estimate_scene_tokens

UPSTREAM = SceneSettings(budget_policy="upstream")


@pytest.fixture(scope="session")
def story(scene_episode):
    """Events of messages, each with its stars: the summary names both."""

    def make(*events, length=40):
        return [
            scene_episode(
                f"m{message} ".ljust(length, "x"), id=f"e{message}", message_ids=[message], sequence=message * 1_000,
                importance=stars,
            )
            for message, stars in events
        ]  # fmt: skip

    return make


def told(block):
    return [int(number) for number in re.findall(r"\] m(\d+)", block)]


def claims(episodes, *, chat_length, scores=None):
    """The messages of the events in the order in which they may claim room."""
    events = placed(episodes, chat_length=chat_length, settings=SceneSettings())
    return [event.position for event in by_priority(events, scores=scores)]


def test_upstream_tells_five_of_a_hundred_summaries_in_two_hundred_tokens(story):
    episodes = story(*((message, 3) for message in range(100)), length=100)
    assert told(scene_block(episodes, chat_length=100, budget=200, settings=UPSTREAM)) == [0, 1, 2, 3, 4]


def test_upstream_charges_the_summary_and_five(story):
    frame = "<scene_memory>\n(#100 messages)\n\n</scene_memory>"
    overhead = estimate_scene_tokens(frame) + estimate_scene_tokens("## Current Scene")
    (episode,) = story((1, 3), length=100)
    fits = overhead + 29 + 5
    assert told(scene_block([episode], chat_length=100, budget=fits, settings=UPSTREAM)) == [1]
    assert scene_block([episode], chat_length=100, budget=fits - 1, settings=UPSTREAM) == frame


def test_upstream_stops_at_the_first_that_does_not_fit_and_loses_the_current_scene(story):
    episodes = [*story((1, 1)), *story((2, 1), length=900), *story((4_990, 5))]
    assert told(scene_block(episodes, chat_length=5_000, budget=100, settings=UPSTREAM)) == [1]


def test_by_default_the_newest_of_the_current_scene_is_kept(story):
    episodes = story(*((message, 3) for message in range(100)), length=100)
    block = scene_block(episodes, chat_length=100, budget=200)
    assert 0 < len(told(block)) < 100
    assert told(block) == list(range(100 - len(told(block)), 100))


def test_by_default_the_current_scene_goes_before_what_led_up_to_it_and_that_before_the_story_so_far(story):
    episodes = story((1, 5), (2, 5), (4_600, 5), (4_700, 1), (4_950, 1), (4_990, 1))
    assert claims(episodes, chat_length=5_000) == [4_990, 4_950, 4_700, 4_600, 2, 1]
    assert told(scene_block(episodes, chat_length=5_000, budget=82)) == [4_700, 4_950, 4_990]


def test_of_the_story_so_far_the_most_important_is_kept_and_the_newer_of_two(story):
    episodes = story((1, 2), (2, 5), (3, 2), (4, 4))
    assert claims(episodes, chat_length=5_000) == [2, 4, 3, 1]
    assert told(scene_block(episodes, chat_length=5_000, budget=60)) == [2, 4]


def test_one_that_is_too_long_does_not_keep_the_others_out(story):
    episodes = [*story((4_980, 3)), *story((4_990, 3), length=900)]
    assert told(scene_block(episodes, chat_length=5_000, budget=100)) == [4_980]


def test_scores_take_the_place_of_the_parts(story):
    episodes = story((1, 1), (4_700, 1), (4_980, 5), (4_990, 5))
    scores = {"e1": 9.0, "e4700": 7.0, "e4980": 8.0}
    assert claims(episodes, chat_length=5_000, scores=scores) == [1, 4_980, 4_700, 4_990]
    for settings in (SceneSettings(), UPSTREAM):
        block = scene_block(episodes, chat_length=5_000, budget=66, scores=scores, settings=settings)
        assert told(block) == [1, 4_980]


def test_of_equal_scores_the_newer_is_kept(story):
    assert claims(story((1, 5), (2, 1)), chat_length=9, scores={"e1": 1.0, "e2": 1.0}) == [2, 1]


def test_a_frame_that_does_not_fit_is_told_alone(story):
    frame = scene_block([], chat_length=100, present=["Bob"])
    for budget in (-1, 0, 1):
        for settings in (SceneSettings(), UPSTREAM):
            assert (
                scene_block(story((1, 3)), chat_length=100, present=["Bob"], budget=budget, settings=settings) == frame
            )


def test_all_is_told_in_the_default_budget(story):
    episodes = story(*((message, 3) for message in range(300)))
    assert len(told(scene_block(episodes, chat_length=5_000))) == 300


EVENTS = st.lists(st.tuples(st.integers(0, 1_200), st.integers(1, 5), st.integers(6, 90)), max_size=15)


@given(EVENTS, st.integers(0, 1_300), st.integers(0, 600), st.booleans(), st.booleans(), st.booleans())
def test_the_block_never_exceeds_its_budget_if_the_frame_fits(
    story, events, chat_length, budget, has_people, trajectories, scored
):
    episodes = [story((message, stars), length=length)[0] for message, stars, length in events]
    frame = {
        "chat_length": chat_length,
        "present": ["Bob", "Zoe"] if has_people else [],
        "characters": [CharacterState(name="Ann", current_emotion="sad", shifts=[{"emotion": "sad"}])] * has_people,
        "settings": SceneSettings(trajectories=trajectories),
    }
    scores = {episode.id: float(number) for number, episode in enumerate(episodes)} if scored else None
    block = scene_block(episodes, budget=budget, scores=scores, **frame)
    bare = scene_block([], budget=budget, **frame)
    assert estimate_scene_tokens(block) <= budget or block == bare


@given(EVENTS, st.integers(0, 1_300), st.integers(0, 600))
def test_more_room_never_tells_less_of_a_story_of_equal_lines(story, events, chat_length, budget):
    numbered = [(message, stars) for message, stars, _ in events if 100 <= message < 1_000]
    smaller = told(scene_block(story(*numbered), chat_length=chat_length, budget=budget))
    larger = told(scene_block(story(*numbered), chat_length=chat_length, budget=budget * 2))
    assert len(smaller) <= len(larger)
