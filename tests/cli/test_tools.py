import json

import pytest

from memory_retrievers.tools.registry import REGISTRY, offered_tools

SCOPE = "user/ines"


def test_tools_are_listed_with_what_they_take(run, table):
    lines = table(run("tools", "list"))
    assert [line["name"] for line in lines] == [tool.name for tool in offered_tools("all", allow_scopes=False)]
    (retrieve,) = (line for line in lines if line["name"] == "retrieve_memory")
    assert retrieve["arguments"] == (
        "query, episodic_limit, semantic_limit, detail, max_tokens, category, min_relevance, tags, metadata, since, until, "
        "where, response_level"
    )
    assert {line["name"]: line["writes"] for line in lines} == {
        tool.name: "yes" if tool.writes else "no" for tool in offered_tools("all", allow_scopes=False)
    }


def test_with_allow_scopes_every_tool_is_listed_as_a_model_is_told_of_it(run):
    told = json.loads(run("tools", "list", "--allow-scopes", "--json"))["tools"]
    assert [tool["name"] for tool in told] == list(REGISTRY)
    assert all(tool["parameters"] == REGISTRY[tool["name"]].arguments.model_json_schema() for tool in told)


def test_a_call_prints_the_result_as_json(demo, run):
    store, _ = demo
    found = json.loads(
        run("tools", "call", "recent_memory", "--scope", SCOPE, "--store", store, "--json", '{"limit": 2}')
    )
    assert len(found["episodic"]) == 2


def test_a_tool_that_fails_prints_the_error_object_and_ends_with_2(demo, ended):
    store, _ = demo
    code, output, said = ended("tools", "call", "retrieve_memory", "--scope", SCOPE, "--store", store)
    assert (code, said) == (2, "")
    assert json.loads(output) == {"error": True, "error_type": "ValidationError", "message": "query: Field required"}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["forget_all"], "Unknown tool: forget_all"),
        (["recent_memory", "--json", "["], "--json takes a JSON object"),
        (["recent_memory", "--json", "[1]"], "--json takes a JSON object"),
        (["recent_memory", "--json", "[" * 100_000], "--json takes a JSON object"),
        (["recent_memory", "--root", "user/bob"], "is not within root 'user/bob'"),
        (["recent_memory", "--root", ".."], "is malformed"),
    ],
)
def test_what_the_host_gets_wrong_is_refused_in_one_line(demo, refused, arguments, problem):
    store, _ = demo
    assert problem in refused("tools", "call", *arguments, "--scope", SCOPE, "--store", store)


def test_a_tool_that_only_reads_makes_no_store(tmp_path, refused):
    store = tmp_path / "store"
    assert "there is no memory store" in refused("tools", "call", "recent_memory", "--scope", SCOPE, "--store", store)
    assert not store.exists()


def test_the_environment_says_what_the_tools_keep_to(tmp_path, ended, monkeypatch):
    items = json.dumps({"items": [{"content": f"item {number}"} for number in range(3)]})
    monkeypatch.setenv("LLM_MEMORY_BATCH_MAX_SIZE", "2")
    call = ("tools", "call", "memory_batch_store", "--scope", "c", "--store", tmp_path / "store", "--json")
    code, output, _ = ended(*call, items)
    assert code == 2
    assert "maximum" in json.loads(output)["message"]
    monkeypatch.setenv("LLM_MEMORY_BATCH_MAX_SIZE", "3")
    code, output, _ = ended(*call, items)
    assert (code, json.loads(output)["stored_count"]) == (0, 3)


def test_an_import_here_may_be_as_large_as_an_export_and_the_environment_may_say_less(tmp_path, ended, monkeypatch):
    files = tmp_path / "files"
    files.mkdir()
    call = ("tools", "call", "memory_sync", "--scope", "c", "--store", tmp_path / "store", "--sync-directory", files)

    def taken_in(size):
        with (files / "all.json").open("wb") as file:
            file.write(b'{"memories": [{"content": "green tea"}]}')
            file.write(b" " * (size - file.tell()))
        code, output, _ = ended(*call, "--json", '{"operation": "import", "file_path": "all.json"}')
        return code, json.loads(output).get("message", "")

    assert taken_in(9 * 2**20) == (0, "")  # more than a server takes
    code, message = taken_in(100 * 2**20 + 1)
    assert (code, "the file is larger than 100 MB" in message) == (2, True)
    monkeypatch.setenv("LLM_MEMORY_IMPORT_MAX_BYTES", "1000")
    code, message = taken_in(1_001)
    assert (code, "the file is larger than 1000 bytes" in message) == (2, True)
