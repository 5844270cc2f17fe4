"""What leaves the machine is nothing: no door of the package connects, looks a name up or writes beside its store.

Each is opened in a process of its own, with an empty home and an empty environment, that ends at its first connection.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .watched import ELSEWHERE, UNGUARDED

WATCHED = Path(__file__).with_name("watched.py")
COMMAND = Path(sys.executable).with_name("memory-retrievers")
STRACE = shutil.which("strace")

WAITS = "import time\ntime.sleep(12)\n"
"""onnxruntime asked for the address of its collector eight to nine seconds after it was imported."""

OPENS = """
from pathlib import Path
from memory_retrievers import AgentMemory, Message
memory = AgentMemory.open(Path("../store").resolve(), dense="chroma")
memory.remember_fact(scope="user/alice", fact="Alice is allergic to peanuts", category="identity")
"""

EMBEDS = """
from memory_retrievers.backends.embeddings.minilm import MiniLMEmbedder
assert MiniLMEmbedder().embed_query("What should I not cook for her?").shape == (384,)
"""

SEARCHES_WIDELY = """
import sys
memory.add_messages("user/alice", [Message(role="user", content="I have moved from Lyon to Nantes.")])
assert memory.flush("user/alice").episodes
assert memory.retrieve("peanuts", scope="user/alice").semantic
assert memory.explain("peanuts", scope="user/alice").to_text()
assert memory.verify().projected
assert {"chromadb", "onnxruntime"} <= set(sys.modules)
"""

IN_MEMORY = """
from memory_retrievers import AgentMemory
with AgentMemory.in_memory(dense="chroma") as memory:
    memory.remember_fact(scope="user/alice", fact="Alice is allergic to peanuts")
    assert memory.retrieve("peanuts", scope="user/alice").semantic
"""

ADOPTS = """
from memory_retrievers import AgentMemory
from memory_retrievers.backends.chroma.clients import opened_collection
from memory_retrievers.backends.chroma.clients import own_client
from memory_retrievers.backends.embeddings.minilm import MiniLMEmbedder
from pathlib import Path

text = "Alice is allergic to peanuts"
client = own_client(Path("../store/source"))
collection = client.create_collection("notes")  # with Chroma's own embedder, which has nothing to embed
collection.add(ids=["1"], documents=[text], embeddings=MiniLMEmbedder().embed_documents([text]))
client.close()
with opened_collection("notes", path=Path("../store/source")) as source:
    with AgentMemory.from_chroma(source, path="../store/memory", scope="user/alice", write_through=True) as memory:
        memory.remember_fact(scope="user/alice", fact="Alice lives in Lyon")
        assert len(memory.retrieve("peanuts", scope="user/alice").semantic) == 2
"""

LANGCHAIN = """
from memory_retrievers.langchain import AgentMemoryMiddleware, MemoryRetriever, MemoryToolkit
assert MemoryRetriever(memory=memory, scope="user/alice").invoke("peanuts")[0].page_content
AgentMemoryMiddleware(memory=memory)
tools = {tool.name: tool for tool in MemoryToolkit(memory, scope="user/alice", tools="all").get_tools()}
tools["memory_store"].invoke({"content": "The door code is 4711"})
assert "4711" in tools["memory_search"].invoke({"query": "the code of the door", "response_level": "full"})
"""

LLAMA_INDEX = """
from llama_index.core.memory import Memory
from memory_retrievers.llama_index import LongTermMemoryBlock, MemoryRetriever, MemoryToolSpec
assert MemoryRetriever(memory=memory, scope="user/alice").retrieve("peanuts")[0].text
Memory.from_defaults(session_id="1", memory_blocks=[LongTermMemoryBlock(memory=memory, scope="user/alice")])
assert MemoryToolSpec(memory, scope="user/alice").to_tool_list()
"""

HTTP = """
from fastapi.testclient import TestClient
from memory_retrievers.server import create_app
with TestClient(create_app(memory), base_url="http://localhost") as client:
    found = client.post("/api/v0/retrieve_memory", json={"query": "peanuts", "conversation_id": "user/alice"})
    assert found.status_code == 200, found.text
"""

MCP = f"""
import asyncio
import os
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def ask():
    arguments = ["mcp", "--store", "../store", "--scope", "user/alice", "--tools", "all"]
    started = StdioServerParameters(command={str(COMMAND)!r}, args=arguments, env=dict(os.environ))
    async with stdio_client(started) as streams, ClientSession(*streams) as session:
        await session.initialize()
        answer = await session.call_tool("memory_search", {{"query": "peanuts"}})
        assert '"success":true' in answer.content[0].text

asyncio.run(ask())
"""

DEMO = """
from memory_retrievers.cli import app
app(["demo", "--store", "../store"], standalone_mode=False)
app(["verify", "--store", "../store"], standalone_mode=False)
"""

CLOSES = "memory.close()\n"

DOORS = {
    "the bundled embedder": EMBEDS + WAITS,
    "a store that searches widely": OPENS + SEARCHES_WIDELY + CLOSES + WAITS,
    "a memory in memory that searches widely": IN_MEMORY,
    "a Chroma collection that is adopted": ADOPTS,
    "LangChain": OPENS + LANGCHAIN + CLOSES,
    "LlamaIndex": OPENS + LLAMA_INDEX + CLOSES,
    "the HTTP server": OPENS + HTTP + CLOSES,
    "the MCP server": OPENS + CLOSES + MCP,
    "the command line": DEMO,
}


@pytest.fixture
def run(tmp_path):
    """Runs code in a process of its own, in ``cwd`` beside ``home``, ``tmp`` and ``store``, and gives it when done."""
    for name in ("cwd", "home", "tmp", "store"):
        (tmp_path / name).mkdir()
    bare = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp"), "PATH": os.defpath}

    def run(code, *before):
        command = [*before, sys.executable, "-B", "-P", str(WATCHED), str(tmp_path), code]
        done = subprocess.run(
            command,
            cwd=tmp_path / "cwd",
            env={**bare, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == UNGUARDED:
            pytest.skip("the system cannot forbid a process to connect")
        return done

    return run


def left_in(directory):
    """Everything below ``home``, ``tmp`` and the working directory."""
    return [str(path) for name in ("cwd", "home", "tmp") for path in (directory / name).rglob("*")]


@pytest.mark.slow
@pytest.mark.embedded("it looks at the files of a store")
@pytest.mark.parametrize("code", [pytest.param(code, id=door) for door, code in DOORS.items()])
def test_nothing_is_connected_to_and_no_file_stays_beside_the_store(code, run, tmp_path):
    done = run(code)
    assert left_in(tmp_path) == []
    assert ELSEWHERE not in done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.embedded("it looks at the files of a store")
@pytest.mark.skipif(STRACE is None, reason="strace sees what native code writes, and is not installed")
def test_native_code_writes_nothing_beside_the_store_either(run, tmp_path):
    log = tmp_path / "log"
    calls = "open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink,symlinkat"
    done = run(
        OPENS + SEARCHES_WIDELY + CLOSES, STRACE, "-f", "-y", "-qq", "-z", "-e", f"trace=?{calls.replace(',', ',?')}",
        "-o", str(log),
    )  # fmt: skip
    if "ptrace" in done.stderr:
        pytest.skip("strace may not look at other processes here")
    assert done.returncode == 0, done.stderr
    changing = [line for line in log.read_text().splitlines() if not re.search(r" open(at)?\(.*O_RDONLY", line)]
    assert any(f"{tmp_path}/store" in line for line in changing)
    assert [line for line in changing if str(tmp_path) not in line and "/dev/null" not in line] == []
    assert [line for line in changing if f"{tmp_path}/home" in line] == []


@pytest.mark.parametrize(
    "code",
    [
        "import socket\nsocket.create_connection(('127.0.0.1', 9))",
        "import socket\nsocket.getaddrinfo('example.org', 443)",
        "import socket\nsocket.socket(type=socket.SOCK_DGRAM).sendto(b'hello', ('127.0.0.1', 9))",
    ],
    ids=["a connection", "a look-up", "a datagram"],
)
def test_whatever_reaches_out_ends_a_watched_process(code, run):
    assert run(code).returncode == -signal.SIGSYS


def test_what_a_watched_process_leaves_elsewhere_is_seen(run, tmp_path):
    assert run("print(open('/dev/null', 'w').write('x'))").stderr == ""
    kept_from_it = tmp_path.parent / "elsewhere"
    assert f"{ELSEWHERE}open {kept_from_it}" in run(f"open({str(kept_from_it)!r}, 'w')").stderr
    run("from pathlib import Path\nPath.home().joinpath('.cache').mkdir()")
    assert left_in(tmp_path) == [str(tmp_path / "home" / ".cache")]


@pytest.mark.parametrize("given", ["", "0", "1"])
def test_what_the_user_says_of_onnxruntimes_telemetry_stays(given):
    code = EMBEDS + "import os\nprint(os.environ['ORT_DISABLE_TELEMETRY'])"
    said = {**os.environ, "ORT_DISABLE_TELEMETRY": given, "HOME": os.devnull}
    assert subprocess.run(
        [sys.executable, "-c", code], env=said, capture_output=True, text=True, check=True
    ).stdout == (given + "\n")


@pytest.mark.parametrize(("given", "sent"), [(None, False), ("True", True), ("False", False)])
def test_chromas_telemetry_in_memory_is_off_unless_the_user_wants_it_and_its_own_clients_still_open(given, sent):
    code = (
        "from memory_retrievers.backends.chroma.collection import ChromaProjection\n"
        "projection = ChromaProjection()\n"
        "print(projection.open('one'))\n"
        "import chromadb\n"
        "print(projection._connected().get_settings().anonymized_telemetry, chromadb.Client().count_collections())"
    )
    environment = {name: value for name, value in os.environ.items() if name != "ANONYMIZED_TELEMETRY"}
    if given is not None:
        environment["ANONYMIZED_TELEMETRY"] = given
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"False\n{sent} 0\n"
