"""A clock that is set back: nothing crashes, nothing fades below or above what it may, and caches notice."""

from datetime import timedelta

import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder

DENSE = ["exact", "chroma"]


@pytest.fixture(params=DENSE)
def memory(request, tmp_path, clock, keyword):
    with AgentMemory.open(
        tmp_path / "store", embedder=HashEmbedder(), clock=clock, keyword=keyword, dense=request.param
    ) as memory:
        yield memory


def found(memory, query="tea", **asked):
    result = memory.retrieve(query, scope="c1", record=False, **asked)
    return {hit.memory.id for hit in (*result.semantic, *result.episodic)}


@pytest.fixture
def fresh(memory, tmp_path, clock, keyword):
    """What a handle that remembers nothing finds: in a copy of the store, searched exactly."""
    copies = iter(range(100))

    def fresh():
        memory.backup(copy := tmp_path / f"copy {next(copies)}")
        with AgentMemory.open(copy, embedder=HashEmbedder(), clock=clock, keyword=keyword, dense="exact") as other:
            return found(other), found(other, category="goal"), [each.id for each in other.list("c1").memories]

    return fresh


def test_whatever_the_clock_does_memories_are_written_read_listed_and_changed(memory, clock):
    for n, days in enumerate((0, -1, -400, 3, -36_600, 0.5)):
        clock.advance(days=days)
        episode = memory.remember_episode(scope="c1", summary=f"They had tea {n}.", surprise=0.9)
        fact = memory.remember_fact(scope="c1", fact=f"User likes tea {n}", category="goal")
        assert episode.created_at == fact.created_at == clock.now()
        result = memory.retrieve("tea", scope="c1", limit=30)
        assert len(result.episodic) == n + 1
        assert len(result.semantic) == n + 1
        scores = [(hit.score, hit.explanation.retrievability) for hit in (*result.episodic, *result.semantic)]
        assert all(0 < score <= 1 and 0 < retrievability <= 1 for score, retrievability in scores)
        assert memory.update(fact.id, scope="c1", fact=f"User loves tea {n}").updated_at == clock.now()
        assert episode.summary in memory.recent("c1", limit=20).to_markdown()
    listed = [each.created_at for each in memory.list("c1").memories]
    assert listed == sorted(listed, reverse=True)
    recent = [each.created_at for each in memory.recent("c1").episodic]
    assert recent == sorted(recent, reverse=True)
    assert len({each.id for each in memory.list("c1").memories}) == 12
    assert memory.verify().ok


def test_a_memory_made_in_what_is_now_the_future_is_as_fresh_as_can_be(memory, clock):
    memory.remember_episode(scope="c1", summary="They had tea.", id="e1")
    clock.advance(days=-30)
    (hit,) = memory.retrieve("tea", scope="c1").episodic
    assert hit.explanation.retrievability == 1.0
    assert [each.id for each in memory.recent("c1", days_limit=1).episodic] == ["e1"]


def test_what_had_expired_is_there_again_when_the_clock_goes_back_and_every_cache_knows(memory, fresh, clock):
    now = clock.now()
    for n, days in enumerate((1, 3, 5)):
        memory.remember_fact(
            scope="c1", fact=f"User likes tea {n}", id=f"f{n}", category="goal", expires_at=now + timedelta(days=days)
        )
        memory.remember_episode(scope="c1", summary=f"Tea {n}", id=f"e{n}", expires_at=now + timedelta(days=days))
    memory.remember_fact(scope="c1", fact="User drinks tea", id="for good")
    seen = []
    for days in (0, 2, -2, 4, 2, -5, -30, 34.5, -0.5):
        clock.advance(days=days)
        listed = [each.id for each in memory.list("c1").memories]
        assert (found(memory), found(memory, category="goal"), listed) == fresh()
        seen.append(len(listed))
    assert seen == [7, 5, 7, 3, 1, 5, 7, 1, 1]


def test_a_store_written_in_the_future_opens_and_takes_writes(memory, tmp_path, clock, keyword):
    memory.remember_episode(scope="c1", summary="They had tea.", id="e1")
    memory.retrieve("tea", scope="c1")
    memory.close()
    clock.advance(days=-10_000)
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), clock=clock, keyword=keyword) as earlier:
        earlier.remember_episode(scope="c1", summary="They had green tea.", id="e0")
        assert found(earlier) == {"e0", "e1"}
        earlier.retrieve("green tea", scope="c1")
        assert {review.query for review in earlier.pending_reviews("c1")} == {"tea", "green tea"}
        assert earlier.verify().ok
