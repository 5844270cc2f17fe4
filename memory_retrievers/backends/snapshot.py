"""Snapshot of a scope: all that a search reads of it, as parallel arrays. It never changes; changes make a new one."""

from __future__ import annotations

import functools
import hashlib
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from memory_retrievers.backends.terms import EMPTY, TermBlock, positions_of
from memory_retrievers.errors import BackendError
from memory_retrievers.models.fields import EPOCH, MICROSECOND, Category, microseconds
from memory_retrievers.models.memories import Kind, Origin
from memory_retrievers.models.selection import Growing, Layout, Selection, Vector, Vectors
from memory_retrievers.text.analysis import analyze

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property  # noqa: PLC0414 - others take it from here
else:

    class cached_property(functools.cached_property):  # noqa: N801 - it stands in for the other
        """Without the lock that Python 3.11 holds while it makes a value, one for all objects of the class.

        Searches of several threads would wait for each other. What two make at once is made twice, and one is kept.
        """

        def __get__(self, instance, owner=None):  # noqa: ANN001, ANN204 - typed as the other
            return self if instance is None else vars(instance).setdefault(self.attrname, self.func(instance))


NEVER: Final = np.iinfo(np.int64).max  # the moment of what never ends

_UNCONDITIONAL: Final = (None, None, None, None, None, None, ())
_conditions_of: Final = attrgetter(
    *("category", "as_of", "filters.since", "filters.until", "created_after", "created_before", "origins")
)
"""What a selection asks of the columns beside its kind, and that it asks nothing of them."""

_CATEGORIES: Final = {category.value: code for code, category in enumerate(Category)}
ORIGINS: Final = {origin.value: code for code, origin in enumerate(Origin)}
UNKNOWN: Final = -1  # the code of a speaker, a category or an origin that there is not

_CHUNK: Final = 256
"""Rows per product: below the size at which BLAS wakes its threads, which costs more than it brings (measured: 8 ms
against 0.5 ms for 10,000 rows of 384)."""

_DECIMALS: Final = 6

_MOST_UNREAD: Final = 4_096
"""Characters of texts whose terms nobody has asked for; with more of them they are counted at the next addition."""


@functools.lru_cache(maxsize=1_024)
def category_code(name: str | None) -> int:
    """The number that stands for a category in a snapshot: the same in every process, also of a memory's own."""
    if name is None:
        return UNKNOWN
    own = hashlib.blake2b(name.encode(), digest_size=7)  # 56 bits: no two names of a memory share one
    return _CATEGORIES.get(name, len(_CATEGORIES) + int.from_bytes(own.digest()))


DAMAGED_VECTOR: Final = "a stored vector is damaged: run verify, which names it, and restore a backup"


def finite(matrix: Vectors) -> Vectors:
    """Check vectors to be searched, shape (n, d): one NaN among them would make the scores of all others NaN."""
    with np.errstate(all="ignore"):
        if not np.isfinite(np.vdot(matrix, matrix)):
            raise BackendError(DAMAGED_VECTOR)
    return matrix


COLUMNS: Final = {
    "ids": np.int64,
    "memories": np.int64,
    "places": np.int64,
    "speakers": np.int64,
    "tells_time": np.int8,
    "began": np.int64,
    "expires": np.int64,
    "invalid": np.int64,
    "categories": np.int64,
    "valid": np.int64,
    "created": np.int64,
    "origins": np.int8,
}
"""The columns of a snapshot and the numbers they hold."""

_LAYOUT_BYTES: Final = 96  # what the layout of all passages takes for each, and what is made of it, beside the columns

_LAID_OUT: Final = ("ids", "memories", "places", "speakers", "tells_time", "began")
_MARKED: Final = ("began", "expires", "invalid", "categories", "valid")
"""The columns that may change while a passage stays."""


@dataclass(frozen=True)
class ScopeSnapshot:
    """The n passages of a scope and its fields, whatever their state, ascending by id."""

    # arrays of shape (n,): passage id, memory row, place in the memory, code of the speaker, and whether it tells a
    # time; begin of the episode, expiry, end of validity; code of the category; begin of validity, and when the memory
    # was made; code of where it came from. Times are microseconds since 1970.
    columns: Mapping[str, Growing]
    names: tuple[str, ...]  # names of the speakers by code
    vectors: Growing  # unit vectors, shape (n, d)
    indexed: TermBlock  # the terms of all but the last of them
    is_ordered: bool = True  # whether passages of one memory are adjacent, in the order they were said
    # the texts of these last ones, whose terms are counted when somebody asks: who only writes never does
    unread: tuple[str, ...] = ()
    # what was made of this snapshot and goes with it, by name
    attached: dict[str, tuple[Any, int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def ids(self) -> NDArray[np.int64]:
        """Passage ids, ascending, shape (n,)."""
        return self.columns["ids"].array

    @property
    def memories(self) -> NDArray[np.int64]:
        """Rows of their memories, shape (n,)."""
        return self.columns["memories"].array

    @property
    def matrix(self) -> Vectors:
        """Unit vectors, shape (n, d)."""
        return self.vectors.array

    @cached_property
    def terms(self) -> TermBlock:
        """Their terms."""
        if not self.unread:
            return self.indexed
        first = len(self) - len(self.unread)
        owners = dict(zip(self.ids[first:].tolist(), self.memories[first:].tolist(), strict=True))
        return self.indexed.appended(owners, [Counter(analyze(text)) for text in self.unread])

    @property
    def size(self) -> int:
        """Size in bytes."""
        columns = sum(column.size for column in self.columns.values()) + _LAYOUT_BYTES * len(self)
        counted: TermBlock = self.__dict__.get("terms", self.indexed)
        terms = counted.size + sum(map(sys.getsizeof, self.unread))
        attached = sum(size for _, size in self.attached.values())
        return columns + self.vectors.size + terms + sum(map(sys.getsizeof, self.names)) + attached

    def visible(self, selection: Selection, *, matching: Sequence[int] | None = None) -> NDArray[np.bool_]:
        """Mask of the passages that a selection lets through, shape (n,).

        ``matching`` has the rows of the memories that fit, where the ledger has checked all filters.
        """
        if matching is not None:
            return np.isin(self.memories, np.array(matching, np.int64))
        now = (selection.now - EPOCH) // MICROSECOND
        if now < self._all_until and _conditions_of(selection) == _UNCONDITIONAL:
            return self._everything
        mask: NDArray[np.bool_] = self.columns["expires"].array > now
        if selection.as_of is None:
            mask &= self.columns["invalid"].array == NEVER
        else:
            moment = microseconds(selection.as_of)
            mask &= (self.columns["valid"].array <= moment) & (self.columns["invalid"].array > moment)
        if selection.category is not None:
            mask &= self.columns["categories"].array == category_code(selection.category.value)
        if selection.origins:
            mask &= np.isin(self.columns["origins"].array, [ORIGINS[origin.value] for origin in selection.origins])
        created = self.columns["created"].array
        happened = self.columns["began"].array if selection.kind is Kind.EPISODIC else created
        of_all = (created, selection.created_after, selection.created_before)
        for times, first, last in ((happened, selection.filters.since, selection.filters.until), of_all):
            if first is not None:
                mask &= times >= microseconds(first)
            if last is not None:
                mask &= times <= microseconds(last)
        return mask

    @cached_property
    def _all_until(self) -> int:
        """The moment until which all passages are visible, in microseconds since 1970: 0 if one is not any more."""
        return _all_until({name: self.columns[name].array for name in ("expires", "invalid")})

    @cached_property
    def _everything(self) -> NDArray[np.bool_]:
        return np.ones(len(self), np.bool_)

    def layout(self, mask: NDArray[np.bool_]) -> tuple[Layout, NDArray[np.int64] | slice]:
        """Group the m passages of a mask, shape (n,), by memory.

        Their positions in this snapshot, shape (m,), are given beside the layout; a slice if these are all.
        """
        if self.is_ordered and (mask is self._everything or mask.all()):
            return self._whole, slice(None)  # what most searches see
        positions = np.flatnonzero(mask) if self.is_ordered else self._order[mask[self._order]]
        columns = {name: self.columns[name].array[positions] for name in _LAID_OUT}
        names = self.names
        if len(positions) < len(self):  # only those who said something of it are known by name
            columns["speakers"], names = _renamed(columns["speakers"], names)
        return laid_out(columns, names), positions

    @cached_property
    def _whole(self) -> Layout:
        return laid_out({name: self.columns[name].array for name in _LAID_OUT}, self.names)

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        return np.lexsort((self.ids, self.columns["places"].array, self.memories))

    def without(self, passages: NDArray[np.int64]) -> ScopeSnapshot:
        """Return a snapshot without these passages, shape (m,): nothing of them is left in its arrays."""
        stays = ~np.isin(self.ids, passages)
        if stays.all():
            return self
        columns = {name: column.array[stays] for name, column in self.columns.items()}
        columns["speakers"], names = _renamed(columns["speakers"], self.names)
        return ScopeSnapshot(
            columns={name: Growing(column) for name, column in columns.items()},
            names=names,
            vectors=Growing(self.matrix[stays]),
            indexed=self.terms.without(passages),
            is_ordered=is_ordered(columns["memories"], columns["places"]),
        )

    def apart(self) -> ScopeSnapshot:
        """The same snapshot; what is appended to it is written to arrays of its own."""
        columns = {name: Growing(column.array) for name, column in self.columns.items()}
        return replace(self, columns=columns, vectors=Growing(self.matrix))

    def caught_up(self, fresh: Passages, *, changed: Sequence[int] | None) -> tuple[ScopeSnapshot, Passages]:
        """Take out what is gone and mark what has changed; also give those of ``fresh`` that it does not have yet.

        ``fresh`` are the passages that there are now of the memories in the rows ``changed``, ascending; None are all.
        """
        if not len(self) or (changed and self.is_ordered and changed[0] > self.memories[-1]):
            return self, fresh
        is_concerned = np.True_ if changed is None else np.isin(self.memories, np.array(changed, np.int64))
        if not is_concerned.any():
            return self, fresh
        snapshot = self.without(self.ids[is_concerned & ~np.isin(self.ids, fresh.columns["ids"])])
        positions, is_known = positions_of(fresh.columns["ids"], snapshot.ids)
        marked = dict(snapshot.columns)
        for name in _MARKED:
            now = fresh.columns[name][is_known]
            if not np.array_equal(marked[name].array[positions[is_known]], now):
                column = marked[name].array.copy()
                column[positions[is_known]] = now
                marked[name] = Growing(column)
        return replace(snapshot, columns=marked), fresh.taken(~is_known)

    def appended(self, new: Passages, matrix: Vectors, texts: Sequence[str]) -> ScopeSnapshot:
        """Return a snapshot with further passages, whose ids are higher than all in this one.

        Args:
            new: The k passages, ascending by id.
            matrix: Their unit vectors, shape (k, d).
            texts: Their texts.
        """
        is_read = "terms" in self.__dict__ or sum(map(len, self.unread)) > _MOST_UNREAD
        codes = {name: code for code, name in enumerate(self.names)}
        named = np.array([codes.setdefault(name, len(codes)) for name in new.names], np.int64)
        columns = dict(new.columns)
        if len(named):
            columns["speakers"] = np.where(columns["speakers"] < 0, -1, named[columns["speakers"]])
        grown = {name: self.columns[name].appended(columns[name]) for name in COLUMNS}
        first = max(len(self) - 1, 0)
        memories, places = grown["memories"].array[first:], grown["places"].array[first:]
        snapshot = ScopeSnapshot(
            columns=grown,
            names=tuple(codes),
            vectors=self.vectors.appended(matrix),
            indexed=self.terms if is_read else self.indexed,
            is_ordered=self.is_ordered and is_ordered(memories, places),
            unread=(*texts,) if is_read else (*self.unread, *texts),
        )
        former: Layout | None = vars(self).get("_whole")
        if former is not None and snapshot.is_ordered and memories[0] < memories[1:].min(initial=NEVER):
            snapshot._whole.grow(former, laid_out(columns, snapshot.names))
            vars(snapshot)["_all_until"] = min(self._all_until, _all_until(columns))
        return snapshot


@dataclass(frozen=True, slots=True)
class Passages:
    """Passages as read from the tables, ascending by id."""

    columns: dict[str, NDArray[Any]]  # as in a snapshot, shape (n,)
    names: tuple[str, ...]  # names of the speakers by code
    vectors: list[Any]  # their vectors as the database gives them; empty if they were not read
    texts: list[str] = field(default_factory=list)  # their texts, likewise

    def taken(self, mask: NDArray[np.bool_]) -> Passages:
        """Those of a mask of shape (n,), without vectors and texts."""
        return Passages({name: column[mask] for name, column in self.columns.items()}, self.names, [])


NOTHING: Final = ScopeSnapshot(
    {name: Growing(np.empty(0, numbers)) for name, numbers in COLUMNS.items()},
    (),
    Growing(np.empty((0, 0), np.float32)),
    EMPTY,
)
"""The snapshot of a scope that holds nothing."""


def similarities(matrix: Vectors, vector: Vector) -> NDArray[np.float32]:
    """Cosines, of shape (n,), of unit vectors of shape (n, d) with one of shape (d,)."""
    cosines = np.empty(len(matrix), np.float32)
    rest = len(matrix) // _CHUNK * _CHUNK
    if rest:  # one call for all chunks: between two calls each would wait for the interpreter's lock
        chunks = matrix[:rest].reshape(-1, _CHUNK, matrix.shape[1])
        np.matmul(chunks, vector, out=cosines[:rest].reshape(-1, _CHUNK))
    if rest < len(matrix):
        np.dot(matrix[rest:], vector, out=cosines[rest:])
    return cosines


def rounded(cosines: NDArray[np.float32]) -> NDArray[np.float32]:
    """Round cosines, so that equal vectors have equal ones in any block: shape (n,) in and out."""
    return cosines.round(_DECIMALS)


def laid_out(columns: Mapping[str, NDArray[Any]], names: tuple[str, ...]) -> Layout:
    """Layout of m passages in the order of their memories: columns of shape (m,)."""
    passages, memories, places, speakers, tells_time, began = (columns[name] for name in _LAID_OUT)
    return Layout(passages, memories, places, speakers, tells_time.view(np.bool_), began, names)


def _all_until(columns: Mapping[str, NDArray[Any]]) -> int:
    return int(columns["expires"].min(initial=NEVER)) if (columns["invalid"] == NEVER).all() else 0


def _renamed(codes: NDArray[np.int64], names: tuple[str, ...]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Leave out the names that stand for nobody; codes have shape (n,) in and out, -1 for none."""
    present = np.unique(codes[codes >= 0])
    return np.where(codes < 0, -1, np.searchsorted(present, codes)), tuple(names[code] for code in present.tolist())


def is_ordered(memories: NDArray[np.int64], places: NDArray[np.int64]) -> bool:
    """True if passages come by memory and, within it, by place; both of shape (n,)."""
    later = (memories[1:] == memories[:-1]) & (places[1:] > places[:-1])
    return bool(((memories[1:] > memories[:-1]) | later).all())
