"""Chroma's systems of this process: one for each directory, and one for all that is in memory.

Clients in the same place share a system and must ask for the same settings, so ours take over what is running there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chromadb.api import ClientAPI


def own_client(directory: Path | None) -> ClientAPI:
    """A client of its own, with the settings of whoever is in the same place already: Chroma insists on that."""
    import chromadb
    from chromadb.config import Settings

    if directory is None:
        return chromadb.EphemeralClient(settings=_running_settings("ephemeral"))
    running = _running_settings(str(directory))
    try:
        return chromadb.PersistentClient(str(directory), settings=running or Settings(anonymized_telemetry=False))
    except BaseException:
        if running is None:
            _forget(str(directory))
        raise


def _forget(identifier: str) -> None:
    """Chroma keeps a client that failed to open, and would hand out its remains."""
    from chromadb.api.shared_system_client import SharedSystemClient

    SharedSystemClient._identifier_to_system.pop(identifier, None)  # noqa: SLF001 - there is no public way to do it
    getattr(SharedSystemClient, "_identifier_to_refcount", {}).pop(identifier, None)


def is_open_elsewhere(directory: Path) -> bool:
    """Whether somebody in this process has a client open in a directory."""
    return _running_settings(str(directory)) is not None


def _running_settings(identifier: str) -> Any:  # noqa: ANN401 - chromadb.config.Settings, which is not imported here
    if "chromadb" not in sys.modules:
        return None
    from chromadb.api.shared_system_client import SharedSystemClient

    system = SharedSystemClient._identifier_to_system.get(identifier)  # noqa: SLF001 - there is no public way to ask
    return None if system is None else system.settings
