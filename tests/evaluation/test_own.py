import math

import pytest

from memory_retrievers import AgentMemory, RetrievalSettings
from memory_retrievers.errors import ValidationError
from memory_retrievers.evaluation import custom
from memory_retrievers.evaluation.custom import HELD_OUT, TUNE, Pair, measure_own, suggest
from memory_retrievers.evaluation.measure import Score

DEFAULT = RetrievalSettings()
OTHER = RetrievalSettings(decay_weight=0.0)


@pytest.fixture
def store(conversation, embedder, tmp_path):
    with AgentMemory.open(tmp_path / "store", embedder=embedder) as memory:
        memory.remember_many(conversation.drafts())
        memory.remember_fact(scope=conversation.scope, id="fact", fact="Ruth lives in Lyon")
    return tmp_path / "store"


@pytest.fixture
def measured_on(store, embedder, ignored):
    def measured_on(pairs):
        return measure_own(
            pairs,
            {"default": DEFAULT, "other": OTHER},
            open_store=lambda settings: AgentMemory.open(store, embedder=embedder, retrieval=settings, read_only=True),
            embedder=embedder,
            seed=1,
            progress=ignored,
        )

    return measured_on


def _pairs(conversation, *, id):
    return [
        Pair(line=n, scope=conversation.scope, query=f"Where does Ruth live? {n}", memory_ids=frozenset({id}))
        for n in range(1, 9)
    ]


def test_both_kinds_are_ranked_together(conversation, measured_on):
    measured = measured_on(_pairs(conversation, id="fact"))
    assert list(measured) == ["default", "other"]
    for scores in measured.values():
        assert {score.category for score in scores} == {TUNE, HELD_OUT}
        assert all(score.values["any@1"] == score.values["nDCG@10"] == 1 for score in scores)


def test_measuring_files_nothing_for_review(conversation, measured_on, store, embedder):
    measured_on(_pairs(conversation, id="session-1"))
    with AgentMemory.open(store, embedder=embedder) as memory:
        assert memory.pending_reviews(conversation.scope) == []


def test_too_few_questions_are_refused_before_the_store_is_opened(conversation, ignored, embedder):
    def never(settings):
        raise AssertionError("opened")

    with pytest.raises(ValidationError, match="too few"):
        measure_own(
            _pairs(conversation, id="fact")[:1],
            {"default": DEFAULT},
            open_store=never,
            embedder=embedder,
            seed=1,
            progress=ignored,
        )


def test_a_memory_that_is_not_there_is_refused(conversation, measured_on):
    with pytest.raises(ValidationError, match="line 1: there is no memory 'gone'"):
        measured_on(_pairs(conversation, id="gone"))


def _scores(tune, held_out):
    return [
        Score(category=half, values={"nDCG@10": value, "any@5": float(value > 0.5)}, seconds=0.1)
        for half, values in ((TUNE, tune), (HELD_OUT, held_out))
        for value in values
    ]


def test_what_is_best_on_one_half_is_tested_on_the_other():
    measured = {
        "default": _scores([0.5] * 40, [0.4, 0.6] * 20),
        "other": _scores([0.6] * 40, [0.8, 0.9] * 20),
    }
    found = suggest(measured, {"default": DEFAULT, "other": OTHER})
    assert (found.name, found.settings) == ("other", OTHER)
    assert found.held_out.questions == 40
    assert found.held_out.means["any@5"] == 1
    assert 0.3 < found.gain.low < 0.35 < found.gain.high < 0.4
    assert not found.is_within_noise


def test_a_difference_that_chance_explains_is_called_noise():
    measured = {"default": _scores([0.5] * 8, [0.0, 1.0] * 4), "other": _scores([0.6] * 8, [1.0, 0.1] * 4)}
    assert suggest(measured, {"default": DEFAULT, "other": OTHER}).is_within_noise


def test_the_default_is_suggested_where_nothing_is_better():
    measured = {"default": _scores([0.6], [0.6]), "other": _scores([0.6], [0.9])}
    found = suggest(measured, {"default": DEFAULT, "other": OTHER})
    assert found.name == custom.DEFAULT
    assert found.gain == (0.0, 0.0)
    assert found.is_within_noise


def test_silence_is_measured_between_the_scopes_of_the_questions(embedder):
    with AgentMemory.in_memory(embedder=embedder) as memory:
        for scope, fact in (("a", "Ruth keeps bees"), ("b", "Sami has a boat")):
            memory.remember_fact(scope=scope, id=scope, fact=fact)
        pairs = [
            Pair(line=1, scope="a", query="Who keeps bees?", memory_ids=frozenset({"a"})),
            Pair(line=2, scope="b", query="Who has a boat?", memory_ids=frozenset({"b"})),
        ]
        figures = custom.measure_silence(pairs, memory)
        assert (figures.questions, figures.foreign, figures.auc, figures.silenced) == (2, 2, 1, 1)
        right = min(memory.retrieve(pair.query, scope=pair.scope).semantic[0].relevance for pair in pairs)
        assert figures.floor == right
        alone = custom.measure_silence(pairs[:1], memory)
        assert alone.foreign == 0
        assert math.isnan(alone.auc)
