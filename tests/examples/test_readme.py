"""Every example is listed, says what it needs, and is short."""

import ast
import re

import pytest

HELPERS = {"scripted_langchain.py", "scripted_llama_index.py"}
STORIES = {"companion_agent.py", "langchain_three_weeks.py", "llama_index_three_weeks.py"}


@pytest.fixture
def files(examples):
    return {path.name: path.read_text("utf-8") for path in sorted(examples.glob("*.py"))}


def test_the_readme_lists_each_example_and_how_to_run_it(examples, files):
    readme = (examples / "README.md").read_text("utf-8")
    assert {f"{name}.py" for name in re.findall(r"\]\((\w+)\.py\)", readme)} == set(files)
    assert set(re.findall(r"`python examples/(\w+\.py)`", readme)) == set(files) - HELPERS


def test_each_example_says_how_to_run_it_and_what_it_needs(files):
    for name in set(files) - HELPERS:
        docstring = " ".join(ast.get_docstring(ast.parse(files[name])).split())
        assert f"Run it with ``python examples/{name}" in docstring, name
        assert re.search(r"it needs ``pip install \"?memory-retrievers", docstring), name


def test_what_an_example_needs_is_what_the_readme_says(examples, files):
    readme = (examples / "README.md").read_text("utf-8")
    for name in set(files) - HELPERS:
        docstring = " ".join(ast.get_docstring(ast.parse(files[name])).split())
        (needed,) = re.findall(r"it needs ``(pip install [^`]+)``", docstring)
        (row,) = [line for line in readme.splitlines() if f"`python examples/{name}`" in line]
        assert f"`{needed}`" in row, name


def test_each_can_be_read_in_one_go(files):
    assert {name for name, text in files.items() if len(text.splitlines()) > 70} == STORIES
    assert max(len(text.splitlines()) for text in files.values()) < 150
