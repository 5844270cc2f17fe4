"""Cache of the snapshots of scopes: how each is loaded, catches up with what has changed, and is evicted.

A snapshot is loaded by the first search of its scope, catches up before each further one (passages are appended or
taken out, rows are marked), and is evicted when there is no room for it or something in it has been forgotten. A
search goes on with the one it has.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from memory_retrievers.backends.snapshot import NOTHING, Passages, ScopeSnapshot, finite, is_ordered
from memory_retrievers.backends.sql.connection import Connection, ScopeState
from memory_retrievers.backends.sql.passages import StoredPassages, changed_since
from memory_retrievers.backends.sql.rows import BELOW, below
from memory_retrievers.backends.terms import EMPTY, TermBlock, block_of
from memory_retrievers.errors import MemoryRetrieversError
from memory_retrievers.models import Kind, scopes
from memory_retrievers.models.selection import NO_LABELS, Growing, Selection, labels_of
from memory_retrievers.models.storage import OpenPlace
from memory_retrievers.settings import SNAPSHOT_BYTES
from memory_retrievers.text.analysis import analyze
from memory_retrievers.text.languages import forget_words

ValueT = TypeVar("ValueT")
_Key: TypeAlias = tuple[str, bool, Kind, bool]
_Versions: TypeAlias = dict[int, int]
_FIELDS: Final = tuple((kind, is_wide) for kind in Kind for is_wide in (False, True))

LOOK_AFTER: Final = 2.0
"""Seconds between looks at what others have changed, and without a search, after which a snapshot is looked at."""

_FEW: Final = 256
"""Up to so many new passages are analyzed from their texts; for more of them the stored postings are read whole."""

_AT_ONCE: Final = 64  # passages of up to so many new memories are read with their vectors and texts, by one statement
_GROWN: Final = 8  # memories that a write changes at most for the snapshots to grow by it at once
_ENTRY_BYTES: Final = 2_000  # what a snapshot takes beside its arrays' contents

_PASSAGE_BYTES: Final = 130
_TERM_BYTES: Final = 16
"""What a passage and a term in it take at most, beside the vector; for the size of what is not loaded yet."""

_SMALL: Final = 500_000
"""Expected bytes up to which a snapshot is loaded inside a transaction as well, which takes a few milliseconds."""

_WIDE: Final = 5_000
"""Passages from which on numpy's own part of a search, without the interpreter's lock, is the larger one."""

_CORES: Final = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

_PATIENCE: Final = 0.25  # seconds that a search waits for its turn; then it goes on beside the others


class _Entry:
    """A snapshot with the state of the tables that it shows; the lock is held by who brings it up to date.

    It lacks what was deleted since, until it has caught up: what has come in its place belongs to the same change.
    """

    __slots__ = (
        *("history", "is_searched", "is_torn", "lock", "looked"),
        *("selection", "size", "snapshot", "used", "versions"),
    )

    def __init__(self, selection: Selection, history: object) -> None:
        self.selection = selection
        self.history = history  # in another one versions may have been given anew, to other changes
        self.looked: _Versions | None = None
        self.lock = threading.Lock()
        self.snapshot = NOTHING
        self.versions: _Versions | None = None
        self.is_torn = False
        self.is_searched = True
        self.size = 0
        self.used = time.monotonic()


class _OfThread(threading.local):
    turn: threading.Lock | threading.Semaphore | None = None  # the one that a thread has
    is_comparing = False  # whether it reads for a write


class Snapshots:
    """LRU cache of the snapshots of scopes, bounded by the bytes that all may take together.

    Attributes:
        before_load: Called with what names a snapshot, and what loads it, before one that is not small is loaded inside
            a transaction, where it is not kept; it may raise, to have it loaded outside.
        takes_turns: Whether the database answers at once, in this process, so that a search loses nothing while
            another one waits for its turn.
        forgetting: What is called when something was forgotten, here or by another process.
    """

    def __init__(self, passages: StoredPassages) -> None:
        self._passages = passages
        self.most = SNAPSHOT_BYTES
        self.before_load: Callable[[Hashable, Callable[[], object]], None] = lambda _key, _load: None
        self.takes_turns = passages.database.answers_at_once
        self.forgetting: list[Callable[[], None]] = [forget_words]
        self._narrow, self._wide = threading.Lock(), threading.Semaphore(_CORES)
        self._local = _OfThread()
        self._lock = threading.Lock()
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        self._size = 0
        self._evictions = 0
        self._forgotten = object()  # another one each time
        self._vector_bytes = 0
        self._watcher: threading.Thread | None = None
        self._closing = threading.Event()

    def of(self, selection: Selection, *, at_any_size: bool = False) -> ScopeSnapshot | None:
        """Snapshot of the passages of a selection's scope and fields, as they are now; None if too large to be kept.

        ``at_any_size`` also makes one that is.
        """
        database = self._passages.database
        states, key = database.states_read(), _key(selection)
        evictions = self._evictions  # before the snapshot: what is forgotten from here on is in it
        if states is not None and (state := states.get(key[:2])) is not None:
            before, known = state.snapshots.get(key[2:], (-1, None))
            if before != evictions:
                known = None if (entry := self._entry(selection)) is None else self._shown(entry, state.versions)
            if known is not None:
                state.snapshots[key[2:]] = evictions, known
                return known
        with self.analyzing(), database.reading(), database.read() as connection:
            versions = _versions_of(connection, selection)
            if not versions:
                return NOTHING
            entry = self._entry(selection)
            if entry is None:
                size = self._expected_size(selection)
                if size > self.most and not at_any_size:
                    return None
                if connection.in_transaction and size > _SMALL:
                    self.before_load(key, lambda: self.of(selection, at_any_size=at_any_size))
                entry = _Entry(selection, database.history)
            if (shown := self._shown(entry, versions)) is None:
                self._give_up_turn()  # reading takes long, and another thread may be waited for
                is_open = not connection.is_settled(key[0], include_child_scopes=key[1])
                with entry.lock:
                    shown = self._current(selection, entry, versions, is_open=is_open)
            if connection.states is not None and (state := connection.states.get(key[:2])) is not None:
                state.snapshots[key[2:]] = evictions, shown
            return shown

    def grow(self, scope: str) -> None:
        """Let the snapshots of a scope catch up with what this thread has just written there, if that is little.

        One that nobody has searched since it last grew is left to its next search: many writes in a row cost one.
        """
        database = self._passages.database
        if not self.takes_turns or database.is_writing:
            return
        places = [(scope, False), *((above, True) for above in scopes.lineage(scope))]
        keys = [(*place, *fields) for place in places for fields in _FIELDS]
        with self._lock:
            entries = [entry for key in keys if (entry := self._entries.get(key)) is not None and entry.is_searched]
        if not entries:
            return
        asked: dict[str, set[int] | None] = {}
        with contextlib.suppress(MemoryRetrieversError), self.analyzing(), database.reading():  # a search would say so
            for entry in entries:
                with database.read() as connection:  # first: a search holds the only connection of a store in memory
                    if connection.in_transaction or not entry.lock.acquire(blocking=False):
                        continue  # a search is at it, which a write does not wait for
                    try:
                        now = _versions_of(connection, entry.selection)
                        between = f"{entry.versions} {now}"
                        if between not in asked:
                            asked[between] = changed_since(connection, entry.versions or {}, now)
                        if (changed := asked[between]) and len(changed) <= _GROWN:
                            _ = self._current(entry.selection, entry, now, changed=changed).terms  # for the next search
                            entry.is_searched = False
                    finally:
                        entry.lock.release()

    @contextlib.contextmanager
    def comparing(self) -> Iterator[None]:
        """Read for a write of this thread, which is no search that the snapshots should grow for."""
        self._local.is_comparing = True
        try:
            with self.analyzing():
                yield
        finally:
            self._local.is_comparing = False

    @contextlib.contextmanager
    def turn(self, passages: int | None) -> Iterator[None]:
        """Let few searches run at once, of a scope of so many passages; None if nobody knows.

        Threads that hand the interpreter's lock to each other at every statement and every product of a search get less
        done together than one alone. Small scopes are searched one at a time, others by as many threads as there are
        cores: at every step, since one more thread takes the lock from them.
        """
        turns = self._wide if passages is None or passages >= _WIDE else self._narrow
        is_free = not self.takes_turns or self._passages.database.is_writing  # others wait for this thread
        if is_free or self._local.turn or not turns.acquire(timeout=_PATIENCE):
            yield
            return
        self._local.turn = turns
        try:
            yield
        finally:
            self._give_up_turn()

    def loaded(self, scope: str, *, include_child_scopes: bool) -> int | None:
        """Passages of the largest snapshot of a scope, of either kind; None if none is loaded."""
        entries = [self._entries.get((scope, include_child_scopes, *fields)) for fields in _FIELDS]
        return max([len(each.snapshot) for each in entries if each is not None], default=None)

    def _give_up_turn(self) -> None:
        if (turns := self._local.turn) is not None:
            self._local.turn = None
            turns.release()

    def seen(self, selection: Selection) -> tuple[ScopeSnapshot, NDArray[np.bool_]] | None:
        """Snapshot of n passages and a mask (n,) of those that a selection lets through; None if it is too large."""
        snapshot = self.of(selection)
        if snapshot is None:
            return None
        matching = self._passages.matching(selection) if labels_of(selection) != NO_LABELS else None
        return snapshot, snapshot.visible(selection, matching=matching)

    def attach(
        self, snapshot: ScopeSnapshot, name: str, make: Callable[[], ValueT], size: Callable[[ValueT], int]
    ) -> ValueT:
        """Return what was made of a snapshot by this name, or make it; it goes with the snapshot.

        Args:
            snapshot: The snapshot.
            name: Name of what is made.
            make: Makes it.
            size: Bytes that it takes.
        """
        known = snapshot.attached.get(name)
        if known is None:
            value = make()
            known = snapshot.attached.setdefault(name, (value, size(value)))
            with self._lock:
                for key, entry in list(self._entries.items()):
                    if entry.snapshot is snapshot:
                        self._measure(key, entry)
                        self._evict()
        return known[0]  # type: ignore[no-any-return]

    def forget_words(self) -> None:
        """Remember no word and no question: each may say what was forgotten."""
        self._forgotten = object()
        for forget in self.forgetting:
            forget()

    @contextlib.contextmanager
    def analyzing(self) -> Iterator[None]:
        """Analyze what is read from the store, and remember no word of what is forgotten before this ends."""
        before = self._forgotten
        try:
            yield
        finally:
            if self._forgotten is not before:  # what was read before that may have been analyzed after it
                for forget in self.forgetting:
                    forget()

    def forget(self, passages: Sequence[int] | None) -> None:
        """Leave nothing of these passages in memory, or of any; also not of what is being loaded now."""
        self.forget_words()
        with self._lock:
            self._evictions += 1
            if passages is None:
                self._entries.clear()
                self._size = self._vector_bytes = 0
                return
            gone = np.array(sorted(passages), np.int64)
            for key, entry in list(self._entries.items()):
                self._take_out(key, entry, gone)

    def let_go_of_forgotten(self, *, idle: float) -> None:
        """Leave nothing of what others have deleted in the snapshots that nobody has searched for so many seconds."""
        now = time.monotonic()
        with self._lock:
            entries = {key: entry for key, entry in self._entries.items() if now - entry.used >= idle}
        if not entries:
            return
        ids = sorted({scope for entry in entries.values() for scope in entry.versions or ()})
        with self._passages.database.read() as connection:
            dialect = connection.dialect
            asked = f"SELECT id, version FROM scopes WHERE {dialect.among('id', ':ids')}"
            versions = dict(connection.execute(asked, {"ids": dialect.listed(ids)}).fetchall())
        for key, entry in entries.items():
            known = entry.versions or {}
            current = {scope: versions.get(scope, -1) for scope in known}
            if current not in (known, entry.looked):
                self._let_go_of_deleted(key, entry, current)

    def _let_go_of_deleted(self, key: _Key, entry: _Entry, current: _Versions) -> None:
        seen, before = entry.snapshot, entry.looked or entry.versions or {}
        with self._passages.database.read() as connection:
            changed = None if -1 in current.values() else changed_since(connection, before, current)  # -1 has gone
        rows = None if changed is None else sorted(changed)
        ids = seen.ids if rows is None else seen.ids[np.isin(seen.memories, np.array(rows, np.int64))]
        there = self._passages.columns(entry.selection, memories=rows).columns["ids"] if len(ids) else ids
        gone = np.setdiff1d(ids, there, assume_unique=True)
        if len(gone):
            self.forget_words()
        with self._lock:
            if self._entries.get(key) is not entry or entry.snapshot is not seen:
                return  # what has changed it meanwhile may know less: it is looked at again
            entry.looked = current
            self._take_out(key, entry, gone)

    def _take_out(self, key: _Key, entry: _Entry, passages: NDArray[np.int64]) -> None:
        """Leave nothing of passages, shape (m,), in a snapshot."""
        snapshot = entry.snapshot.without(passages)
        if snapshot is entry.snapshot:
            return
        entry.snapshot, entry.is_torn = snapshot, True
        if len(snapshot):
            self._measure(key, entry)
        else:  # its key would stay, and cost nothing by the count
            self._drop(key)

    def close(self) -> None:
        """Watch the snapshots no longer."""
        self._closing.set()
        if self._watcher is not None and self._watcher is not threading.current_thread():
            self._watcher.join()

    def _watch(self) -> None:
        """Have a thread let go of what others delete, from the first snapshot that is kept."""
        if self._watcher is None and not self._closing.is_set():
            arguments = (weakref.ref(self), self._closing)
            self._watcher = threading.Thread(
                target=_let_go_now_and_then, args=arguments, name="memory-retrievers-snapshots", daemon=True
            )
            self._watcher.start()

    def _entry(self, selection: Selection) -> _Entry | None:
        key = _key(selection)
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry.history != self._passages.database.history:
                return None
            self._entries.move_to_end(key)
            entry.used = time.monotonic()
            entry.is_searched |= not self._local.is_comparing
            return entry

    def _shown(self, entry: _Entry, versions: _Versions) -> ScopeSnapshot | None:
        """The snapshot, if it shows this state, or a later one that another thread has found, and lacks nothing."""
        with self._lock:
            return None if entry.is_torn or not _is_behind(versions, entry.versions) else entry.snapshot

    def _current(
        self,
        selection: Selection,
        entry: _Entry,
        versions: _Versions,
        *,
        is_open: bool = False,
        changed: set[int] | None = None,
    ) -> ScopeSnapshot:
        """Bring a snapshot up to date, and keep it unless a transaction that may be undone is open.

        Args:
            selection: Scope and fields.
            entry: Its entry.
            versions: The state that it is to show.
            is_open: Whether this state may be undone.
            changed: Rows of the memories that have changed since the entry's state, where that was just asked.
        """
        key = _key(selection)
        with self._lock:
            evictions = self._evictions  # before the snapshot: what is forgotten from here on is in it
            known, snapshot, is_torn = entry.versions, entry.snapshot, entry.is_torn
            if self._entries.get(key) is not entry:
                known = None  # what was forgotten since, such as all vectors of another embedder, may be in it
        if not (is_open or is_torn) and _is_behind(versions, known):
            return snapshot  # another thread has just done it
        # One state for all reads: what is updated between two of them would be lost with its old passage.
        with self._passages.database.read(snapshot=True) as connection:
            if is_torn:
                versions, changed = _versions_of(connection, selection, again=True), None  # it came after this state
                if _is_behind(versions, known):
                    known = None  # no version tells what has changed with what was taken out
            if known is None:
                snapshot = self._load(connection, selection)
            else:
                if is_open:
                    snapshot = snapshot.apart()  # nothing that may be undone is written behind what is kept
                changed = changed or changed_since(connection, known, versions)
                rows = None if changed is None else sorted(changed)
                snapshot = self._caught_up(connection, selection, snapshot, rows)
        if not is_open:
            with self._lock:
                if evictions == self._evictions:
                    entry.snapshot, entry.versions, entry.looked = snapshot, versions, None
                    entry.is_torn = False
                    self._keep(key, entry)
                elif self._entries.get(key) is entry:
                    # What was forgotten while this was read may stand in its arrays, behind what they show.
                    self._drop(key)
        return snapshot

    def _caught_up(
        self,
        connection: Connection,
        selection: Selection,
        snapshot: ScopeSnapshot,
        rows: Sequence[int] | None,
        *,
        at_once: bool = False,
    ) -> ScopeSnapshot:
        """Read what may have changed: the memories of some rows, or of all.

        At once are passages read with their vectors and texts in a single statement, so that nothing comes between. In
        a write transaction of one's own PostgreSQL shows what others have committed since the statement before: a
        passage that was updated meanwhile would be lost with the old text, and its new one not be known.
        """
        newest = int(snapshot.memories[-1]) if len(snapshot) else 0
        whole = at_once or (rows is not None and len(rows) <= _AT_ONCE and all(row > newest for row in rows))
        fresh = self._passages.columns(selection, memories=rows, with_vectors=whole, with_texts=whole)
        before = len(snapshot)
        snapshot, new = snapshot.caught_up(fresh, changed=rows)
        if len(snapshot) < before:  # another process has deleted some
            self.forget_words()
        ids = new.columns["ids"]
        if not len(ids):
            return snapshot
        # A passage that comes before one that is here was moved from another scope.
        was_moved = len(snapshot) and ids[0] < snapshot.ids[-1]
        if at_once and was_moved:
            return self._caught_up(connection, selection, NOTHING, None, at_once=True)
        if not at_once and (was_moved or len(ids) > _FEW):
            return self._load(connection, selection)
        if whole:
            return _appended(connection, snapshot, new, fresh)
        texts = self._passages.texts(ids.tolist())
        found, matrix = self._passages.vectors(ids.tolist())
        there = np.isin(ids, found)
        if connection.in_transaction and not there.all():
            return self._caught_up(connection, selection, snapshot, rows, at_once=True)
        new, matrix = new.taken(there), finite(matrix)
        return snapshot.appended(new, matrix, [texts[each] for each in ids[there].tolist()]) if len(found) else snapshot

    def _load(self, connection: Connection, selection: Selection) -> ScopeSnapshot:
        """Read a snapshot from the tables."""
        read = self._passages.columns(selection, with_vectors=True)
        if not read.vectors:
            return NOTHING
        matrix = finite(connection.dialect.stacked(read.vectors))
        self._vector_bytes = matrix[0].nbytes
        columns = read.columns
        owners = dict(zip(columns["ids"].tolist(), columns["memories"].tolist(), strict=True))
        terms = self._terms(selection, owners)
        snapshot = ScopeSnapshot(
            columns={name: Growing(column) for name, column in columns.items()},
            names=read.names,
            vectors=Growing(matrix),
            indexed=terms,
            is_ordered=is_ordered(columns["memories"], columns["places"]),
        )
        gone = np.setdiff1d(snapshot.ids, terms.ids, assume_unique=True)
        if len(gone) and connection.in_transaction:
            return self._caught_up(connection, selection, NOTHING, None, at_once=True)
        return snapshot.without(gone)

    def _terms(self, selection: Selection, owners: dict[int, int]) -> TermBlock:
        """Terms of passages: by stored postings where there are any, else analyzed from the texts."""
        if len(owners) > _FEW:
            block = block_of(owners, self._passages.postings(selection))
            # Of a passage that a transaction is about to remove there is nothing left, and that may yet be undone.
            without = block.ids[block.lengths == 0].tolist()
            texts = self._passages.texts(without)
            if not any(map(analyze, texts.values())):
                return block.without(np.array([passage for passage in without if passage not in texts], np.int64))
        texts = self._passages.texts(list(owners))
        there = {passage: memory for passage, memory in owners.items() if passage in texts}
        return EMPTY.appended(there, [Counter(analyze(texts[passage])) for passage in there])

    def _expected_size(self, selection: Selection) -> int:
        """Bytes that a snapshot will take at most, by the statistics of its scope."""
        passages, terms = self._passages.counted(selection)
        if not self._vector_bytes:
            first = self._passages.columns(selection, limit=1)
            _, matrix = self._passages.vectors(first.columns["ids"].tolist())
            self._vector_bytes = matrix[0].nbytes if len(matrix) else 0
        return passages * (self._vector_bytes + _PASSAGE_BYTES) + terms * _TERM_BYTES

    def _keep(self, key: _Key, entry: _Entry) -> None:
        if self._entries.get(key, entry) is not entry:
            self._drop(key)  # another thread has loaded the same
        self._entries[key] = entry
        self._entries.move_to_end(key)
        self._watch()
        self._measure(key, entry)
        if entry.size > self.most:  # it must not cost all others their place
            self._drop(key)
        self._evict()

    def _measure(self, key: _Key, entry: _Entry) -> None:
        self._size -= entry.size
        entry.size = _ENTRY_BYTES + sys.getsizeof(key[0]) + entry.snapshot.size
        self._size += entry.size

    def _drop(self, key: _Key) -> None:
        entry = self._entries.pop(key)
        self._size -= entry.size
        entry.size = 0

    def _evict(self) -> None:
        while self._size > self.most and self._entries:
            self._drop(next(iter(self._entries)))


def _appended(connection: Connection, snapshot: ScopeSnapshot, new: Passages, fresh: Passages) -> ScopeSnapshot:
    """Append new passages, of which all was read among others."""
    if new is fresh:
        return snapshot.appended(new, finite(connection.dialect.stacked(new.vectors)), new.texts)
    places = np.searchsorted(fresh.columns["ids"], new.columns["ids"]).tolist()
    matrix = finite(connection.dialect.stacked([fresh.vectors[place] for place in places]))
    return snapshot.appended(new, matrix, [fresh.texts[place] for place in places])


def _let_go_now_and_then(snapshots: weakref.ref[Snapshots], closing: threading.Event) -> None:
    """Run until the snapshots are closed, or nobody has them any more."""
    while not closing.wait(LOOK_AFTER) and (watched := snapshots()) is not None:
        with contextlib.suppress(MemoryRetrieversError):  # it is being closed, or cannot be read now
            watched.let_go_of_forgotten(idle=LOOK_AFTER)
        del watched


def state_of(connection: Connection, scope: str, *, include_child_scopes: bool) -> ScopeState:
    """Read the state of a scope as of one moment; asked once while a connection reads one state.

    A message leaves the queue in the transaction that stores its episode: it is in one of both, and never in neither.

    Args:
        connection: The connection to read from.
        scope: The scope.
        include_child_scopes: Also of the scopes below.
    """
    states, key = connection.states, (scope, include_child_scopes)
    if states is not None and key in states:
        return states[key]
    of_scope = BELOW if include_child_scopes else "scope = :scope"
    rows = connection.execute(
        f"""SELECT s.id, s.version, s.scope, m.row, m.conversation, m.vector IS NOT NULL
        FROM scopes s LEFT JOIN queued_messages m ON m.scope_id = s.id
        WHERE {of_scope} ORDER BY scope, conversation, row""",
        below(scope) if include_child_scopes else {"scope": scope},
    ).fetchall()
    state = ScopeState(
        {scope_id: version for scope_id, version, *_ in rows},
        [
            OpenPlace(row, its_scope, conversation or None, bool(embedded))
            for *_, its_scope, row, conversation, embedded in rows
            if row is not None
        ],
        {},
    )
    if states is not None:
        states[key] = state
    return state


def _versions_of(connection: Connection, selection: Selection, *, again: bool = False) -> _Versions:
    """Versions of a selection's scopes by row id, read again where they were asked for before."""
    if again and connection.states is not None:
        connection.states.clear()
    return state_of(connection, selection.scope, include_child_scopes=selection.include_child_scopes).versions


def _is_behind(versions: _Versions, known: _Versions | None) -> bool:
    """True if a snapshot shows this state, or a later one that another thread has found."""
    return known == versions or (
        known is not None and known.keys() == versions.keys() and all(known[each] >= versions[each] for each in known)
    )


def _key(selection: Selection) -> _Key:
    """What makes a snapshot: its scopes, and the fields of ``Selection.fields``."""
    is_wide = selection.every_passage if selection.kind is Kind.EPISODIC else selection.every_field
    return selection.scope, selection.include_child_scopes, selection.kind, is_wide
