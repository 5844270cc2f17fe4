"""Opens the storage of a place."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memory_retrievers.backends.processes import Attachment, named
from memory_retrievers.errors import Extra, StoreLockedError, required
from memory_retrievers.settings import POOL_SIZE
from memory_retrievers.storage.options import ResolvedOptions

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.connection import Database
    from memory_retrievers.backends.sql.keyword import PostingsKeywordIndex
    from memory_retrievers.backends.sql.ledger import SQLLedger
    from memory_retrievers.backends.vectors import ExactVectorIndex


STORE_FILE: Final = "memory.db"  # the file in a store's directory that holds everything

CHROMA_DIRECTORY: Final = "chroma"
"""Beside it, what Chroma keeps: a projection of the file, which can be thrown away at any time."""

PSYCOPG: Final = Extra(package="psycopg", module="psycopg", name="postgres")
POOL: Final = Extra(package="psycopg-pool", module="psycopg_pool", name="postgres")
_SERVERS: Final = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """A ledger and its indexes, of words and of vectors."""

    ledger: SQLLedger
    keyword: PostingsKeywordIndex
    dense: ExactVectorIndex


def in_file(parts: ResolvedOptions, file: Path | None, *, read_only: bool = False) -> Storage:
    """Open a SQLite file with Chroma beside it.

    Args:
        parts: Options of the store.
        file: The file, created if it is missing; None keeps everything in memory.
        read_only: Open it for reading only.

    Raises:
        ConfigurationError: A newer version of the package wrote the file.
        StoreLockedError: Nothing can be written there, or a process of an older version does not end.
        BackendError: It cannot be opened.
    """
    from memory_retrievers.backends.sqlite import Database
    from memory_retrievers.backends.vectors import ExactVectorIndex

    database = Database(file, read_only=read_only, access=parts.access)
    folder = None if file is None else file.parent / CHROMA_DIRECTORY
    dense = ExactVectorIndex if read_only else partial(_projected, parts, folder=folder)
    return _indexed(parts, database, dense)


def on_server(
    parts: ResolvedOptions, url: str, *, pool_size: int = POOL_SIZE, within: str | None = None, read_only: bool = False
) -> Storage:
    """Open a PostgreSQL database.

    Args:
        parts: Options of the store.
        url: Address of the database; missing tables are created.
        pool_size: Maximum number of connections.
        within: Confine every connection to this scope and those below it; None does not confine it.
        read_only: Open it for reading only, without Chroma.

    Raises:
        MissingExtraError: psycopg is not installed.
        ConfigurationError: A newer version of the package made the tables, they cannot be made, the address cannot be
            read, or there are too few connections.
        StoreLockedError: The server takes no writes.
        BackendError: The database cannot be reached.
    """
    with required(PSYCOPG, POOL):
        from memory_retrievers.backends.postgres import Database, HNSWVectorIndex

    database = Database(url, pool_size=pool_size, within=within, read_only=read_only)
    if read_only or isinstance(parts.dense, str):
        exact_limit = None if parts.dense == "exact" else parts.retrieval.exact_limit
        return _indexed(parts, database, partial(HNSWVectorIndex, database=database, exact_limit=exact_limit))
    return _indexed(parts, database, partial(_projected, parts, folder=None))


def _indexed(parts: ResolvedOptions, database: Database, dense: Callable[[SQLLedger], ExactVectorIndex]) -> Storage:
    from memory_retrievers.backends.sql.keyword import PostingsKeywordIndex, RankBM25KeywordIndex
    from memory_retrievers.backends.sql.ledger import SQLLedger

    ledger = SQLLedger(database)
    ledger.snapshots.most = parts.retrieval.snapshot_bytes
    engine = PostingsKeywordIndex if parts.keyword == "sqlite_bm25" else RankBM25KeywordIndex
    try:
        keyword = engine(ledger, k1=parts.retrieval.bm25_k1, b=parts.retrieval.bm25_b)
        return Storage(ledger=ledger, keyword=keyword, dense=dense(ledger))
    except BaseException:
        ledger.close()
        raise


def is_server(place: str | Path) -> bool:
    """Return True if the place of a store is the address of a PostgreSQL database."""
    return isinstance(place, str) and place.startswith(_SERVERS)


def is_made(place: str | Path) -> bool:
    """Return True if a store exists; checking creates none."""
    if isinstance(place, str) and is_server(place):
        with required(PSYCOPG, POOL):
            from memory_retrievers.backends.postgres import migrations
        return migrations.is_made(place)
    return (Path(place) / STORE_FILE).is_file()


def noted_embedder(place: str | Path) -> str | None:
    """Id of the embedder that filled a store; None if it has embedded nothing yet."""
    if isinstance(place, str) and is_server(place):
        with required(PSYCOPG, POOL):
            from memory_retrievers.backends.postgres import migrations
        return migrations.read_note(place, "embedder_id")
    from memory_retrievers.backends.sqlite.attachment import read_note

    return read_note(Path(place) / STORE_FILE, "embedder_id")


# Beside its log SQLite keeps an index of it in memory that all processes of one machine share; two machines do not, and
# network file systems often have locks that do not work. All else serves: overlays of containers, `tmpfs`, encrypted
# directories, and `9p` and `virtiofs`, on which virtual machines and sandboxes have their own disks.
_MOUNTS: Final = Path("/proc/self/mountinfo")

_NETWORK: Final = frozenset({
    "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "glusterfs", "gfs", "gfs2", "gpfs", "lustre", "ncpfs",
    "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb2", "smb3", "smbfs",
})  # fmt: skip
_NETWORK_BY_FUSE: Final = frozenset({
    "afpfs", "blobfuse", "blobfuse2", "ceph", "ceph-fuse", "cephfs", "curlftpfs", "davfs", "davfs2", "gcsfuse",
    "glusterfs", "goofys", "juicefs", "mfs", "moosefs", "mount-s3", "mountpoint-s3", "rclone", "s3fs", "s3ql",
    "seaweedfs", "smbnetfs", "sshfs",
})  # fmt: skip
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def require_local(directory: Path) -> None:
    """Refuse a directory, made or to be made, on a network file system, before anything is made there."""
    with contextlib.suppress(OSError):  # no such table elsewhere, and then it is unknown
        kind = network_file_system(directory.resolve(), _MOUNTS.read_bytes().decode("utf-8", "surrogateescape"))
        if kind is not None:
            raise StoreLockedError(
                f"{directory} is on a network file system ({kind}), where a store that is written can be damaged: keep "
                "it on a disk of this machine (memory-retrievers backup copies it there), let other machines ask "
                "memory-retrievers serve, or use PostgreSQL; it can be looked into with "
                "AgentMemory.open(path, read_only=True)"
            )


def network_file_system(place: Path, mounts: str) -> str | None:
    """Type of the network file system that a place (absolute, without links) is on, by Linux's table of mounts."""
    found, longest = None, -1
    for line in mounts.split("\n"):
        mount, separator, system = line.partition(" - ")
        fields, kinds = mount.split(" "), system.split(" ")
        if not separator or len(fields) < 5:  # noqa: PLR2004 - the fifth is the place it is mounted at
            continue
        at = Path(_ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), fields[4]))
        # Of two mounts at one place the later one lies above the other.
        if (at == place or at in place.parents) and len(at.parts) >= longest:
            found, longest = kinds[0], len(at.parts)
    outer, _, inner = (found or "").partition(".")
    return found if found in _NETWORK or (outer in {"fuse", "fuseblk"} and inner in _NETWORK_BY_FUSE) else None


def _projected(parts: ResolvedOptions, ledger: SQLLedger, *, folder: Path | None) -> ExactVectorIndex:
    from memory_retrievers.backends.chroma import ProjectedVectorIndex
    from memory_retrievers.backends.chroma.collection import ChromaProjection

    client = None if isinstance(parts.dense, str) else parts.dense
    return ProjectedVectorIndex(
        ledger,
        projection=ChromaProjection(None if client else folder, client=client, access=parts.access),
        exact_limit={"chroma": 0, "exact": None}.get(str(parts.dense), parts.retrieval.exact_limit),
        at_once=parts.dense == "chroma",
    )


@contextmanager
def kept_closed(directory: Path) -> Iterator[None]:
    """Keep everybody from opening a store while this lasts, so that nothing is written meanwhile.

    Raises:
        StoreLockedError: A process has it open, or nothing can be written there.
    """
    with contextlib.closing(Attachment(directory, schema=0)) as attachment, attachment.gate():
        if others := attachment.others():
            raise StoreLockedError(
                f"{directory} is open in {named(others)}, which may write what would be left behind: end it first"
            )
        yield
