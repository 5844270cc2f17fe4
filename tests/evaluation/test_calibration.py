from dataclasses import replace

import pytest

from memory_retrievers import AgentMemory, EpisodicMemory, Message, SemanticMemory
from memory_retrievers.errors import ValidationError
from memory_retrievers.evaluation import calibration
from memory_retrievers.evaluation.calibration import Example, calibrated, fitted, floor_of
from memory_retrievers.evaluation.custom import Pair
from memory_retrievers.evaluation.silence import Asked
from memory_retrievers.models import Kind
from memory_retrievers.models.results import Evidence
from memory_retrievers.testing import HashEmbedder

SCOPE = "user/ines"
THINGS = (
    *("anchor", "bakery", "cello", "dinghy", "easel", "fiddle", "glacier", "harbour", "igloo"),
    *("jigsaw", "kettle", "ladder", "mortar", "nutmeg", "orchard", "parsnip", "quiver", "radish"),
    *("saddle", "teapot", "umbrella", "violin", "walnut", "yoghurt", "zither", "almanac", "blanket"),
    *("candle", "dagger", "emblem", "falcon", "garnet", "hammock", "inkwell", "jasmine", "kayak"),
)


def evidence(strength):
    return Evidence(cosine=strength, coverage=strength / 2, deviations=10 * strength, passages=400)


def example(strength, *, is_own, fold="0", kind=Kind.SEMANTIC):
    return Example(fold=fold, kind=kind, is_own=is_own, evidence=(evidence(strength),), is_gold=(is_own,))


@pytest.fixture(scope="module")
def memory():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        memory.remember_many(
            [
                SemanticMemory.new(scope=SCOPE, fact=f"The {thing} stands beside the {other} of grandmother Agathe")
                for thing, other in zip(THINGS, [*THINGS[5:], *THINGS[:5]], strict=True)
            ]
        )
        yield memory


def test_stronger_evidence_of_answers_gives_weights_above_zero():
    chosen = [example(0.5 + 0.01 * n, is_own=True) for n in range(40)]
    chosen += [example(0.3 + 0.008 * n, is_own=False) for n in range(40)]
    weights = fitted(chosen, fewer=0.4)
    assert weights.match > 0
    assert weights.deviations > 0
    assert weights.fewer == 0.4
    assert weights.relevance(evidence(0.9)) > 0.5 > weights.relevance(evidence(0.3))


def test_dates_and_tokens_have_weights_where_they_were_measured():
    def hit(strength, *, is_own):
        told = replace(evidence(0.5), tokens=strength, dated=is_own and strength > 0.7)
        return Example(fold="0", kind=Kind.EPISODIC, is_own=is_own, evidence=(told,), is_gold=(is_own,))

    chosen = [hit(0.5 + 0.01 * n, is_own=True) for n in range(40)]
    weights = fitted(chosen + [hit(0.2 + 0.01 * n, is_own=False) for n in range(40)])
    assert weights.tokens > 0
    assert weights.dated > 0
    unmeasured = fitted([example(0.5 + 0.01 * n, is_own=n % 3 > 0) for n in range(60)])
    assert (unmeasured.tokens, unmeasured.dated) == (0, 0)


def test_what_speaks_against_the_data_is_left_out_and_never_negative():
    chosen = [example(0.3 + 0.01 * n, is_own=True) for n in range(40)]
    chosen += [example(0.6 + 0.01 * n, is_own=False) for n in range(40)]
    weights = fitted(chosen)
    assert (weights.match, weights.deviations) == (0, 0)
    assert weights.relevance(evidence(0.5)) == pytest.approx(0.5, abs=1e-6)


def test_a_floor_loses_two_of_a_hundred_by_the_best_hit_or_by_a_part_of_it_for_the_right_one():
    answers = [Asked(is_own=True, relevances=(place / 100,), is_gold=(True,)) for place in range(1, 101)]
    assert floor_of(answers) == 0.03
    behind = Asked(is_own=True, relevances=(0.5, 0.006), is_gold=(False, True))
    assert floor_of([behind, *answers[1:]]) == 0.03  # lost above its relevance by 0.6, as the first was above its own
    assert floor_of([behind], loss=0) == pytest.approx(0.01)
    assert floor_of([Asked(is_own=True, relevances=(0.5,), is_gold=(False,))]) == 0


def test_a_kind_with_too_few_questions_has_no_floor_and_two_such_kinds_are_refused():
    chosen = [example(0.5 + 0.01 * n, is_own=True) for n in range(40)]
    chosen += [example(0.1 + 0.008 * n, is_own=False) for n in range(40)]
    found = calibrated(chosen, are_made=False)
    assert found[Kind.EPISODIC].floor == 0 < found[Kind.SEMANTIC].floor
    assert calibrated(chosen, are_made=True)[Kind.SEMANTIC].floor < found[Kind.SEMANTIC].floor
    with pytest.raises(ValidationError, match="30 questions that memories of a kind answer"):
        calibrated(chosen[:60], are_made=False)


def test_questions_are_made_of_what_is_stored_and_none_holds_all_of_a_memory(memory):
    asked = calibration.asked_by_memories(memory)
    own = [each for each in asked if each.right]
    assert len(own) == len(THINGS)
    assert len(asked) == 2 * len(own)
    for each in own:
        (id,) = each.right[Kind.SEMANTIC]
        fact = memory.get(id, scope=SCOPE).fact
        words = each.text.split()
        held = [word for word in words if word in fact]
        assert 0 < len(held) < len(words)
        assert len(held) < len(fact.split())


def test_a_store_is_fitted_by_its_own_memories(memory, ignored):
    every = calibration.examples(calibration.asked_by_memories(memory), memory, progress=ignored)
    held = calibration.figures_left_out(every, Kind.SEMANTIC)
    assert held.auc > 0.9
    assert calibration.figures_left_out(every, Kind.EPISODIC) is None
    found = calibrated(every, are_made=True)
    assert found[Kind.SEMANTIC].floor > 0


def test_questions_of_a_file_are_asked_of_their_own_scope_and_of_the_next(embedder, ignored):
    with AgentMemory.in_memory(embedder=embedder) as memory:
        episode = EpisodicMemory.new(
            scope="a",
            id="boat",
            title="Boat",
            summary="A boat",
            messages=[Message(role="user", content="My boat sank.")],
        )
        memory.remember_many([episode, SemanticMemory.new(scope="b", id="tea", fact="Bo drinks tea")])
        pairs = [
            Pair(line=1, scope="a", query="What sank?", memory_ids=frozenset({"boat"})),
            Pair(line=2, scope="b", query="What does Bo drink?", memory_ids=frozenset({"tea"})),
        ]
        asked = calibration.asked_by_pairs(pairs, memory)
        assert [(each.text, each.scope, each.right.get(Kind.EPISODIC)) for each in asked[:2]] == [
            ("What sank?", "a", {"boat"}),
            ("What sank?", "b", None),
        ]
        assert asked[2].right == {Kind.EPISODIC: frozenset(), Kind.SEMANTIC: {"tea"}}
        every = calibration.examples(asked, memory, progress=ignored)
        assert [(each.kind, each.is_gold) for each in every if each.is_own] == [
            (Kind.EPISODIC, (True,)),
            (Kind.SEMANTIC, (True,)),
        ]
