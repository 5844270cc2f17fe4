"""From mem0 to a memory: every memory of an export becomes a fact, with its id, owner, times and metadata.

Run it with ``python examples/migrate_from_mem0.py [export.json]``; it needs ``pip install memory-retrievers``. The
export is what mem0 gives for each user, as a file: ``json.dump(mem0.get_all(filters={"user_id": "alice"},
top_k=10_000), file)``; the pages of its platform, ``client.get_all(...)``, have the same shape.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from memory_retrievers import AgentMemory, SemanticMemory
from memory_retrievers.models import Draft, Origin

SAMPLE = Path(__file__).parent / "exports" / "mem0.json"
OWNERS = {"user_id": "user", "agent_id": "agent", "run_id": "run"}
KEPT = ("agent_id", "run_id", "actor_id", "role")  # what else mem0 knows of a memory


def main(export: Path) -> None:
    """Take an export in, and ask it something."""
    results = json.loads(export.read_text(encoding="utf-8"))["results"]
    with AgentMemory.in_memory() as memory:  # or AgentMemory.open("./agent-memory"), to keep it
        stored = memory.remember_many([fact_of(result) for result in results], replace=True)  # a rerun adds nothing
        print(f"{len(stored)} memories in {', '.join(memory.scopes())}")
        for scope in memory.scopes():
            print(memory.context("Where does the user live, and what do they eat?", scope=scope).to_markdown())


def fact_of(result: dict[str, Any]) -> Draft:
    """A memory of mem0 as a fact of ours."""
    expires = result.get("expiration_date")  # the last day on which it is valid
    return SemanticMemory.new(
        scope=scope_of(result),
        id=result["id"],
        fact=result["memory"],
        tags=result.get("categories") or (),
        metadata=(result.get("metadata") or {}) | {key: result[key] for key in KEPT if result.get(key)},
        created_at=result.get("created_at"),
        updated_at=result.get("updated_at"),
        expires_at=datetime.fromisoformat(expires).replace(tzinfo=UTC) + timedelta(days=1) if expires else None,
        origin=Origin.IMPORT,
    )


def scope_of(result: dict[str, Any]) -> str:
    """Whose memory it is: ``user/alice``; a slash in an id does not make it a path."""
    key = next(key for key in OWNERS if result.get(key))
    return f"{OWNERS[key]}/{quote(result[key], safe='@:+ ')}"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else SAMPLE)
