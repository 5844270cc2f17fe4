"""A LlamaIndex agent whose chat memory has a block for the long term.

Run it with ``python examples/llama_index_agent_memory_block.py``; it needs
``pip install "memory-retrievers[llama-index]"``.
"""

from __future__ import annotations

import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.memory import Memory
from scripted_llama_index import scripted_llm
from sqlalchemy.ext.asyncio import create_async_engine

from memory_retrievers import AgentMemory
from memory_retrievers.llama_index import LongTermMemoryBlock

CONVERSATIONS = {
    "monday": ("The door code of the workshop is 4711.", "4711, noted."),
    "tuesday": ("How do I get into the workshop?", "With the code 4711."),
}


async def main() -> None:
    """Say something in one session, and ask for it in another."""
    llm = scripted_llm([answer for _, answer in CONVERSATIONS.values()])  # or OpenAI(model="gpt-5-mini")
    chats = create_async_engine("sqlite+aiosqlite:///:memory:")  # where LlamaIndex keeps the chats themselves
    with AgentMemory.in_memory() as memory:
        agent = FunctionAgent(llm=llm, system_prompt="You are terse.")
        block = LongTermMemoryBlock(memory=memory, scope="user/alice")
        for session, (question, _) in CONVERSATIONS.items():
            chat = Memory.from_defaults(session_id=session, memory_blocks=[block], async_engine=chats)
            print(f"\n== {session}")
            answer = await agent.run(question, memory=chat)
            print(f"user: {question}")
            for message in await chat.aget():  # what the model was given
                if block.name in str(message.content):
                    print(message.content)
            print(f"assistant: {answer}")
            await block.aflush(chat)  # the end of a session: what was said becomes an episode
    await chats.dispose()


if __name__ == "__main__":
    asyncio.run(main())
