"""From what a language model answers to what may happen to facts."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers.ingestion.facts import Action, ConsolidationAnswer, parse_changes, resolve_conflicts
from memory_retrievers.models import Category, EpisodicMemory, Origin, SemanticMemory

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def fact(id):
    return SemanticMemory(scope="c1", id=id, fact=f"Fact {id}", created_at=NOW, updated_at=NOW, valid_at=NOW)


def episode(id):
    return EpisodicMemory(
        scope="c1", id=id, summary="s", created_at=NOW, updated_at=NOW, start_at=NOW, end_at=NOW, stability=1,
        difficulty=1, last_reviewed_at=NOW,
    )  # fmt: skip


KNOWN = [fact("a"), fact("b")]
EPISODES = [episode("e1"), episode("e2"), episode("e3")]


def said(action, target=None, text="X", **fields):
    return {"action": action, "existing_fact_id": target, "fact": text} | fields


def result(*entries, active=("a", "b")):
    """(action, target, text) of what may happen."""
    answers = ConsolidationAnswer.model_validate({"facts": list(entries)}).facts
    proposals = parse_changes(answers, known=KNOWN, episodes=EPISODES, scope="c1")
    changes = resolve_conflicts(proposals, active={known.id: known for known in KNOWN if known.id in active})
    return [(change.action.value, change.target, change.draft and change.draft.fact) for change in changes]


def test_an_update_without_target_is_a_new_fact():
    assert result(said("update")) == [("new", None, "X")]


def test_an_update_of_something_unknown_is_a_new_fact():
    assert result(said("update", "F3"), said("update", "a", "Y")) == [("new", None, "X"), ("new", None, "Y")]


def test_an_update_of_what_no_longer_holds_is_a_new_fact():
    assert result(said("update", "F1"), active=["b"]) == [("new", None, "X")]


def test_to_reinforce_or_invalidate_takes_a_presented_fact_that_holds():
    for target in (None, "", "F3", "a", "F0", "F-1", "1"):
        assert result(said("reinforce", target), said("invalidate", target)) == []
    assert result(said("reinforce", "F1"), said("invalidate", "F2"), active=[]) == []


def test_a_new_fact_ignores_its_id():
    assert result(said("new", "F1")) == [("new", None, "X")]


def test_of_several_actions_on_one_fact_update_goes_before_invalidate_before_reinforce():
    assert result(said("reinforce", "F1"), said("invalidate", "F1"), said("update", "F1")) == [("update", "a", "X")]
    assert result(said("reinforce", "F1"), said("invalidate", "f1")) == [("invalidate", "a", None)]


def test_of_two_like_actions_the_first_stands():
    assert result(said("update", "F1", "X"), said("update", "F1", "Y")) == [("update", "a", "X")]


def test_an_update_without_text_does_not_stand_in_the_way():
    assert result(said("update", "F1", " \n "), said("invalidate", "F1")) == [("invalidate", "a", None)]


def test_a_new_fact_without_text_is_left_out():
    assert result(said("new", None, ""), said("new", None, "  ")) == []


def test_a_new_fact_carries_what_was_said_on_one_line():
    answers = ConsolidationAnswer.model_validate(
        {
            "facts": [
                said(
                    "new", None, " User\nlives in  Lyon ", category="IDENTITY", keywords=[" Lyon "], source_episodes=[2]
                )
            ]
        }
    ).facts
    (change,) = parse_changes(answers, known=[], episodes=EPISODES, scope="c1")
    draft = change.draft
    assert (draft.fact, draft.category, draft.keywords) == ("User lives in Lyon", Category.IDENTITY, ("Lyon",))
    assert (draft.scope, draft.origin, draft.source_episodic_ids) == ("c1", Origin.CONSOLIDATION, ("e2",))


def test_sources_are_the_named_episodes_or_all():
    def sources(**fields):
        answers = ConsolidationAnswer.model_validate({"facts": [said("reinforce", "F1", **fields)]}).facts
        return parse_changes(answers, known=KNOWN, episodes=EPISODES, scope="c1")[0].sources

    assert sources(source_episodes=[3, 1, 1]) == ("e1", "e3")
    assert sources(source_episodes=["E2"]) == ("e2",)
    assert sources() == sources(source_episodes=[]) == sources(source_episodes=[0, 4, 99]) == ("e1", "e2", "e3")


def test_a_novel_is_cut():
    (change,) = result(said("new", None, "x" * 5_000_000))
    assert len(change[2]) == 1_000


entries = st.fixed_dictionaries(
    {
        "action": st.sampled_from([*Action, "NEW", "nonsense"]),
        "existing_fact_id": st.none() | st.sampled_from(["F1", "F2", "F3", "a", "[ID: F1]", ""]),
        "fact": st.sampled_from(["", " ", "X", "Y"]),
    }
)


@given(st.lists(entries), st.sets(st.sampled_from(["a", "b"])))
def test_whatever_is_said_each_fact_that_holds_changes_in_one_way_at_most(answer, active):
    changes = result(*answer, active=active)
    targets = [target for _, target, _ in changes if target is not None]
    assert len(targets) == len(set(targets))
    assert set(targets) <= active
    for action, target, text in changes:
        assert (target is None) == (action == "new")
        assert bool(text) == (action in {"new", "update"})
