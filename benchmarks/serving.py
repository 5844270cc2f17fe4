"""Many clients at one server: 32 of them read and write for some seconds, then once more until the server is killed.

What was acknowledged is compared with the store afterwards: nothing may be lost, nothing doubled, and while the server
lives no request may be refused or fail. Rate limits are off.

    python benchmarks/serving.py --clients 32 --seconds 20
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from memory_retrievers import AgentMemory, EpisodicMemory, SemanticMemory
from memory_retrievers.testing import HashEmbedder

COMMAND = (str(Path(sys.executable).parent / "memory-retrievers"), "serve", "--port", "0")
OPTIONS = ("--embedder", "memory_retrievers.testing:HashEmbedder", "--requests-per-minute", "1000000000")
SHARED = "team"


@dataclass
class Account:
    """What the clients sent and what was acknowledged."""

    sent: set[str] = field(default_factory=set)
    acknowledged: set[str] = field(default_factory=set)
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"remember": [], "add_message": [], "retrieve": []})
    unanswered: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def server(store: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own, and its address."""
    command = [*COMMAND, *OPTIONS, "--store", str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own command
        try:
            assert process.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
            assert found is not None, "the server did not start"
            yield process, found.group()
        finally:
            process.kill()


def work(number: int, address: str, account: Account, end: threading.Event) -> None:
    """One client: half of its requests write, in a scope of its own and in one that all share."""
    chance = random.Random(number)
    with httpx.Client(base_url=address, timeout=30) as client:
        count = 0
        while not end.is_set():
            count += 1
            scope = SHARED if chance.random() < 0.3 else f"user/{number}"
            name = f"{account.statuses.total()}-{number}-{count}"
            kind = chance.choice(("remember", "add_message", "retrieve", "retrieve"))
            body: dict[str, object] = {"conversation_id": scope}
            if kind == "remember":
                body["facts"] = [{"id": name, "fact": f"Fact {name} of client {number}"}]
            elif kind == "add_message":
                body["message"] = {"role": "user", "content": name}
            else:
                body["query"] = f"fact of client {number}"
            path = "/api/v0/retrieve_memory" if kind == "retrieve" else f"/api/v0/{kind}"
            if kind != "retrieve":
                with account.lock:
                    account.sent.add(name)
            start = time.perf_counter()
            try:
                status = client.post(path, json=body).status_code
            except httpx.HTTPError:
                with account.lock:
                    account.unanswered += 1
                if end.wait(0.2):
                    return
                continue
            with account.lock:
                account.seconds[kind].append(time.perf_counter() - start)
                account.statuses[status] += 1
                if kind != "retrieve" and status == httpx.codes.OK:
                    account.acknowledged.add(name)


def load(address: str, account: Account, *, clients: int, seconds: float, kill: subprocess.Popen[str] | None) -> None:
    end = threading.Event()
    threads = [threading.Thread(target=work, args=(number, address, account, end)) for number in range(clients)]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    if kill is not None:
        kill.kill()
    end.set()
    for thread in threads:
        thread.join()


def stored(store: Path) -> Counter[str]:
    """The names of all facts and messages in the store, with how often each is there."""
    names: Counter[str] = Counter()
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        assert memory.verify().problems == ()
        conversations = memory._store.ledger.conversations  # noqa: SLF001
        for scope in {*memory.scopes(), *conversations.scopes()}:
            names.update(each.message.content for each in conversations.waiting(scope, limit=10**6))
            cursor = None
            while True:
                page = memory.list(scope, cursor=cursor, limit=1000)
                names.update(fact.id for fact in page.memories if isinstance(fact, SemanticMemory))
                episodes = [episode for episode in page.memories if isinstance(episode, EpisodicMemory)]
                names.update(message.content for episode in episodes for message in episode.messages)
                if (cursor := page.cursor) is None:
                    break
    return names


def told(store: Path, account: Account, name: str) -> bool:
    """Print what became of it all; whether it is as it must be."""
    found = stored(store)
    lost, doubled = account.acknowledged - found.keys(), [each for each, times in found.items() if times > 1]
    print(f"{name}: {account.statuses.total():,} answers {dict(account.statuses)}, {account.unanswered} unanswered")
    for kind, seconds in account.seconds.items():
        p95 = statistics.quantiles(seconds, n=20)[18] if len(seconds) > 1 else float("nan")
        print(f"  {kind}: {len(seconds):,}, median {statistics.median(seconds) * 1000:.0f} ms, p95 {p95 * 1000:.0f} ms")
    print(f"  {len(account.acknowledged):,} writes acknowledged: {len(lost)} lost, {len(doubled)} doubled")
    strangers = found.keys() - account.sent
    return not (lost or doubled or strangers or account.statuses.keys() - {httpx.codes.OK})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory() as directory:
        for name, killed in (("steady", False), ("killed", True)):
            store, account = Path(directory) / name, Account()
            with server(store) as (process, address):
                seconds = arguments.seconds if not killed else arguments.seconds / 2
                load(address, account, clients=arguments.clients, seconds=seconds, kill=process if killed else None)
                if not killed:
                    process.terminate()
                    good = process.wait(60) == 0 and not account.unanswered and good
            good = told(store, account, name) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
