"""``MemoryStoreAdapter``: a LangGraph store whose items are memories."""

from __future__ import annotations

import asyncio
import contextlib
import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote, unquote

import pydantic
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
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

from memory_retrievers.errors import ConfigurationError, NotFoundError, ValidationError
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import AnyMemory, ContentType, Kind, Origin, SemanticDraft, SemanticMemory, scopes
from memory_retrievers.models.fields import storable


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


_Comparison: TypeAlias = Callable[[Any, Any], bool]

_COMPARISONS: Final[Mapping[str, _Comparison]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
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
    return value == wanted


def _compares(value: object, name: str, operand: object) -> bool:
    if name not in _COMPARISONS:
        raise ValidationError(f"unknown operator {name!r} in a filter; one of: {', '.join(_COMPARISONS)}")
    return _COMPARISONS[name](value, operand)


def _ordered(compare: _Comparison, value: object, wanted: object) -> bool:
    alike = any(isinstance(value, kind) and isinstance(wanted, kind) for kind in (int | float, str))
    return alike and compare(value, wanted)


MOST_FOUND: Final = 1_000
PAGE: Final = 1_000

VALUE: Final = "value"
"""The metadata key of an item's value."""
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

    ``search`` with a query ranks as ``retrieve`` does and then filters: it sees the candidates of each list, see
    ``RetrievalSettings.candidate_depth``. Without a query it gives the newest first. Reads in a batch come before its
    writes, and the last write to a key counts; all puts of a batch are stored together or not at all. A put over an
    item keeps its ``created_at``; reading an item with a lifetime prolongs it and moves ``updated_at``.

    Args:
        memory: The memory.
        scope: The scope of the empty namespace.
        fields: The paths that are indexed when a put names none; ``$`` is the whole value as JSON.
        ttl: As for other LangGraph stores: ``default_ttl`` in minutes, ``refresh_on_read``. What has expired is not
            given any more; ``memory.purge()`` removes it.

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

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do what ``get``, ``put``, ``search``, ``delete`` and ``list_namespaces`` ask for.

        Raises:
            ValidationError: A namespace, key, value or filter breaks a rule; nothing was written.
            EmbeddingError: The embedder failed; nothing was written.
        """
        asked = list(ops)
        results = [self._answer(op) for op in asked]
        last = {(op.namespace, op.key): op for op in asked if isinstance(op, PutOp)}
        self._write(list(last.values()))
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """:meth:`batch` in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _answer(self, op: Op) -> Result:
        match op:
            case GetOp():
                return self._got(op)
            case SearchOp():
                return self._searched(op)
            case ListNamespacesOp():
                return self._listed_namespaces(op)
            case PutOp():
                return None
            case _:
                raise ValidationError(f"a store cannot do a {type(op).__name__}")

    def _got(self, op: GetOp) -> Item | None:
        found = self._find(op.namespace, op.key)
        item = None if found is None else _as_item(found)
        if found is None or item is None:
            return None
        used = self._used(item, refresh=op.refresh_ttl)
        return Item(
            value=_value(used),
            key=used.id,
            namespace=op.namespace,
            created_at=used.created_at,
            updated_at=used.updated_at,
        )

    def _searched(self, op: SearchOp) -> list[SearchItem]:
        asked = op.query is not None and bool(op.query.strip())
        found = self._ranked(op.namespace_prefix, op.query or "") if asked else self._newest(op.namespace_prefix)
        fitting = [hit for hit in found if lets_through(op.filter or {}, _value(hit[1]))]
        return [self._search_item(*hit, refresh=op.refresh_ttl) for hit in fitting[op.offset : op.offset + op.limit]]

    def _search_item(
        self, namespace: tuple[str, ...], item: SemanticMemory, score: float | None, *, refresh: bool
    ) -> SearchItem:
        used = self._used(item, refresh=refresh)
        return SearchItem(
            namespace=namespace,
            key=used.id,
            value=_value(used),
            created_at=used.created_at,
            updated_at=used.updated_at,
            score=score,
        )

    def _ranked(
        self, prefix: tuple[str, ...], query: str
    ) -> list[tuple[tuple[str, ...], SemanticMemory, float | None]]:
        found = self._memory.context(
            query, scope=scope_of(self._root, prefix), semantic_limit=MOST_FOUND, include_child_scopes=True
        )
        return [
            (namespace, item, hit.score)
            for hit in found.semantic
            if (item := _as_item(hit.memory)) is not None
            and (namespace := namespace_of(self._root, item.scope)) is not None
        ]

    def _newest(self, prefix: tuple[str, ...]) -> list[tuple[tuple[str, ...], SemanticMemory, float | None]]:
        found = [
            (namespace, item, None) for namespace, scope in self._namespaces(prefix) for item in self._items(scope)
        ]
        found.sort(key=lambda hit: (hit[0], hit[1].id))
        found.sort(key=lambda hit: hit[1].created_at, reverse=True)
        return list(found)

    def _listed_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        fitting = {
            namespace[: op.max_depth]
            for namespace, scope in self._namespaces(())
            if all(fits(namespace, condition) for condition in conditions) and any(self._items(scope))
        }
        return sorted(fitting)[op.offset : op.offset + op.limit]

    def _namespaces(self, prefix: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
        """The namespaces that begin so and may have items, with their scopes."""
        for scope in self._memory.scopes():
            namespace = namespace_of(self._root, scope)
            if namespace is not None and namespace[: len(prefix)] == tuple(prefix):
                yield namespace, scope

    def _items(self, scope: str) -> Iterator[SemanticMemory]:
        cursor: str | None = None
        while True:
            page = self._memory.list(scope, kind=Kind.SEMANTIC, cursor=cursor, limit=PAGE)
            yield from (item for memory in page.memories if (item := _as_item(memory)) is not None)
            if (cursor := page.cursor) is None:
                return

    def _find(self, namespace: tuple[str, ...], key: str) -> AnyMemory | None:
        try:
            return self._memory.get(storable(key), scope=scope_of(self._root, namespace))
        except NotFoundError:
            return None

    def _used(self, item: SemanticMemory, *, refresh: bool) -> SemanticMemory:
        """The item as it is once it was read: one with a lifetime lives on from now."""
        lifetime = item.metadata.get(LIFETIME)
        if refresh and isinstance(lifetime, int | float):
            # somebody else may have just deleted it, the memory may only be read, or before_store says no by now
            with contextlib.suppress(NotFoundError, ConfigurationError, ValidationError):
                expires_at = self._memory.now() + timedelta(minutes=lifetime)
                return _as_item(self._memory.update(item.id, scope=item.scope, expires_at=expires_at)) or item
        return item

    def _write(self, ops: Sequence[PutOp]) -> None:
        # 1. nothing is written before everything is checked
        puts = [self._draft(op, op.value) for op in ops if op.value is not None]
        gone = [item for op in ops if op.value is None and (item := self._found_item(op)) is not None]
        # 2. all puts at once, then the deletions
        self._memory.remember_many(puts, replace=True)
        for item in gone:
            with contextlib.suppress(NotFoundError):
                self._memory.forget(item.id, scope=item.scope)

    def _found_item(self, op: PutOp) -> SemanticMemory | None:
        found = self._find(op.namespace, op.key)
        return None if found is None else _as_item(found)

    def _draft(self, op: PutOp, value: Mapping[str, object]) -> SemanticDraft:
        before = self._find(op.namespace, op.key)
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


def _as_item(memory: AnyMemory) -> SemanticMemory | None:
    """The memory, if a store has put it and it still holds."""
    is_item = memory.origin is Origin.STORE and isinstance(memory.metadata.get(VALUE), dict)
    return memory if is_item and isinstance(memory, SemanticMemory) and memory.invalid_at is None else None


def _value(item: SemanticMemory) -> dict[str, object]:
    value = item.metadata[VALUE]
    assert isinstance(value, dict)  # noqa: S101 - see _as_item
    return dict(value)
