"""When a request is sent again, and that nothing is ever done twice: the real server, behind a door that stumbles."""

import copy
import gzip
import os
import pickle
import socket
import subprocess
import sys
import tracemalloc

import pytest
from patience import PATIENCE, until

from memory_retrievers import Message
from memory_retrievers.errors import BackendError, ConfigurationError, ValidationError
from memory_retrievers.remote import RemoteMemory
from memory_retrievers.server.transport import Transport

ALICE = "user/alice"
SAID = [Message(role="user", content="Hello")]


class Stumbling:
    """Fails a number of requests in one way, then passes them on; notes the idempotency key of each."""

    def __init__(self, app):
        self.app, self.faults, self.keys, self.under_way = app, [], [], 0
        self.authorizations, self.clients = [], []

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        self.keys.append(dict(scope["headers"]).get(b"idempotency-key"))
        self.authorizations.append(dict(scope["headers"]).get(b"authorization"))
        self.clients.append(scope["client"])
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, bytes):
            await receive()
            await send(
                {"type": "http.response.start", "status": 200 + 300 * self.faults.count("failing"), "headers": []}
            )
            return await send({"type": "http.response.body", "body": fault})
        if isinstance(fault, int):
            await receive()
            headers = [(b"retry-after", b"3"), (b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": fault, "headers": headers})
            refusal = b'{"error":true,"error_type":"Busy","message":"come back"}'
            return await send({"type": "http.response.body", "body": refusal})
        if fault == "done, but never answered":

            async def lose(message):
                pass

            self.under_way += 1
            try:
                await self.app(scope, receive, lose)
            finally:
                self.under_way -= 1
            while (await receive())["type"] != "http.disconnect":
                pass
            return None
        return await self.app(scope, receive, send)


@pytest.fixture
def stumbling(guarded, serving):
    memory, app = guarded
    door = Stumbling(app)
    with serving(door) as url:
        yield door, url, memory


@pytest.fixture
def pauses(monkeypatch):
    pauses = []
    monkeypatch.setattr("memory_retrievers.server.transport._sleep", pauses.append)
    return pauses


@pytest.fixture
def remote(stumbling, pauses, tokens):
    with RemoteMemory(stumbling[1], tokens["writer"], timeout=PATIENCE, retries=2) as remote:
        yield remote


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_a_read_is_sent_again_while_the_server_is_busy_and_waits_as_long_as_it_says(stumbling, remote, pauses, status):
    stumbling[0].faults = [status, status]

    assert remote.retrieve("Lyon", scope=ALICE).semantic
    assert stumbling[0].keys == [None] * 3
    assert pauses == [3, 3]


@pytest.mark.parametrize(("fault", "timeout"), [(503, PATIENCE), ("done, but never answered", 2)], ids=str)
def test_a_write_is_sent_again_under_the_same_key_and_done_once(stumbling, tokens, monkeypatch, fault, timeout):
    door, url, memory = stumbling

    def sleep(_seconds):
        until(lambda: not door.under_way, "the end of the first attempt")

    monkeypatch.setattr("memory_retrievers.server.transport._sleep", sleep)
    with RemoteMemory(url, tokens["writer"], timeout=timeout, retries=20) as remote:
        door.faults = [fault]
        queued = remote.add_messages("c1", SAID)

        assert (queued.accepted, queued.queued) == (1, 1)
        assert memory.stats("c1").queued_messages == 1
        (first,) = set(door.keys)
        assert first
        assert len(door.keys) == 2 if timeout == PATIENCE else len(door.keys) >= 2  # a short one may pass once more
        remote.add_messages("c1", SAID)
        assert door.keys[-1] not in {None, first}


def test_a_write_whose_first_attempt_is_under_way_is_waited_for(stumbling, remote, pauses):
    stumbling[0].faults = [409]
    assert remote.add_messages("c1", SAID).queued == 1
    assert pauses == [3]

    stumbling[0].faults = [409]
    with pytest.raises(BackendError, match="come back"):
        remote.recent(ALICE)


def test_pauses_grow_where_the_server_does_not_name_one(pauses):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        silent = f"the memory server at {url} does not answer: ConnectError"
        with RemoteMemory(url, retries=3) as nobody, pytest.raises(BackendError, match=silent):
            nobody.recent(ALICE)

    assert pauses == [0.2, 0.4, 0.8]


def test_after_the_last_attempt_the_error_is_raised(stumbling, remote, pauses):
    stumbling[0].faults = [503] * 5
    with pytest.raises(BackendError, match="come back"):
        remote.recent(ALICE)
    assert len(pauses) == 2


def test_an_answer_that_does_not_come_is_not_waited_for_longer_than_the_timeout(stumbling, tokens):
    stumbling[0].faults = ["done, but never answered"]
    remote = RemoteMemory(stumbling[1], tokens["writer"], timeout=1, retries=0)
    with remote, pytest.raises(BackendError, match="timed out"):
        remote.recent(ALICE)


def test_what_is_wrong_is_not_sent_again(stumbling, remote, pauses):
    with pytest.raises(ValidationError):
        remote.recent(ALICE, days_limit=-1)
    stumbling[0].faults = [500]
    with pytest.raises(BackendError):
        remote.recent(ALICE)

    assert len(stumbling[0].keys) == 2
    assert pauses == []


def answering(body, *, status=200, headers=()):
    """Something that answers every request alike."""

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            while (message := await receive())["type"] != "lifespan.shutdown":
                await send({"type": f"{message['type']}.complete"})
            return await send({"type": "lifespan.shutdown.complete"})
        await send({"type": "http.response.start", "status": status, "headers": headers})
        return await send({"type": "http.response.body", "body": body})

    return app


@pytest.mark.parametrize(
    ("body", "problem"), [(b"<html>", "did not send JSON"), (b"[]", "JSON object"), (b"{}", "another version")]
)
def test_an_answer_of_something_else_is_one_clear_error(serving, body, problem):
    with serving(answering(body)) as url, RemoteMemory(url) as remote, pytest.raises(BackendError, match=problem):
        remote.retrieve("Lyon", scope=ALICE)


@pytest.mark.parametrize(
    ("layers", "problem"), [(1, "more than 128 MB"), (2, "not a memory server")], ids=["one layer", "two layers"]
)
@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_that_unpacks_to_more_than_any_is_read_no_further(serving, status, layers, problem):
    packed = gzip.compress(bytes(300 * 2**20), 1)
    body = packed if layers == 1 else gzip.compress(packed)
    encoding = b", ".join([b"gzip"] * layers)

    with (
        serving(answering(body, status=status, headers=[(b"content-encoding", encoding)])) as url,
        RemoteMemory(url, retries=0) as remote,
    ):
        tracemalloc.start()
        try:
            with pytest.raises(BackendError, match=problem):
                remote.retrieve("Lyon", scope=ALICE)
            assert tracemalloc.get_traced_memory()[1] < 280 * 2**20
        finally:
            tracemalloc.stop()


def test_a_packed_answer_is_read(stumbling, remote):
    door, send = stumbling[0].app, {}

    async def packing(scope, receive, send_on):
        async def pack(message):
            if message["type"] == "http.response.start":
                kept = [pair for pair in message["headers"] if pair[0] != b"content-length"]
                message = {**message, "headers": [*kept, (b"content-encoding", b"gzip")]}
            else:
                message = {**message, "body": gzip.compress(message["body"])}
            await send_on(message)

        send.update(scope["headers"])
        await door(scope, receive, pack)

    stumbling[0].app = packing

    assert remote.retrieve("Lyon", scope=ALICE).semantic
    assert send[b"accept-encoding"] == b"gzip"


def test_a_password_in_the_address_is_sent_and_told_nowhere(stumbling, tokens, caplog):
    door, url, _ = stumbling
    at = url.replace("//", "//ana:hush@")
    with caplog.at_level("INFO"), RemoteMemory(at, retries=0) as remote:
        door.faults = [b"<html>"]
        with pytest.raises(BackendError, match="not a memory server") as caught:
            remote.retrieve("Lyon", scope=ALICE)
    assert "hush" not in f"{caught.value} {caplog.text}"
    assert door.authorizations == [b"Basic YW5hOmh1c2g="]
    for address, token, problem in (
        (at, tokens["writer"], "share one header"),
        (f"{at}?x", None, "write it like http"),
        (url.replace("//", "//ana:12/hush@"), None, "write it like http"),
    ):
        with pytest.raises(ConfigurationError, match=problem) as caught:
            RemoteMemory(address, token)
        assert "hush" not in str(caught.value)


def test_a_deep_copy_is_closed_with_what_it_was_made_from(served, tokens):
    transport = Transport(served[1], token=tokens["writer"])
    copy.deepcopy(transport).close()
    with pytest.raises(ConfigurationError, match="closed"):
        transport.ask("/recent", {"conversation_id": ALICE})


def test_a_pickle_is_refused_with_what_to_do_and_no_text_form_has_the_token():
    for url, token in (("http://localhost:1/", "a-token-of-mine"), ("http://ana:hush@localhost:1", None)):
        memory = RemoteMemory(url, token)
        assert repr(memory) == repr(copy.copy(memory)) == "RemoteMemory('http://localhost:1')"
        with pytest.raises(pickle.PicklingError, match="make one where you unpickle"):
            pickle.dumps(memory)


def test_the_usual_timeout_is_ten_seconds(served, tokens):
    asked = []
    transport = Transport(served[1], token=tokens["writer"])
    request = transport._client().stream
    transport._client().stream = lambda *args, **given: asked.append(given["timeout"]) or request(*args, **given)
    try:
        transport.ask("/recent", {"conversation_id": ALICE})
        transport.ask("/profile", {"conversation_id": ALICE})
    finally:
        transport.close()

    assert asked == [10.0, 10.0]


@pytest.mark.parametrize("further", [[], ["failing"]], ids=["an answer", "a failure"])
def test_an_answer_that_nests_too_deeply_is_of_no_memory_server(stumbling, tokens, further):
    door, url, _ = stumbling
    with RemoteMemory(url, tokens["writer"], retries=0) as remote:
        door.faults[:] = [b"[" * 100_000, *further]
        with pytest.raises(BackendError, match="not a memory server"):
            remote.get("x", scope=ALICE)


@pytest.mark.parametrize("end", ["/", "/api/v0", "/api/v0/"])
def test_the_address_may_end_as_those_of_the_routes_begin(served, tokens, end):
    with RemoteMemory(f"{served[1]}{end}", tokens["writer"], retries=0) as remote:
        assert remote.now().tzinfo is not None


FORKING = """
import os, sys
from memory_retrievers.remote import RemoteMemory
remote = RemoteMemory(sys.argv[1])  # as an application that is loaded before the fork
remote.now()
if not (child := os.fork()):
    print(remote.now().year, remote.now().year, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(remote.now().year, flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_shares_no_connection_with_its_parent_which_would_get_its_answers(stumbling):
    door, url, _ = stumbling
    door.faults = [b'{"result": "%d-01-01T00:00:00Z"}' % year for year in (2001, 2002, 2003, 2004)]
    command = [sys.executable, "-c", FORKING, url.replace("//", "//ana:hush@")]

    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)

    assert (done.stdout.split(), done.stderr) == (["2002", "2003", "2004"], "")
    before, first, second, after = door.clients
    assert {before, after}.isdisjoint({first, second})  # one that idles for seconds is replaced
    assert set(door.authorizations) == {b"Basic YW5hOmh1c2g="}
