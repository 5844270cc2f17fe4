"""One memory for tools and host: each finds, lists and changes what the other has stored.

Run it with ``python examples/shared_by_tools_and_host.py``; it needs ``pip install memory-retrievers``.
"""

from __future__ import annotations

from memory_retrievers import AgentMemory
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext

ALICE = "user/alice"


def main() -> None:
    """The host stores a fact, the agent another; both see both, and the agent puts the host's right."""
    with AgentMemory.in_memory() as memory:
        tools = LocalToolbox(ToolContext(memory=memory, root=ALICE))
        known = memory.remember_fact(scope=ALICE, fact="The bakery on the corner opens at seven")
        tools.call("memory_store", {"content": "The bakery on the corner is closed on Mondays"})
        print("\n== What the agent finds")
        for hit in tools.call("memory_search", {"query": "When does the bakery open?"}).artifact["results"]:
            print(hit["content"])
        print("\n== What the agent is told was remembered last")
        print(tools.call("recent_memory", {}).content)
        print("\n== What the host finds, once the agent has put its fact right")
        tools.call("memory_update", {"id": known.id, "content": "The bakery on the corner opens at eight"})
        print(memory.context("When does the bakery open?", scope=ALICE).to_markdown())
        print("\n== What is left, once the agent has deleted by condition: what the host stored")
        tools.call("memory_delete", {"memory_tier": "long_term"})
        for memory_left in memory.list(ALICE).memories:
            print(memory_left.search_text)


if __name__ == "__main__":
    main()
