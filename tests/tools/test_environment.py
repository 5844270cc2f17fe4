"""What the environment says about the tools holds for every call, wherever the program has not said it."""

import re
from pathlib import Path

import pytest

import memory_retrievers
from memory_retrievers import AgentMemory, ToolSettings
from memory_retrievers.errors import ConfigurationError
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext

DOCUMENTATION = Path(memory_retrievers.__file__).parents[1] / "docs"


@pytest.fixture
def toolbox(clock, monkeypatch):
    """Opens a toolbox with variables set."""
    opened = []

    def toolbox(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(f"LLM_MEMORY_{name}", value)
        memory = AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock)
        opened.append(memory)
        return LocalToolbox(ToolContext(memory=memory, root="user/alice"))

    yield toolbox
    for memory in opened:
        memory.close()


def items(count):
    return {"items": [{"content": f"Note {number}"} for number in range(count)]}


def test_a_batch_has_at_most_as_many_items_as_the_environment_says(toolbox):
    small = toolbox(BATCH_MAX_SIZE="3")
    assert small.call("memory_batch_store", items(3)).artifact["success"] is True
    refused = small.call("memory_batch_store", items(4) | {"response_level": "full"})
    assert refused.is_error
    assert "maximum" in refused.artifact["message"].lower()
    assert refused.artifact["details"] == {"items_count": 4}


def test_a_search_gives_as_many_results_as_the_environment_says_unless_told(toolbox):
    narrow = toolbox(SEARCH_DEFAULT_TOP_K="2")
    narrow.call("memory_batch_store", items(4))
    assert narrow.call("memory_search", {"query": "Note"}).artifact["total_count"] == 2
    assert narrow.call("memory_search", {"query": "Note", "top_k": 3}).artifact["total_count"] == 3


def test_content_is_as_long_as_the_environment_says_at_most(toolbox):
    terse = toolbox(MAX_CONTENT_LENGTH="10")
    assert not terse.call("memory_store", {"content": "x" * 10}).is_error
    assert terse.call("memory_store", {"content": "x" * 11}).artifact["error_type"] == "ValidationError"


def test_as_many_memories_are_merged_as_the_environment_says(toolbox):
    merging = toolbox(CONSOLIDATION_MIN_MEMORIES="3", CONSOLIDATION_MAX_MEMORIES="3")
    ids = merging.call("memory_batch_store", items(4)).artifact["stored_ids"]
    assert "At least 3 memories required" in merging.call("memory_consolidate", {"memory_ids": ids[:2]}).content
    assert "Maximum 3" in merging.call("memory_consolidate", {"memory_ids": ids}).content
    assert merging.call("memory_consolidate", {"memory_ids": ids[:3]}).artifact["success"] is True


def test_what_the_environment_cannot_mean_is_refused(toolbox):
    with pytest.raises(ConfigurationError, match="LLM_MEMORY_BATCH_MAX_SIZE"):
        toolbox(BATCH_MAX_SIZE="many")


def refuses_the_third(memory):
    with memory:
        toolbox = LocalToolbox(ToolContext(memory=memory, root="user/alice"))
        assert toolbox.call("memory_batch_store", items(2)).artifact["success"] is True
        return toolbox.call("memory_batch_store", items(3)).is_error


def test_the_environment_holds_however_a_memory_is_opened(tmp_path, monkeypatch, memory):
    memory.remember_fact(scope="user/bob", fact="Bob lives in Lyon")
    memory.export(tmp_path / "export.jsonl")
    monkeypatch.setenv("LLM_MEMORY_BATCH_MAX_SIZE", "2")
    for opened in (
        AgentMemory.in_memory(embedder=HashEmbedder()),
        AgentMemory.open(tmp_path / "store", embedder=HashEmbedder()),
        AgentMemory.import_(tmp_path / "export.jsonl", into=tmp_path / "imported", embedder=HashEmbedder()),
    ):
        assert refuses_the_third(opened)


def test_what_the_program_says_wins_over_the_environment_in_every_number(tmp_path, monkeypatch):
    monkeypatch.setenv("LLM_MEMORY_BATCH_MAX_SIZE", "2")
    for tools in (ToolSettings(), ToolSettings(search_default_top_k=3)):
        opened = AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), tools=tools)
        assert not refuses_the_third(opened)


def test_a_wrong_variable_is_told_before_a_store_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("LLM_MEMORY_RRF_CONSTANT", "0")
    with pytest.raises(ConfigurationError, match=r"^an environment variable is wrong: LLM_MEMORY_RRF_CONSTANT: "):
        AgentMemory.open(tmp_path / "store", embedder=HashEmbedder())
    assert list(tmp_path.iterdir()) == []


def test_the_variable_that_the_settings_page_names_is_one():
    page = DOCUMENTATION / "reference" / "settings.md"
    if not page.exists():
        pytest.skip("the documentation is part of a checkout only")
    named = set(re.findall(r"LLM_MEMORY_([A-Z][A-Z_]+)", page.read_text(encoding="utf-8")))
    assert named
    assert {name.lower() for name in named} <= set(ToolSettings.model_fields)
