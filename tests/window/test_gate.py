"""Nobody but the browser with the token comes in, and what is refused is told nothing."""

import json

import pytest

from memory_retrievers.window.app import POLICY, Sessions

from .conftest import ALICE, OWN, looking_into

PATHS = ["/", "/page/window.js", "/api/about", "/api/scopes", "/api/memories?scope=user/alice", "/nothing"]


@pytest.fixture
def stranger(memory):
    with looking_into(memory, signed_in=False) as browser:
        yield browser


@pytest.mark.parametrize("path", PATHS)
def test_without_the_cookie_every_path_answers_alike(stranger, path):
    answer = stranger.client.get(path)
    assert answer.status_code == 401
    assert "otter" not in answer.text
    assert "user/" not in answer.text
    assert "notes" not in answer.text
    assert answer.text == stranger.client.get("/api/no" if path.startswith("/api/") else "/no").text


@pytest.mark.parametrize("path", ["/api/search", "/api/act", "/api/undo", "/nothing"])
def test_without_the_cookie_no_body_is_even_read(stranger, path):
    answer = stranger.client.post(path, content=b"no JSON", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 401


def test_the_token_opens_the_window_once(stranger):
    token = stranger.sessions.token
    assert stranger.client.get("/", params={"token": f"{token}x"}, follow_redirects=False).status_code == 401
    assert stranger.client.get("/", params={"token": ""}, follow_redirects=False).status_code == 401
    answer = stranger.client.get("/", params={"token": token}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert token not in cookie
    assert stranger.client.get("/api/about").status_code == 200
    # who has the cookie may load the address again; anybody else comes too late
    assert stranger.client.get("/", params={"token": token}, follow_redirects=False).status_code == 303
    stranger.client.cookies.clear()
    assert stranger.client.get("/", params={"token": token}, follow_redirects=False).status_code == 401


def test_a_wrong_cookie_or_that_of_another_window_is_none(window):
    (name, value) = next(iter(window.client.cookies.items()))
    window.client.cookies.clear()
    for header in (f"{name}={value}x", f"{name}=", f"memory_window_1={value}", "=;;=", f"{name}=\xff"):
        answer = window.client.get("/api/about", headers={"Cookie": header.encode("latin-1")})
        assert answer.status_code == 401, header
    assert window.client.get("/api/about", headers={"Cookie": f"{name}={value}"}).status_code == 200


@pytest.mark.parametrize(
    "other",
    ['prefs={"theme":"dark"}', "name=a b", "flag", 'open="', "n=\xe9", "expires=1", "memory_window_8123=another"],
)
def test_cookies_of_other_programs_of_this_machine_keep_no_browser_out(window, other):
    own = "; ".join(f"{name}={value}" for name, value in window.client.cookies.items())
    window.client.cookies.clear()
    for header, status in {f"{other}; {own}": 200, f"{own}; {other}": 200, f"{other}; {own}x": 401}.items():
        assert window.client.get("/api/about", headers={"Cookie": header.encode("latin-1")}).status_code == status, (
            header
        )


def test_tokens_and_cookies_differ_from_window_to_window():
    first, second = Sessions(1), Sessions(1)
    assert first.token != second.token
    assert first.begin(first.token) != second.begin(second.token)
    assert len(first.token) >= 43


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8123", "127.0.0.1", "127.0.0.1:81", "localhost:8123.evil.example", "", "[::1]"],
)
def test_by_another_host_nobody_comes_in(window, host):
    answer = window.client.get("/api/about", headers={"Host": host})
    assert (answer.status_code, answer.json()["error_type"]) == (403, "Forbidden")
    assert "notes" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1:8123", "localhost:8123", "LOCALHOST:8123", "[::1]:8123"])
def test_by_the_names_of_this_machine_the_browser_comes_in(window, host):
    cookies = "; ".join(f"{name}={value}" for name, value in window.client.cookies.items())
    assert window.client.get("/api/about", headers={"Host": host, "Cookie": cookies}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:8123", "http://localhost:8123", ""]
)
def test_a_page_of_another_origin_asks_in_vain(window, origin):
    body = {"action": "forget", "scope": ALICE, "id": "fact"}
    for answer in (
        window.client.post("/api/act", json=body, headers={"Origin": origin}),
        window.client.get("/api/about", headers={"Origin": origin}),
    ):
        assert (answer.status_code, answer.json()["error_type"]) == (403, "Forbidden")
        assert window.client.get("/api/about", headers=[("Origin", OWN), ("Origin", origin)]).status_code == 400
    assert window.get("memory", scope=ALICE, id="fact")
    assert window.client.get("/api/about", headers={"Origin": OWN}).status_code == 200


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{}", "text/plain", 400),
        (b"{}", "application/x-www-form-urlencoded", 400),
        (b"{}", "multipart/form-data", 400),
        (b"[]", "application/json", 400),
        (b"", "application/json", 400),
        (b"{", "application/json", 400),
        (b'{"scope": NaN}', "application/json", 400),
        (b"\xff\xfe{\x00}\x00", "application/json", 422),
        (b'{"a": "\xff"}', "application/json", 400),
        (b"[" * 60_000, "application/json", 422),
        (b'{"a":"' + b"x" * 70_000 + b'"}', "application/json", 413),
        (json.dumps({"tags": ["x"] * 9_000}).encode(), "application/json", 422),
    ],
)
def test_a_body_is_json_of_a_bounded_size(window, content, kind, status):
    answer = window.client.post("/api/act", content=content, headers={"Content-Type": kind})
    assert answer.status_code == status
    assert answer.json()["message"]


@pytest.mark.parametrize("path", [*PATHS, "/?token=no"])
@pytest.mark.parametrize("signed_in", [True, False])
def test_every_answer_forbids_what_a_page_does_not_need(memory, path, signed_in):
    with looking_into(memory, signed_in=signed_in) as browser:
        answer = browser.client.get(path, follow_redirects=False)
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-frame-options"] == "DENY"
    assert "access-control-allow-origin" not in answer.headers


def test_the_page_is_served_and_nothing_beside_it(window):
    answer = window.client.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    for path in ("/page/", "/page/index.html", "/page/../gate.py", "/page/%2e%2e/gate.py", "/gate.py", "/docs"):
        assert window.client.get(path).status_code == 404, path
    assert window.client.get("/api/nothing").json()["error_type"] == "NotFoundError"
    assert window.client.get("/api/act").status_code == 405
    assert window.client.post("/api/about", json={}).status_code == 405


def test_a_mistake_of_the_server_tells_nothing(window, memory, caplog):
    def broken(*_arguments, **_named):
        raise RuntimeError("the otter is in Lyon")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(memory), "retrieve", broken)
        answer = window.client.post("/api/search", json={"scope": ALICE, "query": "otter"})
    assert (answer.status_code, answer.json()["error_type"]) == (500, "InternalError")
    assert "Lyon" not in answer.text
    assert "RuntimeError" in caplog.text
    assert "Lyon" not in caplog.text
