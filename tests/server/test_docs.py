"""What the page about the server shows is what the server does."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert done.returncode == 0, done.stderr
    assert "- [identity] Alice is allergic to peanuts" in done.stdout
    assert "Nantes" in done.stdout
    (search,) = re.findall(r'\{"success":true,"total_count":.*?\]\}', done.stdout)
    assert [found["content"] for found in json.loads(search)["results"]] == ["Alice likes cashews instead"]


def test_the_configuration_for_mcp_clients_names_options_there_are(page):
    (configuration,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    (server,) = json.loads(configuration)["mcpServers"].values()
    options = [argument for argument in (*server["args"], "--read-only", "--http") if argument.startswith("--")]
    shown = subprocess.run(
        [str(Path(sys.executable).parent / server["command"]), server["args"][0], "--help"],
        capture_output=True, text=True, check=True, env={"COLUMNS": "200", "PATH": "/usr/bin:/bin"},
    ).stdout  # fmt: skip
    assert all(option in shown for option in options)


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
