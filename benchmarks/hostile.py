"""Bombs against a server, one after the other, beside an honest client that searches and writes all the time.

For each: what the server grows by at its highest (MB), how long the bomb takes, what it is answered, and the 95th
percentile of what the honest client waits, beside the same without a bomb. The honest client of an MCP server calls its
tools. The server may grow by 64 MB, and the honest
client may wait for a second; the program ends with 1 where it is more. All of it is on loopback and ends by itself.

    python benchmarks/hostile.py                       # HTTP and MCP, every bomb
    python benchmarks/hostile.py --only "deep JSON" --seconds 3
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeAlias

import hostile_bombs
import httpx
from hostile_bombs import BOMBS, MCP_TOKEN, TOKEN, Bomb, Target, status

COMMAND = str(Path(sys.executable).parent / "memory-retrievers")
EMBEDDER = ("--embedder", "memory_retrievers.testing:HashEmbedder")
MOST_MEGABYTES = 64
MOST_SECONDS = 1.0
WARM = 300
"""Requests of the honest client before anything is measured: a process grows by itself at first."""


Waits: TypeAlias = list[tuple[float, float, object]]
"""When each request was sent, how long it took, in seconds, and what was answered."""


@dataclass
class Honest:
    """A client in a process of its own that searches and writes, one request after the other."""

    address: str
    waits: Connection
    seen: Waits = field(default_factory=list)

    def p95(self, since: float) -> float:
        """Seconds, of the requests that were under way after a moment."""
        while self.waits.poll():
            self.seen.append(self.waits.recv())
        waited = [seconds for start, seconds, _ in self.seen if start + seconds >= since]
        return statistics.quantiles(waited, n=20)[18] if len(waited) > 1 else float("inf")


def work(address: str, waits: Connection) -> None:
    """What the honest client does until it is ended."""
    with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as client:
        for number in itertools.count():
            body: dict[str, object] = {"conversation_id": "user/honest"}
            path = "/api/v0/remember" if number % 5 == 0 else "/api/v0/retrieve_memory"
            if number % 5 == 0:
                body["facts"] = [{"fact": f"Fact {number}: the otter swims"}]
            else:
                body["query"] = f"Where does otter {number} swim?"
            start = time.perf_counter()
            answer = status(partial(client.post, path, json=body))
            waits.send((start, time.perf_counter() - start, answer))
            time.sleep(0.01)


def work_by_mcp(address: str, waits: Connection) -> None:
    """The same by MCP, in one session."""
    with hostile_bombs.client(address, MCP_TOKEN) as client:
        session = hostile_bombs.begun_session(client)
        for number in itertools.count():
            call = ("memory_store", {"content": f"Fact {number}: the otter swims"})
            if number % 5:
                call = ("memory_search", {"query": f"Where does otter {number} swim?"})
            start = time.perf_counter()
            answer = status(partial(hostile_bombs.called, client, session, *call))
            waits.send((start, time.perf_counter() - start, answer))
            time.sleep(0.01)


@contextmanager
def honest_client(address: str, does: Callable[[str, Connection], None]) -> Iterator[Honest]:
    ours, its = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=does, args=(address, its), daemon=True)
    process.start()
    try:
        yield Honest(address, ours)
    finally:
        process.kill()
        process.join()


@dataclass
class Highest:
    """The most memory a process has taken while it was looked at, in bytes."""

    pid: int
    bytes: int = 0
    end: threading.Event = field(default_factory=threading.Event)

    def work(self) -> None:
        while not self.end.wait(0.01):
            self.bytes = max(self.bytes, resident(self.pid))


def resident(pid: int) -> int:
    """Bytes of memory that a process has now, as Linux tells it."""
    pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


@dataclass(frozen=True)
class Row:
    """What a bomb did."""

    name: str
    megabytes: float
    seconds: float
    p95: float
    answers: str

    @property
    def good(self) -> bool:
        return self.megabytes <= MOST_MEGABYTES and self.p95 <= MOST_SECONDS


@contextmanager
def serving(command: Sequence[str], *, told: Callable[[subprocess.Popen[str]], str]) -> Iterator[tuple[int, str]]:
    """The number of a server's process, and its address."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own command
        try:
            yield process.pid, told(process)
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(40)
            process.kill()


def announced(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
    assert found is not None, "the server did not start"
    return found.group()


@contextmanager
def http_server(directory: Path) -> Iterator[tuple[int, str]]:
    tokens = directory / "tokens.txt"
    tokens.write_text(f"{TOKEN} read-write *\n", encoding="utf-8")
    command = [COMMAND, "serve", "--port", "0", "--store", str(directory / "store"), *EMBEDDER, "--tokens", str(tokens)]
    with serving([*command, "--requests-per-minute", "1000000000"], told=announced) as served:
        yield served


@contextmanager
def mcp_server(directory: Path) -> Iterator[tuple[int, str]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [COMMAND, "mcp", "--http", "--port", str(port), "--store", str(directory / "mcp"), *EMBEDDER]

    def listens(process: subprocess.Popen[str]) -> str:
        for _ in range(600):
            assert process.poll() is None, "the server has ended"
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return f"http://127.0.0.1:{port}"
            time.sleep(0.1)
        raise AssertionError("the server does not listen")

    with serving([*command, "--scope", "user/honest", "--token", MCP_TOKEN], told=listens) as served:
        yield served


@contextmanager
def watching(highest: Highest) -> Iterator[None]:
    thread = threading.Thread(target=highest.work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        highest.end.set()
        thread.join()


def measured(bomb: Bomb, target: Target, honest: Honest, *, pid: int, seconds: float) -> Row:
    """Throw a bomb, and look at the server until it is over, and some seconds more."""
    before, start = resident(pid), time.perf_counter()
    highest = Highest(pid, before)
    with watching(highest):
        answers = bomb.throw(target, seconds)
        took = time.perf_counter() - start
        time.sleep(1)
    told = ", ".join(f"{count}x {status}" for status, count in answers.most_common(4))
    return Row(bomb.name, (highest.bytes - before) / 1e6, took, honest.p95(start), told)


def run(bombs: Sequence[Bomb], *, mcp: bool, seconds: float) -> list[Row]:
    """All bombs against one server, beside an honest client of the same, line by line.

    Args:
        bombs: Those of this server.
        mcp: Which server.
        seconds: Of each flood.

    Returns:
        What each did.
    """
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pid, address = stack.enter_context((mcp_server if mcp else http_server)(directory))
        target = Target(address, address)
        if mcp:
            hostile_bombs.warm(target)
        honest = stack.enter_context(honest_client(address, work_by_mcp if mcp else work))
        while honest.p95(0) and len(honest.seen) < WARM:
            time.sleep(0.1)
        since = time.perf_counter()
        time.sleep(seconds)
        quiet = honest.p95(since)
        rows = []
        for bomb in bombs:
            rows.append(measured(bomb, target, honest, pid=pid, seconds=seconds))
            print(line(rows[-1]), flush=True)
    print(line(Row("(no bomb)", 0, seconds, quiet, f"the honest client: {answers_of(honest)}")), flush=True)
    return rows


def answers_of(honest: Honest) -> str:
    return ", ".join(f"{count}x {answer}" for answer, count in Counter(each[2] for each in honest.seen).items())


def line(row: Row) -> str:
    mark = "" if row.good else "  <- too much"
    return f"{row.name:<34}{row.megabytes:>9.1f}{row.seconds:>9.1f}{row.p95 * 1000:>9.0f}  {row.answers}{mark}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="a bomb's name; may be repeated")
    parser.add_argument("--seconds", type=float, default=5, help="of each flood")
    arguments = parser.parse_args()
    chosen = [bomb for bomb in BOMBS if arguments.only is None or bomb.name in arguments.only]
    if not chosen:
        parser.error(f"the bombs are {', '.join(bomb.name for bomb in BOMBS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the servers end with it
    print(f"{'bomb':<34}{'grows MB':>9}{'took s':>9}{'p95 ms':>9}  answered", flush=True)
    by_server = [([bomb for bomb in chosen if bomb.mcp == mcp], mcp) for mcp in (False, True)]
    rows = [row for bombs, mcp in by_server if bombs for row in run(bombs, mcp=mcp, seconds=arguments.seconds)]
    broken = [row.name for row in rows if not row.good]
    print(f"too much: {', '.join(broken)}" if broken else "all within the bounds")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
