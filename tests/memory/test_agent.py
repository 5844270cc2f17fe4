import threading
from datetime import UTC, datetime, timedelta

import pytest

from memory_retrievers import (
    AgentMemory,
    ConfigurationError,
    EpisodicMemory,
    Message,
    NotFoundError,
    SemanticMemory,
    ValidationError,
)
from memory_retrievers.testing import HashEmbedder


def test_an_episode_is_completed_with_id_times_and_forgetting_state(memory, clock):
    said_at = datetime(2026, 2, 27, 8, tzinfo=UTC)
    episode = memory.remember_episode(
        scope="c1",
        summary="The import failed.",
        title="Failure",
        surprise=0.9,
        messages=[
            Message(role="user", content="It died.", timestamp=said_at),
            Message(role="assistant", content="Again?", timestamp=said_at + timedelta(minutes=2)),
        ],
    )
    assert episode.id.count("-") == 4
    assert episode.id[14] == "7"
    assert (episode.start_at, episode.end_at) == (said_at, said_at + timedelta(minutes=2))
    assert episode.created_at == episode.updated_at == episode.last_reviewed_at == clock.now()
    assert episode.stability == pytest.approx(3.344425, abs=1e-6)
    assert episode.difficulty == pytest.approx(2.118104, abs=1e-6)
    assert episode.consolidated_at is None
    assert episode.is_key_moment
    assert memory.get(episode.id, scope="c1") == episode


def test_an_episode_without_messages_happened_now(memory, clock):
    episode = memory.remember_episode(scope="c1", summary="Something happened.")
    assert episode.start_at == episode.end_at == clock.now()
    assert not episode.is_key_moment


def test_messages_without_a_time_get_one(memory, clock):
    episode = memory.remember_episode(scope="c1", summary="A greeting.", messages=[Message(role="user", content="Hi")])
    assert episode.messages[0].timestamp == clock.now()


def test_back_filled_history_keeps_the_times_given(memory, clock):
    long_ago = datetime(2025, 1, 1, tzinfo=UTC)
    episode = memory.remember_episode(
        scope="c1", summary="Long ago.", created_at=long_ago, stability=12.5, difficulty=3
    )
    assert (episode.created_at, episode.last_reviewed_at, episode.end_at) == (long_ago, long_ago, long_ago)
    assert (episode.stability, episode.difficulty) == (12.5, 3)


def test_a_fact_is_completed_and_found_by_keyword(memory, clock):
    fact = memory.remember_fact(
        scope="c1", fact="User's brother is a pilot", category="relationship", keywords=["Alex", " Alex "], id="f1"
    )
    assert (fact.id, fact.keywords, fact.valid_at, fact.invalid_at) == ("f1", ("Alex",), clock.now(), None)
    (hit,) = memory.retrieve("What does Alex do?", scope="c1").semantic
    assert hit.memory == fact
    assert hit.explanation.bm25_rank == 1


def test_a_fact_without_category_is_a_note(memory):
    assert memory.remember_fact(scope="c1", fact="The door code is 4711").category == "note"


def test_what_the_tools_need_is_kept_with_either_kind(memory, clock):
    expires_at = clock.now() + timedelta(days=1)
    episode = memory.remember_episode(
        scope="c1",
        summary="s",
        tags=["a", "b", "a"],
        metadata={"n": [1, {"x": None}]},
        importance=0.0,
        expires_at=expires_at,
    )
    stored = memory.get(episode.id, scope="c1")
    assert (stored.tags, stored.metadata, stored.importance) == (("a", "b"), {"n": [1, {"x": None}]}, 0.0)
    assert (stored.expires_at, stored.tier, stored.origin, stored.access_count) == (expires_at, "long_term", "api", 0)


def test_many_are_stored_in_the_order_given_in_one_embedding_batch(clock):
    batches = []

    class Counting(HashEmbedder):
        def embed_documents(self, texts):
            batches.append(len(texts))
            return super().embed_documents(texts)

    memory = AgentMemory.in_memory(embedder=Counting(), clock=clock)
    drafts = [
        EpisodicMemory.new(scope="c1", summary="one"),
        SemanticMemory.new(scope="c2", fact="two"),
        EpisodicMemory.new(scope="c1", summary="three"),
    ]
    stored = memory.remember_many(drafts)
    assert [type(each).__name__ for each in stored] == ["EpisodicMemory", "SemanticMemory", "EpisodicMemory"]
    assert batches == [3]
    assert memory.remember_many([]) == []


def test_many_are_stored_whole_or_not_at_all(memory):
    memory.remember_fact(scope="c1", fact="old", id="f1")
    with pytest.raises(ValidationError, match="'f1' is already taken in scope 'c1'"):
        memory.remember_many(
            [SemanticMemory.new(scope="c1", fact="new", id="f0"), SemanticMemory.new(scope="c1", fact="again", id="f1")]
        )
    assert memory.stats().facts == 1
    assert memory.retrieve("new", scope="c1").semantic[0].memory.fact == "old"


def test_an_invalidated_fact_is_kept_and_no_longer_found(memory, clock):
    fact = memory.remember_fact(scope="c1", fact="User lives in Lyon")
    clock.advance(days=1)
    invalidated = memory.invalidate(fact.id, scope="c1")
    assert invalidated.invalid_at == clock.now()
    assert memory.retrieve("Lyon", scope="c1").semantic == ()
    clock.advance(days=1)
    assert memory.invalidate(fact.id, scope="c1") == invalidated
    assert memory.get(fact.id, scope="c1") == invalidated


def test_an_episode_cannot_be_invalidated(memory):
    episode = memory.remember_episode(scope="c1", summary="s")
    with pytest.raises(ValidationError, match="only facts"):
        memory.invalidate(episode.id, scope="c1")


@pytest.mark.parametrize("method", ["get", "invalidate"])
def test_an_unknown_id_and_one_of_another_scope_are_the_same_error(memory, method):
    memory.remember_fact(scope="c2", fact="secret", id="theirs")
    errors = []
    for id in ("nowhere", "theirs"):
        with pytest.raises(NotFoundError) as caught:
            getattr(memory, method)(id, scope="c1")
        errors.append(str(caught.value).replace(id, "ID"))
    assert errors == ["Memory not found: ID"] * 2


def test_an_expired_memory_is_not_counted_and_holds_no_scope_before_it_is_swept(memory, clock):
    memory.remember_fact(scope="c1", fact="x", expires_at=clock.now() + timedelta(seconds=1))
    assert (memory.scopes(), memory.stats("c1").facts, memory.stats().facts) == (["c1"], 1, 1)
    clock.advance(seconds=1)
    assert (memory.scopes(), memory.stats("c1").facts, memory.stats().facts) == ([], 0, 0)
    memory.add_messages("other", [Message(role="user", content="What others do is not seen in a count.")])
    assert (memory.scopes(), memory.stats("c1").facts, memory.stats().facts) == ([], 0, 0)


def test_an_expired_memory_cannot_be_got(memory, clock):
    fact = memory.remember_fact(scope="c1", fact="x", expires_at=clock.now() + timedelta(seconds=1))
    clock.advance(seconds=1)
    with pytest.raises(NotFoundError):
        memory.get(fact.id, scope="c1")


def test_context_gives_facts_alone(memory):
    memory.remember_fact(
        scope="c1", fact="User lives in Lyon", category="identity", source_episodic_ids=["a", "b", "c"]
    )
    memory.remember_fact(scope="c1", fact="Answer in metric units", category="guideline", source_episodic_ids=["a"])
    memory.remember_episode(scope="c1", summary="The user moved to Lyon.")
    assert memory.context("where in Lyon?", scope="c1", semantic_limit=1).to_markdown() == (
        "## Semantic Memory\n- [identity] User lives in Lyon (sources: 3 conversations)"
    )
    assert memory.context("units", scope="c1", category="guideline").to_markdown() == (
        "## Semantic Memory\n- [guideline] Answer in metric units (sources: 1 conversation)"
    )
    assert memory.context("units", scope="c9").to_markdown() == ""


def test_recent_gives_the_newest_episodes_by_creation(memory, clock):
    for number in range(12):
        memory.remember_episode(
            scope="c1", summary=f"Day {number}.", title=f"Day {number}", surprise=0.8 * (number == 11)
        )
        clock.advance(days=1)
    assert [episode.title for episode in memory.recent("c1").episodic] == [
        f"Day {number}" for number in range(11, 1, -1)
    ]
    assert [episode.title for episode in memory.recent("c1", limit=2).episodic] == ["Day 11", "Day 10"]
    assert [episode.title for episode in memory.recent("c1", days_limit=2.5).episodic] == ["Day 11", "Day 10"]
    assert len(memory.recent("c1", limit=0).episodic) == 1
    assert memory.recent("c1", limit=1).to_markdown() == (
        "## Recent Memories\n\n### Day 11 (key moment)\n**When:** yesterday\n**Summary:** Day 11."
    )
    assert memory.recent("c2").to_markdown() == "No recent memories found."
    assert [raw["title"] for raw in memory.recent("c1", limit=2).to_dict()["episodic"]] == ["Day 11", "Day 10"]


def test_recent_tells_what_was_flushed_together_by_when_it_ended(memory, clock):
    days = range(12)
    for day in days:
        memory.add_messages("c1", [Message(role="user", content=f"Box {day} is full")], conversation=f"day {day}")
        clock.advance(days=1)
    memory.flush("c1")
    for most in (12, 5, 1):
        told = [episode.conversation_id for episode in memory.recent("c1", limit=most).episodic]
        assert told == [f"day {day}" for day in reversed(days)][:most]


def test_scopes_and_stats_tell_what_is_there(memory):
    memory.remember_fact(scope="user/b", fact="one", id="f1")
    memory.remember_fact(scope="user/b", fact="two")
    memory.remember_episode(scope="user/a", summary="three")
    memory.invalidate("f1", scope="user/b")
    memory.retrieve("three", scope="user/a")
    assert memory.scopes() == ["user/a", "user/b"]
    assert memory.stats().model_dump() == {
        "episodes": 1,
        "facts": 1,
        "invalidated_facts": 1,
        "pending_reviews": 1,
        "queued_messages": 0,
    }
    assert memory.stats("user/b").model_dump() == {
        "episodes": 0,
        "facts": 1,
        "invalidated_facts": 1,
        "pending_reviews": 0,
        "queued_messages": 0,
    }
    assert memory.stats("user/nobody").episodes == 0


def test_child_scopes_are_searched_on_request_only(memory):
    memory.remember_fact(scope="user/a", fact="User likes tea", id="parent")
    memory.remember_fact(scope="user/a/work", fact="User likes tea at work", id="child")
    memory.remember_fact(scope="user/ab", fact="User likes tea too", id="other")

    def found(scope, *, children):
        hits = memory.retrieve("tea", scope=scope, include_child_scopes=children).semantic
        return {hit.memory.id for hit in hits}

    assert found("user/a", children=False) == {"parent"}
    assert found("user/a", children=True) == {"parent", "child"}
    assert found("user", children=True) == {"parent", "child", "other"}
    assert found("user", children=False) == set()


def test_a_store_on_disk_is_there_again_after_closing(tmp_path, clock, keyword):
    path = tmp_path / "store"
    with AgentMemory.open(path, embedder=HashEmbedder(), clock=clock, keyword=keyword) as memory:
        memory.remember_fact(scope="c1", fact="User lives in Lyon", id="f1")
        memory.remember_episode(scope="c1", summary="The user moved to Lyon.", id="e1")
        first = memory.retrieve("Lyon", scope="c1")
    with AgentMemory.open(path, embedder=HashEmbedder(), clock=clock, keyword=keyword) as memory:
        again = memory.retrieve("Lyon", scope="c1", record=False)
        assert again == first
        assert [review.query for review in memory.pending_reviews("c1")] == ["Lyon"]


@pytest.mark.parametrize(("writer", "reader"), [("sqlite_bm25", "rank_bm25"), ("rank_bm25", "sqlite_bm25")])
def test_what_one_engine_wrote_the_other_can_search(tmp_path, clock, writer, reader):
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), clock=clock, keyword=writer) as memory:
        memory.remember_fact(scope="c1", fact="User lives in Lyon")
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), clock=clock, keyword=reader) as memory:
        assert memory.retrieve("Lyon", scope="c1").semantic[0].explanation.bm25_rank == 1


def test_a_closed_memory_says_so(memory):
    memory.close()
    memory.close()
    with pytest.raises(ConfigurationError, match="closed"):
        memory.retrieve("x", scope="c1")


def test_two_memories_in_memory_never_see_each_other(clock):
    one, other = (AgentMemory.in_memory(embedder=HashEmbedder(size), clock=clock) for size in (64, 128))
    one.remember_fact(scope="c1", fact="User lives in Lyon")
    assert other.retrieve("Lyon", scope="c1").semantic == ()
    assert other.scopes() == []


async def test_retrieving_in_an_event_loop_gives_the_same(memory):
    memory.remember_fact(scope="c1", fact="User lives in Lyon")
    assert await memory.aretrieve("Lyon", scope="c1") == memory.retrieve("Lyon", scope="c1")


async def test_a_memory_is_opened_for_the_life_of_an_application_and_closed_outside_its_event_loop(
    tmp_path, monkeypatch
):
    closing_thread = []
    async with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder()) as memory:
        await memory.aremember_fact(scope="c1", fact="User lives in Lyon")
        close = memory.close
        monkeypatch.setattr(memory, "close", lambda: closing_thread.append(threading.get_ident()) or close())
    assert closing_thread
    assert threading.get_ident() not in closing_thread
    with pytest.raises(ConfigurationError, match="closed"):
        memory.scopes()


def test_the_system_clock_tells_the_time_unless_another_is_given():
    memory = AgentMemory.in_memory(embedder=HashEmbedder())
    before = datetime.now(UTC)
    fact = memory.remember_fact(scope="c1", fact="x")
    assert before <= fact.created_at <= datetime.now(UTC)


def test_a_clock_without_zone_is_taken_as_utc():
    class Naive:
        def now(self):
            return datetime(2026, 3, 1, 9)  # noqa: DTZ001

    memory = AgentMemory.in_memory(embedder=HashEmbedder(), clock=Naive())
    assert memory.remember_fact(scope="c1", fact="x").created_at == datetime(2026, 3, 1, 9, tzinfo=UTC)


def test_answers_that_hold_memories_are_false_without_any_and_are_iterated(memory, clock):
    before = clock.now()
    for ask in (memory.list, memory.profile, lambda scope: memory.recent(scope=scope, facts=True)):
        assert not ask("c1")
    assert not memory.diff("c1", since=before)
    clock.advance(seconds=1)
    fact = memory.remember_fact(scope="c1", fact="User grows basil", category="identity")
    episode = memory.remember_episode(scope="c1", summary="The user planted basil.")
    assert [each.id for each in memory.list("c1")] == [each.id for each in memory.list("c1").memories]
    assert len(memory.list("c1")) == 2
    assert [each.id for each in memory.recent(scope="c1", facts=True)] == [fact.id, episode.id]
    assert (len(memory.recent(scope="c1")), len(memory.profile("c1"))) == (1, 1)
    assert [each.id for each in memory.profile("c1")] == [fact.id]
    assert memory.diff("c1", since=before)
