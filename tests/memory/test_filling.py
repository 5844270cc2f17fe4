"""What the benchmarks measure is what they say: the same rows beside, and questions that find what says the same."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import filling
import pytest
from corpus import VectorTable, Words

from memory_retrievers.backends.sqlite.connection import DIALECT, Connection

pytestmark = pytest.mark.embedded("it reads the file")


def rows(connection, table):
    return sorted(connection.execute(f"SELECT * FROM {table}").fetchall(), key=repr)


@pytest.mark.parametrize("volume", [10, DIALECT.volume])
def test_both_hold_the_same_rows(tmp_path, monkeypatch, volume):
    monkeypatch.setattr(Connection, "dialect", replace(DIALECT, volume=volume))
    with closing(filling.Pair(tmp_path, filling.Pool(), Words(1))) as pair:
        for _ in range(2):
            ours, plain = pair.fill(2 * filling.PASSAGES)
            assert ours.processor > 0 < plain.processor
        with (
            closing(sqlite3.connect(tmp_path / "ours" / "memory.db")) as store,
            closing(sqlite3.connect(tmp_path / "plain.db")) as beside,
        ):
            tables = (*filling._APPENDED, *filling._COUNTED, "postings")
            assert [rows(store, table) for table in tables] == [rows(beside, table) for table in tables]
            assert len(rows(beside, "passages")) == pair.size == 4 * filling.PASSAGES


def test_a_question_without_its_common_words_has_the_vector_of_the_whole():
    table = VectorTable(1)
    whole = table.embed_query("kaka lolo kaka mimi")
    assert table.embed_query("lolo mimi") is whole
    (other,) = table.embed_documents(["lolo mimi nunu"])
    assert other is not whole
    assert table.embed_query("lolo mimi") is whole
