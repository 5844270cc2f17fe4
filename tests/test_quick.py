"""What ``make test`` leaves out is left to ``make test-all`` alone, and nothing else is."""

import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from . import conftest
from .quick import EXAMPLES, HERE, LEFT_OUT, LEFT_TESTS, MACHINES, SERVERS, cap_examples, cap_machine


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


def collected(path):
    """What pytest would run of a path in the quick run."""
    command = [sys.executable, "-m", "pytest", "-n0", "-q", "--no-cov", "--quick", "--collect-only", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE.parent).stdout
