"""Kill a process that writes a memory, again and again, and count what was lost: it must be nothing.

Every process opens the store that the one before has left, compares it with the account of what was acknowledged, lets
the store compare ledger, postings and Chroma, searches, and goes on writing until it is killed at a random moment.

    python benchmarks/soak.py --kills 200
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from crash.journal import Journal
from crash.process import Run, run

LONGEST = 0.8
"""Seconds that a process writes at most."""

MOST_SHOWN = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dense", choices=("auto", "exact", "chroma"), default="chroma")
    asked = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="soak-"))
    started, journal = time.monotonic(), Journal()
    runs = _soak(directory / "store", journal, kills=asked.kills, seed=asked.seed, dense=asked.dense)
    failed = _told(runs, journal, seconds=time.monotonic() - started)
    if failed:
        print(f"the store is kept for a closer look: {directory}")
    else:
        shutil.rmtree(directory)
    return int(failed)


def _soak(store: Path, journal: Journal, *, kills: int, seed: int, dense: str) -> list[Run]:
    moments = random.Random(seed)
    runs: list[Run] = []
    for number in range(1, kills + 1):
        options = ("--seed", str(seed * 100_000 + number), "--dense", dense, "--steps", "1000000")
        runs.append(run(store, *options, journal=journal, kill_after=moments.uniform(0, LONGEST)))
        if number % 20 == 0:
            print(f"{number} kills, {journal.counts.total():,} acknowledged", file=sys.stderr, flush=True)
    runs.append(run(store, "--seed", "0", "--dense", dense, "--searches", "1000", journal=journal))
    return runs


def _told(runs: Sequence[Run], journal: Journal, *, seconds: float) -> bool:
    """Print the figures; True if anything is wrong."""
    lost = [problem for each in runs for problem in each.lost]
    disagreements = [problem for each in runs for problem in (*each.disagreements, *each.unfound)]
    # The last one is not killed; one that ends in any other way than it should has found something too.
    exits = [*[-signal.SIGKILL] * (len(runs) - 1), 0]
    ended = [each for each, exit_ in zip(runs, exits, strict=True) if each.exitcode != exit_]
    counts = journal.counts
    rows = {
        "kills": len(runs) - 1,
        "minutes": f"{seconds / 60:.1f}",
        "acknowledged writes (transactions)": counts["add"] + counts["add_many"],
        "acknowledged updates": counts["rewrite"] + counts["retouch"] + counts["invalidate"],
        "acknowledged deletes": counts["forget"] + counts["forget_scope"],
        "searches": counts["retrieve"],
        "changes in flight when killed": sum(each.interrupted for each in runs),
        "memories at the end": len(journal.acknowledged),
        "lost acknowledged writes": len(lost),
        "disagreements between the projections": len(disagreements),
        "processes that ended otherwise": len(ended),
    }
    for name, figure in rows.items():
        print(f"{name:<40}{figure if isinstance(figure, str) else format(figure, ','):>10}")
    for problem in [*lost, *disagreements, *(each.error or str(each.exitcode) for each in ended)][:MOST_SHOWN]:
        print(f"- {problem}")
    return bool(lost or disagreements or ended)


if __name__ == "__main__":
    sys.exit(main())
