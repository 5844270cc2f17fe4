"""A window with a root shows and changes nothing outside it, whatever scopes and ids it is asked for."""

from datetime import timedelta

import pytest

from .conftest import ALICE, BOB, THEN, looking_into

OUTSIDE = [BOB, "user", "user/alice-b", "user/alic", "user/alicee", "user/nobody", "USER/ALICE", "user/alice0", "team"]


@pytest.fixture
def window(memory, journal):
    for scope in ("user/alice-b", "user/alice0", "team/a"):
        memory.remember_fact(scope=scope, id="fact", fact="the zebra of others")
    memory.add_messages(BOB, [{"role": "user", "content": "zebra"}], conversation="zebra talk")
    memory.remember_fact(scope=BOB, fact="an old zebra", created_at=THEN - timedelta(days=900))
    with looking_into(memory, root=ALICE, journal=journal, address=journal.parent / "elsewhere") as browser:
        yield browser


def questions(scope):
    """Every request that names a scope."""
    yield "memories", {"get": {"scope": scope}}
    yield "memory", {"get": {"scope": scope, "id": "fact"}}
    yield "diff", {"get": {"scope": scope, "since": "2020-01-01"}}
    yield "duplicates", {"get": {"scope": scope}}
    yield "pulse", {"get": {"scope": scope}}
    yield "changes", {"get": {"scope": scope}}
    yield "scopes", {"get": {"under": scope}}
    yield "search", {"scope": scope, "query": "zebra"}
    yield "why", {"scope": scope, "query": "zebra", "id": "fact"}
    yield "preview", {"action": "forget", "scope": scope, "id": "fact"}
    for action in ("correct", "update", "invalidate", "pin", "unpin", "tag", "merge", "move", "forget"):
        more = {"text": "x", "tags": [], "other": "own-zebra", "to": ALICE}
        yield "act", {"action": action, "scope": scope, "id": "fact", **more}
    yield "act", {"action": "move", "scope": ALICE, "id": "fact", "to": scope}
    yield "preview", {"action": "move", "scope": ALICE, "id": "fact", "to": scope}


@pytest.mark.parametrize("scope", OUTSIDE)
def test_a_scope_outside_is_as_one_that_there_is_not(window, memory, scope):
    held = memory.stats()
    for path, asked in questions(scope):
        given = asked.get("get") or asked
        answers = [
            window.client.get(f"/api/{path}", params=given)
            if "get" in asked
            else window.client.post(f"/api/{path}", json=given),
        ]
        elsewhere = {name: "user/never-was" if value == scope else value for name, value in given.items()}
        answers.append(
            window.client.get(f"/api/{path}", params=elsewhere)
            if "get" in asked
            else window.client.post(f"/api/{path}", json=elsewhere)
        )
        first, second = answers
        assert (first.status_code, first.text) == (second.status_code, second.text) == (404, first.text), path
        assert "zebra" not in first.text
    assert memory.stats() == held


def test_the_tree_begins_at_the_root(window):
    assert [each["scope"] for each in window.get("scopes")["scopes"]] == [ALICE]
    assert [each["scope"] for each in window.get("scopes", under=ALICE)["scopes"]] == ["user/alice/work"]
    about = window.get("about")
    assert (about["root"], about["earliest"]) == (ALICE, "2026-02-01T09:00:00Z")


@pytest.mark.parametrize("cursor", ["user/bob", "user/alice", "team", "user/alice/../bob", "user/alice/work/x"])
def test_a_cursor_does_not_lead_out(window, cursor):
    status, _ = window.refused("scopes", get={"under": ALICE, "cursor": cursor})
    assert status == 422


def test_nothing_of_others_is_told_anywhere(window):
    for path in ("about", "health", "changes", "scopes"):
        answer = window.client.get(f"/api/{path}")
        assert answer.status_code == 200
        for word in ("zebra", "bob", "team", "alice-b"):
            assert word not in answer.text, path
    health = window.get("health")
    assert [each["level"] for each in health["findings"]] == ["note"]  # nobody has looked at the store as a whole
    assert (health["sizes"], health["processes"], health["index"]) == ([], [], {})
    assert [each["scope"] for each in health["queue"]] == [ALICE]


def test_the_pulse_does_not_beat_for_others(window, memory):
    before = window.get("pulse", scope=ALICE)
    memory.remember_fact(scope=BOB, fact="zebra")
    memory.add_messages(BOB, [{"role": "user", "content": "zebra"}])
    assert window.get("pulse", scope=ALICE) == before
    memory.remember_fact(scope="user/alice/work", fact="otter")
    after = window.get("pulse", scope=ALICE)
    assert (after["version"], after["store"] == before["store"]) == (before["version"], False)


def test_an_id_of_another_scope_is_as_one_that_there_is_not(window, memory):
    memory.remember_fact(scope=BOB, id="only-bobs", fact="zebra")
    for path, asked in questions(ALICE):
        for name in ("id", "other"):
            given = asked.get("get") or asked
            if given.get(name) is None or asked.get("action") in {"move", "correct", "update", "tag"}:
                continue
            answers = []
            for id in ("only-bobs", "nobodys"):
                body = given | {name: id}
                answers.append(
                    window.client.get(f"/api/{path}", params=body)
                    if "get" in asked
                    else window.client.post(f"/api/{path}", json=body)
                )
            first, second = answers
            if first.status_code == 404:
                assert first.text.replace("only-bobs", "") == second.text.replace("nobodys", "")
    assert memory.get("only-bobs", scope=BOB).fact == "zebra"


def test_a_journal_shared_with_wider_windows_tells_only_of_the_root(window, memory, journal):
    window.act("pin", "fact")
    lines = journal.read_text()
    journal.write_text(lines + lines.replace(ALICE, BOB) + lines.replace(ALICE, "user/alice-b"))
    assert [each["scope"] for each in window.get("changes")["changes"]] == [ALICE]


@pytest.mark.parametrize("id", ["fact\0", "../fact", "fact' OR '1'='1", "%", "\ud800", "\u2028", '"', "fact "])
def test_hostile_ids_find_nothing(window, id):
    status, _ = window.refused("act", action="forget", scope=ALICE, id=id)
    assert status in {404, 422}
    assert window.refused("memory", get={"scope": ALICE, "id": id.replace("\ud800", "?")})[0] in {404, 422}
    assert window.get("memory", scope=ALICE, id="fact")
