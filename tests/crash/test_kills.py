"""Killed while it writes, a process has lost nothing that it acknowledged, and all parts of the store agree."""

import signal

import pytest

KILLED = -signal.SIGKILL


def test_after_kills_at_random_moments_all_that_was_acknowledged_is_there_and_nothing_is_half_done(
    write, journal, moments
):
    changes = ("add", "add_many", "rewrite", "forget", "retrieve")
    for kills in range(100):
        if kills >= 10 and all(journal.counts[change] for change in changes):
            break
        longest = 0.4 * (1 + kills // 10)  # a slow machine takes longer to come to every change
        assert write("--steps", 1_000_000, kill_after=moments.uniform(0, longest)).exitcode == KILLED
    assert write().exitcode == 0
    assert all(journal.counts[change] for change in changes)


@pytest.mark.parametrize("dense", ["chroma"])
@pytest.mark.parametrize(
    "point",
    [
        "before:COMMIT:20",
        "after:COMMIT:20",
        # between the statements of whatever change it comes to
        *(f"before:any:{count}" for count in (303, 310, 317, 324)),
    ],
)
def test_killed_within_a_change_it_is_there_whole_or_not_at_all(write, point):
    assert write("--steps", 500, "--fault", point).exitcode == KILLED
    assert write("--steps", 20).exitcode == 0


@pytest.mark.parametrize("dense", ["exact"])
@pytest.mark.parametrize("statement", range(1, 11))
def test_killed_between_the_statements_of_an_add_nothing_of_it_is_left(write, journal, statement):
    assert write("--act", "add", "--fault", f"after:any:{statement}", "--live", "act").exitcode == KILLED
    assert journal.announced.name == "add"
    assert write("--act", "add").exitcode == 0
    assert len(journal.acknowledged) == 1


@pytest.mark.parametrize("dense", ["chroma"])
@pytest.mark.parametrize(
    "point",
    [
        "before:any:1",
        "before:COMMIT:2",
        "within:VACUUM:1",
        "within:VACUUM:5",
        "within:VACUUM:20",
        "after:VACUUM:1",
        "after:PRAGMA wal_checkpoint:1",
    ],
)
def test_killed_while_purging_the_store_is_as_before_and_can_be_purged(write, point):
    killed = write("--steps", 60, "--act", "purge", "--fault", point, "--live", "act")
    assert killed.exitcode == KILLED
    assert write("--act", "purge").exitcode == 0


@pytest.mark.parametrize("dense", ["exact"])
@pytest.mark.parametrize("point", ["after:DELETE:1", "after:any:100", "before:COMMIT:1", "after:COMMIT:1"])
def test_killed_while_postings_are_made_anew_they_are_the_old_or_the_new(write, point):
    killed = write("--steps", 60, "--act", "rebuild sparse", "--fault", point, "--live", "act")
    assert killed.exitcode == KILLED
    assert write().exitcode == 0
