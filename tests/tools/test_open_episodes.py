"""What was said and is still queued is among the memories that the tools search, list, show and delete."""

import pytest

from memory_retrievers import AgentMemory, RetrievalSettings
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext

SAID = "I moved to Nantes last week."


@pytest.fixture
def told(small, clock):
    """Two open conversations of Alice, one of Bo, and facts before, between and after them."""
    for number in range(4):
        small.remember_fact(scope="user/alice", fact=f"Fact number {number}", id=f"f{number}")
        clock.advance(minutes=1)
        if number in {0, 2}:
            said = SAID if number == 0 else "My sourdough needs a jar."
            small.add_messages("user/alice", [{"role": "user", "content": said}], conversation=f"thread-{number}")
            clock.advance(minutes=1)
    small.add_messages("user/bo", [{"role": "user", "content": "I moved to Nantes as well."}])
    return small


@pytest.fixture
def open_id(told):
    return told.retrieve("Nantes", scope="user/alice").episodic[0].memory.id


@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
def test_a_search_finds_what_was_just_said(told, tool, open_id, mode):
    found = tool("memory_search", query="moved to Nantes", search_mode=mode, response_level="full")["results"]
    assert (found[0]["id"], found[0]["content"], found[0]["is_open"]) == (open_id, f"user: {SAID}", True)
    assert "as well" not in str(found)


def test_what_was_said_competes_with_what_is_stored(told, tool):
    told.remember_fact(scope="user/alice", fact="The user moved to Nantes, said the user.", id="stored")
    said = tool("memory_search", query=SAID, search_mode="hybrid")["results"]
    stored = tool("memory_search", query="The user moved to Nantes, said the user.", search_mode="hybrid")["results"]
    assert said[0]["content"].startswith("user: I moved")
    assert [each["id"] for each in stored[:1]] == ["stored"]


@pytest.mark.parametrize("limit", [1, 2, 3, 10])
def test_a_list_has_every_memory_once_in_the_order_of_time(told, tool, limit):
    pages = [tool("memory_list", limit=limit, offset=start) for start in range(0, 6, limit)]
    assert {page["total"] for page in pages} == {6}
    texts = [memory["content"].split(".")[0] for page in pages for memory in page["memories"]]
    assert texts == [
        "Fact number 3",
        "user: My sourdough needs a jar",
        "Fact number 2",
        "Fact number 1",
        "user: I moved to Nantes last week",
        "Fact number 0",
    ]


def test_filters_hold_for_what_was_said(told, tool):
    assert tool("memory_list", memory_tier="short_term")["total"] == 0
    assert tool("memory_list", tags=["work"])["total"] == 0
    assert tool("memory_list", created_after=told.now().isoformat())["total"] == 0
    assert tool("memory_list", created_before=told.now().isoformat())["total"] == 6


@pytest.mark.parametrize(
    "narrowed",
    [
        {"metadata": {"team": "a"}},
        {"since": "2999-01-01T00:00:00Z"},
        {"until": "1999-01-01T00:00:00Z"},
        {"where": {"metadata.team": "a"}},
    ],
    ids=lambda narrowed: next(iter(narrowed)),
)
def test_what_narrows_a_search_or_a_list_holds_for_what_was_said(told, tool, narrowed):
    assert SAID in str(tool("memory_search", query=SAID, response_level="full"))
    assert SAID not in str(tool("memory_search", query=SAID, response_level="full", **narrowed))
    assert tool("memory_list", **narrowed)["total"] == 0


def test_the_newest_memories_tell_what_was_said_last(told):
    toolbox = LocalToolbox(ToolContext(memory=told, root="user/alice"))
    block = toolbox.call("recent_memory", {"response_level": "full"}).content
    assert f": {SAID}" in block.partition("## Ids")[2]
    assert '- user: "My sourdough needs a jar."' in block
    assert block.index("sourdough") < block.index("Nantes")
    assert "as well" not in block


def test_it_is_got_and_deleted_by_its_id(told, tool, open_id):
    assert tool("memory_get", id=open_id)["content"] == f"user: {SAID}"
    assert tool("memory_delete", id=open_id)["deleted_count"] == 1
    assert tool("memory_delete", id=open_id)["deleted_count"] == 0
    assert [message.content for message in told.waiting("user/alice")] == ["My sourdough needs a jar."]
    assert told.waiting("user/bo")


def test_a_foreign_one_is_neither_got_nor_deleted(told, tool):
    foreign = told.retrieve("Nantes", scope="user/bo").episodic[0].memory.id
    assert tool("memory_get", id=foreign)["error_type"] == "NotFoundError"
    assert tool("memory_delete", id=foreign)["deleted_count"] == 0
    assert told.waiting("user/bo")


def test_a_condition_deletes_none_of_it(told, tool):
    tool("memory_delete", memory_tier="long_term")
    assert len(told.waiting("user/alice")) == 2


def test_the_specified_settings_and_the_plain_form_list_what_is_stored(clock, plain_tool, told):
    assert "Nantes" not in str(plain_tool("memory_search", query="Nantes"))
    settings = RetrievalSettings.reference()
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, retrieval=settings) as memory:
        memory.add_messages("user/alice", [{"role": "user", "content": SAID}])
        toolbox = LocalToolbox(ToolContext(memory=memory, root="user/alice"))
        assert toolbox.call("memory_list", {}).artifact["total"] == 0
        assert memory.recent("user/alice").episodic == ()
