"""What is made to take much of a server for little of its sender is refused before it does."""

import gzip
import json
import resource
import time
import types
from concurrent.futures import ThreadPoolExecutor

import pytest
from patience import PATIENCE

from memory_retrievers import AgentMemory
from memory_retrievers.server import app as application
from memory_retrievers.server import create_app, responses
from memory_retrievers.server.app import Guard
from memory_retrievers.server.bodies import MAX_REMEMBERED
from memory_retrievers.server.intake import SMALL_BODY, BodyLimiter, SharedCheck, check_shape
from memory_retrievers.server.settings import ServerSettings, TrafficSettings
from memory_retrievers.storage.embedder import EMBEDDED_CHARACTERS, EMBEDDED_TEXTS
from memory_retrievers.testing import HashEmbedder, inside

from .conftest import ALICE, OWN, TOKENS, by, error_of, of_alice, serving

MEGABYTES = 7_900_000
BOMBS = {
    "deep lists": b"[" * MEGABYTES,
    "deep objects": b'{"a":' * (MEGABYTES // 5),
    "wide": b"[" + b"0," * (MEGABYTES // 2) + b"0]",
    "objects": b"[" + b'{"a":{}},' * (MEGABYTES // 9) + b"0]",
    "texts": b"[" + b'"",' * (MEGABYTES // 3) + b'""]',
    "quotes": b'"' * MEGABYTES,
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_body_of_millions_of_elements_is_refused_before_it_is_read(bomb):
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(responses.HTTPError, match="the body holds") as refused:
        check_shape(BOMBS[bomb], max_depth=64, max_elements=50_000)
    assert refused.value.status == 422
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held) * 1024 < 5 * MEGABYTES


@pytest.mark.parametrize("bomb", BOMBS)
def test_no_route_reads_such_a_body(client, bomb):
    for path in ("retrieve_memory", "remember", "tools/memory_store"):
        answer = client.post(f"/api/v0/{path}", content=BOMBS[bomb], headers={"Content-Type": "application/json"})
        assert error_of(answer) == (422, "ValidationError")
        assert "the body holds" in answer.json()["message"]


@pytest.mark.parametrize("text", [r'"\"[[[[,,,,{{{{"', r'"\\"', r'["\\\"[[[",{"[[[":"}}}"}]', '"[[[', "[1,[2,[3]]]"])
def test_what_stands_within_texts_is_not_counted(text):
    check_shape(text.encode(), max_depth=3, max_elements=6)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[[[", "more than 3 deep"),
        ('[[[{"a":0}]]]', "more than 3 deep"),
        (r'["\\",[[["a"]]]]', "more than 3 deep"),
        ("[0,0,0,0,0,0,0]", "more than 6 values"),
        ('{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7}', "more than 6 values"),
    ],
)
def test_depth_and_elements_are_counted(text, complaint):
    with pytest.raises(responses.HTTPError, match=complaint):
        check_shape(text.encode(), max_depth=3, max_elements=6)


def test_who_packs_a_body_is_told_to_send_it_as_it_is(client):
    body, headers = gzip.compress(b"[" * MEGABYTES), {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    answer = client.post("/api/v0/retrieve_memory", content=body, headers=headers)
    assert error_of(answer) == (422, "ValidationError")
    assert answer.json()["message"] == "compressed bodies are not accepted: send it without Content-Encoding"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
def test_an_encoding_in_which_signs_cannot_be_counted_is_refused(client, encoding):
    answer = client.post("/api/v0/retrieve_memory", content=json.dumps(of_alice(query="otter")).encode(encoding))
    assert error_of(answer) == (422, "ValidationError")


def test_a_legal_body_that_is_as_full_as_it_may_be_is_taken(client):
    messages = [{"role": "user", "content": 'He said: "[{,".\n'} for _ in range(40)]
    episodes = [{"summary": f"Number {number}", "messages": messages} for number in range(MAX_REMEMBERED)]
    answer = client.post("/api/v0/remember", json=of_alice(episodes=episodes))
    assert (answer.status_code, len(answer.json()["episodes"])) == (200, MAX_REMEMBERED)


@pytest.mark.parametrize(
    "fields",
    [
        {"facts": [{"fact": f"Number {number}"} for number in range(257)]},
        {"facts": [{"fact": "x"}] * 200, "episodes": [{"summary": "x"}] * 57},
    ],
)
def test_257_memories_are_too_many_for_one_request(client, memory, fields):
    before = memory.stats()
    answer = client.post("/api/v0/remember", json=of_alice(**fields))
    assert error_of(answer) == (422, "ValidationError")
    assert "257 memories are too many for one request: send at most 256 at once" in answer.json()["message"]
    assert memory.stats() == before


@pytest.mark.parametrize("wide", ["🦦", r"\ud83e\uddA6", r"\uD83E\uDDA6", "é 漢 a", r"\u00e9"])
def test_a_large_body_that_an_emoji_would_make_four_times_as_large_is_refused(memory, wide):
    is_wide = wide.lower()[:2] not in {"é ", r"\u"} or wide.lower().startswith(r"\ud8")
    with serving(memory, max_body_bytes=20_000) as client:
        for size, status in ((9_000, 200), (12_000, 413 if is_wide else 200)):
            body = '{"conversation_id":"user/alice","facts":[{"fact":"%s"}]}' % (wide + "o" * size)
            answer = client.post("/api/v0/remember", content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code == status, answer.text
            assert status == 200 or "beyond U+FFFF" in answer.json()["message"]


class Interrupted(HashEmbedder):
    """Notes what it gets at once, and between two of its batches somebody asks a question."""

    def __init__(self, *, fails=False):
        super().__init__()
        self.batches, self.found, self.memory, self.fails = [], [], None, fails

    def embed_documents(self, texts):
        if self.memory is not None:
            self.batches.append([len(text) for text in texts])
            with ThreadPoolExecutor(1) as other:
                asked = other.submit(self.memory.retrieve, "otter", scope="user/alice", record=False)
                self.found.append(len(asked.result(PATIENCE).semantic))
            if self.fails and len(self.batches) == 3:
                raise OSError("the model is gone")
        return super().embed_documents(texts)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(("count", "size"), [(256, 10_000), (256, 3), (25, 99_000)])
def test_a_large_remember_is_embedded_in_batches_between_which_questions_are_answered(clock, count, size, fails):
    embedder = Interrupted(fails=fails and size > 3)
    with AgentMemory.in_memory(embedder=embedder, clock=clock) as memory, serving(memory) as client:
        memory.remember_fact(scope="user/alice", fact="An otter swims")
        embedder.memory = memory
        facts = [{"fact": chr(0x4E00 + number) + "o" * (size - 1)} for number in range(count)]  # none is told twice
        answer = client.post("/api/v0/remember", json=of_alice(facts=facts))
        embedder.memory = None
        kept = memory.stats().facts
    sizes = [size for batch in embedder.batches for size in batch]
    assert all(len(batch) <= EMBEDDED_TEXTS for batch in embedder.batches)
    assert all(sum(batch) <= EMBEDDED_CHARACTERS for batch in embedder.batches)
    assert (len(embedder.batches) > 1, set(embedder.found)) == (True, {1})
    assert (answer.status_code, kept) == ((502, 1) if embedder.fails else (200, count + 1))
    assert embedder.fails or len(sizes) == count


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [{}] * 16_000},
        {"episodes": [{"summary": "x", "messages": [{}] * 16_000}]},
        {"facts": [{"fact": "x", "tags": [0] * 40_000}]},
        {f"field {number}": 0 for number in range(40_000)},
    ],
)
def test_tens_of_thousands_of_mistakes_are_not_told_one_by_one(client, fields):
    for path in ("add_messages", "remember"):
        start = time.process_time()
        answer = client.post(f"/api/v0/{path}", json=of_alice(**fields))
        assert error_of(answer) == (422, "ValidationError")
        assert len(answer.content) < 10_000
        assert time.process_time() - start < 2


class Sent:
    """A body of so many bytes in pieces; counts what was taken of it."""

    def __init__(self, size, *, piece=65_536):
        self.left, self.piece, self.taken = size, piece, 0

    async def __call__(self):
        body = b" " * min(self.left, self.piece)
        self.left -= len(body)
        self.taken += len(body)
        return {"type": "http.request", "body": body, "more_body": self.left > 0}


async def ask(app, sent, *, path, method="POST", token=None):
    """The status of the answer, straight from the application."""
    headers = [(b"host", b"127.0.0.1:8000"), (b"transfer-encoding", b"chunked")]
    headers += [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    statuses = []

    async def send(message):
        statuses.append(message.get("status"))

    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "root_path": "", "scheme": "http", "headers": headers, "client": ("127.0.0.1", 1), "app": app, "state": {},
    }  # fmt: skip
    await app(scope, sent, send)
    return statuses[0]


@pytest.mark.parametrize(
    ("path", "method", "token", "status"),
    [
        ("/openapi.json", "GET", None, 200),
        ("/openapi.json", "POST", None, 405),
        ("/healthz", "GET", None, 200),
        ("/readyz", "GET", None, 200),
        ("/readyz", "POST", None, 405),
        ("/metrics", "GET", TOKENS[-1].secret, 200),
        ("/nowhere", "POST", ALICE, 404),
        ("/api/v0/tools/no_such_tool", "POST", ALICE, 404),
        ("/api/v0/retrieve_memory", "GET", ALICE, 405),
        ("/api/v0/retrieve_memory", "POST", None, 401),
        ("/api/v0/remember", "POST", "a-token-that-is-unknown", 401),
        ("/metrics", "GET", None, 401),
    ],
)
async def test_no_body_is_read_without_a_token_or_for_a_route_that_takes_none(memory, path, method, token, status):
    app, sent = create_app(memory, settings=ServerSettings(tokens=TOKENS, worker=False)), Sent(MEGABYTES)
    assert await ask(app, sent, path=path, method=method, token=token) == status
    assert sent.taken == 0


async def test_a_body_that_is_not_announced_is_cut_at_the_bound(memory):
    app, sent = create_app(memory, settings=ServerSettings(worker=False, max_body_bytes=200_000)), Sent(MEGABYTES)
    assert await ask(app, sent, path="/api/v0/retrieve_memory") == 413
    assert sent.taken < 200_000 + sent.piece


def test_every_route_with_a_body_in_the_document_is_known_to_the_guard(client):
    takes = next(each.kwargs["takes_body"] for each in client.app.user_middleware if each.cls is Guard)
    for path, item in client.app.openapi()["paths"].items():
        for method, operation in item.items():
            assert (method == "post" and takes(path)) == ("requestBody" in operation), path


async def test_large_bodies_are_bounded_together_and_small_ones_pass_beside_them():
    intake, headers = BodyLimiter(TrafficSettings(max_bodies_bytes=300_000)), {}
    async with intake.body(headers, Sent(200_000)):
        async with intake.body(headers, Sent(SMALL_BODY)):
            with pytest.raises(responses.HTTPError, match="too many large bodies") as refused:
                await intake.body(headers, Sent(200_000)).__aenter__()
        assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
        async with intake.body(headers, Sent(80_000)):
            pass
    async with intake.body(headers, Sent(400_000)):  # alone
        pass
    assert intake._held == 0


def test_the_document_is_not_made_without_bound_for_whom_nobody_knows(memory):
    with serving(memory, tokens=TOKENS, requests_per_minute=1, burst=3) as client:
        assert [client.get("/openapi.json").status_code for _ in range(4)] == [200, 200, 200, 429]
        assert client.get("/openapi.json", headers=by(ALICE)).status_code == 429
        assert client.post("/api/v0/retrieve_memory", json=of_alice(query="x"), headers=by(ALICE)).status_code == 200


def test_who_asks_for_the_document_takes_no_thread_of_those_who_ask_the_memory(memory, monkeypatch):
    with serving(memory, tokens=TOKENS) as client:
        first = client.get("/openapi.json")
        monkeypatch.setattr("anyio.to_thread.run_sync", lambda *_, **__: pytest.fail("it takes a thread"))
        assert client.get("/openapi.json").content == first.content
        monkeypatch.undo()  # the memory is closed in one


def test_whether_the_server_is_ready_is_found_out_once_a_second_and_without_a_count(memory, monkeypatch):
    statements, now = [], [0.0]
    monkeypatch.setattr(application, "time", types.SimpleNamespace(**vars(time) | {"monotonic": lambda: now[0]}))
    database = inside(memory).ledger.database
    with serving(memory) as client:
        read = database.read

        def noted(*arguments, **named):
            statements.append(named)
            return read(*arguments, **named)

        monkeypatch.setattr(type(memory), "stats", lambda *_: pytest.fail("it counts"))
        monkeypatch.setattr(database, "read", noted)
        for second in (1.0, 2.0):
            now[0] = second
            assert {client.get("/readyz").status_code for _ in range(50)} == {200}
            assert len(statements) == second


async def test_what_a_shared_check_found_holds_for_a_while_failures_too():
    now, made = [0.0], []

    async def check():
        made.append(now[0])
        if len(made) == 2:
            raise OSError("the disk is gone")

    shared = SharedCheck(seconds=1, clock=lambda: now[0])
    await shared.ask(check)
    await shared.ask(check)
    now[0] = 1.0
    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            await shared.ask(check)
    now[0] = 2.0
    await shared.ask(check)
    assert made == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("header", ["Origin", "Host"])
@pytest.mark.parametrize("address", ["http://[", "http://[::1", "http://[x]"])
def test_an_origin_or_host_that_is_no_address_is_a_400(client, header, address):
    value = address if header == "Origin" else address.removeprefix("http://")
    answer = client.post(f"{OWN}/api/v0/retrieve_memory", json=of_alice(query="otter"), headers={header: value})
    assert error_of(answer) == (400, "BadRequest")
