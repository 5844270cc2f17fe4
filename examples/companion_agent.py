"""A role-play companion that remembers the story: what happened, who knows of it, and how everybody feels.

Run it with ``python examples/companion_agent.py``; it needs ``pip install "memory-retrievers[agents]"``. Both models
follow a script, so there is no key and no network. All else is real: the agent, the store on disk, the extraction of
events, the states of the characters and the scene that the model is given.
"""

from __future__ import annotations

from tempfile import TemporaryDirectory

from langchain.agents import create_agent
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from scripted_langchain import ScriptedChatModel

from memory_retrievers import AgentMemory, Message, SceneEvent, SceneSettings
from memory_retrievers.langchain import AgentMemoryMiddleware
from memory_retrievers.protocols import LanguageModel
from memory_retrievers.scene.extraction import extract_events
from memory_retrievers.testing import ScriptedLanguageModel

STORY = "story/crossroads-inn"
EARLIER = 800  # the chat has so many messages already; it goes on in a new thread
THREAD: RunnableConfig = {"configurable": {"thread_id": "evening"}}

# What happened in them. Events can be written by hand, as here, or taken from messages by a language model, as below.
BACKSTORY = (
    SceneEvent(
        summary="Mira and her brother Tam opened the inn at the crossroads.",
        importance=2, message_ids=(12,), characters_involved=("Mira", "Tam"),
    ),
    SceneEvent(
        summary="Tam sold the deed of the inn to a moneylender behind Mira's back.",
        importance=5, message_ids=(340, 341), characters_involved=("Tam",), is_secret=True,  # so only Tam knows of it
    ),
    SceneEvent(
        summary="Ives rented the attic room and paid Mira in old silver.",
        importance=3, message_ids=(655,), characters_involved=("Mira", "Ives"), emotional_impact={"Mira": "curious"},
    ),
)  # fmt: skip

CONVERSATION = (
    ("Mira, I found this deed in the attic. It has a moneylender's seal.", "Give it here. That is Tam's hand!"),
    ("Tam rode off at dawn, with a full purse.", "Then I ride after him. Saddle the grey mare."),
    ("Before we ride: what do I owe you for the attic?", "Nothing. You have paid, in old silver."),
)

# What a language model would take from each turn.
EXTRACTED: tuple[dict[str, object], ...] = (
    {
        "events": [
            {
                "summary": "Ives showed Mira a deed of the inn with a moneylender's seal.",
                "importance": 4,
                "event_type": "revelation",
                "characters_involved": ["Ives", "Mira"],
                "emotional_impact": [{"character": "Mira", "emotion": "shocked"}],
            }
        ]
    },
    {
        "events": [
            {
                "summary": "Mira decided to ride after Tam, who left at dawn.",
                "importance": 4,
                "event_type": "emotion_shift",
                "characters_involved": ["Mira", "Ives"],
                "emotional_impact": [{"character": "Mira", "emotion": "angry"}],
            }
        ]
    },
    {"events": []},
)


def main() -> None:
    """Play an evening at the inn, and look at what the model was given."""
    # With a provider both models are init_chat_model("openai:gpt-5-mini"), the second one in language_models.adapt().
    model = ScriptedChatModel.saying(*(answer for _, answer in CONVERSATION))
    language_model = ScriptedLanguageModel(EXTRACTED)
    with TemporaryDirectory() as directory, AgentMemory.open(directory) as memory:
        memory.add_scene_events(STORY, BACKSTORY)
        middleware = AgentMemoryMiddleware(
            memory=memory,
            scope=STORY,
            record=False,  # the story is kept as events, not as conversations
            format="scene",
            scene=SceneSettings(trajectories=True),
            pov=["Mira"],  # the model plays Mira, so it reads what she knows
            present=lambda _: ["Mira", "Ives"],
            chat_length=lambda messages: EARLIER + len(messages),
        )
        prompt = "You are Mira, who keeps the inn at the crossroads. Stay in character."
        agent = create_agent(model, system_prompt=prompt, middleware=[middleware], checkpointer=InMemorySaver())
        print("\n== An evening at the inn")
        for line, _ in CONVERSATION:
            state = agent.invoke({"messages": [{"role": "user", "content": line}]}, THREAD)
            keep_events(memory, language_model, state["messages"])
        print("\n== What the model was given for its last answer")
        print(model.prompts[-1][0].text)  # the instructions
        print(model.prompts[-1][-1].text)  # the last message, followed by the story
        print("\n== What Tam knows")
        print(memory.scene(STORY, chat_length=EARLIER, pov=["Tam"]))
        print("\n== The characters")
        show_characters(memory)


def keep_events(memory: AgentMemory, language_model: LanguageModel, messages: list[BaseMessage]) -> None:
    """Tell the last turn, and keep what happened in it."""
    turn = [Message(role=name, content=said.text) for name, said in zip(("Ives", "Mira"), messages[-2:], strict=True)]
    names = [state.name for state in memory.characters(STORY)]
    first = EARLIER + len(messages) - len(turn)
    events = extract_events(language_model, turn, first_message_id=first, characters=names)
    for said in turn:
        print(f"{said.role}: {said.content}")
    for event in memory.add_scene_events(STORY, events):
        print(f"remembered: {event.summary}")


def show_characters(memory: AgentMemory) -> None:
    """How each character came to feel what it feels, and how much it knows."""
    for state in memory.characters(STORY):
        felt = " -> ".join(shift.emotion for shift in state.shifts) or state.current_emotion
        print(f"{state.name}: {felt}; knows of {len(state.known_events)} events")


if __name__ == "__main__":
    main()
