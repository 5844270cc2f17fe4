"""A proxy before PostgreSQL, as PgBouncer is: its clients share connections of the server, or have one each."""

import contextlib
import socket
import struct
import threading
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from patience import PATIENCE

from memory_retrievers import AgentMemory, ConfigurationError
from memory_retrievers.testing import HashEmbedder

pytestmark = pytest.mark.enable_socket

_SSL, _GSS, _CANCEL = 80877103, 80877104, 80877102


class _Pooler:
    def __init__(self, url, *, by_transaction, takes_turns):
        self._socket = f"{parse_qs(urlsplit(url).query)['host'][0]}/.s.PGSQL.5432"
        self._by_transaction, self._next = by_transaction, 0 if takes_turns else -1
        self._free, self._lock = [], threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._threads = []
        self._start(self._accept)

    def _start(self, work, *given):
        self._threads.append(threading.Thread(target=work, args=given, daemon=True))
        self._threads[-1].start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self._start(self._serve, client)

    def _serve(self, client):
        with contextlib.suppress(OSError, EOFError), client:
            while (code := struct.unpack("!I", (startup := _startup(client))[:4])[0]) in {_SSL, _GSS}:
                client.sendall(b"N")
            if code == _CANCEL:
                return
            server, greeting = self._server(startup)
            client.sendall(greeting)
            if self._by_transaction:
                self._give_back(server, greeting)
                self._hand_out(client, startup)
            else:
                with server:
                    self._start(_pump, server, client)
                    _pump(client, server)

    def _hand_out(self, client, startup):
        server = None
        while (message := _message(client))[:1] != b"X":
            if server is None:
                server, greeting = self._server(startup)
            server.sendall(message)
            if message[:1] not in {b"Q", b"S"}:  # which an answer is waited for
                continue
            while (answer := _message(server))[:1] != b"Z":
                client.sendall(answer)
            if answer[5:] == b"I":  # it is in no transaction
                self._give_back(server, greeting)
                server = None
            client.sendall(answer)

    def _server(self, startup):
        with self._lock:
            if self._free:
                return self._free.pop(self._next)
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._socket)
        server.sendall(struct.pack("!I", len(startup) + 4) + startup)
        greeting = b""
        while (message := _message(server))[:1] != b"Z":
            # a client is told of a process that there is not, since it may be served by several
            greeting += b"K" + struct.pack("!III", 12, 4_000_000_000, 7) if message[:1] == b"K" else message
        return server, greeting + message

    def _give_back(self, server, greeting):
        with self._lock:
            self._free.append((server, greeting))

    def close(self):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(PATIENCE)
        for server, _ in self._free:
            server.close()


def _pump(source, target):
    with contextlib.suppress(OSError):
        while some := source.recv(65536):
            target.sendall(some)
        target.shutdown(socket.SHUT_RDWR)


def _exactly(source, length):
    read = b""
    while len(read) < length:
        if not (some := source.recv(length - len(read))):
            raise EOFError
        read += some
    return read


def _startup(client):
    return _exactly(client, struct.unpack("!I", _exactly(client, 4))[0] - 4)


def _message(source):
    head = _exactly(source, 5)
    return head + _exactly(source, struct.unpack("!I", head[1:])[0] - 4)


@pytest.fixture
def through(url):
    """Begin a proxy to the database, and give the database's address there."""
    with contextlib.ExitStack() as proxies:

        def begin(*, by_transaction, takes_turns=False):
            proxy = _Pooler(url, by_transaction=by_transaction, takes_turns=takes_turns)
            proxies.callback(proxy.close)
            return f"postgresql://postgres@127.0.0.1:{proxy.port}{urlsplit(url).path}"

        yield begin


@pytest.mark.parametrize("read_only", [False, True])
def test_a_proxy_that_shares_connections_by_transaction_is_refused_before_anything_is_written(
    server, name, through, read_only
):
    with pytest.raises(ConfigurationError, match="pool_mode = session"):
        AgentMemory.connect(through(by_transaction=True), embedder=HashEmbedder(), read_only=read_only)
    assert server.run("SELECT relname FROM pg_class WHERE relname = 'memories'", database=name) == []


def test_one_that_gives_each_client_a_connection_of_its_own_serves(through):
    with AgentMemory.connect(through(by_transaction=False), embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope="c1", fact="User lives in Lyon")
        assert "User lives in Lyon" in memory.context("Lyon", scope="c1").to_markdown()
        assert not memory.verify().problems


@pytest.mark.parametrize("connections", [2, 3])
def test_connections_that_take_turns_are_refused_too(through, connections):
    address = through(by_transaction=True, takes_turns=True)
    with contextlib.ExitStack() as clients:
        for _ in range(connections):  # at once, so that each has one of its own, which is free afterwards
            client = clients.enter_context(psycopg.connect(address, autocommit=True))
            client.execute("BEGIN", prepare=False)
    with pytest.raises(ConfigurationError, match="pool_mode = session"):
        AgentMemory.connect(address, embedder=HashEmbedder())


def test_a_role_that_may_not_see_the_activity_of_the_server_connects(server, name, url):
    server.run("REVOKE SELECT ON pg_stat_activity FROM PUBLIC", database=name)
    server.run(
        "CREATE ROLE blind LOGIN; GRANT CREATE ON SCHEMA public TO blind; CREATE EXTENSION vector", database=name
    )
    try:
        AgentMemory.connect(url.replace("postgres:@", "blind:@"), embedder=HashEmbedder()).close()
    finally:
        server.run("DROP OWNED BY blind; DROP ROLE blind", database=name)
