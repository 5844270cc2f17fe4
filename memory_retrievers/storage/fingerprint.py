"""What an embedder is known again by: its name, and what is noted of its vector of a fixed sentence."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from memory_retrievers.models.selection import Vector

PROBE: Final = "The quick brown fox jumps over the lazy dog."
"""The sentence."""

_FIRST: Final = 16
"""So many numbers of the vector are all that older stores and exports know; of a sparse vector they may all be 0."""
_SUMS: Final = 64
"""A power of two, and not 16. The cosine of two lists of sums is that of the vectors within (1 - cosine²) / 8, one
standard deviation; the list takes 0.6 kB, and a whole vector of 4,096 numbers would take 50 kB at every search."""
_PROBE_MIN_COSINE: Final = 0.95
"""Quantised models vary a little between processors; another model is nowhere near."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Identifies an embedder by its name and its vector of a fixed sentence.

    Attributes:
        embedder_id: Its name.
        dimension: How many numbers its vectors have.
        sums: What is noted of the vector: sums of all its numbers, each time with other signs, or the vector itself
            where it is short; None if an older version took the fingerprint.
        first: Its first numbers, which older versions noted instead; None if only ``sums`` are known.
    """

    embedder_id: str
    dimension: int
    sums: tuple[float, ...] | None
    first: tuple[float, ...] | None

    @classmethod
    def of(cls, embedder_id: str, vector: Vector) -> Fingerprint:
        """Compute the fingerprint of an embedder from its vector of the fixed sentence, shape (d,)."""
        first = tuple(float(number) for number in vector[:_FIRST])
        return cls(embedder_id, len(vector), first if len(vector) <= _FIRST else _signed_sums(vector), first)

    @classmethod
    def noted(cls, notes: Mapping[str, str]) -> Fingerprint | None:
        """Read the fingerprint from the metadata of a store; None if there is none."""
        if "embedder_id" not in notes:
            return None
        dimension, probe = int(notes["dimension"]), tuple(json.loads(notes["probe"]))
        if dimension <= _FIRST:
            return cls(notes["embedder_id"], dimension, probe, probe)
        is_old = len(probe) <= _FIRST
        return cls(notes["embedder_id"], dimension, None if is_old else probe, probe if is_old else None)

    def notes(self) -> dict[str, str]:
        """Return the fingerprint as metadata of a store."""
        return {
            "embedder_id": self.embedder_id,
            "dimension": str(self.dimension),
            "probe": json.dumps(self.first if self.sums is None else self.sums),
        }

    def has_vectors_like(self, other: Fingerprint) -> bool:
        """Return True if the vectors of both can be compared, whatever their names.

        An old note and a new one have nothing to be compared by; the first embedding will tell.
        """
        if self.dimension != other.dimension:
            return False
        for ours, theirs in ((self.sums, other.sums), (self.first, other.first)):
            if ours is not None and theirs is not None:
                return _cosine(ours, theirs) >= _PROBE_MIN_COSINE
        return True


def _signed_sums(vector: Vector) -> tuple[float, ...]:
    """Project a vector by signs from the bits of a hash, which are the same on every machine and version."""
    import numpy as np  # here, so that importing the package loads no numpy

    numbers = np.asarray(vector, dtype=np.float64)
    bits = hashlib.shake_256(b"memory-retrievers probe").digest(len(numbers) * _SUMS // 8)
    signs = np.unpackbits(np.frombuffer(bits, dtype=np.uint8)).reshape(len(numbers), _SUMS) * 2.0 - 1.0
    return tuple(round(float(each), 5) for each in numbers @ signs / (np.linalg.norm(numbers) or 1.0))


def _cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """Cosine of two vectors; two zero vectors, as old stores have of sparse embedders, count as equal."""
    if len(left) != len(right):
        return 0.0
    if not any(left) and not any(right):
        return 1.0
    product = sum(a * b for a, b in zip(left, right, strict=True))
    return product / (math.hypot(*left) * math.hypot(*right) or 1.0)
