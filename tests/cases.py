"""Many small cases in one test: all are tried, and every one that fails is named with what it failed of."""

import functools
import inspect

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


def tried_in_one(names, cases):
    """Like ``pytest.mark.parametrize``, but one test, which names all cases that fail: a test takes longer than a case.

    It is for what asks for no fixture and leaves nothing behind that the next case could meet.

    Args:
        names: Of the arguments, with commas between them; several are given as tuples.
        cases: What the test is called with, one after the other.
    """
    are_several, cases = "," in names, list(cases)

    def decorate(check):
        assert not inspect.iscoroutinefunction(check), "it would not be awaited"

        @functools.wraps(check)
        def test(*own):
            try_each(lambda case: check(*own, *(case if are_several else (case,))), [(case,) for case in cases])

        parameters = [each for name, each in inspect.signature(check).parameters.items() if name == "self"]
        test.__signature__ = inspect.Signature(parameters)
        return test

    return decorate
