"""What a window shows: scopes, memories at any moment and in either order, versions, searches and their reasons."""

from datetime import timedelta

import pytest

from .conftest import ALICE, BOB, THEN, looking_into


def names(answer):
    return [scope["scope"] for scope in answer["scopes"]]


def ids(answer):
    return [memory["id"] for memory in answer["memories"]]


def test_a_window_says_what_it_shows(window):
    about = window.get("about")
    assert (about["title"], about["read_only"], about["root"]) == ("notes", False, None)
    assert about["earliest"] == "2026-02-01T09:00:00Z"
    assert "identity" in about["categories"]


def test_the_tree_has_every_scope_once_with_what_it_holds(window, memory):
    for scope in ("user/alice-b", "user/alice0", "user/Alice", "team/a/b/c", "user/alice/home"):
        memory.remember_fact(scope=scope, fact="something")
    assert names(window.get("scopes")) == ["team", "user"]
    assert sorted(names(window.get("scopes", under="user"))) == sorted(
        ["user/alice", "user/alice-b", "user/alice0", "user/Alice", "user/bob"]
    )
    assert names(window.get("scopes", under="team")) == ["team/a"]
    assert names(window.get("scopes", under="team/a/b/c")) == []
    (alice,) = [each for each in window.get("scopes", under="user")["scopes"] if each["scope"] == ALICE]
    assert alice == {"scope": ALICE, "name": "alice", "facts": 2, "episodes": 1, "open": 1, "below": 2}


def test_a_wide_tree_comes_in_pages_without_repeats(window, memory):
    many = [f"wide/{number:03}" for number in range(150)]
    split = [f"wide/{number:03}-x/below" for number in range(150)]
    deep = [f"wide/{number:03}/deeper" for number in range(0, 150, 2)]
    memory.remember_many([{"scope": scope, "fact": "something"} for scope in (*many, *split, *deep)])
    found, cursor, pages = [], "", 0
    while cursor is not None:
        page = window.get("scopes", under="wide", cursor=cursor)
        found, cursor, pages = found + names(page), page["cursor"], pages + 1
    assert pages == 3
    assert len(found) == len(set(found)) == 300
    assert set(found) == {*many, *(scope.removesuffix("/below") for scope in split)}
    assert window.refused("scopes", get={"under": "user", "cursor": "wide/001"}) == (422, "ValidationError")


@pytest.mark.parametrize("oldest_first", [False, True])
@pytest.mark.parametrize("kind", [None, "fact", "episode"])
def test_pages_hold_every_memory_once_in_order(window, memory, oldest_first, kind):
    for number in range(30):
        at = THEN + timedelta(hours=number // 5)  # five of each moment
        memory.remember_fact(scope=ALICE, id=f"f{number:02}", fact=f"number {number}", created_at=at)
        if number % 3 == 0:
            memory.remember_episode(scope=ALICE, id=f"e{number:02}", summary=f"number {number}", created_at=at)
    found, cursor = [], ""
    asked = {"scope": ALICE, "limit": 7, "oldest_first": oldest_first} | ({} if kind is None else {"kind": kind})
    while cursor is not None:
        page = window.get("memories", cursor=cursor, **asked)
        found, cursor = found + page["memories"], page["cursor"]
        assert len(page["memories"]) <= 7
    assert len(found) == page["total"] == {None: 44, "fact": 32, "episode": 11}[kind]
    assert len({each["id"] for each in found}) == len(found)
    made = [each["created_at"] for each in found]
    assert made == sorted(made, reverse=not oldest_first)
    assert {each["kind"] for each in found} == ({"fact", "episode", "open"} if kind is None else {kind})


def test_what_is_stored_meanwhile_neither_repeats_nor_hides_a_memory(window, memory):
    for number in range(10):
        memory.remember_fact(
            scope=BOB, id=f"f{number}", fact=f"{number}", created_at=THEN + timedelta(hours=number + 1)
        )
    first = window.get("memories", scope=BOB, limit=5)
    memory.remember_fact(scope=BOB, id="new", fact="new", created_at=THEN + timedelta(days=9))
    memory.forget(first["memories"][-1]["id"], scope=BOB)  # the very one that the cursor names
    second = window.get("memories", scope=BOB, limit=50, cursor=first["cursor"])
    assert ids(second)[:5] == ["f4", "f3", "f2", "f1", "f0"]
    assert set(ids(first)).isdisjoint(ids(second))


@pytest.mark.parametrize("cursor", ["x", "bm8=", "WzEsMl0=", "W3RydWUsImEiXQ==", "WzEsImEiXQ==x", "\0", "9" * 4_000])
def test_a_cursor_that_was_not_given_is_refused(window, cursor):
    assert window.refused("memories", get={"scope": ALICE, "cursor": cursor}) == (422, "ValidationError")


def test_a_moment_of_the_past_has_its_own_words(window, memory, clock):
    noon = clock.now()
    clock.advance(days=1)
    memory.update("fact", scope=ALICE, fact="The user keeps a heron in Nice")
    memory.invalidate("own-otter", scope=ALICE)
    memory.remember_fact(scope=ALICE, id="later", fact="The user has moved")
    clock.advance(days=1)

    before = window.get("memories", scope=ALICE, as_of=noon.isoformat())
    texts = {each["id"]: each["text"] for each in before["memories"]}
    assert texts == {
        "fact": "The user keeps a otter in Lyon",
        "own-otter": "The otter sleeps late",
        "episode": "They spoke of the otter.",
    }
    assert before["total"] == 3
    assert all(each["active"] for each in before["memories"])
    now = {each["id"]: each for each in window.get("memories", scope=ALICE)["memories"]}
    assert (now["fact"]["text"], now["fact"]["versions"]) == ("The user keeps a heron in Nice", 2)
    assert (now["own-otter"]["active"], now["fact"]["active"]) == (False, True)
    assert window.get("memories", scope=ALICE, as_of="2020-01-01")["memories"] == []

    changes = window.get("diff", scope=ALICE, since=noon.isoformat())
    assert [each["id"] for each in changes["new"]] == ["later"]
    assert [each["id"] for each in changes["gone"]] == ["own-otter"]
    (changed,) = changes["changed"]
    assert (changed["before"], changed["after"]) == ("The user keeps a otter in Lyon", "The user keeps a heron in Nice")
    assert changes["complete"]

    versions = window.get("memory", scope=ALICE, id="fact")["versions"]
    assert [(each["text"][-4:], each["current"]) for each in versions] == [("Lyon", False), ("Nice", True)]
    assert versions[0]["valid_until"] == versions[1]["valid_from"]


def test_only_what_has_a_tag(window):
    assert ids(window.get("memories", scope=ALICE, tag="night")) == ["own-otter"]
    assert window.get("memories", scope=ALICE, tag="night")["total"] == 1
    assert window.get("memories", scope=ALICE, tag="'; DROP TABLE memories; --")["memories"] == []


def test_an_open_conversation_is_shown_with_what_was_said(window):
    (found,) = window.get("memories", scope=ALICE, kind="open")["memories"]
    assert (found["kind"], found["text"], found["conversation"]) == ("open", "The boat leaks.", "boat")
    whole = window.get("memory", scope=ALICE, id=found["id"])
    assert [each["text"] for each in whole["messages"]] == ["The boat leaks."]
    assert whole["actions"] == ["forget", "forget_message"]


def test_an_episode_is_shown_with_its_messages_and_its_curve(window, clock):
    clock.advance(days=20)
    whole = window.get("memory", scope=ALICE, id="episode")
    assert [(each["role"], each["text"]) for each in whole["messages"]] == [("user", "My otter is well.")]
    days, values = zip(*whole["curve"], strict=True)
    assert list(days) == sorted(days)
    assert list(values) == sorted(values, reverse=True)
    assert dict(whole["curve"])[0.0] == whole["memory"]["retrievability"] < 0.9


def test_what_a_fact_was_learned_from_is_linked_both_ways(window, memory):
    memory.remember_fact(scope=ALICE, id="learned", fact="Otters swim", source_episodic_ids=["episode"])
    assert window.get("memory", scope=ALICE, id="learned")["sources"] == ["episode"]
    assert window.get("memory", scope=ALICE, id="episode")["derived"] == ["learned"]


def test_long_texts_are_cut_in_lists_and_whole_alone(window, memory):
    memory.remember_fact(scope=BOB, id="long", fact="x" * 50_000, metadata={"note": "y" * 50_000})
    (listed,) = [each for each in window.get("memories", scope=BOB)["memories"] if each["id"] == "long"]
    assert (len(listed["text"]), listed["is_cut"], listed["metadata"]) == (2_000, True, {})
    whole = window.get("memory", scope=BOB, id="long")["memory"]
    assert (len(whole["text"]), whole["is_cut"], len(whole["metadata"]["note"])) == (50_000, False, 50_000)


def test_a_search_tells_what_an_agent_reads_and_why(window, memory):
    found = window.post("search", scope=ALICE, query="Where is the otter?", kinds=["fact"])
    best = found["hits"][0]
    assert {hit["memory"]["kind"] for hit in found["hits"]} == {"fact"}
    assert best["memory"]["id"] in {"fact", "own-otter"}
    assert {"name", "value", "note"} == set(best["stages"][0])
    assert "cosine" in {stage["name"] for stage in best["stages"]}
    assert best["memory"]["text"] in found["block"]
    assert found["tokens"] > 0
    assert best["memory"]["text"] in found["explanation"]
    same = memory.retrieve("Where is the otter?", scope=ALICE, episodic_limit=0, record=False)
    assert {hit["memory"]["id"] for hit in found["hits"]} == {hit.memory.id for hit in same.semantic}
    assert found["block"] == same.to_markdown()
    assert memory.pending_reviews(ALICE) == []
    nothing = window.post("search", scope=ALICE, query="Where is the otter?", min_relevance=1.0)
    assert (nothing["hits"], nothing["block"], nothing["tokens"]) == ([], "", 0)


def test_a_search_takes_the_options_of_retrieve(window, memory):
    def found(**options):
        return {hit["memory"]["id"] for hit in window.post("search", scope=ALICE, query="otter", **options)["hits"]}

    assert found(tags=["night"]) == {"own-otter"}
    assert found(category="identity", kinds=["fact"]) == {"fact"}
    assert found(limit=1) < found()
    assert found(since="2026-03-02") == found(until="2020-01-01") == set()
    assert "job" in found(include_children=True)
    assert found(where={"tags": "night"}) == {"own-otter"}
    assert found(as_of="2020-01-01") == set()
    short = window.post("search", scope=ALICE, query="otter", max_tokens=12)
    assert short["tokens"] <= 12
    for wrong in ({"limit": 0}, {"limit": 10**6}, {"detail": "x"}, {"min_relevance": 2}, {"kinds": ["open"]}, {"x": 1}):
        assert window.refused("search", scope=ALICE, query="otter", **wrong) == (422, "ValidationError")
    assert window.refused("search", scope=ALICE, query="  ") == (422, "ValidationError")


def test_why_not_that_one(window, memory):
    memory.invalidate("own-otter", scope=ALICE)
    gone = window.post("why", scope=ALICE, query="otter", id="own-otter")
    assert (gone["found"], gone["outcome"]) == (False, "invalidated")
    there = window.post("why", scope=ALICE, query="otter", id="fact")
    assert (there["found"], there["rank"]) == (True, 1)
    assert there["stages"]
    assert window.refused("why", scope=ALICE, query="otter", id="nothing") == (404, "NotFoundError")


def test_near_duplicates_come_in_pairs(window, memory):
    memory.remember_fact(scope=BOB, id="a", fact="The zebra likes green apples")
    memory.remember_fact(scope=BOB, id="b", fact="the zebra likes green apples", allow_duplicates=True)
    memory.remember_fact(scope=BOB, id="c", fact="The zebra likes 3 apples")
    (pair,) = window.get("duplicates", scope=BOB)["pairs"]
    assert {pair["first"]["id"], pair["second"]["id"]} == {"a", "b"}
    assert pair["similarity"] > 0.9
    assert window.get("duplicates", scope="user/nobody")["pairs"] == []


def test_the_pulse_beats_for_every_change_and_for_nothing_else(window, memory):
    def pulse():
        return window.get("pulse", scope=ALICE)["version"]

    def store():
        return window.get("pulse")["store"]

    before, everywhere = pulse(), store()
    assert (pulse(), store()) == (before, everywhere)
    memory.remember_fact(scope=BOB, fact="elsewhere")
    assert pulse() == before
    assert store() != everywhere
    everywhere = store()
    memory.add_messages(BOB, [{"role": "user", "content": "Hello."}])
    assert store() != everywhere
    changes = [
        lambda: memory.remember_fact(scope=ALICE, fact="here"),
        lambda: memory.update("fact", scope=ALICE, fact="The user keeps a heron"),
        lambda: memory.invalidate("fact", scope=ALICE),
        lambda: memory.add_messages(ALICE, [{"role": "user", "content": "More."}]),
        lambda: memory.forget("own-otter", scope=ALICE),
        lambda: window.act("pin", "episode"),
    ]
    for change in changes:
        change()
        assert pulse() != before
        before = pulse()


def test_health_tells_queues_and_no_secrets(window):
    health = window.get("health")
    assert health["queue"] == [
        {"scope": ALICE, "conversation": "boat", "messages": 1, "oldest": "2026-03-01T09:00:00Z"}
    ]
    assert health["due"] == 0


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"scope": ""},
        {"scope": "/"},
        {"scope": ALICE, "limit": "0"},
        {"scope": ALICE, "limit": "201"},
        {"scope": ALICE, "limit": "x"},
        {"scope": ALICE, "kind": "all"},
        {"scope": ALICE, "as_of": "yesterday"},
        {"scope": ALICE, "as_of": "0001-01-01T00:00:00+23:00"},
        {"scope": ALICE, "offset": "1"},
        {"scope": "x" * 600},
    ],
)
def test_a_wrong_question_has_one_clear_answer(window, query):
    assert window.refused("memories", get=query) == (422, "ValidationError")


def test_a_parameter_that_is_given_twice_is_refused(window):
    answer = window.client.get("/api/memories?scope=user/alice&scope=user/bob")
    assert answer.status_code == 400


def test_looking_alone_changes_nothing_and_offers_nothing(memory, journal):
    with looking_into(memory, read_only=True, journal=journal) as browser:
        assert browser.get("about")["read_only"]
        assert browser.get("memory", scope=ALICE, id="fact")["actions"] == []
        assert browser.post("search", scope=ALICE, query="otter")["hits"]
        assert browser.post("why", scope=ALICE, query="otter", id="fact")["found"]
        for path in ("act", "preview"):
            body = {"action": "forget", "scope": ALICE, "id": "fact"}
            assert browser.refused(path, **body) == (403, "ReadOnly")
        assert browser.refused("undo", change="x") == (403, "ReadOnly")
        assert browser.get("memory", scope=ALICE, id="fact")
    assert not journal.exists()
