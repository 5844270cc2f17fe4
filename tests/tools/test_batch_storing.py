import itertools

import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.errors import EmbeddingError
from memory_retrievers.settings import ToolSettings
from memory_retrievers.testing import HashEmbedder, inside
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext

INVALID_TYPE = "Invalid content_type: film. Must be one of: text, image, code, json, yaml"


def items(count, *, first=0):
    return [{"content": f"note {number}"} for number in range(first, first + count)]


def contents(call):
    return sorted(memory["content"] for memory in call("memory_list", limit=1_000)["memories"])


class CountingEmbedder:
    """A function that embeds like HashEmbedder, counts how often it is asked, and fails when it is told to."""

    def __init__(self):
        self._embedder = HashEmbedder()
        self.calls = 0
        self.fails = False

    def __call__(self, texts):
        self.calls += 1
        if self.fails:
            raise OSError("the service is gone")
        return [self._embedder.embed_query(text) for text in texts]


@pytest.mark.parametrize("count", [1, 10, 100])
def test_a_batch_is_stored_in_order(plain_tool, count):
    """Case D26: 10 ok; 100 ok."""
    answer = plain_tool("memory_batch_store", items=items(count))
    assert list(answer) == ["success", "stored_count", "stored_ids", "errors"]
    assert (answer["success"], answer["stored_count"], answer["errors"]) == (True, count, [])
    stored = [plain_tool("memory_get", id=id)["content"] for id in answer["stored_ids"]]
    assert stored == [f"note {number}" for number in range(count)]


@pytest.mark.parametrize(("count", "word"), [(101, "maximum"), (0, "empty")])
def test_a_batch_of_too_much_or_of_nothing_is_refused(plain_tool, tool, count, word):
    """Case D26: 101 rejected; [] rejected."""
    answer = plain_tool("memory_batch_store", items=items(count))
    assert (answer["error"], answer["error_type"]) == (True, "ValidationError")
    assert word in answer["message"]
    assert answer["details"] == {"items_count": count}
    assert "details" not in tool("memory_batch_store", items=items(count))
    assert contents(plain_tool) == []


def test_how_much_is_too_much_is_the_hosts(clock):
    settings = ToolSettings(batch_max_size=2)
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, tools=settings) as memory:
        toolbox = LocalToolbox(ToolContext(memory=memory, root="c1"))
        assert "maximum of 2" in toolbox.call("memory_batch_store", {"items": items(3)}).artifact["message"]
        assert toolbox.call("memory_batch_store", {"items": items(2)}).artifact["success"]


@pytest.mark.parametrize(("on_error", "stored"), [("rollback", []), ("stop", [0, 1]), ("continue", [0, 1, 3, 4])])
def test_a_bad_item_does_what_was_asked_for(plain_tool, on_error, stored):
    """Case D26: 5 items, the third of an invalid type."""
    batch = items(5)
    batch[2]["content_type"] = "film"
    answer = plain_tool("memory_batch_store", items=batch, on_error=on_error)
    assert (answer["success"], answer["stored_count"], len(answer["stored_ids"])) == (False, len(stored), len(stored))
    assert answer["errors"] == [{"index": 2, "error_type": "ValidationError", "message": INVALID_TYPE}]
    assert contents(plain_tool) == [f"note {number}" for number in stored]


def test_with_continue_every_bad_item_has_an_error_of_its_own(plain_tool):
    bad = [None, {"content": " "}, {"content": "x", "ttl_seconds": -1}, {"content": "x", "id": "mine"}, "text", {}]
    batch = list(itertools.chain.from_iterable(zip(bad, items(len(bad)), strict=True)))
    answer = plain_tool("memory_batch_store", items=batch, on_error="continue")
    assert [error["index"] for error in answer["errors"]] == [0, 2, 4, 6, 8, 10]
    assert {error["error_type"] for error in answer["errors"]} == {"ValidationError"}
    assert [error["message"] for error in answer["errors"]][1:3] == [
        "Content cannot be empty",
        "ttl_seconds must be >= 0",
    ]
    assert answer["errors"][3]["id"] == "mine"
    assert answer["stored_count"] == len(bad)


@pytest.mark.parametrize("field", ["scope", "origin", "importance", "created_at"])
def test_what_the_host_decides_cannot_be_said_in_an_item(plain_tool, field):
    answer = plain_tool("memory_batch_store", items=[{"content": "x", field: "user/bob"}])
    assert answer["errors"][0]["message"] == f"{field}: Extra inputs are not permitted"


def test_items_name_scopes_where_the_host_allows_it(small):
    toolbox = LocalToolbox(ToolContext(memory=small, root="user/alice", allow_scopes=True))
    batch = [{"content": "a", "scope": "work"}, {"content": "b"}, {"content": "c", "scope": "../bob"}]
    answer = toolbox.call("memory_batch_store", {"items": batch, "on_error": "continue"}).artifact
    assert (answer["stored_count"], answer["errors"][0]["index"]) == (2, 2)
    assert small.scopes() == ["user/alice", "user/alice/work"]


def test_an_unknown_on_error_is_refused(plain_tool):
    answer = plain_tool("memory_batch_store", items=items(1), on_error="shrug")
    assert answer["message"] == "Invalid on_error: shrug. Must be one of: rollback, stop, continue"
    assert contents(plain_tool) == []


def test_items_take_everything_that_memory_store_takes(plain_tool):
    item = {
        "content": "a: 1",
        "content_type": "yaml",
        "memory_tier": "working",
        "tags": ["a"],
        "metadata": {"n": 1},
        "agent_id": "x",
        "ttl_seconds": 60,
        "category": "goal",
        "auto_associate": False,
        "allow_duplicates": False,
        "duplicate_threshold": 1.0,
    }
    (id,) = plain_tool("memory_batch_store", items=[item])["stored_ids"]
    got = plain_tool("memory_get", id=id)
    assert {name: got[name] for name in ("content", "content_type", "memory_tier", "tags", "metadata")} == {
        name: item[name] for name in ("content", "content_type", "memory_tier", "tags", "metadata")
    }
    assert got["expires_at"] == "2026-03-01T09:01:00Z"


@pytest.mark.embedded("it counts the statements of SQLite's connection")
@pytest.mark.parametrize("associates", [True, False])
def test_a_hundred_items_are_one_transaction_and_one_call_of_the_embedder(clock, tmp_path, associates):
    embedder = CountingEmbedder()
    with AgentMemory.open(tmp_path, embedder=embedder, embedder_id="counting", clock=clock) as memory:
        toolbox = LocalToolbox(ToolContext(memory=memory, root="c1"))
        toolbox.call("memory_store", {"content": "the first write clears out what has expired"})
        statements = []
        connection = inside(memory).ledger.database._writer
        connection.set_trace_callback(statements.append)
        embedder.calls = 0
        batch = [item | {"auto_associate": associates} for item in items(100)]
        answer = toolbox.call("memory_batch_store", {"items": batch}).artifact
        connection.set_trace_callback(None)
        assert answer["stored_count"] == 100
        assert embedder.calls == 1
        assert [word for word in statements if word.startswith("BEGIN")] == ["BEGIN IMMEDIATE"]
        assert [word for word in statements if word.startswith("COMMIT")] == ["COMMIT"]


@pytest.mark.parametrize("on_error", ["rollback", "stop", "continue"])
def test_a_failing_embedder_fails_the_whole_batch_and_nothing_is_kept(clock, on_error):
    embedder = CountingEmbedder()
    with AgentMemory.in_memory(embedder=embedder, embedder_id="counting", clock=clock, dense="exact") as memory:
        toolbox = LocalToolbox(ToolContext(memory=memory, root="c1"))
        toolbox.call("memory_store", {"content": "before"})
        embedder.fails = True
        answer = toolbox.call("memory_batch_store", {"items": items(3), "on_error": on_error})
        assert answer.is_error
        assert answer.artifact["error_type"] == "BatchOperationError"
        assert [fact.fact for fact in memory.list("c1").memories] == ["before"]
        with pytest.raises(EmbeddingError):
            memory.remember_fact(scope="c1", fact="the embedder still fails")


def test_a_batch_associates_like_single_stores_do(plain_tool, small):
    batch = [{"content": f"Nightly backups run at hour {number}"} for number in range(3)]
    ids = plain_tool("memory_batch_store", items=batch)["stored_ids"]
    counts = [len(small.manager.associations_of(small.get(id, scope="user/alice"), within="user/alice")) for id in ids]
    assert counts == [2, 2, 2]


def test_an_item_that_wants_no_duplicate_sees_what_stands_before_it(plain_tool):
    batch = [
        {"content": "User lives in Lyon"},
        {"content": "The user lives in Lyon", "allow_duplicates": False},
        {"content": "User likes tea"},
    ]
    answer = plain_tool("memory_batch_store", items=batch)
    assert answer["success"] is True
    assert answer["stored_count"] == len(answer["stored_ids"]) == 2
    assert answer["duplicates"] == [{"index": 1, "duplicate_of": answer["stored_ids"][0]}]
    assert contents(plain_tool) == ["User likes tea", "User lives in Lyon"]


@pytest.mark.parametrize(
    ("on_error", "stored"), [("rollback", []), ("stop", ["one boat"]), ("continue", ["one boat", "two cats"])]
)
def test_a_threshold_in_a_batch_does_what_was_asked_for(plain_tool, on_error, stored):
    batch = [{"content": "one boat"}, {"content": "one boat", "duplicate_threshold": 0.9}, {"content": "two cats"}]
    answer = plain_tool("memory_batch_store", items=batch, on_error=on_error)
    (error,) = answer["errors"]
    assert (error["index"], error["message"]) == (1, "Duplicate content detected (similarity: 1.000 >= 0.9)")
    assert (answer["success"], answer["stored_count"]) == (False, len(stored))
    assert contents(plain_tool) == stored
    assert plain_tool("memory_search", query="boat", search_mode="keyword")["total"] == len(stored[:1])


@pytest.mark.parametrize(
    ("on_error", "stored"), [("rollback", []), ("stop", ["note 0"]), ("continue", ["note 0", "note 2"])]
)
def test_what_the_host_holds_back_is_a_bad_item(clock, on_error, stored):
    def without_one(record):
        return None if "1" in record.fact else record

    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, dense="exact", before_store=without_one) as memory:
        toolbox = LocalToolbox(ToolContext(memory=memory, root="c1"))
        answer = toolbox.call("memory_batch_store", {"items": items(3), "on_error": on_error}).artifact
        assert [error["index"] for error in answer["errors"]] == [1]
        assert sorted(fact.fact for fact in memory.list("c1").memories) == stored
        assert answer["stored_count"] == len(stored)


def test_at_each_level_a_batch_tells_more(tool):
    minimal = tool("memory_batch_store", items=items(2), response_level="minimal")
    assert list(minimal) == ["success", "stored_count", "stored_ids", "errors"]
    assert list(tool("memory_batch_store", items=items(2, first=2))) == list(minimal)
    full = tool("memory_batch_store", items=items(2, first=4), response_level="full")
    assert [memory["content"] for memory in full["memory_objects"]] == ["note 4", "note 5"]


def test_what_a_batch_stores_is_retrieved(small, plain_tool):
    plain_tool("memory_batch_store", items=[{"content": "The irrigation pump is in the cellar"}])
    found = small.retrieve("Where is the irrigation pump?", scope="user/alice")
    assert [hit.memory.fact for hit in found.semantic] == ["The irrigation pump is in the cellar"]
