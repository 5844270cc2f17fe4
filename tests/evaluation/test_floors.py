"""The floors that the search must not fall below, on the synthetic set and with the bundled model."""

import contextlib
import functools

import pytest

from memory_retrievers import RetrievalSettings
from memory_retrievers.backends.embeddings.minilm import MiniLMEmbedder
from memory_retrievers.evaluation.conversations import FilledStores, RememberedVectors
from memory_retrievers.evaluation.measure import by_category, figures, measure, token_counter
from memory_retrievers.evaluation.synthetic import (
    AGELESS,
    CHANGED,
    KEPT,
    USED,
    forgetting_dataset,
    measure_forgetting,
    synthetic,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bundled():
    return RememberedVectors(MiniLMEmbedder())


@pytest.fixture(scope="module")
def scores_of(bundled):
    with FilledStores(synthetic(), embedder=bundled) as stores:
        yield lambda settings: measure(stores, settings, tokens=token_counter(), progress=lambda done, total: None)


@pytest.fixture(scope="module")
def default(scores_of):
    """Measured when it is first asked for, within the test: what a fixture does counts as coverage, at twice the time."""
    return functools.cache(lambda: scores_of(RetrievalSettings()))


@pytest.fixture(scope="module")
def forgetting(bundled):
    @functools.cache
    def measured():
        told = measure_forgetting(
            *forgetting_dataset(), embedder=bundled, watched=lambda name: contextlib.nullcontext(lambda *_: None)
        )
        return {name: {sort: found.means for sort, found in by_category(each).items()} for name, each in told.items()}

    return measured


def test_no_category_falls_below_the_reference_profile(default, scores_of):
    reference = by_category(scores_of(RetrievalSettings.reference()))
    for category, found in by_category(default()).items():
        assert found.means["any@5"] >= reference[category].means["any@5"], category
        assert found.means["MRR"] >= reference[category].means["MRR"], category


def test_the_default_finds_the_session(default):
    means = figures(default()).means
    assert means["any@5"] >= 0.95
    assert means["any@1"] >= 0.90


def test_the_default_finds_the_turn_and_tells_it_within_the_budget(default):
    means = figures(default()).means
    assert means["R@10"] >= 0.90
    assert means["T500"] >= 0.90


def test_forgetting_with_reviews_brings_up_what_is_used(forgetting):
    default = f"decay {RetrievalSettings().decay_weight} (default)"
    for sort in (USED, KEPT):
        assert forgetting()[f"{default}, with reviews"][sort]["any@1"] >= 0.6
        assert (
            forgetting()[f"{default}, with reviews"][sort]["any@1"]
            >= forgetting()["decay 0, with reviews"][sort]["any@1"] + 0.1
        )


def test_forgetting_brings_up_what_is_newer(forgetting):
    default = f"decay {RetrievalSettings().decay_weight} (default)"
    plain = forgetting()["decay 0, without reviews"][CHANGED]["any@1"]
    assert forgetting()[f"{default}, without reviews"][CHANGED]["any@1"] >= plain + 0.05


def test_the_default_does_not_hide_what_is_old(forgetting):
    default = f"decay {RetrievalSettings().decay_weight} (default)"
    plain = forgetting()["decay 0, without reviews"][AGELESS]["any@5"]
    assert forgetting()[f"{default}, without reviews"][AGELESS]["any@5"] >= plain - 0.05
