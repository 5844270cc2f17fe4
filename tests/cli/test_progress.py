"""The bar on standard error: for people who look, and for nobody else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).parent / "memory-retrievers"


def on_terminal(*arguments):
    """Run the installed command with a terminal for its standard error, and give what either saw."""
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    try:
        with subprocess.Popen(
            [COMMAND, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=follower,
            env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"},
        ) as process:
            os.close(follower)
            drawn = b""
            while piece := read(leader):
                drawn += piece
            output = process.stdout.read()
        return process.returncode, output.decode(), drawn.decode()
    finally:
        os.close(leader)


def read(leader):
    try:
        return os.read(leader, 4096)
    except OSError:  # on Linux the end of a terminal is an error
        return b""


@pytest.mark.parametrize(
    ("command", "drawn"),
    [(["export", "file.jsonl"], ("exporting", "3/3")), (["verify"], ("verifying",)), (["rebuild"], ("rebuilding",))],
)
def test_a_bar_is_drawn_on_a_terminal(foreign_store, tmp_path, monkeypatch, command, drawn):
    monkeypatch.chdir(tmp_path)
    code, output, seen = on_terminal(*command, "--store", foreign_store)

    assert code == 0
    assert all(words in seen for words in drawn)
    assert "\x1b" not in output


def test_nothing_is_drawn_where_nobody_looks(foreign_store, tmp_path):
    done = subprocess.run(
        [COMMAND, "export", tmp_path / "file.jsonl", "--store", foreign_store],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"FORCE_COLOR": "1"},
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


def test_a_mistake_is_told_beneath_the_bar(foreign_store, tmp_path):
    code, output, seen = on_terminal("export", tmp_path, "--store", foreign_store)

    assert (code, output) == (2, "")
    assert "exists already" in seen
