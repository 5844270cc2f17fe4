"""Chroma clients: opened at first use, shared within the process, without telemetry."""

from __future__ import annotations

import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

from memory_retrievers.errors import BackendError, ConfigurationError, IndexOutOfStepError
from memory_retrievers.text.analysis import one_line

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

ChromaCollection: TypeAlias = "Collection"

TELEMETRY: Final = "ANONYMIZED_TELEMETRY"
"""What Chroma takes for a setting that is not given, from the moment it is imported."""


def keep_to_this_machine() -> None:
    """Turn off telemetry before Chroma is imported; some versions, 1.3.5 among them, send it by default.

    What the user has set stays, and so does what holds where the user has imported Chroma first: clients of all that
    is in memory share their settings, so ours cannot have others there.
    """
    if "chromadb" not in sys.modules:
        os.environ.setdefault(TELEMETRY, "False")


def own_client(directory: Path | None) -> ClientAPI:
    """Open a client, with the settings of clients already open at the same path, as Chroma requires."""
    keep_to_this_machine()
    import chromadb
    from chromadb.config import Settings

    if directory is None:
        return chromadb.EphemeralClient(settings=running_settings("ephemeral"))
    running = running_settings(str(directory))
    try:
        return chromadb.PersistentClient(str(directory), settings=running or Settings(anonymized_telemetry=False))
    except BaseException:
        if running is None:
            _forget(str(directory))
        raise


def _forget(identifier: str) -> None:
    """Remove a client that failed to open from Chroma's cache, which would return it again."""
    from chromadb.api.shared_system_client import SharedSystemClient

    SharedSystemClient._identifier_to_system.pop(identifier, None)  # noqa: SLF001 - there is no public way to do it
    getattr(SharedSystemClient, "_identifier_to_refcount", {}).pop(identifier, None)


def running_settings(identifier: str) -> Any:  # noqa: ANN401 - chromadb.config.Settings, which is not imported here
    """The settings of the clients that this process has open there, in a directory by its path; None if it has none."""
    if "chromadb" not in sys.modules:
        return None
    from chromadb.api.shared_system_client import SharedSystemClient

    system = SharedSystemClient._identifier_to_system.get(identifier)  # noqa: SLF001 - there is no public way to ask
    return None if system is None else system.settings


CHROMA_FILE: Final = "chroma.sqlite3"  # the file by which a directory is known to be Chroma's
_SHOWN: Final = 20  # so many names of collections are listed when none of them is the one asked for
_LONGEST: Final = 200  # characters of what a server says that are passed on

LONGEST_SEARCH: Final = 30.0
LONGEST_CALL: Final = 120.0
"""Seconds that an answer of a server is waited for; after its start, the first search has it read its whole index."""


def blank_unused(directory: Path) -> None:
    """Overwrite with zeros what the files of an index hold behind its last vector, while nobody has them open.

    Chroma makes them with room for more, and writes there what the memory of the process held: any text.
    """
    for header in directory.rglob("header.bin"):
        version, _, _, vectors, size = struct.unpack_from("<i4Q", header.read_bytes())
        for name, each in (("data_level0.bin", size), ("length.bin", 4)) if version == 1 else ():
            with header.with_name(name).open("r+b") as file:
                rest = file.seek(0, os.SEEK_END) - vectors * each
                file.seek(vectors * each)
                file.write(bytes(max(rest, 0)))


@contextmanager
def opened_collection(name: str, *, path: Path | None = None, url: str | None = None) -> Iterator[Collection]:
    """Open a collection that exists, to read it.

    Args:
        name: The name of the collection.
        path: The directory of a persistent Chroma; it is never created. Chroma does not support two processes on
            one directory: close whatever else has it open first.
        url: The address of a Chroma server instead, like ``http://localhost:8000``.

    Raises:
        ConfigurationError: Neither or both are given, there is no store or the address is malformed, or there is no
            such collection.
    """
    if (path is None) == (url is None):
        raise ConfigurationError("give either the directory of the Chroma collection or the address of its server")
    client = _client_of(path, str(url))
    try:
        yield _found(client, name, place=str(path or url))
    finally:
        close_client(client)


class InTime:
    """A client of a server, or a collection of one, whose calls end: Chroma's own wait for an answer for ever."""

    def __init__(self, asked: object) -> None:
        self._asked = asked

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever Chroma has there
        found = getattr(self._asked, name)
        return partial(_in_time, found, name) if callable(found) else found


def _in_time(function: Callable[..., Any], name: str, /, *args: object, **given: object) -> Any:  # noqa: ANN401
    """Call a method of this name, in a thread of its own that is left behind where no answer comes."""
    answer: Future[Any] = Future()

    def ask() -> None:
        try:
            answer.set_result(function(*args, **given))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            answer.set_exception(error)

    try:
        threading.Thread(target=copy_context().run, args=(ask,), name="memory-retrievers-chroma", daemon=True).start()
    except RuntimeError:  # there is no room for a thread, or the program ends
        ask()
    if wait([answer], timeout=(longest := LONGEST_SEARCH if name == "query" else LONGEST_CALL)).not_done:
        error = IndexOutOfStepError if name in {"upsert", "delete"} else BackendError  # it may still be written
        raise error(f"Chroma has not answered within {longest:.0f} seconds")
    return InTime(answer.result()) if name in {"get_collection", "create_collection"} else answer.result()


def close_client(client: ClientAPI) -> None:
    """Close a client and its connections to a server, which Chroma itself leaves open."""
    for each in (client, getattr(client, "_admin_client", None)):
        session = getattr(getattr(each, "_server", None), "_session", None)
        if session is not None:
            session.close()
    if close := getattr(client, "close", None):  # older Chromas close with the process
        close()


def _client_of(path: Path | None, url: str) -> ClientAPI:
    """A client of a directory, or of a server where there is none."""
    if path is None and not _is_address(url):
        raise ConfigurationError(f"{url!r} is not the address of a Chroma server: give one like http://localhost:8000")
    if path is not None and not (path / CHROMA_FILE).is_file():
        raise ConfigurationError(f"there is no Chroma store at {path}: name the directory that contains {CHROMA_FILE}")
    keep_to_this_machine()
    import chromadb
    from chromadb.config import Settings

    settings = Settings(anonymized_telemetry=False)
    with _opening(str(path or url)):
        if path is not None:
            return chromadb.PersistentClient(path, settings=settings)
        return chromadb.HttpClient(host=url, ssl=urlsplit(url).scheme == "https", settings=settings)


@contextmanager
def _opening(what: str) -> Iterator[None]:
    """Name what could not be opened; Chroma raises ValueError, its own errors and those of its HTTP client."""
    try:
        yield
    except Exception as error:
        raise BackendError(f"{what} cannot be opened as a Chroma store: {brief(error)}") from error


def brief(error: BaseException) -> str:
    """What an error says, in one line that is not too long; some servers answer with a page of HTML."""
    said = one_line(str(error)) or type(error).__name__
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"


def _found(client: ClientAPI, name: str, *, place: str) -> Collection:
    from chromadb.errors import NotFoundError

    with _opening(f"the collection {name!r} at {place}"):
        try:
            # no embedding function: vectors are read as they are, and Chroma's own would be downloaded
            return client.get_collection(name, embedding_function=None)
        except NotFoundError:
            names = sorted(collection.name for collection in client.list_collections())
    known = ", ".join(map(repr, names[:_SHOWN])) + (" and more" if len(names) > _SHOWN else "")
    raise ConfigurationError(f"Chroma at {place} has no collection {name!r}; it has {known or 'none'}")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        return False
