"""A LangChain agent that looks things up in its memory with a tool, whenever it sees fit.

Run it with ``python examples/langchain_agent_tool.py``; it needs ``pip install "memory-retrievers[agents]"``.
"""

from __future__ import annotations

from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig
from scripted_langchain import ScriptedChatModel

from memory_retrievers import AgentMemory
from memory_retrievers.langchain import RetrieveMemoryTool

STEPS = (
    ("retrieve_memory", {"query": "food allergies"}),  # whose memory is not among the arguments
    "No peanuts for Alice: she is allergic to them.",
)


def main() -> None:
    """Let the agent answer a question that only its memory can answer."""
    model = ScriptedChatModel.saying(*STEPS)  # or init_chat_model("openai:gpt-5-mini")
    with AgentMemory.in_memory() as memory:
        memory.remember_fact(scope="user/alice", fact="Alice is allergic to peanuts", category="identity")
        memory.remember_fact(scope="user/bo", fact="Bo is allergic to shellfish", category="identity")
        agent = create_agent(model, tools=[RetrieveMemoryTool(memory=memory)])
        config: RunnableConfig = {"configurable": {"user_id": "user/alice"}}
        state = agent.invoke({"messages": [{"role": "user", "content": "What must I not cook for Alice?"}]}, config)
        for message in state["messages"]:
            for call in getattr(message, "tool_calls", []):
                print(f"{message.type} calls {call['name']}: {call['args']}")
            if message.text:
                print(f"{message.type}: {message.text.strip()}")


if __name__ == "__main__":
    main()
