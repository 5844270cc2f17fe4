"""A selection as SQL: the one place where scope, kind and every filter become conditions.

The fragments name the table of memories ``m`` and take named parameters from :func:`parameters`.
"""

from __future__ import annotations

from memory_retrievers import scopes
from memory_retrievers.backends.sqlite.rows import encode_time
from memory_retrievers.passages import Selection

_ONE_SCOPE = "= (SELECT id FROM scopes WHERE scope = :scope)"
_SCOPE_AND_CHILDREN = (
    "IN (SELECT id FROM scopes WHERE scope = :scope OR (scope >= :children AND scope < :children_end))"
)


_HELD = """coalesce(m.valid_at, m.start_at) <= :as_of AND (m.invalid_at IS NULL OR m.invalid_at > :as_of)"""


def scope_condition(selection: Selection) -> str:
    """What a ``scope_id`` must be, to be written after the column's name."""
    return _SCOPE_AND_CHILDREN if selection.include_child_scopes else _ONE_SCOPE


def in_scope(selection: Selection) -> str:
    """The condition for a memory ``m`` to be of the scope and kind, whatever its state."""
    return f"m.scope_id {scope_condition(selection)} AND m.kind = :kind"


def where(selection: Selection) -> str:
    """The condition for a memory ``m`` to be seen: in scope, of the kind, holding, not expired, of the category."""
    conditions = [
        in_scope(selection),
        "m.invalid_at IS NULL" if selection.as_of is None else _HELD,
        "(m.expires_at IS NULL OR m.expires_at > :now)",
    ]
    if selection.category is not None:
        conditions.append("m.category = :category")
    return " AND ".join(conditions)


def parameters(selection: Selection) -> dict[str, object]:
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
    }
