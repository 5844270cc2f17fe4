"""An agent that is told the story so far before it answers."""

import logging

import pytest
from blockbuster import BlockingError
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver

from memory_retrievers import SceneEvent, SceneSettings
from memory_retrievers.errors import BackendError, ConfigurationError
from memory_retrievers.langchain import AgentMemoryMiddleware
from memory_retrievers.remote import RemoteMemory
from memory_retrievers.retrieval.markdown import NOTES

STORY = "story/goblins"
THREAD = {"configurable": {"thread_id": "t1"}}


@pytest.fixture
def story(memory):
    """Five events of a story and one of another."""
    memory.add_scene_events(
        STORY,
        [
            SceneEvent(
                id="sword", summary="Hero bought a sword from Marcus", importance=2, message_ids=[0],
                characters_involved=["Hero", "Marcus"], emotional_impact={"Hero": "proud"},
            ),
            SceneEvent(
                id="elder", summary="Elder warned Hero of goblins", importance=3, message_ids=[1],
                characters_involved=["Hero", "Elder"], emotional_impact={"Elder": "afraid"},
            ),
            SceneEvent(
                id="amulet", summary="Goblin stole the amulet at night", importance=4, message_ids=[2], is_secret=True,
                characters_involved=["Goblin"], emotional_impact={"Goblin": "greedy"},
            ),
            SceneEvent(
                id="feast", summary="Everybody danced at the feast", importance=1, message_ids=[3],
                characters_involved=["Hero", "Marcus", "Elder"], emotional_impact={"Hero": "calm"},
            ),
        ],
    )  # fmt: skip
    memory.add_scene_events("story/other", [SceneEvent(summary="A zebra won the race", message_ids=[1])])
    return memory


def asking(text):
    return {"messages": [{"role": "user", "content": text}]}


def agent_of(model, memory, **options):
    rules = {"scope": STORY, "format": "scene"} | options
    middleware = AgentMemoryMiddleware(memory=memory, **rules)
    return create_agent(model, system_prompt="You are Marcus.", middleware=[middleware], checkpointer=InMemorySaver())


def scene_of(call):
    """What stands behind the user's last message in a model call, whose system message has nothing of it."""
    (system,) = [message for message in call if isinstance(message, SystemMessage)]
    assert system.content == "You are Marcus."
    asked = [message for message in call if isinstance(message, HumanMessage)][-1]
    return "".join(asked.content.partition("\n\n")[1:])


def test_the_story_stands_behind_the_users_message(story, saying):
    model = saying("Welcome!")
    agent_of(model, story).invoke(asking("I am looking for a sword"), THREAD)
    expected = story.scene(STORY, chat_length=1, query="I am looking for a sword")
    assert scene_of(model.heard[0]) == f"\n\n{NOTES}\n\n{expected}"
    assert "[★★★★] Goblin stole the amulet at night" in expected
    assert "Emotions: Hero calm, Elder afraid, Goblin greedy" in expected
    assert "zebra" not in expected


def test_the_length_of_the_chat_is_that_of_the_thread(story, saying):
    model = saying("Welcome!", "Goodbye!")
    agent = agent_of(model, story)
    for text in ("Hello", "Farewell"):
        agent.invoke(asking(text), THREAD)
    assert ["(#1 messages)" in scene_of(model.heard[0]), "(#3 messages)" in scene_of(model.heard[1])] == [True, True]


def test_a_chat_that_loses_messages_is_counted_by_its_host(story, saying):
    model = saying("Welcome!")
    agent_of(model, story, chat_length=lambda messages: 700 + len(messages)).invoke(asking("Hello"), THREAD)
    assert "(#701 messages)\n\n## The Story So Far\n" in scene_of(model.heard[0])


def test_who_is_present_is_told_by_the_messages(story, saying):
    model = saying("Welcome!", "Goodbye!")
    names = ("Elder", "Goblin")
    agent = agent_of(
        model, story, present=lambda messages: [name for name in names if any(name in each.text for each in messages)]
    )
    for text in ("Hello, Elder!", "Look, a Goblin!"):
        agent.invoke(asking(text), THREAD)
    assert "Present: Elder\n" in scene_of(model.heard[0])
    assert "Present: Elder, Goblin\n" in scene_of(model.heard[1])


def test_one_name_in_place_of_a_list_is_not_told_letter_by_letter(story, saying, caplog):
    model = saying("Welcome!")
    agent_of(model, story, present=lambda _: "Elder").invoke(asking("Hello"), THREAD)
    assert "Present: E" not in model.heard[0][-1].text
    assert caplog.messages == ["nothing was recalled, since the memory failed (ValidationError)"]


def test_a_character_is_told_only_what_it_knows(story, saying):
    model = saying("Welcome!")
    agent_of(model, story, pov=["Marcus"], present=lambda _: ["Marcus", "Hero"]).invoke(asking("Hello"), THREAD)
    told = scene_of(model.heard[0])
    assert "bought a sword" in told
    assert "amulet" not in told
    assert "warned" not in told
    assert "Present: Hero\n" in told


def test_the_budget_and_the_settings_are_kept(story, saying):
    model = saying("Welcome!")
    settings = SceneSettings(trajectories=True)
    agent_of(model, story, budget=60, scene=settings).invoke(asking("Who danced at the feast?"), THREAD)
    told = scene_of(model.heard[0])
    assert told.endswith(
        story.scene(STORY, chat_length=1, budget=60, query="Who danced at the feast?", settings=settings)
    )
    assert "- Hero: proud → calm" in told
    assert told.count("★]") < 4


def test_a_question_that_says_little_is_understood_by_the_one_before_it(story, saying):
    model = saying("Everybody!", "At midnight!", "They left.")
    agent = agent_of(model, story, budget=60)
    for text in ("Who danced at the feast?", "And when?"):
        agent.invoke(asking(text), THREAD)
    assert [scene_of(call).count("danced at the feast") for call in model.heard] == [1, 1]
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    agent.invoke({"messages": [{"role": "user", "content": [picture]}]}, THREAD)
    behind = model.heard[2][-1].content[-1]["text"]
    assert behind.endswith(story.scene(STORY, chat_length=5, budget=60))  # a picture asks nothing: time decides


def test_a_question_in_the_first_person_is_asked_with_the_name_of_who_speaks(memory, saying):
    names = [f"{name}{number}" for number in range(8) for name in ("Anna", "Ben")]
    memory.add_scene_events(STORY, [SceneEvent(summary=f"{name} sold the boat", message_ids=[0]) for name in names])
    model = saying("Sold.")
    agent = agent_of(model, memory, budget=60)
    agent.invoke({"messages": [{"role": "user", "name": "Anna0", "content": "Where is my boat?"}]}, THREAD)
    assert "Anna0 sold the boat" in scene_of(model.heard[0])


def test_without_a_question_time_decides(story, saying):
    model = saying("Welcome!")
    agent_of(model, story).invoke({"messages": [AIMessage("Marcus opened the door.")]}, THREAD)
    (system,) = [message for message in model.heard[0] if isinstance(message, SystemMessage)]
    assert system.text.endswith(story.scene(STORY, chat_length=1))  # there is no message of the user to stand behind


def test_what_is_said_is_still_recorded(story, saying):
    agent_of(saying("Welcome!"), story).invoke(asking("Hello"), THREAD)
    assert story.stats(STORY).queued_messages == 2


@pytest.fixture
def story_on_disk(memory_on_disk):
    memory_on_disk.add_scene_events(STORY, [SceneEvent(summary="Hero found the cave", message_ids=[0])])
    return memory_on_disk


async def test_asynchronously_the_same_is_told_off_the_event_loop(story_on_disk, saying, no_blocking):
    model = saying("Welcome!")
    await agent_of(model, story_on_disk, record=False).ainvoke(asking("Hello"), THREAD)
    assert "[★★★] Hero found the cave" in scene_of(model.heard[0])
    with pytest.raises(BlockingError):
        story_on_disk.scene(STORY, chat_length=1)


def test_a_memory_that_fails_does_not_fail_the_agent(story, saying, monkeypatch, caplog):
    def fail(*_, **__):
        raise BackendError("the secret amulet")

    monkeypatch.setattr(type(story), "scene", fail)
    model = saying("Welcome!")
    with caplog.at_level(logging.WARNING):
        agent_of(model, story, record=False).invoke(asking("Hello"), THREAD)
    assert model.heard[0][0].content == "You are Marcus."
    assert [record.message for record in caplog.records] == [
        "nothing was recalled, since the memory failed (BackendError)"
    ]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"format": "novel"}, "format must be 'block' or 'scene', not 'novel'"),
        ({"format": "block", "present": lambda _: []}, "give format='scene'"),
        ({"format": "block", "scene": SceneSettings()}, "give format='scene'"),
        ({"format": "block", "pov": ["Hero"]}, "give format='scene'"),
        ({"pov": "Hero"}, "pov must be a list of names"),
        ({"recall": "facts"}, "leave it out with format='scene'"),
    ],
)
def test_options_that_do_not_fit_are_refused_at_once(memory, options, problem):
    with pytest.raises(ConfigurationError, match=problem):
        AgentMemoryMiddleware(memory=memory, scope=STORY, **{"format": "scene"} | options)


def test_a_memory_that_tells_no_scenes_is_refused_at_once_and_one_elsewhere_tells_them():
    with RemoteMemory("http://127.0.0.1:9") as remote:
        AgentMemoryMiddleware(memory=remote, scope=STORY, format="scene")
    with pytest.raises(ConfigurationError, match=r"^object has no scenes: give an AgentMemory"):
        AgentMemoryMiddleware(memory=object(), scope=STORY, format="scene")
