"""Another thread, one minute later, after a restart: what was said is known, without any flush.

Run it with ``python examples/langchain_another_thread.py``; it needs ``pip install "memory-retrievers[agents]"``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from tempfile import TemporaryDirectory

from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from scripted_langchain import ScriptedChatModel

from memory_retrievers import AgentMemory
from memory_retrievers.langchain import AgentMemoryMiddleware
from memory_retrievers.testing import FixedClock


def main() -> None:
    """Say something in one thread, end the program, and ask for it in another thread."""
    clock = FixedClock(datetime(2026, 3, 2, 9, tzinfo=UTC))  # leave it out for the real time
    with TemporaryDirectory() as directory:
        with AgentMemory.open(directory, clock=clock) as memory:
            ask(memory, "I have moved to Nantes, rue Crébillon.", thread="monday", answer="Welcome to Nantes!")
        clock.advance(minutes=1)
        with AgentMemory.open(directory, clock=clock) as memory:  # another process, the same store
            ask(memory, "Which city do I live in?", thread="another", answer="In Nantes.")
            print(f"\n== Episodes made so far: {memory.stats('user/alice').episodes}")


def ask(memory: AgentMemory, question: str, *, thread: str, answer: str) -> None:
    """One turn in a thread, and what the model read after the question."""
    model = ScriptedChatModel.saying(answer)
    agent = create_agent(model, middleware=[AgentMemoryMiddleware(memory=memory)], checkpointer=InMemorySaver())
    config: RunnableConfig = {"configurable": {"user_id": "user/alice", "thread_id": thread}}
    state = agent.invoke({"messages": [{"role": "user", "content": question}]}, config)
    print(f"\n== {thread}")
    print(f"prompt: {model.prompts[-1][-1].text}")
    print(f"ai: {state['messages'][-1].text}")


if __name__ == "__main__":
    main()
