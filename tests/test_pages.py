"""What the README and the pages of ``docs/`` show is what happens: their Python runs, and prints what stands below it."""

import contextlib
import functools
import io
import subprocess
import sys
from itertools import pairwise, repeat
from pathlib import Path

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from markdown_it import MarkdownIt

import memory_retrievers
from memory_retrievers import AgentMemory

ROOT = Path(memory_retrievers.__file__).parents[1]


@functools.cache
def fences(page):
    """A page's pieces of code, in their order."""
    tokens = MarkdownIt().parse((ROOT / page).read_text(encoding="utf-8"))
    return [token for token in tokens if token.type == "fence"]


def pages_with(language):
    """The pages that show something in this language, by their paths."""
    pages = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if page.exists()]
    names = [page.relative_to(ROOT).as_posix() for page in pages]
    return [name for name in names if any(fence.info.split()[:1] == [language] for fence in fences(name))]


@pytest.fixture
def run_block(tmp_path, monkeypatch):
    """Runs one block of Python after the other, in an empty directory, and gives what each prints.

    ``model`` is a chat model of LangChain, which the first block of the README asks its reader for.
    """
    monkeypatch.chdir(tmp_path)
    names, opened = {"__name__": "page", "model": GenericFakeChatModel(messages=map(AIMessage, repeat("I see.")))}, []

    def run(page, block, **given):
        names.update(given)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * block.map[0] + "\n" + block.content, str(ROOT / page), "exec"), names)  # noqa: S102
        opened.extend(each for each in names.values() if isinstance(each, AgentMemory))  # another block may reopen it
        return printed.getvalue()

    yield run
    for memory in opened:
        memory.close()


@pytest.mark.parametrize("page", pages_with("python"))
def test_the_python_of_a_page_runs_and_prints_what_stands_below_it(page, run_block):
    shown = fences(page)
    for block, following in pairwise([*shown, None]):
        if block.info.split()[:1] != ["python"]:
            continue
        printed = run_block(page, block)
        is_shown = following is not None and following.info in {"text", "markdown"}
        if is_shown or page != "README.md":  # which is read beside a terminal, and does not show everything
            assert printed == (following.content if is_shown else ""), f"below line {block.map[1]} of {page}"


def test_an_agent_of_the_readme_reads_in_one_thread_what_was_said_in_another(run_block):
    asked = []

    class Watched(GenericFakeChatModel):
        def _generate(self, messages, *arguments, **options):
            asked.append(messages)
            return super()._generate(messages, *arguments, **options)

    run_block("README.md", fences("README.md")[0], model=Watched(messages=map(AIMessage, repeat("I see."))))
    assert ["walnuts" in str(messages[-1].content) for messages in asked] == [True, True]
    assert [len([each for each in messages if each.type == "human"]) for messages in asked] == [1, 1]


def shown_runs():
    """Each command of a page that runs a file here, with the output that stands below it."""
    for page in pages_with("console"):
        for fence in fences(page):
            command, _, output = fence.content.partition("\n")
            if command.startswith("$ python ") and output and not output.startswith("$ "):
                yield pytest.param(command.removeprefix("$ python ").split(), output, id=command)


@pytest.mark.parametrize(("words", "output"), list(shown_runs()))
def test_the_figures_below_a_command_are_those_it_prints(words, output):
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == output


def test_pages_are_found_where_there_is_a_checkout():
    """The tests above are as many as there are pages, and none if nothing were found."""
    if not (ROOT / "docs").exists():
        pytest.skip("the pages are part of a checkout only")
    assert {"README.md", "docs/index.md", "docs/scene.md"} <= set(pages_with("python"))
    assert [words for words, _ in (run.values for run in shown_runs())] == [["benchmarks/scene_tokens.py"]]


def test_the_picture_of_the_readme_shows_what_happens():
    script = ROOT / "scripts" / "draw_picture.py"
    if not script.exists():
        pytest.skip("the scripts are part of a checkout only")
    done = subprocess.run([sys.executable, script, "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or "python scripts/draw_picture.py draws it anew"
