"""A ledger writes a memory over the one it had, with new passages or with those it had."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from contracts.samples import NOW, SCOPE, add, episode, episodes_in, fact, facts_in, indexed
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.errors import NotFoundError
from memory_retrievers.models import Category
from memory_retrievers.models.messages import Message
from memory_retrievers.models.selection import NewPassage


def _passage(text: str) -> NewPassage:
    return NewPassage(part="semantic", text=text, vector=np.ones(4, np.float32))


class ChangeContract:
    """Memories that become others."""

    def test_a_memory_is_written_over_and_keeps_its_row_and_passages(self, ledger: SQLLedger) -> None:
        (passage,) = add(ledger, [fact("f1")])
        changed = fact("f1", category=Category.GOAL).model_copy(update={"importance": 0.9, "tags": ("new",)})
        assert ledger.replace(changed) == []
        assert ledger.load([passage.memory]) == {passage.memory: changed}
        assert ledger.eligible(facts_in(category=Category.GOAL)) == [passage.id]
        assert ledger.eligible(facts_in(category=Category.NOTE)) == []

    def test_new_passages_take_the_place_of_the_old_under_new_ids(self, ledger: SQLLedger) -> None:
        old, other = add(ledger, [fact("f1"), fact("f2")])
        (new,) = ledger.replace(fact("f1", "coffee"), [_passage("coffee")])
        assert new.id > other.id
        assert (new.memory, new.scope, new.kind, new.text) == (old.memory, SCOPE, "semantic", "coffee")
        assert indexed(ledger, facts_in()) == ledger.eligible(facts_in()) == [other.id, new.id]
        assert ledger.texts([old.id, new.id]) == {new.id: "coffee"}
        assert ledger.vectors([old.id, new.id])[0] == [new.id]

    def test_an_expiry_that_is_set_or_taken_back_counts_at_once(self, ledger: SQLLedger) -> None:
        (passage,) = add(ledger, [episode("e1", expires_at=NOW)])
        for expires_at, visible in ((None, [passage.id]), (NOW, []), (NOW + timedelta(days=1), [passage.id])):
            ledger.replace(episode("e1", expires_at=expires_at))
            assert ledger.eligible(episodes_in()) == visible

    def test_the_messages_of_an_episode_stay(self, ledger: SQLLedger) -> None:
        message = Message(role="user", content="Tea, please", timestamp=NOW)
        memory = episode("e1").model_copy(update={"messages": (message,)})
        add(ledger, [memory])
        changed = memory.model_copy(update={"title": "Tea"})
        ledger.replace(changed)
        assert ledger.get(scope=SCOPE, id="e1") == changed

    def test_only_the_memory_of_that_scope_and_id_is_changed(self, ledger: SQLLedger) -> None:
        others = [fact("f1", scope="user/10"), fact("f2"), fact("F1")]
        add(ledger, [fact("f1"), *others])
        ledger.replace(fact("f1", "coffee"), [_passage("coffee")])
        assert [ledger.get(scope=other.scope, id=other.id) for other in others] == others

    def test_a_memory_that_is_not_there_cannot_be_written_over(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("f1", scope="user/10")])
        with pytest.raises(NotFoundError):
            ledger.replace(fact("f1"), [_passage("tea")])
        assert ledger.scopes() == ["user/10"]
