"""The README's Python is executed, block after block, in an empty directory."""

from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import memory_retrievers

README = Path(memory_retrievers.__file__).parents[1] / "README.md"


def python_blocks(file):
    tokens = MarkdownIt().parse(file.read_text(encoding="utf-8"))
    return [token for token in tokens if token.type == "fence" and token.info.split()[:1] == ["python"]]


def test_every_python_block_of_the_readme_runs(tmp_path, monkeypatch):
    if not README.exists():
        pytest.skip("the README is part of a checkout only")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "readme"}
    blocks = python_blocks(README)
    assert blocks
    for block in blocks:
        exec(compile("\n" * block.map[0] + "\n" + block.content, str(README), "exec"), names)  # noqa: S102
