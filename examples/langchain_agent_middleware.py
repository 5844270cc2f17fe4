"""A LangChain agent that remembers by itself: middleware recalls before each answer, and records what was said.

Run it with ``python examples/langchain_agent_middleware.py``; it needs ``pip install "memory-retrievers[agents]"``.
"""

from __future__ import annotations

from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from scripted_langchain import ScriptedChatModel

from memory_retrievers import AgentMemory
from memory_retrievers.langchain import AgentMemoryMiddleware

CONVERSATIONS = {
    "monday": ("The door code of the workshop is 4711.", "4711, noted."),
    "tuesday": ("How do I get into the workshop?", "With the code 4711."),
}


def main() -> None:
    """Say something in one thread, and ask for it in another."""
    answers = [answer for _, answer in CONVERSATIONS.values()]
    model = ScriptedChatModel.saying(*answers)  # or init_chat_model("openai:gpt-5-mini")
    with AgentMemory.in_memory() as memory:
        middleware = AgentMemoryMiddleware(memory=memory)
        agent = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
        for thread, (question, _) in CONVERSATIONS.items():
            print(f"\n== {thread}")
            run = {"user_id": "user/alice", "thread_id": thread}
            config: RunnableConfig = {"configurable": run, "callbacks": [Watcher()]}
            state = agent.invoke({"messages": [{"role": "user", "content": question}]}, config)
            for message in state["messages"]:
                print(f"{message.type}: {message.text}")
            memory.flush("user/alice")  # the end of a session: what was said becomes an episode


class Watcher(BaseCallbackHandler):
    """Shows what the middleware has put into the prompt."""

    def on_chat_model_start(
        self, serialized: dict[str, object], messages: list[list[BaseMessage]], **_: object
    ) -> None:
        """What follows the user's last message, in the prompt and not in the thread."""
        del serialized
        _, _, recalled = messages[0][-1].text.partition("\n\n<memory>")
        if recalled:
            print(f"<memory>{recalled}")


if __name__ == "__main__":
    main()
