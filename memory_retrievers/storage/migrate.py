"""Copies a store into another, of any backend: without loss, and resumable at any point.

Before anything is written, the whole source is checked as an import checks a file.

A note in the target records the progress. Memories are copied in pages; those that already exist are recognised by
scope and id. Records without such a name (reviews, queues, associations, the audit, the log) are written with the
characters in one transaction that also updates the note, and so are complete or absent.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Final

from memory_retrievers.errors import ConfigurationError, EmbeddingMismatchError
from memory_retrievers.models.contents import (
    MOVING,
    Contents,
    Problems,
    Progress,
    Record,
    StoredMemory,
    VerificationReport,
)
from memory_retrievers.models.storage import Fingerprint
from memory_retrievers.storage import export as transfer
from memory_retrievers.storage import export_format, maintenance
from memory_retrievers.storage.store import MemoryStore

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.ledger import SQLLedger


BEGUN: Final = "begun"
COPIED: Final = "copied"  # the values of the note


def move(source: SQLLedger, target: MemoryStore, *, progress: Progress | None = None) -> None:
    """Copy everything, or continue an interrupted copy; :func:`check` ends the migration.

    Args:
        source: Store to read, as of one point in time; it must not be written until the migration has ended.
        target: An empty store, or one that such a move was begun into.
        progress: Called for every page, first while the source is looked through and then of what is in.

    Raises:
        BackendError: Something in the source is damaged, so that an import would not take it; this call has
            written nothing.
    """
    _require_importable(source, target.ledger, progress)
    with source.contents() as contents, closing(contents.records()) as records:
        state = _begin_or_go_on(target.ledger, contents)
        if state == COPIED:
            return
        _move_memories(contents, records, target, going_on=state == BEGUN, progress=progress)
        with target.transaction():
            if target.ledger.notes()[MOVING] == BEGUN:  # nobody else has ended it
                for record in records:
                    transfer.restore(target, record)
                target.ledger.write_notes({MOVING: COPIED})


def check(source: SQLLedger, target: MemoryStore, *, progress: Progress | None = None) -> VerificationReport:
    """Compare the contents of the two stores, verify the target, and end the migration if both agree.

    Args:
        source: Where it was moved from.
        target: Where it is now.
        progress: Called from time to time with how many memories are compared, and of how many.
    """
    differences = Problems()
    differences.add(_differences(source, target.ledger, progress))
    report = maintenance.verify(target, is_moving=True).joined(VerificationReport(problems=differences.listed()))
    if report.ok:
        target.ledger.write_notes({MOVING: ""})
    return report


def _require_importable(source: SQLLedger, target: SQLLedger, progress: Progress | None) -> None:
    """Reject unsuitable stores, and check everything as strictly as an import does, unless it is copied already."""
    with source.contents() as contents, closing(contents.records()) as records:
        if contents.notes.get(MOVING):
            raise ConfigurationError("the store to move from is not whole: end the move into it first")
        if _state(target, contents) == COPIED:
            return
        header, total = export_format.header_of(contents), contents.counts["memories"]
        for number, record in enumerate(records, start=1):
            transfer.require_importable(record, header)
            if progress is not None and number <= total and number % transfer.PAGE == 0:
                progress(number, total)


def _begin_or_go_on(target: SQLLedger, contents: Contents) -> str:
    """Reject an unsuitable target, or record the migration in it; returns the note that was there."""
    with target.database.write():
        state = _state(target, contents)
        if not state:
            embedder = Fingerprint.noted(contents.notes)
            target.write_notes({**({} if embedder is None else embedder.notes()), MOVING: BEGUN})
        return state


def _state(target: SQLLedger, contents: Contents) -> str:
    """Read the note of a suitable target."""
    notes = target.notes()
    state = notes.get(MOVING, "")
    if not state:
        with target.contents() as held:
            if any(held.counts.values()):
                raise ConfigurationError(
                    "the store to move into holds something already: name one that is empty, or not made yet. "
                    "Nothing was changed."
                )
    there, here = Fingerprint.noted(notes), Fingerprint.noted(contents.notes)
    if there is None or here is None:
        return state
    if there.embedder_id != here.embedder_id or not there.has_vectors_like(here):
        raise EmbeddingMismatchError(
            f"the store to move into is one of the embedder {there.embedder_id!r}, and the vectors are from "
            f"{here.embedder_id!r}: move into a new store, or reembed one of them first. Nothing was changed."
        )
    return state


def _move_memories(
    contents: Contents, records: Iterator[Record], target: MemoryStore, *, going_on: bool, progress: Progress | None
) -> None:
    """Copy the memories, which are the bulk and come first."""
    memories = (record for record in islice(records, contents.counts["memories"]) if isinstance(record, StoredMemory))
    done = 0
    while page := list(islice(memories, transfer.PAGE)):
        with target.transaction():
            new = [stored for stored in page if not (going_on and _is_there(target.ledger, stored))]
            # a page at once: a database far away is asked less often
            target.add([stored.memory for stored in new], [stored.passages for stored in new], event=None)
        done += len(page)
        if progress is not None:
            progress(done, contents.counts["memories"])


def _is_there(target: SQLLedger, stored: StoredMemory) -> bool:
    """Return True if an earlier call copied it; its vectors are compared with all others at the end."""
    memory = stored.memory
    found = target.get(scope=memory.scope, id=memory.id)
    if found is not None and found != memory:
        raise ConfigurationError(
            f"{transfer.name_of(stored)} is not what it was when this move was begun: one of the stores was changed "
            "meanwhile. Move into a new store"
        )
    return found is not None


def _differences(source: SQLLedger, target: SQLLedger, progress: Progress | None) -> Iterator[str]:
    """Compare two streams of records in any order, keeping only those not matched yet."""
    unmatched: Counter[tuple[str, bytes]] = Counter()
    with (
        source.contents() as here,
        target.contents() as there,
        closing(here.records()) as ours,
        closing(there.records()) as theirs,
    ):
        both = zip_longest(_digests(ours), _digests(theirs))
        for number, sides in enumerate(both, start=1):
            for digested, count in zip(sides, (1, -1), strict=True):
                if digested is not None:
                    unmatched[digested] += count
                    if not unmatched[digested]:
                        del unmatched[digested]
            if progress is not None and number <= here.counts["memories"] and number % transfer.PAGE == 0:
                progress(number, here.counts["memories"])
    missing = {name for (name, _), count in unmatched.items() if count > 0}
    surplus = {name for (name, _), count in unmatched.items() if count < 0}
    for name in sorted(missing | surplus):
        if name in missing and name in surplus:
            yield f"{name} is not the same in both stores"
        else:
            yield f"{name} is {'missing in the store moved to' if name in missing else 'not in the store moved from'}"


def _digests(records: Iterator[Record]) -> Iterator[tuple[str, bytes]]:
    """The names of records in messages, and digests of what they hold."""
    for record in records:
        line = export_format.encode(export_format.line_of(record))
        yield transfer.name_of(record), hashlib.blake2b(line, digest_size=16).digest()
