"""Move all that a store holds into another, whatever either is kept in: to the same bit, and resumable at any point.

A note in the target says how far it is. Memories go in by pages; each has its place by scope and id, so those that are
there already are known. What has no such name (reviews, queues, associations, the audit) goes in with the characters
in one transaction, together with the change of the note, and so is there whole or not at all.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain, islice, zip_longest
from typing import Final, NamedTuple

from memory_retrievers import export_format, transfer, upkeep
from memory_retrievers.contents import Contents, Problems, Progress, StoredCharacter, StoredMemory, VerificationReport
from memory_retrievers.errors import ConfigurationError, EmbeddingMismatchError
from memory_retrievers.export_format import Record
from memory_retrievers.fingerprint import Fingerprint
from memory_retrievers.managed import Association, AuditEntry
from memory_retrievers.protocols import Ledger, ReviewJob
from memory_retrievers.retrieved import PendingReview
from memory_retrievers.store import MemoryStore

NOTE: Final = "moving"
"""The name of the note; its values follow. Once the move is verified it is blank."""

BEGUN: Final = "begun"
COPIED: Final = "copied"


def move(source: Ledger, target: MemoryStore, *, progress: Progress | None = None) -> None:
    """Copy everything, or go on where an earlier call was interrupted; :func:`check` ends the move.

    Args:
        source: Only read, as of one moment; nobody may write it until the move has ended.
        target: An empty store, or one that such a move was begun into.
        progress: Told of every page.

    Raises:
        ConfigurationError: The target holds something else, or a move into the source has not ended.
        EmbeddingMismatchError: The target's embedder is not the source's.
        BackendError: A memory of the source is damaged; what is in stays.
    """
    with source.contents() as contents, closing(transfer.records_of(contents)) as records:
        if contents.notes.get(NOTE):
            raise ConfigurationError("the store to move from is not whole: end the move into it first")
        state = _begin_or_go_on(target.ledger, contents)
        if state == COPIED:
            return
        _move_memories(contents, records, target, going_on=state == BEGUN, progress=progress)
        with target.ledger.transaction():
            if target.ledger.notes()[NOTE] == BEGUN:  # nobody else has ended it
                _move_the_rest(source, records, target)
                target.ledger.write_notes({NOTE: COPIED})


def check(source: Ledger, target: MemoryStore, *, progress: Progress | None = None) -> VerificationReport:
    """Compare everything the two stores hold, look whether the target is whole, and end the move if all is well.

    Args:
        source: Where it was moved from.
        target: Where it is now.
        progress: Told now and then how many memories are compared, and of how many.

    Returns:
        What was looked at in the target, and what is wrong, every difference being a problem.
    """
    differences = Problems()
    differences.add(_differences(source, target.ledger, progress))
    report = upkeep.verify(target).joined(VerificationReport(problems=differences.listed()))
    if report.ok:
        target.ledger.write_notes({NOTE: ""})
    return report


def _begin_or_go_on(target: Ledger, contents: Contents) -> str:
    """Refuse a target that will not do, else note the move in it; gives the note that was there."""
    with target.transaction():
        notes = target.notes()
        state = notes.get(NOTE, "")
        if not state:
            _require_empty(target)
        embedder = Fingerprint.noted(contents.notes)
        _require_embedder(Fingerprint.noted(notes), embedder)
        if not state:
            target.write_notes({**({} if embedder is None else embedder.notes()), NOTE: BEGUN})
        return state


def _require_empty(target: Ledger) -> None:
    with target.contents() as there:
        if any(export_format.header_of(there).counts().values()):
            raise ConfigurationError(
                "the store to move into holds something already: name one that is empty, or not made yet. "
                "Nothing was changed."
            )


def _require_embedder(there: Fingerprint | None, here: Fingerprint | None) -> None:
    if there is None or here is None:
        return
    if there.embedder_id != here.embedder_id or not there.has_vectors_like(here):
        raise EmbeddingMismatchError(
            f"the store to move into is one of the embedder {there.embedder_id!r}, and the vectors are from "
            f"{here.embedder_id!r}: move into a new store, or reembed one of them first. Nothing was changed."
        )


def _move_memories(
    contents: Contents, records: Iterator[Record], target: MemoryStore, *, going_on: bool, progress: Progress | None
) -> None:
    """The records of which there are so many, which come first."""
    dimension = export_format.header_of(contents).dimension
    memories = (record for record in islice(records, contents.memory_count) if isinstance(record, StoredMemory))
    done = 0
    while page := list(islice(memories, transfer.PAGE)):
        for stored in page:
            export_format.require_whole(stored, dimension)
        with target.ledger.transaction():
            new = [stored for stored in page if not (going_on and _is_there(target.ledger, stored))]
            passages = target.ledger.add([stored.memory for stored in new], [stored.passages for stored in new])
            target.keyword.add(passages)  # of a page at once: a database far away is asked less often
        done += len(page)
        if progress is not None:
            progress(done, contents.memory_count)


def _is_there(target: Ledger, stored: StoredMemory) -> bool:
    """Whether an earlier call has moved it; its vectors are compared with all others in the end."""
    memory = stored.memory
    found = target.get(scope=memory.scope, id=memory.id)
    if found is not None and found != memory:
        raise ConfigurationError(
            f"{_name(stored)} is not what it was when this move was begun: one of the stores was changed meanwhile. "
            "Move into a new store"
        )
    return found is not None


def _move_the_rest(source: Ledger, records: Iterator[Record], target: MemoryStore) -> None:
    """All that is left, the reviews that are part of a job being made one again."""
    in_jobs: Counter[PendingReview] = Counter()
    for job in _review_jobs(source):
        target.ledger.add_pending_reviews(job.reviews, merge=False)
        target.ledger.conversations.take_reviews(job.scope, conversation=job.conversation, at=job.reviewed_at)
        in_jobs.update(job.reviews)
    for record in records:
        if isinstance(record, PendingReview) and in_jobs[record]:
            in_jobs[record] -= 1
        else:
            transfer.restore(target, record)


def _review_jobs(ledger: Ledger) -> Iterator[ReviewJob]:
    for scope in ledger.conversations.scopes():
        yield from ledger.conversations.review_jobs(scope)


class _Told(NamedTuple):
    """Something a store holds: what to call it, and a digest of all that is known of it."""

    name: str
    digest: bytes


def _differences(source: Ledger, target: Ledger, progress: Progress | None) -> Iterator[str]:
    """Walk through both in step, in whatever order either gives them; only what has no match so far is remembered."""
    unmatched: Counter[_Told] = Counter()
    with (
        source.contents() as here,
        target.contents() as there,
        closing(transfer.records_of(here)) as ours,
        closing(transfer.records_of(there)) as theirs,
    ):
        both = zip_longest(_all_told(source, here, ours), _all_told(target, there, theirs))
        for number, sides in enumerate(both, start=1):
            for told, count in zip(sides, (1, -1), strict=True):
                if told is not None:
                    unmatched[told] += count
                    if not unmatched[told]:
                        del unmatched[told]
            if progress is not None and number <= here.memory_count and number % transfer.PAGE == 0:
                progress(number, here.memory_count)
    yield from _sentences(unmatched)


def _sentences(unmatched: Counter[_Told]) -> Iterator[str]:
    missing = {told.name for told, count in unmatched.items() if count > 0}
    surplus = {told.name for told, count in unmatched.items() if count < 0}
    for name in sorted(missing | surplus):
        if name in missing and name in surplus:
            yield f"{name} is not the same in both stores"
        else:
            yield f"{name} is {'missing in the store moved to' if name in missing else 'not in the store moved from'}"


def _all_told(ledger: Ledger, contents: Contents, records: Iterator[Record]) -> Iterator[_Told]:
    dimension = export_format.header_of(contents).dimension
    told = (
        _Told(_name(record), _digest([export_format.encode(transfer.line_of(record, dimension))])) for record in records
    )
    jobs = (
        _Told(f"a review under way in scope {job.scope!r}", _digest(_job_lines(job))) for job in _review_jobs(ledger)
    )
    return chain(told, jobs)


def _job_lines(job: ReviewJob) -> list[bytes]:
    said = {"at": job.reviewed_at.isoformat(), "said": [each.model_dump(mode="json") for each in job.conversation]}
    return [export_format.encode(line) for line in (said, *map(export_format.review_line, job.reviews))]


def _digest(lines: Sequence[bytes]) -> bytes:
    return hashlib.blake2b(b"".join(lines), digest_size=16).digest()


def _name(record: Record) -> str:
    match record:
        case StoredMemory(memory=memory):
            return f"memory {memory.id!r} in scope {memory.scope!r}"
        case Association(source=memory):
            return f"an association of memory {memory.id!r} in scope {memory.scope!r}"
        case AuditEntry(memory=memory):
            return f"an audit entry of memory {memory.id!r} in scope {memory.scope!r}"
        case PendingReview(scope=scope):
            return f"a pending review in scope {scope!r}"
        case _:
            kind = "a character" if isinstance(record, StoredCharacter) else "the queue"
            return f"{kind} in scope {record.scope!r}"
