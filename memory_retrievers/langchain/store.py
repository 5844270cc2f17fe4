"""``MemoryStoreAdapter``: a LangGraph store whose items are memories."""

from __future__ import annotations

import contextlib
import copy
import json
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from typing import Any, Final, Literal, Self, TypeAlias, cast
from urllib.parse import quote, unquote

import pydantic
from langgraph.store.base import (
    BaseStore,
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    get_text_at_path,
)

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.langchain.batching import JoinedBatches
from memory_retrievers.langchain.sweeping import TTLSweeper, ended
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import AnyMemory, ContentType, MemoryKey, Origin, SemanticDraft, SemanticMemory, scopes
from memory_retrievers.models.fields import storable
from memory_retrievers.models.filters import MAX_FILTERS
from memory_retrievers.models.storage import ItemCondition
from memory_retrievers.retrieval.request import check_length
from memory_retrievers.storage.items import VALUE, Fits, FoundItem, as_item, is_comparable


def scope_of(root: str, namespace: Sequence[str]) -> str:
    """The scope of a namespace: the root, then a segment for each label.

    >>> scope_of("app", ("users", "a/b", "50 %"))
    'app/users/a%2Fb/50 %25'
    >>> scope_of("app", ())
    'app'

    Raises:
        ValidationError: A label is no text or empty, or there are too many, or they are too long.
    """
    return scopes.parse("/".join((root, *map(_segment, namespace))))


def namespace_of(root: str, scope: str) -> tuple[str, ...] | None:
    """The namespace of a scope; None if it is that of no namespace below the root.

    >>> namespace_of("app", "app/users/a%2Fb/50 %25")
    ('users', 'a/b', '50 %')
    >>> namespace_of("app", "other/users") is None
    True
    """
    if scope == root:
        return ()
    if not scope.startswith(f"{root}/"):
        return None
    segments = scope.removeprefix(f"{root}/").split("/")
    labels = tuple(unquote(segment, errors="surrogatepass") for segment in segments)
    return labels if [*map(_segment, labels)] == segments else None


def fits(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    """True if a namespace begins or ends as the condition says; ``*`` stands for any label.

    Raises:
        ValidationError: The condition matches something else than the beginning or the end.
    """
    path = condition.path
    if condition.match_type not in {"prefix", "suffix"}:
        raise ValidationError(f"a namespace is matched by prefix or suffix, not by {condition.match_type!r}")
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in {"*", label} for wanted, label in zip(path, part, strict=True))


def _segment(label: str) -> str:
    if not isinstance(label, str) or not label:
        raise ValidationError(f"a namespace is made of texts that are not empty, not of {label!r}")
    if label in {".", ".."}:
        return label.replace(".", "%2E")
    inner = label.lstrip(" ")
    before = len(label) - len(inner)
    after = len(inner) - len(inner.rstrip(" "))
    return "%20" * before + "".join(map(_character, inner.rstrip(" "))) + "%20" * after


def _character(character: str) -> str:
    plain = character.isprintable() and character not in "%/"
    return character if plain else quote(character.encode(errors="surrogatepass"), safe="")


def _same(value: object, wanted: object) -> bool:
    """Equality as of JSON: true is not 1."""
    return isinstance(value, bool) == isinstance(wanted, bool) and value == wanted


_Comparison: TypeAlias = Callable[[Any, Any], bool]

_COMPARISONS: Final[Mapping[str, _Comparison]] = {
    "$eq": _same,
    "$ne": lambda value, wanted: not _same(value, wanted),
    "$gt": lambda value, wanted: _ordered(operator.gt, value, wanted),
    "$gte": lambda value, wanted: _ordered(operator.ge, value, wanted),
    "$lt": lambda value, wanted: _ordered(operator.lt, value, wanted),
    "$lte": lambda value, wanted: _ordered(operator.le, value, wanted),
}


def lets_through(conditions: Mapping[str, object], value: Mapping[str, object]) -> bool:
    """True if a value fits every condition; a field that is not there counts as None.

    Numbers and texts are ordered among themselves; ``$gt`` and its like let nothing else through.

    >>> lets_through({"kind": "book", "year": {"$gte": 1900}}, {"kind": "book", "year": 1954})
    True

    Raises:
        ValidationError: A condition has an unknown operator.
    """
    return all(_fits(value.get(field), wanted) for field, wanted in conditions.items())


def _fits(value: object, wanted: object) -> bool:
    if isinstance(wanted, Mapping):
        if any(str(key).startswith("$") for key in wanted):
            return all(_compares(value, name, operand) for name, operand in wanted.items())
        return isinstance(value, Mapping) and lets_through(wanted, value)
    if isinstance(wanted, list | tuple):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(_fits, value, wanted))
    return _same(value, wanted)


def _compares(value: object, name: str, operand: object) -> bool:
    if name not in _COMPARISONS:
        raise ValidationError(f"unknown operator {name!r} in a filter; one of: {', '.join(_COMPARISONS)}")
    return _COMPARISONS[name](value, operand)


def _ordered(compare: _Comparison, value: object, wanted: object) -> bool:
    alike = any(isinstance(value, kind) and isinstance(wanted, kind) for kind in (int | float, str))
    return alike and compare(value, wanted)


def check_filter(conditions: object) -> None:
    """Check the operators of a filter.

    Raises:
        ValidationError: One is unknown.
    """
    if isinstance(conditions, list | tuple):
        for condition in conditions:
            check_filter(condition)
    if isinstance(conditions, Mapping):
        compares = any(str(key).startswith("$") for key in conditions)
        for key, wanted in conditions.items():
            if compares:
                _compares(None, key, None)
            else:
                check_filter(wanted)


_SIGNS: Final[Mapping[str, Literal["=", "!=", ">", ">=", "<", "<="]]] = {
    "$eq": "=",
    "$ne": "!=",
    "$gt": ">",
    "$gte": ">=",
    "$lt": "<",
    "$lte": "<=",
}


def _divided(conditions: Mapping[str, object]) -> tuple[list[ItemCondition], Fits | None]:
    """What the database compares of a filter, and a check of all of it if that is not everything."""
    check_filter(conditions)
    parts = [(key, *part) for key, wanted in conditions.items() for part in _parts(wanted)]
    compared = [
        ItemCondition(key, _SIGNS[name], cast("str | int | float | bool", operand))
        for key, name, operand in parts
        if is_comparable(key, operand) and (name in {"$eq", "$ne"} or not isinstance(operand, bool))
    ][:MAX_FILTERS]
    return compared, None if len(compared) == len(parts) else partial(lets_through, conditions)


def _parts(wanted: object) -> Iterable[tuple[str, object]]:
    compares = isinstance(wanted, Mapping) and any(str(key).startswith("$") for key in wanted)
    return wanted.items() if isinstance(wanted, Mapping) and compares else [("$eq", wanted)]


LIFETIME: Final = "ttl_minutes"
"""The metadata key of how long an item lives after it was last used."""


class MemoryStoreAdapter(BaseStore):
    """A LangGraph ``BaseStore`` over an ``AgentMemory``: what agents put into the store, retrieval finds as well.

    ::

        store = MemoryStoreAdapter(memory, scope="app")
        store.put(("memories", "alice"), "m1", {"content": "Alice lives in Lyon"})
        store.search(("memories",), query="Who lives in Lyon?")
        memory.retrieve("Who lives in Lyon?", scope="app/memories/alice")

    An item is a fact of origin ``store`` in the scope of its namespace, which lies below ``scope``; its id is the key,
    its text the indexed fields, joined by newlines, and its metadata hold the value whole. With ``index=False``, or
    where no indexed field has any text, its text is the value as JSON, and nothing finds it: only ``get``, and
    ``search`` without a query, give it. Other memories in these scopes are no items, are not given, and are never
    replaced or deleted.

    ``search`` with a query gives the items that are nearest to it, as facts are embedded, with their cosine; without
    one, those that were put last come first. A filter is looked at by the database as far as it compares fields of the
    value with texts, numbers and truth values; the rest of it while reading.

    Reads in a batch come before its writes, and the last write to a key counts; all puts of a batch are stored together
    or not at all. The asynchronous methods join what concurrent tasks ask for into batches. A put over an item keeps
    its ``created_at``; reading an item with a lifetime prolongs it.

    A namespace has as many labels as fit beside ``scope`` into a scope (10 segments, 512 bytes), a key 1,000 bytes:
    otherwise the put is refused.

    Args:
        memory: The memory.
        scope: The scope of the empty namespace.
        fields: The paths that are indexed when a put names none; ``$`` is the whole value as JSON.
        ttl: As for other LangGraph stores: ``default_ttl`` in minutes, ``refresh_on_read``. What has expired is not
            given any more; :meth:`sweep_ttl` removes it, and :meth:`start_ttl_sweeper` does so every
            ``sweep_interval_minutes``.

    Raises:
        ConfigurationError: The memory is no ``AgentMemory``.
        ValidationError: The scope is malformed.
    """

    supports_ttl = True

    def __init__(
        self, memory: AgentMemory, *, scope: str, fields: Sequence[str] = ("$",), ttl: TTLConfig | None = None
    ) -> None:
        if not isinstance(memory, AgentMemory):
            raise ConfigurationError(f"a store needs an AgentMemory, not a {type(memory).__name__}")
        self._memory = memory
        self._root = scopes.parse(scope)
        self._fields = tuple(fields)
        self.ttl_config = ttl
        self._joined = JoinedBatches(self.batch)
        self._sweeper = TTLSweeper(self.sweep_ttl)

    def __reduce__(self) -> tuple[Callable[[], Self], tuple[()]]:
        """A copy shares the memory; a pickle has its address."""
        return partial(type(self), self._memory, scope=self._root, fields=self._fields, ttl=self.ttl_config), ()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do what ``get``, ``put``, ``search``, ``delete`` and ``list_namespaces`` ask for.

        Raises:
            ValidationError: A namespace, key, value or filter breaks a rule; nothing was written.
            EmbeddingError: The embedder failed; nothing was written.
        """
        asked = list(ops)
        puts = {(op.namespace, op.key): op for op in asked if isinstance(op, PutOp)}
        keys = dict.fromkeys(self._key(op) for op in asked if isinstance(op, GetOp | PutOp))
        there = self._memory.items.get([*keys])
        results = [self._answer(op, there) for op in asked]
        self._prolong([used for _, used in results if used])
        self._write([*puts.values()], there)
        return [result for result, _ in results]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """:meth:`batch` in a thread, together with what other tasks of this event loop ask for meanwhile."""
        return await self._joined.do(list(ops))

    def sweep_ttl(self) -> int:
        """Delete the items that have expired; returns how many.

        Raises:
            ConfigurationError: The memory may only be read.
        """
        return self._memory.items.sweep(self._root)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Call :meth:`sweep_ttl` again and again in a thread, until :meth:`stop_ttl_sweeper` or the end of the process.

        What goes wrong is logged, and tried again at the next turn. A second call does nothing; without ``ttl`` there
        is nothing to sweep.

        Args:
            sweep_interval_minutes: The time between two turns; None takes that of ``ttl``, or else 5.

        Returns:
            It is done when the thread has ended; cancelling it stops the thread.

        Raises:
            ValidationError: The time is not above 0.
        """
        if not self.ttl_config:
            return ended()
        minutes = sweep_interval_minutes or self.ttl_config.get("sweep_interval_minutes") or 5
        return self._sweeper.start(timedelta(minutes=minutes))

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop the thread of :meth:`start_ttl_sweeper`; False if it still runs after ``timeout`` seconds."""
        return self._sweeper.stop(timeout)

    def _answer(self, op: Op, there: Mapping[MemoryKey, AnyMemory]) -> tuple[Result, list[SemanticMemory]]:
        """The result of an operation, and the items whose lifetime it prolongs."""
        match op:
            case GetOp():
                item = as_item(there.get(self._key(op)))
                return None if item is None else self._item(item), [item] if item is not None and op.refresh_ttl else []
            case SearchOp():
                found = self._searched(op)
                return [self._item(*hit) for hit in found], [hit.item for hit in found if op.refresh_ttl]
            case ListNamespacesOp():
                return self._listed_namespaces(op), []
            case PutOp():
                return None, []
            case _:
                raise ValidationError(f"a store cannot do a {type(op).__name__}")

    def _key(self, op: GetOp | PutOp) -> MemoryKey:
        return MemoryKey(scope=scope_of(self._root, op.namespace), id=storable(op.key))

    def _item(self, item: SemanticMemory, score: float | None = None) -> SearchItem:
        return SearchItem(
            namespace=namespace_of(self._root, item.scope) or (),
            key=item.id,
            value=copy.deepcopy(cast("dict[str, Any]", item.metadata[VALUE])),
            created_at=item.created_at,
            updated_at=item.updated_at,
            score=score,
        )

    def _searched(self, op: SearchOp) -> list[FoundItem]:
        conditions, fits = _divided(op.filter or {})
        scope, page = scope_of(self._root, op.namespace_prefix), {"offset": op.offset, "limit": op.limit}
        if op.query is None or not op.query.strip():
            return self._memory.items.newest(scope, conditions=conditions, fits=fits, **page)
        check_length(op.query, most=self._memory.query_characters)
        return self._memory.items.nearest(op.query, scope, conditions=conditions, fits=fits, **page)

    def _listed_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        namespaces = (namespace_of(self._root, scope) for scope in self._memory.items.scopes(self._root))
        fitting = {
            namespace[: op.max_depth]
            for namespace in namespaces
            if namespace is not None and all(fits(namespace, condition) for condition in conditions)
        }
        return sorted(fitting)[op.offset : op.offset + op.limit]

    def _prolong(self, read: Iterable[Sequence[SemanticMemory]]) -> None:
        """Let the items that were read and have a lifetime live on from now."""
        now = self._memory.now()
        used = {
            (item.scope, item.id): item.model_copy(update={"expires_at": now + timedelta(minutes=lifetime)})
            for items in read
            for item in items
            if isinstance(lifetime := item.metadata.get(LIFETIME), int | float)
        }
        with contextlib.suppress(ConfigurationError):  # the memory may only be read
            self._memory.items.prolong([*used.values()])

    def _write(self, ops: Sequence[PutOp], there: Mapping[MemoryKey, AnyMemory]) -> None:
        # 1. nothing is written before everything is checked
        puts = [self._draft(op, op.value, there.get(self._key(op))) for op in ops if op.value is not None]
        gone = [there.get(self._key(op)) for op in ops if op.value is None]
        # 2. all puts at once, then all deletions
        if puts:
            self._memory.remember_many(puts, replace=True)
        if items := [item for each in gone if (item := as_item(each)) is not None]:
            self._memory.manager.delete(items)

    def _draft(self, op: PutOp, value: Mapping[str, object], before: AnyMemory | None) -> SemanticDraft:
        if before is not None and before.origin is not Origin.STORE:
            raise ValidationError(f"the key {op.key!r} is the id of a memory that no store has put; take another key")
        now = self._memory.now()
        try:
            whole = json.dumps(value, ensure_ascii=False, sort_keys=True)
            text = _indexed(value, self._fields if op.index is None else op.index)
            return SemanticMemory.new(
                scope=scope_of(self._root, op.namespace),
                id=op.key,
                fact=text or whole,
                content_type=ContentType.TEXT if text else ContentType.JSON,
                origin=Origin.STORE,
                metadata={VALUE: dict(value)} | ({} if op.ttl is None else {LIFETIME: op.ttl}),
                created_at=now if before is None else before.created_at,
                updated_at=now,
                expires_at=None if op.ttl is None else now + timedelta(minutes=op.ttl),
            )
        except pydantic.ValidationError as error:
            raise ValidationError.from_pydantic(error) from error
        except (TypeError, ValueError, OverflowError) as error:
            raise ValidationError(f"the value of {op.key!r} must be JSON, and its ttl a number of minutes") from error


def _indexed(value: Mapping[str, object], fields: Sequence[str] | Literal[False]) -> str:
    texts = [text for path in fields or () for text in get_text_at_path(value, path)]
    return "\n".join(texts) if any(text.strip() for text in texts) else ""
