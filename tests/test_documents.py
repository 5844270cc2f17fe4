"""What the documents name is there: files, commands, options, targets of make."""

import functools
import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from cases import try_each
from markdown_it import MarkdownIt

import memory_retrievers
from memory_retrievers.cli import app
from memory_retrievers.retrieval.explanations import Outcome

PACKAGE = Path(memory_retrievers.__file__).parent
ROOT = PACKAGE.parent

pytestmark = pytest.mark.skipif(not (ROOT / "CONTRIBUTING.md").exists(), reason="they are part of a checkout only")

PAGES = [page.relative_to(ROOT).as_posix() for page in sorted((ROOT / "docs").rglob("*.md"))]
"""The pages of the documentation."""

MADE = {"contributing.md", "changelog.md", "examples.md"}
"""Pages that are made of files elsewhere when the site is built."""


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def rows():
    """The rows of the table that says where a change goes: what one wants, and what is in code there."""
    lines = [line for line in text_of("CONTRIBUTING.md").splitlines() if line.startswith("| ")]
    return [(line.split("|")[1].strip(), re.findall(r"`([^`]+)`", line)) for line in lines[1:]]


def test_a_row_of_contributing_names_what_there_is():
    try_each(check_row, rows())


def check_row(wanted, named):
    words = [word for span in named for word in span.split()]
    files = [word for word in words if word.endswith((".py", ".json", ".md", ".toml", ".yml", "/"))]
    folders = [folder for name in files for folder in (PACKAGE / name, (PACKAGE / name).parent)]
    for name in files:
        assert any((folder / name).exists() for folder in (ROOT, PACKAGE, *folders)), f"{name} ({wanted})"
    for owner, attribute in re.findall(r"^(\w+)\.(?!py$|json$|md$|toml$|yml$)(\w+)$", "\n".join(words), re.MULTILINE):
        holder = getattr(memory_retrievers, owner, None) or importlib.import_module(f"memory_retrievers.{owner}")
        assert hasattr(holder, attribute), f"{owner}.{attribute} ({wanted})"


def promises():
    """The rows of the security page: what is promised, and what holds it."""
    lines = [line for line in text_of("docs/security.md").splitlines() if line.startswith("| ")]
    return [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in lines[1:]]


def test_what_the_security_page_promises_is_held_by_tests_that_there_are():
    def check(promise, held_by):
        tests = re.findall(r"`(tests/[^`]+)`", held_by)
        assert tests
        for name in [*tests, *re.findall(r"`python (benchmarks/[^`]+)`", held_by)]:
            assert (ROOT / name).exists(), f"{name} ({promise})"

    try_each(check, promises())


def commands(name):
    """Each call of the command line that a document shows, as its words."""
    tokens = MarkdownIt().parse(text_of(name))
    pieces = [token.content for token in tokens if token.type == "fence"]
    pieces += [code for token in tokens for code in re.findall(r"`([^`]+)`", token.content) if token.type == "inline"]
    lines = [line for piece in pieces for line in piece.replace("\\\n", " ").splitlines()]
    calls = [call for line in lines for call in re.split(r"&&|\|\||(?<!\S)#", line.partition("ExecStart=")[2] or line)]
    for call in calls:
        words = call.strip().removeprefix("$ ").strip()
        if re.match(r"(/\S*/)?memory-retrievers \w", words):
            yield shlex.split(words)[1:]


@functools.cache
def whole_command():
    """The command line with all its commands."""
    return typer.main.get_command(app)


def options_of(command):
    return {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("name", ["README.md", *(page for page in PAGES if any(commands(page)))])
def test_every_command_that_is_shown_is_there_with_its_options(name):
    shown = list(commands(name))
    assert shown
    for words in shown:
        command, left = whole_command(), list(words)
        while left and hasattr(command, "commands"):
            assert left[0] in command.commands, f"{left[0]} in {name}"
            command = command.commands[left.pop(0)]
        given = {word for word in words if word.startswith("--")}
        assert given <= options_of(command), f"{command.name} in {name}"
        if len(words) > 1 and "--yes" in options_of(command):  # which does nothing without
            assert "--yes" in given, f"{command.name} in {name}"


def every_command(command):
    """A command and all below it."""
    return [command, *(each for below in getattr(command, "commands", {}).values() for each in every_command(below))]


@pytest.mark.parametrize("name", ["README.md", *PAGES])
def test_every_option_that_is_mentioned_is_one(name):
    mentioned = set(re.findall(r"`(--[\w-]+)", text_of(name)))
    known = set().union(*map(options_of, every_command(whole_command()))) | {"--help"}
    assert mentioned <= known | {"--show"}  # of a benchmark


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_every_target_of_make_that_is_named_is_one(name):
    targets = set(re.findall(r"^([\w-]+):", text_of("Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:\$ |`)make ([\w-]+)", text_of(name)))
    assert named
    assert named <= targets


@pytest.mark.parametrize("name", [*PAGES, "README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_every_file_that_is_linked_or_run_is_there(name):
    text, folder = text_of(name), (ROOT / name).parent
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    linked = [folder / target for target in targets if Path(target).name not in MADE]
    run = [
        ROOT / file
        for file in re.findall(r"`(?:python )?((?:benchmarks|scripts|examples|memory_retrievers)/[\w/]*\.py)\b", text)
    ]
    assert [str(file) for file in (*linked, *run) if not file.exists()] == []


def claimed_tests():
    """Each row of the page on testing that names tests: their paths, and how many there are at least."""
    rows = re.findall(r"^\| .+ \| (.*`tests/.+) \| (\d+) \|$", text_of("docs/how_it_is_tested.md"), re.MULTILINE)
    return [(re.findall(r"`(tests/[^`]+)`", how), int(number)) for how, number in rows]


BESIDE = ["NOTICE", ".gitattributes", ".gitignore", "Makefile", "pyproject.toml", "mkdocs.yml"]
BESIDE += [
    path.relative_to(ROOT).as_posix() for folder in ("scripts", "benchmarks") for path in (ROOT / folder).glob("*.py")
]


def test_every_path_that_a_file_beside_the_pages_names_is_there():
    """A room was moved once: the notice then named a licence that was not there, and line endings were anybody's."""
    named = re.compile(r"(?<![\w/.-])(?:memory_retrievers|tests|scripts|benchmarks|docs|examples)/[\w./*-]*\w")
    missing = {
        (name, path)
        for name in BESIDE
        if (ROOT / name).exists()
        for path in named.findall(text_of(name))
        if not any(ROOT.glob(path))
    }
    assert not missing


@pytest.mark.slow
def test_there_are_as_many_tests_as_the_page_on_testing_says():
    claims = claimed_tests()
    assert len(claims) > 8
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--no-cov", "-p", "no:cacheprovider"]
    paths = sorted({path for named, _ in claims for path in named})
    listed = subprocess.run([*command, *paths], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = [line.partition("::")[0] for line in listed.splitlines() if "::" in line]
    for named, least in claims:
        assert sum(any(file == path or file.startswith(f"{path}/") for path in named) for file in found) >= least, named


def test_every_outcome_of_an_explanation_stands_on_its_page():
    table = [line.split("|")[1] for line in text_of("docs/howto/explain.md").splitlines() if line.startswith("| `")]
    assert re.findall(r"`(\w+)`", "".join(table)) == list(Outcome)
