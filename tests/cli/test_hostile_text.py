"""Hostile text on the command line: whatever a memory holds, no character that a terminal obeys or hides is printed."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from patience import PATIENCE
from typer.testing import CliRunner

from memory_retrievers import AgentMemory, Message
from memory_retrievers.cli import app
from memory_retrievers.cli.output import progress_bar
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.text.analysis import for_terminals, json_for_terminals

SCOPE = "user/ruth"
NEVER_PRINTED = (
    *map(chr, (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0), 0xAD, 0x061C, *range(0x200B, 0x2010))),
    *map(chr, (*range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF, 0xE0001, *range(0xE0020, 0xE0080), 0xE0100)),
)
HOSTILE = "Ruth" + "".join(NEVER_PRINTED) + "keeps bees"
ID = HOSTILE.replace("\0", "")  # an id has none
FAMILY = "\N{MAN}\u200d\N{WOMAN}\u200d\N{GIRL}"
texts = st.lists(st.sampled_from(NEVER_PRINTED) | st.characters(exclude_categories=()), max_size=12).map("".join)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store that holds such texts wherever a text can be."""
    path = tmp_path_factory.mktemp("hostile") / "store"
    with AgentMemory.open(path, embedder=HashEmbedder()) as memory:
        memory.remember_episode(
            scope=SCOPE,
            id=ID,
            title=HOSTILE,
            summary=HOSTILE,
            messages=[Message(role=HOSTILE, content=HOSTILE)],
            metadata={HOSTILE: [HOSTILE]},
            surprise=1.0,
        )
        memory.remember_fact(scope=SCOPE, id=f"f{ID}", fact=HOSTILE, keywords=[HOSTILE], tags=[HOSTILE])
    return path


COMMANDS = {
    "get": ("get", ID, "--scope", SCOPE),
    "list": ("list", "--scope", SCOPE),
    "recent": ("recent", "--scope", SCOPE),
    "recent --json": ("recent", "--scope", SCOPE, "--json"),
    "scopes": ("scopes",),
    "stats": ("stats",),
    "verify": ("verify",),
    "retrieve": ("retrieve", HOSTILE, "--scope", SCOPE, "--detail", "high"),
    "retrieve, excerpts": ("retrieve", HOSTILE, "--scope", SCOPE, "--detail", "excerpts"),
    "retrieve --json": ("retrieve", HOSTILE, "--scope", SCOPE, "--json"),
    "retrieve --explain": ("retrieve", HOSTILE, "--scope", SCOPE, "--explain"),
    "retrieve --explain --json": ("retrieve", HOSTILE, "--scope", SCOPE, "--explain", "--json"),
    "explain-missing": ("explain-missing", ID, HOSTILE, "--scope", SCOPE),
    "explain-missing --json": ("explain-missing", ID, HOSTILE, "--scope", SCOPE, "--json"),
    "tools call": ("tools", "call", "memory_search", "--scope", SCOPE, "--json", json.dumps({"query": "bees", "response_level": "full"})),
    "tools call, an error": ("tools", "call", "memory_get", "--scope", SCOPE, "--json", json.dumps({"memory_id": HOSTILE + "x"})),
    "get, of another id": ("get", HOSTILE + "x", "--scope", SCOPE),
    "retrieve, wrong detail": ("retrieve", "bees", "--scope", SCOPE, "--detail", HOSTILE[4:]),
    "an unknown option": ("scopes", "--" + HOSTILE),
    "an unknown command": (HOSTILE,),
    "no number": ("list", "--scope", SCOPE, "--limit", HOSTILE),
    "a malformed scope": ("list", "--scope", HOSTILE),
    "a scope to forget": ("forget-scope", HOSTILE),
    "an unknown profile": ("retrieve", "bees", "--scope", SCOPE, "--profile", HOSTILE),
}  # fmt: skip
NEED_EMBEDDER = {"retrieve", "explain-missing", "tools"}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_no_command_prints_a_character_that_a_terminal_obeys_or_hides(store, monkeypatch, command):
    monkeypatch.setenv("MEMORY_RETRIEVERS_STORE", str(store))
    if command[0] in NEED_EMBEDDER:
        command = (*command, "--embedder", "memory_retrievers.testing:HashEmbedder")
    result = CliRunner().invoke(app, [argument.replace("\x00", "") for argument in command])
    printed = result.stdout + result.stderr
    assert printed.strip()
    assert not set(printed) & set(NEVER_PRINTED), ascii(printed)


def test_a_table_drawn_on_a_terminal_has_none_either(store, monkeypatch):
    from memory_retrievers.cli import output

    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr(sys, "stdout", screen)
    output.print_table(("id", "memory"), [(HOSTILE, HOSTILE)])
    plain = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())
    assert "Ruth\\x00\\x01" in plain
    assert not set(plain) & set(NEVER_PRINTED), ascii(plain)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_an_export_to_a_terminal_has_none_either_and_is_the_same(store, tmp_path):
    import pty

    command = [str(Path(sys.executable).parent / "memory-retrievers"), "export", "-", "--store", str(store)]
    piped = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE).stdout
    mine, its = pty.openpty()
    printed = bytearray()
    with (
        subprocess.Popen(command, stdout=its, stderr=subprocess.DEVNULL) as process,
        os.fdopen(mine, "rb", buffering=0) as end,
    ):
        os.close(its)
        with contextlib.suppress(OSError):  # as Linux tells the end
            while read := end.read(4096):
                printed += read
    assert process.returncode == 0
    lines = printed.decode().replace("\r\n", "\n")
    assert not set(lines) & set(NEVER_PRINTED), ascii(lines)
    assert [*map(json.loads, lines.splitlines())] == [*map(json.loads, piped.splitlines()[:-1])]
    (tmp_path / "printed").write_bytes(printed)
    with AgentMemory.import_(tmp_path / "printed", into=tmp_path / "new", embedder=HashEmbedder()) as copy:
        assert copy.stats().facts == json.loads(piped.splitlines()[0])["memories"] - copy.stats().episodes


def test_a_progress_bar_has_none_either(monkeypatch):
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", screen)
    with progress_bar(HOSTILE + "[red]") as progress:
        progress(1, 2)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue()).replace("\r", "")
    assert plain.strip()
    assert not set(plain) & set(NEVER_PRINTED), ascii(plain)


def test_json_still_says_the_very_same(store, run):
    printed = run("get", ID, "--scope", SCOPE, "--store", store)
    assert json.loads(printed)["summary"] == HOSTILE
    assert json.loads(printed)["metadata"] == {HOSTILE: [HOSTILE]}


@given(texts)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_json_for_a_terminal_loses_nothing_and_hides_nothing(text):
    literal = json_for_terminals({text: [text, FAMILY]})
    assert json.loads(literal) == {text: [text, FAMILY]}
    assert FAMILY in literal
    assert not any(unicodedata.category(letter) in {"Cc", "Cs", "Zl", "Zp"} for letter in literal if letter != "\n")
    literal.encode()


@given(texts)
def test_a_text_for_a_terminal_obeys_and_hides_nothing(text):
    shown = for_terminals(text)
    assert not any(unicodedata.category(letter) in {"Cc", "Cs", "Zl", "Zp"} for letter in shown if letter not in "\n\t")
    assert for_terminals(shown) == shown
    shown.encode()


def test_what_people_write_is_printed_as_it_is():
    text = f'Zoë 日本 {FAMILY} \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u2764\ufe0f\n\tquoted "back\\slash"'
    assert for_terminals(text) == text
