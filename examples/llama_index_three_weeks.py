"""Three weeks with a LlamaIndex agent that remembers: what is said, what changes, and what proves useful.

Run it with ``python examples/llama_index_three_weeks.py``; it needs ``pip install "memory-retrievers[llama-index]"``.
Both models follow a script and the clock moves when it is told to, so there is no key, no network and no waiting. All
else is real: the agent, its chats, the store on disk, embedding, retrieval and forgetting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from tempfile import TemporaryDirectory

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory
from scripted_llama_index import scripted_llm
from sqlalchemy.ext.asyncio import create_async_engine

from memory_retrievers import AgentMemory, EpisodicMemory, IngestionSettings, Report
from memory_retrievers.llama_index import LongTermMemoryBlock
from memory_retrievers.testing import FixedClock, ScriptedLanguageModel

USER = "user/bo"

CONVERSATIONS = (
    ("Our staging database is restored every Monday, and the shop goes down.", "Put up a read replica first."),
    ("We restore staging on Fridays from now on.", "Fridays, noted."),
    ("When is staging restored, and what was your advice for the shop?", "On Fridays. Put up a read replica first."),
)

# What a language model would say of them: how they divide into episodes, how the memories that were recalled for them
# served (M1 …), and what is to be learned. F1 is the known fact that is nearest to the episode.
WEEK_ONE: tuple[dict[str, object], ...] = (
    {
        "segments": [
            {
                "num_messages": 2,
                "title": "A shop that goes down with every restore",
                "summary": "Bo's shop is down while staging is restored; the assistant advised a read replica.",
            }
        ]
    },
    {
        "facts": [
            {"action": "new", "fact": "Bo's staging database is restored every Monday", "keywords": ["staging"]},
            {"action": "new", "fact": "Bo runs a shop", "keywords": ["work", "shop"]},
        ]
    },
)
WEEK_TWO: tuple[dict[str, object], ...] = (
    {"segments": [{"num_messages": 2, "title": "Friday it is", "summary": "Staging is to be restored on Fridays."}]},
    {"ratings": [{"memory_id": "M1", "rating": "again"}]},  # of no use there, so it will fade sooner
    {
        "facts": [
            {
                "action": "update",
                "existing_fact_id": "F1",
                "fact": "Bo's staging database is restored every Friday",
                "keywords": ["staging"],
            }
        ]
    },
)
WEEK_THREE: tuple[dict[str, object], ...] = (
    {
        "segments": [
            {"num_messages": 2, "title": "A look back", "summary": "Bo asked about the restore and the advice."}
        ]
    },
    {"ratings": [{"memory_id": "M1", "rating": "good"}, {"memory_id": "M2", "rating": "good"}]},
    {"facts": []},
)


async def main() -> None:
    """Talk for three weeks, and look at what became of it."""
    clock = FixedClock(datetime(2026, 3, 2, 9, tzinfo=UTC))
    # With a provider both models are OpenAI(model="gpt-5-mini"), and clock= and ingestion= are left out.
    prompts: list[list[ChatMessage]] = []
    llm = scripted_llm([answer for _, answer in CONVERSATIONS], prompts=prompts)
    language_model = ScriptedLanguageModel([*WEEK_ONE, *WEEK_TWO, *WEEK_THREE])
    at_once = IngestionSettings(consolidate_from=1)  # facts from each episode, not from every three
    chats = create_async_engine("sqlite+aiosqlite:///:memory:")  # where LlamaIndex keeps the chats themselves
    with (
        TemporaryDirectory() as directory,
        AgentMemory.open(directory, clock=clock, language_model=language_model, ingestion=at_once) as memory,
    ):
        agent = FunctionAgent(llm=llm, system_prompt="You are terse.")
        for week, (question, _) in enumerate(CONVERSATIONS, start=1):
            print(f"\n== Week {week}, {clock.now():%d %B %Y}")
            block = LongTermMemoryBlock(memory=memory, scope=USER)
            chat = Memory.from_defaults(session_id=f"week-{week}", memory_blocks=[block], async_engine=chats)
            print(f"user: {question}\nassistant: {await agent.run(question, memory=chat)}")
            before = episodes(memory)
            show_changes(await block.aflush(chat), before, episodes(memory))
            clock.advance(days=7)
        print("\n== What the model was given in week 3, in a session that knew nothing")
        print(next(message.content for message in prompts[-1] if block.name in (message.content or "")))
        print("\n== When staging is restored, every version")
        show_history(memory, "When is the staging database restored?")
    await chats.dispose()


def episodes(memory: AgentMemory) -> dict[str, EpisodicMemory]:
    """The newest episodes by id, as they stand now."""
    return {episode.id: episode for episode in memory.recent(USER).episodic}


def show_changes(report: Report, before: Mapping[str, EpisodicMemory], after: Mapping[str, EpisodicMemory]) -> None:
    """What the end of a session has changed."""
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
    asyncio.run(main())
