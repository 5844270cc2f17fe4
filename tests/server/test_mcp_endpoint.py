"""The MCP server over HTTP on loopback, as it runs, and what it asks of requests."""

import contextlib
import gc
import socket
import threading

import httpx
import pytest
import uvicorn
from patience import A_LONG_TIME, PATIENCE

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.server.connections import configuration, listening
from memory_retrievers.server.mcp import McpOffer
from memory_retrievers.server.settings import TrafficSettings

mcp_sdk = pytest.importorskip("memory_retrievers.server.mcp_sdk")
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
    chosen = TrafficSettings(**LIMITS | settings)
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


def listed(sender, url):
    """The status of a request in the middle of a conversation of client and server."""
    headers = {"Mcp-Protocol-Version": "2025-06-18"}
    sender.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
    return sender.post(url, json={"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, headers=headers).status_code


def test_any_number_of_clients_begin_and_leave_without_a_word_and_nothing_is_kept_of_them(memory):
    from mcp.server.streamable_http import StreamableHTTPServerTransport

    with served(memory) as url, client() as sender:
        for _ in range(200):
            begun = begin(sender, url)
            assert (begun.status_code, "mcp-session-id" in begun.headers) == (200, False)
        assert listed(sender, url) == 200
        gc.collect()
        kept = [each for each in gc.get_objects() if isinstance(each, StreamableHTTPServerTransport)]
        assert len(kept) < 10


def test_a_client_goes_on_with_a_server_that_was_started_again(memory):
    with client() as sender:
        with served(memory) as url:
            begin(sender, url)
        with served(memory) as url:
            assert listed(sender, url) == 200


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_only_what_is_posted_is_answered(memory, method):
    with served(memory) as url, client() as sender:
        refused = sender.request(method, url)
        assert (refused.status_code, refused.headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize("number", ["7.0", "7.5", "null", "true", "{}", "[]", "NaN", "1e400"])
def test_a_request_whose_id_is_no_text_or_number_is_refused_and_not_lost(memory, number):
    """The SDK would take it for a notification: accepted, and nothing done."""
    call = '"method":"tools/call","params":{"name":"memory_store","arguments":{"content":"My bike is green"}}'
    with served(memory) as url, client() as sender:
        about = {"Mcp-Protocol-Version": "2025-06-18"}
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


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER "])
def test_the_name_of_the_scheme_is_read_in_any_case(memory, scheme):
    with served(memory, token=TOKEN) as url, client(Authorization=f"{scheme} {TOKEN}") as sender:
        assert begin(sender, url).status_code == 200
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
        about = {"Mcp-Protocol-Version": "2025-06-18"}
        many = [
            threading.Thread(target=sender.post, args=(url,), kwargs={"json": asked | {"id": n}, "headers": about})
            for n in range(10, 30)
        ]
        for each in many:
            each.start()
        assert all(calls.acquire(timeout=PATIENCE) for _ in many)  # all of them have begun
        with client() as other:
            assert listed(other, url) == 200
        done.set()
        for each in many:
            each.join(PATIENCE)


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
