"""Chroma as a projection of the ledger: one collection, filled with our vectors, readable by any Chroma tool.

Chroma is imported and opened at first use. Its exceptions and panics are raised as one of three errors: no space,
unreachable for now, or damaged.
"""

from __future__ import annotations

import contextlib
import math
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from memory_retrievers.backends.chroma import clients
from memory_retrievers.backends.files import PRIVATE, Access, Folder, is_full, make_directories, make_file, set_modes
from memory_retrievers.errors import BackendError, DiskFullError, IndexOutOfStepError, MemoryRetrieversError
from memory_retrievers.models.scopes import MAX_SEGMENTS
from memory_retrievers.models.selection import ProjectedPassage, Selection, Vector

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection


ChromaClient: TypeAlias = "ClientAPI"

NAME: Final = "memories"
NEVER: Final = 2**53  # stands for "does not expire": the largest moment that every JSON reader keeps exactly

MICROSECONDS: Final = 1_000_000
PAGE: Final = 1_000
_FULL: Final = "database or disk is full"  # SQLite's words, of which Chroma passes on no code
_MOST_DEATHS: Final = 2
_PROBED: Final = 100
_SAME_COSINE: Final = 0.9999

_CONFIGURATION: Final[Any] = {"hnsw": {"space": "cosine", "ef_search": 400, "ef_construction": 200}}
"""Chosen on 30,000 sentences (``benchmarks/recall.py``); Chroma takes them at creation only."""


class ChromaProjection:
    """A Chroma collection that mirrors the ledger's passages, and can be made anew from them at any time.

    One thread changes it while several search it. A failure is an ``IndexOutOfStepError`` if only making it anew helps.

    Args:
        directory: Where Chroma keeps its files, for this store alone; None keeps them in memory, or at the client's.
        client: A client of a Chroma server or of Chroma Cloud, in place of a directory. It is never closed here.
        access: The modes of the files that are made.
    """

    def __init__(
        self, directory: Path | None = None, *, client: ClientAPI | None = None, access: Access = PRIVATE
    ) -> None:
        self._directory = directory
        self._given_client: Any = None if client is None else clients.InTime(client)
        self._client: ClientAPI | None = None
        self._collection: Collection | None = None
        self._guard = _CrashGuard(directory.parent if directory else None, access=access)
        self._access = access
        self._found: frozenset[Path] = frozenset()

    @property
    def has_files(self) -> bool:
        """Whether it has a directory, which only one process may use."""
        return self._directory is not None

    def open(self, generation: str) -> bool:
        """Open the data stored under this name and check that it answers; False if there is none."""
        if self._guard.tripped:
            raise IndexOutOfStepError("the process has died in Chroma twice in a row")
        if self._directory is not None and not self._directory.exists():
            return False
        clients.keep_to_this_machine()
        from chromadb.errors import NotFoundError

        with self._wrapped("open"):
            try:
                collection = self._connected().get_collection(self._name(generation), embedding_function=None)
            except NotFoundError:
                return False
            if (collection.metadata or {}).get("generation") != generation:
                return False
            _probe(collection)
            self._collection = collection
        return True

    def create(self, generation: str) -> None:
        """Create an empty store under this name, after :meth:`destroy`."""
        with self._wrapped("create"):
            self._collection = self._connected().create_collection(
                self._name(generation),
                embedding_function=None,
                configuration=_CONFIGURATION,
                metadata={"generation": generation},
            )
            self._settle()

    def put(self, passages: Sequence[ProjectedPassage]) -> None:
        """Insert passages, replacing those of the same id."""
        if not passages:
            return
        with self._wrapped("put"):
            self._opened().upsert(
                ids=[_id(passage.id) for passage in passages],
                embeddings=np.stack([passage.vector for passage in passages]),
                documents=[passage.text for passage in passages],
                metadatas=[{**_NOTHING, **_metadata(passage)} for passage in passages],
            )
            self._settle()

    def remove(self, passages: Sequence[int]) -> None:
        """Delete passages; ids that are not stored are ignored."""
        if passages:
            with self._wrapped("remove"):
                self._opened().delete(ids=list(map(_id, passages)))

    def count(self) -> int:
        """Count the stored passages."""
        with self._wrapped("count"):
            return self._opened().count()

    def search(self, vector: Vector, selection: Selection | None, *, limit: int) -> list[int]:
        """Find the ids of passages near a vector, nearest first; approximate.

        Args:
            vector: Unit vector of the query, shape (d,).
            selection: The scope, kind and filters that passages must match; None searches all.
            limit: Maximum number of passages.
        """
        where = None if selection is None else _where(selection)
        with self._wrapped("search"):
            embeddings: Any = [vector]
            found = self._opened().query(query_embeddings=embeddings, n_results=limit, where=where, include=[])
            return list(map(_number, found["ids"][0]))

    def differences(self, passages: Sequence[ProjectedPassage]) -> list[str]:
        """Describe, in one sentence each, the given passages that are missing or stored differently."""
        with self._wrapped("read"):
            found = self._opened().get(
                ids=[_id(passage.id) for passage in passages], include=["metadatas", "documents", "embeddings"]
            )
            columns = (found["metadatas"] or [], found["documents"] or [], _rows(found["embeddings"]))
            stored = dict(zip(found["ids"], zip(*columns, strict=True), strict=True))
        return [
            f"passage {passage.id} in scope {passage.scope!r} {problem} in the Chroma index"
            for passage in passages
            if (problem := _problem(passage, stored.get(_id(passage.id))))
        ]

    def ids(self) -> list[int]:
        """List the ids of all stored passages."""
        numbers: list[int] = []
        with self._wrapped("read"):
            while page := self._opened().get(limit=PAGE, offset=len(numbers), include=[])["ids"]:
                numbers += map(_number, page)
        return numbers

    def destroy(self, generation: str | None, *, every_byte: bool = False) -> None:
        """Delete what has this name and the projection's own files; ``every_byte`` raises where another uses them."""
        if self._directory is None:
            self._drop(generation)
            return
        self.close()
        if clients.running_settings(str(self._directory)) is not None:
            self._drop(generation)
            if every_byte:
                raise BackendError(
                    f"another Chroma client in this process has {self._directory} open, so its files cannot be "
                    "deleted: close that client and try again"
                )
            return
        with self._wrapped("destroy"):
            if self._directory.is_dir() and not self._directory.is_symlink():
                shutil.rmtree(self._directory)
            else:
                self._directory.unlink(missing_ok=True)
        self._guard.reset()

    def close(self) -> None:
        """Release all resources; it can be opened again, but for a collection in memory, which is deleted."""
        with contextlib.suppress(BackendError):
            if self._directory is None and self._given_client is None and self._collection is not None:
                self._drop((self._collection.metadata or {}).get("generation"))
            client, self._client, self._collection = self._client, None, None
            if client is not None and client is not self._given_client and hasattr(client, "close"):
                with self._wrapped("close"):
                    client.close()

    def _connected(self) -> ClientAPI:
        if self._client is None:
            if self._directory is not None:
                self._prepare(self._directory)
            self._client = self._given_client or clients.own_client(self._directory)
        return self._client

    def _prepare(self, directory: Path) -> None:
        """Make the directory, and the file in it that SQLite gives its mode to others; note what was there before."""
        self._found = frozenset(directory.rglob("*"))
        if not directory.exists():
            make_directories(directory, self._access)
            make_file(directory / clients.CHROMA_FILE, self._access)
        clients.blank_unused(directory)  # a process that was killed, or an older version of the package, has left it

    def _settle(self) -> None:
        """Set the file modes of what Chroma's native code has created; the directory's mode keeps others out."""
        if self._directory and (made := set_modes(self._directory, self._access, leave=self._found)):
            clients.blank_unused(self._directory)  # nobody searches it yet, so that Chroma writes nothing meanwhile
            self._found |= made

    def _opened(self) -> Collection:
        if self._collection is None:
            raise BackendError("the Chroma index is closed")
        return self._collection

    def _name(self, generation: str) -> str:
        """A directory is ours alone; elsewhere other collections stand beside."""
        return NAME if self._directory is not None else f"{NAME}-{generation}"

    def _drop(self, generation: str | None) -> None:
        self._collection = None
        if generation is None:
            return
        from chromadb.errors import NotFoundError

        with self._wrapped("destroy"), contextlib.suppress(NotFoundError):
            self._connected().delete_collection(self._name(generation))

    @contextlib.contextmanager
    def _wrapped(self, operation: str) -> Iterator[None]:
        try:
            with self._guard.entering(operation):
                yield
        except (MemoryRetrieversError, KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # a panic of Chroma's native code is no Exception
            raise self._failure(error) from error

    def _failure(self, error: BaseException) -> BackendError:
        """Map an exception to an error: no space, damaged, or, with a server, unreachable for now."""
        from chromadb.errors import InternalError, NotFoundError

        problem = f"Chroma failed ({type(error).__name__}: {clients.brief(error)})"
        if (isinstance(error, OSError) and is_full(error)) or _FULL in str(error):
            return DiskFullError(f"no space is left for the Chroma index: {problem}. Make room there, and try again")
        if self._given_client is None or isinstance(error, InternalError | NotFoundError):
            return IndexOutOfStepError(problem)
        return BackendError(problem)


def _probe(collection: Collection) -> None:
    """Read some rows and search for one, filtered and unfiltered, to find damage before a user's query does."""
    sample = collection.get(limit=_PROBED, include=["embeddings", "metadatas"])
    rows = _rows(sample["embeddings"])
    if len(rows) != len(sample["ids"]):
        raise IndexOutOfStepError("Chroma has lost vectors")
    if len(rows):
        filters: tuple[Any, ...] = (None, {"kind": str((sample["metadatas"] or [{}])[-1]["kind"])})
        for where in filters:
            collection.query(query_embeddings=[rows[-1]], n_results=_PROBED, where=where, include=["distances"])


def _rows(embeddings: Any) -> Any:  # noqa: ANN401 - an array, or one of Chroma's many lists
    return [] if embeddings is None else embeddings


def _id(passage: int) -> str:
    return f"p{passage}"


def _number(id: str) -> int:
    if not (id.startswith("p") and id[1:].isdecimal()):
        raise IndexOutOfStepError("the Chroma collection has a row that was not written from here")
    return int(id[1:])


_NOTHING: Final = dict.fromkeys(("category", *(f"s{depth}" for depth in range(1, MAX_SEGMENTS + 1))))
"""Keys that a row may have had: Chroma keeps those of a row that it puts again, unless they are null."""


def _metadata(passage: ProjectedPassage) -> dict[str, str | int]:
    """Metadata that Chroma can filter by; times are whole seconds, an expiry is rounded up."""
    expires_at = NEVER if passage.expires_at is None else math.ceil(passage.expires_at / MICROSECONDS)
    segments = passage.scope.split("/")
    return {
        "memory_id": passage.memory_id,
        "kind": passage.kind,
        "part": passage.part,
        "origin": passage.origin,
        "created_at": passage.created_at // MICROSECONDS,
        **({} if passage.category is None else {"category": passage.category}),
        "tier": passage.tier,
        "expires_at": expires_at,
        "scope": passage.scope,
        **{f"s{depth}": "/".join(segments[:depth]) for depth in range(1, len(segments) + 1)},
    }


def _where(selection: Selection) -> Any:  # noqa: ANN401 - chromadb's Where
    scope_key = f"s{selection.scope.count('/') + 1}" if selection.include_child_scopes else "scope"
    # what stands for a memory as a whole is of the part that has its kind's name
    conditions: list[dict[str, Any]] = [
        {"kind" if len(selection.fields) > 1 else "part": str(selection.kind)},
        {scope_key: selection.scope},
        {"expires_at": {"$gt": math.floor(selection.now.timestamp())}},
    ]
    if selection.category is not None:
        conditions.append({"category": str(selection.category)})
    return {"$and": conditions}


def _problem(passage: ProjectedPassage, stored: tuple[Any, Any, Any] | None) -> str | None:
    if stored is None:
        return "is missing"
    metadata, document, vector = stored
    if metadata != _metadata(passage) or document != passage.text:
        return "has another text or other metadata"
    cosine = float(np.dot(vector, passage.vector) / (np.linalg.norm(vector) or 1.0))
    return None if cosine >= _SAME_COSINE else "has another vector"


class _CrashGuard:
    """Counts on disk the consecutive crashes by operation, in files beside the guarded directory; None guards nothing.

    A damaged index can crash the interpreter, and would do so at every use. Two crashes in a row in the same operation
    are taken as damage; a single one may have been a kill at that moment.
    """

    def __init__(self, directory: Path | None, *, access: Access = PRIVATE) -> None:
        self._directory = directory
        self._access = access
        self._deaths: dict[str, int] = {}

    @property
    def tripped(self) -> bool:
        """True if processes have crashed too often in the same operation."""
        if self._directory is None:
            return False
        return any(_count(file) >= _MOST_DEATHS for file in self._directory.glob("chroma.*.entered"))

    @contextlib.contextmanager
    def entering(self, operation: str) -> Iterator[None]:
        """Mark native code as running; leaving by an exception counts as no crash."""
        if self._directory is None:
            yield
            return
        file = self._directory / f"chroma.{operation}.entered"
        if operation not in self._deaths:
            self._deaths[operation] = _count(file)
        try:
            with Folder(self._directory) as folder:
                folder.overwrite(file.name, b"x" * (self._deaths[operation] + 1), self._access)
        except OSError as error:
            if not is_full(error):  # closing and deleting make room, and need none
                raise
        try:
            yield
        finally:
            file.unlink(missing_ok=True)
            self._deaths[operation] = 0

    def reset(self) -> None:
        """Forget all crashes, once the data they happened in is deleted."""
        self._deaths.clear()
        if self._directory is not None:
            for file in self._directory.glob("chroma.*.entered"):
                file.unlink(missing_ok=True)


def _count(file: Path) -> int:
    with contextlib.suppress(OSError):
        return file.stat().st_size
    return 0
