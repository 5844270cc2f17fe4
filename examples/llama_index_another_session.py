"""Another session, one minute later, after a restart: what was said is known, without any flush.

Run it with ``python examples/llama_index_another_session.py``; it needs
``pip install "memory-retrievers[llama-index]"``.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from tempfile import TemporaryDirectory

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from scripted_llama_index import scripted_llm

from memory_retrievers import AgentMemory
from memory_retrievers.llama_index import ConversationMemory
from memory_retrievers.testing import FixedClock


async def main() -> None:
    """Say something in one session, end the program, and ask for it in another session."""
    clock = FixedClock(datetime(2026, 3, 2, 9, tzinfo=UTC))  # leave it out for the real time
    with TemporaryDirectory() as directory:
        with AgentMemory.open(directory, clock=clock) as memory:
            await ask(memory, "I have moved to Nantes, rue Crébillon.", session="monday", answer="Welcome to Nantes!")
        clock.advance(minutes=1)
        with AgentMemory.open(directory, clock=clock) as memory:  # another process, the same store
            await ask(memory, "Which city do I live in?", session="another", answer="In Nantes.")
            print(f"\n== Episodes made so far: {memory.stats('user/alice').episodes}")


async def ask(memory: AgentMemory, question: str, *, session: str, answer: str) -> None:
    """One turn in a session, and what the model read after the question."""
    prompts: list[list[ChatMessage]] = []
    agent = FunctionAgent(llm=scripted_llm([answer], prompts=prompts))
    chat = ConversationMemory.from_defaults(memory, scope="user/alice", session_id=session)
    said = await agent.run(question, memory=chat)
    print(f"\n== {session}")
    print(f"prompt: {prompts[-1][-1].content}")
    print(f"assistant: {said}")


if __name__ == "__main__":
    asyncio.run(main())
