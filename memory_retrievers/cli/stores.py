"""Places of stores on the command line, and opening a store with its embedder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack
from urllib.parse import unquote, urlsplit

from memory_retrievers.backends.files import written
from memory_retrievers.cli.options import EmbedderOptions
from memory_retrievers.errors import ConfigurationError, MemoryRetrieversError, StoreLockedError, ValidationError
from memory_retrievers.memory import AgentMemory
from memory_retrievers.memory.engine import Engine, open_engine
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.storage.open import is_made, is_server, kept_closed, noted_embedder
from memory_retrievers.storage.options import ResolvedOptions, StoreOptions
from memory_retrievers.storage.store import MemoryStore

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.ledger import SQLLedger


_REST: Final = re.compile(r"\w+://([^@/]*@)?(?P<rest>.*)", re.DOTALL)
_USER: Final = re.compile(r"^(?P<before>\w+://[^@/:]*):(?P<secret>[^@/]*)@")
_PARAMETER: Final = re.compile(r"(?P<before>[?&](?:ssl)?password=)(?P<secret>[^&]*)", re.IGNORECASE)
_MASK: Final = "***"


@dataclass(frozen=True, slots=True)
class Place:
    """Location of a store, existing or to be made. As text, it shows no password."""

    address: Path | str  # the directory, or the address of the database as it was given

    @classmethod
    def named(cls, text: str | Place) -> Place:
        """Parse an argument of the command line; a default that is a place already stays as it is."""
        if isinstance(text, Place):
            return text
        return cls(text if is_server(text) else written(text))

    @property
    def name(self) -> str:
        """Short name: that of the directory or of the database."""
        if isinstance(self.address, Path):
            return self.address.resolve().name
        return urlsplit(str(self)).path.strip("/") or str(self)

    def __str__(self) -> str:
        if isinstance(self.address, Path):
            return str(self.address)
        if self._is_misread:
            return f"postgresql://{_MASK}"
        return _PARAMETER.sub(rf"\g<before>{_MASK}", _USER.sub(rf"\g<before>:{_MASK}@", self.address))

    def required_directory(self, *, otherwise: str) -> Path:
        """Return the directory; refuse a database, and say what to do with one otherwise."""
        if isinstance(self.address, Path):
            return self.address
        raise ValidationError(f"this command takes a directory, not the address of a database: {otherwise}")

    def require_store(self) -> None:
        """Check that there is a store; looking must not make one."""
        with self.without_its_secret():
            if not is_made(self.address):
                raise ConfigurationError(f"there is no memory store at {self}: check --store; `remember` creates one")

    def noted_embedder(self) -> str | None:
        """The id of the embedder that the store here was filled with; None if nothing has been, or there is none."""
        with self.without_its_secret():
            return noted_embedder(self.address) if is_made(self.address) else None

    @contextmanager
    def without_its_secret(self) -> Iterator[None]:
        """Mask the password in every error raised inside, whatever the driver of the database says.

        Raises:
            ValidationError: The address would be misread, so that pieces of a password might be shown.
        """
        if self._is_misread:
            raise ValidationError(
                "in the address of a database, @ and / in a name or a password are written %40 and %2F"
            )
        try:
            yield
        except MemoryRetrieversError as error:
            message = str(error)
            for secret in self._secrets():
                message = message.replace(secret, _MASK)
            error.args = (message,)
            raise

    @property
    def _is_misread(self) -> bool:
        """True if the name of a server would begin within what was meant as a password."""
        if isinstance(self.address, Path):
            return False
        found = _REST.match(self.address)
        return found is not None and "@" in found["rest"]

    def _secrets(self) -> list[str]:
        if isinstance(self.address, Path):
            return []
        found = [each["secret"] for pattern in (_USER, _PARAMETER) for each in pattern.finditer(self.address)]
        return sorted({form for secret in found for form in (secret, unquote(secret)) if form}, key=len, reverse=True)


def opened(place: Place, *, read_only: bool = False, **options: Unpack[StoreOptions]) -> AgentMemory:
    """Open the store at a place, or make it; to read only, also beside another process that writes."""
    at = place.address
    opens = partial(AgentMemory.connect, at) if isinstance(at, str) else partial(AgentMemory.open, at)
    with place.without_its_secret():
        return opens(read_only=read_only, **options)


def to_change(store: Place, *, read_only: bool = False) -> AgentMemory:
    """Open a store that is there, for a command that embeds nothing: the embedder that filled it need not be at hand.

    Raises:
        ConfigurationError: There is no store; looking must not make one.
    """
    store.require_store()
    return opened(store, embedder_id=store.noted_embedder(), read_only=read_only)


def to_look_into(store: Place) -> AgentMemory:
    """Open like :func:`to_change`, read-only where it cannot be written."""
    return _or_read_only(lambda read_only: to_change(store, read_only=read_only))


def to_search(store: Place, *, embedder: EmbedderOptions, retrieval: RetrievalSettings | None = None) -> AgentMemory:
    """Open a store that exists with the embedder that filled it, read-only where it cannot be written.

    Args:
        store: Directory or database.
        embedder: The embedder.
        retrieval: Retrieval settings; None is the default.
    """
    store.require_store()
    options = embedder.options() | StoreOptions(retrieval=retrieval)
    return _or_read_only(lambda read_only: opened(store, read_only=read_only, **options))


def _or_read_only(open_store: Callable[[bool], AgentMemory]) -> AgentMemory:
    try:
        return open_store(False)
    except StoreLockedError:
        return open_store(True)


@contextmanager
def moved_from(place: Place) -> Iterator[SQLLedger]:
    """The ledger of a store that is there, only to be read.

    A directory is kept closed to all others: what another process wrote meanwhile would be left behind. It is not
    opened for writing, which would bring an older schema up to date.

    Raises:
        ConfigurationError: There is no store, or it is of an older schema.
        StoreLockedError: Another process has it open.
    """
    place.require_store()
    closed = kept_closed(place.address) if isinstance(place.address, Path) else nullcontext()
    with closed, _opened(place, embedder_id=place.noted_embedder(), read_only=True) as engine:
        yield engine.store.ledger


@contextmanager
def moved_into(place: Place, *, source: Place) -> Iterator[MemoryStore]:
    """The store that another is moved into, made if it is missing.

    Raises:
        ValidationError: Both are the same.
        StoreLockedError: A process of an older version has it open, or nothing can be written there.
    """
    if _real(place) == _real(source):
        raise ValidationError("--from and --to are the same place")
    embedder_id = place.noted_embedder() or source.noted_embedder()
    with _opened(place, embedder_id=embedder_id, read_only=False) as engine:
        yield engine.store


def note_relevance(place: Place, note: str) -> None:
    """Let a store that is there say what relevance its vectors tell.

    Raises:
        StoreLockedError: A process of an older version has it open, or nothing can be written there.
    """
    with _opened(place, embedder_id=place.noted_embedder(), read_only=False) as engine:
        engine.store.embedder.note_relevance(note)


def _real(place: Place) -> Path | str:
    return place.address.resolve() if isinstance(place.address, Path) else place.address


@contextmanager
def _opened(place: Place, *, embedder_id: str | None, read_only: bool) -> Iterator[Engine]:
    parts = ResolvedOptions.chosen({"dense": "exact", "embedder_id": embedder_id}, keyword="sqlite_bm25")
    with place.without_its_secret():
        engine, release = open_engine(parts, place.address, read_only=read_only)
    try:
        yield engine
    finally:
        release()
