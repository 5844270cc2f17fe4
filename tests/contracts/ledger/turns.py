"""A ledger tells what stands for a memory as a whole from its messages, and how they belong together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.samples import (
    BELOW,
    BESIDE,
    NOW,
    SCOPE,
    add,
    episode,
    episodes_in,
    exploring,
    fact,
    facts_in,
    fresh_scope,
    indexed,
)
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.errors import NotFoundError
from memory_retrievers.models import AnyMemory, Category, MemoryKey
from memory_retrievers.models.fields import microseconds
from memory_retrievers.models.selection import WHOLE, Layout, NewPassage, Passage, Selection

_VECTOR: Final = np.array([1, 0, 0, 0], np.float32)
_EVERY: Final = replace(episodes_in(), every_passage=True)
_LATER: Final = NOW + timedelta(hours=1)


def _whole(memory: AnyMemory) -> NewPassage:
    return NewPassage(part=memory.kind, text=memory.search_text, vector=_VECTOR)


def _turn(place: int, text: str = "tea", *, speaker: str = "Ana", tells_time: bool = False) -> NewPassage:
    return NewPassage(part=f"turn {place}", text=text, vector=_VECTOR, speaker=speaker, tells_time=tells_time)


def _add(ledger: SQLLedger, memory: AnyMemory, turns: Sequence[NewPassage] = ()) -> list[Passage]:
    return ledger.add([memory], [[_whole(memory), *turns]])


def _rows(layout: Layout) -> list[tuple[int, int, int, str | None, bool, int]]:
    names = [None if code < 0 else layout.names[code] for code in layout.speakers.tolist()]
    columns = (layout.passages, layout.memories, layout.places)
    return list(
        zip(
            *(column.tolist() for column in columns),
            names,
            layout.tells_time.tolist(),
            layout.began.tolist(),
            strict=True,
        )
    )


class TurnContract:
    """Passages that are messages of episodes."""

    def test_a_passage_comes_back_with_its_part(self, ledger: SQLLedger) -> None:
        stored = _add(ledger, episode("e1"), [_turn(0), _turn(1)])
        assert [(passage.part, passage.field) for passage in stored] == [
            ("episodic", "episodic"),
            ("turn 0", "turn"),
            ("turn 1", "turn"),
        ]
        assert ledger.passages_of(SCOPE, id="e1") == stored

    def test_messages_are_searched_only_where_that_is_asked_for(self, ledger: SQLLedger) -> None:
        whole, *turns = (passage.id for passage in _add(ledger, episode("e1"), [_turn(0), _turn(1)]))
        assert ledger.eligible(episodes_in()) == indexed(ledger, episodes_in()) == [whole]
        assert ledger.eligible(_EVERY) == indexed(ledger, _EVERY) == [whole, *turns]
        assert ledger.eligible(episodes_in(), among=[whole, *turns]) == [whole]
        assert ledger.eligible(_EVERY, among=[*turns, whole]) == [whole, *turns]

    def test_a_selection_is_as_large_as_it_has_passages(self, ledger: SQLLedger) -> None:
        _add(ledger, episode("e1"), [_turn(0), _turn(1)])
        for remembered in (False, True):
            assert ledger.size(episodes_in(), at_most=9) == 1
            assert ledger.size(_EVERY, at_most=9) == 3
            assert ledger.size(_EVERY, at_most=1) > 1
            if not remembered:
                assert len(ledger.eligible(_EVERY)) == 3

    def test_a_memory_that_no_search_finds_does_not_count(self, ledger: SQLLedger) -> None:
        ledger.add([episode("e1")], [[]])
        assert ledger.size(episodes_in(), at_most=9) == 0

    def test_facts_are_as_they_were(self, ledger: SQLLedger) -> None:
        (passage,) = add(ledger, [fact("f1")])
        assert ledger.eligible(replace(facts_in(), every_passage=True)) == [passage.id]
        layout = ledger.layout(replace(facts_in(), every_passage=True))
        assert _rows(layout) == [(passage.id, passage.memory, WHOLE, None, False, 0)]

    def test_the_layout_tells_which_message_each_passage_is(self, ledger: SQLLedger) -> None:
        said = [_turn(2, speaker="Ben", tells_time=True), _turn(10), _turn(0)]
        whole, third, last, first = _add(ledger, episode("e1", created_at=_LATER), said)
        (other,) = _add(ledger, episode("e2"))
        begun = (microseconds(_LATER), microseconds(NOW))
        expected = [
            (whole.id, whole.memory, WHOLE, None, False, begun[0]),
            (first.id, whole.memory, 0, "Ana", False, begun[0]),
            (third.id, whole.memory, 2, "Ben", True, begun[0]),
            (last.id, whole.memory, 10, "Ana", False, begun[0]),
            (other.id, other.memory, WHOLE, None, False, begun[1]),
        ]
        assert _rows(ledger.layout(_EVERY)) == expected
        assert _rows(ledger.layout(episodes_in())) == [expected[0], expected[4]]

    def test_the_layout_of_some_memories_is_theirs_alone(self, ledger: SQLLedger) -> None:
        first = _add(ledger, episode("e1"), [_turn(0)])
        second = _add(ledger, episode("e2"), [_turn(0, speaker="Ben")])
        row, elsewhere = second[0].memory, _add(ledger, episode("e1", scope="user/10"))[0].memory
        asked = [row, row, elsewhere, 10**9]
        expected = [(second[0].id, WHOLE, None), (second[1].id, 0, "Ben")]
        for _ in range(2):  # looked up, then out of what is remembered
            found = _rows(ledger.layout(_EVERY, memories=asked))
            assert [(passage, place, name) for passage, _, place, name, *_ in found] == expected
            assert len(ledger.layout(_EVERY).passages) == len(first) + len(second)
        assert _rows(ledger.layout(_EVERY, memories=[])) == []

    def test_a_layout_has_what_the_selection_lets_through(self, ledger: SQLLedger) -> None:
        _add(ledger, episode("gone", expires_at=NOW), [_turn(0)])
        kept = _add(ledger, episode("kept", expires_at=_LATER), [_turn(0)])
        for now, expected in ((NOW, kept), (_LATER, []), (NOW, kept)):
            layout = ledger.layout(replace(_EVERY, now=now))
            assert layout.passages.tolist() == [passage.id for passage in expected]
        assert not len(ledger.layout(replace(_EVERY, scope="nobody")).passages)

    def test_a_layout_of_a_category_has_only_its_facts(self, ledger: SQLLedger) -> None:
        goal, _ = add(ledger, [fact("f1", category=Category.GOAL), fact("f2")])
        assert ledger.layout(facts_in(category=Category.GOAL)).passages.tolist() == [goal.id]
        assert len(ledger.layout(facts_in()).passages) == 2

    def test_a_layout_follows_every_change(self, ledger: SQLLedger) -> None:
        first = _add(ledger, episode("e1"), [_turn(0)])
        assert len(ledger.layout(_EVERY).passages) == 2
        second = _add(ledger, episode("e2"), [_turn(0)])
        assert len(ledger.layout(_EVERY).passages) == 4
        ledger.remove_passages([second[1].id])
        assert len(ledger.layout(_EVERY).passages) == 3
        ledger.remove([MemoryKey(scope=SCOPE, id="e1")])
        assert ledger.layout(_EVERY).passages.tolist() == [second[0].id]
        assert first[0].id not in ledger.eligible(_EVERY)

    def test_what_a_transaction_has_written_is_in_its_layout_and_gone_when_it_fails(self, ledger: SQLLedger) -> None:
        kept = _add(ledger, episode("e1"), [_turn(0)])
        with suppress(ZeroDivisionError), ledger.database.write():
            _add(ledger, episode("e2"), [_turn(0)])
            assert len(ledger.layout(_EVERY).passages) == 4
            raise ZeroDivisionError
        assert ledger.layout(_EVERY).passages.tolist() == [passage.id for passage in kept]

    def test_messages_of_child_scopes_are_those_of_all_below_and_none_beside(self, ledger: SQLLedger) -> None:
        stored = {scope: _add(ledger, episode("e1", scope=scope), [_turn(0)]) for scope in (SCOPE, *BELOW, *BESIDE)}
        inside = sorted(passage.id for scope in (SCOPE, *BELOW) for passage in stored[scope])
        below = replace(_EVERY, include_child_scopes=True)
        assert ledger.eligible(below) == indexed(ledger, below) == inside
        assert sorted(ledger.layout(below).passages.tolist()) == inside
        assert ledger.size(below, at_most=1000) == len(inside)

    def test_passages_are_put_in_the_place_of_those_of_the_same_part(self, ledger: SQLLedger) -> None:
        whole, first, second = _add(ledger, episode("e1"), [_turn(0), _turn(1)])
        new, third = ledger.put_passages(episode("e1"), [_turn(0, "coffee"), _turn(2)])
        assert min(new.id, third.id) > second.id
        assert ledger.eligible(_EVERY) == [whole.id, second.id, new.id, third.id]
        assert ledger.texts([first.id, new.id]) == {new.id: "coffee"}

    def test_a_memory_that_is_written_over_keeps_its_other_passages(self, ledger: SQLLedger) -> None:
        whole, turn = _add(ledger, episode("e1"), [_turn(0)])
        (new,) = ledger.replace(episode("e1", "coffee"), [_whole(episode("e1", "coffee"))])
        assert ledger.eligible(_EVERY) == [turn.id, new.id]
        assert ledger.texts([whole.id, turn.id, new.id]) == {turn.id: "tea", new.id: "coffee"}

    def test_a_memory_that_is_not_there_is_given_no_passages(self, ledger: SQLLedger) -> None:
        _add(ledger, episode("e1", scope="user/10"))
        with pytest.raises(NotFoundError):
            ledger.put_passages(episode("e1"), [_turn(0)])
        assert len(ledger.passages_of("user/10")) == 1

    def test_passages_that_are_removed_leave_their_memory(self, ledger: SQLLedger) -> None:
        whole, first, second = _add(ledger, episode("e1"), [_turn(0), _turn(1)])
        ledger.remove_passages([first.id, 10**9])
        assert ledger.eligible(_EVERY) == [whole.id, second.id]
        assert (ledger.texts([first.id]), ledger.owners([first.id])) == ({}, {})
        assert ledger.get(scope=SCOPE, id="e1") == episode("e1")
        ledger.remove_passages([])
        assert len(ledger.eligible(_EVERY)) == 2

    def test_messages_move_with_their_memory(self, ledger: SQLLedger) -> None:
        stored = _add(ledger, episode("e1"), [_turn(0, speaker="Ben", tells_time=True)])
        ledger.management.move([MemoryKey(scope=SCOPE, id="e1")], target_scope="user/2")
        there = ledger.layout(replace(_EVERY, scope="user/2"))
        assert there.passages.tolist() == [passage.id for passage in stored]
        assert (there.names, there.tells_time.tolist()) == (("Ben",), [False, True])
        assert ledger.eligible(_EVERY) == []

    def test_contents_tell_who_said_it_and_whether_it_tells_a_time(self, ledger: SQLLedger) -> None:
        told = [_turn(0, speaker="Ben", tells_time=True), _turn(1)]
        _add(ledger, episode("e1"), told)
        with ledger.contents() as contents:
            (stored,) = contents.memories
        found = [(each.part, each.text, each.speaker, each.tells_time) for each in stored.passages]
        expected = [(each.part, each.text, each.speaker, each.tells_time) for each in (_whole(episode("e1")), *told)]
        assert found == expected

    def test_the_rows_of_episodes_come_in_pages_in_their_order(self, ledger: SQLLedger) -> None:
        rows = [_add(ledger, episode(f"e{n}", scope=f"user/{n % 2}", expires_at=NOW))[0].memory for n in range(3)]
        add(ledger, [fact("f1")])
        assert ledger.episode_rows(after=0, limit=2) == rows[:2]
        assert ledger.episode_rows(after=rows[1], limit=2) == rows[2:]
        assert ledger.episode_rows(after=rows[2], limit=2) == []

    @exploring
    @given(
        told=st.lists(
            st.dictionaries(
                st.integers(min_value=0, max_value=2_000), st.sampled_from(["Ana", "Ben", "ß", ""]), max_size=6
            ),
            max_size=5,
        )
    )
    def test_a_layout_is_in_order_and_of_the_eligible_passages(
        self, ledger: SQLLedger, told: list[dict[int, str]]
    ) -> None:
        scope = fresh_scope()
        for number, turns in enumerate(told):
            said = [_turn(place, speaker=speaker) for place, speaker in turns.items()]
            _add(ledger, episode(f"e{number}", scope=scope), said)
        selection = Selection(scope=scope, kind=_EVERY.kind, now=NOW, every_passage=True)
        rows = _rows(ledger.layout(selection))
        assert sorted(row[0] for row in rows) == ledger.eligible(selection)
        assert [row[1:3] for row in rows] == sorted(row[1:3] for row in rows)
        named = [{place: name for _, its, place, name, *_ in rows if its == memory and place >= 0}
                 for memory in dict.fromkeys(row[1] for row in rows)]  # fmt: skip
        assert named == told
