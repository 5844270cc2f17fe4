"""A ledger removes memories with every trace of them, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contracts.samples import (
    ALIKE,
    BELOW,
    BESIDE,
    NOW,
    SCOPE,
    add,
    episode,
    episodes_in,
    fact,
    facts_in,
    indexed,
    review,
)
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.models import AnyMemory, MemoryKey, ScopeStatistics
from memory_retrievers.models.contents import StoredQueue
from memory_retrievers.models.messages import Message
from memory_retrievers.models.storage import QueuedMessage


class RemovalContract:
    """Memories and scopes that go for good."""

    def test_a_removed_memory_leaves_nothing_behind(self, ledger: SQLLedger) -> None:
        gone, kept = add(ledger, [fact("f1"), fact("f2", "coffee")])
        assert ledger.remove([MemoryKey(scope=SCOPE, id="f1")])
        assert ledger.get(scope=SCOPE, id="f1") is None
        assert indexed(ledger, facts_in()) == ledger.eligible(facts_in()) == [kept.id]
        assert ledger.texts([gone.id, kept.id]) == {kept.id: "coffee"}
        assert ledger.vectors([gone.id, kept.id])[0] == [kept.id]
        assert list(ledger.owners([gone.id, kept.id])) == [kept.id]
        assert list(ledger.load([gone.memory, kept.memory])) == [kept.memory]
        assert ledger.statistics(SCOPE) == ScopeStatistics(facts=1)

    def test_the_id_can_be_taken_again_and_the_passage_id_cannot(self, ledger: SQLLedger) -> None:
        (first,) = add(ledger, [episode("e1")])
        ledger.remove([MemoryKey(scope=SCOPE, id="e1")])
        (second,) = add(ledger, [episode("e1")])
        assert second.id > first.id
        assert second.memory != first.memory
        assert ledger.eligible(episodes_in()) == [second.id]

    def test_the_id_leaves_the_lists_of_its_scope_and_of_no_other(self, ledger: SQLLedger) -> None:
        lists = {"source_episodic_ids": ("a", 'e"1', "b"), "consolidated_from": ('e"1', "c")}
        fact_with, elsewhere = (fact("f1", scope=scope).model_copy(update=lists) for scope in (SCOPE, "user/10"))
        merged = episode("e2").model_copy(update={"consolidated_from": ('e"1', 'e"10')})
        add(ledger, [episode('e"1'), fact_with, elsewhere, merged])
        ledger.remove([MemoryKey(scope=SCOPE, id='e"1')])
        left = {"source_episodic_ids": ("a", "b"), "consolidated_from": ("c",)}
        assert ledger.get(scope=SCOPE, id="f1") == fact_with.model_copy(update=left)
        assert ledger.get(scope=SCOPE, id="e2") == merged.model_copy(update={"consolidated_from": ('e"10',)})
        assert ledger.get(scope="user/10", id="f1") == elsewhere

    def test_the_id_leaves_the_reviews_here_and_above_and_empty_ones_go(self, ledger: SQLLedger) -> None:
        keys = (MemoryKey(scope=SCOPE, id="e1"), MemoryKey(scope="user/10", id="e1"))
        add(ledger, [episode("e1"), episode("e2"), episode("e1", scope="user/10")])
        above = replace(review(scope="user"), memories=keys)
        ledger.add_pending_reviews([review(), review(ids=["e2", "e1"]), above, review(scope="user/10")])
        ledger.remove([MemoryKey(scope=SCOPE, id="e1")])
        assert ledger.pending_reviews(SCOPE) == [review(ids=["e2"])]
        assert ledger.pending_reviews("user") == [replace(above, memories=keys[1:])]
        assert ledger.pending_reviews("user/10") == [review(scope="user/10")]

    @pytest.mark.parametrize("last", ["review", "queue", "job"])
    def test_a_scope_goes_with_the_last_that_it_holds(self, ledger: SQLLedger, last: str) -> None:
        add(ledger, [episode("e1"), fact("f1", scope="user"), fact("f1", scope="user/10")])
        said = QueuedMessage(id="m1", message=Message(role="user", content="And now?", timestamp=NOW))
        if last == "queue":
            ledger.conversations.append("user", [said], at=NOW)
            assert ledger.conversations.claim("user", lease="mine", messages=1, at=NOW, expired=NOW)
        else:
            ledger.add_pending_reviews([replace(review(scope="user"), memories=(MemoryKey(scope=SCOPE, id="e1"),))])
        ledger.remove([MemoryKey(scope="user", id="f1")])
        assert _names(ledger) == ["user", SCOPE, "user/10"]
        if last == "queue":
            assert ledger.conversations.drain("user", lease="mine", messages=["m1"], previous_summary=None)
        elif last == "review":
            ledger.remove([MemoryKey(scope=SCOPE, id="e1")])
        else:
            ledger.conversations.take_reviews("user", conversation=[said.message], at=NOW)
            (job,) = ledger.conversations.review_jobs("user")
            with ledger.database.write("user", SCOPE):
                assert ledger.conversations.finish_review_job(job.id)
        assert _names(ledger) == (["user/10"] if last == "review" else [SCOPE, "user/10"])

    def test_the_id_leaves_what_it_has_replaced_and_its_successor_takes_its_place(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("f1"), fact("f2"), fact("f3"), fact("f1", scope="user/10")])
        ledger.invalidate(scope=SCOPE, id="f1", at=NOW, replaced_by="f2")
        ledger.invalidate(scope=SCOPE, id="f2", at=NOW, replaced_by="f3")
        ledger.invalidate(scope="user/10", id="f1", at=NOW, replaced_by="f2")
        ledger.remove([MemoryKey(scope=SCOPE, id="f2")])
        assert [version.id for version in ledger.facts.history(scope=SCOPE, id="f1")] == ["f1", "f3"]
        ledger.remove([MemoryKey(scope=SCOPE, id="f3")])
        (alone,) = ledger.facts.history(scope=SCOPE, id="f1")
        assert alone.replaced_by is None
        assert [each.replaced_by for each in ledger.facts.history(scope="user/10", id="f1")] == ["f2"]

    @pytest.mark.parametrize("change", ["remove", "reword", "move"])
    def test_a_queue_no_longer_tells_of_an_episode_that_no_longer_says_so(self, ledger: SQLLedger, change: str) -> None:
        for scope in (SCOPE, "user/10"):
            add(ledger, [episode("e1", "They had tea", scope=scope), episode("e2", "They left", scope=scope)])
            waiting = (QueuedMessage("m1", Message(role="user", content="And now?", timestamp=NOW)),)
            ledger.conversations.restore(
                StoredQueue(scope=scope, messages=waiting, window_doubled=False, previous_summary="They had tea")
            )
        if change == "remove":
            ledger.remove([MemoryKey(scope=SCOPE, id="e1")])
        elif change == "reword":
            ledger.replace(episode("e1", "They had something"))
        else:
            ledger.management.move([MemoryKey(scope=SCOPE, id="e1")], target_scope="elsewhere")
        assert ledger.conversations.state(SCOPE).previous_summary is None
        assert ledger.conversations.state("user/10").previous_summary == "They had tea"
        ledger.remove([MemoryKey(scope="user/10", id="e2")])
        assert ledger.conversations.state("user/10").previous_summary == "They had tea"

    def test_a_memory_of_another_scope_is_not_removed(self, ledger: SQLLedger) -> None:
        own = {scope: fact("f1", scope=scope) for scope in ALIKE}
        add(ledger, list(own.values()))
        for scope in ALIKE:
            others = {other: memory for other, memory in own.items() if other != scope}
            assert not ledger.remove([MemoryKey(scope=scope, id="F1")]), scope
            assert ledger.remove([MemoryKey(scope=scope, id="f1")]), scope
            assert not ledger.remove([MemoryKey(scope=scope, id="f1")]), f"{scope} removed that of another"
            assert {other: ledger.get(scope=other, id="f1") for other in others} == others, f"{scope} was removed"
            add(ledger, [own[scope]])

    def test_a_scope_goes_with_its_children_and_nothing_beside_it(self, ledger: SQLLedger) -> None:
        memories: list[AnyMemory] = [fact("f1", scope=scope) for scope in (SCOPE, *BELOW, *BESIDE)]
        add(ledger, [*memories, episode("e1")])
        assert ledger.remove_scope(SCOPE, include_child_scopes=True) == 2 + len(BELOW)
        assert ledger.scopes() == sorted(BESIDE)
        assert ledger.remove_scope(SCOPE, include_child_scopes=True) == 0

    def test_a_scope_can_go_without_its_children(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("f1"), fact("f1", scope="user/1/work")])
        assert ledger.remove_scope(SCOPE, include_child_scopes=False) == 1
        assert ledger.scopes() == ["user/1/work"]
        assert len(ledger.eligible(facts_in(include_child_scopes=True))) == 1

    def test_the_reviews_of_a_scope_go_with_it(self, ledger: SQLLedger) -> None:
        keys = (MemoryKey(scope="user/1/work", id="e1"), MemoryKey(scope="user/10", id="e1"))
        above = replace(review(scope="user"), memories=keys)
        ledger.add_pending_reviews([review(), review(scope="user/1/work"), above, review(scope="user/10")])
        ledger.remove_scope(SCOPE, include_child_scopes=True)
        assert ledger.statistics(None).pending_reviews == 2
        assert ledger.pending_reviews("user") == [replace(above, memories=keys[1:])]

    def test_passages_are_listed_by_scope_and_memory_whatever_their_state(self, ledger: SQLLedger) -> None:
        memories: list[AnyMemory] = [fact("f1", invalid_at=NOW), episode("e1", expires_at=NOW)]
        memories.append(fact("f1", scope="user/1/work"))
        invalidated, expired, below = add(ledger, [*memories, fact("f1", scope="user/10")])[:3]
        assert ledger.passages_of(SCOPE) == [invalidated, expired]
        assert ledger.passages_of(SCOPE, id="f1") == [invalidated]
        assert ledger.passages_of(SCOPE, include_child_scopes=True) == [invalidated, expired, below]
        assert ledger.passages_of("nobody", include_child_scopes=True) == []

    def test_a_removal_that_fails_is_undone(self, ledger: SQLLedger) -> None:
        def remove_and_fail() -> None:
            with ledger.database.write():
                ledger.remove([MemoryKey(scope=SCOPE, id="f1")])
                ledger.remove_scope("other", include_child_scopes=True)
                raise ZeroDivisionError

        first, second = add(ledger, [fact("f1"), fact("f1", scope="other")])
        with pytest.raises(ZeroDivisionError):
            remove_and_fail()
        assert ledger.eligible(facts_in()) == [first.id]
        assert ledger.eligible(facts_in("other")) == [second.id]

    def test_purging_keeps_what_is_there(self, ledger: SQLLedger) -> None:
        _, kept = add(ledger, [fact("f1", scope="other"), fact("f2")])
        ledger.remove([MemoryKey(scope="other", id="f1")])
        ledger.purge()
        assert ledger.eligible(facts_in()) == [kept.id]
        assert ledger.get(scope=SCOPE, id="f2") == fact("f2")


def _names(ledger: SQLLedger) -> list[str]:
    with ledger.database.read() as connection:
        return [scope for (scope,) in connection.execute("SELECT scope FROM scopes ORDER BY scope")]
