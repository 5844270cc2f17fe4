"""The same memories with the same stored vectors give the same answers on disk and on PostgreSQL."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from contracts.samples import without_snapshots
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sentences import questions, statements

from memory_retrievers import AgentMemory, EpisodicMemory, Message, RetrievalSettings, SemanticMemory
from memory_retrievers.backends.sql.keyword import PostingsKeywordIndex
from memory_retrievers.models import Category, Kind
from memory_retrievers.models.selection import Selection
from memory_retrievers.testing import FixedClock, HashEmbedder, inside
from memory_retrievers.text.analysis import analyze

pytestmark = pytest.mark.embedded("it compares both stores")

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)
SCOPES = ["user/1", "user/1/work", "user/1/work/x", "user/10", "User/1", "user/é", "user/e\u0301", "user/用户", "user"]
TEXTS = [
    *statements(220, seed=1),
    "a\x00b in Lyon",
    "\x1a and \x1a1 in Lyon",
    "住在里昂 Lyon",
    "Ünïcode café Ƶ 😀 100% :ok",
]
QUESTIONS = [*questions(60, seed=2), "Lyon", "100% :ok", "a\x00b", "住在里昂", "café", "What was in March 2025?", "zzz"]
PROFILES = {
    "default": RetrievalSettings(),
    "reference": RetrievalSettings.reference(),
    "light": RetrievalSettings.light(),
}


def drafts():
    """Memories of both kinds, with all that a filter can ask for; some are equal but for their ids."""
    source = random.Random(3)
    for number, text in enumerate(TEXTS * 2):
        created_at = NOW - timedelta(hours=source.randrange(10_000))
        common = {
            "scope": source.choices(SCOPES, weights=[8, 4, 2, 2, 2, 1, 1, 1, 4])[0],
            "id": f"{source.choice('mMé')}{number}",
            "created_at": created_at,
            "tags": source.sample(["home", "work", "ü", "a\x00b"], source.randrange(3)),
            "expires_at": source.choice([None, None, None, NOW, NOW + timedelta(hours=1)]),
            "importance": source.random(),
        }
        if number % 2:
            invalid_at = source.choice([None, None, created_at + timedelta(days=2)])
            category = source.choice([*Category])
            yield SemanticMemory.new(fact=text, category=category, valid_at=created_at, invalid_at=invalid_at, **common)
        else:
            turns = source.sample(TEXTS, source.randrange(6))
            messages = [Message(role=source.choice(["user", "Anna", "Boris"]), content=turn) for turn in turns]
            reviewed, start_at = created_at + timedelta(days=source.random()), created_at - timedelta(hours=1)
            stability = source.uniform(0.5, 90)
            yield EpisodicMemory.new(
                summary=text, title=text[:12], messages=messages, start_at=start_at, end_at=created_at,
                last_reviewed_at=reviewed, stability=stability, difficulty=5, **common,
            )  # fmt: skip


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A store on disk, filled in the order in which it is read out: where all else is equal, the older row is first."""
    directory = tmp_path_factory.mktemp("same")
    with AgentMemory.open(directory, embedder=HashEmbedder(), clock=FixedClock(NOW), dense="exact") as memory:
        in_order = sorted(drafts(), key=lambda draft: (draft.scope, draft.created_at, draft.id))
        assert len(memory.remember_many(in_order)) == len(TEXTS) * 2
    return directory


@pytest.fixture(scope="module")
def url(directory, postgres_server):
    """A database with what the store on disk holds, the vectors as they are stored there."""
    parts = {"embedder": HashEmbedder(), "clock": FixedClock(NOW)}
    with postgres_server.lent() as url:
        with (
            AgentMemory.open(directory, dense="exact", **parts) as disk,
            AgentMemory.connect(url, **parts) as postgres,
        ):
            store = inside(postgres).store
            with inside(disk).ledger.contents() as contents, store.ledger.database.write():
                store.ledger.write_notes(contents.notes)
                for stored in contents.memories:
                    store.keyword.add(store.ledger.add([stored.memory], [stored.passages]))
                store.ledger.events.restore(list(contents.events))
        yield url


@pytest.fixture(scope="module", params=PROFILES)
def both(directory, url, request):
    parts = {"embedder": HashEmbedder(), "clock": FixedClock(NOW), "retrieval": PROFILES[request.param]}
    with (
        AgentMemory.open(directory, dense="exact", **parts) as disk,
        AgentMemory.connect(url, **parts) as postgres,
    ):
        yield disk, postgres


def asked():
    """The arguments of a search: a question, whose memories, and what else they must be."""
    return st.fixed_dictionaries(
        {
            "query": st.sampled_from(QUESTIONS)
            | st.lists(st.sampled_from(TEXTS), min_size=1, max_size=2).map(" ".join),
            "scope": st.sampled_from([*SCOPES, "user/1", "user"]),
            "include_child_scopes": st.booleans(),
            "category": st.none() | st.sampled_from(Category),
        }
    )


def told(result, *, about=float):
    """What was found, in its order, why, and how well it answers."""
    return [
        (hit.memory, hit.rank, about(hit.score), hit.explanation.dense_rank, hit.explanation.bm25_rank,
         [(match.part, match.messages, about(match.score)) for match in hit.matches])
        for hit in (*result.semantic, *result.episodic)
    ]  # fmt: skip


def nearly(score):
    return pytest.approx(score, abs=1e-6)


many = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@many
@given(
    asked(),
    st.none() | st.integers(0, 10_000).map(lambda hours: NOW - timedelta(hours=hours)),
    st.none() | st.integers(1, 30),
    st.integers(0, 100),
)
def test_a_question_is_answered_by_the_same_memories_in_the_same_order(both, question, as_of, limit, episodes):
    more = {"as_of": as_of, "limit": limit, "episodic_limit": episodes, "semantic_limit": 200, "record": False}
    expected, got = (memory.retrieve(**question, **more) for memory in both)
    assert told(got) == told(expected, about=nearly)


@many
@given(asked())
def test_the_facts_for_a_prompt_are_the_same(both, question):
    expected, got = (memory.context(**question) for memory in both)
    assert (got.to_markdown(), told(got)) == (expected.to_markdown(), told(expected, about=nearly))


@many
@given(asked(), st.sampled_from(Kind), st.booleans(), st.integers(1, 300))
def test_words_that_the_database_counts_score_the_same(both, question, kind, every_passage, limit):
    query, category = question.pop("query"), question.pop("category") if kind is Kind.SEMANTIC else None
    selection = Selection(
        scope=question["scope"], include_child_scopes=question["include_child_scopes"], kind=kind, now=NOW,
        category=category, every_passage=every_passage,
    )  # fmt: skip
    hits = []
    for memory in both:
        ledger = inside(memory).ledger
        index = PostingsKeywordIndex(ledger, k1=0.9, b=0.4)
        with without_snapshots(ledger):
            best = index.search(analyze(query), selection, limit=limit)
        named, texts = ledger.load(best.memories), ledger.texts(best.passages)
        hits.append(
            [
                (named[row].scope, named[row].id, texts[passage], score)
                for passage, row, score in zip(best.passages, best.memories, best.scores, strict=True)
            ]
        )
    expected, got = hits
    assert got == [(*which, nearly(score)) for *which, score in expected]


@pytest.mark.parametrize("scope", SCOPES)
def test_a_scope_is_listed_the_same(both, scope):
    pages = []
    for memory in both:
        listed, cursor = [], None
        while True:
            page = memory.list(scope, cursor=cursor, limit=7)
            listed.append(page)
            if (cursor := page.cursor) is None:
                break
        newest = [memory.recent(scope, limit=limit, days_limit=days) for limit in (3, 100) for days in (None, 60)]
        pages.append((listed, newest, memory.list(scope, kind="episodic"), memory.stats(scope), memory.scopes()))
    assert pages[0] == pages[1]
    assert sum(len(page.memories) for page in pages[0][0]) > 3


def test_both_stores_are_whole_and_hold_the_same_bytes(both, tmp_path):
    exports = []
    for name, memory in zip(("disk", "postgres"), both, strict=True):
        assert memory.verify().problems == ()
        memory.export(tmp_path / name)
        exports.append((tmp_path / name).read_bytes().split(b"\n")[1:-2])  # but for header and checksum
    assert exports[0] == exports[1]
