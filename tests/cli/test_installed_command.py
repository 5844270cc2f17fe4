import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE, until

from memory_retrievers import __version__

SCOPE = "user/ines"
COMMAND = Path(sys.executable).parent / "memory-retrievers"


def test_the_version_is_printed(run):
    assert run("--version") == f"memory-retrievers {__version__}\n"


def test_help_names_every_command(run):
    output = run("--help")

    commands = "demo retrieve recent list get scopes stats remember forget forget-messages forget-scope verify rebuild purge reembed"
    for command in (*commands.split(), "reindex", "backup", "export", "import", "import-chroma"):
        assert re.search(rf"^\W*{command} ", output, re.MULTILINE)


def test_the_installed_command_pipes_utf_8_whatever_the_locale(demo):
    store, _ = demo
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "MEMORY_RETRIEVERS_STORE": str(store)}
    done = subprocess.run(
        [COMMAND, "retrieve", "Who is Émile?", "--scope", SCOPE], env=environment, capture_output=True, timeout=120
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert "- [relationship] Émile is Inès's brother; he restores accordions in Grenoble" in done.stdout.decode()


def test_help_is_printed_whatever_the_locale():
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}
    done = subprocess.run([COMMAND, "--help"], env=environment, capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "retrieve" in done.stdout.decode()


def test_the_installed_command_refuses_in_one_line(tmp_path):
    done = subprocess.run(
        [COMMAND, "stats", "--store", "nowhere"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: there is no memory store at nowhere: check --store; `remember` creates one\n"


@pytest.mark.skipif(sys.platform == "win32", reason="pipes end differently there")
def test_a_reader_that_leaves_early_is_no_error(demo):
    store, _ = demo
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [COMMAND, "recent", "--store", store, "--scope", SCOPE], stdout=closed, stderr=subprocess.PIPE, timeout=120
        )

    assert done.stderr == b""


def test_starting_loads_nothing_heavy():
    code = "import sys, memory_retrievers.cli; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)

    assert not {"numpy", "chromadb", "onnxruntime", "tokenizers"} & set(done.stdout.split())


def test_the_command_is_installed():
    assert shutil.which("memory-retrievers", path=str(COMMAND.parent))


WAITING = "import time\n\ndef embed(texts):\n    time.sleep(3_600)\n"


@pytest.mark.skipif(sys.platform == "win32", reason="a process is killed there at once")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("command", ["export", "import"])
def test_a_signal_leaves_nothing_of_a_copy(demo, foreign_store, run, tmp_path, command, name):
    number = getattr(signal, name)
    copies = tmp_path / "copies"
    copies.mkdir()
    (tmp_path / "waiting.py").write_text(WAITING)
    run("export", tmp_path / "all.jsonl", "--store", foreign_store)
    arguments = {
        "export": ["-", "--store", demo[0]],  # to a pipe that is full, and nobody reads
        "import": [
            "all.jsonl",
            "--into",
            copies / "new",
            "--embedder",
            "waiting:embed",
            "--embedder-id",
            "a model of old",
        ],
    }
    with subprocess.Popen(
        [COMMAND, command, *arguments[command]],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(copies)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        until(lambda: process.poll() is not None or any(copies.glob("*/*")), "a copy")
        process.send_signal(number)
        process.stdout.close()
        assert process.wait(PATIENCE) == 128 + number
        assert process.stderr.read() == b""

    assert list(copies.iterdir()) == []
