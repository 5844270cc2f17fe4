"""Term blocks of the scopes that were searched last, brought up to date with the ledger before each use."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from memory_retrievers.backends.term_block import EMPTY, Postings, TermBlock, block_of
from memory_retrievers.passages import Selection
from memory_retrievers.protocols import Ledger
from memory_retrievers.text import analyze

if TYPE_CHECKING:
    from numpy.typing import NDArray

REMEMBERED_PASSAGES: Final = 200_000
"""How many passages may be remembered in all; about half a kilobyte each."""

_FEW: Final = 256
"""Up to so many new passages are taken from their texts, where there are stored postings: a scope's are read whole."""

ReadPostings: TypeAlias = Callable[[Selection], Postings]

_Key: TypeAlias = tuple[str, bool, tuple[str, ...]]


class _Entry:
    """A block, with the answers of the ledger that it was last compared with: what has not changed is the same list."""

    __slots__ = ("block", "indexed", "visible")

    def __init__(self, block: TermBlock, indexed: list[int]) -> None:
        self.block = block
        self.indexed = indexed
        self.visible: tuple[list[int], NDArray[np.bool_]] | None = None


class TermCache:
    """The term blocks of selections.

    Args:
        ledger: Where the passages are.
        read: Reads the stored postings of all passages of a selection's scope and fields; None where there are none,
            and texts are analyzed.
    """

    def __init__(self, ledger: Ledger, *, read: ReadPostings | None = None) -> None:
        self._ledger = ledger
        self._read = read
        self._lock = threading.Lock()
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        self._size = 0
        self._forgotten = 0  # how often something was

    def block(self, selection: Selection) -> TermBlock:
        """All passages of the selection's scope and fields, whatever their state."""
        return self._entry(selection).block

    def visible(self, selection: Selection) -> tuple[TermBlock, NDArray[np.bool_]]:
        """The same, and which of them the selection lets through."""
        entry = self._entry(selection)
        eligible = self._ledger.eligible(selection)
        known = entry.visible
        if known is None or known[0] is not eligible:
            entry.visible = known = eligible, entry.block.among(np.array(eligible, np.int64))
        return entry.block, known[1]

    def remembers(self, block: TermBlock) -> bool:
        """Whether this is what the next search will start from, so that it holds nothing that was forgotten."""
        with self._lock:
            return any(entry.block is block for entry in self._entries.values())

    def forget(self, passages: Sequence[int]) -> None:
        """Keep nothing of these passages."""
        gone = np.array(passages, np.int64)
        with self._lock:
            self._forgotten += 1
            for key, entry in list(self._entries.items()):
                block = entry.block.without(gone)
                if block is not entry.block:
                    self._put(key, _Entry(block, block.ids.tolist()))

    def clear(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._forgotten += 1
            self._entries.clear()
            self._size = 0

    def _entry(self, selection: Selection) -> _Entry:
        key = (selection.scope, selection.include_child_scopes, selection.fields)
        forgotten = self._forgotten
        indexed = self._ledger.indexed(_whole(selection))
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
        if entry is not None and entry.indexed is indexed:
            return entry
        block = self._current(EMPTY if entry is None else entry.block, selection, indexed)
        entry = _Entry(block, indexed)
        with self._lock:
            if forgotten == self._forgotten:  # else something of it may have been read before that
                self._put(key, entry)
        return entry

    def _put(self, key: _Key, entry: _Entry) -> None:
        replaced = self._entries.get(key)
        self._size += _cost(entry) - (0 if replaced is None else _cost(replaced))
        self._entries[key] = entry
        while self._size > REMEMBERED_PASSAGES and len(self._entries) > 1:
            self._size -= _cost(self._entries.popitem(last=False)[1])

    def _current(self, block: TermBlock, selection: Selection, indexed: Sequence[int]) -> TermBlock:
        """The block with the passages that have come, and without those that have gone."""
        # 1. What has gone. A passage that comes before one that is here was moved from another scope: all is read.
        wanted = np.array(indexed, np.int64)
        block = block.without(np.setdiff1d(block.ids, wanted, assume_unique=True))
        if not np.array_equal(block.ids, wanted[: len(block.ids)]):
            block = EMPTY
        # 2. What has come.
        new = indexed[len(block.ids) :]
        if not new:
            return block
        if self._read is not None and len(new) > _FEW:
            return self._stored(self._read, selection, indexed)
        return self._analyzed(block, new)

    def _stored(self, read: ReadPostings, selection: Selection, indexed: Sequence[int]) -> TermBlock:
        block = block_of(self._owners(indexed), read(selection))
        # Of a passage that a transaction is about to remove there is nothing left, and that may yet be undone.
        without = block.ids[block.lengths == 0].tolist()
        if any(analyze(text) for text in self._ledger.texts(without).values()):
            return self._analyzed(EMPTY, indexed)
        return block

    def _analyzed(self, block: TermBlock, new: Sequence[int]) -> TermBlock:
        texts = self._ledger.texts(new)
        owners = {passage: row for passage, row in self._owners(new).items() if passage in texts}
        return block.appended(owners, [Counter(analyze(texts[passage])) for passage in owners])

    def _owners(self, passages: Sequence[int]) -> dict[int, int]:
        """The rows of the memories that they belong to, in this order; what is gone meanwhile is left out."""
        owners = self._ledger.owners(passages)
        return {passage: owners[passage] for passage in passages if passage in owners}


def _whole(selection: Selection) -> Selection:
    """The scope and fields alone, for which the ledger gives the list that it remembers."""
    return Selection(
        scope=selection.scope,
        kind=selection.kind,
        now=selection.now,
        include_child_scopes=selection.include_child_scopes,
        every_passage=selection.every_passage,
    )


def _cost(entry: _Entry) -> int:
    return 1 + len(entry.block.ids)
