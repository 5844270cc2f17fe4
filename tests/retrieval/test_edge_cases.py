"""The edge-case table of specification §2.18, as far as it concerns retrieval; rendering has its own tests."""

from datetime import timedelta

import pytest

from memory_retrievers import AgentMemory, Message, RetrievalSettings
from memory_retrievers.testing import HashEmbedder, inside


def test_an_unknown_scope_gives_no_results_and_records_nothing(memory):
    memory.remember_episode(scope="c1", summary="The user planted basil.")
    result = memory.retrieve("basil", scope="c2")
    assert result.to_markdown() == ""
    assert result.to_dict() == {"semantic": [], "episodic": []}
    assert memory.pending_reviews("c2") == []


def test_an_answer_is_false_where_nothing_was_found_and_iterated_facts_first(memory):
    fact = memory.remember_fact(scope="c1", fact="User grows basil")
    episode = memory.remember_episode(scope="c1", summary="The user planted basil.")
    result = memory.retrieve("basil", scope="c1")
    assert result
    assert [hit.memory.id for hit in result] == [fact.id, episode.id]
    assert len(result) == 2
    assert not memory.retrieve("basil", scope="c2")


def test_facts_only_and_episodes_only_have_one_section_each(memory):
    memory.remember_fact(scope="facts", fact="User lives in Lyon", category="identity")
    memory.remember_episode(scope="episodes", summary="The user moved to Lyon.", title="Move")
    facts = memory.retrieve("Lyon", scope="facts").to_markdown()
    episodes = memory.retrieve("Lyon", scope="episodes").to_markdown()
    assert facts == "## Semantic Memory\n- [identity] User lives in Lyon"
    assert episodes.startswith("## Episodic Memories\n\n### Move [rank: 1")
    assert episodes == episodes.strip()


def test_a_category_filters_facts_and_leaves_episodes(memory):
    memory.remember_fact(scope="c1", fact="Assistant should answer in metric units", category="guideline")
    memory.remember_fact(scope="c1", fact="User lives in Lyon", category="identity")
    memory.remember_episode(scope="c1", summary="The user asked for metric units.")
    result = memory.retrieve("metric units in Lyon", scope="c1", category="guideline")
    assert [hit.memory.category for hit in result.semantic] == ["guideline"]
    assert len(result.episodic) == 1
    without = memory.retrieve("metric units", scope="c1", category="goal")
    assert "## Semantic Memory" not in without.to_markdown()


def test_a_limit_of_zero_skips_the_kind(memory):
    memory.remember_fact(scope="c1", fact="User lives in Lyon")
    memory.remember_episode(scope="c1", summary="The user moved to Lyon.")
    assert memory.retrieve("Lyon", scope="c1", semantic_limit=0).semantic == ()
    assert memory.pending_reviews("c1") != []
    no_episodes = memory.retrieve("Lyon?", scope="c1", episodic_limit=0)
    assert (len(no_episodes.semantic), no_episodes.episodic) == (1, ())
    assert len(memory.pending_reviews("c1")) == 1


def test_a_query_of_punctuation_is_decided_by_vectors_and_scores_half_at_most(memory):
    memory.remember_episode(scope="c1", summary="The user planted basil.")
    memory.remember_fact(scope="c1", fact="User grows herbs")
    result = memory.retrieve("?!…", scope="c1")
    for hit in (*result.semantic, *result.episodic):
        assert hit.explanation.bm25_rank is None
        assert 0 < hit.score <= 0.5


def test_ranks_run_from_one_without_gaps(memory):
    for number in range(8):
        memory.remember_episode(scope="c1", summary=f"The user watered plant {number}.")
    hits = memory.retrieve("plant", scope="c1", episodic_limit=6).episodic
    assert [hit.rank for hit in hits] == [1, 2, 3, 4, 5, 6]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_identical_texts_are_ordered_the_same_way_every_time(memory):
    for _ in range(5):
        memory.remember_fact(scope="c1", fact="User lives in Lyon")
    orders = {tuple(hit.memory.id for hit in memory.retrieve("Lyon", scope="c1").semantic) for _ in range(5)}
    assert len(orders) == 1


def test_a_review_in_the_future_counts_as_fresh(reference_memory, clock):
    later = clock.now() + timedelta(days=3)
    reference_memory.remember_episode(scope="c1", summary="The user planted basil.", last_reviewed_at=later)
    (hit,) = reference_memory.retrieve("basil", scope="c1").episodic
    assert hit.explanation.retrievability == 1.0
    assert hit.score == 1.0


def test_a_fact_invalidated_between_search_and_reading_is_not_shown(memory, monkeypatch):
    stale = memory.remember_fact(scope="c1", fact="User lives in Lyon")
    kept = memory.remember_fact(scope="c1", fact="User likes Lyon")
    ledger = inside(memory).ledger
    load = ledger.load

    def invalidate_then_load(rows):
        memory.invalidate(stale.id, scope="c1")
        return load(rows)

    monkeypatch.setattr(ledger, "load", invalidate_then_load)
    result = memory.retrieve("Lyon", scope="c1")
    assert [(hit.rank, hit.memory.id) for hit in result.semantic] == [(1, kept.id)]


def test_an_expired_memory_is_invisible_from_that_very_moment(memory, clock):
    soon = clock.now() + timedelta(hours=1)
    memory.remember_fact(scope="c1", fact="The code is 4711", expires_at=soon)
    memory.remember_episode(scope="c1", summary="The user told the code 4711.", expires_at=soon)
    assert len(memory.retrieve("code", scope="c1").semantic) == 1
    clock.advance(hours=1)
    result = memory.retrieve("code", scope="c1")
    assert (result.semantic, result.episodic) == ((), ())
    assert memory.recent("c1").episodic == ()


def test_the_joint_limit_cuts_both_kinds_by_score_and_records_only_what_is_returned(memory):
    for number in range(4):
        memory.remember_fact(scope="c1", fact=f"User owns boat {number}")
        memory.remember_episode(scope="c1", summary=f"The user sailed boat {number}.")
    everything = memory.retrieve("boat 2", scope="c1", record=False)
    cut = memory.retrieve("boat 2", scope="c1", limit=3)
    by_score = sorted(
        (*everything.semantic, *everything.episodic), key=lambda hit: (-hit.score, hit.memory.kind != "semantic")
    )
    assert {hit.memory.id for hit in (*cut.semantic, *cut.episodic)} == {hit.memory.id for hit in by_score[:3]}
    (review,) = memory.pending_reviews("c1")
    assert [key.id for key in review.memories] == [hit.memory.id for hit in cut.episodic]


def test_a_joint_limit_of_zero_returns_and_records_nothing(memory):
    memory.remember_episode(scope="c1", summary="The user planted basil.")
    result = memory.retrieve("basil", scope="c1", limit=0)
    assert (result.semantic, result.episodic) == ((), ())
    assert memory.pending_reviews("c1") == []


def test_at_equal_scores_facts_come_first(memory):
    memory.remember_episode(scope="c1", summary="note boat")  # a fact is embedded with its category
    memory.remember_fact(scope="c1", fact="boat")
    result = memory.retrieve("boat", scope="c1", limit=1)
    assert (len(result.semantic), len(result.episodic)) == (1, 0)


class TestTheDefaultProfile:
    def test_counts_parts_of_a_day(self, clock):
        memory = AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock)
        memory.remember_episode(scope="c1", summary="basil", id="old", created_at=clock.now() - timedelta(hours=23))
        memory.remember_episode(scope="c1", summary="basil", id="new")
        hits = {hit.memory.id: hit.explanation.retrievability for hit in memory.retrieve("basil", scope="c1").episodic}
        assert hits["old"] < hits["new"] == 1.0

    @pytest.mark.parametrize("messages", [[], ["I planted basil.", "How nice!"]], ids=["summaries", "messages"])
    def test_lets_the_fresher_of_two_alike_win_but_hides_nothing(self, clock, messages):
        settings = RetrievalSettings(repetition_weight=0)  # forgetting alone
        with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, retrieval=settings) as memory:
            said = [Message(role="Ann", content=content) for content in messages]
            for id, days in (("old", 90), ("new", 0), ("older", 120)):
                created_at = clock.now() - timedelta(days=days)
                memory.remember_episode(scope="c1", summary="basil", id=id, created_at=created_at, messages=said)
            hits = memory.retrieve("basil", scope="c1").episodic
        assert [hit.memory.id for hit in hits] == ["new", "old", "older"]
        assert len({hit.explanation.fused_score for hit in hits}) == 1
        assert hits[2].score > (1 - RetrievalSettings().decay_weight) * hits[0].score

    @pytest.mark.parametrize("messages", [[], ["I planted basil.", "How nice!"]], ids=["summaries", "messages"])
    def test_lets_the_better_reviewed_of_two_alike_win(self, clock, messages):
        with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
            said = [Message(role="Ann", content=content) for content in messages]
            for id in ("unused", "used", "useless"):
                memory.remember_episode(scope="c1", summary="basil", id=id, messages=said)
            clock.advance(days=3)
            memory.review("used", rating="easy", scope="c1")
            memory.review("unused", rating="good", scope="c1")
            memory.review("useless", rating="again", scope="c1")
            clock.advance(days=30)
            hits = memory.retrieve("basil", scope="c1").episodic
        assert [hit.memory.id for hit in hits] == ["used", "unused", "useless"]
        assert len({hit.explanation.fused_score for hit in hits}) == 1

    def test_leaves_facts_as_they_are_however_old(self, clock):
        with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
            for id, days in (("old", 900), ("new", 0)):
                created_at = clock.now() - timedelta(days=days)
                memory.remember_fact(scope="c1", fact="basil", id=id, created_at=created_at)
            hits = memory.retrieve("basil", scope="c1").semantic
        assert [(hit.memory.id, hit.score, hit.explanation.retrievability) for hit in hits] == [
            ("old", 1.0, 1.0),
            ("new", 1.0, 1.0),
        ]

    def test_cuts_facts_at_280_characters_in_markdown_and_the_reference_profile_does_not(self, clock):
        long_fact = "User " + "really " * 60 + "likes tea"
        for settings, cut in ((RetrievalSettings(), True), (RetrievalSettings.reference(), False)):
            memory = AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, retrieval=settings)
            memory.remember_fact(scope="c1", fact=long_fact)
            result = memory.retrieve("tea", scope="c1")
            assert (long_fact not in result.to_markdown()) is cut
            assert ("…" in result.to_markdown()) is cut
            assert result.to_dict()["semantic"][0]["fact"] == long_fact

    def test_has_the_numbers_it_promises(self):
        default, reference = RetrievalSettings(), RetrievalSettings.reference()
        assert (default.bm25_k1, default.bm25_b) == (0.9, 0.4)
        assert 0 < default.decay_weight < 0.5
        assert (
            reference.decay_weight,
            reference.bm25_k1,
            reference.bm25_b,
            reference.rrf_k,
            reference.candidate_depth,
        ) == (
            1,
            1.2,
            0.75,
            60,
            100,
        )


class TestPendingReviews:
    @pytest.fixture(autouse=True)
    def _basil(self, memory):
        memory.remember_episode(scope="c1", summary="The user planted basil.", id="e1")
        memory.remember_episode(scope="c1", summary="The user planted basil and mint.", id="e2")

    def test_name_the_episodes_returned_in_rank_order(self, memory, clock):
        result = memory.retrieve(" basil ", scope="c1")
        (review,) = memory.pending_reviews("c1")
        assert (review.scope, review.query, review.created_at) == ("c1", "basil", clock.now())
        assert [key.id for key in review.memories] == [hit.memory.id for hit in result.episodic]

    def test_are_not_written_by_context_recent_or_on_request(self, memory):
        memory.context("basil", scope="c1")
        memory.recent("c1")
        memory.retrieve("basil", scope="c1", record=False)
        assert memory.pending_reviews("c1") == []

    def test_change_no_forgetting_state(self, memory, clock):
        before = memory.get("e1", scope="c1")
        clock.advance(days=4)
        memory.retrieve("basil", scope="c1")
        assert memory.get("e1", scope="c1") == before

    def test_are_filed_once_for_the_same_question_within_a_minute(self, memory, clock):
        memory.retrieve("basil", scope="c1")
        clock.advance(seconds=30)
        memory.retrieve("basil", scope="c1")
        assert len(memory.pending_reviews("c1")) == 1
        clock.advance(seconds=61)
        memory.retrieve("basil", scope="c1")
        assert len(memory.pending_reviews("c1")) == 2

    def test_are_filed_under_the_scope_that_was_searched_with_the_scopes_of_the_memories(self, memory):
        memory.remember_episode(scope="c1/work", summary="The user planted basil at work.", id="e1")
        memory.retrieve("basil", scope="c1", include_child_scopes=True)
        (review,) = memory.pending_reviews("c1")
        assert {(key.scope, key.id) for key in review.memories} == {("c1", "e1"), ("c1", "e2"), ("c1/work", "e1")}
        assert memory.pending_reviews("c1/work") == []
