"""What PostgreSQL says in its own way, and how statements written for ``?`` and ``:name`` reach it."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from memory_retrievers.passages import Vector, Vectors

_NAMED: Final = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_HEADER: Final = 4
"""Bytes before the numbers of a vector in pgvector's binary form: its dimension, and two that are not used."""

ESCAPE: Final = "\x1a"
"""PostgreSQL stores no NUL, so one becomes this with a 0, and this one itself is doubled with a 1."""


@functools.lru_cache(maxsize=1024)
def translated(sql: str) -> str:
    """The statement with its values named as psycopg has it.

    >>> translated("SELECT CAST(:id AS text) WHERE a = ?")
    'SELECT CAST(%(id)s AS text) WHERE a = %s'
    """
    return _NAMED.sub(r"%(\1)s", sql.replace("%", "%%")).replace("?", "%s")


def escaped(text: str) -> str:
    r"""The text without NUL.

    >>> escaped("a\x00b")
    'a\x1a0b'
    """
    return text.replace(ESCAPE, ESCAPE + "1").replace("\0", ESCAPE + "0")


def unescaped(text: str) -> str:
    r"""The text that was escaped.

    >>> unescaped(escaped("a\x00b\x1a"))
    'a\x00b\x1a'
    """
    return text.replace(ESCAPE + "0", "\0").replace(ESCAPE + "1", ESCAPE)


class PostgresDialect:
    """A ``sql.connection.Dialect``."""

    keyed_by_scope = True
    in_order = "JOIN"
    least = "least"
    greatest = "greatest"
    position = "strpos"
    vector_value = "CAST(? AS vector)"

    def beside(self, table: str, other: str) -> str:
        """See ``sql.connection.Dialect``."""
        return f"AND {table}.scope_id = {other}.scope_id"

    def listed(self, values: Sequence[int] | Sequence[str]) -> object:
        """See ``sql.connection.Dialect``."""
        return list(values)

    def among(self, column: str, parameter: str) -> str:
        """See ``sql.connection.Dialect``."""
        return f"{column} = ANY({parameter})"

    def each(self, parameter: str) -> str:
        """See ``sql.connection.Dialect``."""
        return f"unnest(CAST({parameter} AS bigint[])) AS each (value)"

    def counted(self, parameter: str, table: str) -> str:
        """See ``sql.connection.Dialect``."""
        return (
            "(SELECT pair.key, CAST(pair.value AS bigint) AS value "
            f"FROM json_each_text(CAST({parameter} AS json)) AS pair) AS {table}"
        )

    def items(self, column: str) -> str:
        """See ``sql.connection.Dialect``; a NUL in JSON is told as it is in a text of its own."""
        without_nul = rf"replace({column}, '\u0000', '\u001a0')"
        return f"SELECT listed.value FROM json_array_elements_text(CAST({without_nul} AS json)) AS listed (value)"

    def summed(self, expression: str, order: str) -> str:
        """See ``sql.connection.Dialect``; rows come in any order, and floats are not associative."""
        return f"sum({expression} ORDER BY {order})"

    def gathered(self, column: str) -> str:
        """See ``sql.connection.Dialect``."""
        return f"string_agg(CAST({column} AS text), ',' ORDER BY passage)"

    def indexed_by(self, index: str) -> str:  # noqa: ARG002 - PostgreSQL chooses by itself
        """See ``sql.connection.Dialect``."""
        return ""

    def vector(self, vector: Vector) -> object:
        """See ``sql.connection.Dialect``; every digit that single precision has."""
        return f"[{','.join(map(str, vector.tolist()))}]"

    def stacked(self, vectors: Sequence[Any]) -> Vectors:
        """See ``sql.connection.Dialect``."""
        numbers = np.frombuffer(b"".join(vector[_HEADER:] for vector in vectors), dtype=">f4")
        return numbers.astype("<f4").reshape(len(vectors), -1 if vectors else 0)
