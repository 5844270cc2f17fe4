"""A real server on loopback, and clients that take their time."""

import asyncio
import contextlib
import importlib.util
import re
import select
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import uvicorn
from patience import A_LONG_TIME, PATIENCE, until

from memory_retrievers.models.results import Report
from memory_retrievers.retrieval.results import RetrievalResult
from memory_retrievers.server import ServerSettings, app, create_app
from memory_retrievers.server.connections import configuration, listening
from memory_retrievers.server.requests import RequestContext
from memory_retrievers.server.settings import TrafficSettings

from .conftest import TOKENS, error_of, of_alice

pytestmark = pytest.mark.enable_socket

LINE = b"POST /api/v0/retrieve_memory HTTP/1.1\r\nHost: 127.0.0.1\r\n"
LIMITS = dict.fromkeys(("header_seconds", "body_seconds", "keep_alive_seconds"), A_LONG_TIME)
"""Those that a test does not name: what ends a connection can only be the limit that it names."""


class Running:
    """A server in a thread, and its port."""

    def __init__(self, server, port):
        self.port = port
        self._server = server

    @property
    def connections(self):
        """Those that it has taken and not ended."""
        return list(self._server.server_state.connections)

    def end(self):
        """Ask it to end, as a signal does."""
        self._server.should_exit = True

    @contextlib.contextmanager
    def standing_still(self):
        """Nothing is taken or read meanwhile: what is sent is all there before any of its limits begins."""
        stands, may_go_on = threading.Event(), threading.Event()

        def stand():
            stands.set()
            assert may_go_on.wait(PATIENCE)

        self._server.servers[0].get_loop().call_soon_threadsafe(stand)
        assert stands.wait(PATIENCE)
        try:
            yield
        finally:
            may_go_on.set()


@contextlib.contextmanager
def served(memory, **settings):
    """A server in a thread, as ``serve`` runs it."""
    chosen = ServerSettings(**{"worker": False, "requests_per_minute": None} | LIMITS | settings)
    server = uvicorn.Server(configuration(create_app(memory, settings=chosen), chosen, shutdown_seconds=1))
    with listening("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            until(lambda: server.started, "the start of the server")
            yield Running(server, listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()


@contextlib.contextmanager
def connected(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        yield connection


def asking(server):
    """A client that waits for its answers as long as it takes."""
    return httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=PATIENCE)


def end_of(connection, *, drip=b""):
    """What the server said until it ended a connection; a byte is sent every tenth of a second."""
    start, said = time.monotonic(), bytearray()  # of what may be many megabytes in a thousand pieces
    connection.settimeout(0.1)
    while time.monotonic() - start < PATIENCE:
        with contextlib.suppress(TimeoutError):
            try:
                piece = connection.recv(65_536)
            except ConnectionError:
                return bytes(said)
            if not piece:
                return bytes(said)
            said += piece
        with contextlib.suppress(ConnectionError):
            connection.sendall(drip)
    raise AssertionError(f"it was not ended in {PATIENCE} s; it said {bytes(said[:1_000])!r}")


def answer_on(connection):
    """The answer to all that was asked, in however many pieces it comes, while the connection goes on."""
    said = b""
    while b"\r\n\r\n" not in said:
        said += _piece(connection)
    head, _, body = said.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)content-length: (\d+)", head).group(1))
    while len(body) < length:
        body += _piece(connection)
    assert len(body) == length, "more than one answer came"
    return head + b"\r\n\r\n" + body


def _piece(connection):
    piece = connection.recv(65_536)
    assert piece, "the connection was ended"
    return piece


def takes_nothing_more(connection):
    """Whether the server has ended a connection for what is sent as well."""
    try:
        connection.sendall(b" ")
    except ConnectionError:
        return True
    return False


@pytest.mark.parametrize(("begun", "drip"), [(b"", b""), (b"", b"G"), (LINE, b""), (LINE + b"X-Slow: ", b"a")])
def test_headers_that_come_byte_by_byte_are_cut(memory, begun, drip):
    with served(memory, header_seconds=0.7) as server:
        start = time.monotonic()
        with connected(server) as connection:
            connection.sendall(begun)
            said = end_of(connection, drip=drip)
        assert time.monotonic() - start > 0.6
    assert said.startswith(b"HTTP/1.1 408 ")


def test_the_headers_of_a_second_request_have_the_same_time(memory):
    with served(memory, header_seconds=0.7) as server, contextlib.ExitStack() as stack:
        with server.standing_still():
            connection = stack.enter_context(connected(server))
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert answer_on(connection).startswith(b"HTTP/1.1 200")
        time.sleep(1)  # idle for longer than headers may take
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert answer_on(connection).startswith(b"HTTP/1.1 200")
        end_of(connection, drip=b"G")


def test_a_connection_without_a_request_is_ended(memory):
    with served(memory, keep_alive_seconds=1) as server, connected(server) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert end_of(connection).startswith(b"HTTP/1.1 200")


def test_a_client_gives_an_idle_connection_up_before_the_server_ends_it():
    """Where both keep it equally long, a request now and then is sent on a connection that is just being ended."""
    clients = [httpx.Limits().keepalive_expiry]
    if importlib.util.find_spec("httpx2") is not None:  # that of version 2 of the MCP SDK
        clients.append(importlib.import_module("httpx2").Limits().keepalive_expiry)
    assert max(clients) < TrafficSettings().keep_alive_seconds


def test_a_body_that_comes_byte_by_byte_is_cut(memory):
    with served(memory, body_seconds=0.5, keep_alive_seconds=1) as server, connected(server) as connection:
        connection.sendall(LINE + b"Content-Length: 1000\r\n\r\n")
        assert end_of(connection, drip=b" ").startswith(b"HTTP/1.1 408")
        until(lambda: takes_nothing_more(connection), "the end of the connection")


def test_the_rest_of_a_body_whose_request_is_answered_already_is_cut(memory):
    with served(memory, tokens=TOKENS, keep_alive_seconds=1) as server, connected(server) as connection:
        connection.sendall(LINE + b"Content-Length: 1000000\r\n\r\n")
        assert end_of(connection, drip=b" ").startswith(b"HTTP/1.1 401")
        until(lambda: takes_nothing_more(connection), "the end of the connection")


def refused_by(memory, settings, *, size):
    """What one client is answered for a body that is refused, and for its next request, many times over."""
    body = b'"' + b"x" * size + b'"'
    with served(memory, **settings) as server, asking(server) as client:
        for _ in range(20):
            refused = client.post("/api/v0/retrieve_memory", content=body)
            yield refused.status_code, refused.headers.get("connection"), client.get("/healthz").status_code


@pytest.mark.parametrize(
    ("settings", "size", "status"),
    [({"tokens": TOKENS}, 4_000_000, 401), ({"max_body_bytes": 200_000}, 300_000, 413)],
)
def test_after_a_body_that_was_refused_a_client_knows_that_it_needs_another_connection(memory, settings, size, status):
    assert set(refused_by(memory, settings, size=size)) == {(status, "close", 200)}


def test_what_follows_a_refused_body_on_its_connection_is_dropped_and_the_answer_arrives(memory):
    body = b" " * 300_000
    request = LINE + b"Content-Length: %d\r\n\r\n" % len(body)
    with served(memory, tokens=TOKENS) as server, connected(server) as connection:
        connection.sendall(request)
        said = answer_on(connection)
        assert said.startswith(b"HTTP/1.1 401 ")
        connection.sendall(body + b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        rest = end_of(connection)
    head, _, answer = (said + rest).lower().partition(b"\r\n\r\n")
    assert b"\r\nconnection: close" in head
    assert (answer.count(b"http/1.1"), answer.endswith(b"}")) == (0, True)


def test_a_body_that_was_taken_leaves_its_connection_as_it_is(memory):
    with served(memory) as server, connected(server) as connection:
        for content, status in ((b"[]", b"422"), (b'{"conversation_id":"user/alice","query":"otter"}', b"200")):
            head = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(content)
            connection.sendall(LINE + head + content)
            said = answer_on(connection)
            assert (said[9:12], b"connection: close" in said.lower()) == (status, False)


@pytest.mark.parametrize("lengths", [b"", b"Content-Length: 190\r\n"], ids=["one", "two"])
def test_a_request_with_two_lengths_is_the_last_of_its_connection_since_others_read_the_other(memory, lengths):
    body = b'{"conversation_id":"user/alice","query":"otter"}'
    head = b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n" + lengths + b"\r\n"
    following = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    with served(memory) as server, connected(server) as connection:
        connection.sendall(LINE + head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) + following)
        _, first, *others = end_of(connection).split(b"HTTP/1.1 ")  # the answers may come in one piece or in many
    assert (first[:3], b"connection: close" in first.lower()) == (b"200", bool(lengths))
    assert [each[:3] for each in others] == ([] if lengths else [b"200"])


def test_a_receiver_that_does_not_take_its_answer_is_cut(memory):
    for number in range(12):
        memory.remember_episode(scope="user/alice", title=f"Number {number}", summary="x" * 900_000)
    body = b'{"conversation_id": "user/alice", "limit": 100}'
    head = b"POST /api/v0/recent HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    head += b"Content-Length: %d\r\n\r\n" % len(body)
    with served(memory, body_seconds=1) as server, connected(server) as connection:
        until(lambda: server.connections, "the connection")
        connection.sendall(head + body)
        until(lambda: not server.connections, "the end of the connection")  # nothing is taken until then
        received = connection.recv(1_000)
        assert received.startswith(b"HTTP/1.1 200 ")
        size = len(received)
        with contextlib.suppress(ConnectionError):
            while piece := connection.recv(1_000_000):
                size += len(piece)
    assert size < 10_000_000


def test_conversations_at_which_a_language_model_works_hold_up_no_other_request(memory, monkeypatch):
    begun, done = threading.Semaphore(0), threading.Event()

    def flush(*_, **__):
        begun.release()
        assert done.wait(PATIENCE)
        return Report()

    monkeypatch.setattr(type(memory), "flush", flush)
    body = of_alice()
    with served(memory) as server, asking(server) as sender, ThreadPoolExecutor(50) as many:
        asked = [many.submit(sender.post, "/api/v0/flush", json=body) for _ in range(50)]
        try:
            assert all(begun.acquire(timeout=PATIENCE) for _ in range(40))  # as many as there are threads
            with httpx.Client(base_url=sender.base_url, timeout=PATIENCE / 2) as other:  # while all of those wait
                assert other.get("/readyz").status_code == 200
                assert other.post("/api/v0/retrieve_memory", json=of_alice(query="otter")).status_code == 200
        finally:
            done.set()
        assert {each.result(PATIENCE).status_code for each in asked} == {200}


@pytest.mark.parametrize(
    ("method", "path", "body", "is_write"),
    [("flush", "flush", {}, True), ("retrieve", "retrieve_memory", {"query": "otter"}, False)],
    ids=["a write", "a read"],
)
def test_a_request_that_outlasts_its_server_is_told_so(memory, monkeypatch, caplog, method, path, body, is_write):
    begun, done = threading.Event(), threading.Event()

    def slow(*_args, **_options):
        begun.set()
        assert done.wait(PATIENCE)
        return Report() if is_write else RetrievalResult(query="", scope="", now=memory.now())

    monkeypatch.setattr(type(memory), method, slow)
    with served(memory) as server, asking(server) as client, ThreadPoolExecutor(1) as other:
        asked = other.submit(client.post, f"/api/v0/{path}", json=of_alice(**body))
        try:
            assert begun.wait(PATIENCE)
            server.end()
            answer = asked.result(PATIENCE)
        finally:
            done.set()
    assert error_of(answer) == (503, "Busy")
    assert ("Idempotency-Key" in answer.json()["message"]) == is_write
    assert "again" in answer.json()["message"]
    assert "Traceback" not in caplog.text


def test_what_outlasts_its_server_is_finished_before_the_store_is_closed_and_not_done_again(memory, monkeypatch):
    course, begun, done, add = [], threading.Event(), threading.Event(), type(memory).add_messages

    def add_slowly(*args, **options):
        queued = add(*args, **options)
        begun.set()
        assert done.wait(PATIENCE)
        course.append("finished")
        return queued

    def ask(client):
        body = of_alice(messages=[{"role": "user", "content": "My otter is ill."}])
        return client.post("/api/v0/add_messages", json=body, headers={"Idempotency-Key": "monday"})

    monkeypatch.setattr(type(memory), "add_messages", add_slowly)
    monkeypatch.setattr(memory, "close", lambda: course.append("closed"))
    with served(memory) as server, asking(server) as client, ThreadPoolExecutor(1) as other:
        asked = other.submit(ask, client)
        try:
            assert begun.wait(PATIENCE)
            server.end()
            assert error_of(asked.result(PATIENCE)) == (503, "Busy")
            time.sleep(0.2)  # in which it would be closed
        finally:
            done.set()
    assert course == ["finished", "closed"]
    with served(memory) as server, asking(server) as client:
        assert error_of(ask(client)) == (409, "Conflict")
    assert memory.stats("user/alice").queued_messages == 1


def test_what_only_waits_for_a_thread_is_not_begun_once_its_server_ends(memory, monkeypatch):
    asked, course, done, run = [], [], threading.Event(), RequestContext.run

    def counted(self, *args, **options):
        asked.append(self)
        return run(self, *args, **options)

    def flush(*_, **__):
        course.append("begun")
        assert done.wait(PATIENCE)
        return Report()

    def ask():
        with asking(server) as client:
            return error_of(client.post("/api/v0/flush", json=of_alice()))

    monkeypatch.setattr(app, "_PROCESSING_THREADS", 1)
    monkeypatch.setattr(RequestContext, "run", counted)
    monkeypatch.setattr(type(memory), "flush", flush)
    monkeypatch.setattr(memory, "close", lambda: course.append("closed"))
    with served(memory) as server, ThreadPoolExecutor(3) as others:
        answers = [others.submit(ask) for _ in range(3)]
        try:
            until(lambda: course and len(asked) == len(answers), "one at work, and two that wait")
            server.end()
            assert {each.result(PATIENCE) for each in answers} == {(503, "Busy")}
        finally:
            done.set()
    assert course == ["begun", "closed"]


async def test_a_store_is_closed_also_where_the_end_of_its_server_is_cut_off(memory, monkeypatch):
    closed, ending, done = [], asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(memory, "close", lambda: closed.append(True))
    served_app = create_app(memory, settings=ServerSettings(worker=False))

    async def live():
        async with served_app.router.lifespan_context(served_app):
            served_app.state.running.add(asyncio.ensure_future(done.wait()))
            ending.set()

    life = asyncio.create_task(live())
    await ending.wait()
    life.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await life
    assert closed == [True]


def test_headers_without_end_are_refused_by_their_size(memory):
    with served(memory) as server, connected(server) as connection:
        connection.sendall(LINE + b"X-Long: " + b"a" * 200_000)
        assert end_of(connection).startswith(b"HTTP/1.1 400")


def test_one_connection_too_many_takes_the_place_of_the_one_that_has_waited_longest(memory):
    with served(memory, max_connections=3) as server, contextlib.ExitStack() as stack:
        connections = []
        for number in range(3):
            connections.append(stack.enter_context(connected(server)))
            until(lambda most=number: len(server.connections) > most, "the connection")
        first, second, third = connections
        second.sendall(LINE)
        with asking(server) as client:
            assert client.get("/healthz").status_code == 200
            end_of(first)
        third.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert answer_on(third).startswith(b"HTTP/1.1 200")


def test_where_every_connection_has_a_request_under_way_one_more_is_refused(memory):
    with served(memory, max_connections=2) as server, contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(connected(server)).sendall(LINE + b"Content-Length: 1000\r\n\r\n ")
        until(lambda: [each.waits for each in server.connections] == [False] * 2, "the beginning of both requests")
        assert end_of(stack.enter_context(connected(server))).startswith(b"HTTP/1.1 503")


def test_who_takes_no_answer_keeps_nobody_out(memory):
    with served(memory, max_connections=2, tokens=TOKENS) as server, contextlib.ExitStack() as stack:
        for _ in range(2):
            greedy = stack.enter_context(socket.socket())
            greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
            greedy.connect(("127.0.0.1", server.port))
            greedy.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 100)
        paused = lambda: [each.flow.write_paused and not each.waits for each in server.connections]  # noqa: E731
        until(lambda: paused() == [True] * 2, "the full buffers of both")
        with asking(server) as client:
            assert client.get("/healthz").status_code == 200


def test_who_still_takes_an_answer_is_not_cut_while_another_only_waits(memory, monkeypatch):
    monkeypatch.setattr("memory_retrievers.server.app._document", lambda _: b" " * 30_000_000)
    with served(memory, max_connections=2) as server, connected(server) as slow, asking(server) as client:
        slow.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        paused = lambda: [each.flow.write_paused and each.waits for each in server.connections]  # noqa: E731
        until(lambda: paused() == [True], "its full buffer")
        with connected(server) as waiting:
            until(lambda: len(server.connections) == 2, "the connection")
            assert client.get("/healthz").status_code == 200
            assert end_of(waiting) == b""
        assert len(end_of(slow)) > 30_000_000


@contextlib.contextmanager
def slow_senders(server):
    """Two hundred connections with a request that never comes to its end."""
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connected(server)) for _ in range(200)]
        for each in slow:
            each.sendall(LINE)
        yield slow


def test_two_hundred_slow_senders_hold_up_nobody(memory):
    with served(memory) as server, slow_senders(server) as slow, asking(server) as client:
        answer = client.post("/api/v0/retrieve_memory", json=of_alice(query="otter"))
        assert answer.status_code == 200
        ended = select.poll()
        for each in slow:
            ended.register(each, select.POLLIN)
        assert ended.poll(0) == []  # all of them are still sending


def test_two_hundred_slow_senders_are_all_cut(memory):
    with served(memory, header_seconds=1) as server, slow_senders(server) as slow:
        for each in slow:
            end_of(each)


def test_requests_for_a_web_socket_are_answered_as_any_other(memory):
    head = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    with served(memory) as server, connected(server) as connection:
        connection.sendall(head)
        assert answer_on(connection).startswith(b"HTTP/1.1 200")
