"""Vector index that answers wide searches from a Chroma collection, which it feeds, and ignores when out of step."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from memory_retrievers.backends.vectors import ExactVectorIndex
from memory_retrievers.errors import BackendError, IndexOutOfStepError, StoreLockedError
from memory_retrievers.models.contents import Problems, VerificationReport
from memory_retrievers.models.selection import Hits, ProjectedPassage, Selection, Vector

if TYPE_CHECKING:
    from memory_retrievers.backends.chroma.collection import ChromaProjection
    from memory_retrievers.backends.sql.ledger import SQLLedger
    from memory_retrievers.backends.sql.sync import SQLOutbox

FEED_FROM: Final = 500
"""From so many waiting passages on the feeder is woken; fewer are scored exactly with every wide search."""

MOST_WAITING: Final = 5_000
"""With more waiting, a wide search is answered exactly as a whole: reading their vectors would take as long."""

OVERSHOTS: Final = (3, 20)
"""How many times more than asked for the projection is asked without its filter, which costs more than the search:
2.5 ms per 1,000 passages that match it, against 5 and 15 ms in all (``benchmarks/recall.py``)."""

MOST_OVERSHOT: Final = 5_000

BATCH: Final = 1_000
"""Passages a batch: about a second of Chroma's time, which is how long closing a store may have to wait."""

AT_ONCE: Final = 25
LONGEST_BREAK: Final = 0.1
"""In the background so many passages are given to Chroma at once, and then searches have the interpreter for as long as
that took, in seconds: Chroma's native code keeps its lock, and nobody can search meanwhile."""

LAST_BATCHES: Final = 5  # so many batches are still fed when a store is closed; more are left to its next use
ROUNDS: Final = 5  # so often it goes on with what other processes have begun anew, before it pauses

FIRST_PAUSE: Final = 60.0
LONGEST_PAUSE: Final = 3_600.0
"""Seconds after a failure before the projection is tried again; the pause doubles with every failure in a row."""

_logger = logging.getLogger("memory_retrievers")


class ProjectedVectorIndex(ExactVectorIndex):
    """A vector index that is exact up to a number of passages in scope, and uses a projection beyond.

    The projection is opened at the first search that is wide enough. Until it is in step, and whenever something is
    wrong with it, the search is exact. Passages it has not received yet are scored exactly beside it, and the
    ledger decides which passages are visible.

    Args:
        ledger: Where the passages are.
        projection: Answers in wide scopes.
        exact_limit: Up to so many memories in scope the search is exact; None never asks the projection.
        at_once: Feed the projection before every search, in the caller's thread, so that it always answers.
    """

    def __init__(
        self, ledger: SQLLedger, *, projection: ChromaProjection, exact_limit: int | None, at_once: bool
    ) -> None:
        super().__init__(ledger)
        self._projection = projection
        self.exact_limit = exact_limit
        self._at_once = at_once
        self._feeder = Feeder(ledger.outbox, projection)

    def is_approximate(self, selection: Selection) -> bool:
        """See :class:`ExactVectorIndex`; what makes a selection narrow the projection does not know.

        Inside a write transaction, for whose end others wait, the projection is neither fed nor asked.
        """
        is_asked = not selection.is_narrow and not self._ledger.database.is_writing
        return is_asked and super().is_approximate(selection)

    def verify(self) -> VerificationReport:
        """See :class:`ExactVectorIndex`. Waiting changes may differ, and a missing projection is no problem."""
        problems, passages, notes = Problems(), 0, list[str]()
        try:
            with self._feeder.waited_for() as is_ours:
                generation = self._ledger.outbox.state().generation
                if generation is not None and not is_ours:
                    notes.append("another process uses the Chroma index: it was not looked at, call verify there")
                elif generation is not None and (self._feeder.ready or self._projection.open(generation)):
                    passages = self._compare(problems)
        except BackendError as error:
            then = "rebuild('dense') repairs it" if isinstance(error, IndexOutOfStepError) else "searches do without it"
            problems.add([f"the Chroma index cannot be read ({error}): {then}"])
        return VerificationReport(projected=passages, problems=problems.listed(), notes=tuple(notes))

    def _compare(self, problems: Problems) -> int:
        """Compare every passage on both sides; returns the expected number."""
        outbox, passages, last = self._ledger.outbox, 0, 0
        while page := outbox.projected(after=last, limit=BATCH):
            problems.add(self._projection.differences(page))
            passages, last = passages + len(page), page[-1].id
        stored = self._projection.ids()
        for start in range(0, len(stored), BATCH):
            strangers = outbox.missing(stored[start : start + BATCH])
            problems.add(f"the Chroma index holds passage {id}, which is not in the store" for id in strangers)  # noqa: A001
        return passages

    def rebuild(self) -> None:
        """See :class:`ExactVectorIndex`; a projection that was never used is not created."""
        super().rebuild()
        if self._at_once or self._feeder.ready or self._ledger.outbox.state().generation is not None:
            self._feeder.make_anew()

    def purge(self) -> None:
        """See :class:`ExactVectorIndex`; the next wide search recreates the projection."""
        self._feeder.discard()

    def close(self) -> None:
        """See :class:`ExactVectorIndex`."""
        self._feeder.close()
        super().close()

    def _prepared(self) -> bool:
        """Return True if the projection can be searched now; otherwise start preparing it."""
        if self._at_once:
            return self._caught_up()
        waiting = len(self._ledger.outbox.waiting(at_most=MOST_WAITING)) if self._feeder.ready else MOST_WAITING + 1
        if waiting >= FEED_FROM:
            self._feeder.start()
        return waiting <= MOST_WAITING

    def _caught_up(self) -> bool:
        if not self._feeder.ready and not self._feeder.may_try:
            return False
        self._feeder.attempt()
        return self._feeder.ready

    def _approximate(self, vector: Vector, selection: Selection, limit: int) -> Hits | None:
        """Search the projection and the passages it has not received; None if it cannot be relied on."""
        if not self._prepared():
            return None
        waiting = self._ledger.outbox.waiting(at_most=MOST_WAITING)
        if len(waiting) > MOST_WAITING:
            return None
        try:
            seen = self._nearest(vector, selection, limit, waiting=waiting)
        except BackendError as error:
            _logger.warning("Chroma failed, so this search compares all vectors instead: %s", error)
            self._feeder.distrust(error)
            return None
        if len(seen) < limit and len(seen) < self._ledger.size(selection, at_most=limit):
            return None  # it has found less than there is
        return self._best(self._ledger.eligible(selection, among=[*seen, *waiting]), vector, limit)

    def _nearest(self, vector: Vector, selection: Selection, limit: int, *, waiting: Sequence[int]) -> list[int]:
        """Search the projection for visible passages."""
        depths: list[tuple[Selection | None, int]] = [(None, min(times * limit, MOST_OVERSHOT)) for times in OVERSHOTS]
        seen: list[int] = []
        for filtered, depth in [*depths, (selection, limit + min(len(waiting), limit))]:
            seen = self._ledger.eligible(selection, among=self._projection.search(vector, filtered, limit=depth))
            if len(seen) >= limit:
                break
        return seen


class _StoppedError(Exception):
    """The store is being closed; what is not done yet is done at its next use."""


class _BegunAnewError(BackendError):
    """Another process has asked for the projection to be recreated while this one feeds it."""


class Feeder:
    """Brings a projection up to date, in the caller's thread or in a background thread."""

    def __init__(self, outbox: SQLOutbox, projection: ChromaProjection) -> None:
        self._outbox = outbox
        self._projection = projection
        self._feeding = threading.RLock()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._generation: str | None = None  # what is open and has passed the check
        self._suspect = False
        self._failures = 0
        self._next_attempt = 0.0
        self._holding = threading.Lock()
        self._held: ExitStack | None = None  # while this process has the right to use the projection's files

    @property
    def ready(self) -> bool:
        """True if the projection is open, and correct except for the changes in the outbox."""
        return self._generation is not None

    @property
    def may_try(self) -> bool:
        """True if the store stays open and enough time has passed since the last failure."""
        return not self._stop.is_set() and time.monotonic() >= self._next_attempt

    def catch_up(self) -> None:
        """Open, feed and check the projection until the outbox is empty; where another process holds it, do nothing.

        Raises:
            BackendError: It cannot be done now; the next attempt comes after a pause.
        """
        with self._feeding:
            try:
                if not self._hold():
                    return
                for rounds_left in reversed(range(ROUNDS)):
                    try:
                        if self._generation is None:
                            self._prepare()
                        else:
                            self._feed(self._generation)
                        break
                    except _BegunAnewError:
                        if not rounds_left:
                            raise
                        self._generation, self._suspect = None, False  # what another has begun since is gone on with
            except _StoppedError:
                return
            except BackendError as error:
                self.distrust(error)
                raise
            self._failures = 0

    def start(self) -> None:
        """Run :meth:`catch_up` in a thread, unless one runs, another process does, or it has failed a moment ago."""
        with self._starting:
            if not self.may_try or (self._thread is not None and self._thread.is_alive()):
                return
            try:
                if not self._hold():
                    return
            except BackendError as error:
                self.distrust(error)
                _logger.warning("the Chroma index is not used for now, searches compare all vectors instead: %s", error)
                return
            self._thread = threading.Thread(target=self.attempt, name="memory-retrievers-feeder", daemon=True)
            self._thread.start()

    def distrust(self, error: BackendError) -> None:
        """Stop using the projection until it has been reopened and checked, or recreated."""
        self._generation = None
        self._suspect = self._suspect or isinstance(error, IndexOutOfStepError)
        if (now := time.monotonic()) >= self._next_attempt:  # else a search has failed that began before the last did
            self._failures += 1
            self._next_attempt = now + min(FIRST_PAUSE * 2 ** (self._failures - 1), LONGEST_PAUSE)

    @contextmanager
    def waited_for(self) -> Iterator[bool]:
        """Keep background threads from touching the projection while this lasts; False if another process holds it."""
        with self._feeding:
            try:
                yield self._hold()
            finally:
                if not self.ready:  # it was looked at, and another process may want to feed it
                    self._projection.close()
                    self._let_go()

    def make_anew(self) -> None:
        """Recreate the projection from scratch, even if there was none."""
        with self._undisturbed():
            if not self._hold():
                self._outbox.begin(None)  # by which the process that holds it finds that it has to do this
                return
            self._generation, self._suspect = None, True
            self.catch_up()

    def discard(self) -> None:
        """Delete the projection; the next :meth:`catch_up` starts from scratch.

        Raises:
            StoreLockedError: Another process holds it.
        """
        with self._undisturbed(), self._outbox.turn():
            if not self._hold():
                raise StoreLockedError(
                    "another process uses the Chroma index of this store: call purge there, or end it first (see "
                    "`memory-retrievers doctor`); nothing was erased"
                )
            self._generation = None
            try:
                self._projection.destroy(self._outbox.state().generation, every_byte=True)
                self._outbox.begin(None)
            finally:
                self._let_go()  # another process may want to do the same before this one feeds it again

    def close(self) -> None:
        """Stop the thread after its batch, and feed what waits if the projection is open and it is little."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        with self._feeding:
            try:
                if self.ready and len(self._outbox.waiting(at_most=LAST_BATCHES * BATCH)) <= LAST_BATCHES * BATCH:
                    self._feed(self._generation, to_the_end=True)
            except BackendError as error:
                _logger.warning("the Chroma index could not be updated on closing and will be later: %s", error)
            self._generation = None
            self._projection.close()
            self._let_go()

    def _hold(self) -> bool:
        """Take the right to use the projection's files, which only one process may use; False if another has it."""
        with self._holding:
            if self._held is None and self._projection.has_files:
                with ExitStack() as held:
                    try:
                        is_alone = held.enter_context(self._outbox.database.alone("chroma"))
                    except StoreLockedError as error:  # no lock can be made
                        raise BackendError(str(error)) from error
                    if not is_alone:
                        return False
                    self._held = held.pop_all()
            return True

    def _let_go(self) -> None:
        """Return that right, after the projection was closed."""
        with self._holding:
            if self._held is not None:
                self._held.close()
                self._held = None

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Stop feeding after the current batch, because the projection is about to be discarded."""
        self._stop.set()
        with self._feeding:
            self._stop.clear()
            yield

    def attempt(self) -> None:
        """Run :meth:`catch_up`; a failure is logged."""
        try:
            self.catch_up()
        except BackendError as error:
            _logger.warning("the Chroma index is not used for now, searches compare all vectors instead: %s", error)

    def _prepare(self) -> None:
        self._projection.close()
        with self._outbox.turn():  # what another process has begun, it has made by then
            named = self._outbox.state().generation
            opened = self._opened(named)
        generation = opened or self._begun_anew(instead_of=named)
        self._feed(generation)
        if not self._matches(generation):
            generation = self._begun_anew(instead_of=generation)
            self._feed(generation)
            if not self._matches(generation):
                raise IndexOutOfStepError("the Chroma index does not contain what was written to it")
        self._generation, self._suspect = generation, False

    def _opened(self, generation: str | None) -> str | None:
        """Return the generation that the ledger names, if it exists and is usable."""
        if generation is None or self._suspect:
            return None
        try:
            return generation if self._projection.open(generation) else None
        except IndexOutOfStepError as error:
            _logger.warning("the Chroma index is damaged and will be rebuilt: %s", error)
            return None

    def _begun_anew(self, *, instead_of: str | None) -> str:
        """Create a projection, unless another process has done so since this one was found missing or wrong."""
        with self._outbox.turn():
            named = self._outbox.state().generation
            if named is not None and named != instead_of and self._projection.open(named):
                return named
            self._projection.destroy(named)
            generation = uuid.uuid4().hex
            self._outbox.begin(generation)  # first: if this ends here, no collection is left that nobody knows of
            self._projection.create(generation)
        return generation

    def _feed(self, generation: str | None, *, to_the_end: bool = False) -> None:
        """Apply batches to the open projection of this name until the outbox is empty."""
        while self._outbox.waiting(at_most=0):
            if self._stop.is_set() and not to_the_end:
                raise _StoppedError
            with self._outbox.turn():
                batch = self._outbox.batch(limit=BATCH)
                if batch is None:
                    return  # another process has fed it
                if batch.generation != generation:
                    raise _BegunAnewError("another process has begun to rebuild the Chroma index")
                self._put(batch.put)
                self._projection.remove(batch.remove)
                self._outbox.acknowledge(batch)

    def _put(self, passages: Sequence[ProjectedPassage]) -> None:
        is_waited_for = threading.current_thread() is not self._thread
        size = len(passages) if is_waited_for else AT_ONCE
        for start in range(0, len(passages), max(size, 1)):
            began = time.monotonic()
            self._projection.put(passages[start : start + size])
            if not is_waited_for:
                self._stop.wait(min(time.monotonic() - began, LONGEST_BREAK))

    def _matches(self, generation: str) -> bool:
        """Compare the number of stored passages with the expected one; changes meanwhile are fed and counted again."""
        while True:
            with self._outbox.turn():  # what another process feeds between the two would be missing in the first
                counted = self._projection.count()
                state = self._outbox.state()
            if not state.changed:
                return counted == state.projected
            self._feed(generation)
