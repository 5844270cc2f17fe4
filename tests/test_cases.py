import pytest
from cases import tried_in_one, try_each


def even(number):
    assert number % 2 == 0


def test_every_case_that_fails_is_named_with_its_error():
    tried = []

    def check(left, right):
        tried.append(left)
        if left == "raises":
            with pytest.raises(KeyError):
                {right: None}[right]
        assert left / right == 2

    with pytest.raises(AssertionError) as caught:
        try_each(check, [(4, 2), (3, 0), ("raises", "x"), (6, 2)])
    first, *failures = str(caught.value).splitlines()
    assert tried == [4, 3, "raises", 6]
    assert first == "3 of 4 cases fail:"
    assert failures[0] == "(3, 0): ZeroDivisionError: division by zero"
    assert failures[1].startswith("('raises', 'x'): Failed: DID NOT RAISE")
    assert "\n(6, 2): AssertionError: assert" in str(caught.value)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_cases_that_hold_are_quiet():
    try_each(even, range(0, 10, 2))


def test_without_cases_nothing_is_shown():
    with pytest.raises(AssertionError, match="there are no cases"):
        try_each(even, [])


class TestManyInOne:
    @tried_in_one("number, double", [(1, 2), (2, 4)])
    def test_several_arguments_come_from_tuples(self, number, double):
        assert number * 2 == double

    @tried_in_one("pair", [(1, 2), (3, 4)])
    def test_one_argument_may_be_a_tuple(self, pair):
        assert len(pair) == 2

    def test_every_case_is_tried_and_all_that_fail_are_named(self):
        tried = []

        @tried_in_one("number", range(4))
        def check(number):
            tried.append(number)
            assert number % 2 == 0

        with pytest.raises(AssertionError) as caught:
            check()
        assert tried == [0, 1, 2, 3]
        first, *failures = str(caught.value).splitlines()
        assert first == "2 of 4 cases fail:"
        assert [each[:4] for each in failures if each.startswith("(")] == ["(1,)", "(3,)"]
