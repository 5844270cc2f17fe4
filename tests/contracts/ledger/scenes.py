"""A ledger keeps scenes of stories, and how their characters stand."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.samples import (
    ALIKE,
    BELOW,
    BESIDE,
    NOW,
    SCOPE,
    add,
    episode,
    exploring,
    fact,
    fresh_scope,
    review,
    scene,
)
from contracts.strategies import characters
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.models import MemoryKey
from memory_retrievers.models.contents import StoredCharacter
from memory_retrievers.models.scenes import CharacterState, SceneDetails

AMULET = SceneDetails(sequence=7, witnesses=("Hero",), emotional_impact={"Hero": "wary"})


def _knowing(name: str, *ids: str) -> CharacterState:
    return CharacterState(name=name, known_events=ids)


class SceneContract:
    """Scenes, which are episodes, and characters."""

    def test_scenes_are_the_episodes_of_a_story_oldest_first(self, ledger: SQLLedger) -> None:
        told = [
            scene("later", created_at=NOW + timedelta(microseconds=1)),
            scene("b", details=AMULET),
            scene("a"),
            scene("elsewhere", scope="user/10"),
            scene("below", scope="user/1/work"),
        ]
        add(ledger, [*told, episode("no scene"), fact("f1")])
        assert ledger.scenes(SCOPE, now=NOW) == [told[2], told[1], told[0]]
        assert ledger.scenes("nobody", now=NOW) == []

    def test_a_scene_that_has_expired_is_none(self, ledger: SQLLedger) -> None:
        kept = scene("kept", expires_at=NOW + timedelta(microseconds=1))
        add(ledger, [scene("gone", expires_at=NOW), kept])
        assert ledger.scenes(SCOPE, now=NOW) == [kept]

    def test_what_makes_an_episode_a_scene_can_change(self, ledger: SQLLedger) -> None:
        add(ledger, [scene("e1"), scene("e2")])
        changed = scene("e1", details=AMULET)
        ledger.replace(changed)
        ledger.replace(episode("e2"))
        assert ledger.scenes(SCOPE, now=NOW) == [changed]

    @exploring
    @given(states=st.lists(characters(), max_size=3, unique_by=lambda state: state.name))
    def test_characters_come_back_as_they_were_put_in_that_order(
        self, ledger: SQLLedger, states: list[CharacterState]
    ) -> None:
        scope = fresh_scope()
        ledger.characters.put(scope, states)
        kept = ledger.characters.all(scope)
        assert kept == states

    def test_a_state_is_put_over_the_one_of_its_name_which_keeps_its_place(self, ledger: SQLLedger) -> None:
        ledger.characters.put(SCOPE, [_knowing("Zoe"), _knowing("Bob"), _knowing("zoe")])
        ledger.characters.put(SCOPE, [_knowing("Ada"), _knowing("Zoe", "e1")])
        assert ledger.characters.all(SCOPE) == [
            _knowing("Zoe", "e1"),
            _knowing("Bob"),
            _knowing("zoe"),
            _knowing("Ada"),
        ]

    def test_characters_of_another_scope_are_never_seen_or_changed(self, ledger: SQLLedger) -> None:
        for scope in ALIKE:
            add(ledger, [scene("e1", scope=scope), scene("e2", scope=scope)])
        own: dict[str, list[CharacterState]] = {scope: [] for scope in ALIKE}
        for number, scope in enumerate(ALIKE):
            own[scope] = [_knowing("Zoe", "e1", "e2").model_copy(update={"current_emotion": f"calm {number}"})]
            ledger.characters.put(scope, own[scope])
            assert {each: ledger.characters.all(each) for each in ALIKE} == own, f"{scope} was written"
        for scope in ALIKE:
            ledger.remove([MemoryKey(scope=scope, id="e1")])
            own[scope] = [zoe.model_copy(update={"known_events": ("e2",)}) for zoe in own[scope]]
            assert {each: ledger.characters.all(each) for each in ALIKE} == own, f"{scope} lost an event"

    def test_characters_are_kept_with_what_else_a_transaction_writes_or_not_at_all(self, ledger: SQLLedger) -> None:
        def put_and_fail() -> None:
            with ledger.database.write():
                add(ledger, [scene("e1")])
                ledger.characters.put(SCOPE, [_knowing("Zoe", "e1")])
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            put_and_fail()
        assert ledger.characters.all(SCOPE) == []

    def test_the_id_of_a_removed_memory_leaves_what_characters_know(self, ledger: SQLLedger) -> None:
        ids = ('e"1', "e1", "e2")
        add(ledger, [scene(its_id) for its_id in ids])
        ledger.characters.put(SCOPE, [_knowing("Zoe", *ids), _knowing("Bob", "e2"), _knowing("Ada")])
        ledger.remove([MemoryKey(scope=SCOPE, id='e"1')])
        ledger.remove([MemoryKey(scope=SCOPE, id="e2"), MemoryKey(scope=SCOPE, id="unknown")])
        assert ledger.characters.all(SCOPE) == [_knowing("Zoe", "e1"), _knowing("Bob"), _knowing("Ada")]

    def test_the_id_of_a_memory_that_moves_leaves_what_characters_know_where_it_was(self, ledger: SQLLedger) -> None:
        add(ledger, [scene("e1"), scene("e2"), scene("e3", scope="target")])
        ledger.characters.put(SCOPE, [_knowing("Zoe", "e1", "e2")])
        ledger.characters.put("target", [_knowing("Bob", "e3", "e1")])
        keys = [MemoryKey(scope=SCOPE, id="e1"), MemoryKey(scope="target", id="e3")]
        ledger.management.move(keys, target_scope="target")
        assert ledger.characters.all(SCOPE) == [_knowing("Zoe", "e2")]
        assert ledger.characters.all("target") == [_knowing("Bob", "e3", "e1")]
        assert [each.id for each in ledger.scenes("target", now=NOW)] == ["e1", "e3"]

    @pytest.mark.parametrize("change", ["remove", "move"])
    def test_characters_go_with_the_last_scene_of_their_scope(self, ledger: SQLLedger, change: str) -> None:
        add(ledger, [scene("e1"), fact("f1")])
        ledger.characters.put(SCOPE, [_knowing("Zoe", "e1")])
        ledger.remove([MemoryKey(scope=SCOPE, id="f1")])
        assert ledger.characters.all(SCOPE) == [_knowing("Zoe", "e1")]
        if change == "remove":
            ledger.remove([MemoryKey(scope=SCOPE, id="e1")])
        else:
            ledger.management.move([MemoryKey(scope=SCOPE, id="e1")], target_scope="elsewhere")
        assert ledger.characters.all(SCOPE) == ledger.characters.all("elsewhere") == []

    def test_the_characters_of_a_scope_go_with_it(self, ledger: SQLLedger) -> None:
        scopes = (SCOPE, *BELOW, *BESIDE)
        for scope in scopes:
            add(ledger, [scene("e1", scope=scope)])
            ledger.characters.put(scope, [_knowing("Zoe", "e1")])
        ledger.remove_scope(SCOPE, include_child_scopes=True)
        assert [scope for scope in scopes if ledger.characters.all(scope)] == list(BESIDE)
        ledger.remove_scope("user", include_child_scopes=False)
        assert [scope for scope in scopes if ledger.characters.all(scope)] == [
            each for each in BESIDE if each != "user"
        ]

    def test_contents_hold_the_characters_of_the_scopes_asked_for(self, ledger: SQLLedger) -> None:
        for scope in ("user/1/work", SCOPE, "user/10"):
            add(ledger, [scene("e1", scope=scope)])
            ledger.characters.put(scope, [_knowing("Zoe", "e1"), _knowing("Bob")])
        with ledger.contents(SCOPE) as contents:
            assert contents.counts["characters"] == 4
            assert list(contents.characters) == [
                StoredCharacter(scope=scope, state=state)
                for scope in (SCOPE, "user/1/work")
                for state in (_knowing("Zoe", "e1"), _knowing("Bob"))
            ]
        with ledger.contents() as contents:
            assert (contents.counts["characters"], len(list(contents.characters))) == (6, 6)

    def test_purging_keeps_characters_and_their_order(self, ledger: SQLLedger) -> None:
        add(ledger, [scene("e1")])
        ledger.add_pending_reviews([review()])
        names = ["Zoe", "Bob", "Ada"]
        ledger.characters.put(SCOPE, [_knowing(name) for name in names])
        ledger.purge()
        ledger.characters.put(SCOPE, [_knowing("Eve")])
        assert [state.name for state in ledger.characters.all(SCOPE)] == [*names, "Eve"]
