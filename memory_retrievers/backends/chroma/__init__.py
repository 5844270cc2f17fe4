"""Vector index that answers wide searches by a Chroma collection, and ignores it whenever it is out of step."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from memory_retrievers.backends.chroma.feeder import BATCH, Feeder
from memory_retrievers.backends.vectors import ExactVectorIndex
from memory_retrievers.errors import BackendError
from memory_retrievers.models.contents import Problems, VerificationReport
from memory_retrievers.models.selection import Hits, Selection

if TYPE_CHECKING:
    from memory_retrievers.backends.chroma.collection import ChromaProjection
    from memory_retrievers.backends.sql.ledger import SQLLedger
    from memory_retrievers.models.selection import Vector

FEED_FROM: Final = 500
"""So many waiting passages are worth waking the feeder for; fewer are scored exactly with every wide search."""

MOST_WAITING: Final = 5_000
"""With more waiting, a wide search is answered exactly as a whole: reading their vectors would take as long."""

OVERSHOTS: Final = (3, 20)
"""How many times more than asked for the projection is asked without its filter, which costs more than the search:
2.5 ms per 1,000 passages that match it, against 5 and 15 ms in all (``benchmarks/recall.py``)."""

MOST_OVERSHOT: Final = 5_000

_logger = logging.getLogger("memory_retrievers")


class ProjectedVectorIndex(ExactVectorIndex):
    """A ``protocols.VectorIndex`` that is exact up to a number of passages in scope, and uses a projection beyond.

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
        self,
        ledger: SQLLedger,
        *,
        projection: ChromaProjection,
        exact_limit: int | None,
        at_once: bool,
    ) -> None:
        super().__init__(ledger)
        self._projection = projection
        self.exact_limit = exact_limit
        self._at_once = at_once
        self._feeder = Feeder(ledger.outbox, projection)

    def search(self, vector: Vector, selection: Selection, *, limit: int) -> Hits:
        """Find the nearest passages, nearest first; approximate in wide scopes.

        Inside a write transaction, for whose end others wait, the projection is neither fed nor asked.

        Args:
            vector: Unit vector of the query, shape (d,).
            selection: The scope, kind and filters that passages must match.
            limit: Maximum number of passages.
        """
        is_wide = not self._ledger.database.is_writing and self.is_approximate(selection) and self._prepared()
        hits = self._wide(vector, selection, limit) if is_wide else None
        return super().search(vector, selection, limit=limit) if hits is None else hits

    def is_approximate(self, selection: Selection) -> bool:
        """See ``protocols.VectorIndex``; what makes a selection narrow the projection does not know."""
        return not selection.is_narrow and super().is_approximate(selection)

    def verify(self) -> VerificationReport:
        """See ``protocols.VectorIndex``. Waiting changes may differ, and a missing projection is no problem."""
        problems, passages, notes = Problems(), 0, list[str]()
        try:
            with self._feeder.waited_for() as is_ours:
                generation = self._ledger.outbox.state().generation
                if generation is not None and not is_ours:
                    notes.append("another process uses the vector projection: it was not looked at, call verify there")
                elif generation is not None and (self._feeder.ready or self._projection.open(generation)):
                    passages = self._compare(problems)
        except BackendError as error:
            problems.add([f"the vector projection cannot be read ({error}): rebuild('dense') makes it anew"])
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
            problems.add(f"the vector projection holds passage {id}, which is not in the store" for id in strangers)  # noqa: A001
        return passages

    def rebuild(self) -> None:
        """See ``protocols.VectorIndex``; a projection that was never used is not created."""
        super().rebuild()
        if self._at_once or self._feeder.ready or self._ledger.outbox.state().generation is not None:
            self._feeder.make_anew()

    def purge(self) -> None:
        """See ``protocols.VectorIndex``; the next wide search recreates the projection."""
        self._feeder.discard()

    def close(self) -> None:
        """See ``protocols.VectorIndex``."""
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
        try:
            self._feeder.catch_up()
        except BackendError as error:
            _logger.warning("the vector projection is not used for now, searches stay exact: %s", error)
        return self._feeder.ready

    def _wide(self, vector: Vector, selection: Selection, limit: int) -> Hits | None:
        """Search the projection and the passages it has not received; None if it cannot be relied on."""
        waiting = self._ledger.outbox.waiting(at_most=MOST_WAITING)
        if len(waiting) > MOST_WAITING:
            return None
        try:
            seen = self._nearest(vector, selection, limit, waiting=waiting)
        except BackendError as error:
            _logger.warning("the vector projection failed, and this search is exact: %s", error)
            self._feeder.distrust(error)
            return None
        if len(seen) < limit and len(seen) < self._ledger.size(selection, at_most=limit):
            return None  # it has found less than there is
        return self._best(self._ledger.eligible(selection, among=[*seen, *waiting]), vector, limit)

    def _nearest(self, vector: Vector, selection: Selection, limit: int, *, waiting: Sequence[int]) -> list[int]:
        """Search the projection for visible passages.

        Where the selection covers a good part of the store, enough of the very nearest are in it without a filter.
        """
        depths: list[tuple[Selection | None, int]] = [(None, min(times * limit, MOST_OVERSHOT)) for times in OVERSHOTS]
        seen: list[int] = []
        for filtered, depth in [*depths, (selection, limit + min(len(waiting), limit))]:
            seen = self._ledger.eligible(selection, among=self._projection.search(vector, filtered, limit=depth))
            if len(seen) >= limit:
                break
        return seen
