"""Nothing of one scope is ever seen in another, however alike their names are."""

import json
from itertools import permutations
from pathlib import Path

import pytest
from cases import try_each

from memory_retrievers import AgentMemory, Message
from memory_retrievers.langchain import MemoryRetriever, RegistryTool
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.tools.registry import REGISTRY
from memory_retrievers.tools.tool import ToolPolicy

NAMES = ["user", "user/1", "user/10", "user/1/work", "user/1x", "User/1", "user/１", "user%2F1"]
PAIRS = list(permutations(range(len(NAMES)), 2))


@pytest.fixture(scope="module")
def crowded():
    """A memory in which every scope holds the same texts under the same ids, but for a mark of its own."""
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        for number, scope in enumerate(NAMES):
            memory.remember_fact(scope=scope, id="fact", fact=f"The code is mark{number}", category="note")
            memory.remember_episode(
                scope=scope,
                id="episode",
                title=f"mark{number}",
                summary=f"They changed the code to mark{number}",
                messages=[Message(role="user", content=f"mark{number}")],
                surprise=1.0,
            )
        yield memory


def marks(text):
    return {number for number in range(len(NAMES)) if f"mark{number}" in text}


def asked(name, about):
    return {} if name in {"recent_memory", "memory_list"} else {"query": f"code mark{about}"}


def test_a_retriever_finds_its_own_scope_alone_even_when_asked_for_another(crowded):
    def check(own, other):
        config = {"configurable": {"user_id": NAMES[own]}}
        found = MemoryRetriever(memory=crowded, k=50).invoke(f"code mark{other}", config)
        assert {document.metadata["scope"] for document in found} == {NAMES[own]}
        assert marks("".join(document.page_content for document in found)) == {own}

    try_each(check, PAIRS)


@pytest.mark.parametrize(
    "name", ["retrieve_memory", "context_pre_retrieve", "recent_memory", "memory_search", "memory_list"]
)
def test_a_tool_tells_of_its_own_scope_alone(crowded, name):
    tool = RegistryTool(spec=REGISTRY[name], memory=crowded, rules=ToolPolicy(kinds="all"))

    def check(own, other):
        call = {"name": name, "args": asked(name, other), "id": "1", "type": "tool_call"}
        message = tool.invoke(call, {"configurable": {"user_id": NAMES[own]}})
        assert marks(message.content) == marks(json.dumps(message.artifact)) == {own}

    try_each(check, PAIRS)


def test_child_scopes_are_those_below_and_no_others(crowded):
    retriever = MemoryRetriever(memory=crowded, scope="user/1", include_child_scopes=True, k=50)
    assert {document.metadata["scope"] for document in retriever.invoke("code")} == {"user/1", "user/1/work"}


@pytest.mark.parametrize("given", [Path, str])
def test_no_scope_reads_what_another_has_exported(crowded, tmp_path, given):
    rules = ToolPolicy(sync_directory=given(tmp_path / "exports"))
    sync = RegistryTool(spec=REGISTRY["memory_sync"], memory=crowded, rules=rules)

    def call(number, operation):
        config = {"configurable": {"user_id": NAMES[number]}}
        return json.loads(sync.invoke({"operation": operation, "file_path": "mine.json"}, config))

    for own in range(len(NAMES)):
        assert call(own, "import")["error"]
        assert call(own, "export")["success"]
    assert len({file.parent.name.lower() for file in (tmp_path / "exports").glob("*/mine.json")}) == len(NAMES)


@pytest.mark.parametrize("given", [Path, str])
def test_a_root_that_the_host_has_fixed_has_its_files_right_in_the_directory(crowded, tmp_path, given):
    rules = ToolPolicy(root="user", sync_directory=given(tmp_path))
    sync = RegistryTool(spec=REGISTRY["memory_sync"], memory=crowded, rules=rules)
    sync.invoke({"operation": "export", "file_path": "all.json"}, {"configurable": {"user_id": "user/1"}})
    assert [file.name for file in tmp_path.iterdir()] == ["all.json"]
