import json

import pytest

from memory_retrievers.models import Category, ContentType, Origin, SemanticMemory, Tier
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext

BAD = {"success": False, "error": True, "error_type": "ValidationError"}


def facts(memory, scope="user/alice"):
    return memory.list(scope).memories


def test_the_plain_answer_is_that_of_the_specification(plain_tool):
    answer = plain_tool("memory_store", content="Nightly backups run at 02:00")
    assert list(answer) == ["id", "content", "memory_tier", "created_at"]
    assert answer["content"] == "Nightly backups run at 02:00"
    assert answer["memory_tier"] == "long_term"
    assert answer["created_at"] == "2026-03-01T09:00:00Z"


def test_everything_that_is_said_is_stored(plain_tool, small):
    id = plain_tool(
        "memory_store",
        content="  def main(): ...\n",
        content_type="code",
        memory_tier="working",
        tags=[" ops ", "", "ops", "home"],
        metadata={"file": "a.py", "lines": [1, 2]},
        agent_id="agent-7",
        ttl_seconds=90,
        category="experience",
    )["id"]
    memory = small.get(id, scope="user/alice")
    assert isinstance(memory, SemanticMemory)
    assert memory.fact == "  def main(): ...\n"
    assert (memory.content_type, memory.tier, memory.category) == (ContentType.CODE, Tier.WORKING, Category.EXPERIENCE)
    assert (memory.tags, memory.metadata) == (("ops", "home"), {"file": "a.py", "lines": [1, 2]})
    assert (memory.agent_id, memory.origin) == ("agent-7", Origin.TOOL)
    assert (memory.expires_at - memory.created_at).total_seconds() == 90


def test_the_defaults_are_those_of_the_specification(plain_tool, small):
    memory = small.get(plain_tool("memory_store", content="A note")["id"], scope="user/alice")
    assert (memory.content_type, memory.tier, memory.category) == (ContentType.TEXT, Tier.LONG_TERM, Category.NOTE)
    assert (memory.tags, memory.metadata, memory.agent_id, memory.expires_at) == ((), {}, None, None)
    assert (memory.importance, memory.access_count, memory.last_accessed_at) == (0.5, 0, None)


@pytest.mark.parametrize("content_type", list(ContentType))
@pytest.mark.parametrize("tier", list(Tier))
def test_every_content_type_and_tier_is_stored(plain_tool, content_type, tier):
    """Case D30."""
    id = plain_tool("memory_store", content="a: 1", content_type=content_type, memory_tier=tier)["id"]
    got = plain_tool("memory_get", id=id)
    assert (got["content_type"], got["memory_tier"]) == (content_type, tier)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"content": ""}, "Content cannot be empty"),
        ({"content": " \n\t"}, "Content cannot be empty"),
        (
            {"content": "x", "memory_tier": "forever"},
            "Invalid memory_tier: forever. Must be one of: short_term, long_term, working",
        ),
        (
            {"content": "x", "content_type": "film"},
            "Invalid content_type: film. Must be one of: text, image, code, json, yaml",
        ),
        ({"content": "x", "ttl_seconds": -1}, "ttl_seconds must be >= 0"),
        (
            {"content": "x", "ttl_seconds": 10**15},
            "ttl_seconds is too large: leave it out for a memory that never expires",
        ),
        ({"content": "x", "duplicate_threshold": 1.1}, "duplicate_threshold must be between 0.0 and 1.0"),
        ({"content": "x", "duplicate_threshold": float("nan")}, "duplicate_threshold must be between 0.0 and 1.0"),
        ({"content": "x", "tags": ["t"] * 101}, "Too many tags: 101, at most 100 are allowed"),
        ({"content": "x", "tags": ["t" * 201]}, "A tag is too long: 201 characters, at most 200 are allowed"),
        (
            {"content": "x", "metadata": {"a": float("nan")}},
            "metadata must be JSON: NaN, infinity and endless nesting are not",
        ),
        (
            {"content": "x" * 1_000_001},
            "Content is too long: 1000001 characters, at most 1000000 are allowed",
        ),
        (
            {"content": "x", "metadata": {"a": "y" * 1_000_000}},
            "metadata is too large: 1000009 bytes of JSON, at most 1000000 are allowed",
        ),
        ({"content": "x", "agent_id": "  "}, "agent_id: must not be blank"),
        ({"content": "x", "colour": "red"}, "colour: Extra inputs are not permitted"),
        ({"content": "x", "scope": "user/bob"}, "scope: Extra inputs are not permitted"),
        ({}, "content: Field required"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence_and_nothing_is_stored(tool, small, arguments, message):
    """Case D30: blank content, bad tier, bad type and a negative time to live are rejected; and the limits."""
    assert tool("memory_store", **arguments) == BAD | {"message": message}
    assert facts(small) == ()


def test_an_unknown_category_is_refused_by_name(tool):
    message = tool("memory_store", content="x", category="gossip")["message"]
    assert message.startswith("Invalid category: gossip. Must be one of: identity, preference,")


def test_a_wrong_value_is_told_back_only_in_part(tool):
    message = tool("memory_store", content="x", memory_tier="z" * 100_000)["message"]
    assert len(message) < 200


def test_endless_nesting_in_metadata_is_refused(tool, small):
    nested = {}
    for _ in range(5_000):
        nested = {"a": nested}
    answer = tool("memory_store", content="x", metadata=nested)
    assert answer["error_type"] == "ValidationError"
    assert facts(small) == ()


def test_as_many_tags_and_as_long_ones_as_allowed_are_stored(plain_tool):
    tags = [f"{number:0200d}" for number in range(100)]
    id = plain_tool("memory_store", content="x", tags=tags)["id"]
    assert plain_tool("memory_get", id=id)["tags"] == tags


def test_the_error_of_the_plain_format_is_the_worked_example(plain_tool):
    assert plain_tool("memory_store", content="  ") == {
        "error": True,
        "error_type": "ValidationError",
        "message": "Content cannot be empty",
    }


@pytest.mark.parametrize("ttl", [None, 0])
@pytest.mark.parametrize("tier", ["short_term", "long_term"])
def test_without_a_time_to_live_nothing_expires(plain_tool, clock, ttl, tier):
    id = plain_tool("memory_store", content="x", memory_tier=tier, ttl_seconds=ttl)["id"]
    clock.advance(days=36_500)
    assert plain_tool("memory_get", id=id)["expires_at"] is None


def test_what_has_expired_is_invisible_at_once_and_gone_after_the_clearing(plain_tool, small, clock):
    """Case D30: three expired, two that live on, two without a time: four remain."""
    for number in range(3):
        plain_tool("memory_store", content=f"short {number}", ttl_seconds=10)
    for number in range(2):
        plain_tool("memory_store", content=f"long {number}", ttl_seconds=10_000)
        plain_tool("memory_store", content=f"ever {number}")
    (gone, *_) = (memory.id for memory in facts(small) if memory.fact == "short 0")
    clock.advance(seconds=10)
    assert plain_tool("memory_get", id=gone)["error_type"] == "NotFoundError"
    assert plain_tool("memory_get_score", id=gone)["error_type"] == "NotFoundError"
    assert plain_tool("memory_list")["total"] == 4
    assert plain_tool("memory_search", query="short", search_mode="keyword")["total"] == 0
    assert {hit["content"][:-2] for hit in plain_tool("memory_search", query="short")["results"]} <= {"long", "ever"}
    clock.advance(seconds=300)
    plain_tool("memory_set_score", id=facts(small)[0].id, score=0.5)  # any write clears out
    assert small.stats("user/alice").facts == 4


def test_at_each_level_the_answer_has_the_keys_of_the_table(tool):
    """Case C19."""
    minimal = tool("memory_store", content="x" * 62, response_level="minimal")
    assert list(minimal) == ["success", "memory_id"]
    standard = tool("memory_store", content="y" * 62)
    assert list(standard) == [
        *minimal,
        "id",
        "memory_tier",
        "created_at",
        "content",
        "scope",
        "associations_count",
    ]
    assert standard["content"] == "y" * 50 + "..."
    assert (standard["success"], standard["scope"]) == (True, ".")
    full = tool("memory_store", content="z" * 62, response_level="full")
    assert list(full) == [*standard, "memory_object", "associations_details", "duplicate_analysis"]
    assert full["memory_object"]["content"] == "z" * 62
    assert full["duplicate_analysis"]["duplicate_check_performed"] is True


def test_a_failure_looks_the_same_at_every_level(tool):
    """Case C19."""
    answers = [tool("memory_store", content=" ", response_level=level) for level in ("minimal", "standard", "full")]
    assert answers == [BAD | {"message": "Content cannot be empty"}] * 3


def test_the_text_for_the_model_is_the_answer_as_compact_json(small):
    output = LocalToolbox(ToolContext(memory=small, root="user/alice")).call("memory_store", {"content": "咖啡"})
    assert json.loads(output.content) == output.artifact
    assert "咖啡" in output.content
    assert '": ' not in output.content


def test_a_scope_is_named_only_where_the_host_allows_it(small):
    toolbox = LocalToolbox(ToolContext(memory=small, root="user/alice", allow_scopes=True))
    answer = toolbox.call("memory_store", {"content": "x", "scope": "work"}).artifact
    assert answer["scope"] == "work"
    assert small.get(answer["id"], scope="user/alice/work").fact == "x"
    refused = toolbox.call("memory_store", {"content": "x", "scope": "../bob"}).artifact
    assert refused["error_type"] == "ValidationError"
