"""A LangChain chain that answers from memory: one chain for all users, each with a memory of their own.

Run it with ``python examples/langchain_retriever_lcel.py``; it needs ``pip install "memory-retrievers[langchain]"``.
"""

from __future__ import annotations

from operator import itemgetter

from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import ParrotFakeChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough

from memory_retrievers import AgentMemory
from memory_retrievers.langchain import MemoryRetriever

PROMPT = ChatPromptTemplate.from_template("Known of the user:\n{context}\n\nAnswer: {question}")


def main() -> None:
    """Ask the same question for two users."""
    with AgentMemory.in_memory() as memory:
        memory.remember_fact(scope="user/alice", fact="Alice is allergic to peanuts", category="identity")
        memory.remember_fact(scope="user/bo", fact="Bo eats no meat", category="preference")
        retriever = MemoryRetriever(memory=memory, k=3)  # without a scope: it comes from the configuration
        model = ParrotFakeChatModel()  # repeats its prompt; or init_chat_model("openai:gpt-5-mini")
        chain = (
            RunnablePassthrough.assign(context=itemgetter("question") | retriever | as_lines)
            | PROMPT
            | model
            | StrOutputParser()
        )
        for user in ("user/alice", "user/bo"):
            print(f"\n== {user}")
            question = {"question": "What must I not cook for them?"}
            print(chain.invoke(question, {"configurable": {"user_id": user}}))


def as_lines(documents: list[Document]) -> str:
    """The texts of the memories, one a line."""
    return "\n".join(f"- {document.page_content}" for document in documents)


if __name__ == "__main__":
    main()
