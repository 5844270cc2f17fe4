"""The embedder of a store: told by its name and by the vector of a probe, and never mixed with another."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from memory_retrievers.errors import EmbeddingMismatchError
from memory_retrievers.protocols import Embedder, Ledger

if TYPE_CHECKING:
    from memory_retrievers.passages import Vector, Vectors

_PROBE: Final = "The quick brown fox jumps over the lazy dog."
_PROBE_COMPONENTS: Final = 16
_PROBE_MIN_COSINE: Final = 0.95
"""Quantised models vary a little between processors; another model is nowhere near."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What tells one embedder from another.

    Attributes:
        embedder_id: Its name.
        dimension: How many numbers its vectors have.
        probe: The first numbers of the vector of a sentence that is always the same.
    """

    embedder_id: str
    dimension: int
    probe: tuple[float, ...]

    @classmethod
    def noted(cls, notes: Mapping[str, str]) -> Fingerprint | None:
        """The one that stands in the notes of a store, or None."""
        if "embedder_id" not in notes:
            return None
        return cls(notes["embedder_id"], int(notes["dimension"]), tuple(json.loads(notes["probe"])))

    def notes(self) -> dict[str, str]:
        """As it stands in the notes of a store."""
        return {
            "embedder_id": self.embedder_id,
            "dimension": str(self.dimension),
            "probe": json.dumps(self.probe),
        }

    def has_vectors_like(self, other: Fingerprint) -> bool:
        """Whether vectors of both can be compared, whatever the names."""
        return self.dimension == other.dimension and _cosine(self.probe, other.probe) >= _PROBE_MIN_COSINE


class _State(NamedTuple):
    """Which vectors a store holds: how often all were made anew, and the probe of the embedder they are from."""

    reembedded: int
    probe: str | None

    @classmethod
    def noted(cls, notes: Mapping[str, str]) -> _State:
        return cls(int(notes.get("reembedded", 0)), notes.get("probe"))


@dataclass(frozen=True, slots=True)
class ProbedEmbedder:
    """An embedder with its fingerprint, whose vectors all have the dimension of the probe's."""

    embedder: Embedder
    fingerprint: Fingerprint
    state: _State | None = None

    @classmethod
    def probed(cls, embedder: Embedder) -> ProbedEmbedder:
        """Take the fingerprint of an embedder, which embeds for the first time.

        Raises:
            EmbeddingError: It failed.
        """
        probe = embedder.embed_query(_PROBE)
        components = tuple(float(component) for component in probe[:_PROBE_COMPONENTS])
        return cls(embedder, Fingerprint(embedder.id, len(probe), components))

    def embed_query(self, query: str) -> Vector:
        """The vector of a question.

        Raises:
            EmbeddingError: The embedder failed.
            EmbeddingMismatchError: The vector has another dimension than the probe's.
        """
        vector = self.embedder.embed_query(query)
        self._require_dimension(len(vector))
        return vector

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One vector per text; errors as for :meth:`embed_query`."""
        vectors = self.embedder.embed_documents(texts)
        self._require_dimension(vectors.shape[1])
        return vectors

    def _require_dimension(self, dimension: int) -> None:
        if dimension != self.fingerprint.dimension:
            raise EmbeddingMismatchError(
                f"the embedder {self.embedder.id!r} gave a vector of {dimension} numbers, and before "
                f"{self.fingerprint.dimension}: use a model whose vectors all have the same length"
            )


class StoreEmbedder:
    """The embedder a store is filled with and searched by.

    Whoever embeds takes :meth:`current`, and asks :meth:`holds` or :meth:`admits` once the vectors have been used:
    all vectors of the store may have been made anew meanwhile, here or by the process that writes it.

    Args:
        ledger: Whose notes say what the store was filled with.
        embedder: Must be that one.
        forget_vectors: Drops what indexes remember of vectors.

    Raises:
        EmbeddingMismatchError: The store was filled with an embedder of another id.
    """

    def __init__(self, ledger: Ledger, embedder: Embedder, *, forget_vectors: Callable[[], None]) -> None:
        self._ledger = ledger
        self._embedder = embedder
        self._forget_vectors = forget_vectors
        self._known: ProbedEmbedder | None = None
        self._lock = threading.Lock()
        # Not set while the ledger's vectors may already be the new ones, and the embedder still the old one.
        self._settled = threading.Event()
        self._settled.set()
        self.being_replaced = threading.Lock()
        _refuse_other_name(Fingerprint.noted(ledger.notes()), embedder.id)

    @property
    def id(self) -> str:
        """The embedder's name."""
        return self._embedder.id

    def current(self) -> ProbedEmbedder:
        """The embedder, compared with the vectors the store holds now.

        Its name is known when the store is opened; its vectors only now, so that opening loads no model.

        Raises:
            EmbeddingError: The embedder failed.
            EmbeddingMismatchError: The store holds vectors of another one.
        """
        while True:
            known, notes = self._known, self._ledger.notes()
            if known is not None and known.state == _State.noted(notes):
                return known
            self._settled.wait()
            with self._lock:
                if self._known is known:  # else it changed since the notes were read
                    self._known = self._checked(notes)

    def holds(self, embedder: ProbedEmbedder) -> bool:
        """Whether the store still holds the vectors it held when :meth:`current` gave this embedder."""
        return embedder.state == _State.noted(self._ledger.notes())

    def admits(self, embedder: ProbedEmbedder) -> bool:
        """The same, inside a transaction that stores its vectors; it is noted with the first of them."""
        notes = self._ledger.notes()
        if embedder.state != _State.noted(notes):
            return False
        if "embedder_id" in notes:
            return True
        own = embedder.fingerprint.notes()
        self._ledger.write_notes(own, replace=False)  # another process may store its first vectors elsewhere
        return own.items() <= self._ledger.notes().items()

    def replace(self, embedder: ProbedEmbedder, take_over: Callable[[], bool]) -> bool:
        """Make another embedder the store's, in one transaction with the vectors it made.

        Args:
            embedder: The new one.
            take_over: Puts its vectors in the place of the old ones; False if that cannot be done yet.

        Returns:
            What ``take_over`` gave.
        """
        self._settled.clear()
        try:
            with self._ledger.transaction():
                if not take_over():
                    return False
                reembedded = _State.noted(self._ledger.notes()).reembedded + 1
                notes = {**embedder.fingerprint.notes(), "reembedded": str(reembedded)}
                self._ledger.write_notes(notes)
            try:
                self._forget_vectors()
            finally:
                with self._lock:
                    self._embedder = embedder.embedder
                    self._known = ProbedEmbedder(embedder.embedder, embedder.fingerprint, _State.noted(notes))
        finally:
            self._settled.set()
        return True

    def _checked(self, notes: Mapping[str, str]) -> ProbedEmbedder:
        noted, state = Fingerprint.noted(notes), _State.noted(notes)
        _refuse_other_name(noted, self._embedder.id)
        probed = self._known or ProbedEmbedder.probed(self._embedder)
        _refuse_other_vectors(noted, probed.fingerprint)
        if probed.state is not None and probed.state.reembedded != state.reembedded:
            self._forget_vectors()  # the process that writes the store has made all vectors anew
        return ProbedEmbedder(probed.embedder, probed.fingerprint, state)


def _refuse_other_name(noted: Fingerprint | None, embedder_id: str) -> None:
    if noted is not None and noted.embedder_id != embedder_id:
        raise EmbeddingMismatchError(
            f"this store was filled with the embedder {noted.embedder_id!r}, not {embedder_id!r}: open it with that "
            f"one (or, if it is the same model under another name, with embedder_id={noted.embedder_id!r}). "
            f"{_way_to_another(noted)}"
        )


def _refuse_other_vectors(noted: Fingerprint | None, given: Fingerprint) -> None:
    if noted is None or noted.has_vectors_like(given):
        return
    problem = (
        f"vectors of {given.dimension} numbers, and this store holds {noted.dimension}"
        if given.dimension != noted.dimension
        else "other vectors than the ones this store was filled with"
    )
    raise EmbeddingMismatchError(
        f"the embedder {given.embedder_id!r} gives {problem}: open the store with the embedder it was filled with. "
        f"{_way_to_another(noted)}"
    )


def _way_to_another(noted: Fingerprint) -> str:
    return (
        f"To move it to another embedder, even without the old one: AgentMemory.open(path, embedder=new, "
        f"embedder_id={noted.embedder_id!r}), then memory.reembed(new)"
    )


def _cosine(left: Sequence[float], right: Sequence[float]) -> float:
    product = sum(a * b for a, b in zip(left, right, strict=True))
    return product / (math.hypot(*left) * math.hypot(*right) or 1.0)
