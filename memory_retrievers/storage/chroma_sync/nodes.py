"""Rows of LlamaIndex's ``ChromaVectorStore``: separates the user's metadata from LlamaIndex's own.

Beside the user's metadata it keeps five fields for itself: the node as JSON, its type, and three times the id of the
document the node was cut from. The JSON is as foreign as the rest of a row: it is read within bounds, and not at all
where the row says the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

_CONTENT: Final = "_node_content"
_OWN: Final = frozenset({_CONTENT, "_node_type", "document_id", "doc_id", "ref_doc_id"})

_MAX_CONTENT: Final = 2_000_000
"""Characters of a node that are parsed: a text that a memory may have, twice."""
_MAX_TEMPLATE: Final = 1_000
_MAX_KEYS: Final = 1_000
_PLACES: Final = re.compile(r"\{(key|value|metadata_str|content)\}")


def is_node(metadata: Mapping[str, object]) -> bool:
    """Return True if LlamaIndex wrote the row."""
    return isinstance(metadata.get(_CONTENT), str) and isinstance(metadata.get("_node_type"), str)


def own_fields(metadata: Mapping[str, object]) -> dict[str, Any]:
    """Fields that belong to LlamaIndex; empty if something else wrote the row."""
    return {key: value for key, value in metadata.items() if key in _OWN} if is_node(metadata) else {}


def without_own_fields(metadata: Mapping[str, object]) -> dict[str, Any]:
    """Return the user's metadata alone."""
    own = own_fields(metadata)
    return {key: value for key, value in metadata.items() if key not in own}


def node_text(metadata: Mapping[str, object]) -> str | None:
    """The text of a node whose row has no document; None if there is none."""
    node = _node(metadata)
    resource = node.get("text_resource")
    for text in (node.get("text"), resource.get("text") if isinstance(resource, dict) else None):
        if isinstance(text, str) and text:
            return text
    return None


def embedded_text(metadata: Mapping[str, object], text: str) -> str | None:
    """Text that LlamaIndex embeds: the node's metadata, then its text; None if the row does not contain it."""
    node = _node(metadata)
    shown, excluded = node.get("metadata"), node.get("excluded_embed_metadata_keys")
    if not isinstance(shown, dict) or len(shown) > _MAX_KEYS:
        return None
    if not all(value is None or isinstance(value, str | int | float) for value in shown.values()):
        return None  # LlamaIndex accepts nothing else as metadata for Chroma
    hidden = {key for key in excluded if isinstance(key, str)} if isinstance(excluded, list) else set()
    each = _template(node, "metadata_template", "{key}: {value}")
    before = _template(node, "metadata_separator", "\n").join(
        _filled(each, key=key, value=str(value)) for key, value in shown.items() if key not in hidden
    )
    whole = _template(node, "text_template", "{metadata_str}\n\n{content}")
    return _filled(whole, metadata_str=before, content=text).strip()


def with_changes(
    own: Mapping[str, Any], *, before: Mapping[str, object], after: Mapping[str, object]
) -> dict[str, Any]:
    """LlamaIndex's fields of a row whose metadata have changed, so that LlamaIndex reads the changes too.

    Args:
        own: These fields as they are in the row.
        before: The user's metadata as they are in the row.
        after: The user's metadata as they are to be.
    """
    node = _node(own)
    metadata = node.get("metadata")
    if before == after or not isinstance(metadata, dict):
        return dict(own)
    kept = {key: value for key, value in metadata.items() if key in after or key not in before}
    new = {key: value for key, value in after.items() if key not in before or before[key] != value}
    try:
        # escaped, since half of a surrogate pair, which JSON can hold, cannot be written to Chroma
        return {**own, _CONTENT: json.dumps({**node, "metadata": {**kept, **new}})}
    except RecursionError:  # it could just be read
        return dict(own)


def _node(metadata: Mapping[str, object]) -> dict[str, Any]:
    """The node; empty where there is none, or none that can be read."""
    content = metadata.get(_CONTENT)
    if not isinstance(content, str) or len(content) > _MAX_CONTENT:
        return {}
    try:
        node = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return node if isinstance(node, dict) else {}


def _template(node: Mapping[str, Any], name: str, default: str) -> str:
    """A template of the node, unless it is so long that what it repeats could fill the memory."""
    given = node.get(name)
    return given if isinstance(given, str) and len(given) <= _MAX_TEMPLATE else default


def _filled(template: str, **given: str) -> str:
    """Fill a template in one pass, so that inserted text is not searched for placeholders."""
    return _PLACES.sub(lambda place: given.pop(place[1], place[0]), template)
