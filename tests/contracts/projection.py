"""What a projection of the ledger must do: repeat what it is told, filter by it, and notice when it is gone."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Final

import numpy as np
import pytest

from contracts.samples import ALIKE, NOW, SCOPE, episodes_in, facts_in
from memory_retrievers.backends.chroma.collection import ChromaProjection
from memory_retrievers.models import Category
from memory_retrievers.models.fields import microseconds
from memory_retrievers.models.selection import ProjectedPassage, Selection

_DIMENSION: Final = 8


def _passage(
    id: int,
    *,
    scope: str = SCOPE,
    kind: str = "semantic",
    category: str | None = "note",
    expires_at: int | None = None,
    text: str = "The user likes tea",
) -> ProjectedPassage:
    """A passage whose vector turns from the first axis to the second with its id."""
    vector = np.zeros(_DIMENSION, np.float32)
    vector[:2] = np.cos(id / 100), np.sin(id / 100)
    return ProjectedPassage(
        id=id,
        memory_id=f"m{id}",
        scope=scope,
        kind=kind,
        part=kind,
        origin="api",
        created_at=microseconds(NOW),
        category=category,
        tier="long_term",
        expires_at=expires_at,
        text=text,
        vector=vector,
    )


def _found(projection: ChromaProjection, selection: Selection | None = None, *, limit: int = 100) -> list[int]:
    return projection.search(np.eye(_DIMENSION, dtype=np.float32)[0], selection, limit=limit)


class VectorProjectionContract:
    """Everything a ``ChromaProjection`` promises; supply the fixture ``projection``, an empty one."""

    @pytest.fixture
    def filled(self, projection: ChromaProjection) -> ChromaProjection:
        projection.create("one")
        projection.put([_passage(id) for id in range(1, 51)])
        return projection

    def test_nothing_is_found_under_a_name_that_was_not_given(self, projection: ChromaProjection) -> None:
        assert not projection.open("one")

    def test_what_is_put_is_counted_and_found_nearest_first(self, filled: ChromaProjection) -> None:
        assert filled.count() == 50
        assert sorted(filled.ids()) == list(range(1, 51))
        assert _found(filled) == list(range(1, 51))
        assert _found(filled, facts_in(), limit=3) == [1, 2, 3]

    def test_putting_twice_or_removing_what_is_not_there_changes_nothing(self, filled: ChromaProjection) -> None:
        filled.put([_passage(7)])
        filled.remove([99])
        assert filled.count() == 50

    def test_what_is_removed_is_gone(self, filled: ChromaProjection) -> None:
        filled.remove([1, 3])
        assert filled.count() == 48
        assert _found(filled, limit=3) == [2, 4, 5]

    def test_empty_lists_are_nothing(self, filled: ChromaProjection) -> None:
        filled.put([])
        filled.remove([])
        assert filled.count() == 50

    def test_an_empty_projection_answers(self, projection: ChromaProjection) -> None:
        projection.create("one")
        assert projection.count() == 0
        assert projection.ids() == []
        assert _found(projection) == []

    def test_kind_category_and_expiry_are_filtered(self, projection: ChromaProjection) -> None:
        projection.create("one")
        projection.put(
            [
                _passage(1, kind="episodic", category=None),
                _passage(2, category="goal"),
                _passage(3, expires_at=microseconds(NOW - timedelta(seconds=2))),
                _passage(4, expires_at=microseconds(NOW + timedelta(seconds=2))),
                _passage(5),
            ]
        )
        assert _found(projection, episodes_in()) == [1]
        assert _found(projection, facts_in()) == [2, 4, 5]
        assert _found(projection, facts_in(category=Category.GOAL)) == [2]

    def test_messages_are_found_only_where_that_is_asked_for(self, projection: ChromaProjection) -> None:
        projection.create("one")
        whole, fact = _passage(1, kind="episodic", category=None), _passage(2)
        projection.put([whole, fact, dataclasses.replace(whole, id=3, part="turn 0")])
        assert _found(projection, episodes_in()) == [1]
        assert _found(projection, dataclasses.replace(episodes_in(), every_passage=True)) == [1, 3]
        assert _found(projection, dataclasses.replace(facts_in(), every_passage=True)) == [2]

    def test_scopes_are_told_apart(self, projection: ChromaProjection) -> None:
        projection.create("one")
        projection.put([_passage(number, scope=scope) for number, scope in enumerate(ALIKE)])
        assert {scope: _found(projection, facts_in(scope)) for scope in ALIKE} == {
            scope: [number] for number, scope in enumerate(ALIKE)
        }
        assert {scope: _found(projection, facts_in(scope, include_child_scopes=True)) for scope in ALIKE} == {
            scope: [number for number, each in enumerate(ALIKE) if f"{each}/".startswith(f"{scope}/")]
            for scope in ALIKE
        }

    def test_differences_are_told(self, filled: ChromaProjection) -> None:
        same, absent = _passage(1), _passage(60)
        assert filled.differences([same]) == []
        changed = [
            dataclasses.replace(same, text="coffee"),
            dataclasses.replace(same, tier="short_term"),
            dataclasses.replace(same, scope="user/2"),
            dataclasses.replace(same, vector=_passage(300).vector),
            absent,
        ]
        for passage in changed:
            (difference,) = filled.differences([passage])
            assert f"passage {passage.id} " in difference
            assert "tea" not in difference

    def test_a_second_generation_knows_nothing_of_the_first(self, filled: ChromaProjection) -> None:
        filled.destroy("one")
        assert not filled.open("one")
        filled.create("two")
        assert filled.count() == 0
        filled.put([_passage(1)])
        assert _found(filled) == [1]

    def test_what_is_closed_can_be_made_anew(self, filled: ChromaProjection) -> None:
        filled.close()
        filled.close()
        filled.destroy("one")
        filled.create("two")
        assert filled.count() == 0
