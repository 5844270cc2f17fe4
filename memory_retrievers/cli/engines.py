"""How a store is opened to be moved: under a lock, below what ``AgentMemory`` offers, and without its embedder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memory_retrievers.cli.places import Place
from memory_retrievers.engine import Engine
from memory_retrievers.errors import ValidationError
from memory_retrievers.ownership import share
from memory_retrievers.parts import Parts
from memory_retrievers.protocols import Ledger
from memory_retrievers.storage import STORE_FILE, in_file, on_server
from memory_retrievers.store import MemoryStore


@contextmanager
def moved_from(place: Place) -> Iterator[Ledger]:
    """The ledger of a store that is there, only to be read.

    The lock of a directory is held all the same: what another process wrote meanwhile would be left behind. It is not
    opened as its writer would, which brings an older schema up to date and takes back what was under way.

    Raises:
        ConfigurationError: There is no store, or it is of an older schema.
        StoreLockedError: Another process writes it.
    """
    place.require_store()
    with _opened(place, embedder_id=place.noted_embedder(), read_only=True) as engine:
        yield engine.store.ledger


@contextmanager
def moved_into(place: Place, *, source: Place) -> Iterator[MemoryStore]:
    """The store that another is moved into, made if it is missing.

    Raises:
        ValidationError: Both are the same.
        StoreLockedError: Another process writes it.
    """
    if _real(place) == _real(source):
        raise ValidationError("--from and --to are the same place")
    embedder_id = place.noted_embedder() or source.noted_embedder()
    if isinstance(place.address, Path):
        place.address.mkdir(parents=True, exist_ok=True)
    with _opened(place, embedder_id=embedder_id, read_only=False) as engine:
        yield engine.store


def _real(place: Place) -> Path | str:
    return place.address.resolve() if isinstance(place.address, Path) else place.address


@contextmanager
def _opened(place: Place, *, embedder_id: str | None, read_only: bool) -> Iterator[Engine]:
    parts = Parts.chosen(
        embedder=None, embedder_id=embedder_id, retrieval=None, clock=None, keyword="sqlite_bm25", dense="exact"
    )
    with place.without_its_secret():
        if isinstance(place.address, str):
            storage = on_server(parts, place.address, read_only=read_only)
            engine = Engine(parts, storage, read_only=read_only)
            let_go = engine.close
        else:
            file = place.address / STORE_FILE
            engine, let_go = share(
                place.address,
                settings=parts.settings,
                build=lambda: Engine(parts, in_file(parts, file, read_only=read_only), read_only=read_only),
            )
    try:
        yield engine
    finally:
        let_go()
