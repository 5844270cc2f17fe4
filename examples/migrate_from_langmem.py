"""From langmem to a memory: every item of its LangGraph store becomes a fact, with its key, namespace and times.

Run it with ``python examples/migrate_from_langmem.py [export.json]``; it needs ``pip install memory-retrievers``. The
export is what the store gives, as a file: ``json.dump([item.dict() for item in store.search((), limit=10_000)],
file)``. An agent that is to keep langmem's tools gets ``MemoryStoreAdapter(memory, scope="langmem")`` for its store.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from memory_retrievers import AgentMemory, SemanticMemory
from memory_retrievers.models import Draft, Origin

SAMPLE = Path(__file__).parent / "exports" / "langmem.json"


def main(export: Path) -> None:
    """Take an export in, and ask it something."""
    items = json.loads(export.read_text(encoding="utf-8"))
    with AgentMemory.in_memory() as memory:  # or AgentMemory.open("./agent-memory"), to keep it
        stored = memory.remember_many([fact_of(item) for item in items], replace=True)  # a rerun adds nothing
        print(f"{len(stored)} memories in {', '.join(memory.scopes())}")
        for scope in memory.scopes():
            print(memory.context("Where does the user live, and what do they eat?", scope=scope).to_markdown())


def fact_of(item: dict[str, Any]) -> Draft:
    """An item as a fact; its namespace becomes the scope, in which a slash within a label does not make a path."""
    kind = item["value"].get("kind")
    return SemanticMemory.new(
        scope="/".join(quote(label, safe="@:+ ") for label in item["namespace"]),
        id=item["key"],
        fact=text_of(item["value"].get("content", item["value"])),  # what others keep there is kept as it is
        tags=() if kind in {None, "Memory"} else (kind,),
        created_at=item["created_at"],
        updated_at=item["updated_at"],
        origin=Origin.IMPORT,
    )


def text_of(content: str | dict[str, Any]) -> str:
    """What the tools store is text, what the background manager stores an object: a memory, or one of your schemas."""
    if isinstance(content, str):
        return content
    return str(content["content"]) if set(content) == {"content"} else json.dumps(content, ensure_ascii=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else SAMPLE)
