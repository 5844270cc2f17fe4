"""The tool that tells the scene a story is in."""

import json
from dataclasses import replace

import pytest

from memory_retrievers import AgentMemory, SceneEvent
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.text.analysis import estimate_scene_tokens
from memory_retrievers.tools.registry import LocalToolbox, offered_tools
from memory_retrievers.tools.tool import ToolContext

ROOT = "user/alice"


def event(id, summary, number, *names, **details):
    return SceneEvent(id=id, summary=summary, message_ids=[number], characters_involved=names, **details)


@pytest.fixture
def story(small):
    """A story in the root, another below it, and one of somebody else."""
    small.add_scene_events(
        ROOT,
        [
            event("sword", "Hero bought a sword from Marcus", 10, "Hero", "Marcus", emotional_impact={"Hero": "proud"}),
            event("theft", "Goblin stole the amulet", 700, "Goblin", is_secret=True, importance=5),
            event("camp", "Hero found the camp of the goblins", 990, "Hero", emotional_impact={"Hero": "afraid"}),
        ],
    )
    small.add_scene_events(f"{ROOT}/second", [event("ship", "Ada boarded the ship", 3, "Ada")])
    small.add_scene_events("user/bob", [event("race", "A zebra won the race", 3, "Zebra")])
    return small


@pytest.fixture
def context(story):
    return ToolContext(memory=story, root=ROOT)


@pytest.fixture
def call(context):
    return lambda **arguments: LocalToolbox(context).call("scene", {"chat_length": 1000} | arguments)


def test_it_answers_with_the_block_of_the_memory(call, story):
    block = story.scene(ROOT, chat_length=1000, present=["Marcus"], query="swords")
    output = call(present=["Marcus"], query="swords")
    assert output.artifact == {"success": True, "token_count": estimate_scene_tokens(block), "scene": block}
    assert json.loads(output.content) == output.artifact
    assert "## The Story So Far\n[★★★] Hero bought a sword from Marcus\n" in block
    assert "## Leading Up To This Moment\n[★★★★★] Goblin stole the amulet\n" in block
    assert "Present: Marcus\nEmotions: Hero afraid\n" in block


def test_the_minimal_level_tells_what_it_would_cost_and_the_full_one_how_the_characters_are(call, story):
    standard, full = call().artifact, call(response_level="full").artifact
    assert call(response_level="minimal").artifact == {"success": True, "token_count": standard["token_count"]}
    assert {key: value for key, value in full.items() if key != "characters"} == standard
    assert [each["name"] for each in full["characters"]] == ["Hero", "Marcus", "Goblin"]
    assert full["characters"][0] == {
        "name": "Hero",
        "current_emotion": "afraid",
        "emotion_intensity": 5,
        "known_events": ["sword", "camp"],
        "emotion_from_messages": {"min": 990, "max": 990},
        "shifts": [{"emotion": "proud", "message_id": 10}, {"emotion": "afraid", "message_id": 990}],
    }
    assert full["characters"] == [state.model_dump(mode="json", exclude_none=True) for state in story.characters(ROOT)]


def test_from_a_point_of_view_the_full_level_tells_of_the_characters_what_is_known_there(call):
    characters = call(response_level="full", pov=["marcus"]).artifact["characters"]
    assert [(each["name"], each["current_emotion"], each["known_events"]) for each in characters] == [
        ("Hero", "proud", ["sword"]),
        ("Marcus", "neutral", ["sword"]),
    ]
    assert call(response_level="full", pov=["nobody"]).artifact["characters"] == []


def test_whoever_tells_it_knows_no_more_than_he_knows(call):
    told = call(pov=["marcus"], present=["Marcus", "Hero"]).artifact["scene"]
    assert "Hero bought a sword" in told
    assert "amulet" not in told
    assert "camp" not in told
    assert "Present: Hero\n" in told


def test_with_little_room_the_question_decides_what_is_told(call):
    asked = call(budget=45, query="Which sword did Hero buy from Marcus?").artifact["scene"]
    assert "sword" in asked
    assert asked.count("★]") < call().artifact["scene"].count("★]") == 3
    recent = call(budget=45, query="  ").artifact["scene"]
    assert recent == call(budget=45).artifact["scene"]
    assert "camp" in recent


def test_where_there_is_no_story_there_is_the_frame(small):
    output = LocalToolbox(ToolContext(memory=small, root=ROOT)).call("scene", {"chat_length": 50})
    assert output.artifact["scene"] == "<scene_memory>\n(#50 messages)\n\n</scene_memory>"


def test_it_leaves_no_trace_and_works_where_nothing_may_be_changed(story, context, call):
    before = story.get("sword", scope=ROOT)
    output = call(query="swords", response_level="full")
    looking = LocalToolbox(replace(context, read_only=True))
    assert looking.call("scene", {"chat_length": 1000, "query": "swords", "response_level": "full"}) == output
    assert story.pending_reviews(ROOT) == []
    assert story.get("sword", scope=ROOT) == before
    assert "scene" in {tool.name for tool in offered_tools("read", allow_scopes=False)}


def test_a_store_that_is_opened_read_only_tells_it_too(tmp_path):
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), dense="exact") as memory:
        memory.add_scene_events(ROOT, [event("ship", "Ada boarded the ship", 3, "Ada")])
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), read_only=True) as memory:
        output = LocalToolbox(ToolContext(memory=memory, root=ROOT)).call("scene", {"chat_length": 5})
        assert "Ada boarded the ship" in output.artifact["scene"]


def test_scopes_are_relative_to_the_root_where_a_model_may_name_them(context, call):
    refused = call(scope="second")
    assert (refused.is_error, refused.artifact["error_type"]) == (True, "ValidationError")
    toolbox = LocalToolbox(replace(context, allow_scopes=True))
    second = toolbox.call("scene", {"chat_length": 5, "scope": "second", "response_level": "full"})
    assert "Ada boarded the ship" in second.artifact["scene"]
    assert [each["name"] for each in second.artifact["characters"]] == ["Ada"]
    assert toolbox.call("scene", {"chat_length": 1000, "scope": "."}) == call()
    for outside in ("../bob", "/user/bob"):
        assert toolbox.call("scene", {"chat_length": 5, "scope": outside}).is_error
    assert "zebra" not in toolbox.call("scene", {"chat_length": 5, "scope": "user/bob"}).content


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"chat_length": -1}, "chat_length must be between 0 and 9007199254740991"),
        ({"chat_length": 2**53}, "chat_length must be between 0 and 9007199254740991"),
        ({"budget": 0}, "budget must be between 1 and 1000000"),
        ({"present": "Marcus"}, "present: "),
        ({"chat_length": None}, "chat_length: "),
        ({"settings": {}}, "settings: "),
        ({"response_level": "loud"}, "Invalid response_level: loud"),
    ],
)
def test_a_wrong_argument_is_named(call, arguments, message):
    output = call(**arguments)
    assert output.is_error
    assert output.artifact["error_type"] == "ValidationError"
    assert message in output.artifact["message"]


def test_a_memory_without_scenes_says_so():
    class Other:
        """A memory of another kind."""

    output = LocalToolbox(ToolContext(memory=Other(), root=ROOT)).call("scene", {"chat_length": 5})
    assert output.artifact["error_type"] == "ConfigurationError"
    assert output.artifact["message"].startswith("Other has no scenes: give an AgentMemory")
