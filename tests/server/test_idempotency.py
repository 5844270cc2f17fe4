"""A write that is sent twice under one key is done once."""

import asyncio
import json

import pytest

from memory_retrievers.server.access import Access
from memory_retrievers.server.idempotency import KEEP_BYTES, KEEP_SECONDS, MAX_ANSWER_BYTES, Idempotency
from memory_retrievers.server.responses import HTTPError

from .conftest import ALICE, BOB, OPERATOR, by, error_of, of_alice

KEY = {"Idempotency-Key": "once"}
WRITES = {
    "add_message": {"message": {"role": "user", "content": "Hello."}},
    "add_messages": {"messages": [{"role": "user", "content": "Hello."}]},
    "remember": {"facts": [{"fact": "The otter swims"}]},
    "forget_scope": {},
    "tools/memory_store": {"arguments": {"content": "The otter swims"}},
}


@pytest.mark.parametrize("route", WRITES)
def test_the_same_key_twice_is_one_write_and_one_answer(client, memory, route):
    first = client.post(f"/api/v0/{route}", json=of_alice(**WRITES[route]), headers=KEY)
    held = memory.stats()
    second = client.post(f"/api/v0/{route}", json=of_alice(**WRITES[route]), headers=KEY)
    assert (first.status_code, first.text) == (second.status_code, second.text) == (200, first.text)
    assert first.headers["content-type"] == second.headers["content-type"]
    assert memory.stats() == held


def test_without_a_key_it_is_written_twice(client, memory):
    for _ in range(2):
        client.post("/api/v0/remember", json=of_alice(**WRITES["remember"], allow_duplicates=True))
    assert memory.stats("user/alice").facts == 3


def test_the_same_key_with_another_request_is_refused(client, memory):
    client.post("/api/v0/remember", json=of_alice(**WRITES["remember"]), headers=KEY)
    held = memory.stats()
    for route, fields in (("remember", {"facts": [{"fact": "Another"}]}), ("add_message", WRITES["add_message"])):
        answer = client.post(f"/api/v0/{route}", json=of_alice(**fields), headers=KEY)
        assert error_of(answer) == (422, "ValidationError")
    assert memory.stats() == held


def test_a_failure_may_be_tried_again_under_its_key(client, memory):
    taken = of_alice(facts=[{"id": "fact-otter", "fact": "The otter swims"}])
    assert client.post("/api/v0/remember", json=taken, headers=KEY).status_code == 422
    memory.forget("fact-otter", scope="user/alice")
    assert client.post("/api/v0/remember", json=taken, headers=KEY).status_code == 200


def test_each_sender_has_keys_of_its_own(guarded, memory):
    for token, scope in ((ALICE, "user/alice"), (BOB, "user/bob"), (OPERATOR, "user/alice")):
        body = {"conversation_id": scope, **WRITES["remember"], "allow_duplicates": True}
        assert guarded.post("/api/v0/remember", json=body, headers=by(token) | KEY).status_code == 200
    assert memory.stats().facts == 5


def test_routes_that_only_read_pay_no_attention_to_a_key(client):
    for query in ("otter", "zebra"):
        assert client.post("/api/v0/retrieve_memory", json=of_alice(query=query), headers=KEY).status_code == 200


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_key_is_neither_empty_nor_long(client, key):
    answer = client.post(
        "/api/v0/add_message", json=of_alice(**WRITES["add_message"]), headers={"Idempotency-Key": key}
    )
    assert error_of(answer) == (422, "ValidationError")


class Slow:
    """Answers when it is let; counts how often it was asked."""

    def __init__(self):
        self.asked, self.let = 0, asyncio.Event()

    async def __call__(self, scope, receive, send):
        self.asked += 1
        await self.let.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"done"})


async def ask(app, key="k"):
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/write",
        "query_string": b"",
        "headers": [(b"idempotency-key", key.encode())],
        "state": {"access": Access(name="a")},
    }
    sent = []

    async def receive():
        return {"type": "http.request", "body": json.dumps({}).encode(), "more_body": False}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    return b"".join(message.get("body", b"") for message in sent)


async def test_while_the_first_is_under_way_the_second_is_told_to_wait():
    slow = Slow()
    app = Idempotency(slow, is_write=lambda path: True)
    first = asyncio.create_task(ask(app))
    await asyncio.sleep(0)
    with pytest.raises(HTTPError) as refused:
        await ask(app)
    assert refused.value.status == 409
    slow.let.set()
    assert (await first, await ask(app), slow.asked) == (b"done", b"done", 1)


async def test_a_key_is_forgotten_after_a_day():
    now, slow = [0.0], Slow()
    slow.let.set()
    app = Idempotency(slow, is_write=lambda path: True, clock=lambda: now[0])
    await ask(app)
    now[0] = KEEP_SECONDS - 1
    await ask(app)
    assert slow.asked == 1
    now[0] = KEEP_SECONDS
    await ask(app)
    assert slow.asked == 2


async def test_what_is_remembered_is_bounded_also_where_answers_are_small(monkeypatch):
    monkeypatch.setattr("memory_retrievers.server.idempotency.KEEP_BYTES", 100_000)
    assert KEEP_BYTES > 100_000
    slow = Slow()
    slow.let.set()
    app = Idempotency(slow, is_write=lambda path: True)
    for number in range(1_000):
        await ask(app, key=f"key {number}")
    await ask(app, key="key 999")
    assert slow.asked == 1_000
    await ask(app, key="key 0")
    assert slow.asked == 1_001
    assert len(app._kept) < 200


class Long(Slow):
    """Answers with so many bytes, in pieces."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    async def __call__(self, scope, receive, send):
        self.asked += 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(4):
            await send({"type": "http.response.body", "body": b"x" * (self.size // 4), "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def test_long_answers_are_bounded_in_bytes_together():
    long = Long(MAX_ANSWER_BYTES // 2)
    app = Idempotency(long, is_write=lambda path: True)
    for number in range(40):
        await ask(app, key=f"key {number}")
        assert app._bytes == sum(kept.size for kept in app._kept.values()) <= KEEP_BYTES
    assert len(await ask(app, key="key 39")) == long.size
    assert long.asked == 40


async def test_an_answer_that_is_too_long_is_not_kept_but_that_it_was_done_is():
    long = Long(MAX_ANSWER_BYTES + 4)
    app = Idempotency(long, is_write=lambda path: True)
    assert len(await ask(app)) == long.size
    with pytest.raises(HTTPError, match="is done; its answer was not kept") as refused:
        await ask(app)
    assert (refused.value.status, long.asked) == (409, 1)
    assert app._bytes < 10_000
