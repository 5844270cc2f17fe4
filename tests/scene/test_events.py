"""What an event of a story is stored as."""

from cases import tried_in_one
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers import SceneDetails, SceneEvent
from memory_retrievers.models import Origin
from memory_retrievers.scene.events import drafts_of


def draft_of(**fields):
    (draft,) = drafts_of("story", [SceneEvent(**{"summary": "Goblin stole the amulet.", **fields})])
    return draft


@tried_in_one(
    "stars, weight", [(1, 0.0), (2, 0.25), (3, 0.5), (4, 0.75), (5, 1.0), (-5, 0.0), (100, 1.0), (10**400, 1.0)]
)
def test_stars_become_surprise_and_importance(stars, weight):
    draft = draft_of(importance=stars)
    assert (draft.surprise, draft.importance) == (weight, weight)
    assert draft.scene.importance == 1 + 4 * weight


def test_an_event_becomes_an_episode_that_was_told_by_hand():
    draft = draft_of(id="e1", location="the camp", event_type="revelation", relationship_impact={"Hero-Goblin": -2})
    assert (draft.scope, draft.id, draft.summary) == ("story", "e1", "Goblin stole the amulet.")
    assert (draft.origin, draft.is_flashbulb, draft.messages) == (Origin.API, False, ())
    assert draft.scene.location == "the camp"
    assert draft.scene.relationship_impact == {"Hero-Goblin": -2}


def test_the_scene_is_kept_as_details_and_not_as_the_event():
    assert type(draft_of().scene) is SceneDetails


def test_who_is_involved_has_seen_it_unless_witnesses_are_named():
    assert draft_of(characters_involved=["Hero", "Goblin"]).scene.witnesses == ("Hero", "Goblin")
    assert draft_of(characters_involved=["Hero"], witnesses=["Elder"]).scene.witnesses == ("Elder",)
    assert draft_of().scene.witnesses == ()


def test_sequences_follow_the_lowest_message_and_the_place_in_the_batch():
    events = [SceneEvent(summary=f"Event {n}", message_ids=ids) for n, ids in enumerate([[6, 5], [5, 6], [], [2]])]
    events.append(SceneEvent(summary="Set by hand", message_ids=[9], sequence=7))
    assert [draft.scene.sequence for draft in drafts_of("story", events)] == [5000, 5001, 2, 2003, 7]


def test_a_message_number_beyond_all_measure_stays_a_number_that_can_be_stored():
    draft = draft_of(message_ids=[2**53 - 1])
    assert SceneDetails.model_validate(draft.scene.model_dump()).sequence == 2**53 - 1


def test_no_events_are_no_drafts():
    assert drafts_of("story", []) == []


@given(st.lists(st.lists(st.integers(0, 10**6), min_size=1, max_size=3), max_size=20))
def test_events_of_one_batch_never_share_a_sequence(message_ids):
    drafts = drafts_of("story", [SceneEvent(summary="Something", message_ids=ids) for ids in message_ids])
    assert len({draft.scene.sequence for draft in drafts}) == len(drafts)
