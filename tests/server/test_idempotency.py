"""A write that is sent twice under one key is done once."""

import asyncio
import itertools
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from types import SimpleNamespace

import pytest
from patience import PATIENCE

from memory_retrievers import AgentMemory, Message
from memory_retrievers.backends.sql import requests
from memory_retrievers.errors import BackendError, NotFoundError, StoreLockedError
from memory_retrievers.server import AccessToken
from memory_retrievers.server.requests import (
    KEEP_BYTES,
    KEEP_SECONDS,
    MAX_ANSWER_BYTES,
    Idempotency,
    Metrics,
    RequestContext,
)
from memory_retrievers.server.responses import HTTPError
from memory_retrievers.server.settings import Access
from memory_retrievers.testing import HashEmbedder, inside
from memory_retrievers.tools import responses

from .conftest import ALICE, BOB, OPERATOR, by, error_of, of_alice, serving

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


@pytest.fixture
def other(memory):
    """Another server of the same memory, which knows nothing of the answers of the first."""
    with serving(memory) as client:
        yield client


@pytest.mark.parametrize("route", WRITES)
def test_what_one_server_of_a_store_has_done_another_does_not_do_again(client, other, memory, route):
    first = client.post(f"/api/v0/{route}", json=of_alice(**WRITES[route]), headers=KEY)
    held = memory.stats()
    second = other.post(f"/api/v0/{route}", json=of_alice(**WRITES[route]), headers=KEY)
    if route == "remember":
        assert (first.status_code, second.status_code) == (200, 200)
        assert first.json() == second.json()
    else:
        assert (first.status_code, error_of(second)) == (200, (409, "Conflict"))
    assert memory.stats() == held
    another = other.post(f"/api/v0/{route}", json=of_alice(**WRITES[route], conversation="b"), headers=KEY)
    assert another.status_code == 422


def test_an_answer_does_not_outlive_what_is_forgotten(client, other, memory):
    answer = client.post("/api/v0/remember", json=of_alice(**WRITES["remember"]), headers=KEY)
    (made,) = answer.json()["facts"]
    memory.forget(made["id"], scope="user/alice")
    for each in (client, other):
        again = each.post("/api/v0/remember", json=of_alice(**WRITES["remember"]), headers=KEY)
        assert error_of(again) == (409, "Conflict")
        assert "swims" not in again.text
        assert made["id"] not in again.text
    with inside(memory).ledger.database.read() as connection:
        ((noted,),) = connection.execute("SELECT value FROM notes WHERE name LIKE 'request:%'").fetchall()
    assert not [each for each in ("swims", "alice", made["id"]) if each in noted]


@pytest.mark.parametrize(
    ("route", "fields"),
    [
        ("update", {"id": "fact-otter", "tags": ["new"]}),
        ("invalidate", {"fact_id": "fact-otter"}),
        ("review", {"id": "episode-otter", "rating": "good"}),
        (
            "tools/memory_update",
            {"arguments": {"id": "fact-otter", "content": "An otter in Lyon", "response_level": "full"}},
        ),
        ("tools/memory_set_score", {"arguments": {"id": "fact-otter", "score": 0.9, "response_level": "full"}}),
        ("remember", {"facts": [{"fact": "The user keeps a otter in Nice"}]}),
        # what changes nothing, and what forgets it
        ("update", {"id": "fact-otter", "fact": "The user keeps a otter in Lyon"}),
        (
            "tools/memory_manage",
            {"arguments": {"operation": "get", "memory_id": "episode-otter", "response_level": "standard"}},
        ),
        ("tools/memory_sync", {"arguments": {"operation": "export"}}),
        ("tools/memory_delete", {"arguments": {"id": "fact-otter", "response_level": "full"}}),
    ],
)
def test_no_answer_quotes_what_was_forgotten_since(client, memory, route, fields):
    first = client.post(f"/api/v0/{route}", json=of_alice(**fields), headers=KEY)
    assert (first.status_code, "Lyon" in first.text) == (200, True)
    memory.forget_scope("user/alice")
    again = client.post(f"/api/v0/{route}", json=of_alice(**fields), headers=KEY)
    assert error_of(again) == (409, "Conflict")
    assert "otter" not in again.text


@pytest.mark.parametrize("is_open", [False, True])
def test_no_answer_quotes_what_somebody_said_and_is_forgotten_since(client, memory, clock, monkeypatch, is_open):
    monkeypatch.setattr(responses, "_LIKELY", 0.0)
    memory.add_messages("user/alice", [Message(role="user", content="The otter swims in Lyon")])
    if not is_open:
        memory.flush("user/alice")
    sent = of_alice(arguments={"id": "fact-otter"})
    first = client.post("/api/v0/tools/memory_delete", json=sent, headers=KEY)
    assert (first.status_code, "swims" in first.text) == (200, not is_open)
    clock.advance(seconds=1)
    memory.forget_messages("user/alice", ["The otter swims in Lyon"])
    again = client.post("/api/v0/tools/memory_delete", json=sent, headers=KEY)
    assert "swims" not in again.text
    assert error_of(again) == (409, "Conflict") if not is_open else again.status_code == 200


@pytest.mark.parametrize("correct", [False, True])
def test_no_answer_quotes_what_was_changed_since(client, other, memory, clock, correct):
    sent = {
        "remember": of_alice(episodes=[{"id": "e9", "summary": "The otter swims in Nice"}]),
        "tools/memory_store": of_alice(arguments={"content": "The otter sleeps in Nice", "response_level": "full"}),
    }

    def send(server, route):
        return server.post(f"/api/v0/{route}", json=sent[route], headers={"Idempotency-Key": route})

    assert ["Nice" in send(client, route).text for route in sent] == [True, True]
    clock.advance(seconds=1)
    (stored,) = [each for each in memory.list("user/alice").memories if "sleeps" in getattr(each, "fact", "")]
    memory.update(stored.id, scope="user/alice", fact="The otter sleeps", correct=correct)
    memory.update("e9", scope="user/alice", summary="The otter swims", correct=correct)
    held = memory.stats()
    for server in (client, other):
        assert send(server, "remember").json()["episodes"][0]["summary"] == "The otter swims"
        refused = send(server, "tools/memory_store")
        assert error_of(refused) == (409, "Conflict")
        assert "Nice" not in refused.text
    assert memory.stats() == held


def test_no_answer_is_given_again_once_the_store_knows_no_more_of_its_request(client, other, memory, monkeypatch):
    monkeypatch.setattr(requests, "KEPT", 20)
    told = of_alice(episodes=[{"id": "e9", "summary": "The otter swims in Nice"}])
    for server in (client, other):
        assert "Nice" in server.post("/api/v0/remember", json=told, headers=KEY).text
    asked = of_alice(**WRITES["add_message"])
    added = client.post("/api/v0/add_message", json=asked, headers={"Idempotency-Key": "twice"})
    for number in range(100):  # of so many the store keeps the last 20
        said = of_alice(**WRITES["add_message"])
        client.post("/api/v0/add_message", json=said, headers={"Idempotency-Key": f"key {number}"})
    memory.forget("e9", scope="user/alice")
    for server in (client, other):
        again = server.post("/api/v0/remember", json=told, headers=KEY)
        assert (error_of(again), "Nice" in again.text) == ((409, "Conflict"), False)
    assert memory.stats("user/alice").episodes == 1
    quotes_nothing = client.post("/api/v0/add_message", json=asked, headers={"Idempotency-Key": "twice"})
    assert (quotes_nothing.status_code, quotes_nothing.json()) == (added.status_code, added.json())


def test_two_that_ask_at_the_same_moment_for_an_outdated_answer_are_both_refused(client, memory, clock, monkeypatch):
    taken = {"arguments": {"content": "The otter sleeps in Nice", "response_level": "full"}}
    ask = partial(client.post, "/api/v0/tools/memory_store", json=of_alice(**taken), headers=KEY)
    assert "Nice" in ask().text
    clock.advance(seconds=1)
    (stored,) = [each for each in memory.list("user/alice") if "sleeps" in getattr(each, "fact", "")]
    memory.update(stored.id, scope="user/alice", fact="The otter sleeps")
    held, find, both, looked = memory.stats(), requests.SQLRequests.find, threading.Barrier(2), itertools.count()

    def find_together(self, key):
        done = find(self, key)
        if next(looked) < both.parties:
            both.wait(PATIENCE)
        return done

    monkeypatch.setattr(requests.SQLRequests, "find", find_together)
    with ThreadPoolExecutor(both.parties) as threads:
        answers = [sent.result() for sent in [threads.submit(ask) for _ in range(both.parties)]]
    assert [error_of(each) for each in [*answers, ask()]] == [(409, "Conflict")] * 3
    assert not any("Nice" in each.text for each in answers)
    assert memory.stats() == held


def test_no_answer_quotes_what_has_expired_since(client, other, memory, clock):
    ends = (clock.now() + timedelta(hours=1)).isoformat()
    told = of_alice(episodes=[{"summary": "The otter swims in Nice", "expires_at": ends}])
    assert "Nice" in client.post("/api/v0/remember", json=told, headers=KEY).text
    clock.advance(hours=2)
    for server in (client, other):
        refused = server.post("/api/v0/remember", json=told, headers=KEY)
        assert error_of(refused) == (409, "Conflict")
        assert "Nice" not in refused.text


def test_an_answer_about_too_many_memories_to_note_is_given_once(client, memory, monkeypatch):
    monkeypatch.setattr(requests, "_MOST_QUOTED", 2)
    said = of_alice(facts=[{"fact": f"Bird number {number}", "id": f"b{number}"} for number in range(3)])
    assert client.post("/api/v0/remember", json=said, headers=KEY).status_code == 200
    memory.forget("b1", scope="user/alice")
    assert error_of(client.post("/api/v0/remember", json=said, headers=KEY)) == (409, "Conflict")
    assert memory.stats("user/alice").facts == 3


def test_a_failure_after_a_change_may_be_tried_again_on_another_server(client, other, memory, monkeypatch):
    def fails_behind(*_, **__):
        memory_of_the_class(memory, "c9", [{"role": "user", "content": "Hello."}])
        raise BackendError("too late")

    memory_of_the_class = type(memory).add_messages
    with monkeypatch.context() as broken:
        broken.setattr(type(memory), "add_messages", fails_behind)
        assert (
            client.post("/api/v0/add_message", json=of_alice(**WRITES["add_message"]), headers=KEY).status_code == 503
        )
    assert other.post("/api/v0/add_message", json=of_alice(**WRITES["add_message"]), headers=KEY).status_code == 200


def test_what_a_write_failed_of_is_told_also_where_its_note_cannot_be_forgotten(client, memory, monkeypatch):
    forgotten = []

    def forget(self, request):
        forgotten.append(request)
        raise StoreLockedError("another process writes")

    def fail_behind(*args, **options):
        memory.add_messages("c9", [{"role": "user", "content": "Hello."}])
        raise BackendError("this is what failed")

    monkeypatch.setattr(requests.SQLRequests, "forget", forget)
    monkeypatch.setattr(type(memory), "remember_many", fail_behind)
    answer = client.post("/api/v0/remember", json=of_alice(facts=[{"fact": "tea"}]), headers=KEY)
    assert answer.json()["message"] == "this is what failed"
    assert len(forgotten) == 1


def test_a_write_that_has_to_embed_anew_is_not_noted_before_it_is_done():
    """As of the first two writes of a store one has to: a kill in between would leave a request done, and nothing."""
    noted, known = requests.RequestUnderWay("ab" * 32, "request"), []

    class Watching(HashEmbedder):
        def embed_documents(self, texts):
            known.append(inside(memory).ledger.requests.find(noted.key))
            if len(known) == 1:
                with ThreadPoolExecutor(1) as other:
                    other.submit(memory.remember_fact, scope="c1", fact="The heron is grey").result(PATIENCE)
            return super().embed_documents(texts)

    with AgentMemory.in_memory(embedder=Watching()) as memory:
        context = requests.under_way.set(noted)
        fact = memory.remember_fact(scope="c9", fact="The otter swims")
        requests.under_way.reset(context)
        assert known == [None, None, None]
        assert inside(memory).ledger.requests.find(noted.key).made[0].key == fact.key


def test_reviews_that_wait_to_be_written_do_not_note_a_forgetting_as_done(memory):
    """They are written before it: a kill in between would leave it done, and what was to be forgotten there."""
    noted = requests.RequestUnderWay("ab" * 32, "request")
    memory.remember_episode(scope="c9", summary="The otter swims in the river")
    memory.retrieve("otter", scope="c9")
    context = requests.under_way.set(noted)
    with pytest.raises(NotFoundError):
        memory.forget("nothing", scope="c9")
    requests.under_way.reset(context)
    assert memory.pending_reviews("c9")
    assert inside(memory).ledger.requests.find(noted.key) is None


def test_what_has_expired_is_removed_without_noting_a_request_of_a_tool_as_done(memory, clock):
    noted = requests.RequestUnderWay("ab" * 32, "request")
    memory.remember_fact(scope="c9", fact="The kettle boils", id="kettle", expires_at=clock.now() + timedelta(hours=1))
    clock.advance(days=1)
    context = requests.under_way.set(noted)
    memory.manager.attempt(lambda: None)
    requests.under_way.reset(context)
    assert inside(memory).ledger.requests.find(noted.key) is None


async def test_what_fails_after_a_change_behind_the_end_of_its_server_may_be_tried_again(memory):
    begun, let, running = threading.Event(), threading.Event(), set()
    shared = SimpleNamespace(memory=memory, running=running, metrics=Metrics(), readiness=None, processing=None)
    noted = requests.RequestUnderWay("ab" * 32, "request")
    context = requests.under_way.set(noted)

    def fails_behind():
        memory.add_messages("c9", [{"role": "user", "content": "Hello."}])
        begun.set()
        let.wait(PATIENCE)
        raise BackendError("too late")

    asked = RequestContext(
        SimpleNamespace(app=SimpleNamespace(state=shared), scope={"state": {"access": Access(name="a")}})
    )
    answer = asyncio.create_task(asked.run(fails_behind))
    await asyncio.to_thread(begun.wait, PATIENCE)
    assert inside(memory).ledger.requests.find(noted.key) is not None
    answer.cancel()
    await asyncio.wait([answer])
    let.set()
    await asyncio.wait(running)
    requests.under_way.reset(context)
    assert inside(memory).ledger.requests.find(noted.key) is None


@pytest.mark.parametrize("fails", [StoreLockedError("another process writes"), requests.RepeatedRequestError()])
def test_an_answer_whose_quotes_cannot_be_noted_is_given_once(client, memory, monkeypatch, fails):
    def note_quoted(self, request):
        assert len(request.told) > request.noted
        raise fails

    monkeypatch.setattr(requests.SQLRequests, "note_quoted", note_quoted)
    sent = of_alice(arguments={"id": "fact-otter", "response_level": "full"})
    first = client.post("/api/v0/tools/memory_delete", json=sent, headers=KEY)
    assert (first.status_code, first.json()["deleted_count"]) == (200, 1)
    again = client.post("/api/v0/tools/memory_delete", json=sent, headers=KEY)
    assert (error_of(again), "otter" in again.text) == ((409, "Conflict"), False)


def test_an_answer_is_made_anew_for_those_alone_who_may_see_it(guarded, memory):
    body = {"json": of_alice(**WRITES["remember"]), "headers": by(ALICE) | KEY}
    assert guarded.post("/api/v0/remember", **body).status_code == 200
    with serving(memory, tokens=[AccessToken(secret=ALICE, root="user/alice/work")]) as narrowed:
        assert error_of(narrowed.post("/api/v0/remember", **body))[0] in {403, 409}
        assert "swims" not in narrowed.post("/api/v0/remember", **body).text


def test_requests_are_forgotten_after_a_day_and_bounded(client, other, memory, monkeypatch):
    monkeypatch.setattr(requests, "KEPT", 20)
    now = [1_800_000_000.0]
    monkeypatch.setattr(requests.time, "time", lambda: now[0])
    said = of_alice(**WRITES["add_message"])
    for number in range(200):
        client.post("/api/v0/add_message", json=said, headers={"Idempotency-Key": f"key {number}"})
    with inside(memory).ledger.database.read() as connection:
        (kept,) = connection.execute("SELECT count(*) FROM notes WHERE name LIKE 'request:%'").fetchone()
    assert 20 <= kept < 120
    last = {"Idempotency-Key": "key 199"}
    assert other.post("/api/v0/add_message", json=said, headers=last).status_code == 409
    now[0] += requests.KEEP_SECONDS
    assert other.post("/api/v0/add_message", json=said, headers=last).status_code == 200


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


class NoOther:
    """What a store knows that no other process has done anything of."""

    def find(self, key):
        return None

    def note_quoted(self, request):
        pass


def keeping(app, **options):
    options = {"requests": NoOther(), "make_anew": lambda path, done: None, "now": lambda: None, **options}
    return Idempotency(app, is_write=lambda path: True, **options)


async def test_while_the_first_is_under_way_the_second_is_told_to_wait():
    slow = Slow()
    app = keeping(slow)
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
    app = keeping(slow, clock=lambda: now[0])
    await ask(app)
    now[0] = KEEP_SECONDS - 1
    await ask(app)
    assert slow.asked == 1
    now[0] = KEEP_SECONDS
    await ask(app)
    assert slow.asked == 2


async def test_what_is_remembered_is_bounded_also_where_answers_are_small(monkeypatch):
    monkeypatch.setattr("memory_retrievers.server.requests.KEEP_BYTES", 100_000)
    assert KEEP_BYTES > 100_000
    slow = Slow()
    slow.let.set()
    app = keeping(slow)
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
    app = keeping(long)
    for number in range(40):
        await ask(app, key=f"key {number}")
        assert app._bytes == sum(kept.size for kept in app._kept.values()) <= KEEP_BYTES
    assert len(await ask(app, key="key 39")) == long.size
    assert long.asked == 40


async def test_an_answer_that_is_too_long_is_not_kept_but_that_it_was_done_is():
    long = Long(MAX_ANSWER_BYTES + 4)
    app = keeping(long)
    assert len(await ask(app)) == long.size
    with pytest.raises(HTTPError, match="is done; its answer was not kept") as refused:
        await ask(app)
    assert (refused.value.status, long.asked) == (409, 1)
    assert app._bytes < 10_000
