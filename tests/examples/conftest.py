"""Runs examples as they are, and gives what they print."""

import io
import runpy
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import memory_retrievers

FOLDER = Path(memory_retrievers.__file__).parents[1] / "examples"


@pytest.fixture(scope="session")
def examples():
    """The folder of the examples, which is part of a checkout only."""
    if not FOLDER.exists():
        pytest.skip("the examples are part of a checkout only")
    return FOLDER


@pytest.fixture(scope="session")
def run_file(examples):
    """Runs a file as ``python FILE ARGUMENTS`` does, among the examples, and gives what it prints."""

    def run(path, *arguments, names=None):
        printed = io.StringIO()
        with redirect_stdout(printed), pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "path", [str(examples), *sys.path])
            patch.setattr(sys, "argv", [str(path), *map(str, arguments)])
            runpy.run_path(str(path), init_globals=names, run_name="__main__")
        return printed.getvalue()

    return run


@pytest.fixture(scope="session")
def run_example(examples, run_file):
    """Runs an example, and gives what it prints."""
    return lambda file, *arguments: run_file(examples / file, *arguments)


@pytest.fixture(scope="session")
def told(run_example):
    """Runs an example and gives its sections by their headings, without their empty lines."""

    def told(file):
        sections = run_example(file).removeprefix("\n== ").split("\n== ")
        lines = [[line for line in section.splitlines() if line] for section in sections]
        return {heading: rest for heading, *rest in lines}

    return told
