"""What events make of characters."""

import itertools

import pytest
from contracts.samples import episode, scene
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers import CharacterState, SceneDetails, ValidationError
from memory_retrievers.models.scenes import MOST_SHIFTS, EmotionShift, MessageSpan
from memory_retrievers.scene.events import known_to, updated


def event(id, **fields):
    return scene(id, details=SceneDetails(**fields))


def emotions(state):
    return [shift.emotion for shift in state.shifts]


def test_whoever_witnesses_an_event_appears_neutral_and_knows_it():
    assert updated([], [event("e1", witnesses=["Marcus"])]) == [
        CharacterState(name="Marcus", current_emotion="neutral", emotion_intensity=5, known_events=("e1",))
    ]


def test_an_emotion_is_noted_with_the_messages_it_is_from():
    (state,) = updated([], [event("e1", emotional_impact={"Hero": "wary"}, message_ids=[7, 4, 5])])
    assert state == CharacterState(
        name="Hero",
        current_emotion="wary",
        emotion_from_messages=MessageSpan(min=4, max=7),
        shifts=(EmotionShift(emotion="wary", message_id=4),),
    )


def test_the_last_event_that_mentions_a_character_wins():
    (state,) = updated(
        [CharacterState(name="Hero", current_emotion="sad", emotion_from_messages=MessageSpan(min=1, max=1))],
        [
            event("e1", emotional_impact={"Hero": "wary"}, message_ids=[4]),
            event("e2", emotional_impact={"Hero": "calm"}, message_ids=[9]),
            event("e3", characters_involved=["Hero"], message_ids=[12]),
        ],
    )
    assert (state.current_emotion, state.emotion_from_messages) == ("calm", MessageSpan(min=9, max=9))


def test_an_emotion_that_goes_on_is_no_shift_but_is_as_of_its_last_event():
    told = [event(f"e{n}", emotional_impact={"Hero": "wary"}, message_ids=[n]) for n in (4, 8)]
    (state,) = updated([], told)
    assert state.shifts == (EmotionShift(emotion="wary", message_id=4),)
    assert state.emotion_from_messages == MessageSpan(min=8, max=8)


def test_an_emotion_without_messages_is_of_no_messages():
    before = updated([], [event("e1", emotional_impact={"Hero": "wary"}, message_ids=[4])])
    (state,) = updated(before, [event("e2", emotional_impact={"Hero": "calm"})])
    assert state.emotion_from_messages is None
    assert state.shifts[-1] == EmotionShift(emotion="calm", message_id=None)


def test_only_the_last_ten_shifts_are_kept():
    told = [event(f"e{n}", emotional_impact={"Hero": f"mood {n}"}) for n in range(MOST_SHIFTS + 3)]
    (state,) = updated([], told)
    assert emotions(state) == [f"mood {n}" for n in range(3, MOST_SHIFTS + 3)]


def test_becoming_neutral_is_a_shift_and_being_neutral_from_the_start_is_none():
    told = [event(f"e{n}", emotional_impact={"Hero": mood}) for n, mood in enumerate(["neutral", "wary", "neutral"])]
    (state,) = updated([], told)
    assert (state.current_emotion, emotions(state)) == ("neutral", ["wary", "neutral"])


def test_a_name_in_other_letters_is_the_same_character_as_it_was_first_written():
    told = [
        event("e1", witnesses=["Old Bram"], emotional_impact={"Old Bram": "calm"}),
        event("e2", witnesses=["old bram"], emotional_impact={"OLD BRAM ": "angry"}),
    ]
    (state,) = updated(updated([], told[:1]), told[1:])
    assert (state.name, emotions(state), state.known_events) == ("Old Bram", ["calm", "angry"], ("e1", "e2"))
    assert updated([], told) == [state]


def test_an_accent_written_in_another_way_makes_no_other_character():
    told = [event("e1", witnesses=["Jos\u00e9"]), event("e2", witnesses=["Jose\u0301"])]
    (state,) = updated([], told)
    assert state.known_events == ("e1", "e2")
    assert known_to(["Jose\u0301"], told) == told


def test_two_characters_that_an_older_version_kept_of_one_name_are_left_and_the_first_goes_on():
    before = [CharacterState(name="Mira"), CharacterState(name="mira")]
    after = updated(before, [event("e1", emotional_impact={"MIRA": "glad"})])
    assert [(state.name, state.current_emotion) for state in after] == [("Mira", "glad"), ("mira", "neutral")]


def test_an_event_is_known_once_however_often_it_is_told():
    told = event("e1", witnesses=["Hero"])
    (state,) = updated(updated([], [told]), [told, told])
    assert state.known_events == ("e1",)


def test_who_is_involved_without_having_witnessed_anything_is_nobody_yet():
    assert updated([], [event("e1", characters_involved=["Goblin"])]) == []


def test_those_there_were_come_first_and_then_those_who_appear():
    before = [CharacterState(name="Zoe"), CharacterState(name="Bob", emotion_intensity=9)]
    told = [event("e1", emotional_impact={"Ada": "glad", "Bob": "sad"}, witnesses=["Eve", "Zoe"])]
    after = updated(before, told)
    assert [state.name for state in after] == ["Zoe", "Bob", "Ada", "Eve"]
    assert [state.emotion_intensity for state in after] == [5, 9, 5, 5]


def test_names_and_emotions_are_taken_without_the_space_around_them():
    (state,) = updated([], [event("e1", emotional_impact={" Hero\n": " wary "}, witnesses=[" Hero "])])
    assert (state.name, state.current_emotion, state.known_events) == ("Hero", "wary", ("e1",))


def test_an_episode_that_is_no_scene_changes_nothing():
    before = [CharacterState(name="Zoe", known_events=("e0",))]
    assert updated(before, [episode("e1")]) == before


def test_a_name_that_is_too_long_is_an_error_of_ours():
    with pytest.raises(ValidationError, match="name"):
        updated([], [event("e1", witnesses=["x" * 1_001])])


names = st.sampled_from(["Ada", "Bob", "Zoe"])
pending = st.lists(
    st.builds(
        SceneDetails,
        message_ids=st.lists(st.integers(0, 99), max_size=2),
        witnesses=st.lists(names, max_size=3),
        emotional_impact=st.dictionaries(names, st.sampled_from(["neutral", "wary", "calm", "sad"]), max_size=2),
    ),
    max_size=30,
)


@given(pending, st.integers(0, 30))
def test_it_makes_no_difference_in_how_many_batches_a_story_is_told(told, cut):
    story = [scene(f"e{number}", details=details) for number, details in enumerate(told)]
    assert updated(updated([], story[:cut]), story[cut:]) == updated([], story)


@given(pending)
def test_each_character_is_as_its_own_events_say(told):
    story = [scene(f"e{number}", details=details) for number, details in enumerate(told)]
    for state in updated([], story):
        felt = [each.scene.emotional_impact[state.name] for each in story if state.name in each.scene.emotional_impact]
        assert state.current_emotion == (felt or ["neutral"])[-1]
        assert state.known_events == tuple(each.id for each in story if state.name in each.scene.witnesses)
        shifts = emotions(state)
        assert len(shifts) <= MOST_SHIFTS
        assert all(before != after for before, after in itertools.pairwise(shifts))
        assert shifts == [] or shifts[-1] == state.current_emotion
