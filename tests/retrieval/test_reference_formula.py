"""The reference profile against an independent reckoning of specification §2.3 to §2.5, on random histories."""

import math
import random
from collections import Counter
from datetime import timedelta

import pytest

from memory_retrievers import AgentMemory, EpisodicMemory, RetrievalSettings, SemanticMemory
from memory_retrievers.text.analysis import analyze

WORDS = [
    f"{first}{second}" for first in ("ka", "lo", "mi", "nu", "re") for second in ("sta", "vel", "rin", "pod", "gax")
]
DECAY = 0.1542
FACTOR = 0.9 ** (-1 / DECAY) - 1


def gaussian(texts):
    """A direction for each text that no other text is as near to."""
    vectors = [[random.Random(f"{text}{axis}").gauss() for axis in range(24)] for text in texts]
    return [[component / math.hypot(*vector) for component in vector] for vector in vectors]


def cosine_order(embedding_texts, query):
    (question,) = gaussian([query])
    similarity = [sum(a * b for a, b in zip(vector, question, strict=True)) for vector in gaussian(embedding_texts)]
    return sorted(range(len(embedding_texts)), key=lambda place: -similarity[place])[:100]


def bm25_order(search_texts, query, k1=1.2, b=0.75):
    documents = [Counter(analyze(text)) for text in search_texts]
    average = sum(document.total() for document in documents) / len(documents)
    scores = {}
    for term in analyze(query):
        df = sum(term in document for document in documents)
        idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
        for place, document in enumerate(documents):
            if term in document:
                norm = k1 * (1 - b + b * document.total() / average)
                scores[place] = scores.get(place, 0) + idf * document[term] / (document[term] + norm)
    return sorted(scores, key=lambda place: (-round(scores[place], 9), place))[:100]


def reckon(texts, query, retrievability):
    dense, bm25 = cosine_order([text for text, _ in texts], query), bm25_order([text for _, text in texts], query)
    fused = Counter()
    for ranked in (dense, bm25):
        for rank, place in enumerate(ranked, start=1):
            fused[place] += 1 / (60 + rank)
    candidates = sorted(fused, key=lambda place: (-fused[place], dense.index(place) if place in dense else 999))[:100]
    scored = [(place, fused[place] / (2 / 61) * retrievability[place]) for place in candidates]
    return sorted(scored, key=lambda pair: (-pair[1], candidates.index(pair[0])))


@pytest.fixture(params=range(4))
def history(request, clock):
    chance = random.Random(request.param)
    now = clock.now()

    def sentence():
        return " ".join(chance.choices(WORDS, k=chance.randint(3, 12)))

    episodes = [
        EpisodicMemory.new(
            scope="c1",
            summary=sentence(),
            surprise=chance.random(),
            created_at=now - timedelta(hours=chance.randint(0, 3000)),
        )
        for _ in range(130)
    ]
    facts = [
        SemanticMemory.new(scope="c1", fact=sentence(), category="identity", keywords=chance.sample(WORDS, 2))
        for _ in range(120)
    ]
    return episodes, facts, sentence


@pytest.fixture
def memory(clock):
    # rank_bm25 has another idf, so only the built-in engine is the formula to the letter
    settings = RetrievalSettings.reference()
    with AgentMemory.in_memory(embedder=gaussian, clock=clock, keyword="sqlite_bm25", retrieval=settings) as memory:
        yield memory


def test_ranks_and_scores_are_those_of_an_independent_reckoning(memory, clock, history):
    episodes, facts, sentence = history
    stored_episodes, stored_facts = memory.remember_many(episodes), memory.remember_many(facts)
    whole_days = [(clock.now() - episode.last_reviewed_at).days for episode in stored_episodes]
    remembered = [
        (1 + FACTOR * days / episode.stability) ** -DECAY
        for days, episode in zip(whole_days, stored_episodes, strict=True)
    ]
    for _ in range(3):
        query = sentence()
        result = memory.retrieve(query, scope="c1", episodic_limit=10, semantic_limit=30)
        expected = reckon([(e.summary, e.summary) for e in stored_episodes], query, remembered)[:10]
        assert [hit.memory.id for hit in result.episodic] == [stored_episodes[place].id for place, _ in expected]
        assert [hit.score for hit in result.episodic] == pytest.approx([score for _, score in expected])
        expected = reckon([(f.embedding_text, f.search_text) for f in stored_facts], query, [1.0] * 120)[:30]
        assert [hit.memory.id for hit in result.semantic] == [stored_facts[place].id for place, _ in expected]
        assert [hit.score for hit in result.semantic] == pytest.approx([score for _, score in expected])
        assert [hit.rank for hit in result.semantic] == list(range(1, 31))
        raw = result.to_dict()["semantic"][0]["score"]
        assert raw == pytest.approx(expected[0][1] * 2 / 61, abs=1e-6)
