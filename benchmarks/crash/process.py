"""Runs the writer in a process of its own, kills it, and keeps the account of what it acknowledged."""

from __future__ import annotations

import json
import multiprocessing
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from crash import writer
from crash.journal import Journal, Record

TIMEOUT: Final = 120
"""Seconds after which a process that does not end by itself is stuck, and killed."""

_processes = multiprocessing.get_context("forkserver")
# Every process begins with these imported, which takes longer than all that it does then. None of them starts a thread.
_processes.set_forkserver_preload(
    [
        *("crash.writer", "chromadb.api.rust", "fsrs", "rank_bm25"),
        *(f"memory_retrievers.backends.{name}" for name in ("chroma", "snapshot", "sqlite", "terms")),
        *(f"memory_retrievers.{name}" for name in ("memory.agent", "retrieval.ranking")),
    ]
)


_looking = threading.Lock()
"""Held by who looks how a process has ended: that is told once, and of two threads at once one would make it 255."""


@dataclass(frozen=True, slots=True)
class Run:
    """How a process of the writer went.

    Attributes:
        exitcode: 0 if it came to its end, -9 if it was killed, -11 if native code crashed.
        lost: What the store it found lacked, or had too much, by the account.
        unfound: What it did not find by searching, or should not have found.
        disagreements: Where the parts of the store it found said different things.
        interrupted: Whether it ended within a change, announced and not acknowledged.
        said: The names of all it said; ``problems`` is among them if it could look through the store.
        error: The exception that ended it.
    """

    exitcode: int | None
    lost: list[str]
    unfound: list[str]
    disagreements: list[str]
    interrupted: bool
    said: frozenset[str]
    error: str | None


def run(store: Path, *arguments: str, journal: Journal, kill_after: float | None = None) -> Run:
    """Let a writer open the store, report what it finds, and write until it is done or killed.

    Args:
        store: The directory of the store.
        arguments: For ``crash.writer``.
        journal: Compared with what is found, and kept up.
        kill_after: Kill it so many seconds after it was ready; None leaves it to itself.
    """
    lost: list[str] = []
    unfound: list[str] = []
    disagreements: list[str] = []
    said: Record = {}
    lines, output = _processes.Pipe(duplex=False)
    process = _processes.Process(target=writer.run, args=((str(store), *arguments), output))
    _start(process)
    output.close()
    killers = [threading.Timer(TIMEOUT, process.kill)]
    killers[0].start()
    with lines:
        for line in _read(lines):
            said |= line
            unfound += line.get("unfound", ())
            disagreements += line.get("problems", ())
            if "found" in line:
                lost += journal.differences(line["found"])
            elif "ready" in line and kill_after is not None:
                killers.append(threading.Timer(kill_after, process.kill))
                killers[-1].start()
            else:
                journal.take(line)
    _join(process)
    for killer in killers:
        killer.cancel()
        killer.join()
    exitcode = process.exitcode
    process.close()
    return Run(
        exitcode=exitcode,
        lost=lost,
        unfound=unfound,
        disagreements=disagreements,
        interrupted=journal.announced is not None and bool(journal.announced.expected),
        said=frozenset(said),
        error=said.get("error"),
    )


def execute(code: str, **names: object) -> tuple[int | None, list[Record]]:
    """Run Python in a process of its own, in which the package is imported already.

    Args:
        code: It tells objects by calling ``say``.
        names: What else is known to it.

    Returns:
        How it ended, -9 if it was killed, and what it told until then.
    """
    lines, output = _processes.Pipe(duplex=False)
    process = _processes.Process(target=_execute, args=(code, names, output))
    _start(process)
    output.close()
    killer = threading.Timer(TIMEOUT, process.kill)
    killer.start()
    with lines:
        said = list(_read(lines))
    _join(process)
    killer.cancel()
    killer.join()
    exitcode = process.exitcode
    process.close()
    return exitcode, said


def _start(process: BaseProcess) -> None:
    with _looking:  # a start also looks which of the others have ended
        process.start()


def _join(process: BaseProcess) -> None:
    connection.wait([process.sentinel])
    with _looking:
        process.join()


def _execute(code: str, names: dict[str, object], output: Connection) -> None:
    exec(code, {**names, "say": lambda line: output.send_bytes(json.dumps(line).encode())})  # noqa: S102 - a test's own


def _read(lines: Connection) -> Iterator[Record]:
    while True:
        try:
            yield json.loads(lines.recv_bytes())
        except (EOFError, OSError):  # also when the last line was cut off
            return
