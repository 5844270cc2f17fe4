"""A real server on loopback, and clients that take their time."""

import contextlib
import socket
import threading
import time

import httpx
import pytest
import uvicorn

from memory_retrievers.server import ServerSettings, create_app
from memory_retrievers.server.connections import configuration, listening

from .conftest import TOKENS, of_alice

pytestmark = pytest.mark.enable_socket

LINE = b"POST /api/v0/retrieve_memory HTTP/1.1\r\nHost: 127.0.0.1\r\n"
PATIENCE = 20
"""Seconds: far more than any of these limits."""


@contextlib.contextmanager
def served(memory, **settings):
    """The port of a server in a thread, as ``serve`` runs it."""
    chosen = ServerSettings(**{"worker": False, "requests_per_minute": None} | settings)
    server = uvicorn.Server(configuration(create_app(memory, settings=chosen), chosen, shutdown_seconds=1))
    with listening("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()


@contextlib.contextmanager
def connected(port):
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        yield connection


def end_of(connection, *, drip=b""):
    """The seconds until the server ends a connection, and what it said; a byte is sent every tenth of a second."""
    start, said = time.monotonic(), b""
    connection.settimeout(0.1)
    while time.monotonic() - start < PATIENCE:
        with contextlib.suppress(TimeoutError):
            try:
                piece = connection.recv(65_536)
            except ConnectionError:
                return time.monotonic() - start, said
            if not piece:
                return time.monotonic() - start, said
            said += piece
        with contextlib.suppress(ConnectionError):
            connection.sendall(drip)
    raise AssertionError(f"it was not ended in {PATIENCE} s; it said {said!r}")


@pytest.mark.parametrize(("begun", "drip"), [(b"", b""), (b"", b"G"), (LINE, b""), (LINE + b"X-Slow: ", b"a")])
def test_headers_that_come_byte_by_byte_are_cut(memory, begun, drip):
    with served(memory, header_seconds=0.7) as port, connected(port) as connection:
        connection.sendall(begun)
        seconds, said = end_of(connection, drip=drip)
    assert 0.4 < seconds < 5
    assert said.startswith(b"HTTP/1.1 408 ")


def test_the_headers_of_a_second_request_have_the_same_time(memory):
    with served(memory, header_seconds=0.7, keep_alive_seconds=15) as port, connected(port) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
        time.sleep(1)  # idle for longer than headers may take
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
        seconds, _ = end_of(connection, drip=b"G")
    assert seconds < 5


def test_a_connection_without_a_request_is_ended(memory):
    with served(memory, keep_alive_seconds=1) as port, connected(port) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        seconds, said = end_of(connection)
    assert (said.startswith(b"HTTP/1.1 200"), seconds < 5) == (True, True)


def test_a_body_that_comes_byte_by_byte_is_cut(memory):
    with (
        served(memory, body_seconds=0.5, keep_alive_seconds=1, header_seconds=1) as port,
        connected(port) as connection,
    ):
        connection.sendall(LINE + b"Content-Length: 1000\r\n\r\n")
        seconds, said = end_of(connection, drip=b" ")
    assert (said.startswith(b"HTTP/1.1 408"), seconds < 8) == (True, True)


def test_the_rest_of_a_body_whose_request_is_answered_already_is_cut(memory):
    with served(memory, tokens=TOKENS, keep_alive_seconds=1, header_seconds=1) as port, connected(port) as connection:
        connection.sendall(LINE + b"Content-Length: 1000000\r\n\r\n")
        seconds, said = end_of(connection, drip=b" ")
    assert (said.startswith(b"HTTP/1.1 401"), seconds < 8) == (True, True)


def refused_by(memory, settings, *, size):
    """What one client is answered for a body that is refused, and for its next request, many times over."""
    body = b'"' + b"x" * size + b'"'
    with served(memory, **settings) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
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
    with served(memory, tokens=TOKENS, keep_alive_seconds=1) as port, connected(port) as connection:
        connection.sendall(request)
        said = connection.recv(65_536)
        assert said.startswith(b"HTTP/1.1 401 ")
        connection.sendall(body + b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        seconds, rest = end_of(connection)
    head, _, answer = (said + rest).lower().partition(b"\r\n\r\n")
    assert b"\r\nconnection: close" in head
    assert (answer.count(b"http/1.1"), answer.endswith(b"}"), seconds < 5) == (0, True, True)


def test_a_body_that_was_taken_leaves_its_connection_as_it_is(memory):
    with served(memory) as port, connected(port) as connection:
        for content, status in ((b"[]", b"422"), (b'{"conversation_id":"user/alice","query":"otter"}', b"200")):
            head = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(content)
            connection.sendall(LINE + head + content)
            said = connection.recv(65_536)
            assert (said[9:12], b"connection: close" in said.lower()) == (status, False)


def test_a_receiver_that_does_not_take_its_answer_is_cut(memory):
    for number in range(12):
        memory.remember_episode(scope="user/alice", title=f"Number {number}", summary="x" * 900_000)
    body = b'{"conversation_id": "user/alice", "limit": 100}'
    head = b"POST /api/v0/recent_memory/raw HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body)
    with served(memory, body_seconds=1) as port, connected(port) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.sendall(head + body)
        time.sleep(4)  # takes nothing
        connection.settimeout(PATIENCE)
        received = 0
        with contextlib.suppress(ConnectionError):
            while piece := connection.recv(1_000_000):
                received += len(piece)
    assert received < 10_000_000


def test_headers_without_end_are_refused_by_their_size(memory):
    with served(memory) as port, connected(port) as connection:
        connection.sendall(LINE + b"X-Long: " + b"a" * 200_000)
        seconds, said = end_of(connection)
    assert (said.startswith(b"HTTP/1.1 400"), seconds < 5) == (True, True)


def test_one_connection_too_many_takes_the_place_of_the_one_that_has_waited_longest(memory):
    with served(memory, max_connections=3) as port, contextlib.ExitStack() as stack:
        connections = []
        for _ in range(3):
            connections.append(stack.enter_context(connected(port)))
            time.sleep(0.2)
        first, second, third = connections
        second.sendall(LINE)
        answer = httpx.get(f"http://127.0.0.1:{port}/healthz")
        assert answer.status_code == 200
        assert end_of(first)[0] < 5
        third.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert third.recv(65_536).startswith(b"HTTP/1.1 200")


def test_where_every_connection_has_a_request_under_way_one_more_is_refused(memory):
    with served(memory, max_connections=2) as port, contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(connected(port)).sendall(LINE + b"Content-Length: 1000\r\n\r\n ")
        time.sleep(0.5)
        seconds, said = end_of(stack.enter_context(connected(port)))
    assert (said.startswith(b"HTTP/1.1 503"), seconds < 5) == (True, True)


def test_two_hundred_slow_senders_hold_up_nobody(memory):
    with served(memory, header_seconds=1) as port, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connected(port)) for _ in range(200)]
        for each in slow:
            each.sendall(LINE)
        start = time.monotonic()
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            answer = client.post("/api/v0/retrieve_memory", json=of_alice(query="otter"))
        assert (answer.status_code, time.monotonic() - start < 5) == (200, True)
        assert all(end_of(each)[0] < PATIENCE for each in slow)


def test_requests_for_a_web_socket_are_answered_as_any_other(memory):
    head = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    with served(memory) as port, connected(port) as connection:
        connection.sendall(head)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
