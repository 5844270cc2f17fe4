"""What is remembered is bounded by its bytes, whatever scopes and texts somebody has stored to fill it."""

import gc
import tracemalloc
from datetime import timedelta

import pytest
from contracts.samples import NOW, add, fact, facts_in

from memory_retrievers.backends import rank_bm25, terms
from memory_retrievers.backends.rank_bm25 import RankBM25KeywordIndex
from memory_retrievers.backends.sql import keyword
from memory_retrievers.backends.sql.cache import ENTRY_BYTES
from memory_retrievers.backends.sql.keyword import PostingsKeywordIndex
from memory_retrievers.backends.sql.selection import laid_out, size_of
from memory_retrievers.backends.sqlite import SQLiteLedger
from memory_retrievers.models import Category
from memory_retrievers.text import analysis as text

PARAMETERS = {"k1": 0.9, "b": 0.4}
MANY = 300
WORDS = 500


@pytest.fixture
def ledger(tmp_path):
    ledger = SQLiteLedger(tmp_path / "memory.db")
    yield ledger
    ledger.close()


def long_scope(number):
    """A scope of nearly as many bytes as one may have, with those that tell it apart at its end."""
    return "/".join(["x" * 100] * 4 + [f"{number:08}"])


def words(start):
    return " ".join(f"w{start + number}x" for number in range(WORDS))


class Held:
    """The bytes that come to be held within it, and stay."""

    def __enter__(self):
        gc.collect()
        tracemalloc.start()
        self._before = tracemalloc.get_traced_memory()[0]
        return self

    def __exit__(self, *_):
        gc.collect()
        self.bytes = tracemalloc.get_traced_memory()[0] - self._before
        tracemalloc.stop()


def _fill(ledger, index, texts):
    for number, each in enumerate(texts):
        index.add(add(ledger, [fact(f"f{number}", each, scope=long_scope(number))]))


@pytest.mark.parametrize("engine", [PostingsKeywordIndex, RankBM25KeywordIndex])
def test_blocks_of_many_distinct_words_keep_to_their_bytes(ledger, engine, monkeypatch):
    postings = PostingsKeywordIndex(ledger, **PARAMETERS)
    _fill(ledger, postings, [words(WORDS * number) for number in range(20)])
    monkeypatch.setattr(terms, "REMEMBERED_BYTES", 2**20)
    monkeypatch.setattr(rank_bm25, "REMEMBERED_BYTES", 2**19)
    monkeypatch.setattr(text, "_known_terms", text._word_terms)  # its own test is below
    index = engine(ledger, **PARAMETERS)
    with Held() as held:
        for number in range(20):
            assert len(index.search([f"w{WORDS * number}x"], facts_in(long_scope(number)), limit=5).passages) == 1
    assert index._cache._size <= 2**20
    assert held.bytes < 3 * 2**20, f"{held.bytes / 2**20:.1f} MB"
    assert index._cache._size > 2**19  # and they are remembered


@pytest.mark.parametrize("engine", [PostingsKeywordIndex, RankBM25KeywordIndex])
def test_a_scope_larger_than_the_cache_is_searched_and_costs_no_other_its_place(ledger, engine, monkeypatch):
    postings = PostingsKeywordIndex(ledger, **PARAMETERS)
    _fill(ledger, postings, ["green tea", words(0) + " tea"])
    index = engine(ledger, **PARAMETERS)
    monkeypatch.setattr(terms, "REMEMBERED_BYTES", 50_000)
    for _ in range(2):
        for number in (0, 1):
            assert len(index.search(["tea"], facts_in(long_scope(number)), limit=5).passages) == 1
    assert [scope for scope, *_ in index._cache._entries] == [long_scope(0)]


def test_what_a_block_is_said_to_take_is_what_it_takes(ledger):
    postings = PostingsKeywordIndex(ledger, **PARAMETERS)
    for number in range(20):
        postings.add(add(ledger, [fact(f"f{number}", words(WORDS * number), scope="user/1")]))
    index = RankBM25KeywordIndex(ledger, **PARAMETERS)
    with Held() as held:
        block = index._cache.block(facts_in())
    assert block.size / 1.5 < held.bytes < block.size * 1.5
    with Held() as held:
        model = rank_bm25._Model(block, **PARAMETERS)
    assert model.size / 3 < held.bytes < model.size * 3


def test_a_scope_of_few_passages_with_endless_words_is_read_from_the_database(ledger, monkeypatch):
    index = PostingsKeywordIndex(ledger, **PARAMETERS)
    monkeypatch.setattr(keyword, "SCAN_LIMIT", 100)
    small = PostingsKeywordIndex(ledger, **PARAMETERS, scan_limit=100)
    _fill(ledger, index, [" ".join(words(WORDS * number) for number in range(12))])
    assert len(small.search(["w7x"], facts_in(long_scope(0)), limit=5).passages) == 1
    assert not small._cache._entries
    assert len(index.search(["w7x"], facts_in(long_scope(0)), limit=5).passages) == 1
    assert len(index._cache._entries) == 1


def test_one_word_of_a_megabyte_leaves_little_behind(ledger):
    index = PostingsKeywordIndex(ledger, **PARAMETERS)
    with Held() as held:
        index.add(add(ledger, [fact("f1", "x" * 1_000_000)]))
        assert index.search(["x" * 64], facts_in(), limit=5).passages
    assert held.bytes < 2**20, f"{held.bytes / 2**20:.1f} MB"


@pytest.mark.parametrize(
    "word",
    [lambda n: f"{n:05}" + "x" * 50 + ("." + "y" * 60) * 15, lambda n: f"a{n:05}" + "\u0e01\u0e34" * 800],
    ids=["joined", "with marks"],
)
def test_words_that_are_kept_with_their_terms_are_short(word):
    text._known_terms.cache_clear()
    with Held() as held:
        for number in range(500):
            text.analyze(word(number))
    assert held.bytes < 500 * 1_500, f"{held.bytes / 500:.0f} bytes a word"
    text._known_terms.cache_clear()


def test_answers_about_nothing_take_room_too(ledger, monkeypatch):
    eligibility = ledger._eligibility
    for answers in (eligibility._ids, eligibility._layouts):
        monkeypatch.setattr(answers, "_most", 50 * ENTRY_BYTES)
    for number in range(MANY):
        scope = long_scope(number)
        add(ledger, [fact("f1", scope=scope, expires_at=NOW + timedelta(seconds=1))])
        later = NOW + timedelta(hours=1)
        assert ledger.eligible(facts_in(scope, now=later)) == []
        assert ledger.eligible(facts_in(scope, now=later, category=Category.GOAL)) == []
        assert len(ledger.layout(facts_in(scope, now=later)).passages) == 0
    for answers in (eligibility._ids, eligibility._layouts):
        assert len(answers._answers) <= 50
        assert answers._bytes == sum(ENTRY_BYTES + answer.size for answer in answers._answers.values())


def test_an_entry_takes_what_it_is_said_to_take(ledger):
    scopes = [long_scope(number) for number in range(MANY)]
    for scope in scopes:
        add(ledger, [fact("f1", scope=scope)])
    for scope in scopes[:10]:
        ledger.eligible(facts_in(scope))
    with Held() as held:
        for scope in scopes[10:]:
            ledger.eligible(facts_in(scope))
    assert held.bytes < (MANY - 10) * (ENTRY_BYTES + 40) * 1.5, f"{held.bytes / MANY:.0f} bytes an entry"


def test_the_names_of_speakers_are_counted():
    rows = [(number, number, 0, f"{number}" + "N" * 900, 0, 0) for number in range(100)]
    assert 100 * (900 + 41) <= size_of(laid_out(rows)) <= 100 * (900 + 200)
