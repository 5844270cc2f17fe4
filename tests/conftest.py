"""What most tests start from: a clock that stands still, a memory that needs no model, a guard of the event loop."""

import contextlib
import functools
import gc
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from blockbuster import BlockBusterFunction, blockbuster_ctx
from hypothesis import HealthCheck
from hypothesis import settings as property_settings
from patience import until
from ports import free_port

from memory_retrievers import AgentMemory, RetrievalSettings, SceneEvent, SemanticMemory
from memory_retrievers.backends.embeddings import minilm
from memory_retrievers.models import EpisodicMemory, MemoryKey
from memory_retrievers.models.management import Association, AssociationType
from memory_retrievers.models.scenes import SceneDetails
from memory_retrievers.testing import FixedClock, HashEmbedder

from .chromium import browser  # noqa: F401 - a fixture
from .quick import keep_quick, pytest_addoption, pytest_configure, pytest_ignore_collect  # noqa: F401 - hooks

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what goes on beside it; programs inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as nohup does
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

pytest.register_assert_rewrite("contracts")  # a failing assert of a suite shows what it compared, as in a test

# No test is timed by the clock: a machine that does other work fails no property. And each run tries the same examples,
# so that none fails by luck; `--hypothesis-profile=exploring` tries others.
property_settings.register_profile(
    "untimed",
    property_settings.default,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
property_settings.register_profile(
    "exploring",
    property_settings.get_profile("untimed"),
    derandomize=False,
    database=property_settings.default.database,
)
property_settings.load_profile("untimed")

NOW = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)

ON_POSTGRES = os.environ.get("MEMORY_BACKEND", "disk") == "postgres"
"""Whether the memories live on a server: make test-postgres."""


MEASURED = {("sqlite_bm25", "exact"), ("rank_bm25", "chroma")}
"""Of the pairs of engines, those whose runs count as coverage: each engine once."""


AHEAD = {Path(__file__).parent / "window" / "test_large.py"}
"""Files whose tests share what takes half a minute to make. At the end of a run the workers divide what is left test by
test, so that each would make it: these come first, where a worker takes hundreds of tests at once."""


def pytest_collection_modifyitems(config, items):
    """Tests of the embedded store stay away while all memories are on a server.

    Counting the lines that run doubles the time, so it is left out where quicker tests run the same ones.
    """
    items.sort(key=lambda item: item.path not in AHEAD)
    if ON_POSTGRES:
        embedded = [item for item in items if item.get_closest_marker("embedded")]
        config.hook.pytest_deselected(items=embedded)
        items[:] = [item for item in items if item not in set(embedded)]
    if config.getoption("quick"):
        keep_quick(config, items)
    for item in items:
        given = item.callspec.params if hasattr(item, "callspec") else {}
        engines = given.get("keyword"), given.get("dense")
        if item.get_closest_marker("slow") or (None not in engines and engines not in MEASURED):
            item.add_marker("no_cover")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """A file of tests is searched for examples of doctest where there can be one: a second for nothing otherwise."""
    found = yield
    return [each for each in found if type(each).__name__ != "DoctestModule" or b">>>" in each.path.read_bytes()]


def pytest_collection():
    """What is imported stays: to look for garbage in it takes a fifth of the time."""
    gc.disable()


def pytest_collection_finish():
    """What has been imported stays, with what importing left: no garbage collection walks through it, a second each time."""
    gc.freeze()
    gc.enable()


BATCHES_KEPT = 500


@pytest.fixture(scope="session", autouse=True)
def embedded_once():
    """What the bundled model gave for a batch is given for the same batch again: fixtures tell the same over and over.

    The model itself is kept, which would go with the last memory that is closed, and be loaded anew for the next test.
    """
    model, known, kept = minilm._Model, {}, []
    run = model.run

    @functools.wraps(run)
    def given(self, batch):
        asked = self._directory, tuple(map(tuple, batch))
        if not kept and self._directory == minilm.MODEL_DIRECTORY:
            kept.append(self)
        if (found := known.get(asked)) is None:
            if len(known) >= BATCHES_KEPT:
                known.clear()
            found = known[asked] = run(self, batch)
            for each in found:
                each.flags.writeable = False  # nobody changes what others are given
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "run", given)
        yield


@pytest.fixture
def clock():
    return FixedClock(NOW)


@pytest.fixture(params=["sqlite_bm25"] if ON_POSTGRES else ["sqlite_bm25", "rank_bm25"])
def keyword(request):
    return request.param


@pytest.fixture(params=["exact"] if ON_POSTGRES else ["exact", "chroma"])
def dense(request):
    return request.param


@pytest.fixture
def memory(clock, keyword, dense):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, keyword=keyword, dense=dense) as memory:
        yield memory


@pytest.fixture
def reference_memory(clock, keyword, dense):
    settings = RetrievalSettings.reference()
    with AgentMemory.in_memory(
        embedder=HashEmbedder(), clock=clock, keyword=keyword, dense=dense, retrieval=settings
    ) as memory:
        yield memory


@pytest.fixture
def no_blocking():
    """Blocking the event loop from within the package raises."""
    gc.collect()  # memories that other tests have dropped are closed now, and not when nothing may block
    with blockbuster_ctx("memory_retrievers") as found:
        # it measures which lines run, and waits for another thread that comes to a new file
        found.functions["threading.Lock.acquire"].can_block_in("coverage/collector.py", "lock_data")
        if ON_POSTGRES:
            import postgres_memories

            waiting = BlockBusterFunction(postgres_memories.SharedPool, "getconn", scanned_modules="memory_retrievers")
            waiting.activate()
            yield
            waiting.deactivate()
        else:
            yield


@contextlib.contextmanager
def running_chroma(directory):
    """A Chroma server on a free loopback port; gives the port."""
    with chroma_process(directory) as (_, port):
        yield port


@contextlib.contextmanager
def chroma_process(directory):
    """A Chroma server's process and port."""
    port = free_port()
    command = [Path(sys.executable).parent / "chroma", "run", "--path", directory, "--host", "127.0.0.1"]
    with subprocess.Popen(
        [*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            until(lambda: process.poll() is not None or _is_listened_at(port), "the start of Chroma")
            assert process.poll() is None, "the server ended"
            yield process, port
        finally:
            process.terminate()


def _is_listened_at(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def chroma_client_of(port):
    """A client of a server, closed to the last socket."""
    import chromadb

    from memory_retrievers.backends.chroma.clients import close_client

    client = chromadb.HttpClient("127.0.0.1", port)
    try:
        yield client
    finally:
        close_client(client)


@pytest.fixture
def start_chroma(socket_enabled):
    """Starts Chroma servers in directories and gives the port of each, in ``with`` statements."""
    return running_chroma


@pytest.fixture
def mute_chroma(socket_enabled, tmp_path):
    """A client of a Chroma server, and what makes that server answer nobody within a ``with`` statement."""
    with chroma_process(tmp_path / "server") as (process, port), chroma_client_of(port) as client:

        @contextlib.contextmanager
        def mute():
            process.send_signal(signal.SIGSTOP)
            try:
                yield
            finally:
                process.send_signal(signal.SIGCONT)

        yield client, mute


@pytest.fixture
def run_chroma(socket_enabled):
    """Starts Chroma servers in directories and gives a client of each, in ``with`` statements."""

    @contextlib.contextmanager
    def run(directory):
        with running_chroma(directory) as port, chroma_client_of(port) as client:
            yield client

    return run


@pytest.fixture(scope="session")
def lasting():
    """What is started at its first use and ends with the tests."""
    with contextlib.ExitStack() as stack:
        stack.started = {}
        yield stack


@pytest.fixture
def chroma_client(lasting, socket_enabled, tmp_path_factory):
    """A client of a Chroma server that all tests share; each uses collections of its own."""
    if "chroma" not in lasting.started:
        port = lasting.enter_context(running_chroma(tmp_path_factory.mktemp("chroma")))
        lasting.started["chroma"] = lasting.enter_context(chroma_client_of(port))
    return lasting.started["chroma"]


@pytest.fixture(scope="session")
def postgres_server():
    """A PostgreSQL server that all tests of a worker share."""
    import psycopg_pool.base
    from postgres_server import CARELESS, running_postgres

    psycopg_pool.base.random = random.Random().random  # hypothesis wants the module's generator to itself
    with running_postgres(settings=CARELESS) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server):
    """The address of an empty PostgreSQL database."""
    with postgres_server.lent() as url:
        yield url


if ON_POSTGRES:  # make test-postgres

    @pytest.fixture(scope="session", autouse=True)
    def postgres_memories_of_all(postgres_server):
        """Every memory that is opened, on disk or in memory, is on the server."""
        import postgres_memories

        memories = postgres_memories.PostgresMemories(postgres_server)
        with memories.in_place():
            yield memories

    @pytest.fixture(autouse=True)
    def postgres_memories_of_test(postgres_memories_of_all):
        """What a test's directories held is gone after it."""
        yield
        postgres_memories_of_all.end()


@pytest.fixture(scope="session")
def tool_examples():
    """Calls of every tool that succeed on what ``stock`` stores: (tool, name of the case, arguments)."""
    return json.loads((Path(__file__).parent / "tools" / "examples.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def stock():
    """Stores what an agent might have stored: m1 to m4 in a scope, s1, w1 and the story of g1 and g2 below it."""

    def stock(memory, scope):
        manager = memory.manager
        drafts = [
            _note(scope, "m1", "Nightly backups run at 02:00 and are kept for thirty-five days", days=4, tags=["ops"]),
            _note(
                scope, "m2", "Nightly backups of the wiki run at 04:00", days=3, tags=["ops", "wiki"], tier="working"
            ),
            _note(scope, "m3", "The wiki is read only on Sundays", days=2, tags=["wiki"]),
            _note(scope, "m4", "def restore(backup): ...", days=1, content_type="code"),
            _note(f"{scope}/session/old", "s1", "The old session was about the budget", days=20),
            _note(f"{scope}/work", "w1", "The office has backups of every key", days=5, category="guideline"),
        ]
        manager.add(drafts)
        memory.add_scene_events(f"{scope}/story", _STORY)
        first, second = (manager.find(id, root=scope, scope=scope) for id in ("m1", "m2"))
        manager.associate(
            [
                Association(
                    source=MemoryKey(scope=first.scope, id=first.id),
                    target=MemoryKey(scope=second.scope, id=second.id),
                    type=AssociationType.SEMANTIC,
                    strength=0.75,
                    auto_generated=True,
                    created_at=NOW,
                )
            ]
        )

    return stock


@pytest.fixture(scope="session")
def scene_episode():
    """Makes an episode as the store hands it out, with what a test cares about of its scene."""
    count = itertools.count(1)

    def make(summary="Something happened", *, id=None, **scene):
        times = dict.fromkeys(("created_at", "updated_at", "start_at", "end_at", "last_reviewed_at"), NOW)
        details = SceneDetails(**scene)
        return EpisodicMemory(
            scope="story",
            id=id or f"e{next(count)}",
            summary=summary,
            stability=1,
            difficulty=5,
            scene=details,
            **times,
        )

    return make


_STORY = [
    SceneEvent(
        id="g1", summary="Oren hid the old key below the floor", importance=5, message_ids=[3, 4], is_secret=True,
        characters_involved=["Oren"], emotional_impact={"Oren": "afraid"}, location="the mill",
    ),
    SceneEvent(
        id="g2", summary="Mara came back from the city", importance=2, message_ids=[51],
        characters_involved=["Mara", "Oren", "Tilda"], emotional_impact={"Mara": "glad", "Oren": "ashamed"},
    ),
]  # fmt: skip


def _note(scope, id, fact, *, days, **fields):
    created_at = NOW - timedelta(days=days)
    return SemanticMemory.new(scope=scope, id=id, fact=fact, created_at=created_at, origin="tool", **fields)
