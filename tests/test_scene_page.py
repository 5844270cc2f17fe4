"""What the page about scene memory shows is what happens: its Python runs, and prints what stands below it."""

import contextlib
import io
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import memory_retrievers

ROOT = Path(memory_retrievers.__file__).parents[1]
PAGE = ROOT / "docs" / "scene.md"

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the page is part of a checkout only")


def blocks():
    """The page's pieces of code: their language and text."""
    tokens = MarkdownIt().parse(PAGE.read_text(encoding="utf-8"))
    return [(token.info, token.content) for token in tokens if token.type == "fence"]


def test_what_the_page_shows_runs_and_prints_what_stands_below_it():
    names, printed, compared = {"__name__": "page"}, "", 0
    for language, content in blocks():
        if language == "python":
            assert printed == "", "the page does not show what was printed"
            told = io.StringIO()
            with contextlib.redirect_stdout(told):
                exec(compile(content, str(PAGE), "exec"), names)  # noqa: S102
            printed = told.getvalue()
        elif language == "text":
            assert content == printed
            printed, compared = "", compared + 1
    names["memory"].close()
    assert compared == 3


def test_the_figures_on_the_page_are_those_of_the_command():
    ((command, _, shown),) = [content.partition("\n") for language, content in blocks() if language == "console"]
    words = command.removeprefix("$ python ").split()
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == shown
