"""What ``make test`` leaves out is left to ``make test-all`` alone, and nothing else is."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from . import conftest
from .quick import (
    EXAMPLES,
    HERE,
    IN_MEMORY,
    LEFT_OUT,
    LEFT_TESTS,
    MACHINES,
    SERVERS,
    _is_roomy,
    cap_examples,
    cap_machine,
)


@pytest.mark.parametrize(("asked", "tried"), [(80, EXAMPLES), (5, 5)])
def test_of_a_property_no_more_examples_are_tried_than_the_quick_run_has_time_for(asked, tried):
    seen = []

    @settings(max_examples=asked, database=None, deadline=None)
    @given(st.integers())
    def about_numbers(number):
        seen.append(number)

    cap_examples(about_numbers)
    about_numbers()
    assert len(seen) == tried


def test_of_a_property_every_run_tries_the_same_examples():
    runs = []
    for _ in range(2):
        runs.append([])

        @settings(settings.get_profile("untimed"), max_examples=20)
        @given(st.integers())
        def about_numbers(number):
            runs[-1].append(number)

        about_numbers()
    assert runs[0] == runs[1]


@pytest.mark.parametrize(("asked", "tried"), [(80, MACHINES), (5, 5)])
def test_of_a_machine_no_more_lives_are_tried_either(asked, tried):
    class Lives:
        settings = settings(max_examples=asked, deadline=None)

    cap_machine(Lives)
    assert Lives.settings.max_examples == tried


def test_what_is_left_out_is_there():
    files = [*LEFT_OUT, *(pattern.split("::")[0] for pattern in LEFT_TESTS)]
    assert [pattern for pattern in files if not list(HERE.glob(pattern))] == []


@pytest.mark.parametrize("pattern", sorted(LEFT_TESTS))
def test_a_single_test_that_is_left_out_is_there(pattern):
    file, *names = pattern.split("::")
    source = (HERE / file).read_text(encoding="utf-8")
    for name in names:
        assert name.split("*")[0] in source


@pytest.mark.parametrize("fixture", sorted(SERVERS))
def test_a_fixture_that_starts_a_server_is_one_of_all_tests(fixture):
    assert hasattr(conftest, fixture)


@pytest.mark.slow
def test_one_pair_of_engines_stays_and_whole_files_go_unless_they_are_named():
    folder = HERE / "ingestion"
    assert "test_kills.py" not in collected(folder)
    assert "test_kills.py" in collected(folder / "test_kills.py")
    test = "test_an_expired_memory_can_still_be_forgotten"
    life = collected(HERE / "memory" / "test_life_of_a_store.py")
    assert re.findall(rf"{test}\[(.*)\]", life) == ["sqlite_bm25-exact"]


@pytest.mark.slow
def test_what_takes_long_to_make_for_several_tests_is_not_made_by_every_worker_at_the_end():
    tests = collected(HERE / "window", options=()).splitlines()
    first = [test.split("::")[0] for test in tests[:4]]
    assert first[:3] == ["tests/window/test_large.py"] * 3
    assert first[3] != first[0]


@pytest.mark.slow
@pytest.mark.skipif(not _is_roomy(IN_MEMORY), reason="there is no room in memory")
def test_the_files_of_a_quick_run_are_in_memory_and_go_with_its_end_unless_a_place_is_named(tmp_path):
    (tmp_path / "test_where.py").write_text(WHERE, encoding="utf-8")
    (left := IN_MEMORY / "memory-retrievers-tests-999999999-killed").mkdir()  # a number beyond those of processes
    assert (place := told_where(tmp_path)).is_relative_to(IN_MEMORY)
    assert not left.exists()
    assert not place.parent.exists()
    assert (place := told_where(tmp_path, "--basetemp=named")).is_relative_to(tmp_path / "named")
    assert place.exists()


WHERE = """
from pathlib import Path

def test_where(tmp_path):
    Path("told").write_text(str(tmp_path))
"""


def told_where(directory, *options):
    command = [sys.executable, "-m", "pytest", "-p", "quick", "--quick", *options, "test_where.py"]
    subprocess.run(command, check=True, cwd=directory, env=os.environ | {"PYTHONPATH": str(HERE)}, capture_output=True)
    return Path((directory / "told").read_text())


def collected(path, *, options=("--quick",)):
    """What pytest would run of a path in the quick run, or with other options."""
    command = [sys.executable, "-m", "pytest", "-n0", "-q", "--no-cov", *options, "--collect-only", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE.parent).stdout
