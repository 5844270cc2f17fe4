"""What the page about the server shows is what the server does."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

PAGE = "docs/server.md"


@pytest.fixture
def page(pytestconfig):
    return (pytestconfig.rootpath / PAGE).read_text("utf-8")


@pytest.mark.enable_socket
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_calls_with_curl_work(page, tmp_path):
    (script,) = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    command = [str(Path(sys.executable).parent / "memory-retrievers"), "serve", "--port", "0", "--store", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline()).group()
            done = subprocess.run(
                [shutil.which("bash"), "-e"],
                input=script,
                env={"URL": url, "PATH": "/usr/bin:/bin"},
                capture_output=True,
                text=True,
            )
            process.terminate()
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
    assert done.returncode == 0, done.stderr
    assert "- [identity] Alice is allergic to peanuts" in done.stdout
    assert "Nantes" in done.stdout
    (search,) = re.findall(r'\{"success":true,"total_count":.*?\]\}', done.stdout)
    first, *others = [found["content"] for found in json.loads(search)["results"]]
    assert first == "Alice likes cashews instead"
    assert others  # what the host has stored is found too


@pytest.mark.parametrize("place", range(4), ids=["Claude Desktop", "Claude Code", "Cursor", "VS Code"])
def test_what_is_pasted_into_a_client_starts_a_server_on_one_store_for_all(pytestconfig, tmp_path, place):
    page = (pytestconfig.rootpath / "docs/howto/mcp.md").read_text("utf-8")
    entries = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert len(entries) == 4
    ((key, servers),) = json.loads(entries[place]).items()
    assert key == ("servers" if "## VS Code" in page.partition(entries[place])[0] else "mcpServers")
    (server,) = servers.values()
    assert Path(server["command"]).name == "memory-retrievers"
    arguments = [argument.replace("/home/alice", str(tmp_path)) for argument in server["args"]]
    asked = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    greeting = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked})
    command = [str(Path(sys.executable).parent / "memory-retrievers"), *arguments]
    done = subprocess.run(command, input=f"{greeting}\n", capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "memory-retrievers"
    assert (tmp_path / "agent-memory").is_dir()


def test_the_options_that_the_page_for_mcp_clients_names_are_there(pytestconfig):
    page = (pytestconfig.rootpath / "docs/howto/mcp.md").read_text("utf-8")
    told = page.partition("## More options")[2]
    shown = subprocess.run(
        [str(Path(sys.executable).parent / "memory-retrievers"), "mcp", "--help"],
        capture_output=True, text=True, check=True, env={"COLUMNS": "200", "PATH": "/usr/bin:/bin"},
    ).stdout  # fmt: skip
    options = set(re.findall(r"--[a-z-]+", told))
    assert len(options) > 4
    assert {option for option in options if option not in shown} == set()


def test_the_deployed_commands_name_options_there_are(pytestconfig):
    shown = subprocess.run(
        [str(Path(sys.executable).parent / "memory-retrievers"), "serve", "--help"],
        capture_output=True, text=True, check=True, env={"COLUMNS": "200", "PATH": "/usr/bin:/bin"},
    ).stdout  # fmt: skip
    for name in ("Dockerfile", "memory-retrievers.service"):
        text = (pytestconfig.rootpath / "deploy" / name).read_text("utf-8")
        options = set(re.findall(r'(?<=[ "])--(?:store|host|port|tokens)\b', text))
        assert {"--store", "--port"} <= options
        assert all(option in shown for option in options)
