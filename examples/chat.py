"""A chat in the terminal with a model of yours that remembers you: any address that speaks OpenAI's protocol will do.

Run it with ``python examples/chat.py --model NAME --base-url http://localhost:11434/v1``, here with Ollama's address;
without ``--base-url`` it is OpenAI's own, and the key is read from ``OPENAI_API_KEY``. For the model's client it needs
``pip install "memory-retrievers[agents]" langchain-openai``. What is said stays in ``./chat-memory``: end the program,
start it again, and ask.
"""

from __future__ import annotations

import argparse
import os
import sys
from uuid import uuid4

from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from openai import OpenAIError

from memory_retrievers import AgentMemory
from memory_retrievers.langchain import AgentMemoryMiddleware


def main() -> None:
    """Answer each line until the input ends; an empty line begins a new thread, which knows nothing by itself."""
    options = read_options()
    model = ChatOpenAI(
        model=options.model, base_url=options.base_url, api_key=lambda: os.getenv("OPENAI_API_KEY", "none")
    )
    with AgentMemory.open(options.store) as memory:
        agent = create_agent(model, middleware=[AgentMemoryMiddleware(memory=memory)], checkpointer=InMemorySaver())
        thread = str(uuid4())
        while (line := read_line()) is not None:
            if not line.strip():
                thread = str(uuid4())
                print("-- a new thread")
                continue
            config: RunnableConfig = {"configurable": {"user_id": f"user/{options.user}", "thread_id": thread}}
            try:
                state = agent.invoke({"messages": [{"role": "user", "content": line}]}, config)
            except OpenAIError as error:  # what was said is kept all the same
                where, why = options.base_url or "OpenAI", str(error).rstrip(".")
                print(f"-- no answer from {where}: {why}. Mend that, then say it again.")
            else:
                print(state["messages"][-1].text)


def read_options() -> argparse.Namespace:
    """What was said on the command line."""
    parser = argparse.ArgumentParser(description="A chat that remembers.")
    parser.add_argument("--model", required=True, help="the model's name at that address")
    parser.add_argument("--base-url", help="where the model is, such as http://localhost:11434/v1")
    parser.add_argument("--store", default="./chat-memory", help="the directory of the memory")
    parser.add_argument("--user", default="me", help="whose memory it is")
    return parser.parse_args()


def read_line() -> str | None:
    """The next line of the user; None where the input has ended."""
    try:
        return input("> " if sys.stdin.isatty() else "")
    except EOFError:
        return None


if __name__ == "__main__":
    main()
