"""Kill a process that writes a memory, again and again, and count what was lost: it must be nothing.

Every process opens the store that the one before has left, compares it with the account of what was acknowledged, lets
the store compare ledger, postings and Chroma, searches, and goes on writing until it is killed at a random moment.
Several do so at once with ``--processes``, each in scopes of its own; what they have left is compared in the end.

    python benchmarks/soak.py --kills 200
    python benchmarks/soak.py --kills 200 --processes 4
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from crash.journal import Journal
from crash.process import Run, run

LONGEST = 0.8
"""Seconds that a process writes at most."""

MOST_SHOWN = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--processes", type=int, default=1, help="how many write at once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dense", choices=("auto", "exact", "chroma"), default="chroma")
    asked = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="soak-"))
    started, store = time.monotonic(), directory / "store"
    if asked.processes > 1:
        journal, runs = soaked_together(
            store, processes=asked.processes, kills=asked.kills, seed=asked.seed, dense=asked.dense
        )
    else:
        journal = Journal()
        runs = _soak(store, journal, kills=asked.kills, seed=asked.seed, dense=asked.dense)
    failed = _told(runs, journal, seconds=time.monotonic() - started)
    if failed:
        print(f"the store is kept for a closer look: {directory}")
    else:
        shutil.rmtree(directory)
    return int(failed)


def soaked_together(store: Path, *, processes: int, kills: int, seed: int, dense: str) -> tuple[Journal, list[Run]]:
    """Let several write one store at once, each below a scope of its own.

    Args:
        store: The directory of the store.
        processes: How many write at once.
        kills: How often one is killed, all together.
        seed: Decides what they write, and when they are killed.
        dense: The index that they use.

    Returns:
        The account of all of them, and their runs; the last one was alone and has compared everything.
    """
    journals = [Journal() for _ in range(processes)]

    def soak(number: int) -> list[Run]:
        own = f"p{number}"
        share = kills // processes + (number < kills % processes)
        return _soak(store, journals[number], kills=share, seed=seed, dense=dense, within=own)

    with ThreadPoolExecutor(processes) as threads:
        runs = [each for its_runs in threads.map(soak, range(processes)) for each in its_runs]
    joint = Journal()
    for journal in journals:
        joint.acknowledged |= journal.acknowledged
        joint.counts += journal.counts
    return joint, [*runs, run(store, "--seed", "0", "--dense", dense, "--searches", "1000", journal=joint)]


def _soak(store: Path, journal: Journal, *, kills: int, seed: int, dense: str, within: str = "") -> list[Run]:
    moments = random.Random(f"{seed} {within}")
    runs: list[Run] = []
    for number in range(1, kills + 1):
        options = ("--seed", str(seed * 100_000 + number), "--dense", dense, "--steps", "1000000", "--within", within)
        runs.append(run(store, *options, journal=journal, kill_after=moments.uniform(0, LONGEST)))
        if number % 20 == 0:
            print(f"{number} kills, {journal.counts.total():,} acknowledged", file=sys.stderr, flush=True)
    searches = "20" if within else "1000"
    runs.append(
        run(store, "--seed", "0", "--dense", dense, "--searches", searches, "--within", within, journal=journal)
    )
    return runs


def _told(runs: Sequence[Run], journal: Journal, *, seconds: float) -> bool:
    """Print the figures; True if anything is wrong."""
    lost = [problem for each in runs for problem in each.lost]
    disagreements = [problem for each in runs for problem in (*each.disagreements, *each.unfound)]
    # One that ends in any other way than it should has found something too.
    ended = [each for each in runs if each.exitcode != (0 if "finished" in each.said else -signal.SIGKILL)]
    counts = journal.counts
    rows = {
        "kills": sum(each.exitcode == -signal.SIGKILL for each in runs),
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
