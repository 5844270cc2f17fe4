"""The two BM25 engines: the contract for each, the formula to the last digit, and that they agree."""

import math
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from contracts import KeywordIndexContract
from contracts.samples import NOW, SCOPE, add, episode, episodes_in, fact, facts_in, ranking, without_snapshots

from memory_retrievers.backends.sql import snapshots
from memory_retrievers.backends.sql.keyword import PostingsKeywordIndex, RankBM25KeywordIndex
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.backends.sqlite import Database
from memory_retrievers.backends.sqlite.connection import DIALECT, Connection
from memory_retrievers.models import Category, Kind, MemoryKey, Tier
from memory_retrievers.models.selection import Selection
from memory_retrievers.settings import SNAPSHOT_BYTES
from memory_retrievers.text.analysis import analyze

DEFAULT = {"k1": 0.9, "b": 0.4}
SEED = {"k1": 1.2, "b": 0.75}
EXTREMES = [DEFAULT, SEED, {"k1": 0, "b": 0.75}, {"k1": 0.9, "b": 0}, {"k1": 2, "b": 1}]


@pytest.fixture
def ledger():
    ledger = SQLLedger(Database(None))
    yield ledger
    ledger.close()


NEVER = -1


@pytest.fixture(params=[SNAPSHOT_BYTES, NEVER], ids=["with snapshots", "without"])
def either_way(request, ledger):
    ledger.snapshots.most = request.param


class TestPostingsKeywordIndex(KeywordIndexContract):
    @pytest.fixture
    def index(self, ledger):
        return PostingsKeywordIndex(ledger, **DEFAULT)


class TestPostingsKeywordIndexOnDisk(KeywordIndexContract):
    @pytest.fixture
    def ledger(self, tmp_path):
        ledger = SQLLedger(Database(tmp_path / "memory.db"))
        yield ledger
        ledger.close()

    @pytest.fixture
    def index(self, ledger):
        ledger.snapshots.most = NEVER
        return PostingsKeywordIndex(ledger, **SEED)


class TestRankBM25KeywordIndex(KeywordIndexContract):
    @pytest.fixture
    def index(self, ledger):
        return RankBM25KeywordIndex(ledger, **DEFAULT)


def _store(ledger, index, memories):
    with ledger.database.write():
        passages = add(ledger, memories)
        index.add(passages)
    return [passage.id for passage in passages]


def _lucene(query, documents, *, k1, b):
    """BM25 as Lucene computes it: the score of each document that shares a term with the query."""
    counts = [Counter(document) for document in documents]
    average_length = sum(map(len, documents)) / len(documents)
    frequencies = {term: sum(term in count for count in counts) for term in query}

    def score(document):
        total = 0.0
        for term in query:
            df = frequencies[term]
            idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
            tf = counts[document][term]
            total += idf and tf and idf * tf / (tf + k1 * (1 - b + b * len(documents[document]) / average_length))
        return total

    return {n: score(n) for n in range(len(documents)) if not set(query).isdisjoint(documents[n])}


@pytest.mark.usefixtures("either_way")
def test_a_score_computed_by_hand(ledger):
    index = PostingsKeywordIndex(ledger, **SEED)
    ids = _store(ledger, index, [fact("f1", "green tea"), fact("f2", "tea tea milk sugar")])
    # N = 2, df = 2, average length 3: idf = ln(1 + 0.5 / 2.5), norm = 1.2 × (0.25 + 0.75 × length / 3)
    expected = {ids[1]: math.log(1.2) * 2 / (2 + 1.5), ids[0]: math.log(1.2) * 1 / (1 + 0.9)}
    assert ranking(index.search(["tea"], facts_in(), limit=10)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.usefixtures("either_way")
@pytest.mark.slow
@pytest.mark.parametrize("parameters", EXTREMES, ids=str)
def test_scores_are_those_of_lucene(ledger, parameters):
    generator = np.random.default_rng(0)
    words = Words(generator)
    index = PostingsKeywordIndex(ledger, **parameters)
    texts = words.texts(200)
    ids = _store(ledger, index, [fact(f"f{n}", text) for n, text in enumerate(texts)])
    documents = list(map(analyze, texts))
    for query in words.queries(50):
        expected = {ids[n]: score for n, score in _lucene(query, documents, **parameters).items()}
        assert ranking(index.search(query, facts_in(), limit=1_000)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.usefixtures("either_way")
def test_statistics_are_those_of_the_scopes_that_are_searched(ledger):
    index = PostingsKeywordIndex(ledger, **DEFAULT)
    texts = {"user": "tea", "user/1": "tea milk", "user/1/work": "milk and green tea", "user/10": "tea tea"}
    ids = {scope: _store(ledger, index, [fact("f1", text, scope=scope)])[0] for scope, text in texts.items()}
    for scope, within in {"user/1": ["user/1", "user/1/work"], "user": list(texts)}.items():
        documents = [analyze(texts[each]) for each in within]
        expected = {ids[within[n]]: score for n, score in _lucene(["tea"], documents, **DEFAULT).items()}
        selection = facts_in(scope, include_child_scopes=True)
        assert ranking(index.search(["tea"], selection, limit=10)) == pytest.approx(expected)


@pytest.mark.parametrize("parameters", EXTREMES, ids=str)
def test_for_one_term_both_engines_differ_by_a_constant_factor(ledger, parameters):
    words = Words(np.random.default_rng(1))
    engines = _engines(ledger, **parameters)
    _store(ledger, engines[0], [fact(f"f{n}", text) for n, text in enumerate(words.texts(100))])
    for query in words.queries(30):
        left, right = (ranking(engine.search(query[:1], facts_in(), limit=1_000)) for engine in engines)
        factors = [right[passage] / score for passage, score in left.items()]
        assert left.keys() == right.keys()
        assert factors == pytest.approx(factors[:1] * len(factors))


@pytest.mark.slow
@pytest.mark.parametrize("parameters", EXTREMES, ids=str)
def test_both_engines_order_the_candidates_alike(ledger, parameters):
    from scipy.stats import kendalltau  # takes longer to import than most files to run

    generator = np.random.default_rng(2)
    words = Words(generator)
    engines = _engines(ledger, **parameters)
    scopes = [SCOPE, "user/10", "user/1/work", "user/1/work/deep", "team"]
    for make in (fact, episode):
        for scope in scopes:
            memories = [make(f"{make.__name__} {n}", text, scope=scope) for n, text in enumerate(words.texts(150))]
            _store(ledger, engines[0], memories)
    agreements = []
    for n, query in enumerate(words.queries(200)):
        selection = Selection(
            scope=scopes[n % len(scopes)], kind=list(Kind)[n % 2], now=NOW, include_child_scopes=n % 3 == 0
        )
        left, right = (ranking(engine.search(query, selection, limit=10_000)) for engine in engines)
        assert left.keys() == right.keys()
        if len(left) >= 5:
            agreements.append(kendalltau([left[passage] for passage in left], [right[passage] for passage in left])[0])
    assert len(agreements) > 150
    assert np.nanmean(agreements) >= 0.95


def test_small_and_large_scopes_are_searched_alike(ledger):
    words = Words(np.random.default_rng(3))
    index = PostingsKeywordIndex(ledger, **DEFAULT)
    _store(ledger, index, [fact(f"f{n}", text) for n, text in enumerate(words.texts(200))])
    for query in words.queries(40):
        scanned = index.search(query, facts_in(), limit=20)
        with without_snapshots(ledger):
            joined = index.search(query, facts_in(), limit=20)
        assert scanned.passages == joined.passages
        assert scanned.memories == joined.memories
        assert scanned.scores == pytest.approx(joined.scores, rel=1e-12)


@pytest.mark.parametrize("engine", [PostingsKeywordIndex, RankBM25KeywordIndex])
def test_only_what_is_new_in_a_scope_is_read(ledger, monkeypatch, engine):
    index = engine(ledger, **DEFAULT)
    postings, read = PostingsKeywordIndex(ledger, **DEFAULT), _texts_read(ledger, monkeypatch)
    old = _store(ledger, postings, [fact(f"f{n}", f"tea number{n}") for n in range(30)])
    for selection in (facts_in(), facts_in(category=Category.NOTE), replace(facts_in(), tier=Tier.SHORT_TERM)):
        assert index.statistics(["tea"], selection).frequencies == {"tea": 30}
    assert read == old
    new = _store(ledger, postings, [fact("new", "tea and milk")])
    assert index.statistics(["milk"], facts_in()).frequencies == {"milk": 1}
    assert index.counts(["tea"], facts_in(), np.array(new + old[:1])).counts.tolist() == [[1, 1]]
    assert read == old + new


def test_many_passages_are_taken_from_their_postings_and_few_from_their_texts(ledger, monkeypatch):
    words = Words(np.random.default_rng(4))
    stored = PostingsKeywordIndex(ledger, **DEFAULT)
    spread = [SCOPE, f"{SCOPE}/work", f"{SCOPE}/play"]
    texts = [*words.texts(40), "..."]
    _store(ledger, stored, [fact(f"f{n}", text, scope=spread[n % 3]) for n, text in enumerate(texts)])
    selection = facts_in(include_child_scopes=True)
    right = ledger.snapshots.of(selection).terms
    monkeypatch.setattr(snapshots, "_FEW", 0)
    ledger.snapshots.forget(None)
    block = ledger.snapshots.of(selection).terms
    assert (block.ids.tolist(), block.memories.tolist()) == (right.ids.tolist(), right.memories.tolist())
    assert block.lengths.tolist() == right.lengths.tolist()
    assert _postings(block) == _postings(right)


def test_a_passage_whose_postings_are_being_removed_is_read_from_its_text(ledger, monkeypatch):
    monkeypatch.setattr(snapshots, "_FEW", 0)
    index = PostingsKeywordIndex(ledger, **DEFAULT)
    ids = _store(ledger, index, [fact("f1", "tea"), fact("f2", "milk")])
    with suppress(ZeroDivisionError), ledger.database.write():
        index.remove(ledger.passages_of(SCOPE, id="f1"))
        index.search(["tea"], facts_in(), limit=10)
        raise ZeroDivisionError
    assert index.search(["tea"], facts_in(), limit=10).passages == ids[:1]


def test_a_memory_that_comes_from_another_scope_is_counted_in_its_place(ledger):
    index = PostingsKeywordIndex(ledger, **DEFAULT)
    moved = _store(ledger, index, [fact("f1", "tea milk", scope="user/2")])
    ids = _store(ledger, index, [fact("f2", "tea")])
    assert index.statistics(["milk"], facts_in()).frequencies == {"milk": 0}
    with ledger.database.write():
        passages = ledger.passages_of("user/2", id="f1")
        index.remove(passages)
        ledger.management.move([MemoryKey(scope="user/2", id="f1")], target_scope=SCOPE)
        index.add([replace(passage, scope=SCOPE) for passage in passages])
    assert index.statistics(["milk"], facts_in()).frequencies == {"milk": 1}
    assert index.search(["tea"], facts_in(), limit=10).passages == ids + moved
    assert index.search(["tea"], facts_in("user/2"), limit=10).passages == []


@pytest.mark.parametrize("few", [snapshots._FEW, 0], ids=["by texts", "by postings"])
@pytest.mark.parametrize("most", [SNAPSHOT_BYTES, NEVER], ids=["with snapshots", "without"])
def test_postings_of_a_wide_scope_go_on_in_another_volume_and_are_found_and_forgotten_alike(monkeypatch, most, few):
    monkeypatch.setattr(snapshots, "_FEW", few)
    words = Words(np.random.default_rng(5))
    texts, queries = ["...", *words.texts(35)], words.queries(20)  # the first has no terms
    memories = [fact(f"f{n}", text, scope=SCOPE if n % 4 else f"{SCOPE}/work") for n, text in enumerate(texts)]
    memories += [episode(f"e{n}", text) for n, text in enumerate(texts[:9])]
    both = {"include_child_scopes": True}
    selections = [
        facts_in(**both),
        facts_in(f"{SCOPE}/work"),
        episodes_in(),
        replace(episodes_in(), every_passage=True),
    ]

    def told(volumes):
        """What is found before and after some are forgotten, and after more are added, by volumes of these sizes."""
        ledger, found, kinds = SQLLedger(Database(None)), [], set()
        ledger.snapshots.most = most
        index = PostingsKeywordIndex(ledger, **DEFAULT)

        def look():
            for each in selections:
                found.extend(index.search(query, each, limit=9) for query in queries)
                found.extend(index.statistics(query, each) for query in queries)
            assert index.verify().ok
            kinds.update(ledger.column("SELECT DISTINCT kind FROM postings"))

        def forget(some):
            with ledger.database.write():
                for each in some:
                    index.remove(ledger.passages_of(each.scope, id=each.id))
                    ledger.remove([each.key])

        for volume, some in zip(volumes, (memories[:20], memories[20:]), strict=True):
            monkeypatch.setattr(Connection, "dialect", replace(DIALECT, volume=volume))
            for each in some:
                _store(ledger, index, [each])
        look()
        forget(memories[5:25])
        look()
        _store(ledger, index, memories[5:25])
        look()
        forget(memories)
        assert [ledger.column(f"SELECT count(*) FROM {name}") for name in ("postings", "keyword_statistics")] == [
            [0]
        ] * 2
        ledger.close()
        return found, kinds

    whole, in_one = told([1_000, 1_000])
    assert in_one == {"semantic", "episodic"}
    divided, in_many = told([4, 4])
    assert in_many > {"semantic", "semantic:1", "semantic:2", "semantic:6", "episodic"}
    begun_before, _ = told([1_000, 4])  # by an older version of the package, which knew none
    assert divided == begun_before == whole


def _postings(block):
    return {term: sorted(postings.T.tolist()) for term, postings in block.postings.items()}


def test_a_model_of_rank_bm25_is_built_anew_only_when_its_scope_has_changed(ledger, monkeypatch):
    index = RankBM25KeywordIndex(ledger, **DEFAULT)
    read = _texts_read(ledger, monkeypatch)
    first = _store(ledger, index, [fact("f1"), fact("f2")])
    for _ in range(3):
        index.search(["tea"], facts_in(), limit=10)
    assert read == first
    second = _store(ledger, index, [fact("f3")])
    _store(ledger, index, [fact("f1", scope="other"), episode("e1")])
    for _ in range(3):
        index.search(["tea"], facts_in(), limit=10)
    assert read == first + second


def _texts_read(ledger, monkeypatch):
    """The passages whose texts are read from now on: by themselves, or with all else of a few new memories."""
    read, texts, columns = [], ledger.texts, ledger.columns

    def with_texts(*given, **more):
        found = columns(*given, **more)
        read.extend(found.columns["ids"].tolist() if found.texts else [])
        return found

    monkeypatch.setattr(ledger, "texts", lambda passages: (read.extend(passages), texts(passages))[1])
    monkeypatch.setattr(ledger, "columns", with_texts)
    return read


def _engines(ledger, **parameters):
    return PostingsKeywordIndex(ledger, **parameters), RankBM25KeywordIndex(ledger, **parameters)


class Words:
    """Random texts in which words are as unevenly spread as in any language (Zipf)."""

    def __init__(self, generator):
        self._generator = generator
        self._words = np.array([f"word{n}" for n in range(2_000)])
        self._frequencies = 1 / np.arange(1, len(self._words) + 1)
        self._frequencies /= self._frequencies.sum()

    def texts(self, count):
        return [" ".join(self._draw(self._generator.integers(3, 40))) for _ in range(count)]

    def queries(self, count):
        return [self._draw(self._generator.integers(1, 8)).tolist() for _ in range(count)]

    def _draw(self, count):
        return self._generator.choice(self._words, count, p=self._frequencies)
