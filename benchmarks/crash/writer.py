"""Opens a store, reports what it finds, and then writes, or keeps the store, until it is killed or done.

What it says goes through a pipe, as JSON objects: ``found`` and ``problems`` first, then ``ready``, then ``begin`` and
``done`` around every change, the report again if anything was done, and ``finished``.
"""

from __future__ import annotations

import argparse
import json
import random
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from crash import report
from crash.faults import KillAt
from crash.journal import record_of
from crash.operations import Operations, Say
from memory_retrievers import AgentMemory, RetrievalSettings
from memory_retrievers.models import AnyMemory
from memory_retrievers.storage.options import DenseEngine
from memory_retrievers.testing import FixedClock, HashEmbedder

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
DIMENSION = 64
MANY = 1_100
"""More than a batch of what is fed to a projection, and so many that Chroma writes its index to files."""


def opened(store: Path, *, dense: DenseEngine = "auto", clock: FixedClock | None = None) -> AgentMemory:
    """The store as all of these programs open it: no scope is so small that ``auto`` would leave Chroma alone.

    Ranks are those of the indexes themselves, as the reference profile tells them.
    """
    settings = RetrievalSettings.reference().model_copy(update={"exact_limit": 0})
    return AgentMemory.open(store, embedder=HashEmbedder(DIMENSION), clock=clock, dense=dense, retrieval=settings)


def run(arguments: Sequence[str], output: Connection) -> None:
    """Be the writer: see the arguments below, and ``crash.process`` for who reads the output."""

    def say(line: dict[str, Any]) -> None:
        output.send_bytes(json.dumps(line).encode())

    try:
        _run(_parsed(arguments), say)
    except BaseException:  # also a panic of native code
        say({"error": traceback.format_exc()})
        raise


def _run(asked: argparse.Namespace, say: Say) -> None:
    fault = KillAt.parse(asked.fault) if asked.fault else None
    if fault is not None:
        fault.lay()
        fault.live = asked.live == "opening"
    # Every process begins a day later than the one before: its seed counts them.
    clock = FixedClock(START + timedelta(days=asked.seed))
    with opened(asked.store, dense=asked.dense, clock=clock) as memory:
        held = _report(memory, asked, say)
        if fault is not None:
            fault.live |= asked.live == "ready"
        operations = Operations(
            memory,
            clock=clock,
            name=f"m{asked.seed}",
            random=random.Random(asked.seed),
            known=held,
            say=say,
            within=asked.within,
        )
        say({"ready": True})
        for _ in range(asked.steps):
            operations.step()
        if asked.act is not None:
            if fault is not None:
                fault.live = True
            _acts(memory, operations, asked.target, fault)[asked.act]()
            say({"acted": asked.act})
        if asked.steps or asked.act is not None:
            _report(memory, asked, say)
        say({"finished": True})


def _report(memory: AgentMemory, asked: argparse.Namespace, say: Say) -> list[AnyMemory]:
    held = report.contents(memory, within=asked.within)
    say({"found": [record_of(each) for each in held]})
    # Searched first, as a caller would: what a crash left over has to be made good by the search itself.
    say({"unfound": report.unfound(memory, held, searches=asked.searches, seed=asked.seed)})
    # Whether all parts agree is asked at rest, when nobody else writes.
    say({"problems": [] if asked.within else report.disagreements(memory, held)})
    return held


def _acts(
    memory: AgentMemory, operations: Operations, target: Path | None, fault: KillAt | None
) -> Mapping[str, Callable[[], object]]:
    def line(_done: int, _of: int) -> None:
        if fault is not None:
            fault.passes("within", "line")

    target = target or Path()
    return {
        "add": operations.add,
        "clear": operations.clear,
        "fill": lambda: operations.add_many(MANY),
        "retrieve": operations.retrieve,
        "purge": memory.purge,
        "rebuild sparse": lambda: memory.rebuild("sparse"),
        "rebuild dense": lambda: memory.rebuild("dense"),
        "backup": lambda: memory.backup(target),
        "export": lambda: memory.export(target, progress=line),
        "import": lambda: AgentMemory.import_(
            target, into=target.with_suffix(".store"), embedder=HashEmbedder(DIMENSION), progress=line
        ).close(),
    }


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dense", default="auto")
    parser.add_argument("--within", default="", help="write below this scope alone, beside others")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--searches", type=int, default=20)
    parser.add_argument("--fault", default=None, help="when:what:count, see faults.KillAt")
    parser.add_argument("--live", choices=("opening", "ready", "act"), default="ready", help="from when on it kills")
    parser.add_argument("--act", default=None, help="after the steps, one of these; see _acts")
    parser.add_argument("--target", type=Path, default=None)
    return parser.parse_args(arguments)
