"""Several processes write one store, and some of them are killed: what was acknowledged is there, once."""

import collections
import queue
import signal
import subprocess
import sys
import threading

import pytest
import soak
from patience import PATIENCE

from memory_retrievers import AgentMemory
from memory_retrievers.backends.processes import attached
from memory_retrievers.testing import HashEmbedder, inside

ROUNDS = 25
KILLED_AT = 12
WITHOUT_END = 1_000_000
"""Rounds of one that is killed: it never comes to its end before."""

WRITE = """
import sys
from memory_retrievers import AgentMemory, Message
from memory_retrievers.testing import HashEmbedder
store, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
    memory.start_worker()
    for n in range(rounds):
        memory.remember_fact(scope="c1", fact=f"{name} has seen bird {n}", id=f"{name}-{n}")
        print(f"{name}-{n}", flush=True)
        found = memory.retrieve(f"{name} has seen bird {n}", scope="c1")
        assert f"{name}-{n}" in {hit.memory.id for hit in found.semantic}
        memory.add_messages("c2", [Message(role="user", content=f"{name} says {n} {m}") for m in range(4)])
        memory.update(f"{name}-{n}", scope="c1", fact=f"{name} has seen the bird {n}")
        if n % 5 == 4:
            memory.forget(f"{name}-{n - 4}", scope="c1")
            print(f"-{name}-{n - 4}", flush=True)
        memory.process_due("c2")
"""


class Writer:
    """A process that writes, and what it has acknowledged."""

    def __init__(self, store, name, said, *, rounds=ROUNDS):
        arguments = [sys.executable, "-c", WRITE, str(store), name, str(rounds)]
        self.name, self.said = name, said
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.said.put((self, line.strip()))
        self.said.put((self, None))

    def end(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()


@pytest.mark.parametrize("number", [2, 4])
def test_what_any_of_several_processes_has_acknowledged_is_there_once_whichever_is_killed(tmp_path, number):
    store, said = tmp_path / "store", queue.Queue()
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        doomed = [Writer(store, f"writer{n}", said, rounds=WITHOUT_END) for n in range(number // 2)]
        writers = doomed + [Writer(store, f"writer{n}", said) for n in range(number // 2, number)]
        there, forgotten, running, acknowledged = set(), set(), set(writers), collections.Counter()
        try:
            while running:
                writer, line = said.get(timeout=2 * PATIENCE)
                if line is None:
                    running.discard(writer)
                    continue
                (forgotten if line.startswith("-") else there).add(line.removeprefix("-"))
                acknowledged[writer] += 1
                if writer in doomed and acknowledged[writer] == KILLED_AT:
                    writer.process.send_signal(signal.SIGKILL)
                    writers.append(Writer(store, f"{writer.name}-again", said))
                    running.add(writers[-1])
            codes = [writer.process.wait(PATIENCE) for writer in writers]
        finally:
            for writer in writers:
                writer.end()
        assert sorted(codes) == [-signal.SIGKILL] * (number // 2) + [0] * number
        listed, cursor = [], None
        while True:
            page = memory.list("c1", cursor=cursor, limit=100)
            listed += [each.id for each in page.memories]
            if (cursor := page.cursor) is None:
                break
        assert len(listed) == len(set(listed))
        # of each that was killed, the last write or removal may be there without having been acknowledged
        gone = there - forgotten - set(listed)
        assert {each.rpartition("-")[0] for each in gone} <= {writer.name for writer in doomed}
        assert len(gone) <= number // 2
        assert not forgotten & set(listed)
        assert len(set(listed) - there) <= number // 2
        memory.process_due("c2")
        assert inside(memory).ledger.conversations.state("c2").leased_at is None
        told = [message.content for episode in memory.list("c2", limit=1000).memories for message in episode.messages]
        waiting = [each.message.content for each in inside(memory).ledger.conversations.head("c2", limit=10_000)]
        assert len(told + waiting) == len(set(told + waiting))
        wanted = {f"{writer.name} says {n} {m}" for writer in writers for n in range(ROUNDS) for m in range(4)}
        lost = wanted - set(told + waiting)
        assert {each.split()[0] for each in lost} <= {writer.name for writer in doomed}
        assert memory.verify().ok
        assert len([process for process in attached(store) if process.is_alive]) == 1
    assert attached(store) == []


@pytest.mark.parametrize("number", [2, 4])
def test_the_account_of_several_that_write_and_are_killed_at_once_is_whole(tmp_path, number):
    account, runs = soak.soaked_together(tmp_path / "store", processes=number, kills=2 * number, seed=1, dense="chroma")
    assert [each.error for each in runs if each.error] == []
    assert [each.exitcode for each in runs].count(-signal.SIGKILL) == 2 * number
    assert [each for one in runs for each in (*one.lost, *one.unfound, *one.disagreements)] == []
    assert runs[-1].exitcode == 0
    assert account.acknowledged
