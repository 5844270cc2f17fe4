"""Two threads of one user at once: each stays a conversation of its own, and both are known in a third.

Run it with ``python examples/two_threads_at_once.py``; it needs ``pip install "memory-retrievers[agents]"``.
"""

from __future__ import annotations

from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from scripted_langchain import ScriptedChatModel

from memory_retrievers import AgentMemory
from memory_retrievers.langchain import AgentMemoryMiddleware

TURNS = (
    ("bread", "My sourdough starter is called Gustave.", "A fine name."),
    ("work", "Our Kubernetes cluster runs version 1.34.", "Noted."),
    ("bread", "Gustave is fed with rye flour every morning.", "Rye keeps him lively."),
    ("work", "The cluster is upgraded on Thursday.", "On Thursday, then."),
    ("third", "When is Gustave fed, and when is the cluster upgraded?", "Every morning, and on Thursday."),
)


def main() -> None:
    """Talk in two threads by turns, ask in a third, and look at the episodes."""
    model = ScriptedChatModel.saying(*(answer for *_, answer in TURNS))
    with AgentMemory.in_memory() as memory:
        agent = create_agent(model, middleware=[AgentMemoryMiddleware(memory=memory)], checkpointer=InMemorySaver())
        for thread, said, _ in TURNS:
            config: RunnableConfig = {"configurable": {"user_id": "user/alice", "thread_id": thread}}
            agent.invoke({"messages": [{"role": "user", "content": said}]}, config)
        print("\n== What the third thread was given")
        print(model.prompts[-1][-1].text)
        for thread in ("bread", "work"):
            print(f"\n== The episode of {thread}")
            for episode in memory.flush("user/alice", thread).episodes:
                for message in episode.messages:
                    print(f"{message.role}: {message.content}")


if __name__ == "__main__":
    main()
