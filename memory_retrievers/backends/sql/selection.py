"""A selection as SQL: the one place where scope, kind and every filter become conditions.

The fragments name the table of memories ``m`` and take named parameters from :func:`parameters`.
"""

from __future__ import annotations

from memory_retrievers import scopes
from memory_retrievers.backends.sql.connection import Dialect
from memory_retrievers.backends.sql.rows import encode_time
from memory_retrievers.passages import TURN, Selection

_ONE_SCOPE = "= (SELECT id FROM scopes WHERE scope = :scope)"
_SCOPE_AND_CHILDREN = (
    "IN (SELECT id FROM scopes WHERE scope = :scope OR (scope >= :children AND scope < :children_end))"
)

NOT_EXPIRED = "(m.expires_at IS NULL OR m.expires_at > :now)"
_HELD = """coalesce(m.valid_at, m.start_at) <= :as_of AND (m.invalid_at IS NULL OR m.invalid_at > :as_of)"""


def scope_condition(selection: Selection) -> str:
    """What a ``scope_id`` must be, to be written after the column's name."""
    return _SCOPE_AND_CHILDREN if selection.include_child_scopes else _ONE_SCOPE


def searched(selection: Selection) -> str:
    """The condition for a passage ``p`` of a memory of the kind to be of the fields that are searched."""
    return "TRUE" if TURN in selection.fields else "p.part = :kind"


def of_scope(dialect: Dialect, selection: Selection) -> str:  # noqa: ARG001 - as :func:`where`
    """The condition for a memory ``m`` to be of the scope and kind, whatever its state."""
    return in_scope(selection)


def in_scope(selection: Selection) -> str:
    """The same; it is said alike everywhere."""
    return f"m.scope_id {scope_condition(selection)} AND m.kind = :kind"


def where(dialect: Dialect, selection: Selection) -> str:
    """The condition for a memory ``m`` to be seen: in scope, of the kind, holding, not expired, as it is asked for."""
    conditions = [
        in_scope(selection),
        "m.invalid_at IS NULL" if selection.as_of is None else _HELD,
        NOT_EXPIRED,
        *narrowing(dialect, selection),
    ]
    return " AND ".join(conditions)


def narrowing(dialect: Dialect, selection: Selection) -> list[str]:
    """The conditions that hold for a memory ``m`` beyond scope, kind and state."""
    asked = {
        "m.category = :category": selection.category is not None,
        "m.tier = :tier": selection.tier is not None,
        "m.content_type = :content_type": selection.content_type is not None,
        f"m.origin IN ({', '.join(f':{name}' for name in _origins(selection))})": bool(selection.origins),
        "m.created_at >= :created_after": selection.created_after is not None,
        "m.created_at <= :created_before": selection.created_before is not None,
        dialect.among("m.id", ":ids"): selection.ids is not None,
    }
    asked |= {f":tag_{number} IN ({dialect.items('m.tags')})": True for number in range(len(selection.tags))}
    return [condition for condition, is_asked in asked.items() if is_asked]


def index(selection: Selection) -> str:
    """The index that answers for a selection without a look at the memories themselves, as far as one can."""
    return "memories_by_origin" if selection.origins else "memories_by_state"


def _origins(selection: Selection) -> dict[str, object]:
    return {f"origin_{number}": origin for number, origin in enumerate(selection.origins)}


def parameters(dialect: Dialect, selection: Selection) -> dict[str, object]:
    """The values the fragments refer to."""
    children, children_end = scopes.child_range(selection.scope)
    return {
        "scope": selection.scope,
        "children": children,
        "children_end": children_end,
        "kind": selection.kind,
        "now": encode_time(selection.now),
        "category": selection.category,
        "as_of": encode_time(selection.as_of),
        "tier": selection.tier,
        "content_type": selection.content_type,
        "created_after": encode_time(selection.created_after),
        "created_before": encode_time(selection.created_before),
        "ids": None if selection.ids is None else dialect.listed(selection.ids),
        **{f"tag_{number}": tag for number, tag in enumerate(selection.tags)},
        **_origins(selection),
    }
