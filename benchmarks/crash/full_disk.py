"""Fills the disk that a store is on, and goes on when there is space again; says at the end what it saw.

The disk is full for real: a small file system of its own where the system lets us mount one, and otherwise a limit on
the size of files that the system enforces.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crash.writer import opened
from memory_retrievers import AgentMemory, MemoryRetrieversError

BALLAST = 1_500_000
ROOM = 500_000
"""Bytes by which the largest file may still grow."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--full", choices=("file system", "file size"), required=True)
    parser.add_argument("--dense", choices=("exact", "chroma"), default="exact")
    asked = parser.parse_args()
    fill, relieve = (_ballast if asked.full == "file system" else _limit)(asked.directory)
    store = asked.directory / "store"
    saw: dict[str, Any] = {"before": [], "errors": [], "after": []}
    with opened(store, dense=asked.dense) as memory:
        _add(memory, saw["before"], count=20)
        saw["found before"] = _found(memory)
        fill()
        for _ in range(3):
            saw["errors"] += _errors(lambda: _add(memory, saw["before"], count=100_000))
        saw["found while full"] = _found(memory)
        saw["errors of purges"] = _errors(memory.purge) + _errors(memory.purge)
        relieve()
        _add(memory, saw["after"], count=20)
        memory.purge()
        saw["held"] = sorted(each.id for each in memory.list("c1", limit=1000).memories)
        saw["problems"] = memory.verify().problems
    with opened(store, dense=asked.dense) as memory:
        saw["found after"] = _found(memory)
        saw["held again"] = sorted(each.id for each in memory.list("c1", limit=1000).memories)
        saw["problems"] += memory.verify().problems
    print(json.dumps(saw))


def _errors(act: Callable[[], None]) -> list[tuple[list[str], str]]:
    """The error that it raises, as the names of its classes and its message, or none."""
    try:
        act()
    except MemoryRetrieversError as error:
        return [([kind.__name__ for kind in type(error).__mro__], str(error))]
    return []


_numbers = itertools.count()


def _add(memory: AgentMemory, acknowledged: list[str], *, count: int) -> None:
    for _ in range(count):
        text = f"User likes tea {next(_numbers)} {'x' * 3000}"  # what is told twice is stored once
        acknowledged.append(memory.remember_fact(scope="c1", fact=text).id)


def _found(memory: AgentMemory) -> int:
    return len(memory.retrieve("tea", scope="c1", semantic_limit=1000).semantic)


def _ballast(directory: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    """A file that takes most of the space; the store then fills what is left."""
    ballast = directory / "ballast"

    def fill() -> None:
        ballast.write_bytes(bytes(BALLAST))

    return fill, ballast.unlink


def _limit(directory: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    """No file may grow beyond a size: a write fails, as on a full disk. Python ignores the signal that comes along."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill() -> None:
        largest = max(file.stat().st_size for file in directory.rglob("*") if file.is_file())
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest + ROOM, before[1]))

    return fill, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before)


def mounted(directory: Path, *, megabytes: int, command: list[str]) -> list[str]:
    """The command, with a small file system mounted on the directory for it alone; it needs no root."""
    mount = f'mount -t tmpfs -o size={megabytes}m crash "$0" && exec "$@"'
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, str(directory), *command]


def can_mount(directory: Path) -> bool:
    """Whether the system lets us."""
    try:
        command = mounted(directory, megabytes=1, command=["true"])
        return subprocess.run(command, check=False, capture_output=True).returncode == 0  # noqa: S603 - our own
    except OSError:
        return False


if __name__ == "__main__":
    main()
