"""What the reading routes answer."""

from dataclasses import asdict
from datetime import UTC, datetime

import pytest

from .conftest import error_of, of_alice

ASKED = of_alice(query="otter in Lyon")


def test_retrieve_gives_the_markdown_of_the_memory(client, memory):
    answer = client.post("/api/v0/retrieve_memory", json=ASKED)
    expected = memory.retrieve("otter in Lyon", scope="user/alice", record=False).to_markdown()
    assert (answer.status_code, answer.text) == (200, expected)
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    assert "My otter is well." in answer.text  # detail auto: a key moment at rank 1


def test_the_detail_level_reaches_the_markdown_in_any_case_of_letters(client):
    answer = client.post("/api/v0/retrieve_memory", json=ASKED | {"detail": "NONE"})
    assert "otter" in answer.text
    assert "**Details:**" not in answer.text


def test_raw_gives_the_raw_form(client, memory):
    answer = client.post("/api/v0/retrieve_memory/raw", json=ASKED)
    assert answer.json() == memory.retrieve("otter in Lyon", scope="user/alice", record=False).to_dict()


def test_explained_raw_adds_the_explanation_scope_metadata_and_tags_of_each_and_now(client, memory):
    memory.update("fact-otter", scope="user/alice", tags=["pet"], metadata={"seen": 3})
    plain = client.post("/api/v0/retrieve_memory/raw", json=ASKED).json()
    explained = client.post("/api/v0/retrieve_memory/raw?explain=true", json=ASKED).json()
    (fact,), (episode,) = explained["semantic"], explained["episodic"]
    assert (fact["scope"], fact["metadata"], fact["tags"]) == ("user/alice", {"seen": 3}, ["pet"])
    hit = memory.retrieve("otter in Lyon", scope="user/alice", record=False).episodic[0]
    assert episode["explanation"] == {
        "dense_rank": 1,
        "bm25_rank": 1,
        "fused_score": hit.explanation.fused_score,
        "retrievability": 1.0,
        "score": hit.score,
        "stages": dict(hit.explanation.stages),
        "evidence": asdict(hit.explanation.evidence),
    }
    assert episode["relevance"] == hit.relevance
    assert explained["now"] == "2026-03-01T09:00:00Z"
    assert {key: fact[key] for key in plain["semantic"][0]} | {"relevance": round(fact["relevance"], 6)} == plain[
        "semantic"
    ][0]


def test_nothing_found_is_an_empty_body(client):
    nobody = {"conversation_id": "user/nobody", "query": "otter"}
    for route in ("retrieve_memory", "context_pre_retrieve"):
        answer = client.post(f"/api/v0/{route}", json=nobody)
        assert (answer.status_code, answer.content) == (200, b"")
    assert client.post("/api/v0/retrieve_memory/raw", json=nobody).json() == {"semantic": [], "episodic": []}


def test_limit_is_another_name_of_episodic_limit(client):
    for name in ("limit", "episodic_limit"):
        answer = client.post("/api/v0/retrieve_memory/raw", json=ASKED | {name: 0}).json()
        assert (len(answer["semantic"]), answer["episodic"]) == (1, [])
    both = client.post("/api/v0/retrieve_memory", json=ASKED | {"limit": 1, "episodic_limit": 2})
    assert error_of(both) == (422, "ValidationError")


def test_limits_beyond_the_bounds_are_clamped(client):
    asked = ASKED | {"episodic_limit": 10**30, "semantic_limit": 10**30, "joint_limit": 10**30}
    assert client.post("/api/v0/retrieve_memory", json=asked).status_code == 200


def test_a_joint_limit_is_that_of_each_kind_unless_it_has_one(memory, client):
    for number in range(30):
        memory.remember_fact(scope=ASKED["conversation_id"], fact=f"The otter eats fish number {number}")
    asked = ASKED | {"query": "otter fish", "joint_limit": 25}
    whole, less = (
        client.post("/api/v0/retrieve_memory/raw", json=body).json() for body in (asked, asked | {"semantic_limit": 20})
    )
    assert len(whole["semantic"]) > 20 >= len(less["semantic"])


def test_the_joint_limit_cuts_over_both_kinds(client):
    answer = client.post("/api/v0/retrieve_memory/raw", json=ASKED | {"joint_limit": 1}).json()
    assert len(answer["semantic"]) + len(answer["episodic"]) == 1


def test_child_scopes_are_searched_only_if_asked(client, memory):
    memory.remember_fact(scope="user/alice/work", fact="The otter project ends in May")
    with_children = ASKED | {"include_child_scopes": True}
    assert len(client.post("/api/v0/retrieve_memory/raw", json=ASKED).json()["semantic"]) == 1
    assert len(client.post("/api/v0/retrieve_memory/raw", json=with_children).json()["semantic"]) == 2


def test_tags_metadata_and_times_are_filters(client, memory):
    memory.remember_fact(scope="user/alice", fact="The otter is at the vet", tags=["pet"], metadata={"seen": 3})

    def found(**filters):
        answer = client.post("/api/v0/retrieve_memory/raw", json=ASKED | filters)
        return [fact["fact"] for fact in answer.json()["semantic"]]

    assert found(tags=["pet"]) == found(metadata={"seen": 3}) == ["The otter is at the vet"]
    assert found(tags=["pet"], metadata={"seen": 4}) == found(since="2026-03-02") == found(until=0) == []
    wrong = ASKED | {"since": "2026-03-02", "until": "2026-03-01"}
    assert error_of(client.post("/api/v0/retrieve_memory/raw", json=wrong)) == (422, "ValidationError")
    assert error_of(client.post("/api/v0/retrieve_memory", json=ASKED | {"tags": ["x"] * 17}))[0] == 422


@pytest.mark.parametrize("moment", ["2026-02-01T00:00:00Z", int(datetime(2026, 2, 1, tzinfo=UTC).timestamp() * 1000)])
def test_as_of_answers_with_what_held_then(client, memory, clock, moment):
    memory.remember_fact(
        scope="user/alice", id="old", fact="The otter lives in Metz", valid_at=datetime(2026, 1, 1, tzinfo=UTC)
    )
    memory.invalidate("old", scope="user/alice")
    clock.advance(days=1)
    answer = client.post("/api/v0/retrieve_memory/raw", json=ASKED | {"as_of": moment}).json()
    assert [fact["id"] for fact in answer["semantic"]] == ["old"]
    now = client.post("/api/v0/retrieve_memory/raw", json=ASKED).json()
    assert [fact["id"] for fact in now["semantic"]] == ["fact-otter"]


def test_both_retrieve_routes_file_a_review_unless_told_not_to(client, memory, clock):
    for route in ("retrieve_memory", "retrieve_memory/raw"):
        before = len(memory.pending_reviews("user/alice"))
        client.post(f"/api/v0/{route}", json=ASKED | {"record": False})
        assert len(memory.pending_reviews("user/alice")) == before
        clock.advance(hours=1)
        client.post(f"/api/v0/{route}", json=ASKED)
        assert len(memory.pending_reviews("user/alice")) == before + 1


def test_context_gives_facts_only_files_nothing_and_ignores_three_fields(client, memory):
    ignored = {"episodic_limit": -1, "limit": "many", "detail": 7}
    answer = client.post("/api/v0/context_pre_retrieve", json=ASKED | ignored)
    assert answer.text == memory.context("otter in Lyon", scope="user/alice").to_markdown()
    assert "Episodic" not in answer.text
    assert memory.pending_reviews("user/alice") == []


def test_recent_gives_the_newest_episodes(client, memory):
    answer = client.post("/api/v0/recent_memory", json=of_alice(limit=500))
    assert answer.text == memory.recent("user/alice").to_markdown()
    as_data = client.post("/api/v0/recent", json=of_alice(limit=5_000)).json()["result"]
    assert [(each["id"], each["scope"]) for each in as_data["episodic"]] == [("episode-otter", "user/alice")]
    assert as_data["now"] == "2026-03-01T09:00:00Z"


@pytest.mark.parametrize(
    "fields",
    [
        {"query": "  "},
        {"query": None},
        {"semantic_limit": -1},
        {"episodic_limit": "5"},
        {"episodic_limit": True},
        {"detail": "medium"},
        {"category": "weather"},
        {"as_of": "yesterday"},
        {"as_of": 10**40},
        {"conversation_id": ""},
        {"conversation_id": "user//alice"},
        {"colour": "blue"},
        {"scope": "user/alice"},
    ],
)
def test_what_breaks_a_rule_is_a_422(client, fields):
    for route in ("retrieve_memory", "retrieve_memory/raw"):
        assert error_of(client.post(f"/api/v0/{route}", json=ASKED | fields)) == (422, "ValidationError")


def test_an_unknown_field_is_a_422_on_every_route(client):
    paths = [path for path, item in client.app.openapi()["paths"].items() if "post" in item]
    assert len(paths) > 20
    for path in paths:
        assert error_of(client.post(path, json=of_alice(colour="blue"))) == (422, "ValidationError")


def test_an_unknown_category_is_told_the_known_ones_and_null_is_as_good_as_not_given(client):
    answer = client.post("/api/v0/retrieve_memory", json=ASKED | {"category": "weather"})
    assert "guideline" in answer.json()["message"]
    for category in (None, "", " Identity "):
        assert "otter" in client.post("/api/v0/retrieve_memory", json=ASKED | {"category": category}).text


def test_a_memory_that_cannot_be_written_as_utf_8_is_still_answered(client):
    answer = client.post("/api/v0/retrieve_memory", content=b'{"query": "\\ud800", "conversation_id": "user/alice"}')
    assert answer.status_code in {200, 422}
    named = client.post("/api/v0/retrieve_memory", content=b'{"\\ud800": 1}')
    assert error_of(named) == (422, "ValidationError")


def test_time_passes_in_the_relative_times(client, clock):
    clock.advance(days=2)
    assert "2 days ago" in client.post("/api/v0/retrieve_memory", json=ASKED).text


def test_a_budget_holds_for_the_markdown_at_any_level(client, memory):
    for detail in ("auto", "excerpts"):
        expected = memory.retrieve("otter in Lyon", scope="user/alice", record=False).to_markdown(detail, max_tokens=30)
        answer = client.post("/api/v0/retrieve_memory", json=ASKED | {"detail": detail, "max_tokens": 30})
        assert (answer.status_code, answer.text) == (200, expected)
        assert 0 < len(answer.text) <= 4 * 30
    assert client.post("/api/v0/retrieve_memory", json=ASKED | {"max_tokens": -1}).status_code == 422


def test_recent_gives_facts_too_where_they_are_asked_for(client, memory):
    answer = client.post("/api/v0/recent_memory", json=of_alice(facts=True))
    assert answer.text == memory.recent("user/alice", facts=True).to_markdown()
    assert "otter in Lyon (noted just now)" in answer.text
    as_data = client.post("/api/v0/recent", json=of_alice(facts=True)).json()["result"]
    assert [fact["id"] for fact in as_data["semantic"]] == ["fact-otter"]


def test_the_profile_stands_at_an_address(client, memory):
    answer = client.get("/api/v0/profile", params={"conversation_id": "user/alice"})
    assert (answer.status_code, answer.text) == (200, "- [identity] The user keeps a otter in Lyon")
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    as_data = client.post("/api/v0/profile", json=of_alice()).json()["result"]
    assert as_data == {"scope": "user/alice"} | memory.profile("user/alice").to_dict()
    assert client.get("/api/v0/profile", params={"conversation_id": "user/alice", "max_tokens": 0}).content == b""
    assert client.get("/api/v0/profile", params={"conversation_id": "user/nobody"}).content == b""
    for wrong in ({}, {"conversation_id": ""}, {"conversation_id": "user/alice", "max_tokens": -1}):
        assert client.get("/api/v0/profile", params=wrong).status_code == 422
