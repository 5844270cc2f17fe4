"""Many small cases in one test: all are tried, and every one that fails is named with what it failed of."""

import pytest


def try_each(check, cases):
    """Call a check with every case, and raise one error that names all cases that fail, each with its error.

    Args:
        check: What holds for every case, by asserts.
        cases: What it is called with, one after the other; a tuple is several arguments. None must disturb the next.

    Raises:
        AssertionError: Cases fail, or there are none.
    """
    tried, failures = 0, []
    for case in cases:
        tried += 1
        try:
            check(*case) if isinstance(case, tuple) else check(case)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - each is told below
            failures.append((case, error))
    assert tried, "there are no cases"
    if failures:
        told = "\n".join(f"{case!a}: {type(error).__name__}: {error}" for case, error in failures)
        raise AssertionError(f"{len(failures)} of {tried} cases fail:\n{told}") from failures[0][1]
