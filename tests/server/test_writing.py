"""What the writing routes and the tools do."""

from datetime import UTC, datetime

import pytest

from memory_retrievers.tools.registry import REGISTRY, offered_tools

from .conftest import error_of, of_alice

SECONDS = datetime(2026, 2, 28, 12, tzinfo=UTC).timestamp()
TIMES = ["2026-02-28T12:00:00Z", int(SECONDS * 1000), int(SECONDS), SECONDS]


def said(content, **fields):
    return {"role": "user", "content": content, **fields}


@pytest.mark.parametrize("timestamp", TIMES)
def test_a_message_is_queued_and_processed_into_an_episode(client, memory, timestamp):
    answer = client.post("/api/v0/add_message", json=of_alice(message=said("I sold the boat.", timestamp=timestamp)))
    assert answer.json() == {"accepted": 1, "queued": 1, "due": False}
    assert client.post("/api/v0/process_due", json=of_alice()).json()["result"]["waiting"] == 1
    report = client.post("/api/v0/flush", json=of_alice()).json()["result"]
    (episode,) = report["episodes"]
    assert episode["messages"] == [said("I sold the boat.", timestamp="2026-02-28T12:00:00Z")]
    assert memory.get(episode["id"], scope="user/alice").model_dump(mode="json") == episode
    assert (report["waiting"], report["facts"], report["reviews"]) == (0, [], [])


def test_messages_without_a_time_get_the_current_one_and_keep_their_order(client, memory):
    answer = client.post("/api/v0/add_messages", json=of_alice(messages=[said("One."), said("Two.")]))
    assert answer.json() == {"accepted": 2, "queued": 2, "due": False}
    (episode,) = client.post("/api/v0/flush", json=of_alice()).json()["result"]["episodes"]
    assert [each["content"] for each in episode["messages"]] == ["One.", "Two."]
    assert episode["messages"][0]["timestamp"] == "2026-03-01T09:00:00Z"


CHAT = [
    {"role": "user", "name": "Al", "content": [{"type": "text", "text": "I sold"}, {"type": "text", "text": "it."}]},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function"}]},
    {"role": "tool", "tool_call_id": "c1", "content": "Done."},
    {"role": "assistant", "content": "Well done.", "refusal": None},
]


def test_messages_of_the_chat_api_are_queued_and_those_without_a_text_are_not(client):
    assert client.post("/api/v0/add_message", json=of_alice(message=CHAT[1])).json()["accepted"] == 0
    assert client.post("/api/v0/add_messages", json=of_alice(messages=CHAT)).json()["accepted"] == 2
    asked = {"query": "boat", "in_prompt": [*CHAT, said("It rains.")]}
    assert client.post("/api/v0/retrieve_memory", json=of_alice(**asked)).status_code == 200
    (episode,) = client.post("/api/v0/flush", json=of_alice()).json()["result"]["episodes"]
    assert [each["content"] for each in episode["messages"]] == ["I sold\nit.", "Well done."]
    assert [each["role"] for each in episode["messages"]] == ["Al", "assistant"]
    kept = {"summary": "A sale", "messages": CHAT}
    (episode,) = client.post("/api/v0/remember", json=of_alice(episodes=[kept])).json()["episodes"]
    assert [each["content"] for each in episode["messages"]] == ["I sold\nit.", "Well done."]
    wrong = client.post("/api/v0/add_messages", json=of_alice(messages=[*CHAT, said([{"text": "x"}])]))
    assert error_of(wrong) == (422, "ValidationError")
    assert "messages.4: a part of content is text" in wrong.json()["message"]


def test_a_conversation_is_flushed_by_its_name_and_named_for_nothing_else(client):
    for conversation in ("a", "b"):
        body = of_alice(conversation=conversation, message=said(f"In {conversation}."))
        assert client.post("/api/v0/add_message", json=body).json()["queued"] == 1
    (episode,) = client.post("/api/v0/flush", json=of_alice(conversation="b")).json()["result"]["episodes"]
    assert (episode["conversation_id"], episode["scope"]) == ("b", "user/alice")
    assert error_of(client.post("/api/v0/process_due", json=of_alice(conversation="b"))) == (422, "ValidationError")
    unnamed = of_alice(conversation=" ", message=said("tea"))
    assert error_of(client.post("/api/v0/add_message", json=unnamed)) == (422, "ValidationError")


def test_process_due_without_a_conversation_does_what_is_due_everywhere(client):
    for scope in ("user/alice", "user/carol"):
        messages = [said(f"Message {number}.", timestamp="2026-02-28T12:00:00Z") for number in range(6)]
        queued = client.post("/api/v0/add_messages", json={"conversation_id": scope, "messages": messages}).json()
        assert queued == {"accepted": 6, "queued": 6, "due": True}
    report = client.post("/api/v0/process_due", json={"conversation_id": None}).json()["result"]
    assert {episode["scope"] for episode in report["episodes"]} <= {"user/alice", "user/carol"}
    assert report["waiting"] < 12
    assert error_of(client.post("/api/v0/flush", json={})) == (422, "ValidationError")


def test_remember_stores_episodes_and_facts_and_gives_them_complete(client, memory):
    body = of_alice(
        episodes=[{"summary": "The user moved to Metz.", "tags": ["move"], "messages": [said("I moved.")]}],
        facts=[{"id": "f1", "fact": "User lives in Metz", "category": "identity", "metadata": {"a": [1]}}],
    )
    answer = client.post("/api/v0/remember", json=body).json()
    (episode,), (fact,) = answer["episodes"], answer["facts"]
    assert memory.get("f1", scope="user/alice").model_dump(mode="json") == fact
    assert memory.get(episode["id"], scope="user/alice").tags == ("move",)


@pytest.mark.parametrize(
    "fields",
    [
        {"facts": [{"fact": "fine"}, {"fact": " "}]},
        {"facts": [{"fact": "fine"}, {"fact": "fine", "id": "fact-otter"}]},
        {"facts": [{"fact": "fine", "scope": "user/bob"}]},
        {"facts": [{"fact": "fine", "category": "weather"}]},
        {"episodes": [{"summary": "fine", "stability": -1}]},
        {"episodes": [{"summary": "fine", "surprise": "high"}]},
    ],
)
def test_remember_stores_all_or_nothing(client, memory, fields):
    before = memory.stats()
    assert error_of(client.post("/api/v0/remember", json=of_alice(**fields))) == (422, "ValidationError")
    assert memory.stats() == before


def test_a_fact_that_is_known_is_confirmed_and_one_that_differs_is_named_and_replaced(client, memory):
    def told(**fields):
        (fact,) = client.post("/api/v0/remember", json=of_alice(**fields)).json()["facts"]
        return fact

    first = told(facts=[{"fact": "The door code is 4711"}])
    assert told(facts=[{"fact": "the door code is  4711."}])["duplicate_of"] == first["id"]
    assert told(facts=[{"fact": "The door code is 4711"}], allow_duplicates=True)["duplicate_of"] is None
    second = told(facts=[{"fact": "The door code is 4712"}])
    assert first["id"] in {near["id"] for near in second["near"]}
    third = told(facts=[{"fact": "The door code is 4713", "replaces": first["id"]}])
    assert memory.get(first["id"], scope="user/alice").replaced_by == third["id"]
    unknown = client.post("/api/v0/remember", json=of_alice(facts=[{"fact": "x", "replaces": "nobody"}]))
    assert error_of(unknown) == (404, "NotFoundError")


def test_forget_scope_forgets_what_is_below_unless_told_not_to(client, memory):
    memory.remember_fact(scope="user/alice/work", fact="The project ends in May")
    kept = client.post("/api/v0/forget_scope", json=of_alice(include_child_scopes=False))
    assert (kept.json(), memory.scopes()) == ({"result": 2}, ["user/alice/work", "user/bob"])
    assert client.post("/api/v0/forget_scope", json=of_alice()).json() == {"result": 1}
    assert memory.scopes() == ["user/bob"]


def test_every_tool_that_is_offered_has_a_route_with_its_own_schema(client):
    paths = client.app.openapi()["paths"]
    schemas = client.app.openapi()["components"]["schemas"]
    for tool in offered_tools("all", allow_scopes=False):
        reference = paths[f"/api/v0/tools/{tool.name}"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        told = schemas[reference["$ref"].rpartition("/")[2]]["properties"]["arguments"]
        offered = tool.offered_arguments(allow_scopes=False).model_json_schema()
        assert list(told["properties"]) == list(offered["properties"])
        for name, field in offered["properties"].items():
            assert told["properties"][name].get("description") == field.get("description")


def test_tools_store_search_and_delete(client, memory):
    arguments = {"content": "The otter eats trout", "response_level": "minimal"}
    stored = client.post("/api/v0/tools/memory_store", json=of_alice(arguments=arguments)).json()
    assert memory.get(stored["memory_id"], scope="user/alice").fact == "The otter eats trout"
    found = client.post("/api/v0/tools/memory_search", json=of_alice(arguments={"query": "trout"})).json()
    assert found["results"][0]["id"] == stored["memory_id"]
    assert {each["id"] for each in found["results"][1:]} == {"fact-otter", "episode-otter"}  # what the host has stored
    gone = {"id": stored["memory_id"]}
    assert client.post("/api/v0/tools/memory_delete", json=of_alice(arguments=gone)).status_code == 200
    missing = client.post("/api/v0/tools/memory_get", json=of_alice(arguments=gone))
    assert error_of(missing) == (404, "NotFoundError")
    assert missing.json()["success"] is False


def test_tools_refuse_wrong_arguments_unknown_names_and_what_is_about_scopes(client):
    wrong = client.post("/api/v0/tools/memory_store", json=of_alice(arguments={"content": "x", "scope": "work"}))
    assert error_of(wrong) == (422, "ValidationError")
    assert error_of(client.post("/api/v0/tools/memory_fly", json=of_alice())) == (404, "NotFoundError")
    assert "memory_move" in REGISTRY
    assert error_of(client.post("/api/v0/tools/memory_move", json=of_alice())) == (404, "NotFoundError")
