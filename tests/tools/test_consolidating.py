import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.settings import ToolSettings
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.text.summaries import summarize
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext

from .conftest import store

BAD = {"success": False, "error": True, "error_type": "ValidationError"}

PYTHON = """
    Python is a programming language. Python is widely used.
    The weather is nice today. Python has many libraries.
    Random sentence here. Python is popular for data science.
    Another random sentence. Python is easy to learn.
    Some other content here. Python programming is fun.
"""


@pytest.mark.parametrize(
    ("length", "kept"),
    [(200, [1, 2, 4, 5, 8, 10]), (100, [2, 4, 10]), (60, [2, 10]), (30, [10])],
)
def test_the_summary_keeps_the_specified_sentences(length, kept):
    """Case D25."""
    sentences = [f"{sentence.strip()}." for sentence in PYTHON.split(".") if sentence.strip()]
    assert summarize(PYTHON, length) == " ".join(sentences[place - 1] for place in kept)


def test_the_plain_answer_is_that_of_the_specification(plain_tool):
    """Case D28: 3 → source ids kept; short text concatenated."""
    ids = store(plain_tool, "one", "two", "three")
    answer = plain_tool("memory_consolidate", memory_ids=ids)
    assert answer == {
        "success": True,
        "consolidated_memory_id": answer["consolidated_memory_id"],
        "original_count": 3,
        "preserved": True,
        "summary_length": len("one\n\n---\n\ntwo\n\n---\n\nthree"),
    }
    got = plain_tool("memory_get", id=answer["consolidated_memory_id"])
    assert got["content"] == "one\n\n---\n\ntwo\n\n---\n\nthree"
    assert got["memory_tier"] == "long_term"
    assert got["metadata"] == {
        "consolidated_from": ids,
        "source_count": 3,
        "consolidation_strategy": "extractive",
        "consolidated_at": "2026-03-01T09:00:00Z",
    }
    assert plain_tool("memory_list")["total"] == 4


def test_the_order_given_is_the_order_kept_and_an_id_counts_once(plain_tool):
    one, two = store(plain_tool, "one", "two")
    id = plain_tool("memory_consolidate", memory_ids=[two, one, two])["consolidated_memory_id"]
    assert plain_tool("memory_get", id=id)["content"] == "two\n\n---\n\none"


def test_the_first_memory_gives_content_type_and_agent(plain_tool, small):
    first = store(plain_tool, "a = 1", content_type="code", agent_id="x", memory_tier="working", ttl_seconds=60)
    second = store(plain_tool, "b: 1", content_type="yaml", agent_id="y")
    id = plain_tool("memory_consolidate", memory_ids=first + second)["consolidated_memory_id"]
    memory = small.get(id, scope="user/alice")
    assert (memory.content_type, memory.agent_id, memory.tier, memory.expires_at) == ("code", "x", "long_term", None)
    assert memory.consolidated_from == tuple(first + second)


def test_tags_are_the_sorted_union_or_those_given(plain_tool):
    """Case D28: tags union {a,b,c}; custom tags replace."""
    ids = store(plain_tool, "one", tags=["c", "a"]) + store(plain_tool, "two", tags=["b", "a"])
    union = plain_tool("memory_consolidate", memory_ids=ids)["consolidated_memory_id"]
    assert plain_tool("memory_get", id=union)["tags"] == ["a", "b", "c"]
    custom = plain_tool("memory_consolidate", memory_ids=ids, tags=["z"])["consolidated_memory_id"]
    assert plain_tool("memory_get", id=custom)["tags"] == ["z"]
    none = plain_tool("memory_consolidate", memory_ids=ids, tags=[])["consolidated_memory_id"]
    assert plain_tool("memory_get", id=none)["tags"] == []


def test_given_metadata_stands_beside_ours_and_never_replaces_it(plain_tool):
    ids = store(plain_tool, "one", "two")
    metadata = {"project": "x", "source_count": 99}
    id = plain_tool("memory_consolidate", memory_ids=ids, metadata=metadata)["consolidated_memory_id"]
    got = plain_tool("memory_get", id=id)["metadata"]
    assert (got["project"], got["source_count"]) == ("x", 2)


def test_the_originals_go_when_they_are_not_to_stay(plain_tool, small):
    """Case D28: delete originals."""
    ids = store(plain_tool, "one", "two")
    answer = plain_tool("memory_consolidate", memory_ids=ids, preserve_originals=False)
    assert answer["preserved"] is False
    assert [memory["id"] for memory in plain_tool("memory_list")["memories"]] == [answer["consolidated_memory_id"]]
    merged = small.get(answer["consolidated_memory_id"], scope="user/alice")
    assert merged.consolidated_from == tuple(ids)
    assert plain_tool("memory_search", query="one", search_mode="keyword")["total"] == 1


def test_what_is_long_is_shortened(plain_tool):
    """Case D28: long shortened."""
    texts = [f"Sentence {number} of the report tells about the garden. " * 60 for number in range(2)]
    answer = plain_tool("memory_consolidate", memory_ids=store(plain_tool, *texts))
    got = plain_tool("memory_get", id=answer["consolidated_memory_id"])["content"]
    assert answer["summary_length"] == len(got) <= 4_000
    assert got == summarize("\n\n---\n\n".join(texts), 4_000)


@pytest.mark.parametrize(("lengths", "kept"), [((1_993, 2_000), True), ((1_994, 2_000), False)])
def test_up_to_four_thousand_characters_are_kept_as_they_are(plain_tool, lengths, kept):
    texts = [letter * (length - 1) + "." for letter, length in zip("ab", lengths, strict=True)]
    answer = plain_tool("memory_consolidate", memory_ids=store(plain_tool, *texts))
    whole = "\n\n---\n\n".join(texts)
    assert (plain_tool("memory_get", id=answer["consolidated_memory_id"])["content"] == whole) is kept


@pytest.mark.parametrize(
    ("count", "message"), [(0, "At least 2 memories required"), (1, "At least 2 memories required"), (51, "Maximum 50")]
)
def test_too_few_and_too_many_are_rejected(tool, count, message):
    """Case D28: 1 and 51 rejected."""
    ids = store(tool, *(f"note {number}" for number in range(count)))
    answer = tool("memory_consolidate", memory_ids=ids)
    assert answer["error_type"] == "ValidationError"
    assert message in answer["message"]
    assert tool("memory_list")["total"] == count


def test_fifty_are_merged_and_one_id_given_twice_is_not_two(tool):
    ids = store(tool, *(f"note {number}" for number in range(50)))
    assert tool("memory_consolidate", memory_ids=ids)["original_count"] == 50
    assert "At least 2" in tool("memory_consolidate", memory_ids=[ids[0], ids[0]])["message"]


def test_how_many_are_too_many_is_the_hosts(clock):
    settings = ToolSettings(consolidation_min_memories=3, consolidation_max_memories=3)
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, tools=settings) as memory:
        toolbox = LocalToolbox(ToolContext(memory=memory, root="c1"))
        for count in (2, 4):
            ids = [toolbox.call("memory_store", {"content": f"note {n}"}).artifact["id"] for n in range(count)]
            assert toolbox.call("memory_consolidate", {"memory_ids": ids}).is_error


def test_an_unknown_id_is_told_and_nothing_is_written(tool):
    """Case D28: unknown id."""
    ids = store(tool, "one", "two")
    answer = tool("memory_consolidate", memory_ids=[*ids, "nope"], preserve_originals=False)
    assert (answer["error_type"], answer["message"]) == ("NotFoundError", "Memory not found: nope")
    assert tool("memory_list")["total"] == 2


def test_an_abstract_is_not_implemented(tool):
    """Case D28: abstractive not implemented."""
    answer = tool("memory_consolidate", memory_ids=store(tool, "one", "two"), summary_strategy="abstractive")
    assert (answer["success"], answer["error"], answer["error_type"]) == (False, True, "NotImplementedError")
    assert tool("memory_list")["total"] == 2


def test_auto_is_another_name_of_extractive_and_no_other_strategy_is_known(tool):
    ids = store(tool, "one", "two")
    full = tool("memory_consolidate", memory_ids=ids, summary_strategy="auto", response_level="full")
    assert full["memory_object"]["metadata"]["consolidation_strategy"] == "extractive"
    answer = tool("memory_consolidate", memory_ids=ids, summary_strategy="magic")
    assert answer == BAD | {"message": "Invalid summary_strategy: magic. Must be one of: extractive, auto"}


def test_the_limits_hold_here_too(tool):
    ids = store(tool, "one", "two")
    assert "Too many tags" in tool("memory_consolidate", memory_ids=ids, tags=["t"] * 101)["message"]
    assert (
        "metadata must be JSON" in tool("memory_consolidate", memory_ids=ids, metadata={"a": float("nan")})["message"]
    )


def test_another_owners_memory_is_never_merged(small, tool):
    other = LocalToolbox(ToolContext(memory=small, root="user/bob"))
    foreign = other.call("memory_store", {"content": "Bob's secret"}).artifact["id"]
    (own,) = store(tool, "one")
    answer = tool("memory_consolidate", memory_ids=[own, foreign], preserve_originals=False)
    assert answer["message"] == f"Memory not found: {foreign}"
    assert small.get(foreign, scope="user/bob").fact == "Bob's secret"


def test_whoever_stored_them_memories_are_merged_unless_the_host_narrows_the_tools(small, tool):
    fact = small.remember_fact(scope="user/alice", fact="User lives in Lyon")
    episode = small.remember_episode(scope="user/alice", summary="They met.")
    (own,) = store(tool, "one")
    ids = [own, fact.id, episode.id]
    narrow = LocalToolbox(ToolContext(memory=small, root="user/alice", kinds="tool"))
    refused = narrow.call("memory_consolidate", {"memory_ids": ids}).artifact
    assert refused["message"] == f"Memory not found: {fact.id}"
    merged = tool("memory_consolidate", memory_ids=ids, response_level="full")
    assert merged["memory_object"]["content"] == "one\n\n---\n\nUser lives in Lyon\n\n---\n\nThey met."


def test_at_each_level_a_consolidation_tells_more(tool):
    ids = store(tool, "one", "two")
    minimal = tool("memory_consolidate", memory_ids=ids, response_level="minimal")
    assert list(minimal) == ["success", "consolidated_memory_id", "original_count"]
    standard = tool("memory_consolidate", memory_ids=ids)
    assert list(standard) == [*minimal, "preserved", "summary_length"]
    full = tool("memory_consolidate", memory_ids=ids, response_level="full")
    assert list(full) == [*standard, "memory_object"]
    assert full["memory_object"]["consolidated_from"] == ids


def test_a_merged_memory_is_retrieved(small, plain_tool):
    ids = store(plain_tool, "The irrigation pump is in the cellar", "The pump needs oil")
    id = plain_tool("memory_consolidate", memory_ids=ids, preserve_originals=False)["consolidated_memory_id"]
    found = small.retrieve("Where is the irrigation pump?", scope="user/alice")
    assert [hit.memory.id for hit in found.semantic] == [id]


def test_more_tags_together_than_one_memory_may_have_are_refused_before_anything_is_deleted(tool):
    ids = [
        tool("memory_store", content=f"note {half}", tags=[f"{half}{number}" for number in range(60)])["id"]
        for half in "ab"
    ]
    told = tool("memory_consolidate", memory_ids=ids, preserve_originals=False)
    assert told == BAD | {"message": "Too many tags: 120, at most 100 are allowed"}
    assert tool("memory_list")["total"] == 2
    assert tool("memory_consolidate", memory_ids=ids, tags=["ab"])["success"]
