"""From the messages of a story to its events, by a language model."""

import json

import pytest
from cases import tried_in_one
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers import Message
from memory_retrievers.backends.language_models import adapt
from memory_retrievers.errors import LanguageModelError, ValidationError
from memory_retrievers.models.scenes import EventType, SceneEvent
from memory_retrievers.scene.extraction import extract_events
from memory_retrievers.testing import ScriptedLanguageModel

MESSAGES = [Message(role="Mira", content="I trust you, Bob."), Message(role="Bob", content="You should not.")]


class Saying:
    """A model that says the same text whatever it is asked."""

    def __init__(self, text):
        self.text = text

    def generate(self, system, user, schema):
        return self.text


def events_of(*entries, first_message_id=5):
    return extract_events(ScriptedLanguageModel([{"events": entries}]), MESSAGES, first_message_id=first_message_id)


def test_everything_a_model_says_of_an_event_is_kept():
    (event,) = events_of(
        {
            "summary": "Bob warned\nMira not to trust him.", "importance": 4, "event_type": "relationship_change",
            "characters_involved": ["Bob", "Mira"], "witnesses": ["Mira"], "is_secret": True, "location": "the mill",
            "emotional_impact": [{"character": "Mira", "emotion": "hurt"}],
            "relationship_impact": [{"from_character": "Bob", "to_character": "Mira", "change": "warns her"}],
        }
    )  # fmt: skip
    assert event == SceneEvent(
        summary="Bob warned Mira not to trust him.", importance=4, message_ids=(5, 6), sequence=5_000,
        event_type=EventType.RELATIONSHIP_CHANGE, characters_involved=("Bob", "Mira"), witnesses=("Mira",),
        is_secret=True, location="the mill", emotional_impact={"Mira": "hurt"},
        relationship_impact={"Bob->Mira": "warns her"},
    )  # fmt: skip


@tried_in_one(
    "said, stars",
    [
        (-5, 1), (0, 1), (100, 5), (3, 3), (4.9, 4), ("4", 4), (1e400, 5), (10**400, 3),
        (None, 3), ("high", 3), ("nan", 3), (True, 3), ([], 3), ({}, 3),
    ],
)  # fmt: skip
def test_importance_is_brought_to_one_to_five(said, stars):
    assert events_of({"summary": "Bob left.", "importance": said})[0].importance == stars


def test_without_importance_an_event_has_three_stars():
    assert events_of({"summary": "Bob left."})[0].importance == 3


def test_witnesses_fall_back_to_those_who_took_part():
    (event,) = events_of({"summary": "Bob left.", "characters_involved": ["Bob", "Mira"]})
    assert event.witnesses == ("Bob", "Mira")


def test_the_sequence_is_of_the_lowest_message_and_the_place_in_the_answer():
    events = events_of({"summary": "Bob came."}, {"summary": "Bob left."})
    assert [(event.message_ids, event.sequence) for event in events] == [((5, 6), 5_000), ((5, 6), 5_001)]


def test_entries_that_tell_of_nothing_are_left_out_and_take_no_place():
    events = events_of(
        {"summary": " \n "}, "Bob came.", None, {"importance": 5}, {"summary": 7}, {"summary": "Bob left."}
    )
    assert [(event.summary, event.sequence) for event in events] == [("Bob left.", 5_000)]


@pytest.mark.parametrize("said", ["fight", None, 3, [], "ACTION "])
def test_an_unknown_kind_of_event_is_an_action(said):
    assert events_of({"summary": "Bob left.", "event_type": said})[0].event_type is EventType.ACTION


def test_emotions_may_come_as_an_object_and_half_an_entry_is_none():
    (named,) = events_of({"summary": "Bob left.", "emotional_impact": {"Mira": "sad", "Bob": None, "": "glad"}})
    assert named.emotional_impact == {"Mira": "sad"}
    (listed,) = events_of(
        {"summary": "Bob left.", "emotional_impact": [{"character": "Mira"}, "Bob", {"emotion": "sad"}]}
    )
    assert listed.emotional_impact == {}


def test_a_bad_answer_is_no_event():
    for text in ("I cannot do that.", '{"events": [{"summary": "Bob', "{}", '{"story": []}', "[]"):
        assert extract_events(adapt(Saying(text)), MESSAGES, first_message_id=5) == []


def test_json_in_a_fence_or_amid_prose_is_taken():
    answer = json.dumps({"events": [{"summary": "Bob left.", "importance": 2}]})
    for text in (f"```json\n{answer}\n```", f"Here it is:\n{answer}\nDone."):
        (event,) = extract_events(adapt(Saying(text)), MESSAGES, first_message_id=5)
        assert (event.summary, event.importance) == ("Bob left.", 2)


def test_a_model_that_fails_is_an_error():
    class Failing:
        def generate(self, system, user, schema):
            raise ConnectionError("no route")

    with pytest.raises(LanguageModelError, match="no route"):
        extract_events(adapt(Failing()), MESSAGES, first_message_id=5)


def test_without_messages_no_model_is_asked():
    assert extract_events(ScriptedLanguageModel([]), [], first_message_id=0) == []


@pytest.mark.parametrize("first", [-1, 2**53 - 2, 2**60])
def test_a_message_number_that_cannot_be_kept_is_refused_before_a_model_is_asked(first):
    with pytest.raises(ValidationError, match="first_message_id"):
        extract_events(ScriptedLanguageModel([]), MESSAGES, first_message_id=first)


def test_the_largest_message_number_can_be_kept():
    (event,) = events_of({"summary": "Bob left."}, first_message_id=2**53 - 3)
    assert event.message_ids == (2**53 - 3, 2**53 - 2)


def test_the_model_is_given_the_messages_and_the_known_names():
    model = ScriptedLanguageModel([{"events": []}])
    extract_events(model, MESSAGES, first_message_id=5, characters=["Mira", 'Bob "the knife"'])
    (_, user) = model.prompts[0]
    assert user == (
        '# Known names\n"Mira", "Bob \\"the knife\\""\n\n'
        '# Messages\n- mira: "I trust you, Bob."\n- bob: "You should not."'
    )  # fmt: skip


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
FIELDS = [
    "summary", "importance", "event_type", "characters_involved", "witnesses", "is_secret", "location",
    "emotional_impact", "relationship_impact",
]  # fmt: skip
ENTRIES = st.lists(ANYTHING | st.dictionaries(st.sampled_from(FIELDS), ANYTHING), max_size=4)


@given(ENTRIES)
def test_whatever_a_model_says_the_events_fit(entries):
    for event in events_of(*entries):
        assert SceneEvent.model_validate_json(event.model_dump_json()) == event
        assert event.summary == " ".join(event.summary.split())


@given(st.text(), st.text(min_size=1).filter(str.strip))
def test_names_and_emotions_of_any_text_are_kept_or_left_out(name, emotion):
    entry = {
        "summary": "Bob left.",
        "characters_involved": [name],
        "emotional_impact": [{"character": name, "emotion": emotion}],
    }
    (event,) = events_of(entry)
    assert len(event.emotional_impact) <= 1
