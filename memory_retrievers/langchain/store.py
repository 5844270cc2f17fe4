"""``MemoryStoreAdapter``: a LangGraph store whose items are memories; concurrent operations are joined into batches."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import logging
import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from itertools import accumulate
from typing import Any, Final, Literal, NamedTuple, Self
from weakref import WeakKeyDictionary

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    get_text_at_path,
    tokenize_path,
)

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.langchain.store_filters import divided, fits, namespace_of, scope_of
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import ContentType, MemoryKey, Origin, SemanticDraft, SemanticMemory, scopes
from memory_retrievers.models.fields import MAX_ID_LENGTH, storable
from memory_retrievers.models.storage import StoredItem
from memory_retrievers.retrieval.request import check_length, parse_limit
from memory_retrievers.storage.items import VALUE, FoundItem, value_of
from memory_retrievers.text.passages import ITEM_LENGTHS, MAX_ITEM_TEXTS

LIFETIME: Final = "ttl_minutes"  # metadata key of the lifetime of an item after its last use
MOST_JOINED: Final = 1_000  # maximum number of joined operations, so that no write delays others for long


class MemoryStoreAdapter(BaseStore):
    """A LangGraph ``BaseStore`` over an ``AgentMemory``: retrieval also finds what agents put into the store.

    ::

        store = MemoryStoreAdapter(memory, scope="app")
        store.put(("memories", "alice"), "m1", {"content": "Alice lives in Lyon"})
        store.search(("memories",), query="Who lives in Lyon?")
        memory.retrieve("Who lives in Lyon?", scope="app/memories/alice")

    An item is a fact with origin ``store`` in the scope of its namespace, which lies below ``scope``. Its id is the
    key, its text the indexed fields, joined by newlines, and its metadata contain the whole value. Each field has its
    own vector (from the 32nd on they share one), and ``search`` scores an item by its best field. With
    ``index=False``, or if no indexed field has text, its text is the value as JSON, and searches do not find it: only
    ``get``, and ``search`` without a query, return it. Other memories in these scopes are not items: they are never
    returned, replaced or deleted.

    ``search`` with a query returns the nearest items with their cosine; without a query, the items put last come first.
    The database evaluates the comparisons of a filter with texts, numbers and booleans; the rest is evaluated while
    reading.

    Reads in a batch come before its writes, and the last write to a key counts. All puts of a batch are stored, or
    none. The asynchronous methods join the operations of concurrent tasks into batches. Putting an item again keeps its
    ``created_at``; reading an item with a lifetime prolongs it.

    A namespace and ``scope`` together must fit into a scope (10 segments, 512 bytes). A key has at most 1,000 bytes and
    is not blank. Otherwise the put is refused.

    Args:
        memory: The memory.
        scope: The scope of the empty namespace.
        fields: Paths to index if a put names none; ``$`` is the whole value as JSON, or its text, if that is all it
            has, under ``content``, ``text``, ``memory`` or ``data``.
        ttl: As for other LangGraph stores: ``default_ttl`` in minutes, ``refresh_on_read``. Expired items are no longer
            returned; :meth:`sweep_ttl` removes them, and :meth:`start_ttl_sweeper` does so every
            ``sweep_interval_minutes``.

    Raises:
        ConfigurationError: The memory is not an ``AgentMemory``.
        ValidationError: The scope is malformed.
    """

    supports_ttl = True

    def __init__(
        self, memory: AgentMemory, *, scope: str, fields: Sequence[str] = ("$",), ttl: TTLConfig | None = None
    ) -> None:
        if not isinstance(memory, AgentMemory):
            raise ConfigurationError(f"a store needs an AgentMemory, not a {type(memory).__name__}")
        if isinstance(fields, str):
            raise ConfigurationError(f"fields must be a list of paths: write fields=[{fields!r}]")
        self._memory = memory
        self._root = scopes.parse(scope)
        self._fields = tuple(fields)
        self._paths = [path if path == "$" else tokenize_path(path) for path in fields]  # once, not for each item
        self.ttl_config = ttl
        self._joined = JoinedBatches(self.batch)
        self._sweeper = TTLSweeper(self.sweep_ttl)

    def __reduce__(self) -> tuple[Callable[[], Self], tuple[()]]:
        """A copy shares the memory; a pickle contains its address."""
        return partial(type(self), self._memory, scope=self._root, fields=self._fields, ttl=self.ttl_config), ()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute the operations of ``get``, ``put``, ``search``, ``delete`` and ``list_namespaces``.

        Raises:
            ValidationError: A namespace, key, value or filter is invalid; nothing was written.
            EmbeddingError: The embedder failed; nothing was written.
        """
        asked = [(op, self._key(op) if isinstance(op, GetOp | PutOp) else None) for op in ops]
        looked = (key for op, key in asked if key is not None and getattr(op, "value", None) is None)
        there = self._memory.items.get([*dict.fromkeys(looked)])  # what is put over is looked up where that is written
        reads = _Reads(self._memory, self._root, there)
        results = [reads.answer(op, key) for op, key in asked]
        self._prolong(reads.used)
        self._write({key: op for op, key in asked if key is not None and isinstance(op, PutOp)}, there)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """:meth:`batch` in a thread, joined with operations of other tasks of this event loop."""
        return await self._joined.do(list(ops))

    def sweep_ttl(self) -> int:
        """Delete expired items; return their number.

        Raises:
            ConfigurationError: The memory is read-only.
        """
        return self._memory.items.sweep(self._root)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Call :meth:`sweep_ttl` periodically in a thread, until :meth:`stop_ttl_sweeper` or the end of the process.

        Errors are logged, and the next sweep tries again. A second call does nothing; without ``ttl`` no thread starts.

        Args:
            sweep_interval_minutes: Interval between two sweeps; None takes that of ``ttl``, or else 5.

        Returns:
            A future that is done when the thread has ended; cancelling it stops the thread.

        Raises:
            ValidationError: The interval is not above 0.
        """
        if not self.ttl_config:
            return ended()
        minutes = sweep_interval_minutes or self.ttl_config.get("sweep_interval_minutes") or 5
        return self._sweeper.start(timedelta(minutes=minutes))

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop the thread of :meth:`start_ttl_sweeper`; return False if it still runs after ``timeout`` seconds."""
        return self._sweeper.stop(timeout)

    def _key(self, op: GetOp | PutOp) -> MemoryKey:
        return MemoryKey(scope=scope_of(self._root, op.namespace), id=storable(op.key))

    def _prolong(self, used: Sequence[StoredItem]) -> None:
        """Renew the lifetime of items that were read."""
        lifetimes = {
            item.row: lifetime for item in used if isinstance(lifetime := item.metadata.get(LIFETIME), int | float)
        }
        if lifetimes:
            now = self._memory.now()
            until = {row: now + timedelta(minutes=lifetime) for row, lifetime in lifetimes.items()}
            with contextlib.suppress(ConfigurationError):  # the memory may only be read
                self._memory.items.prolong(until)

    def _write(self, puts: Mapping[MemoryKey, PutOp], there: Mapping[MemoryKey, StoredItem]) -> None:
        # nothing is written before everything is checked
        drafts = [self._draft(op, key, op.value) for key, op in puts.items() if op.value is not None]
        gone = [key for key, op in puts.items() if op.value is None and value_of(there.get(key)) is not None]
        if drafts or gone:
            self._memory.items.put(drafts, removed=gone)

    def _draft(self, op: PutOp, key: MemoryKey, value: Mapping[str, object]) -> SemanticDraft:
        now = self._memory.now()
        if len(key.id.encode()) > MAX_ID_LENGTH:  # no index of PostgreSQL takes four times as many
            raise ValidationError(f"a key has at most {MAX_ID_LENGTH} bytes, not {len(key.id.encode())}")
        try:
            # as a store of JSON has it: a tuple is a list, and a name that is a number its text
            value = json.loads(json.dumps(dict(value), allow_nan=False))
            texts = _indexed(value, self._paths if op.index is None else op.index)
            metadata: dict[str, Any] = {VALUE: value}
            if op.ttl is not None:
                metadata[LIFETIME] = op.ttl
            if len(texts) > 1:
                metadata[ITEM_LENGTHS] = [*map(len, texts)]
            return SemanticMemory.new(
                scope=key.scope,
                id=key.id,
                fact="\n".join(texts) or json.dumps(value, ensure_ascii=False, sort_keys=True),
                content_type=ContentType.TEXT if texts else ContentType.JSON,
                origin=Origin.STORE,
                metadata=metadata,
                created_at=now,
                updated_at=now,
                expires_at=None if op.ttl is None else now + timedelta(minutes=op.ttl),
            )
        except ValidationError:  # which is a ValueError, too
            raise
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ValidationError(
                f"the value of {op.key!r} must be a dict of JSON such as {{'text': …}}, ttl some minutes: {error}"
            ) from error


_TEXT: Final = frozenset({"content", "text", "memory", "data"})


def _indexed(value: Mapping[str, object], fields: Sequence[str | list[str]] | Literal[False]) -> list[str]:
    """Return the texts of the indexed fields that are not blank; those beyond the maximum are joined into one."""
    name, alone = next(iter(value.items())) if len(value) == 1 else ("", "")
    whole = [alone] if name in _TEXT and isinstance(alone, str) and alone.strip() else []
    found = (text for path in fields or () for text in (path == "$" and whole) or get_text_at_path(value, path))
    texts = [text for text in found if text.strip()]
    return (
        [*texts[: MAX_ITEM_TEXTS - 1], "\n".join(texts[MAX_ITEM_TEXTS - 1 :])] if len(texts) > MAX_ITEM_TEXTS else texts
    )


class _Reads:
    """The reads of a batch; a search that is asked for twice is run once."""

    def __init__(self, memory: AgentMemory, root: str, there: Mapping[MemoryKey, StoredItem]) -> None:
        self._memory = memory
        self._root = root
        self._there = there
        self._known: dict[str, list[FoundItem]] = {}
        self._given: set[int] = set()
        self.used: list[StoredItem] = []

    def answer(self, op: Op, key: MemoryKey | None) -> Result:
        match op:
            case GetOp():
                assert key is not None  # noqa: S101 - every get names one
                item = self._there.get(key)
                if item is None or value_of(item) is None:
                    return None
                self.used += [item] if op.refresh_ttl else []
                return Item(**self._fields(item))
            case SearchOp():
                found = self._found(op)
                self.used += [hit.item for hit in found if op.refresh_ttl]
                return [SearchItem(**self._fields(item), score=score) for item, score in found]
            case ListNamespacesOp():
                return self._namespaces(op)
            case PutOp():
                return None
            case _:
                raise ValidationError(f"this store does not support the operation {type(op).__name__}")

    def _found(self, op: SearchOp) -> list[FoundItem]:
        if (asked := repr(op)) not in self._known:
            self._known[asked] = self._searched(op)
        return self._known[asked]

    def _searched(self, op: SearchOp) -> list[FoundItem]:
        conditions, fits = divided(op.filter or {})
        scope = scope_of(self._root, op.namespace_prefix)
        page = {"offset": parse_limit("offset", op.offset), "limit": parse_limit("limit", op.limit)}
        if op.query is None or not op.query.strip():
            return self._memory.items.newest(scope, conditions=conditions, fits=fits, **page)
        check_length(op.query, most=self._memory.query_characters)
        return self._memory.items.nearest(op.query, scope, conditions=conditions, fits=fits, **page)

    def _fields(self, item: StoredItem) -> dict[str, Any]:
        namespace, value = namespace_of(self._root, item.scope) or (), self._own(value_of(item) or {})
        times = {"created_at": item.created_at, "updated_at": item.updated_at}
        return {"namespace": namespace, "key": item.id, "value": value, **times}

    def _own(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return a value that the caller may change."""
        if id(value) in self._given:
            return copy.deepcopy(value)
        self._given.add(id(value))
        return value

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        start, most = parse_limit("offset", op.offset), parse_limit("limit", op.limit)
        namespaces = (namespace_of(self._root, scope) for scope in self._memory.items.scopes(self._root))
        fitting = {
            namespace[: op.max_depth]
            for namespace in namespaces
            if namespace is not None and all(fits(namespace, each) for each in op.match_conditions or ())
        }
        return sorted(fitting)[start : start + most]


class _Asked(NamedTuple):
    ops: list[Op]
    answer: asyncio.Future[list[Result]]


class JoinedBatches:
    """Executes batches of an event loop's tasks in a thread; batches that arrive meanwhile are joined into one.

    If a joined batch fails, each of its batches is executed separately, so that no task gets the error of another.
    """

    def __init__(self, batch: Callable[[Iterable[Op]], list[Result]]) -> None:
        self._batch = batch
        self._waiting: WeakKeyDictionary[asyncio.AbstractEventLoop, list[_Asked]] = WeakKeyDictionary()
        self._workers: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None]] = WeakKeyDictionary()

    async def do(self, ops: list[Op]) -> list[Result]:
        """Return the results of a batch of this task."""
        loop = asyncio.get_running_loop()
        asked = _Asked(ops, loop.create_future())
        waiting = self._waiting.setdefault(loop, [])
        waiting.append(asked)
        worker = self._workers.get(loop)
        if worker is None or worker.done():
            self._workers[loop] = loop.create_task(self._work(waiting))
        return await asked.answer

    async def _work(self, waiting: list[_Asked]) -> None:
        while waiting:
            joined = _taken(waiting)
            answers = await asyncio.to_thread(self._answers, [asked.ops for asked in joined])
            for asked, answer in zip(joined, answers, strict=True):
                if asked.answer.done():  # nobody waits for it any more
                    continue
                if isinstance(answer, Exception):
                    asked.answer.set_exception(answer)
                else:
                    asked.answer.set_result(answer)

    def _answers(self, batches: list[list[Op]]) -> list[list[Result] | Exception]:
        try:
            together = iter(self._batch([op for ops in batches for op in ops]))
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever asked gets it
            return [error] if len(batches) == 1 else [self._answers([ops])[0] for ops in batches]
        return [[next(together) for _ in ops] for ops in batches]


def _taken(waiting: list[_Asked]) -> list[_Asked]:
    """Take the first batches, at least one, that have at most :data:`MOST_JOINED` operations together."""
    sizes = [*accumulate(len(asked.ops) for asked in waiting)]
    taken = max(1, bisect_right(sizes, MOST_JOINED))
    joined, waiting[:] = waiting[:taken], waiting[taken:]
    return joined


_logger = logging.getLogger("memory_retrievers")


def ended() -> Future[None]:
    """Return a future that is done."""
    future = Future[None]()
    future.set_result(None)
    return future


class TTLSweeper:
    """Calls a method periodically in a thread, until its object or memory is gone; it keeps neither alive."""

    def __init__(self, sweep: Callable[[], int]) -> None:
        self._sweep = weakref.WeakMethod(sweep)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._running = ended()

    def start(self, interval: timedelta) -> Future[None]:
        """Start the thread unless it runs; the future is done when it has ended, and stops it if cancelled."""
        if interval <= timedelta():
            raise ValidationError(f"the time between two sweeps must be above 0, not {interval}")
        with self._lock:
            if self._thread is not None and self._thread.is_alive() and not self._stop.is_set():
                return self._running
            stop, running = threading.Event(), Future[None]()
            self._stop, self._running = stop, running
            running.add_done_callback(lambda _: stop.set())
            self._thread = threading.Thread(
                target=_work, args=(self._sweep, stop, running, interval), name="ttl-sweeper", daemon=True
            )
            self._thread.start()
            return running

    def stop(self, timeout: float | None) -> bool:
        """Stop the thread; return False if it still runs after ``timeout`` seconds."""
        with self._lock:
            self._stop.set()
            thread = self._thread
        if thread is not None:
            thread.join(timeout)
        return thread is None or not thread.is_alive()


def _work(
    method: weakref.WeakMethod[Callable[[], int]], stop: threading.Event, running: Future[None], interval: timedelta
) -> None:
    while not stop.wait(interval.total_seconds()) and (sweep := method()) is not None:
        try:
            sweep()
        except ConfigurationError:  # the memory is closed, or may only be read
            break
        except Exception as error:  # noqa: BLE001 - the next turn may do it
            _logger.warning("expired items were not swept (%s)", type(error).__name__)
        del sweep
    if running.set_running_or_notify_cancel():
        running.set_result(None)
