import importlib.metadata
import subprocess
import sys

import pytest

from memory_retrievers.evaluation import measure


@pytest.fixture(autouse=True)
def fresh():
    measure.token_counter.cache_clear()
    yield
    measure.token_counter.cache_clear()


@pytest.mark.parametrize(
    ("text", "number"),
    [("", 0), ("hello world", 2), ("tiktoken is great!", 6), ("antidisestablishmentarianism", 6), ("2 + 2 = 4", 7)],
)
def test_cl100k_counts_as_openai_has_published_it(text, number):
    pytest.importorskip("tiktoken")
    counter = measure.token_counter()
    assert counter.name == "cl100k"
    assert counter.count(text) == number


def test_a_special_token_in_a_text_is_only_text():
    pytest.importorskip("tiktoken")
    assert measure.token_counter().count("<|endoftext|>") > 1


def test_without_the_table_a_quarter_of_the_characters_is_taken_and_told(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    counter = measure.token_counter()
    assert counter.name == "characters / 4"
    assert [counter.count("x" * length) for length in (0, 1, 4, 5)] == [0, 1, 1, 2]


def test_llama_index_is_not_imported_for_its_table():
    program = (
        "import sys; from memory_retrievers.evaluation.measure import token_counter; token_counter().count('hello'); "
        "assert not any(name.startswith('llama_index') for name in sys.modules), 'imported'"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
