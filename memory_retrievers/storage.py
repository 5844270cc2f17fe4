"""Where a memory is kept: a ledger with its indexes, in a file, in memory, or on a PostgreSQL server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memory_retrievers.extras import Extra, required
from memory_retrievers.parts import Parts
from memory_retrievers.settings import POOL_SIZE

if TYPE_CHECKING:
    from memory_retrievers.backends.sql import SQLLedger
    from memory_retrievers.protocols import AdoptedRows, KeywordIndex, Ledger, VectorIndex

STORE_FILE: Final = "memory.db"
"""The file in a store's directory that holds everything."""

CHROMA_DIRECTORY: Final = "chroma"
"""Beside it, what Chroma keeps: a projection of the file, which can be thrown away at any time."""

_PSYCOPG: Final = Extra(package="psycopg", module="psycopg", name="postgres")
_POOL: Final = Extra(package="psycopg-pool", module="psycopg_pool", name="postgres")
_SERVERS: Final = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """A ledger, the indexes over it, and what it remembers of a collection it was filled from.

    Attributes:
        ledger: Keeps the records.
        keyword: The BM25 index.
        dense: The vector index.
        adopted: Which memories stand in a collection of the user's too.
        sole_writer: Whether nobody else can be at work on it: whoever put up a fence is gone.
    """

    ledger: Ledger
    keyword: KeywordIndex
    dense: VectorIndex
    adopted: AdoptedRows
    sole_writer: bool


def in_file(parts: Parts, file: Path | None, *, read_only: bool = False) -> Storage:
    """A SQLite file, made if it is missing, with Chroma beside it; None keeps everything in memory.

    Raises:
        ConfigurationError: A newer version of the package wrote the file.
        BackendError: It cannot be opened.
    """
    from memory_retrievers.backends.exact import ExactVectorIndex
    from memory_retrievers.backends.sqlite import SQLiteLedger

    ledger = SQLiteLedger(file, read_only=read_only)
    try:
        exact = ExactVectorIndex(ledger)
        folder = None if file is None else file.parent / CHROMA_DIRECTORY
        dense = exact if read_only else _projected(parts, ledger, exact=exact, folder=folder)
        return _storage(ledger, _keyword(parts, ledger), dense, sole_writer=file is not None and not read_only)
    except BaseException:
        ledger.close()
        raise


def on_server(
    parts: Parts, url: str, *, pool_size: int = POOL_SIZE, within: str | None = None, read_only: bool = False
) -> Storage:
    """A PostgreSQL database, whose tables are made if they are missing; whoever only looks does without Chroma.

    Raises:
        MissingExtraError: psycopg is not installed.
        ConfigurationError: A newer version of the package made the tables, or they cannot be made.
        StoreLockedError: The server takes no writes.
        BackendError: The database cannot be reached.
    """
    from memory_retrievers.backends.exact import ExactVectorIndex

    with required(_PSYCOPG, _POOL):
        from memory_retrievers.backends.postgres import PostgresLedger
        from memory_retrievers.backends.postgres.vectors import HNSWVectorIndex

    ledger = PostgresLedger(url, pool_size=pool_size, within=within, read_only=read_only)
    try:
        exact = ExactVectorIndex(ledger)
        if read_only or isinstance(parts.dense, str):
            exact_limit = None if parts.dense == "exact" else parts.retrieval.exact_limit
            dense: VectorIndex = HNSWVectorIndex(ledger, exact=exact, exact_limit=exact_limit)
        else:
            dense = _projected(parts, ledger, exact=exact, folder=None)
        return _storage(ledger, _keyword(parts, ledger), dense, sole_writer=False)
    except BaseException:
        ledger.close()
        raise


def is_server(place: str | Path) -> bool:
    """Whether a store is named by the address of a PostgreSQL database."""
    return isinstance(place, str) and place.startswith(_SERVERS)


def is_made(place: str | Path) -> bool:
    """Whether a store is there; looking makes none.

    Args:
        place: The store's directory, or the address of its database.

    Raises:
        BackendError: The database cannot be reached.
    """
    if isinstance(place, str) and is_server(place):
        with required(_PSYCOPG, _POOL):
            from memory_retrievers.backends.postgres import migrating
        return migrating.is_made(place)
    return (Path(place) / STORE_FILE).is_file()


def noted_embedder(place: str | Path) -> str | None:
    """The id of the embedder that a store was filled with; None if nothing has been embedded for it yet.

    It only looks, also beside a process that writes the store; the store need not be of this version's schema.

    Args:
        place: The store's directory, or the address of its database.

    Raises:
        ConfigurationError: A newer version of the package wrote the store.
        BackendError: The store cannot be read.
    """
    if isinstance(place, str) and is_server(place):
        with required(_PSYCOPG, _POOL):
            from memory_retrievers.backends.postgres import migrating
        return migrating.read_note(place, "embedder_id")
    from memory_retrievers.backends.sqlite.database import read_note

    return read_note(Path(place) / STORE_FILE, "embedder_id")


def _storage(ledger: SQLLedger, keyword: KeywordIndex, dense: VectorIndex, *, sole_writer: bool) -> Storage:
    from memory_retrievers.backends.sql.adopted import SQLAdoptedRows

    adopted = SQLAdoptedRows(ledger.database)
    return Storage(ledger=ledger, keyword=keyword, dense=dense, adopted=adopted, sole_writer=sole_writer)


def _projected(parts: Parts, ledger: SQLLedger, *, exact: VectorIndex, folder: Path | None) -> VectorIndex:
    from memory_retrievers.backends.chroma import ChromaProjection
    from memory_retrievers.projection import ProjectedVectorIndex

    client = None if isinstance(parts.dense, str) else parts.dense
    return ProjectedVectorIndex(
        ledger,
        exact=exact,
        projection=ChromaProjection(None if client else folder, client=client),
        exact_limit={"chroma": 0, "exact": None}.get(str(parts.dense), parts.retrieval.exact_limit),
        at_once=parts.dense == "chroma",
    )


def _keyword(parts: Parts, ledger: SQLLedger) -> KeywordIndex:
    from memory_retrievers.backends.rank_bm25 import RankBM25KeywordIndex
    from memory_retrievers.backends.sql.keyword import PostingsKeywordIndex

    k1, b = parts.retrieval.bm25_k1, parts.retrieval.bm25_b
    postings = PostingsKeywordIndex(ledger, k1=k1, b=b)
    if parts.keyword == "sqlite_bm25":
        return postings
    # The postings are kept up all the same, so that the store, or a copy of it, can be opened with either engine.
    return RankBM25KeywordIndex(ledger, k1=k1, b=b, postings=postings)
