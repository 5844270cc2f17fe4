"""Children of a process that has a store open: forked, spawned, and as the workers of a server."""

import multiprocessing
import os
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from urllib.error import URLError

import pytest
from patience import A_LONG_TIME, PATIENCE, until
from ports import free_port

from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

PRELOADED = """
import os, sys
from memory_retrievers import AgentMemory, ConfigurationError
from memory_retrievers.testing import HashEmbedder
memory = AgentMemory.open(sys.argv[1], embedder=HashEmbedder())  # as an application that is loaded before the fork
memory.remember_fact(scope="c1", fact="said by the parent")
children = []
for worker in range(3):
    if not (child := os.fork()):
        try:
            memory.scopes()
        except ConfigurationError:
            own = AgentMemory.open(sys.argv[1], embedder=HashEmbedder())
        for n in range(20):
            own.remember_fact(scope="c1", fact=f"said by worker {worker}, {n}")
        own.close()
        sys.exit(0)
    children.append(child)
for n in range(20):
    memory.remember_fact(scope="c1", fact=f"said by the parent, {n}")
codes = [os.waitpid(child, 0)[1] for child in children]
print(codes, memory.stats().facts, memory.verify().ok, flush=True)
memory.close()
"""

IN_A_TRANSACTION = """
import os, sys
from memory_retrievers import AgentMemory, ConfigurationError
from memory_retrievers.testing import HashEmbedder, inside
memory = AgentMemory.open(sys.argv[1], embedder=HashEmbedder())
with inside(memory).store.transaction():
    if not (child := os.fork()):
        try:
            AgentMemory.open(sys.argv[1], embedder=HashEmbedder())
        except ConfigurationError as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
memory.remember_fact(scope="c1", fact="the parent goes on")
print(memory.stats().facts, flush=True)
"""


def remember(store, number):
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope="c1", fact=f"number {number}")
    return number


def output_of(code, *given):
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, given)],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_workers_of_a_preloaded_application_each_open_the_store_and_all_write(tmp_path):
    assert output_of(PRELOADED, tmp_path / "store") == "[0, 0, 0] 81 True\n"


def test_a_child_forked_inside_a_transaction_is_told_that_it_cannot_open_that_store(tmp_path):
    said, facts = output_of(IN_A_TRANSACTION, tmp_path / "store").splitlines()
    assert "was being read or written when this process was forked" in said
    assert "spawn" in said
    assert facts == "1"


WHILE_A_THREAD_OPENS = """
import os, sys, threading, time
from memory_retrievers import AgentMemory
from memory_retrievers.backends.sqlite.attachment import AttachedFile
from memory_retrievers.storage.store import MemoryStore
from memory_retrievers.testing import HashEmbedder

store, place = sys.argv[1], {"before its file": AttachedFile, "before its first reading": MemoryStore}[sys.argv[2]]
is_opening, is_forking = threading.Event(), threading.Event()
begin = place.__init__

def begin_slowly(self, *args, **kwargs):
    is_opening.set()
    is_forking.wait()
    time.sleep(0.5)  # the fork comes to the locks
    begin(self, *args, **kwargs)

def open_it():
    AgentMemory.open(store, embedder=HashEmbedder()).close()

place.__init__ = begin_slowly
thread = threading.Thread(target=open_it)
thread.start()
is_opening.wait()
os.register_at_fork(before=is_forking.set)
if not (child := os.fork()):
    os._exit(0)
thread.join()
print(os.waitpid(child, 0)[1], flush=True)
"""


@pytest.mark.parametrize("place", ["before its file", "before its first reading"])
def test_a_fork_and_a_thread_that_is_opening_a_store_do_not_wait_for_each_other(tmp_path, place):
    assert output_of(WHILE_A_THREAD_OPENS, tmp_path / "store", place) == "0\n"


PREFORKED = """
import multiprocessing, sys
from memory_retrievers import AgentMemory, ConfigurationError
from memory_retrievers.testing import HashEmbedder
memory = AgentMemory.open(sys.argv[1], embedder=HashEmbedder())  # as a module does that the tasks are in
own = None

def begin():  # what Celery calls worker_process_init
    global own
    own = AgentMemory.open(sys.argv[1], embedder=HashEmbedder())

def task(number):
    try:
        memory.retrieve("tea", scope="c1")
    except ConfigurationError as error:
        assert "opened before a fork" in str(error), error
        own.remember_fact(scope="c1", fact=f"number {number}")
        return len(own.retrieve(f"number {number}", scope="c1").semantic) > 0

memory.remember_fact(scope="c1", fact="said by the parent")
memory.retrieve("tea", scope="c1")  # a snapshot is there, and the thread that watches it
with multiprocessing.get_context("fork").Pool(3, begin, maxtasksperchild=5) as pool:  # and others come for the done
    done = pool.map_async(task, range(30), chunksize=1)
    for n in range(10):
        memory.remember_fact(scope="c1", fact=f"said by the parent, {n}")
    print(all(done.get(60)), flush=True)
    pool.close()
    pool.join()
print(memory.stats().facts, memory.verify().ok, flush=True)
memory.close()
"""


def test_a_pool_of_forked_workers_that_are_replaced_writes_beside_its_parent(tmp_path):
    assert output_of(PREFORKED, tmp_path / "store") == "True\n41 True\n"


PRELOADED_APPLICATION = """
import os
from memory_retrievers import AgentMemory, ConfigurationError
from memory_retrievers.testing import HashEmbedder
memory = AgentMemory.open(os.environ["STORE"], embedder=HashEmbedder())  # in the master, before its workers are forked
memory.remember_fact(scope="c1", fact="said by the master")

def application(environ, start_response):
    global memory
    try:
        memory.scopes()
    except ConfigurationError:
        memory = AgentMemory.open(os.environ["STORE"], embedder=HashEmbedder())
    memory.remember_fact(scope="c1", fact="said for " + environ["PATH_INFO"])
    start_response("200 OK", [])
    return [str(os.getpid()).encode()]
"""


@pytest.mark.enable_socket
def test_workers_of_gunicorn_with_a_preloaded_application_all_write(tmp_path):
    pytest.importorskip("gunicorn")
    (tmp_path / "preloaded.py").write_text(PRELOADED_APPLICATION)
    port = free_port()
    command = [sys.executable, "-m", "gunicorn", "--preload", "--workers=3", f"--bind=127.0.0.1:{port}"]
    command += [f"--timeout={A_LONG_TIME}"]  # one that stood still is not killed
    environment = os.environ | {"STORE": str(tmp_path / "store")}
    server = subprocess.Popen([*command, "preloaded:application"], cwd=tmp_path, env=environment)

    def ask(path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=PATIENCE) as answer:
                return answer.read()
        except (ConnectionError, URLError):
            return None

    try:
        until(lambda: ask("first"))
        with ThreadPoolExecutor(6) as threads:
            workers = list(threads.map(ask, map(str, range(60))))
            until(
                lambda: workers.append(ask(str(len(workers)))) or len(set(workers)) > 1, "an answer of another worker"
            )
    finally:
        server.terminate()
        server.wait(PATIENCE)
    assert None not in workers
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder()) as memory:
        assert memory.stats().facts == 2 + len(workers)
        assert memory.verify().ok


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_pool_of_processes_writes_beside_its_parent(tmp_path, method):
    store = tmp_path / "store"
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert sorted(pool.starmap(remember, [(store, number) for number in range(6)])) == list(range(6))
        assert memory.stats().facts == 6
