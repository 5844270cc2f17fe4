"""The MCP server over HTTP on loopback, as it runs, and clients that begin sessions and leave them."""

import contextlib
import gc
import socket
import threading
import types

import httpx
import pytest
import uvicorn
from patience import A_LONG_TIME, PATIENCE, until

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.server.connections import configuration, listening
from memory_retrievers.server.mcp import McpOffer
from memory_retrievers.server.settings import McpSettings

mcp_sdk = pytest.importorskip("memory_retrievers.server.mcp_sdk")
mcp_sessions = pytest.importorskip("memory_retrievers.server.mcp_sessions")
pytest.importorskip("mcp")

pytestmark = [
    pytest.mark.enable_socket,
    # version 1 of the SDK leaves the reader of every answered POST to the collector of garbage
    pytest.mark.filterwarnings("ignore:Unclosed <MemoryObjectReceiveStream:ResourceWarning"),
]

TOKEN = "s3cret-for-mcp-clients"  # noqa: S105
LIMITS = dict.fromkeys(("header_seconds", "body_seconds", "keep_alive_seconds"), A_LONG_TIME)
"""Those that a test does not name: what ends a connection can only be the limit that it names."""


@pytest.fixture(autouse=True)
def _nothing_is_left_to_other_tests():
    yield
    gc.collect()  # while such a warning is expected


@contextlib.contextmanager
def served(memory, *, host="127.0.0.1", token=None, **settings):
    """The address of an MCP server in a thread, as ``serve_http`` runs it."""
    chosen = McpSettings(**LIMITS | settings)
    app = mcp_sdk.http_app(McpOffer(memory, scope="user/alice"), host=host, token=token, settings=chosen)
    server = uvicorn.Server(configuration(app, chosen, shutdown_seconds=1))
    with listening(host, 0) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://{host}:{listener.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()


def client(**headers):
    accepted = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    return httpx.Client(headers=accepted | headers, timeout=PATIENCE)


def begin(sender, url):
    """The answer to the first request of a session."""
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    return sender.post(url, json=body)


def listed(sender, url, session):
    """The status of a request in a session."""
    headers = {"Mcp-Session-Id": session, "Mcp-Protocol-Version": "2025-06-18"}
    sender.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
    return sender.post(url, json={"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, headers=headers).status_code


def session_of(answer):
    assert answer.status_code == 200, answer.text
    return answer.headers["mcp-session-id"]


def test_one_session_too_many_takes_the_place_of_the_one_used_longest_ago(memory):
    with served(memory, max_sessions=3) as url, client() as sender:
        sessions = [session_of(begin(sender, url)) for _ in range(3)]
        assert [listed(sender, url, session) for session in sessions[::2]] == [200, 200]
        sessions.append(session_of(begin(sender, url)))
        assert [listed(sender, url, session) for session in sessions] == [200, 404, 200, 200]
        assert sender.delete(url, headers={"Mcp-Session-Id": sessions[0]}).status_code == 200
        sessions.append(session_of(begin(sender, url)))
        assert [listed(sender, url, session) for session in sessions[2:]] == [200, 200, 200]


def test_who_only_listens_keeps_no_newcomer_out(memory):
    with served(memory, max_sessions=1) as url, client() as sender, client() as newcomer:
        about = {"Mcp-Session-Id": session_of(begin(sender, url)), "Mcp-Protocol-Version": "2025-06-18"}
        with sender.stream("GET", url, headers=about) as stream:
            assert stream.status_code == 200
            # the request that began the session may be under way for a moment after its answer
            until(lambda: begin(newcomer, url).status_code == 200, "room for another session")
            for _ in stream.iter_raw():  # it ends with its session
                pass


def test_where_all_sessions_are_at_work_a_newcomer_is_asked_to_come_back(memory, monkeypatch):
    begun, done = threading.Event(), threading.Event()

    def tools(_offer):
        begun.set()
        assert done.wait(PATIENCE)
        return {"tools": []}

    with served(memory, max_sessions=1) as url, client() as sender, client() as newcomer:
        session = session_of(begin(sender, url))
        monkeypatch.setattr(McpOffer, "tools", tools)
        at_work = threading.Thread(target=listed, args=(sender, url, session))
        at_work.start()
        assert begun.wait(PATIENCE)
        refused = begin(newcomer, url)
        done.set()
        at_work.join(PATIENCE)
        assert (refused.status_code, refused.json()["error_type"]) == (503, "Busy")
        assert "Retry-After" in refused.headers
        until(lambda: begin(newcomer, url).status_code == 200, "room for another session")


@pytest.mark.parametrize("number", ["7.0", "7.5", "null", "true", "{}", "[]", "NaN", "1e400"])
def test_a_request_whose_id_is_no_text_or_number_is_refused_and_not_lost(memory, number):
    """The SDK would take it for a notification: accepted, and nothing done."""
    call = '"method":"tools/call","params":{"name":"memory_store","arguments":{"content":"My bike is green"}}'
    with served(memory) as url, client() as sender:
        about = {"Mcp-Session-Id": session_of(begin(sender, url)), "Mcp-Protocol-Version": "2025-06-18"}
        before = memory.stats("user/alice").facts
        refused = sender.post(url, content='{"jsonrpc":"2.0","id":' + number + "," + call + "}", headers=about)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32600)
        assert "the id of a request must be a text or a whole number" in refused.json()["error"]["message"]
        assert memory.stats("user/alice").facts == before
        for known in ("8", '"9"'):
            assert sender.post(
                url, content='{"jsonrpc":"2.0","id":' + known + "," + call + "}", headers=about
            ).is_success
        assert memory.stats("user/alice").facts == before + 1


@pytest.mark.parametrize(
    ("body", "message"), [("[]", "batches"), ("7", "one message"), ('{"jsonrpc": "2.0", "id": 1}', "needs a method")]
)
def test_what_is_no_message_is_told_in_a_sentence(memory, body, message):
    with served(memory) as url, client() as sender:
        refused = sender.post(url, content=body)
        assert refused.status_code == 400
        assert message in refused.json()["error"]["message"]
        assert len(refused.content) < 300


def test_nothing_is_said_of_other_addresses_before_the_token(memory):
    with served(memory, token=TOKEN) as url, client(Host="attacker.example:80") as page:
        answer = page.post(f"{url}/", json={})
        assert answer.status_code == 404
        assert "location" not in answer.headers


@pytest.mark.parametrize("name", ["Host", "Origin"])
def test_what_a_foreign_name_would_do_to_a_terminal_is_not_logged(memory, caplog, name):
    with served(memory) as url, client() as sender:
        host = url.removeprefix("http://").partition("/")[0].encode()
        for hostile in (b"a\x1b[2J:80", b"a\x9b2J:80"):
            headers = [(b"Host", hostile if name == "Host" else host)]
            headers += [(b"Origin", hostile)] if name == "Origin" else []
            refused = sender.post(url, json={}, headers=headers)
            assert (refused.status_code, refused.json()["error_type"]) == (400, "BadRequest")
    with served(memory) as url, client(**{name: "http://attacker.example"}) as sender:
        assert begin(sender, url).status_code in {403, 421}
    assert not {"\x1b", "\x9b"} & set(caplog.text)


def test_two_origins_are_refused(memory):
    with served(memory) as url, client() as sender:
        own = url.removesuffix("/mcp")
        both = [("Origin", own), ("Origin", "https://evil.example.com")]
        assert sender.post(url, json={}, headers=both).json()["message"] == "the Origin is given twice"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER "])
def test_the_name_of_the_scheme_is_read_in_any_case(memory, scheme):
    with served(memory, token=TOKEN) as url, client(Authorization=f"{scheme} {TOKEN}") as sender:
        session_of(begin(sender, url))
        assert sender.post(url, json={}, headers={"Authorization": f"Basic {TOKEN}"}).status_code == 401


def test_long_calls_of_one_client_hold_up_no_other(memory, monkeypatch):
    calls, done, call = threading.Semaphore(0), threading.Event(), McpOffer.call

    def slow(offer, name, arguments):
        calls.release()
        assert done.wait(PATIENCE)
        return call(offer, name, arguments)

    monkeypatch.setattr(McpOffer, "call", slow)
    asked = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "memory_delete", "arguments": {}}}
    with served(memory) as url, client() as sender:
        about = {"Mcp-Session-Id": session_of(begin(sender, url)), "Mcp-Protocol-Version": "2025-06-18"}
        many = [
            threading.Thread(target=sender.post, args=(url,), kwargs={"json": asked | {"id": n}, "headers": about})
            for n in range(10, 30)
        ]
        for each in many:
            each.start()
        assert all(calls.acquire(timeout=PATIENCE) for _ in many)  # all of them have begun
        with client() as other:
            assert listed(other, url, session_of(begin(other, url))) == 200
        done.set()
        for each in many:
            each.join(PATIENCE)


@pytest.fixture
def later(monkeypatch):
    """The clock of the sessions stands still; it is set forward by so many seconds."""
    now = [0.0]
    clock = types.SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(mcp_sdk, "time", clock)

    def later(seconds):
        now[0] += seconds

    return later


@pytest.fixture
def _looks_often(monkeypatch):
    """Idle sessions are looked for all the time."""
    monkeypatch.setattr(mcp_sessions, "_LOOKS_PER_PERIOD", 100 * A_LONG_TIME)


@pytest.mark.usefixtures("_looks_often")
@pytest.mark.parametrize("token", [None, TOKEN])
def test_an_idle_session_ends_and_one_that_is_used_does_not(memory, later, token):
    known = {} if token is None else {"Authorization": f"Bearer {token}"}
    with served(memory, token=token, max_sessions=2, session_seconds=A_LONG_TIME) as url, client(**known) as sender:
        used, idle = (session_of(begin(sender, url)) for _ in range(2))
        for _ in range(5):
            later(A_LONG_TIME / 3)
            assert listed(sender, url, used) == 200
        until(lambda: begin(sender, url).status_code == 200, "room for another session")
        assert listed(sender, url, idle) in {400, 404}
        assert listed(sender, url, used) == 200


def test_a_request_that_fails_leaves_no_session(memory):
    with served(memory, max_sessions=2) as url, client() as sender:
        for body in (b"{", b"[]", b'{"jsonrpc": "2.0"}', b"x"):
            assert sender.post(url, content=body).status_code >= 400
        for _ in range(2):
            session_of(begin(sender, url))


@pytest.mark.usefixtures("_looks_often")
def test_what_is_kept_of_sessions_goes_with_them(memory, later):
    with served(memory, max_sessions=20, session_seconds=A_LONG_TIME) as url, client() as sender:
        for _ in range(20):
            session_of(begin(sender, url))
        for _ in range(40):
            later(A_LONG_TIME)
            until(lambda: begin(sender, url).status_code == 200, "room for another session")


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"[" * 1_000_000, 422), (b"[" + b"0," * 1_000_000 + b"0]", 422), (b" " * 3_000_000, 413)],
    ids=["deep", "wide", "large"],
)
def test_bodies_are_bounded(memory, content, status):
    with served(memory, max_body_bytes=2_500_000) as url, client() as sender:
        assert sender.post(url, content=content).status_code == status
        assert sender.post(url, content=(content[at : at + 65_536] for at in range(0, len(content), 65_536))).status_code == status  # fmt: skip


def test_nothing_of_a_body_is_read_without_the_token(memory):
    with served(memory, token=TOKEN) as url, client() as sender:
        assert sender.post(url, content=b"[" * 7_000_000).status_code == 401


@pytest.mark.parametrize(
    "token", ["", "short", "fifteen letters", "a blank between them", "s\u00e9cret-for-mcp-clients"]
)
def test_a_token_that_can_be_guessed_or_never_be_sent_is_refused(memory, token):
    with pytest.raises(ConfigurationError, match="at least 16 printable ASCII characters"):
        mcp_sdk.http_app(McpOffer(memory, scope="user/alice"), token=token)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_on_every_loopback_address_a_web_page_cannot_ask_under_a_name_of_its_own(memory, host):
    with served(memory, host=host) as url, client() as sender, client(Host="attacker.example:80") as page:
        assert begin(sender, url).status_code == 200
        assert begin(page, url).status_code == 421


def test_headers_and_bodies_have_the_same_deadlines_as_with_http(memory):
    head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    body = head + b"Content-Length: 1000\r\n\r\n{"
    for limits, begun in (({"header_seconds": 0.5}, head), ({"body_seconds": 0.5}, body)):
        with served(memory, **limits) as url:
            port = int(url.split(":")[2].partition("/")[0])
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
                connection.sendall(begun)
                assert connection.recv(65_536).startswith(b"HTTP/1.1 408")
