"""Tokens, roots, hosts and origins."""

import pytest

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.server import AccessToken, ServerSettings, create_app
from memory_retrievers.server.settings import McpSettings, parse_tokens
from memory_retrievers.window import WindowSettings

from .conftest import ALICE, ALICE_READS, BOB, OPERATOR, TOKENS, by, error_of, of_alice, serving

ASKED = of_alice(query="otter")
MESSAGE = {"role": "user", "content": "Hello."}
WRITES = {
    "add_message": {"message": MESSAGE},
    "add_messages": {"messages": [MESSAGE]},
    "process_due": {},
    "flush": {},
    "remember": {"facts": [{"fact": "x"}]},
    "forget_scope": {},
    "tools/memory_store": {"arguments": {"content": "x"}},
    "tools/memory_delete": {"arguments": {"id": "fact-otter"}},
}


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer wrong", f"Basic {ALICE}", f"Bearer {ALICE}x", f"Bearer {ALICE[:-1]}", "Bearer é"],
)
def test_who_is_not_let_in_gets_401_before_anything_is_looked_at(guarded, authorization):
    headers = {} if authorization is None else {"Authorization": authorization.encode("latin-1")}
    for path in ("/api/v0/retrieve_memory", "/api/v0/tools/memory_get", "/metrics", "/nowhere"):
        answer = guarded.post(path, content=b"no json", headers=headers)
        assert error_of(answer) == (401, "Unauthorized")
        assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_a_token_reaches_its_root_and_what_is_below(guarded, memory):
    memory.remember_fact(scope="user/alice/work", fact="The otter project ends in May")
    for scope in ("user/alice", "user/alice/work"):
        answer = guarded.post("/api/v0/retrieve_memory", json=ASKED | {"conversation_id": scope}, headers=by(ALICE))
        assert "otter" in answer.text


def test_outside_the_root_the_answer_is_the_same_whether_or_not_anything_is_there(guarded):
    answers = [
        guarded.post("/api/v0/retrieve_memory", json=ASKED | {"conversation_id": scope}, headers=by(ALICE))
        for scope in ("user/bob", "user/nobody", "user", "user/alice2")
    ]
    assert {(answer.status_code, answer.text) for answer in answers} == {(403, answers[0].text)}
    assert error_of(answers[0]) == (403, "Forbidden")


@pytest.mark.parametrize("path", ["retrieve_memory", "context_pre_retrieve", "remember", "tools/memory_store", "list"])
def test_a_foreign_scope_is_refused_before_a_body_that_is_wrong(guarded, path):
    wrong = {"nonsense": 1, "query": 5, "conversation_id": "user/bob"}
    assert error_of(guarded.post(f"/api/v0/{path}", json=wrong, headers=by(ALICE))) == (403, "Forbidden")
    own = guarded.post(f"/api/v0/{path}", json=wrong | {"conversation_id": "user/alice"}, headers=by(ALICE))
    assert own.status_code == 422
    untold = guarded.post(f"/api/v0/{path}", json=wrong | {"conversation_id": "a//b"}, headers=by(ALICE))
    assert untold.status_code == 422


def test_a_foreign_scope_is_refused_before_a_query_that_is_wrong(guarded):
    for scope, status in (("user/bob", 403), ("user/alice", 422)):
        query = {"conversation_id": scope, "max_tokens": "many"}
        assert guarded.get("/api/v0/profile", params=query, headers=by(ALICE)).status_code == status


def test_a_token_to_read_is_told_so_before_a_body_that_is_wrong(guarded):
    answer = guarded.post("/api/v0/remember", json=of_alice(nonsense=1), headers=by(ALICE_READS))
    assert error_of(answer) == (403, "Forbidden")


def test_the_scheme_may_be_in_any_case_of_letters(guarded):
    assert guarded.post("/api/v0/retrieve_memory", json=ASKED, headers={"Authorization": f"bearer {ALICE}"}).text


def test_a_token_to_read_cannot_write(guarded, memory):
    before = memory.stats()
    for route, fields in WRITES.items():
        answer = guarded.post(f"/api/v0/{route}", json=of_alice(**fields), headers=by(ALICE_READS))
        assert error_of(answer) == (403, "Forbidden")
    everywhere = guarded.post("/api/v0/process_due", json={}, headers=by(ALICE_READS))
    assert error_of(everywhere) == (403, "Forbidden")
    assert memory.stats() == before


def test_a_token_to_read_records_nothing(guarded, memory):
    for route in (
        "retrieve_memory",
        "retrieve_memory/raw",
        "tools/retrieve_memory",
        "tools/memory_search",
        "tools/memory_get",
    ):
        fields = {"arguments": {"id": "fact-otter"} if route.endswith("get") else {"query": "otter"}} if "tools" in route else {"query": "otter", "record": True}  # fmt: skip
        answer = guarded.post(f"/api/v0/{route}", json=of_alice(**fields), headers=by(ALICE_READS))
        assert answer.status_code == 200
    assert memory.pending_reviews("user/alice") == []
    assert memory.get("fact-otter", scope="user/alice").access_count == 0
    guarded.post("/api/v0/tools/memory_get", json=of_alice(arguments={"id": "fact-otter"}), headers=by(ALICE))
    guarded.post("/api/v0/tools/retrieve_memory", json=of_alice(arguments={"query": "otter"}), headers=by(ALICE))
    assert memory.get("fact-otter", scope="user/alice").access_count == 1
    assert len(memory.pending_reviews("user/alice")) == 1


def test_processing_everything_stays_within_the_root(guarded, memory):
    messages = [MESSAGE | {"content": f"Message {number}.", "timestamp": "2026-02-28T12:00:00Z"} for number in range(6)]
    for token, scope in ((ALICE, "user/alice"), (ALICE, "user/alice/work"), (BOB, "user/bob")):
        guarded.post("/api/v0/add_messages", json={"conversation_id": scope, "messages": messages}, headers=by(token))
    bob_before = memory.stats("user/bob")
    report = guarded.post("/api/v0/process_due", json={}, headers=by(ALICE)).json()["result"]
    assert {episode["scope"] for episode in report["episodes"]} <= {"user/alice", "user/alice/work"}
    assert memory.stats("user/bob") == bob_before
    assert memory.stats("user/alice/work").queued_messages < 6
    guarded.post("/api/v0/process_due", json={}, headers=by(OPERATOR))
    assert memory.stats("user/bob").queued_messages < 6


def test_metrics_are_for_who_reaches_everything(guarded):
    assert error_of(guarded.get("/metrics", headers=by(ALICE))) == (403, "Forbidden")
    told = guarded.get("/metrics", headers=by(OPERATOR)).text
    assert 'memory_retrievers_memories{kind="episodic"} 2.0' in told
    assert 'memory_retrievers_memories{kind="semantic"} 2.0' in told
    assert "memory_retrievers_queued_messages 0.0" in told


def test_metrics_tell_latencies_per_stage_and_no_scope(client):
    client.post("/api/v0/retrieve_memory", json=ASKED)
    client.post("/api/v0/somewhere/user/alice")
    told = client.get("/metrics").text
    once, for_each_kind = ("waiting", "memory", "embed", "rank", "hydrate", "answer", "whole"), ("dense", "bm25")
    for stage in (*once, *for_each_kind):
        times = "2.0" if stage in for_each_kind else "1.0"
        line = f'memory_retrievers_stage_seconds_count{{route="/api/v0/retrieve_memory",stage="{stage}"}} {times}'
        assert line in told
    assert "alice" not in told


def test_health_is_told_to_everybody(guarded):
    assert guarded.get("/healthz", headers={"Host": "a-name-of-its-own"}).json() == {"status": "ok"}
    assert guarded.get("/readyz").json() == {"status": "ready"}
    for path in ("/healthz", "/readyz"):  # as `curl -I` and monitors ask
        told, whole = guarded.head(path), guarded.get(path)
        assert (told.status_code, told.content, told.headers) == (200, b"", whole.headers)


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "[::1]:8000", "192.168.1.5:80", "memory.example.com"])
def test_hosts_of_this_server_are_served(memory, host):
    with serving(memory, allowed_hosts=("memory.example.com",)) as client:
        assert client.post("/api/v0/retrieve_memory", json=ASKED, headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example.com", "127.0.0.1.evil.example.com", "localhost.evil.example.com:8000", ""]
)
def test_other_hosts_are_refused(client, host):
    answer = client.post("/api/v0/retrieve_memory", json=ASKED, headers={"Host": host})
    assert error_of(answer) == (403, "Forbidden")


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8000", 200),
        ("https://app.example.com", 200),
        ("https://evil.example.com", 403),
        ("http://127.0.0.1:9999", 403),
        ("null", 403),
    ],
)
def test_only_pages_of_this_server_and_allowed_ones_may_ask(memory, origin, status):
    with serving(memory, allowed_origins=("https://app.example.com",)) as client:
        assert client.post("/api/v0/retrieve_memory", json=ASKED, headers={"Origin": origin}).status_code == status


@pytest.mark.parametrize("second", ["https://evil.example.com", "http://127.0.0.1:8000"])
def test_two_origins_are_refused_whichever_is_the_first(memory, second):
    with serving(memory) as client:
        for both in (("http://127.0.0.1:8000", second), (second, "http://127.0.0.1:8000")):
            headers = [("Origin", each) for each in both]
            assert error_of(client.post("/api/v0/retrieve_memory", json=ASKED, headers=headers))[0] == 400


@pytest.mark.parametrize(("origin", "may"), [("https://app.example.com", True), ("https://evil.example.com", False)])
def test_a_browser_is_told_that_an_allowed_page_may_ask_and_read_the_answer(memory, origin, may):
    wanted = "authorization,content-type,idempotency-key"
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": wanted}
    with serving(memory, tokens=TOKENS, allowed_origins=("https://app.example.com",)) as client:
        first = client.options("/api/v0/retrieve_memory", headers={"Origin": origin} | asked)
        then = client.post("/api/v0/retrieve_memory", json=ASKED, headers={"Origin": origin} | by(ALICE))
    told = [answer.headers.get("access-control-allow-origin") for answer in (first, then)]
    assert (first.is_success, then.is_success, told) == (may, may, [origin if may else None] * 2)
    if may:
        allowed = first.headers["access-control-allow-headers"].lower().split(", ")
        assert set(wanted.split(",")) <= set(allowed)


@pytest.mark.parametrize(
    "origin", ["*", "null", "app.example.com", "https://app.example.com/", "https://App.example.com"]
)
def test_an_allowed_origin_that_no_page_is_of_or_every_page_may_have_is_refused(memory, origin):
    with pytest.raises(ConfigurationError, match="write it like https"):
        create_app(memory, settings=ServerSettings(allowed_origins=(origin,)))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "memory.example.com"])  # noqa: S104 - refused
def test_another_address_needs_a_token(memory, host):
    with pytest.raises(ConfigurationError, match="give tokens"):
        create_app(memory, settings=ServerSettings(host=host))
    create_app(memory, settings=ServerSettings(host=host, tokens=TOKENS))


def test_tokens_are_read_from_lines():
    lines = ["# ours", "", f"{ALICE} read-write user/alice smith", f"  {BOB}  read  *  "]
    first, second = parse_tokens(lines, origin="tokens.txt")
    assert first == AccessToken(secret=ALICE, right="read-write", root="user/alice smith")
    assert second == AccessToken(secret=BOB, right="read", root="*")
    assert ALICE not in repr(first)
    assert ALICE not in repr(ServerSettings(tokens=(first,)))


@pytest.mark.parametrize(
    "line", [ALICE, f"{ALICE} write user/alice", f"{ALICE} read", "short read *", f"{ALICE} read user//alice"]
)
def test_a_line_that_is_no_token_is_refused_without_telling_it(line):
    with pytest.raises(ConfigurationError, match=r"tokens\.txt, line 1") as refused:
        parse_tokens([line], origin="tokens.txt")
    assert ALICE not in str(refused.value)


@pytest.mark.parametrize(
    ("token", "told"), [(ALICE, "^tokens"), ({"secret": ALICE, "root": "user//alice"}, "^the root of a token: ")]
)
def test_a_setting_that_is_no_token_is_refused_without_telling_it(token, told):
    with pytest.raises(ValidationError, match=told) as refused:
        ServerSettings(tokens=(token,))
    assert ALICE not in str(refused.value)


def test_one_secret_cannot_be_two_tokens():
    with pytest.raises(ConfigurationError, match="same secret"):
        parse_tokens([f"{ALICE} read a", f"{ALICE} read b"], origin="tokens.txt")


def test_a_profile_outside_the_root_of_a_token_is_refused(guarded):
    asked = {"conversation_id": "user/bob"}
    for ask in (
        lambda scope, **by: guarded.get("/api/v0/profile", params=scope, **by),
        lambda scope, **by: guarded.post("/api/v0/profile", json=scope, **by),
    ):
        assert ask(asked).status_code == 401
        answer = ask(asked, headers=by(ALICE_READS))
        assert answer.status_code == 403
        assert "zebra" not in answer.text
        assert "otter" in ask({"conversation_id": "user/alice"}, headers=by(ALICE_READS)).text


@pytest.mark.parametrize(
    ("kind", "wrong"), [(ServerSettings, "port"), (McpSettings, "max_sessions"), (WindowSettings, "read_only")]
)
def test_settings_that_break_a_rule_raise_the_error_of_the_package(kind, wrong):
    with pytest.raises(ValidationError, match=rf"{wrong}: Input should be a valid"):
        kind(title="notes", **{wrong: "many"})
