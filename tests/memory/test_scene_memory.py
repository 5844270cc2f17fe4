"""A story in a memory: events go in, episodes, characters and the scene block come out; nothing leaves its scope."""

import json
import re
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from memory_retrievers import (
    AgentMemory,
    BackendError,
    CharacterState,
    ConfigurationError,
    EpisodicMemory,
    IngestionSettings,
    NotFoundError,
    SceneDetails,
    SceneEvent,
    SceneSettings,
    SemanticMemory,
    ValidationError,
)
from memory_retrievers.backends.sqlite.schema import MIGRATIONS
from memory_retrievers.models.scenes import EmotionShift, MessageSpan
from memory_retrievers.storage.open import STORE_FILE
from memory_retrievers.testing import FixedClock, HashEmbedder, ScriptedLanguageModel, inside

AMULET = SceneEvent(
    id="amulet", summary="Goblin stole the amulet.", importance=5, message_ids=[3], witnesses=["Hero", "Goblin"],
    emotional_impact={"Hero": "angry"}, location="the village", event_type="action",
)  # fmt: skip
TRACKS = SceneEvent(
    id="tracks", summary="Hero tracked the goblin into the forest.", importance=2, message_ids=[8, 9],
    characters_involved=["Hero"], emotional_impact={"Hero": "determined"},
)  # fmt: skip
STORY = [AMULET, TRACKS]


def in_memory(clock, **given):
    return AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, **given)


@pytest.fixture
def told(memory):
    memory.add_scene_events("story", STORY)
    return memory


def test_events_are_stored_as_complete_episodes_in_the_order_given(memory, clock):
    amulet, tracks = memory.add_scene_events("story", STORY)
    assert isinstance(amulet, EpisodicMemory)
    assert (amulet.id, amulet.summary, amulet.surprise, amulet.importance) == ("amulet", AMULET.summary, 1.0, 1.0)
    assert amulet.created_at == amulet.consolidated_at == clock.now()
    assert tracks.scene == SceneDetails(
        importance=2, message_ids=(8, 9), sequence=8001, witnesses=("Hero",), characters_involved=("Hero",),
        emotional_impact={"Hero": "determined"},
    )  # fmt: skip
    assert memory.get("tracks", scope="story") == tracks
    assert memory.get("amulet", scope="story") == amulet


def test_characters_stand_as_the_story_has_left_them(told):
    assert told.characters("story") == [
        CharacterState(
            name="Hero",
            current_emotion="determined",
            known_events=("amulet", "tracks"),
            emotion_from_messages=MessageSpan(min=8, max=9),
            shifts=(EmotionShift(emotion="angry", message_id=3), EmotionShift(emotion="determined", message_id=8)),
        ),
        CharacterState(name="Goblin", known_events=("amulet",)),
    ]
    told.add_scene_events("story", [SceneEvent(summary="Elder saw the Hero leave.", witnesses=["Elder"])])
    assert [state.name for state in told.characters("story")] == ["Hero", "Goblin", "Elder"]


def test_an_event_is_found_as_any_episode_is(told):
    found = told.retrieve("who stole the amulet?", scope="story", record=False)
    assert found.episodic[0].memory.id == "amulet"
    assert [memory.id for memory in told.list("story").memories] == ["amulet", "tracks"]
    assert told.stats("story").episodes == 2


def test_an_event_of_five_stars_fades_and_is_reviewed_like_others(clock):
    with in_memory(clock, ingestion=IngestionSettings(keep_flashbulbs=True)) as memory:
        (amulet,) = memory.add_scene_events("story", [AMULET])
        assert not amulet.is_flashbulb
        clock.advance(days=30)
        (hit,) = memory.retrieve("amulet", scope="story").episodic
        assert hit.explanation.retrievability < 1
        reviewed = memory.review("amulet", scope="story", rating="good")
        assert reviewed.stability > amulet.stability
        assert reviewed.scene == amulet.scene


def test_no_fact_is_ever_made_of_a_story(clock):
    model = ScriptedLanguageModel([])  # it would fail if it were asked
    with in_memory(clock, language_model=model, ingestion=IngestionSettings(consolidate_from=1)) as memory:
        memory.add_scene_events("story", [AMULET, TRACKS, AMULET.model_copy(update={"id": None})])
        memory.remember_many([EpisodicMemory.new(scope="story", summary="The camp burned.", scene=SceneDetails())])
        memory.process_due()
        memory.process_due("story")
        assert memory.stats("story").facts == 0
        assert inside(memory).ledger.unconsolidated_scopes(least=1, surprise=0.0) == []


def test_a_scene_that_is_remembered_as_a_draft_is_completed_too(memory):
    details = SceneDetails(message_ids=[4], characters_involved=["Zoe"])
    (stored,) = memory.remember_many([EpisodicMemory.new(scope="story", summary="Zoe left.", scene=details)])
    assert (stored.scene.sequence, stored.scene.witnesses) == (4000, ("Zoe",))
    assert "Zoe left." in memory.scene("story", chat_length=9)


def test_a_changed_summary_leaves_the_scene_as_it_is(told):
    before = told.get("amulet", scope="story")
    after = told.update("amulet", scope="story", summary="Goblin took the amulet.")
    assert after.scene == before.scene
    assert "Goblin took the amulet." in told.scene("story", chat_length=9)


def test_events_are_stored_whole_or_not_at_all(told):
    before = told.characters("story")
    for events, problem in [
        ([SceneEvent(summary="Bob came.", witnesses=["Bob"]), AMULET], "already taken"),
        ([SceneEvent(summary="Bob came.", witnesses=["Bob" * 400])], "name"),
    ]:
        with pytest.raises(ValidationError, match=problem):
            told.add_scene_events("story", events)
    assert told.characters("story") == before
    assert told.stats("story").episodes == 2
    assert told.retrieve("Bob came", scope="story", record=False).episodic[0].memory.id in {"amulet", "tracks"}
    with pytest.raises(ValidationError, match="scope"):
        told.add_scene_events("a//b", STORY)


def test_no_events_change_nothing(memory):
    assert memory.add_scene_events("story", []) == []
    assert memory.characters("story") == []
    assert memory.scopes() == []


def test_what_is_held_back_does_not_reach_the_characters(clock):
    def before_store(draft):
        if "amulet" in draft.summary:
            return None
        return draft.model_copy(update={"scene": draft.scene.model_copy(update={"witnesses": ("X",)})})

    with in_memory(clock, before_store=before_store) as memory:
        (stored,) = memory.add_scene_events("story", STORY)
        assert stored.id == "tracks"
        assert {state.name: state.known_events for state in memory.characters("story")} == {
            "Hero": (),
            "X": ("tracks",),
        }
        assert memory.characters("story")[0].shifts == (EmotionShift(emotion="determined", message_id=8),)


def test_a_forgotten_event_is_known_to_nobody_any_more(told):
    told.forget("amulet", scope="story")
    assert [(state.name, state.known_events) for state in told.characters("story")] == [("Hero", ("tracks",))]
    assert "amulet" not in told.scene("story", chat_length=10)
    told.forget("tracks", scope="story")
    assert told.characters("story") == []
    assert told.scopes() == []


def test_what_a_forgotten_event_made_characters_feel_and_who_was_only_in_it_are_gone(told):
    told.forget("tracks", scope="story")
    hero, goblin = told.characters("story")
    assert (hero.current_emotion, hero.known_events, goblin.name) == ("angry", ("amulet",), "Goblin")
    assert hero.emotion_from_messages == MessageSpan(min=3, max=3)
    assert hero.shifts == (EmotionShift(emotion="angry", message_id=3),)


def test_characters_that_a_forgotten_event_does_not_name_stay_as_they_were_set(told):
    by_hand = CharacterState(name="Elder", current_emotion="proud", emotion_intensity=9, known_events=("tracks",))
    inside(told).ledger.characters.put("story", [by_hand])
    note = told.remember_fact(fact="They like rain.", scope="story")
    (talk,) = told.remember_many([EpisodicMemory.new(scope="story", summary="They met.")])
    before = told.characters("story")
    told.forget(note.id, scope="story")
    told.forget(talk.id, scope="story")
    assert told.characters("story") == before
    told.forget("amulet", scope="story")
    assert told.characters("story")[1:] == [by_hand]


def test_a_scene_that_was_never_told_makes_up_no_character(told):
    seen = SceneDetails(witnesses=["Elder", "Goblin"], emotional_impact={"Elder": "proud"})
    told.remember_many([EpisodicMemory.new(scope="story", id="seen", summary="Elder came.", scene=seen)])
    told.remember_many([EpisodicMemory.new(scope="story", id="more", summary="Elder left.", scene=seen)])
    told.forget("amulet", scope="story")
    told.forget("more", scope="story")
    assert [state.name for state in told.characters("story")] == ["Hero", "Goblin"]
    told.manager.move([told.get("seen", scope="story")], target_scope="other")
    assert [state.name for state in told.characters("other")] == ["Goblin"]


def test_an_expired_event_takes_what_it_made_characters_feel_along(told, clock):
    told.update("tracks", scope="story", expires_at=clock.now() + timedelta(days=1))
    clock.advance(days=2)
    told.purge()
    assert [(state.current_emotion, state.known_events) for state in told.characters("story")] == [
        ("angry", ("amulet",)),
        ("neutral", ("amulet",)),
    ]


def test_damage_to_an_event_stops_no_other_from_being_forgotten(told):
    told.add_scene_events("story", [SceneEvent(id="well", summary="Hero fell.", emotional_impact={"Hero": "sore"})])
    with inside(told).ledger.database.write() as connection:
        connection.execute("UPDATE memories SET scene = '{' WHERE id = 'tracks'")
    told.forget("well", scope="story")
    assert [(state.name, state.current_emotion) for state in told.characters("story")] == [
        ("Hero", "angry"),
        ("Goblin", "neutral"),
    ]
    told.forget("tracks", scope="story")
    assert told.characters("story")[0].known_events == ("amulet",)


@pytest.mark.parametrize("message_ids", ["[-1]", '["a"]', "null", "3"])
def test_a_character_of_a_damaged_event_stays_as_it_is_and_the_rest_is_forgotten(told, clock, message_ids):
    with inside(told).ledger.database.write() as connection:
        (scene,) = connection.execute("SELECT scene FROM memories WHERE id = 'amulet'").fetchone()
        damaged = json.dumps(json.loads(scene) | {"message_ids": json.loads(message_ids)})
        connection.execute("UPDATE memories SET scene = ? WHERE id = 'amulet'", (damaged,))
    note = told.remember_fact(fact="They like rain.", scope="other")
    for id, scope in (("tracks", "story"), (note.id, "other")):
        told.update(id, scope=scope, expires_at=clock.now() + timedelta(days=1))
    clock.advance(days=2)
    told.purge()
    assert told.list("other").memories == ()
    hero = told.characters("story")[0]
    assert (hero.name, hero.known_events) == ("Hero", ("amulet",))


def test_an_event_that_is_replaced_takes_what_it_made_characters_feel_along(told):
    again = EpisodicMemory.new(scope="story", id="tracks", summary="Rain fell.")
    told.remember_many([again], replace=True)
    hero = told.characters("story")[0]
    assert (hero.current_emotion, [each.emotion for each in hero.shifts]) == ("angry", ["angry"])


def test_two_characters_of_one_name_become_one_when_they_are_made_anew(told):
    inside(told).ledger.characters.put("story", [CharacterState(name="hero", current_emotion="sad")])
    told.forget("tracks", scope="story")
    named = [(state.name, state.current_emotion) for state in told.characters("story")]
    assert named == [("Hero", "angry"), ("Goblin", "neutral")]


def test_an_event_that_made_nobody_feel_anything_changes_no_feelings_when_it_goes_or_is_moved(told):
    told.add_scene_events("story", [SceneEvent(id="walk", summary="Hero walked.", witnesses=["Hero", "Elder"])])
    by_hand = CharacterState(name="Hero", current_emotion="proud", emotion_intensity=9, known_events=("walk",))
    inside(told).ledger.characters.put("story", [by_hand])
    told.manager.move([told.get("walk", scope="story")], target_scope="other")
    assert [state.name for state in told.characters("story")] == ["Hero", "Goblin"]
    assert [(state.name, state.known_events) for state in told.characters("other")] == [
        ("Hero", ("walk",)),
        ("Elder", ("walk",)),
    ]
    told.manager.move([told.get("walk", scope="other")], target_scope="story")
    assert told.characters("story")[0] == by_hand
    told.forget("walk", scope="story")
    assert told.characters("story")[0] == by_hand.model_copy(update={"known_events": ()})
    assert "Elder" not in {state.name for state in told.characters("story")}


def test_after_an_import_feelings_follow_each_other_as_they_did(memory, tmp_path, clock):
    felt = {"tea": "calm", "duel": "afraid", "bells": "relieved"}  # in another order than that of their ids
    events = [SceneEvent(id=id, summary=f"{id}.", emotional_impact={"Elder": emotion}) for id, emotion in felt.items()]
    memory.add_scene_events("story", events)
    memory.export(tmp_path / "story.jsonl")
    with AgentMemory.import_(
        tmp_path / "story.jsonl", into=tmp_path / "copy", embedder=HashEmbedder(), clock=clock
    ) as other:
        for each in (memory, other):
            each.forget("duel", scope="story")
        assert other.characters("story") == memory.characters("story")
        assert other.characters("story")[0].current_emotion == "relieved"


def test_what_is_forgotten_in_a_transaction_that_fails_is_still_felt(told):
    before = told.characters("story")

    def forget_and_fail():
        with told.manager.transaction():
            told.manager.delete([told.get("tracks", scope="story")])
            assert told.characters("story") != before
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        forget_and_fail()
    assert told.characters("story") == before


def test_a_moved_event_is_felt_and_known_where_it_is_and_no_longer_where_it_was(told):
    before = told.characters("story")
    told.manager.move([told.get("tracks", scope="story")], target_scope="other")
    assert [state.current_emotion for state in told.characters("story")] == ["angry", "neutral"]
    assert [(state.current_emotion, state.known_events) for state in told.characters("other")] == [
        ("determined", ("tracks",))
    ]
    assert "tracked" in told.scene("other", chat_length=10)
    assert "tracked" not in told.scene("story", chat_length=10)
    told.manager.move([told.get("tracks", scope="other")], target_scope="story")
    assert told.characters("story") == before
    assert told.characters("other") == []


def test_a_moved_story_takes_its_characters_along(told):
    before = told.characters("story")
    told.manager.move(told.list("story").memories, target_scope="other")
    assert (told.characters("story"), told.characters("other")) == ([], before)


def test_a_story_of_an_older_export_is_felt_in_the_order_in_which_it_became_known(told):
    moods = {"e10": "sad", "e11": "wary", "e12": "glad", "e9": "calm"}  # such files have the order of the ids
    hero = [SceneEvent(id=id, summary=f"Hero felt {mood}.", emotional_impact={"Hero": mood}, witnesses=["Hero"])
            for id, mood in moods.items()]  # fmt: skip
    told.add_scene_events("other", hero)
    known = ("e9", "e10", "e11", "e12")
    inside(told).ledger.characters.put("other", [CharacterState(name="Hero", known_events=known)])
    told.forget("e10", scope="other")
    (state,) = told.characters("other")
    assert [each.emotion for each in state.shifts] == ["calm", "wary", "glad"]
    assert (state.current_emotion, state.known_events) == ("glad", ("e9", "e11", "e12"))


def test_a_forgotten_scope_takes_its_characters_along(told):
    told.add_scene_events("story/below", [AMULET])
    told.add_scene_events("story2", [AMULET])
    assert told.forget_scope("story") == 3
    assert told.characters("story") == told.characters("story/below") == []
    assert [state.name for state in told.characters("story2")] == ["Hero", "Goblin"]


def test_a_purged_directory_holds_no_byte_of_a_forgotten_story(tmp_path, clock):
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), clock=clock) as memory:
        secret = SceneEvent(
            summary="Xyzzy hid.", witnesses=["Xyzzy"], location="Xyzzy", emotional_impact={"Xyzzy": "sly"}
        )
        memory.add_scene_events("xyzzy", [secret])
        memory.add_scene_events("story", STORY)
        felt = memory.add_scene_events("story", [secret.model_copy(update={"emotional_impact": {"Hero": "xyzzy"}})])
        memory.forget_scope("xyzzy")
        memory.forget(felt[0].id, scope="story")
        memory.purge()
        assert [state.name for state in memory.characters("story")] == ["Hero", "Goblin"]
        memory.export(tmp_path / "all.jsonl")
        assert "yzzy" not in (tmp_path / "all.jsonl").read_text("utf-8") + memory.scene("story", chat_length=9)
    assert not [file for file in (tmp_path / "store").rglob("*") if file.is_file() and b"yzzy" in file.read_bytes()]


@pytest.mark.embedded("PostgreSQL is backed up by its own tools")
def test_a_story_is_there_again_after_closing_and_in_a_backup(tmp_path, clock):
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), clock=clock) as memory:
        memory.add_scene_events("story", STORY)
        block, characters = memory.scene("story", chat_length=20), memory.characters("story")
        memory.backup(tmp_path / "copy")
    for directory in ("store", "copy"):
        with AgentMemory.open(tmp_path / directory, embedder=HashEmbedder(), clock=clock, read_only=True) as memory:
            assert memory.scene("story", chat_length=20, query="the amulet") == block
            assert memory.characters("story") == characters
            with pytest.raises(ConfigurationError, match="read-only"):
                memory.add_scene_events("story", STORY)


def test_a_story_travels_with_an_export_and_nothing_of_another_scope_does(told, tmp_path, clock):
    told.add_scene_events("story/below", [AMULET])
    told.add_scene_events("elsewhere", [SceneEvent(summary="Xyzzy hid.", witnesses=["Xyzzy"])])
    told.export(tmp_path / "all.jsonl")
    told.export(tmp_path / "story.jsonl", scope="story")
    assert "yzzy" not in (tmp_path / "story.jsonl").read_text("utf-8")
    with AgentMemory.import_(
        tmp_path / "all.jsonl", into=tmp_path / "copy", embedder=HashEmbedder(), clock=clock
    ) as copy:
        for scope in told.scopes():
            assert copy.characters(scope) == told.characters(scope)
            assert copy.scene(scope, chat_length=20) == told.scene(scope, chat_length=20)
            assert inside(copy).ledger.scenes(scope, now=clock.now()) == inside(told).ledger.scenes(
                scope, now=clock.now()
            )
        copy.export(tmp_path / "again.jsonl")
        assert copy.verify().ok
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "all.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("written", "instead", "problem"),
    [
        ('"emotion_intensity":5', '"emotion_intensity":11', "line 7: emotion_intensity"),
        ('"type":"character","scope":"story"', '"type":"character","scope":""', "line 6: scope must not be empty"),
        ('"characters":2', '"characters":3', "it is not complete"),
        ('"event_type":"action"', '"event_type":"mood"', "line 2: scene.event_type"),
    ],
)
def test_a_bad_line_about_a_story_is_named_and_nothing_is_made(told, tmp_path, written, instead, problem):
    told.export(tmp_path / "export.jsonl")
    content = (tmp_path / "export.jsonl").read_text("utf-8").partition('{"type":"checksum"')[0]
    assert written in content
    before, _, after = content.rpartition(written) if "intensity" in written else content.partition(written)
    (tmp_path / "export.jsonl").write_text(before + instead + after, "utf-8")
    with pytest.raises(ValidationError, match=problem):
        AgentMemory.import_(tmp_path / "export.jsonl", into=tmp_path / "copy", embedder=HashEmbedder())
    assert not (tmp_path / "copy").exists()


def test_verify_names_a_scene_and_a_character_that_are_damaged(told, tmp_path):
    with inside(told).ledger.database.write() as connection:
        connection.execute("UPDATE memories SET scene = '{}' WHERE id = 'amulet'")
        connection.execute("UPDATE characters SET state = '[' WHERE name = 'Goblin'")
    amulet, goblin = told.verify().problems
    assert "memory 'amulet' in scope 'story' cannot be read" in amulet
    assert goblin == "character 'Goblin' in scope 'story' is damaged and cannot be read"
    with pytest.raises(BackendError, match="'Goblin' in scope 'story' is damaged"):
        told.characters("story")
    told.forget("amulet", scope="story")
    with pytest.raises(BackendError, match="'Goblin' in scope 'story' is damaged"):
        told.export(tmp_path / "export.jsonl")
    assert not (tmp_path / "export.jsonl").exists()


@pytest.mark.embedded("it changes the tables in SQLite's own words")
def test_a_store_of_the_schema_before_learns_to_tell_stories(tmp_path, clock):
    (tmp_path / "store").mkdir()
    before = next(number for number, each in enumerate(MIGRATIONS) if any("TABLE characters" in sql for sql in each))
    old = sqlite3.connect(tmp_path / "store" / STORE_FILE, isolation_level=None)
    for statement in (statement for migration in MIGRATIONS[:before] for statement in migration):
        old.execute(statement)
    old.execute(f"PRAGMA user_version = {before}")
    with in_memory(clock) as memory:
        memory.remember_episode(scope="story", id="e1", summary="They met.", surprise=0.9)
        with inside(memory).ledger.database.read() as source:
            for table in ("notes", "scopes", "memories", "passages", "passage_contents"):
                columns = ", ".join(row[1] for row in old.execute(f"PRAGMA table_info({table})"))
                old.execute(f"DELETE FROM {table}")
                for row in source.execute(f"SELECT {columns} FROM {table}").fetchall():
                    old.execute(f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(row))})", row)
        kept = memory.get("e1", scope="story")
    old.close()
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), clock=clock) as memory:
        assert memory.get("e1", scope="story") == kept
        assert kept.scene is None
        memory.add_scene_events("story", STORY)
        assert [state.name for state in memory.characters("story")] == ["Hero", "Goblin"]
        assert "They met." not in memory.scene("story", chat_length=20)


def test_the_block_tells_of_events_who_is_there_and_what_they_feel(told):
    assert told.scene("story", chat_length=20, present=["Hero", "Goblin"], pov=["hero"]) == (
        "<scene_memory>\n(#20 messages)\n\n## Current Scene\nPresent: Goblin\nEmotions: Hero determined\n\n"
        "[★★★★★] Goblin stole the amulet.\n[★★] Hero tracked the goblin into the forest.\n\n</scene_memory>"
    )


def test_a_scope_without_a_story_has_a_frame(memory):
    memory.remember_episode(scope="story", summary="They met.")
    assert memory.scene("story", chat_length=50) == "<scene_memory>\n(#50 messages)\n\n</scene_memory>"


def test_from_a_point_of_view_only_what_is_known_there_is_told(told):
    block = told.scene("story", chat_length=20, pov=["Goblin"])
    assert "amulet" in block
    assert "tracked" not in block
    assert told.scene("story", chat_length=20, pov=["Nobody"]).count("★]") == 2


def test_a_feeling_from_a_secret_is_not_told_to_who_has_not_seen_it(told):
    secret = {"is_secret": True, "witnesses": ["Hero"], "emotional_impact": {"Hero": "guilty", "Goblin": "doomed"}}
    told.add_scene_events("story", [SceneEvent(summary="Hero poisoned the well.", message_ids=[12], **secret)])
    for shown in (SceneSettings(), SceneSettings(trajectories=True), SceneSettings(emotional_state=True)):
        block = told.scene("story", chat_length=20, pov=["Goblin"], settings=shown)
        assert "Hero angry" in block or "Hero: angry" in block
        assert not {"guilty", "doomed", "determined", "poisoned"} & set(re.findall(r"\w+", block))
    assert "Emotions:" not in told.scene("story", chat_length=20, pov=["Nobody"])
    assert "Emotions: Hero guilty, Goblin doomed" in told.scene("story", chat_length=20, pov=["Hero"])


NAMES = st.sampled_from(["Anna", "Bob", "Cleo"])
FEELINGS = st.dictionaries(NAMES, st.sampled_from(["calm", "afraid", "proud", "neutral"]), max_size=3)
EVENTS = st.fixed_dictionaries(
    {
        "importance": st.integers(1, 5),
        "message_ids": st.lists(st.integers(0, 90), max_size=2),
        "sequence": st.integers(0, 90_000),
        "is_secret": st.booleans(),
        "witnesses": st.lists(NAMES, max_size=2),
        "characters_involved": st.lists(NAMES, max_size=2),
        "emotional_impact": FEELINGS,
    }
)


@settings(max_examples=50, deadline=None)
@given(
    batches=st.lists(st.lists(EVENTS, min_size=1, max_size=3), min_size=1, max_size=3),
    pov=st.sets(NAMES, min_size=1, max_size=2),
    trajectories=st.booleans(),
)
def test_what_is_told_from_a_point_of_view_is_the_same_without_all_that_is_not_known_there(batches, pov, trajectories):
    shown = SceneSettings(trajectories=trajectories, emotional_state=True)
    clock = FixedClock(datetime(2026, 3, 1, tzinfo=UTC))
    with in_memory(clock) as whole, in_memory(clock) as known:
        for number, batch in enumerate(batches):
            clock.advance(hours=1)
            events = [
                SceneEvent(id=f"e{number}-{place}", summary=f"Event {number}-{place}.", **told)
                for place, told in enumerate(batch)
            ]
            whole.add_scene_events("story", events)
            known.add_scene_events("story", [event for event in events if _knows(pov, event)])
        assume(known.stats("story").episodes)
        blocks = [each.scene("story", chat_length=100, pov=sorted(pov), settings=shown) for each in (whole, known)]
        assert blocks[0] == blocks[1]


def _knows(pov, event):
    witnesses = event.witnesses or event.characters_involved
    return bool(pov & set(witnesses)) or (not event.is_secret and bool(pov & set(event.characters_involved)))


@settings(max_examples=50, deadline=None)
@given(
    told=st.lists(EVENTS, min_size=1, max_size=8), gone=st.lists(st.integers(0, 7), max_size=6), cut=st.integers(0, 8)
)
def test_after_events_are_forgotten_characters_are_as_if_these_had_never_been_told(told, gone, cut):
    events = [SceneEvent(id=f"e{n}", summary=f"Event {n}.", **{**each, "sequence": 7 - n})
              for n, each in enumerate(told)]  # fmt: skip
    clock = FixedClock(datetime(2026, 3, 1, tzinfo=UTC))
    with in_memory(clock) as whole, in_memory(clock) as kept:
        for batch in (events[:cut], events[cut:]):
            whole.add_scene_events("story", batch)
            kept.add_scene_events("story", [each for n, each in enumerate(events) if each in batch and n not in gone])
            clock.advance(hours=-1)
        for n in dict.fromkeys(gone):
            if n < len(events):
                whole.forget(f"e{n}", scope="story")
        states = [sorted(each.characters("story"), key=lambda state: state.name) for each in (whole, kept)]
        assert states[0] == states[1]


def test_settings_say_what_is_shown(told):
    block = told.scene("story", chat_length=20, settings=SceneSettings(trajectories=True))
    assert "- Hero: angry → determined" in block
    assert "Emotions:" not in block


def test_without_a_question_the_newest_events_are_told_if_not_all_fit(clock, keyword, dense):
    with in_memory(clock, keyword=keyword, dense=dense) as memory:
        events = [SceneEvent(summary=f"Nothing of note on day {n}.", message_ids=[n]) for n in range(1, 40)]
        events[4] = SceneEvent(id="key", summary="Zoe buried a silver key.", message_ids=[5])
        memory.add_scene_events("story", events)
        memory.add_scene_events("other", [SceneEvent(summary="Zoe buried a silver key of Xyzzy.", message_ids=[5])])
        memory.remember_episode(scope="story", summary="Where is the silver key? Nobody knows.")
        blocks = {query: memory.scene("story", chat_length=40, budget=60, query=query) for query in
                  (None, " ", "where is the silver key?")}  # fmt: skip
        assert blocks[None] == blocks[" "]
        assert "day 39" in blocks[None]
        assert "silver" not in blocks[None]
        asked = blocks["where is the silver key?"]
        assert "Zoe buried a silver key." in asked
        assert "Nobody knows" not in asked
        assert "yzzy" not in asked


def test_the_question_is_embedded_once(clock):
    class Watched(HashEmbedder):
        queries = 0

        def embed_query(self, text):
            self.queries += 1
            return super().embed_query(text)

    embedder = Watched()
    with AgentMemory.in_memory(embedder=embedder, clock=clock) as memory:
        memory.add_scene_events("story", STORY)
        memory.scene("story", chat_length=20, query="the camp")
        already = embedder.queries
        memory.scene("story", chat_length=20, query="the amulet")
        assert embedder.queries == already + 1
        memory.scene("story", chat_length=20)
        assert embedder.queries == already + 1


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"chat_length": -1}, "chat_length must be 0 or more"),
        ({"chat_length": 2.5}, "chat_length must be an integer"),
        ({"budget": -1}, "budget must be 0 or more"),
        ({"present": "Hero"}, "present must be a list of names"),
        ({"pov": [1]}, "pov must be a list of names"),
        ({"query": 5}, "query must be a string, not int"),
        ({"settings": {"no_such": 5}}, "no_such: Extra inputs"),
    ],
)
def test_an_argument_that_breaks_a_rule_is_named(told, given, problem):
    with pytest.raises(ValidationError, match=problem):
        told.scene("story", **{"chat_length": 20, **given})
    with pytest.raises(ValidationError, match="scope"):
        told.scene("", chat_length=20)
    with pytest.raises(ValidationError, match="scope"):
        told.characters("")


def test_an_event_may_be_a_mapping_and_what_is_none_is_named(memory):
    (wolf,) = memory.add_scene_events("story", [{"summary": "Wolf howled.", "message_ids": [4], "importance": 5}])
    assert (wolf.summary, wolf.surprise, wolf.scene.message_ids) == ("Wolf howled.", 1, (4,))
    for events, problem in (
        ([{"summary": " "}], r"events\.0\.summary"),
        (["Wolf howled."], r"events\.0"),
        ("W", "events"),
    ):
        with pytest.raises(ValidationError, match=problem):
            memory.add_scene_events("story", events)
    assert memory.stats("story").episodes == 1


LOOKALIKES = ["user/10", "user/1/work", "User/1", "user", "user/%", "user/_", "user/1 0"]


@pytest.mark.parametrize("other", LOOKALIKES)
@pytest.mark.parametrize("query", [None, "who hid where?"])
def test_nothing_of_another_scope_is_ever_told(clock, other, query):
    with in_memory(clock) as memory:
        memory.add_scene_events("user/1", STORY)
        before = memory.scene("user/1", chat_length=20, query=query), memory.characters("user/1")
        alike = [each.model_copy(update={"summary": f"Xyzzy {each.summary}", "location": "Xyzzy"}) for each in STORY]
        new = SceneEvent(
            id="xyzzy", summary="Xyzzy hid.", witnesses=["Xyzzy", "Hero"], emotional_impact={"Hero": "sly"}
        )
        memory.add_scene_events(other, [*alike, new])
        assert (memory.scene("user/1", chat_length=20, query=query), memory.characters("user/1")) == before
        assert "yzzy" in memory.scene(other, chat_length=20, query=query)
        with pytest.raises(NotFoundError):
            memory.get("xyzzy", scope="user/1")
        memory.forget("amulet", scope=other)
        memory.forget_scope(other, include_child_scopes=False)
        assert (memory.scene("user/1", chat_length=20, query=query), memory.characters("user/1")) == before


def test_events_told_by_several_threads_all_reach_the_characters(tmp_path, clock):
    from contracts.samples import at_once

    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), clock=clock) as memory:
        at_once(lambda n: memory.add_scene_events("story", [SceneEvent(id=f"e{n}", summary=f"{n}", witnesses=["Zoe"])]))
        (zoe,) = memory.characters("story")
        assert set(zoe.known_events) == {f"e{n}" for n in range(8)}


def test_a_fact_beside_a_story_changes_nothing_in_it(told):
    before = told.scene("story", chat_length=20)
    told.remember_many([SemanticMemory.new(scope="story", fact="The user plays the Hero.")])
    assert told.scene("story", chat_length=20) == before
