"""The bombs of ``hostile.py``: each takes little of its sender, and is made to take much of a server."""

from __future__ import annotations

import base64
import gzip
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeAlias

import httpx

TOKEN = "hostile-benchmark-token-0001"  # noqa: S105 - of a server that is made for this and gone afterwards
MCP_TOKEN = "hostile-benchmark-token-0002"  # noqa: S105
BYTES = 7_900_000
AT_ONCE = 8
PATIENCE = 90
KEYS = 80
"""With an answer of 400 kB each, four times the bytes that are kept."""

JSON = {"Content-Type": "application/json"}
LETTERS = b"abcdefghijklmnopqrstuvwxyz"

Answers: TypeAlias = Counter[object]


@dataclass(frozen=True)
class Target:
    """Where the servers are."""

    http: str
    mcp: str


@dataclass(frozen=True)
class Bomb:
    """What is thrown; floods take as many seconds as they are given."""

    name: str
    throw: Callable[[Target, float], Answers]
    mcp: bool = False


def client(address: str, token: str | None) -> httpx.Client:
    headers = JSON | {"Accept": "application/json, text/event-stream"}
    known = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=address, headers=headers | known, timeout=PATIENCE)


def status(send: Callable[[], httpx.Response]) -> object:
    try:
        return send().status_code
    except httpx.HTTPError as error:
        return type(error).__name__


def posts(
    path: str, body: Callable[[], bytes], *, token: str | None = TOKEN, times: int = 16
) -> Callable[..., Answers]:
    """The same body many times, some at once."""

    def throw(target: Target, _seconds: float) -> Answers:
        content = body()
        with client(target.http, token) as sender, ThreadPoolExecutor(AT_ONCE) as pool:
            sent = [pool.submit(status, lambda: sender.post(path, content=content)) for _ in range(times)]
            return Counter(each.result() for each in sent)

    return throw


def floods(send: Callable[[httpx.Client, int], httpx.Response], *, token: str | None = TOKEN) -> Callable[..., Answers]:
    """As many requests as can be sent in some seconds."""

    def throw(target: Target, seconds: float) -> Answers:
        answers, end, lock = Answers(), time.monotonic() + seconds, threading.Lock()

        def work(start: int) -> None:
            with client(target.http, token) as sender:
                for number in range(start, 10**6, AT_ONCE):
                    if time.monotonic() > end:
                        return
                    answer = status(lambda number=number: send(sender, number))
                    with lock:
                        answers[answer] += 1

        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(work, range(AT_ONCE)))
        return answers

    return throw


def slow(
    begun: bytes, drip: bytes, *, count: int = 200, watched: float = 15, mcp: bool = False
) -> Callable[..., Answers]:
    """Many connections that never come to an end by themselves, watched for longer than they may take."""

    def throw(target: Target, seconds: float) -> Answers:
        host, port = (target.mcp if mcp else target.http).removeprefix("http://").split(":")
        answers: Answers = Counter()
        with ExitStack() as stack:
            waiting = [stack.enter_context(socket.create_connection((host, int(port)), 10)) for _ in range(count)]
            for each in waiting:
                each.sendall(begun)
                each.settimeout(0.001)
            end = time.monotonic() + max(seconds, watched)
            while waiting and time.monotonic() < end:
                time.sleep(0.5)
                ended = {each: said for each in waiting if (said := _said(each, drip)) is not None}
                answers.update(said.split(b" ")[1].decode() if b" " in said else "cut" for said in ended.values())
                waiting = [each for each in waiting if each not in ended]
            answers["never cut"] += len(waiting)
        return +answers

    return throw


def _said(connection: socket.socket, drip: bytes) -> bytes | None:
    try:
        connection.sendall(drip)
        return connection.recv(65_536)
    except TimeoutError:
        return None
    except OSError:
        return b""


def pieces(body: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(body), size):
        yield body[at : at + size]


def retrieve(query: bytes) -> bytes:
    return b'{"conversation_id":"user/a","query":"' + query + b'"}'


def remember(count: int, *, size: int) -> bytes:
    fact = b'{"fact":"' + b"word " * (size // 5) + b'"}'
    return b'{"conversation_id":"user/bomb","facts":[' + b",".join([fact] * count) + b"]}"


def sync_bomb() -> bytes:
    """A document of 100 MB in some 117 kB."""
    item = b'{"content":"x"},'
    document = b'{"version":"1.0","memories":[' + item * (100_000_000 // len(item)) + b'{"content":"x"}]}'
    packed = base64.b64encode(gzip.compress(document, 9))
    return b'{"conversation_id":"user/bomb","arguments":{"operation":"import","data":"' + packed + b'"}}'


def keys(target: Target, _seconds: float) -> Answers:
    """Writes with a key each and answers of 400 kB, of which no more than 8 MB are kept."""
    body = b'{"conversation_id":"user/keys","facts":[{"fact":"Otter","metadata":{"a":"' + b"x" * 400_000 + b'"}}]}'
    with client(target.http, TOKEN) as sender, ThreadPoolExecutor(AT_ONCE) as pool:

        def send(number: int) -> object:
            headers = {"Idempotency-Key": f"key {number}"}
            return status(lambda: sender.post("/api/v0/remember", content=body, headers=headers))

        return Counter(pool.map(send, range(KEYS)))


def session(sender: httpx.Client) -> httpx.Response:
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bomb", "version": "1"}}
    return sender.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about})


def begun_session(sender: httpx.Client) -> dict[str, str]:
    """Begin a session as a client does, and give the headers of its requests."""
    headers = {"Mcp-Session-Id": session(sender).headers["mcp-session-id"], "Mcp-Protocol-Version": "2025-06-18"}
    sender.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
    return headers


def called(sender: httpx.Client, headers: dict[str, str], tool: str, arguments: dict[str, object]) -> httpx.Response:
    """Call a tool in a session."""
    asked = {"name": tool, "arguments": arguments}
    answer = sender.post(
        "/mcp", json={"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asked}, headers=headers
    )
    assert '"isError":true' not in answer.text.replace(" ", ""), answer.text
    return answer


def sessions(target: Target, _seconds: float) -> Answers:
    with client(target.mcp, MCP_TOKEN) as sender, ThreadPoolExecutor(AT_ONCE) as pool:
        return Counter(pool.map(lambda _: status(lambda: session(sender)), range(1_000)))


def mcp_body(content: bytes) -> Callable[..., Answers]:
    def throw(target: Target, _seconds: float) -> Answers:
        with client(target.mcp, MCP_TOKEN) as sender, ThreadPoolExecutor(AT_ONCE) as pool:
            return Counter(pool.map(lambda _: status(lambda: sender.post("/mcp", content=content)), range(16)))

    return throw


def warm(target: Target) -> None:
    """One session of each kind, so that what a first request loads is not taken for a bomb's."""
    with client(target.mcp, MCP_TOKEN) as sender:
        for _ in range(5):
            begun = session(sender)
            sender.delete("/mcp", headers={"Mcp-Session-Id": begun.headers["mcp-session-id"]})


def once(target: Target, path: str, content: bytes | Iterable[bytes]) -> Answers:
    with client(target.http, TOKEN) as sender:
        return Counter([status(lambda: sender.post(path, content=content))])


HEAD = b"POST /api/v0/retrieve_memory HTTP/1.1\r\nHost: 127.0.0.1\r\n"
LARGE = HEAD + b"Authorization: Bearer " + TOKEN.encode() + b"\r\nContent-Length: 7000000\r\n\r\n" + b" " * 65_000
RETRIEVE, SYNC = "/api/v0/retrieve_memory", "/api/v0/tools/memory_sync"
EMOJI = "\N{OTTER}".encode() + LETTERS * (BYTES // 26 - 100)

BOMBS = (
    Bomb("openapi.json, 8 MB, no token", posts("/openapi.json", lambda: b"x" * BYTES, token=None)),
    Bomb("retrieve, 8 MB, no token", posts(RETRIEVE, lambda: b"x" * BYTES, token=None)),
    Bomb("deep JSON", posts(RETRIEVE, lambda: b"[" * BYTES)),
    Bomb("deep objects", posts(RETRIEVE, lambda: b'{"a":' * (BYTES // 5))),
    Bomb("wide JSON", posts(RETRIEVE, lambda: b"[" + b"0," * (BYTES // 2) + b"0]")),
    Bomb("millions of objects", posts(RETRIEVE, lambda: b"[" + b'{"a":{}},' * (BYTES // 9) + b"0]")),
    Bomb("millions of quotes", posts(RETRIEVE, lambda: b'"' * BYTES)),
    Bomb("query of 8 MB", posts(RETRIEVE, lambda: retrieve(LETTERS * (BYTES // 26 - 100)))),
    Bomb("query of 8 MB, with an emoji", posts(RETRIEVE, lambda: retrieve(EMOJI))),
    Bomb("query of 8 MB, 1.6 million words", posts(RETRIEVE, lambda: retrieve(b"word " * (BYTES // 5 - 100)))),
    Bomb("pieces of one byte", lambda target, _: once(target, RETRIEVE, pieces(b" " * 400_000, 1))),
    Bomb("remember, 100,000 items", posts("/api/v0/remember", lambda: remember(100_000, size=60))),
    Bomb("remember, 256 items of 30 kB", posts("/api/v0/remember", lambda: remember(256, size=30_000), times=3)),
    Bomb("sync, 117 kB that hold 100 MB", posts(SYNC, sync_bomb, times=2)),
    Bomb("slow headers x200", slow(HEAD + b"X-Slow: ", b"a")),
    Bomb("slow bodies x200, 8 MB each", slow(LARGE, b" " * 4_000, watched=40)),
    Bomb("readyz flood, no token", floods(lambda sender, _: sender.get("/readyz"), token=None)),
    Bomb("openapi.json flood, no token", floods(lambda sender, _: sender.get("/openapi.json"), token=None)),
    Bomb("wrong tokens", floods(lambda sender, _: sender.post(RETRIEVE, json={}), token="wrong-token-000000")),  # noqa: S106
    Bomb("keys with large answers, 32 MB", keys),
    Bomb("MCP: 1,000 sessions", sessions, mcp=True),
    Bomb("MCP: wide JSON", mcp_body(b"[" + b"0," * (BYTES // 2) + b"0]"), mcp=True),
    Bomb("MCP: slow headers x200", slow(b"POST /mcp HTTP/1.1\r\nX-Slow: ", b"a", mcp=True), mcp=True),
)  # fmt: skip
