"""Three weeks with a LangChain agent that remembers: what is said, what changes, and what proves useful.

Run it with ``python examples/langchain_three_weeks.py``; it needs ``pip install "memory-retrievers[agents]"``. Both
models follow a script and the clock moves when it is told to, so there is no key, no network and no waiting. All else
is real: the agent, its checkpoints, the store on disk, embedding, retrieval and forgetting.
"""

from __future__ import annotations

from datetime import UTC, datetime
from tempfile import TemporaryDirectory

from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph
from scripted_langchain import ScriptedChatModel

from memory_retrievers import AgentMemory, EpisodicMemory, IngestionSettings
from memory_retrievers.langchain import AgentMemoryMiddleware
from memory_retrievers.testing import FixedClock, ScriptedLanguageModel

USER = "user/alice"

CONVERSATIONS = (
    ("I am Alice, from Lyon. My nightly import keeps failing.", "Stream it through Kafka, and it goes on by itself."),
    ("I have moved to Nantes.", "Congratulations! I will remember Nantes."),
    ("What did we decide about the import, and which city am I in?", "To stream it through Kafka. And it is Nantes."),
)

# What a language model would say of them: how they divide into episodes, how the memories that were recalled for them
# served (M1 …), and what is to be learned. F1 is the known fact that is nearest to the episode.
WEEK_ONE: tuple[dict[str, object], ...] = (
    {
        "segments": [
            {
                "num_messages": 2,
                "title": "A nightly import that is to go through Kafka",
                "summary": "Alice's nightly import keeps failing; they decided to stream it through Kafka.",
            }
        ]
    },
    {
        "facts": [
            {"action": "new", "fact": "Alice lives in Lyon", "keywords": ["city", "Lyon"]},
            {"action": "new", "fact": "Alice maintains a nightly import", "keywords": ["work", "import"]},
        ]
    },
)
WEEK_TWO: tuple[dict[str, object], ...] = (
    {"segments": [{"num_messages": 2, "title": "A move to Nantes", "summary": "Alice has moved to Nantes."}]},
    {"ratings": [{"memory_id": "M1", "rating": "again"}]},  # of no use there, so it will fade sooner
    {"facts": [{"action": "update", "existing_fact_id": "F1", "fact": "Alice lives in Nantes", "keywords": ["city"]}]},
)
WEEK_THREE: tuple[dict[str, object], ...] = (
    {"segments": [{"num_messages": 2, "title": "A look back", "summary": "Alice asked about the import."}]},
    {"ratings": [{"memory_id": "M1", "rating": "good"}, {"memory_id": "M2", "rating": "good"}]},
    {"facts": []},
)


def main() -> None:
    """Talk for three weeks, and look at what became of it."""
    clock = FixedClock(datetime(2026, 3, 2, 9, tzinfo=UTC))
    # With a provider both models are init_chat_model("openai:gpt-5-mini"), and clock= and ingestion= are left out.
    model = ScriptedChatModel.saying(*(answer for _, answer in CONVERSATIONS))
    language_model = ScriptedLanguageModel([*WEEK_ONE, *WEEK_TWO, *WEEK_THREE])
    at_once = IngestionSettings(consolidate_from=1)  # facts from each episode, not from every three
    with (
        TemporaryDirectory() as directory,
        AgentMemory.open(directory, clock=clock, language_model=language_model, ingestion=at_once) as memory,
    ):
        # By default only relevant memories are recalled; here all are, to show how those of no use fade.
        middleware = AgentMemoryMiddleware(memory=memory, min_relevance=0)
        agent = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
        for week, (question, _) in enumerate(CONVERSATIONS, start=1):
            print(f"\n== Week {week}, {clock.now():%d %B %Y}")
            talk(agent, question, thread=f"week-{week}")
            end_session(memory)
            clock.advance(days=7)
        print("\n== What the model was given in week 3, in a thread that knew nothing")
        for message in model.prompts[-1]:  # the profile, and what follows her question
            print(message.text)
        print("\n== Where Alice lives, every version")
        show_history(memory, "Which city does Alice live in?")


def talk(agent: CompiledStateGraph, question: str, *, thread: str) -> None:
    """One turn. The middleware recalls before it and queues what was said after it."""
    config: RunnableConfig = {"configurable": {"user_id": USER, "thread_id": thread}}
    state = agent.invoke({"messages": [{"role": "user", "content": question}]}, config)
    for message in state["messages"]:
        print(f"{message.type}: {message.text}")


def episodes(memory: AgentMemory) -> dict[str, EpisodicMemory]:
    """The newest episodes by id, as they stand now."""
    return {episode.id: episode for episode in memory.recent(USER).episodic}


def end_session(memory: AgentMemory) -> None:
    """Make memories of what was said, and print what has changed."""
    before, report, after = episodes(memory), memory.flush(USER), episodes(memory)
    for key, rating in report.reviews:
        old, new = before[key.id], after[key.id]
        print(f"reviewed: {old.title} ({rating}), stability {old.stability:.2f} -> {new.stability:.2f} days")
    for fact in report.invalidated:
        print(f"no longer holds: {fact.fact}")
    for fact in report.facts:
        print(f"learned: {fact.fact}")


def show_history(memory: AgentMemory, question: str) -> None:
    """The fact that answers a question, and what it has replaced."""
    fact = memory.context(question, scope=USER).semantic[0].memory
    for version in memory.history(fact.id, scope=USER):
        until = f"until {version.invalid_at:%d %B}" if version.invalid_at else "holds"
        print(f"{version.fact}: from {version.valid_at:%d %B}, {until}")


if __name__ == "__main__":
    main()
