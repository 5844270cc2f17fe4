"""What SQLite says in its own way; lists reach it as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from memory_retrievers.passages import Vector, Vectors


class SQLiteDialect:
    """A ``sql.connection.Dialect``."""

    keyed_by_scope = False
    in_order = "CROSS JOIN"
    least = "min"
    greatest = "max"
    position = "instr"
    vector_value = "?"

    def beside(self, table: str, other: str) -> str:  # noqa: ARG002 - a number is enough here
        """See ``sql.connection.Dialect``."""
        return ""

    def listed(self, values: Sequence[int] | Sequence[str]) -> object:
        """See ``sql.connection.Dialect``."""
        return json.dumps(list(values))

    def among(self, column: str, parameter: str) -> str:
        """See ``sql.connection.Dialect``."""
        return f"{column} IN (SELECT value FROM json_each({parameter}))"

    def each(self, parameter: str) -> str:
        """See ``sql.connection.Dialect``."""
        return f"json_each({parameter}) AS each"

    def counted(self, parameter: str, table: str) -> str:
        """See ``sql.connection.Dialect``."""
        return f"json_each({parameter}) AS {table}"

    def items(self, column: str) -> str:
        """See ``sql.connection.Dialect``."""
        return f"SELECT value FROM json_each({column})"

    def summed(self, expression: str, order: str) -> str:  # noqa: ARG002 - rows come in the order of the loop
        """See ``sql.connection.Dialect``."""
        return f"sum({expression})"

    def gathered(self, column: str) -> str:
        """See ``sql.connection.Dialect``."""
        return f"group_concat({column})"

    def indexed_by(self, index: str) -> str:
        """See ``sql.connection.Dialect``; without it SQLite may read the memories themselves."""
        return f"INDEXED BY {index}"

    def vector(self, vector: Vector) -> object:
        """See ``sql.connection.Dialect``."""
        return vector.astype("<f4").tobytes()

    def stacked(self, vectors: Sequence[Any]) -> Vectors:
        """See ``sql.connection.Dialect``."""
        return np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), -1 if vectors else 0)
