"""What every tool answers at every level: how many bytes and tokens, how long it takes, and how much memory.

The tools work on a store on disk: a thousand notes that an agent has stored, the sample history with its episodes, and
a story. What a call writes is undone before the next, untimed. Sizes are the same in every run and stand in
``docs/tools.md``; embedding costs next to nothing here, so times are those of the tools and the store.

    python benchmarks/levels.py --rounds 50
    python benchmarks/levels.py --rounds 50 --bundled   # times with the bundled embedder
"""

from __future__ import annotations

import argparse
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from scene_story import CHAT_LENGTH, PRESENT, STORY
from sentences import statements
from timings import Timings

from memory_retrievers import AgentMemory, SemanticMemory
from memory_retrievers.evaluation.samples import load_history
from memory_retrievers.models import Origin, ResponseLevel
from memory_retrievers.testing import FixedClock, HashEmbedder
from memory_retrievers.tools.registry import REGISTRY, LocalToolbox
from memory_retrievers.tools.tool import ToolContext, ToolOutput

NOW: Final = datetime(2026, 3, 1, 9, tzinfo=UTC)
ROOT: Final = "user/ines"
NOTES: Final = 1_000
AT_WORK: Final = 10
"""So many of the notes are in the scope ``work``."""
QUESTION: Final = "Who moved from Lyon to Osaka?"
LEVELS: Final = tuple(ResponseLevel)

Arguments: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """A filled store, the notes that calls are about, and how many memories each scope holds."""

    memory: AgentMemory
    ids: Sequence[str]
    texts: Sequence[str]
    scopes: Mapping[str, int]

    def toolbox(self) -> LocalToolbox:
        return LocalToolbox(ToolContext(memory=self.memory, root=ROOT, allow_scopes=True))

    def calls(self) -> dict[str, Arguments]:
        """A call of every tool, the same for all levels."""
        one, two, *_ = self.ids
        long = statements(NOTES + 4, seed=1)[NOTES:]
        return {
            "retrieve_memory": {"query": "What caused E-4071?"},
            "context_pre_retrieve": {"query": "What caused E-4071?"},
            "recent_memory": {"limit": 5},
            "memory_store": {"content": long[0], "tags": ["people", "moves"]},
            "memory_search": {"query": QUESTION},
            "memory_get": {"id": one},
            "memory_update": {"id": one, "content": long[1]},
            "memory_delete": {"id": one},
            "memory_list": {"limit": 10},
            "memory_batch_store": {"items": [{"content": each} for each in long]},
            "memory_batch_update": {"updates": [{"id": one, "content": long[1]}, {"id": two, "content": long[2]}]},
            "memory_get_score": {"id": one},
            "memory_set_score": {"id": one, "score": 0.5},
            "memory_consolidate": {"memory_ids": [one, two]},
            "memory_manage": {"operation": "get", "memory_id": one},
            "memory_discover_associations": {"memory_id": one},
            "memory_move": {"memory_ids": [one, two], "target_scope": "archive"},
            "memory_list_all": {},
            "memory_sync": {"operation": "export", "scope": "work"},
            "scope_list": {},
            "scope_suggest": {"content": "Fix the bug in the search index before the deadline"},
            "session_manage": {"action": "create", "session_id": "planning"},
            "scene": {"chat_length": CHAT_LENGTH, "present": list(PRESENT), "scope": "story"},
        }

    def undo(self, name: str, output: ToolOutput) -> None:
        """Take back what a call has written."""
        told, (one, two, *_) = output.artifact, self.ids
        match name:
            case "memory_store":
                self._call("memory_delete", ids=[told["memory_id"]])
            case "memory_batch_store":
                self._call("memory_delete", ids=told["stored_ids"])
            case "memory_consolidate":
                self._call("memory_delete", ids=[told["consolidated_memory_id"]])
            case "memory_update" | "memory_batch_update":
                updates = [{"id": note, "content": text} for note, text in zip((one, two), self.texts, strict=False)]
                self._call("memory_batch_update", updates=updates)
            case "memory_delete":
                note = SemanticMemory.new(scope=ROOT, id=one, fact=self.texts[0], origin=Origin.TOOL)
                self.memory.manager.add([note])
            case "memory_move":
                self._call("memory_move", memory_ids=[one, two], target_scope=".")
            case "session_manage":
                self.memory.forget_scope(f"{ROOT}/session")

    def _call(self, tool: str, **arguments: object) -> None:
        output = self.toolbox().call(tool, arguments)
        if output.is_error:
            raise RuntimeError(output.content)


@contextmanager
def filled(directory: Path, *, bundled: bool = False) -> Iterator[Bench]:
    """A store in a directory, with what an agent might have in it."""
    embedder = None if bundled else HashEmbedder()
    with AgentMemory.open(directory, embedder=embedder, clock=FixedClock(NOW)) as memory:
        memory.remember_many(load_history(scope=ROOT, now=NOW))
        memory.add_scene_events(f"{ROOT}/story", [told.event for told in STORY])
        texts = statements(NOTES, seed=1)
        drafts = [
            SemanticMemory.new(
                scope=ROOT if number < NOTES - AT_WORK else f"{ROOT}/work",
                fact=text,
                origin=Origin.TOOL,
                tags=["people"],
            )
            for number, text in enumerate(texts)
        ]
        stored = memory.manager.add(drafts)
        yield Bench(memory, [note.id for note in stored], texts, memory.manager.scopes(root=ROOT))


Measured: TypeAlias = dict[str, dict[ResponseLevel, str]]
"""What a cell of a table shows, by tool and level."""


def estimate_tokens(text: str) -> int:
    """About how many tokens an answer costs: a quarter of its characters, at least one (specification §1.7).

    >>> estimate_tokens("Hello world"), estimate_tokens(""), estimate_tokens("x" * 400)
    (2, 1, 100)
    """
    return max(1, len(text) // 4)


def sizes(bench: Bench) -> Measured:
    """Bytes and estimated tokens of every answer; the same for every store that :func:`filled` makes."""

    def told(call: Callable[[], ToolOutput], undo: Callable[[ToolOutput], None]) -> str:
        output = call()
        undo(output)
        return f"{len(output.content.encode()):,} · {estimate_tokens(output.content):,}"

    return _of_each(bench, told)


def times(bench: Bench, *, rounds: int) -> Measured:
    """The middle time of so many calls in milliseconds, and the most memory that one call takes, in kB."""

    def told(call: Callable[[], ToolOutput], undo: Callable[[ToolOutput], None]) -> str:
        timings = Timings()
        for _ in range(rounds):
            kept: list[ToolOutput] = []
            timings.measure(lambda: kept.append(call()))  # noqa: B023 - called at once
            undo(kept[0])
        return f"{timings.p50:.2f} · {_peak(call, undo):,.0f}"

    return _of_each(bench, told)


def _peak(call: Callable[[], ToolOutput], undo: Callable[[ToolOutput], None]) -> float:
    tracemalloc.start()
    output = call()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    undo(output)
    return peak / 1_000


def _of_each(bench: Bench, told: Callable[[Callable[[], ToolOutput], Callable[[ToolOutput], None]], str]) -> Measured:
    toolbox = bench.toolbox()

    def answered(name: str, arguments: Arguments) -> ToolOutput:
        output = toolbox.call(name, arguments)
        if output.is_error:
            raise RuntimeError(f"{name}: {output.content}")
        return output

    measured: Measured = {}
    for name, arguments in bench.calls().items():
        measured[name] = {
            level: told(
                lambda: answered(name, arguments | {"response_level": str(level)}),  # noqa: B023 - called at once
                lambda output: bench.undo(name, output),  # noqa: B023
            )
            for level in LEVELS
        }
    return measured


def table(measured: Mapping[str, Mapping[ResponseLevel, str]]) -> str:
    """A Markdown table: a row for each tool, a column for each level."""
    rows = [f"| `{name}` | {' | '.join(of_it[level] for level in LEVELS)} |" for name, of_it in measured.items()]
    return "\n".join([f"| tool | {' | '.join(LEVELS)} |", f"|---|{'---:|' * len(LEVELS)}", *rows])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=50)
    arguments.add_argument("--bundled", action="store_true", help="embed with the bundled model")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as directory, filled(Path(directory), bundled=given.bundled) as bench:
        assert set(bench.calls()) == set(REGISTRY)
        print(f"bytes · tokens\n\n{table(sizes(bench))}\n")
        print(f"ms p50 of {given.rounds} · kB at most\n\n{table(times(bench, rounds=given.rounds))}")


if __name__ == "__main__":
    main()
