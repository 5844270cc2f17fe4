"""The description of a tool for MCP clients: its title, what it may change, and the shape of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memory_retrievers.models import JsonObject
from memory_retrievers.tools.tool import AnyTool

_ADDS: Final = frozenset({"memory_store", "memory_batch_store"})
"""The tools that write and only add: nothing that was there is changed."""

_REPEATABLE: Final = frozenset(
    {"memory_update", "memory_batch_update", "memory_delete", "memory_set_score", "memory_move"}
)
"""The tools that write, and change nothing more when they are called again with the same arguments."""

_KEYS: Final[Mapping[str, str]] = {
    "boolean": "success updated preserved exists",
    "integer": (
        "total_count total deleted_count limit offset stored_count updated_count original_count summary_length "
        "association_count moved_count scope_count token_count item_count access_count associations_count"
    ),
    "number": "importance_score previous_score new_score confidence",
    "string": (
        "id memory_id memory_tier created_at content scope content_type updated_at category consolidated_memory_id "
        "target_scope source_scope operation_type data suggested_scope reasoning action_summary scene duplicate_of "
        "note left_out"
    ),
    "string null": "last_accessed_at expires_at",
    "object": (
        "memory_object duplicate_analysis search_metadata metadata memory discovery_metadata pagination_info "
        "detailed_summary file_info processing_stats statistics suggestion_analysis session_info session_details"
    ),
    "array": (
        "semantic episodic associations_details results tags associations deleted_ids affected_items memories "
        "stored_ids errors memory_objects duplicates updated_ids moved_items scopes hierarchy alternatives "
        "all_alternatives affected_memories characters similar"
    ),
}
"""The fields of answers, by the type that each has in all of them."""

_TYPES: Final = {key: types.split() for types, keys in _KEYS.items() for key in keys.split()}

_ANSWERS: Final[Mapping[str, str]] = {
    "retrieve_memory": "semantic* episodic*",
    "context_pre_retrieve": "semantic* episodic*",
    "recent_memory": "semantic episodic*",
    "memory_store": (
        "success memory_id id memory_tier created_at content scope duplicate_of similar note associations_count "
        "memory_object associations_details duplicate_analysis"
    ),
    "memory_search": "success total_count total results search_metadata",
    "memory_get": (
        "success id* content content_type memory_tier tags created_at metadata updated_at expires_at scope category "
        "associations importance_score access_count last_accessed_at"
    ),
    "memory_update": "success id* updated updated_at memory_object",
    "memory_delete": "success deleted_count* deleted_ids* affected_items",
    "memory_list": "success total* memories limit offset",
    "memory_batch_store": "success* stored_count* stored_ids* errors* duplicates memory_objects",
    "memory_batch_update": "success* updated_count* updated_ids* errors* memory_objects",
    "memory_get_score": "success* memory_id* importance_score access_count last_accessed_at memory_object",
    "memory_set_score": "success* memory_id* previous_score new_score memory_object",
    "memory_consolidate": ("success* consolidated_memory_id* original_count* preserved summary_length memory_object"),
    "memory_manage": "success* exists memory associations metadata",
    "memory_discover_associations": "success* association_count* associations discovery_metadata",
    "memory_move": "success* moved_count target_scope moved_items source_scope",
    "memory_list_all": "success* total_count* memories pagination_info",
    "memory_sync": "success* operation_type* data item_count left_out detailed_summary file_info processing_stats",
    "scope_list": "success* scope_count* scopes hierarchy statistics",
    "scope_suggest": (
        "success* suggested_scope* confidence alternatives suggestion_analysis all_alternatives reasoning"
    ),
    "session_manage": "success* session_info action_summary session_details affected_memories",
    "scene": "success* token_count* scene characters",
}
"""The fields of each tool's answer, whatever the response level; with a star those that are always there."""


def annotations_of(tool: AnyTool) -> JsonObject:
    """The hints of a tool; they are for people who decide what a model may do unasked, and protect nothing."""
    hints: JsonObject = {"title": title_of(tool), "readOnlyHint": not tool.writes, "openWorldHint": False}
    if tool.writes:
        hints |= {"destructiveHint": tool.name not in _ADDS, "idempotentHint": tool.name in _REPEATABLE}
    return hints


def title_of(tool: AnyTool) -> str:
    """The name of a tool for people.

    >>> from memory_retrievers.tools.registry import REGISTRY
    >>> title_of(REGISTRY["memory_batch_store"])
    'Memory batch store'
    """
    return tool.name.replace("_", " ").capitalize()


def output_schema_of(tool: AnyTool) -> JsonObject:
    """The JSON schema of what a tool answers as data when it has not failed; fields may be added to it."""
    fields = _ANSWERS[tool.name].split()
    return {
        "type": "object",
        "properties": {name: _typed(name) for name in (field.removesuffix("*") for field in fields)},
        "required": [field.removesuffix("*") for field in fields if field.endswith("*")],
    }


def _typed(name: str) -> JsonObject:
    types = _TYPES[name]
    return {"type": types[0] if len(types) == 1 else types}
