"""An agent that manages its own memory: it stores, searches and corrects with tools.

Run it with ``python examples/memory_tools.py``; it needs ``pip install "memory-retrievers[agents]"``.
"""

from __future__ import annotations

from langchain.agents import create_agent
from scripted_langchain import ScriptedChatModel, Step

from memory_retrievers import AgentMemory
from memory_retrievers.langchain import MemoryToolkit

NOTE = {"tags": ["door"], "memory_tier": "working", "response_level": "minimal"}
LOOK = (
    "memory_search",
    {"query": "workshop door", "top_k": 1, "response_level": "standard"},
)
RUNS: dict[str, tuple[Step, ...]] = {
    "The door code of the workshop is 4711.": (
        ("memory_store", {"content": "The door code of the workshop is 4711", **NOTE}),
        "Noted.",
    ),
    "How do I get into the workshop?": (LOOK, "With the code 4711."),
    "The code has changed to 1234.": (
        ("memory_get", {"id": "m9"}),  # a mistake of the model is answered with an error message
        ("memory_delete", {"memory_tier": "working", "response_level": "minimal"}),
        ("memory_store", {"content": "The door code of the workshop is 1234", **NOTE}),
        "1234 from now on.",
    ),
    "And how do I get in now?": (LOOK, "With the code 1234."),
}


def main() -> None:
    """Four runs that have nothing in common but the memory."""
    steps = [step for run in RUNS.values() for step in run]
    model = ScriptedChatModel.saying(*steps)  # or init_chat_model("openai:gpt-5-mini")
    with AgentMemory.in_memory() as memory:
        # without tools= there are four, enough for most agents; "read" offers those that change nothing
        toolkit = MemoryToolkit(memory, scope="user/alice", tools="all")
        agent = create_agent(model, tools=toolkit.get_tools())
        for question in RUNS:
            state = agent.invoke({"messages": [{"role": "user", "content": question}]})
            print(f"\n== {question}")
            for message in state["messages"][1:]:
                for call in getattr(message, "tool_calls", []):
                    print(f"{message.type} calls {call['name']}: {call['args']}")
                if message.text:
                    print(f"{message.type}: {message.text}")


if __name__ == "__main__":
    main()
