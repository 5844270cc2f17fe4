"""What is kept in memory is bounded by its bytes, whatever scopes and texts somebody has stored to fill it."""

import gc
import tracemalloc

import numpy as np
import pytest
from contracts.samples import NOW, add, episodes_in, fact, facts_in
from kept import held_bytes

from memory_retrievers import BackendError
from memory_retrievers.backends.sql.keyword import PostingsKeywordIndex, RankBM25KeywordIndex, _Model
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.backends.sqlite import Database
from memory_retrievers.models import MemoryKey
from memory_retrievers.text import analysis as text

PARAMETERS = {"k1": 0.9, "b": 0.4}
MANY = 300
WORDS = 500


@pytest.fixture
def ledger(tmp_path):
    ledger = SQLLedger(Database(tmp_path / "memory.db"))
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
def test_snapshots_of_many_distinct_words_keep_to_their_bytes(ledger, engine, monkeypatch):
    postings = PostingsKeywordIndex(ledger, **PARAMETERS)
    _fill(ledger, postings, [words(WORDS * number) for number in range(20)])
    monkeypatch.setattr(text, "known_terms", text._word_terms)  # its own test is below
    ledger.snapshots.most = 2**20
    index = engine(ledger, **PARAMETERS)
    with Held() as held:
        for number in range(20):
            assert len(index.search([f"w{WORDS * number}x"], facts_in(long_scope(number)), limit=5).passages) == 1
    counted = sum(held_bytes(ledger).values())
    assert 2**19 < counted <= 2**20
    assert held.bytes < 3 * 2**20, f"{held.bytes / 2**20:.1f} MB"


def test_what_a_snapshot_is_said_to_take_is_what_it_takes(ledger, monkeypatch):
    monkeypatch.setattr(text, "known_terms", text._word_terms)  # it would keep the same terms
    postings = PostingsKeywordIndex(ledger, **PARAMETERS)
    for number in range(20):
        postings.add(add(ledger, [fact(f"f{number}", words(WORDS * number), scope="user/1")]))
    with Held() as held:
        snapshot = ledger.snapshots.of(facts_in())
    assert snapshot.size / 1.25 < held.bytes < snapshot.size * 1.25
    with Held() as held:
        model = _Model(snapshot.terms, **PARAMETERS)
    assert model.size / 3 < held.bytes < model.size * 3


def test_a_scope_of_few_passages_with_endless_words_has_no_snapshot(ledger):
    index = PostingsKeywordIndex(ledger, **PARAMETERS)
    _fill(ledger, index, [" ".join(words(WORDS * number) for number in range(12))])
    ledger.snapshots.most = 50_000
    assert len(index.search(["w7x"], facts_in(long_scope(0)), limit=5).passages) == 1
    assert held_bytes(ledger) == {}
    ledger.snapshots.most = 5_000_000
    assert len(index.search(["w7x"], facts_in(long_scope(0)), limit=5).passages) == 1
    assert list(held_bytes(ledger)) == [long_scope(0)]


def test_empty_scopes_take_room_too(ledger):
    ledger.snapshots.most = 100_000
    for number in range(MANY):
        scope = long_scope(number)
        add(ledger, [fact("f1", scope=scope)])
        ledger.remove([MemoryKey(scope=scope, id="f1")])
        for selection in (facts_in(scope), episodes_in(scope), facts_in(scope, include_child_scopes=True)):
            assert len(ledger.snapshots.of(selection)) == 0
    assert sum(held_bytes(ledger).values()) <= 100_000


def test_a_passage_takes_about_two_kilobytes(ledger):
    generator = np.random.default_rng(0)
    texts = [" ".join(f"word{n}" for n in generator.zipf(1.3, 12) % 5_000) for _ in range(2_000)]
    vectors = generator.standard_normal((len(texts), 384)).astype(np.float32)
    index = PostingsKeywordIndex(ledger, **PARAMETERS)
    index.add(add(ledger, [fact(f"f{n}", each) for n, each in enumerate(texts)], vectors))
    with Held() as held:
        snapshot = ledger.snapshots.of(facts_in())
    assert len(snapshot) == len(texts)
    assert held.bytes < 2_200 * len(texts), f"{held.bytes / len(texts):.0f} bytes a passage"


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
    text.known_terms.cache_clear()
    with Held() as held:
        for number in range(500):
            text.analyze(word(number))
    assert held.bytes < 500 * 1_500, f"{held.bytes / 500:.0f} bytes a word"
    text.known_terms.cache_clear()


def test_of_claims_that_a_full_disk_has_refused_for_days_little_is_left(ledger, monkeypatch):
    def refused(*_scopes):
        raise BackendError("the disk is full")

    monkeypatch.setattr(ledger.database, "write", refused)
    for number in range(10_100):
        with pytest.raises(BackendError):
            ledger.conversations.claim("c", lease=f":{number}", messages=1, at=NOW, expired=NOW)
    assert len(ledger.conversations._given_up) <= 10_000
