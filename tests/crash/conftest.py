"""Stores that are written in another process, which is killed."""

import random

import pytest
from crash.journal import Journal
from crash.process import run


@pytest.fixture(params=["exact", "chroma"])
def dense(request):
    return request.param


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def journal():
    return Journal()


@pytest.fixture
def write(store, journal, dense):
    """Run a writer on the store; every run has a seed of its own. What it finds must always be right."""
    runs = iter(range(1, 1000))

    def write(*arguments, kill_after=None):
        result = run(
            store,
            "--seed",
            str(next(runs)),
            "--dense",
            dense,
            *map(str, arguments),
            journal=journal,
            kill_after=kill_after,
        )
        assert result.error is None
        assert (result.lost, result.unfound, result.disagreements) == ([], [], [])
        return result

    return write


@pytest.fixture
def moments():
    """Seconds between a writer's being ready and its end."""
    return random.Random(4711)
