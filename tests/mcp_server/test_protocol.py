"""What the protocol asks of the MCP server, by the official client: shapes, hints, cursors, progress, cancellation."""

import asyncio
import json
import threading
from contextlib import asynccontextmanager
from importlib.metadata import version

import pytest
from mcp_calls import ALICE, BEES, BOB, arguments_for, told
from patience import PATIENCE

from memory_retrievers import AgentMemory
from memory_retrievers.models import SemanticMemory
from memory_retrievers.server import mcp_sdk
from memory_retrievers.server.mcp import McpOffer
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.tools.registry import REGISTRY
from memory_retrievers.tools.tool import ToolPolicy

pytest.importorskip("mcp")
jsonschema = pytest.importorskip("jsonschema")

READ_FAIL = -32002
INVALID = -32602


class Gate(HashEmbedder):
    """An embedder that, once it is closed, waits in the midst of a batch of documents until it is opened."""

    def __init__(self):
        super().__init__()
        self.opened = threading.Event()
        self.opened.set()
        self.reached = threading.Event()

    def embed_documents(self, texts):
        if not self.opened.is_set():
            self.reached.set()
            assert self.opened.wait(PATIENCE)
        return super().embed_documents(texts)


@asynccontextmanager
async def connected(offer):
    """A session of the official client with a server in this process."""
    from mcp import ClientSession
    from mcp.shared.memory import create_client_server_memory_streams

    server = mcp_sdk._server(offer)
    async with create_client_server_memory_streams() as (ours, theirs):
        serving = asyncio.create_task(server.run(*theirs, server.create_initialization_options()))
        try:
            async with ClientSession(*ours) as session:
                await session.initialize()
                yield session
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


def filled(memory):
    first, second = memory.remember_many(
        [
            SemanticMemory.new(scope=ALICE, fact="Alice lives in Lyon", category="identity", origin="tool"),
            SemanticMemory.new(scope=ALICE, fact="Alice works in Geneva", origin="tool"),
        ]
    )
    memory.remember_episode(scope=ALICE, title="Broken import", summary="The nightly import failed again.")
    return first.id, second.id


@pytest.mark.parametrize("response_format", ["levels", "plain"])
@pytest.mark.parametrize("level", ["minimal", "standard", "full", None])
def test_every_answer_has_the_shape_that_was_announced(response_format, level):
    rules = ToolPolicy(allow_scopes=True, response_format=response_format)
    shapes = announced_by(rules)
    for name in REGISTRY:
        with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
            arguments = arguments_for(name, *filled(memory)) | ({} if level is None else {"response_level": level})
            offer = McpOffer(memory, scope=ALICE, tools="all", rules=rules)
            answer = offer.call(name, arguments)
            if answer["isError"]:
                assert level is not None, answer
                continue
            jsonschema.validate(answer["structuredContent"], shapes[name])
            assert answer["structuredContent"].keys() <= shapes[name]["properties"].keys(), name


def announced_by(rules):
    """The shape of every tool's answers, which is the same whatever a memory holds."""
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        offer = McpOffer(memory, scope=ALICE, tools="all", rules=rules)
        return {tool["name"]: tool["outputSchema"] for tool in offer.tools()["tools"]}


@pytest.mark.parametrize("response_format", ["levels", "plain"])
@pytest.mark.parametrize("level", ["minimal", "standard", "full"])
def test_what_comes_only_at_times_has_the_shape_that_was_announced(response_format, level, tmp_path):
    calls = [
        ("memory_store", {"content": "Alice lives in Lyons"}),
        ("memory_delete", {"message": "The import failed."}),
        ("memory_search", {"query": "Alice", "scope": "nowhere"}),
        ("memory_move", {"target_scope": "work"}),
        ("memory_manage", {"operation": "delete"}),
        ("memory_sync", {"operation": "export", "file_path": "out.json"}),
        ("session_manage", {"action": "create"}),
        ("session_manage", {"action": "cleanup", "max_age_days": 7}),
    ]
    rules = ToolPolicy(allow_scopes=True, response_format=response_format, sync_directory=tmp_path)
    shapes = announced_by(rules)
    for name, arguments in calls:
        with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
            first, _ = filled(memory)
            memory.add_messages(ALICE, [{"role": "user", "content": "The import failed."}])
            elsewhere = memory.remember_fact(scope=f"{ALICE}/hives", fact="Bees swarm in May", id="bees").id
            of_ids = {"memory_move": {"memory_ids": [first, elsewhere, "none"]}, "memory_manage": {"memory_id": first}}
            offer = McpOffer(memory, scope=ALICE, tools="all", rules=rules)
            answer = offer.call(name, arguments | of_ids.get(name, {}) | {"response_level": level})
            assert not answer["isError"], answer
            jsonschema.validate(answer["structuredContent"], shapes[name])
            assert answer["structuredContent"].keys() <= shapes[name]["properties"].keys(), name


def test_every_tool_has_a_title_and_hints():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        offer = McpOffer(memory, scope=ALICE, tools="all", rules=ToolPolicy(allow_scopes=True))
        tools = {tool["name"]: tool for tool in offer.tools()["tools"]}
    assert tools.keys() == REGISTRY.keys()
    for name, tool in tools.items():
        hints = tool["annotations"]
        assert tool["title"] == hints["title"] != name
        assert hints["openWorldHint"] is False
        writes = {"destructiveHint", "idempotentHint"} if REGISTRY[name].writes else set()
        assert hints.keys() == {"title", "readOnlyHint", "openWorldHint"} | writes
    destructive = {name for name, tool in tools.items() if tool["annotations"].get("destructiveHint")}
    assert {"memory_delete", "memory_update"} <= destructive
    assert "memory_store" not in destructive
    assert tools["memory_delete"]["annotations"]["idempotentHint"] is True


async def test_the_client_checks_answers_against_the_shapes_and_text_stays_markdown():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        filled(memory)
        async with connected(McpOffer(memory, scope=ALICE)) as session:
            listed = told(await session.list_tools())["tools"]
            assert all(tool["outputSchema"]["type"] == "object" for tool in listed)
            found = told(await session.call_tool("retrieve_memory", {"query": "Where does Alice live?"}))
            assert found["content"][0]["text"].startswith("## Semantic Memory\n- [identity] Alice lives in Lyon")


async def test_a_memory_is_a_resource_by_its_id_and_only_one_s_own():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        known, _ = filled(memory)
        foreign = memory.remember_fact(scope=BOB, fact=BEES)
        async with connected(McpOffer(memory, scope=ALICE)) as session:
            [template] = told(await session.list_resource_templates())["resourceTemplates"]
            assert template["uriTemplate"] == "memory://memories/{id}"
            [content] = told(await session.read_resource(f"memory://memories/{known}"))["contents"]
            assert json.loads(content["text"])["content"] == "Alice lives in Lyon"
            for unknown in (foreign.id, "none"):
                with pytest.raises(Exception, match="Memory not found") as raised:
                    await session.read_resource(f"memory://memories/{unknown}")
                assert raised.value.error.code == READ_FAIL
                assert BEES not in str(raised.value)


async def test_a_cursor_that_was_not_given_and_a_tool_that_is_not_there_are_errors_of_the_protocol():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        async with connected(McpOffer(memory, scope=ALICE)) as session:
            for ask in (
                session.list_tools,
                session.list_resources,
                session.list_resource_templates,
                session.list_prompts,
            ):
                with pytest.raises(Exception, match="Invalid cursor") as raised:
                    await _page(ask, "made-up")
                assert raised.value.error.code == INVALID
            with pytest.raises(Exception, match="Unknown tool: hack") as raised:
                await session.call_tool("hack", {})
            assert raised.value.error.code == INVALID


async def _page(ask, cursor):
    from mcp import types

    return await ask(params=types.PaginatedRequestParams(cursor=cursor))


def document(count):
    """A document of so many memories, as ``memory_sync`` exports them."""
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        memory.remember_many(
            [SemanticMemory.new(scope=ALICE, fact=f"Locker {number}", origin="tool") for number in range(count)]
        )
        offer = McpOffer(memory, scope=ALICE, tools="all")
        return offer.call("memory_sync", {"operation": "export"})["structuredContent"]["data"]


async def test_an_import_tells_how_far_it_is():
    told_of = []

    async def hear(done, total, _message):
        told_of.append((done, total))

    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        async with connected(McpOffer(memory, scope=ALICE, tools="all")) as session:
            answer = await session.call_tool(
                "memory_sync", {"operation": "import", "data": document(300)}, progress_callback=hear
            )
        assert not told(answer).get("isError"), answer
        assert memory.stats(ALICE).facts == 300
    assert told_of == [(128, 300), (256, 300), (300, 300)]


@pytest.mark.parametrize(
    "call",
    [
        ("memory_batch_store", {"items": [{"content": f"Locker {number}"} for number in range(50)]}),
        ("memory_sync", {"operation": "import", "data": document(200)}),
    ],
    ids=["batch", "import"],
)
async def test_what_a_client_cancels_is_ended_and_leaves_nothing(call, monkeypatch):
    embedder, ended, follow = Gate(), threading.Event(), mcp_sdk._Course.follow

    def followed(course, answer, offer, asked):
        try:
            return follow(course, answer, offer, asked)
        finally:
            if getattr(asked, "name", None) == call[0]:
                ended.set()

    monkeypatch.setattr(mcp_sdk._Course, "follow", followed)
    with AgentMemory.in_memory(embedder=embedder) as memory:
        memory.remember_fact(scope=ALICE, fact="Alice lives in Lyon")
        async with connected(McpOffer(memory, scope=ALICE, tools="all")) as session:
            embedder.opened.clear()
            calling = asyncio.create_task(session.call_tool(*call))
            await asyncio.wait_for(asyncio.to_thread(embedder.reached.wait, PATIENCE), PATIENCE)
            await _cancel(session, calling)
            embedder.opened.set()
            await session.call_tool("memory_store", {"content": "Alice likes tea"})
            await asyncio.wait_for(asyncio.to_thread(ended.wait, PATIENCE), PATIENCE)
        known = {fact.fact for fact in memory.list(ALICE, limit=500).memories}
        assert known == {"Alice likes tea", "Alice lives in Lyon"}


async def _cancel(session, calling):
    """The client's own way to cancel what it waits for; the first version does not tell the server by itself."""
    if version("mcp").startswith("1."):
        from mcp import types

        asked = types.CancelledNotificationParams(requestId=session._request_id - 1)
        note = types.CancelledNotification(method="notifications/cancelled", params=asked)
        await session.send_notification(types.ClientNotification(note))
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    await session.send_ping()  # what was sent before has arrived
