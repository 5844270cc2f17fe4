"""A real MCP client against the installed command, over standard input and output and over HTTP on loopback."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp_calls import ALICE, BEES, BOB, arguments_for, told
from patience import PATIENCE

from memory_retrievers import AgentMemory
from memory_retrievers.errors import ConfigurationError, NotFoundError
from memory_retrievers.models import SemanticMemory
from memory_retrievers.server.mcp import PROMPT, RECENT_JSON, RECENT_MARKDOWN, McpOffer
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.tools.registry import REGISTRY, offered_tools
from memory_retrievers.tools.tool import ToolPolicy

mcp = pytest.importorskip("mcp")

COMMAND = str(Path(sys.executable).parent / "memory-retrievers")
HASHED = "memory_retrievers.testing:HashEmbedder"


@pytest.fixture
def store(tmp_path):
    """Alice's and Bob's memories in one directory, and the ids of two of Alice's and one of Bob's."""
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder()) as memory:
        first, second = memory.remember_many(
            [
                SemanticMemory.new(scope=ALICE, fact="Alice lives in Lyon", category="identity", origin="tool"),
                SemanticMemory.new(scope=ALICE, fact="Alice works in Geneva", origin="tool"),
            ]
        )
        memory.remember_episode(scope=ALICE, title="Broken import", summary="The nightly import failed again.")
        memory.remember_episode(scope=BOB, title="Bees", summary=BEES)
        secret = memory.remember_fact(scope=BOB, fact=BEES)
    return tmp_path / "store", first.id, second.id, secret.id


def serving(store, *options):
    return ["mcp", "--store", str(store), "--scope", ALICE, "--embedder", HASHED, *options]


@asynccontextmanager
async def over_stdio(store, *options):
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    started = StdioServerParameters(command=COMMAND, args=serving(store, *options), env=dict(os.environ))
    async with stdio_client(started) as (incoming, outgoing), ClientSession(incoming, outgoing) as session:
        yield session, told(await session.initialize())


@asynccontextmanager
async def over_http(store, *options):
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async with (
        listening(store, *options) as url,
        streamable_http_client(url) as streams,
        ClientSession(*streams[:2]) as session,
    ):
        yield session, told(await session.initialize())


@asynccontextmanager
async def started(store, *options):
    """A server in a process of its own, and its address."""
    command = [COMMAND, *serving(store, "--http", "--port", "0", *options)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        said = (await asyncio.wait_for(process.stdout.readline(), timeout=PATIENCE)).decode().split()
        assert said[:2] == ["serving", ALICE], "the server has not said where it listens"
        yield process, said[-1]
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.wait(), timeout=PATIENCE)


@asynccontextmanager
async def listening(store, *options):
    async with started(store, *options) as (_, url):
        yield url


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_server_that_waits_for_input_and_leaves_what_it_acknowledged(tmp_path, number):
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "typed", "version": "1"}}
    stores = {"name": "memory_store", "arguments": {"content": "Alice likes tea"}}
    lines = [
        {"id": 0, "method": "initialize", "params": about},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/call", "params": stores},
    ]
    command = [COMMAND, *serving(tmp_path / "store")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            process.stdin.writelines(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n" for line in lines)
            process.stdin.flush()
            assert [json.loads(process.stdout.readline())["id"] for _ in range(2)] == [0, 1]
            process.send_signal(number)
            assert (process.wait(PATIENCE), process.stderr.read()) == (-number, b"")
        finally:
            process.kill()
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder()) as memory:
        assert [fact.fact for fact in memory.list(ALICE).memories] == ["Alice likes tea"]
        assert memory.verify().ok


def test_a_server_that_is_started_with_ctrl_c_ignored_goes_on_at_one(tmp_path):
    command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", COMMAND, *serving(tmp_path / "store")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            for number in range(2):
                process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}).encode() + b"\n")
                process.stdin.flush()
                assert json.loads(process.stdout.readline())["id"] == number
                process.send_signal(signal.SIGINT)
        finally:
            process.kill()


TRANSPORTS = pytest.mark.parametrize("over", [over_stdio, over_http], ids=["stdio", "http"])


@TRANSPORTS
@pytest.mark.enable_socket
async def test_a_client_lists_and_calls_every_tool(store, over):
    directory, first, second, _ = store
    async with over(directory, "--allow-scopes", "--tools", "all") as (session, _):
        listed = told(await session.list_tools())["tools"]
        registered = {tool.name: tool for tool in offered_tools("all", allow_scopes=True)}
        assert [tool["name"] for tool in listed] == list(registered)
        for tool in listed:
            spec = registered[tool["name"]]
            assert tool["inputSchema"] == spec.arguments.model_json_schema()
            assert tool["annotations"]["readOnlyHint"] is not spec.writes
        for name in sorted(registered, key=["memory_move", "memory_delete"].__contains__):
            answer = told(await session.call_tool(name, arguments_for(name, first, second)))
            assert not answer.get("isError"), (name, answer)
            assert answer["content"][0]["type"] == "text"
            assert isinstance(answer["structuredContent"], dict)


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "client", "version": "1"},
    },
}
HALF_AN_EMOJI = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "memory_store", "arguments": {"content": "Bees are fine \ud83d"}},
}


def test_half_of_an_emoji_over_stdio_is_answered(store):
    """As clients in JavaScript send a text that they have cut."""
    with subprocess.Popen(
        [COMMAND, *serving(store[0])], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        for message in (HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}, HALF_AN_EMOJI):
            process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        timer = threading.Timer(PATIENCE, process.kill)
        timer.start()
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        timer.cancel()
        process.stdin.close()
    assert answers[1]["result"]["structuredContent"]["content"] == "Bees are fine \ufffd"


def test_what_is_no_message_over_stdio_is_answered_and_the_next_one_served(store):
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}
    malformed = {
        "no json at all": (-32700, None, "not JSON"),
        json.dumps([call]): (-32600, None, "batches"),
        json.dumps(call | {"id": 7.5}): (-32600, None, "the id of a request"),
        json.dumps(call | {"params": "all"}): (-32600, 7, "params"),
        json.dumps({"id": 7, "method": "tools/list"}): (-32600, 7, "jsonrpc"),
    }
    with subprocess.Popen(
        [COMMAND, *serving(store[0])], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        ready = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
        for line in (json.dumps(HELLO), ready, *malformed, "", json.dumps(call)):
            process.stdin.write(f"{line}\n")
        process.stdin.flush()
        timer = threading.Timer(PATIENCE, process.kill)
        timer.start()
        greeted, *answers = [json.loads(process.stdout.readline()) for _ in range(2 + len(malformed))]
        timer.cancel()
        process.stdin.close()
    assert "result" in greeted
    (listed,) = [each for each in answers if "result" in each]
    assert (listed["id"], len(listed["result"]["tools"])) == (7, 4)
    refused = [each for each in answers if "error" in each]
    assert [(each["error"]["code"], each["id"]) for each in refused] == [each[:2] for each in malformed.values()]
    assert all(words in each["error"]["message"] for each, (*_, words) in zip(refused, malformed.values(), strict=True))


@pytest.mark.enable_socket
async def test_half_of_an_emoji_over_http_is_answered(store):
    import httpx

    accepted = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    async with listening(store[0]) as url, httpx.AsyncClient(headers=accepted, timeout=PATIENCE) as client:
        greeted = await client.post(url, json=HELLO)
        session = {"Mcp-Session-Id": greeted.headers["mcp-session-id"]}
        await client.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
        answer = await client.post(url, content=json.dumps(HALF_AN_EMOJI), headers=session)
    assert answer.status_code == 200
    assert "Bees are fine" in answer.text


def test_a_model_with_the_essential_tools_is_told_of_no_other():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        offer = McpOffer(memory, scope=ALICE)
        told = json.dumps(offer.tools()) + offer.guide
        offered = {tool["name"] for tool in offer.tools()["tools"]}
        refused = offer.call("memory_get", {"id": "m9"})
    assert refused["isError"]
    assert refused["structuredContent"]["message"].startswith("memory_get is not offered here. Offered tools: retrieve")
    assert offered == {"retrieve_memory", "memory_store", "memory_update", "memory_delete"}
    assert not [name for name in REGISTRY if name not in offered and name in told]
    assert all(name in offer.guide for name in offered)


def test_the_guide_names_only_tools_that_are_offered():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        for tools in ("all", "read", ["memory_get"], ["memory_store", "memory_delete"]):
            offer = McpOffer(memory, scope=ALICE, tools=tools)
            offered = {tool["name"] for tool in offer.tools()["tools"]}
            assert not [name for name in REGISTRY if name not in offered and name in offer.guide], tools


def test_read_only_offers_what_reads_of_the_tools_that_were_asked_for():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        offer = McpOffer(memory, scope=ALICE, read_only=True)
        assert [tool["name"] for tool in offer.tools()["tools"]] == ["retrieve_memory"]
        with pytest.raises(ConfigurationError, match="read-only, these cannot be offered: memory_store"):
            McpOffer(memory, scope=ALICE, tools=["memory_get", "memory_store"], read_only=True)


def test_the_resources_tell_what_tools_and_what_the_host_have_stored():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        offer = McpOffer(memory, scope=ALICE)
        offer.call("memory_store", {"content": "The door code is 4711"})
        memory.remember_fact(scope=ALICE, fact="Alice lives in Lyon")
        memory.remember_episode(scope=ALICE, title="Broken import", summary="The nightly import failed again.")
        text = offer.read(RECENT_MARKDOWN)["contents"][0]["text"]
        data = json.loads(offer.read(RECENT_JSON)["contents"][0]["text"])
    for known in ("The door code is 4711", "Alice lives in Lyon", "Broken import"):
        assert known in text
    assert [len(data["semantic"]), len(data["episodic"])] == [2, 1]


@TRANSPORTS
@pytest.mark.enable_socket
async def test_text_and_data_come_back_and_nothing_of_another_scope(store, over):
    directory, _, _, secret = store
    async with over(directory, "--tools", "all") as (session, greeting):
        found = told(await session.call_tool("retrieve_memory", {"query": "Where does Alice live?"}))
        foreign = told(await session.call_tool("memory_get", {"id": secret}))
        unknown = told(await session.call_tool("memory_get", {"id": "no-such"}))
        escaping = told(await session.call_tool("memory_store", {"content": "x", "scope": f"../{BOB}"}))
        recent = told(await session.read_resource(RECENT_MARKDOWN))["contents"][0]
        data = told(await session.read_resource(RECENT_JSON))["contents"][0]
        prompt = told(await session.get_prompt(PROMPT))["messages"][0]["content"]["text"]

    assert "- [identity] Alice lives in Lyon" in found["content"][0]["text"]
    assert found["structuredContent"]["semantic"][0]["fact"] == "Alice lives in Lyon"
    assert [answer["isError"] for answer in (foreign, unknown, escaping)] == [True] * 3
    assert json.dumps(foreign).replace(secret, "no-such") == json.dumps(unknown)
    assert foreign["structuredContent"]["error_type"] == "NotFoundError"
    assert recent["mimeType"] == "text/markdown"
    assert "### Broken import" in recent["text"]
    assert [each["title"] for each in json.loads(data["text"])["episodic"]] == ["Broken import"]
    assert "retrieve_memory" in prompt
    assert "memory_store" in prompt
    assert greeting["instructions"] == prompt
    assert BEES not in json.dumps([found, foreign, recent, data])


@TRANSPORTS
@pytest.mark.enable_socket
async def test_read_only_offers_and_runs_no_tool_that_writes(store, over):
    directory, first, second, _ = store
    async with over(directory, "--read-only", "--allow-scopes", "--tools", "all") as (session, _):
        listed = [tool["name"] for tool in told(await session.list_tools())["tools"]]
        writing = [tool.name for tool in offered_tools("all", allow_scopes=True) if tool.writes]
        refused = [told(await session.call_tool(name, arguments_for(name, first, second))) for name in writing]
        prompt = told(await session.get_prompt(PROMPT))["messages"][0]["content"]["text"]
        answered = [told(await session.call_tool(name, arguments_for(name, first, second))) for name in listed]

    assert listed
    assert not set(listed) & set(writing)
    assert {answer["structuredContent"]["message"].partition(" ")[2] for answer in refused} == {
        "changes memories, and this server is read-only"
    }
    assert not any(answer.get("isError") for answer in answered), answered
    assert "read-only" in prompt
    assert "memory_store" not in prompt
    with AgentMemory.open(directory, embedder=HashEmbedder()) as memory:
        assert memory.stats().facts == 3
        assert memory.pending_reviews(ALICE) == []


async def test_two_servers_on_one_store_find_at_once_what_the_other_has_stored_changed_and_forgotten(store):
    directory, *_ = store
    every = ("--tools", "all")
    async with over_stdio(directory, *every) as (one, _), over_stdio(directory, *every) as (other, _):
        sessions = [one, other]
        for number in range(6):
            writes, reads = sessions[number % 2], sessions[1 - number % 2]
            text, later = f"The locker number is {4711 + number}", f"The locker number has become {8150 + number}"
            stored = told(await writes.call_tool("memory_store", {"content": text, "allow_duplicates": True}))
            id = {"id": stored["structuredContent"]["memory_id"]}
            assert text in told(await reads.call_tool("retrieve_memory", {"query": text}))["content"][0]["text"]
            assert not told(await reads.call_tool("memory_update", {**id, "content": later})).get("isError")
            assert later in told(await writes.call_tool("retrieve_memory", {"query": later}))["content"][0]["text"]
            assert not told(await writes.call_tool("memory_delete", id)).get("isError")
            found = told(await reads.call_tool("retrieve_memory", {"query": later}))["content"][0]["text"]
            assert later not in found
            assert told(await reads.call_tool("memory_get", id))["isError"]


@pytest.mark.enable_socket
async def test_a_client_that_may_name_scopes_stays_within_the_root(store):
    directory, _, _, secret = store
    async with over_stdio(directory, "--allow-scopes") as (session, _):
        outside = [
            told(await session.call_tool("memory_store", {"content": "x", "scope": scope}))
            for scope in ("../bob", "/user/bob", "..", "a/../../bob")
        ]
        foreign = told(await session.call_tool("memory_manage", {"operation": "get", "memory_id": secret}))
        below = told(await session.call_tool("memory_store", {"content": "Alice paints", "scope": BOB}))
        listed = told(await session.call_tool("scope_list", {"response_level": "full"}))

    assert [answer["isError"] for answer in (*outside, foreign)] == [True] * 5
    assert not below.get("isError")
    assert BEES not in json.dumps([foreign, listed])
    with AgentMemory.open(directory, embedder=HashEmbedder()) as memory:
        assert memory.scopes() == [ALICE, f"{ALICE}/{BOB}", BOB]


@pytest.mark.enable_socket
async def test_an_unknown_resource_or_prompt_is_an_error_of_the_protocol(store):
    async with over_stdio(store[0]) as (session, _):
        with pytest.raises(Exception, match="Unknown resource: memory://bob"):
            await session.read_resource("memory://bob")
        with pytest.raises(Exception, match="Unknown prompt: hack"):
            await session.get_prompt("hack")


@pytest.mark.enable_socket
async def test_a_token_and_a_local_name_are_asked_over_http(store):
    import httpx

    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with (
        listening(store[0], "--token", "s3cret-for-mcp-clients") as url,
        httpx.AsyncClient(timeout=PATIENCE) as client,
    ):
        without = await client.post(url, json=body)
        wrong = await client.post(url, json=body, headers={"Authorization": "Bearer other"})
        right = {"Authorization": "Bearer s3cret-for-mcp-clients"}
        elsewhere = await client.post(url, json=body, headers=right | {"Host": "evil.example"})
        inside = await client.post(url, json=body, headers=right)

    assert (without.status_code, wrong.status_code) == (401, 401)
    assert without.json()["error_type"] == "Unauthorized"  # as over HTTP
    assert elsewhere.status_code == 421
    assert inside.status_code not in {401, 421}


@pytest.mark.enable_socket
async def test_a_retrieval_just_before_a_signal_is_filed_for_review_and_the_store_is_closed(store):
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async with started(store[0]) as (process, url):
        async with streamable_http_client(url) as streams, ClientSession(*streams[:2]) as session:
            await session.initialize()
            await session.call_tool("retrieve_memory", {"query": "nightly import"})
            process.terminate()
        assert await asyncio.wait_for(process.wait(), timeout=PATIENCE) == 0
    with AgentMemory.open(store[0], embedder=HashEmbedder()) as memory:
        assert [review.query for review in memory.pending_reviews(ALICE)] == ["nightly import"]


@pytest.mark.enable_socket
def test_a_port_that_is_taken_is_said_in_one_sentence(store):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [COMMAND, *serving(store[0], "--http", "--port", str(port))],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    assert (done.returncode, done.stdout) == (2, "")
    assert f"cannot listen on 127.0.0.1 port {port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_none_is_said_in_one_sentence(store):
    done = subprocess.run(
        [COMMAND, *serving(store[0], "--http", "--port", "70000")], capture_output=True, text=True, timeout=PATIENCE
    )

    assert done.returncode == 2
    assert "65535" in done.stderr
    assert "Traceback" not in done.stderr


def test_listening_beyond_this_machine_takes_a_token(store):
    done = subprocess.run(
        [COMMAND, *serving(store[0], "--http", "--host", "192.0.2.1")], capture_output=True, text=True, timeout=PATIENCE
    )

    assert done.returncode == 2
    assert "give --token, or --host 127.0.0.1" in done.stderr


def test_the_scope_has_to_be_within_the_root():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        with pytest.raises(ValueError, match="not within root"):
            McpOffer(memory, scope=BOB, rules=ToolPolicy(root=ALICE))
        with pytest.raises(NotFoundError, match="Unknown resource"):
            McpOffer(memory, scope=BOB).read("memory://recent/../x")


def test_read_only_notes_nothing_even_of_a_memory_that_could_be_written():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        memory.remember_episode(scope=ALICE, summary="Alice moved to Lyon.")
        offer = McpOffer(memory, scope=ALICE, read_only=True)
        assert "Alice moved to Lyon." in offer.call("retrieve_memory", {"query": "Lyon"})["content"][0]["text"]

        assert memory.pending_reviews(ALICE) == []
