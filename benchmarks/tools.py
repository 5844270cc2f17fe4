"""How much faster a batch of 100 is stored by ``memory_batch_store`` than by 100 calls of ``memory_store``.

Both write to a store on disk, each to one of its own, in turns; embedding costs next to nothing here, and nothing is
associated, so what is compared is the writing. Fails if the batch is less than five times as fast.

    python benchmarks/tools.py --rounds 5
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext

ITEMS: Final = 100
LEAST: Final = 5.0
"""So many times as fast the batch has to be."""


def _items(label: str) -> list[dict[str, object]]:
    return [
        {"content": f"{label}: the {number}th thing that was said about the garden", "auto_associate": False}
        for number in range(ITEMS)
    ]


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _store_singly(toolbox: LocalToolbox, items: list[dict[str, object]]) -> None:
    for item in items:
        assert not toolbox.call("memory_store", item).is_error


def _store_batch(toolbox: LocalToolbox, items: list[dict[str, object]]) -> None:
    assert toolbox.call("memory_batch_store", {"items": items}).artifact["stored_count"] == ITEMS


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=5)
    rounds = arguments.parse_args().rounds
    singly, batched = [], []
    with (
        tempfile.TemporaryDirectory() as directory,
        AgentMemory.open(Path(directory) / "single", embedder=HashEmbedder()) as one_by_one,
        AgentMemory.open(Path(directory) / "batch", embedder=HashEmbedder()) as at_once,
    ):
        single = LocalToolbox(ToolContext(memory=one_by_one, root="user/alice"))
        batch = LocalToolbox(ToolContext(memory=at_once, root="user/alice"))
        for number in range(rounds + 1):  # the first is for warming up
            items = _items(f"round {number}")
            took = _timed(lambda: _store_singly(single, items)), _timed(lambda: _store_batch(batch, items))  # noqa: B023
            if number:
                singly.append(took[0])
                batched.append(took[1])
    slow, fast = statistics.median(singly), statistics.median(batched)
    print(f"{ITEMS} memories, median of {rounds}: {slow * 1e3:.1f} ms one by one, {fast * 1e3:.1f} ms as a batch,")
    print(f"{slow / fast:.1f} times as fast")
    if slow < LEAST * fast:
        sys.exit(f"the batch is less than {LEAST:g} times as fast")


if __name__ == "__main__":
    main()
