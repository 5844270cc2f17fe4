"""Whether the file is whole, and every memory can be read and has its passages, texts and vectors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from memory_retrievers.backends.sql import characters
from memory_retrievers.backends.sql.connection import Connection, Database, Dialect, one
from memory_retrievers.backends.sql.contents import RawMemory, RawPassage, all_rows, read_page
from memory_retrievers.backends.sql.rows import UNREADABLE, decode
from memory_retrievers.contents import Problems, VerificationReport
from memory_retrievers.errors import BackendError
from memory_retrievers.models import AnyMemory
from memory_retrievers.turn_passages import passage_text, passage_texts, turn_place

MAX_LENGTH_ERROR: Final = 1e-3
"""How far a vector may be from unit length; single precision is off by a millionth."""


def verify(database: Database) -> VerificationReport:
    """Look through the whole ledger, a page at a time; damage ends in the report, not in an exception."""
    problems, memories, passages = Problems(), 0, 0
    try:
        with database.read(snapshot=True) as connection:
            problems.add(database.problems(connection))
            dimension = _dimension(connection)
            for page in all_rows(connection):
                for memory in read_page(connection, page):
                    memories, passages = memories + 1, passages + len(memory.passages)
                    problems.add(_memory_problems(memory, dimension, connection.dialect))
            problems.add(characters.problems(connection))
    except BackendError as error:
        problems.add([f"{error}; what comes behind could not be looked at"])
    return VerificationReport(memories=memories, passages=passages, problems=problems.listed())


def _dimension(connection: Connection) -> int | None:
    noted = one(connection, "SELECT value FROM notes WHERE name = 'dimension'")
    return int(noted) if noted is not None and str(noted).isdecimal() else None


def _memory_problems(raw: RawMemory, dimension: int | None, dialect: Dialect) -> Iterator[str]:
    name = raw.name
    try:
        memory = decode(raw.row)
    except UNREADABLE as error:
        yield f"{name} cannot be read: {type(error).__name__}: {error}"
        return
    if memory.is_searchable and memory.kind not in {passage.part for passage in raw.passages}:
        yield f"{name} has no passage, so no search finds it"
    turns = {passage.part for passage in raw.passages if turn_place(str(passage.part)) is not None}
    if turns and any(text.part not in turns for text in passage_texts(memory, searched="turns")[1:]):
        yield f"{name} is not found by all of its messages"
    for passage in raw.passages:
        whose = f"passage {passage.part!r} of {name}"
        if passage.text is None and passage.vector is None:
            yield f"{whose} has neither text nor vector"
        else:
            yield from (f"{whose} {problem}" for problem in _text_problems(passage, memory))
        yield from (f"{whose} has a vector that {problem}" for problem in _vector_problems(passage, dimension, dialect))


def _text_problems(passage: RawPassage, memory: AnyMemory) -> Iterator[str]:
    told = passage_text(memory, str(passage.part))
    if told is None:
        if turn_place(str(passage.part)) is not None:
            yield "is of a message that its memory does not have"
    elif passage.text != told.text:
        yield "has another text than its memory"


def _vector_problems(passage: RawPassage, dimension: int | None, dialect: Dialect) -> Iterator[str]:
    if passage.vector is None:
        return
    if not isinstance(passage.vector, bytes) or len(passage.vector) % 4:
        yield "is no row of single-precision numbers"
        return
    (vector,) = dialect.stacked([passage.vector])
    if dimension is not None and len(vector) != dimension:
        yield f"has {len(vector)} numbers instead of {dimension}"
    with np.errstate(all="ignore"):
        length = float(np.linalg.norm(vector.astype(np.float64)))
    if not math.isfinite(length):
        yield "has NaN or infinity in it"
    elif abs(length - 1) > MAX_LENGTH_ERROR:
        yield f"has the length {length:.4f} instead of 1"
