"""Threads that search, write and forget, compared with a plain table; for a minute: ``benchmarks/differential.py``."""

import time

import pytest
from differential import Table, differences


def test_no_answer_is_wrong_or_torn_beside_other_threads(tmp_path):
    faults, done = differences(tmp_path / "store", threads=2, steps=60)
    assert faults == []
    assert min(done[name] for name in ("add", "update", "forget", "search")) > 0


@pytest.mark.parametrize(
    ("found", "faults"),
    [
        ({("c", "kept"): "tea", ("c", "changed"): "milk"}, []),
        ({("c", "kept"): "tea"}, ["('c', 'changed') is missing"]),
        (
            {("c", "kept"): "coffee", ("c", "changed"): "milk"},
            ["('c', 'kept') said 'coffee', which it did not say then"],
        ),
        (
            {("c", "kept"): "tea", ("c", "changed"): "water"},
            ["('c', 'changed') said 'water', which it did not say then"],
        ),
        (
            {("c", "kept"): "tea", ("c", "changed"): "milk", ("c", "gone"): "rum"},
            ["('c', 'gone') said 'rum', which it did not say then"],
        ),
    ],
)
def test_the_table_knows_what_is_wrong(found, faults):
    table = Table()
    for key, text in (("kept", "tea"), ("changed", "water"), ("gone", "rum"), ("changed", "milk"), ("gone", None)):
        table.change(("c", key), text, lambda: None)
    began = time.monotonic_ns() + 1
    assert table.faults(found, {"c"}, began=began, ended=began + 1) == faults
