"""A conversation on the command line: queued, waiting, made into memories, recalled, reviewed."""

import json

SCOPE = "user/nina"


def test_a_conversation_is_queued_found_waiting_and_made_into_an_episode(run, tmp_path, ended):
    at = ("--store", tmp_path / "store", "--scope", SCOPE)
    said = [{"role": "user", "content": "I have moved to Nantes."}, {"role": "assistant", "content": "How nice!"}]
    assert run("add-messages", *at, "--conversation", "a", stdin=json.dumps(said)) == "2 accepted, 2 wait\n"
    lines = "\n".join(map(json.dumps, said[:1]))
    assert run("add-messages", *at, "--conversation", "b", stdin=lines) == "1 accepted, 1 wait\n"

    assert run("waiting", "--store", tmp_path / "store") == f"{SCOPE}\n"
    waiting = json.loads(run("waiting", *at, "--json"))["messages"]
    assert [message["content"] for message in waiting] == [*(each["content"] for each in said), said[0]["content"]]
    assert "I have moved to Nantes." in run("waiting", *at, "--limit", "1")
    assert "Nantes" in run("retrieve", "Where did she move to?", *at)
    assert "Nantes" not in run("retrieve", "Nantes", *at, "--exclude-conversation", "a", "--as-of", "2020-01-01")

    code, printed, told = ended("flush", *map(str, at), "--conversation", "a")
    assert (code, told) == (0, "1 messages wait\n")
    id, kind, *_ = printed.splitlines()[-1].split("\t")
    assert kind == "episodic"
    run("review", id, "good", *at)
    assert json.loads(run("get", id, *at))["last_reviewed_at"] is not None
    code, printed, told = ended("process", "--store", str(tmp_path / "store"))
    assert (code, told) == (0, "1 messages wait\n")
    report = json.loads(run("flush", *at, "--json"))
    assert [[said["content"] for said in each["messages"]] for each in report["episodes"]] == [[said[0]["content"]]]
    assert (report["facts"], report["waiting"]) == ([], 0)
    assert json.loads(run("process", "--store", tmp_path / "store", "--json")) == {name: [] for name in report} | {
        "waiting": 0
    }


def test_messages_of_the_chat_api_are_queued_without_those_that_say_nothing(run, tmp_path):
    at = ("--store", tmp_path / "store", "--scope", SCOPE)
    said = [
        {"role": "user", "name": "Nina", "content": [{"type": "text", "text": "I have moved to Nantes."}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "Found."},
    ]
    assert run("add-messages", *at, stdin=json.dumps(said)) == "1 accepted, 1 wait\n"
    assert json.loads(run("waiting", *at, "--json"))["messages"][0]["role"] == "Nina"


def test_metadata_are_pairs_or_an_object_wherever_they_are_given(run, refused, tmp_path):
    at = ("--store", tmp_path / "store", "--scope", SCOPE)
    pairs = ("--metadata", "by=Ines", "--metadata", '{"n": 1}', "--metadata", "ok=true")
    id = run("remember", *at, "--fact", "Nina lives in Nantes", *pairs).strip()
    assert json.loads(run("get", id, *at))["metadata"] == {"by": "Ines", "n": 1, "ok": True}
    for one in ('{"by": "Ines", "n": 1}', "n=1"):
        assert "Nantes" in run("retrieve", "Nantes", *at, "--metadata", one)
        assert id in run("list", *at, "--metadata", one)
    assert "Nantes" not in run("retrieve", "Nantes", *at, "--metadata", '{"n": 2}')
    run("update", id, *at, "--metadata", "by=Otto")
    assert json.loads(run("get", id, *at))["metadata"] == {"by": "Otto"}
    for command in (("remember", "--fact", "x"), ("update", id), ("retrieve", "x")):
        for wrong in ("by", "[]", "{by"):
            assert "--metadata takes a JSON object" in refused(*command, *at, "--metadata", wrong)


def test_messages_that_are_none_are_refused(refused, tmp_path):
    at = ("--store", tmp_path / "store", "--scope", SCOPE)
    assert "JSON" in refused("add-messages", *at, stdin="hello")
    assert "message in line 3: " in refused("add-messages", *at, stdin='{"role": "user", "content": "x"}\n\n{"role"')
    assert "content" in refused("add-messages", *at, stdin='[{"role": "user"}]')


def test_memories_are_changed_by_their_fields_and_marked_as_no_longer_true(run, refused, tmp_path):
    at = ("--store", tmp_path / "store", "--scope", SCOPE)
    told = ("--tag", "home", "--metadata", '{"by": "Ines"}')
    id = run("remember", *at, "--fact", "Nina lives in Nantes", *told).strip()
    assert json.loads(run("get", id, *at))["metadata"] == {"by": "Ines"}
    run("update", id, *at, "--tag", "a", "--tag", "b", "--importance", "0.75", "--metadata", "{}", "--category", "goal")
    now = json.loads(run("get", id, *at))
    assert (now["tags"], now["importance"], now["metadata"]) == (["a", "b"], 0.75, {})
    assert (now["category"], now["fact"]) == ("goal", "Nina lives in Nantes")
    assert id in run("list", *at, "--where", '{"tags": {"in": ["a", "x"]}}')
    assert id not in run("list", *at, "--where", '{"not": {"tags": "a"}}')
    assert "Nantes" not in run("retrieve", "Nantes", *at, "--where", '{"metadata.n": {"gt": 1}}')
    assert "where.team is not a field" in refused("retrieve", "Nantes", *at, "--where", '{"team": 1}')
    assert "--where takes a JSON object" in refused("list", *at, "--where", "[")
    assert "nothing to change" in refused("update", id, *at)
    assert "--metadata takes a JSON object" in refused("update", id, *at, "--metadata", "[]")

    assert "Nantes" in run("context", "Where does Nina live?", *at)
    assert run("context", "Where does Nina live?", *at, "--max-tokens", "0") == "\n"
    run("invalidate", id, *at)
    assert json.loads(run("context", "Where does Nina live?", *at, "--json"))["semantic"] == []
    assert json.loads(run("get", id, *at))["invalid_at"] is not None
