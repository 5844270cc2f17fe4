"""What is told twice is known once, and what differs in a name, a number or a negation is named.

Run it with ``python examples/said_twice.py``; it needs ``pip install memory-retrievers``.
"""

from __future__ import annotations

from memory_retrievers import AgentMemory
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext

SCOPE = "user/alice"


def main() -> None:
    """Tell something again, in Python and by a tool; then tell something else."""
    with AgentMemory.in_memory() as memory:
        # 1. the known fact is given back, and has the tags of both
        first = memory.remember_fact(scope=SCOPE, fact="User's door code is 4711", tags=["home"])
        again = memory.remember_fact(scope=SCOPE, fact="user's door code is  4711.", tags=["door"])
        print("\n== said twice")
        print(f"known: {again.duplicate_of == first.id}, tags: {', '.join(again.tags)}")
        # 2. so it is for a model that stores with a tool
        tools = LocalToolbox(ToolContext(memory=memory, root=SCOPE))
        answer = tools.call("memory_store", {"content": "User's door code is 4711"}).artifact
        print(f"known to the tool: {answer['duplicate_of'] == first.id}, facts: {memory.stats(SCOPE).facts}")
        # 3. what differs is stored, and what it may contradict is named: nothing is overwritten silently
        answer = tools.call("memory_store", {"content": "User's door code is 4712"}).artifact
        print("\n== nearly the same")
        print(f"near: {answer['near'][0]['content']}")
        print(answer["hint"])
        again_with_id = {"content": "User's door code is 4712", "replaces": answer["near"][0]["id"]}
        tools.call("memory_store", again_with_id)
        print("\n== replaced")
        for version in memory.history(first.id, scope=SCOPE):
            print(f"{version.fact}: {'holds' if version.invalid_at is None else 'held'}")


if __name__ == "__main__":
    main()
