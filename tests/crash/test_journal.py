"""The account that the other tests keep notices whatever may be wrong with a store."""

import pytest
from crash.journal import Journal


def record(id, **fields):
    return {"scope": "c1", "id": id, "fact": "User likes tea", "importance": 0.5} | fields


def begin(name, **expected):
    return {"begin": name, "expected": [["c1", id, fields] for id, fields in expected.items()]}


@pytest.fixture
def journal():
    journal = Journal()
    journal.take(begin("add_many", a={"fact": "User likes tea"}, b={"fact": "User likes tea"}))
    journal.take({"done": True, "memories": [record("a"), record("b")]})
    return journal


def test_a_store_as_acknowledged_is_right(journal):
    assert journal.differences([record("b"), record("a")]) == []


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ([record("a")], "('c1', 'b') was acknowledged and is lost"),
        ([record("a"), record("b", importance=0.6)], "('c1', 'b') is not as acknowledged: importance"),
        ([record("a"), record("b"), record("c")], "('c1', 'c') was never acknowledged, or forgotten, and is there"),
    ],
)
def test_what_is_lost_changed_or_too_much_is_noticed(journal, found, problem):
    assert journal.differences(found) == [problem]


def test_what_was_forgotten_must_not_be_there(journal):
    journal.take(begin("forget", a=None))
    journal.take({"done": True, "memories": []})
    assert journal.differences([record("a"), record("b")]) != []


@pytest.mark.parametrize(
    ("change", "whole"),
    [
        (begin("add_many", c={"fact": "x"}, d={"fact": "x"}), [record(id, fact="x") for id in "cd"]),
        (begin("forget_scope", a=None, b=None), []),
        (begin("rewrite", a={"fact": "y"}, b={"fact": "y"}), [record(id, fact="y") for id in "ab"]),
    ],
)
def test_a_change_that_was_only_announced_is_there_as_a_whole_or_not_at_all(journal, change, whole):
    touched = {id for _, id, _ in change["expected"]}
    before = [record("a"), record("b")]
    untouched = [each for each in before if each["id"] not in touched]

    def fresh():
        copy = Journal(acknowledged=dict(journal.acknowledged))
        copy.take(change)
        return copy

    assert fresh().differences(before) == []
    assert fresh().differences(untouched + whole) == []
    half = [*untouched, *(each for each in before if each["id"] == "a" and "a" in touched), *whole[1:]]
    assert len(fresh().differences(half)) == 1


def test_an_update_that_was_only_announced_has_changed_nothing_else(journal):
    journal.take(begin("rewrite", a={"fact": "y"}))
    assert len(journal.differences([record("a", fact="y", importance=0.9), record("b")])) == 1
