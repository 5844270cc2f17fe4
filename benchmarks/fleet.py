"""Let processes write and read the same scopes of one server, kill the server meanwhile, and count what was lost.

It must be nothing: every acknowledged message is in one episode, every fact is as it was last told, every forgotten one
is gone, no review has counted twice, and every process goes on by itself when the server is back. What was under way
when the server died may be there or not. The server writes as durably as PostgreSQL does by default.

Whoever works on a queue takes a lease. That of a call that died with the server stays until it is too old, which is
two hours by default; here it is three seconds (``--lease-minutes``), so that the run comes to its end.

    python benchmarks/fleet.py --seconds 20 --processes 4
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import fleet_account
import fleet_process
from postgres_server import PostgresServer, running_postgres

MOST_SHOWN: Final = 20
LONGEST: Final = 90
"""Seconds that a process may take to end after it was told to; a connection is waited for 30 s."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--kills", type=int, default=1, help="how often the server is killed, evenly over the time")
    parser.add_argument("--lease-minutes", type=float, default=0.05)
    asked = parser.parse_args()
    with running_postgres() as server:
        figures, problems = run(
            server,
            seconds=asked.seconds,
            processes=asked.processes,
            kills=asked.kills,
            lease_minutes=asked.lease_minutes,
        )
    for name, figure in figures.items():
        print(f"{name:<40}{figure:>10,}")
    print(f"{'lost, doubled or out of order':<40}{len(problems):>10,}")
    for problem in problems[:MOST_SHOWN]:
        print(f"- {problem}")
    return int(bool(problems))


def run(
    server: PostgresServer,
    *,
    seconds: float,
    processes: int,
    kills: int,
    lease_minutes: float = 0.05,
    kinds: Collection[str] = (),
) -> tuple[dict[str, int], list[str]]:
    """Let a fleet work on a new database of the server, and give the figures and what is wrong.

    Args:
        server: Is killed with SIGKILL meanwhile, and started again.
        seconds: How long they work.
        processes: How many there are.
        kills: How often the server is killed, evenly over the time.
        lease_minutes: After which a lease is too old.
        kinds: They go on until each of these was done and a call has failed, as a slow machine may take longer.
    """
    name = server.create()
    url = server.url(name)
    with tempfile.TemporaryDirectory(prefix="fleet-") as directory:
        files = [Path(directory) / f"{number}.jsonl" for number in range(processes)]
        orders = [
            fleet_process.Orders(url=url, name=f"p{number}", journal=file, lease_minutes=lease_minutes)
            for number, file in enumerate(files)
        ]
        # 1. the tables, and episodes to be rated
        with fleet_process.connected(url, lease_minutes=lease_minutes) as memory:
            for number in range(fleet_process.RATED_EPISODES):
                memory.remember_episode(scope=fleet_process.RATED, summary=f"Visit {number}", id=f"rated-{number}")
        server.run(fleet_account.WATCH, database=name)
        # 2. they work, and the server dies now and then
        with _working(orders):
            for _ in range(kills):
                time.sleep(seconds / (kills + 1))
                server.kill()
            time.sleep(seconds / (kills + 1))
            deadline = time.monotonic() + LONGEST
            while kinds and not fleet_account.has_done(files, kinds) and time.monotonic() < deadline:
                time.sleep(0.1)
        # 3. at rest, everything is counted
        with fleet_process.connected(url, lease_minutes=lease_minutes) as memory:
            for scope in memory.waiting_scopes():
                memory.flush(scope)
            journals = fleet_account.read(files)
            reviews = server.run(fleet_account.REVIEWS, database=name)
            figures = {"kills": kills} | fleet_account.told(journals, memory, reviews)
            return figures, fleet_account.problems(memory, journals, reviews)


@contextmanager
def _working(orders: list[fleet_process.Orders]) -> Iterator[None]:
    """Processes of their own work until the end of the block."""
    context = multiprocessing.get_context("spawn")
    ready, begin, end = context.Semaphore(0), context.Event(), context.Event()
    members = [context.Process(target=fleet_process.run, args=(each, ready, begin, end)) for each in orders]
    for member in members:
        member.start()
    try:
        for _ in members:
            assert ready.acquire(timeout=LONGEST), "a process did not begin; its journal would say why"
        begin.set()
        yield
        end.set()
        for member in members:
            member.join(LONGEST)
            assert member.exitcode == 0, f"a process ended with {member.exitcode}"
    finally:
        for member in members:
            if member.is_alive():
                member.kill()
                member.join()
            member.close()


if __name__ == "__main__":
    sys.exit(main())
