"""Let processes use one directory as the windows of coding agents do, kill them, and count what was lost.

Half of them are MCP servers over standard input and output, the others applications. All write, search, segment
conversations and review; every two seconds one is killed (``kill -9``) and replaced. Nothing that was acknowledged may
be lost or doubled, no call be refused, and whatever one process has written or forgotten, the next to search must
know. Then the same number of processes writes as fast as it can, beside plain ``sqlite3`` writing the same rows.

Embedding is left out of all times: the embedder of the tests counts words.

    python benchmarks/windows.py --seconds 60
    python benchmarks/windows.py --seconds 60 --reembed --importing --purge
"""

from __future__ import annotations

import argparse
import random
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import fleet_account
import windows_rows
from crash.report import contents
from fleet_process import RATED, RATED_EPISODES, SCOPES
from windows_fleet import IMPORTED, OF_APPLICATIONS, OF_SERVERS, SOON, Account, Window
from windows_processes import GoneError, Library, Server, StuckError
from windows_worker import opened

from memory_retrievers import AgentMemory, EpisodicMemory
from memory_retrievers.storage.open import STORE_FILE

MOST_SHOWN: Final = 20
SLOWEST: Final = 3.0
"""A write takes at most so many times as long as plain sqlite3's, and so many times fewer are done."""
PACE: Final = 3
"""Writes a second of each process that does not write as fast as it can: nobody has to wait for long then."""
LONGEST_WAIT: Final = 60.0
"""Seconds that any call may take, whatever another process does meanwhile."""

WATCH: Final = """
    CREATE TABLE watched_reviews (id TEXT NOT NULL, scope_id INTEGER NOT NULL, at INTEGER);
    CREATE TRIGGER watched_review AFTER UPDATE ON memories
        WHEN (OLD.stability, OLD.difficulty, OLD.last_reviewed_at)
            IS NOT (NEW.stability, NEW.difficulty, NEW.last_reviewed_at)
        BEGIN INSERT INTO watched_reviews VALUES (NEW.id, NEW.scope_id, NULL); END;
    CREATE TRIGGER watched_moment AFTER INSERT ON events WHEN NEW.type = 'reviewed'
        BEGIN UPDATE watched_reviews SET at = NEW.at WHERE rowid = (SELECT max(rowid) FROM watched_reviews); END;
"""
"""The file itself counts the reviews it is told of, so that one too many is seen.

The moment of a review is its own, from the log of events: one that was overtaken, since its process had to wait, leaves
an episode the later moment of the other.
"""
REVIEWS: Final = (
    "SELECT s.scope, r.id, r.at, count(*) FROM watched_reviews r JOIN scopes s ON s.id = r.scope_id GROUP BY 1, 2, 3"
)


SHOWN: Final = (
    "calls",
    "messages",
    "facts",
    "updates",
    "forgotten",
    "reviews by hand",
    "reviews by conversation",
    "episodes",
)
"""Figures of ``fleet_account``."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a run is to be.

    Attributes:
        seconds: How long the processes work.
        processes: How many there are; half of them are MCP servers.
        kill_every: Seconds after which one of them is killed.
        beside: What further processes do without an end: ``reembed``, ``take in``, ``purge``.
        seed: Decides who is killed.
    """

    seconds: float = 60
    processes: int = 8
    kill_every: float = 2
    beside: tuple[str, ...] = ()
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run has shown.

    Attributes:
        figures: By name, for people.
        problems: One sentence each; there must be none.
    """

    figures: Mapping[str, str]
    problems: Sequence[str]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=Asked.seconds)
    parser.add_argument("--processes", type=int, default=Asked.processes)
    parser.add_argument("--kill-every", type=float, default=Asked.kill_every, help="seconds; 0 kills nobody")
    parser.add_argument("--reembed", action="store_true", help="one more process makes all vectors anew, all the time")
    parser.add_argument("--importing", action="store_true", help="one more takes in 500 memories at once")
    parser.add_argument("--purge", action="store_true", help="one more purges")
    parser.add_argument("--no-rates", action="store_true", help="leave the comparison with plain sqlite3 out")
    parser.add_argument("--seed", type=int, default=Asked.seed)
    given = parser.parse_args()
    beside = {"reembed": given.reembed, "take in": given.importing, "purge": given.purge}
    asked = Asked(
        seconds=given.seconds,
        processes=given.processes,
        kill_every=given.kill_every,
        beside=tuple(name for name, is_asked in beside.items() if is_asked),
        seed=given.seed,
    )
    directory = Path(tempfile.mkdtemp(prefix="windows-"))
    outcomes = [run(directory, asked)]
    if not given.no_rates:
        outcomes.append(rates(directory, processes=asked.processes, seconds=max(3.0, asked.seconds / 6)))
    problems = [problem for outcome in outcomes for problem in outcome.problems]
    for outcome in outcomes:
        for name, figure in outcome.figures.items():
            print(f"{name:<52}{figure:>12}")
    for problem in problems[:MOST_SHOWN]:
        print(f"- {problem}")
    if problems:
        print(f"{len(problems):,} promises broken; the store is kept for a closer look: {directory}")
    else:
        shutil.rmtree(directory)
    return int(bool(problems))


def run(directory: Path, asked: Asked) -> Outcome:
    """Let the processes work and die on a new store in a directory, and count at rest.

    Args:
        directory: Gets the store, and what the processes say on standard error.
        asked: How long and how many.
    """
    store = directory / "store"
    with opened(store) as memory:
        for number in range(RATED_EPISODES):
            memory.remember_episode(scope=RATED, summary=f"Visit {number}", id=f"rated-{number}")
    _watch_reviews(store)
    account, ending = Account(), threading.Event()
    windows = _windows(directory, asked, account, ending)
    kills = _worked(windows, asked, account, ending)
    problems = _flushed(store, directory)
    with closing(sqlite3.connect(store / STORE_FILE)) as connection:
        reviews = connection.execute(REVIEWS).fetchall()
    journals = [window.journal for window in windows]
    with opened(store) as memory:
        figures = fleet_account.told(journals, memory, reviews)
        at_rest = [*fleet_account.problems(memory, journals, reviews), *_doubled(memory, journals)]
    problems += at_rest
    if (longest := max(account.waited, *account.took.values(), 0.0)) > LONGEST_WAIT:
        problems.append(f"a call took {longest:.1f} s")
    problems += [*account.ended, *map("refused: {}".format, account.refused), *map("wrong: {}".format, account.wrong)]
    told = {"kills": f"{kills:,}"} | {name: f"{figures[name]:,}" for name in SHOWN}
    return Outcome(told | _of(account) | {"lost or doubled": f"{len(at_rest):,}"}, problems)


def rates(directory: Path, *, processes: int, seconds: float) -> Outcome:
    """Compare processes that only write with processes of plain sqlite3 that write the same rows.

    Args:
        directory: Gets the databases.
        processes: How many there are of each.
        seconds: How long they write at most.
    """
    ours, plain, fair = windows_rows.measured(directory / "rates", processes=processes, seconds=seconds)
    calm, plain_calm, _ = windows_rows.measured(directory / "paced", processes=processes, seconds=seconds, pace=PACE)
    slower, fewer = ours.p95 / plain.p95, plain.per_second / ours.per_second
    problems = []
    if slower > SLOWEST:
        problems.append(f"the p95 of a write is {slower:.1f} times that of plain sqlite3")
    if fewer > SLOWEST:
        problems.append(f"plain sqlite3 does {fewer:.1f} times as many writes a second")
    milliseconds = {
        "write alone, p50 (ms)": f"{ours.p50 * 1e3:.1f}",
        "write alone, p95 (ms)": f"{ours.p95 * 1e3:.1f}",
        "write alone, the longest (ms)": f"{ours.longest * 1e3:,.0f}",
        "plain sqlite3, p50 (ms)": f"{plain.p50 * 1e3:.1f}",
        "plain sqlite3, p95 (ms)": f"{plain.p95 * 1e3:.1f}",
        "plain sqlite3, the longest (ms)": f"{plain.longest * 1e3:,.0f}",
        "plain sqlite3 that takes turns, p95 (ms)": f"{fair.p95 * 1e3:.1f}",
        "processor time of a write (ms)": f"{ours.processor * 1e3:.2f}",
        "plain sqlite3, processor time of a write (ms)": f"{plain.processor * 1e3:.2f}",
    }
    figures = {
        "writes a second": f"{ours.per_second:,.0f}",
        "plain sqlite3, writes a second": f"{plain.per_second:,.0f}",
        "plain sqlite3 that takes turns, writes a second": f"{fair.per_second:,.0f}",
        "p95 beside plain sqlite3 (at most 3)": f"{slower:.2f}",
        "p95 beside plain sqlite3 that takes turns": f"{ours.p95 / fair.p95:.2f}",
        "writes a second beside plain sqlite3 (at least 0.33)": f"{1 / fewer:.2f}",
    }
    at_a_pace = {
        f"at {PACE} a second each, p95 (ms)": f"{calm.p95 * 1e3:.1f}",
        f"plain sqlite3 at {PACE} a second each, p95 (ms)": f"{plain_calm.p95 * 1e3:.1f}",
        f"p95 beside plain sqlite3 at {PACE} a second each": f"{calm.p95 / plain_calm.p95:.2f}",
    }
    return Outcome(milliseconds | figures | at_a_pace, problems)


def _windows(directory: Path, asked: Asked, account: Account, ending: threading.Event) -> list[Window]:
    store, windows = directory / "store", []
    for number in range(asked.processes):
        is_server = number < asked.processes // 2
        scope = SCOPES[1 + number % 2]
        start = partial(Server if is_server else Library, store, scope=scope, log=directory / f"{number}.log")
        windows.append(
            Window(
                f"p{number}",
                start,
                scopes=(scope,) if is_server else SCOPES,
                does=OF_SERVERS if is_server else OF_APPLICATIONS,
                account=account,
                ending=ending,
            )
        )
    for name in asked.beside:
        start = partial(Library, store, scope="", log=directory / f"{name}.log")
        letter = name[0]
        windows.append(Window(f"{letter}0", start, scopes=(IMPORTED,), does={name: 1}, account=account, ending=ending))
    return windows


def _worked(windows: Sequence[Window], asked: Asked, account: Account, ending: threading.Event) -> int:
    """Let them work; return how many processes were killed."""
    moments, kills = random.Random(asked.seed), 0
    for window in windows:
        window.start()
    for window in windows:
        while window.is_alive() and not window.ready.wait(0.1):
            pass  # a start is no call; one that hangs is told by the window, and ends it
    deadline = time.monotonic() + asked.seconds
    while (left := deadline - time.monotonic()) > 0:
        if not asked.kill_every or left <= asked.kill_every:
            time.sleep(left)
            break
        time.sleep(asked.kill_every)
        victim = moments.choice(windows).process
        if victim is not None and not victim.was_killed:
            victim.kill()
            kills += 1
    # A machine that does other work has the same done, later.
    latest = time.monotonic() + LONGEST_WAIT
    while not account.looked_after and time.monotonic() < latest:
        time.sleep(0.01)
    ending.set()
    for window in windows:
        window.join()
    return kills


def _flushed(store: Path, directory: Path) -> list[str]:
    """Make episodes of all that waits, in a process of its own: what the dead have held must be had at once."""
    process = Library(store, scope="", log=directory / "rest.log")
    problems = []
    try:
        for scope in SCOPES:
            answer = process.ask({"do": "flush", "scope": scope})
            if not answer["ok"]:
                problems.append(f"{scope} cannot be flushed: {answer['told']}")
    except (GoneError, StuckError) as error:
        problems.append(f"{scope} cannot be flushed, as if the dead still held it: {error!r}")
        process.kill()
    process.close()
    return problems


def _watch_reviews(store: Path) -> None:
    with closing(sqlite3.connect(store / STORE_FILE)) as connection:
        connection.executescript(WATCH)
    (store / f"{STORE_FILE}-sum").unlink(missing_ok=True)  # it was changed on purpose


def _doubled(memory: AgentMemory, journals: Sequence[Sequence[Mapping[str, Any]]]) -> list[str]:
    """Texts that are there twice, and imports that are not there as a whole or not at all."""
    texts = Counter(each.fact for each in contents(memory) if not isinstance(each, EpisodicMemory))
    problems = [f"{text!r} is there {count} times" for text, count in texts.items() if count > 1]
    for line in (line for journal in journals for line in journal if line["did"] == "take in"):
        there = sum(text in texts for text in line["texts"])
        if there != len(line["texts"]) and (line["ok"] or there):
            problems.append(f"of {len(line['texts'])} memories taken in at once, {there} are there")
    return problems


def _of(account: Account) -> dict[str, str]:
    figures = {}
    for name, kind in (("application", "Library"), ("MCP server, by its client", "Server")):
        times = sorted(account.seconds.get(f"{kind} fact", ()))
        if times:
            figures[f"write of an {name}, p50 (ms)"] = f"{windows_rows.part_of(times, 0.5) * 1e3:.1f}"
            figures[f"write of an {name}, p95 (ms)"] = f"{windows_rows.part_of(times, 0.95) * 1e3:.1f}"
    looked = sorted(account.looked_after)
    return figures | {
        "searches": f"{sum(len(account.seconds.get(f'{kind} search', ())) for kind in ('Library', 'Server')):,}",
        "writes that another process looked for": f"{len(looked):,}",
        "p95 from write to search (s)": f"{windows_rows.part_of(looked, 0.95):.2f}" if looked else "-",
        f"looked for later than {SOON:.0f} s": f"{sum(each > SOON for each in looked):,}",
        "longest call (s)": f"{account.waited:.1f}",
        **{f"longest {what} (s)": f"{seconds:.1f}" for what, seconds in sorted(account.took.items())},
        "refused": f"{len(account.refused):,}",
        "wrong answers": f"{len(account.wrong):,}",
        "processes that ended otherwise": f"{len(account.ended):,}",
    }


if __name__ == "__main__":
    sys.exit(main())
