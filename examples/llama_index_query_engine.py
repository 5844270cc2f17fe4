"""A LlamaIndex query engine that answers from memory.

Run it with ``python examples/llama_index_query_engine.py``; it needs ``pip install "memory-retrievers[llama-index]"``.
"""

from __future__ import annotations

from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine

from memory_retrievers import AgentMemory, Message
from memory_retrievers.llama_index import MemoryRetriever


def main() -> None:
    """Ask a question, and see which memories the answer stands on."""
    llm = MockLLM()  # repeats its prompt; or OpenAI(model="gpt-5-mini")
    with AgentMemory.in_memory() as memory:
        memory.remember_fact(scope="user/bo", fact="Bo's staging database is restored every Friday")
        memory.remember_episode(
            scope="user/bo",
            title="A shop that goes down with every restore",
            summary="Bo's shop was down while staging was restored; the assistant advised a read replica.",
            messages=[Message(role="user", content="The shop is down again!")],
            surprise=0.9,  # a key moment, so its messages are shown
        )
        engine = RetrieverQueryEngine.from_args(MemoryRetriever(memory, scope="user/bo", k=2), llm=llm)
        response = engine.query("Why does the shop go down on Fridays?")
        print("\n== The answer")
        print(response)
        print("\n== It stands on")
        for node in response.source_nodes:
            print(f"{node.metadata['kind']}: {node.text.splitlines()[0]}")


if __name__ == "__main__":
    main()
