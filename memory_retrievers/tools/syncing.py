"""The tool that writes memories to a document, and takes them in from one: as a file, or in the conversation itself."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, model_validator

from memory_retrievers.errors import ValidationError
from memory_retrievers.managed import Association, MemoryFilter
from memory_retrievers.management.reading import key_of
from memory_retrievers.models import JsonObject, MemoryKey, SemanticMemory
from memory_retrievers.rendering.levels import levels
from memory_retrievers.rendering.raw import iso
from memory_retrievers.tools import sync_files
from memory_retrievers.tools.parameters import one_of, under_one_name
from memory_retrievers.tools.spec import ManagementArguments, ToolContext, ToolOutput
from memory_retrievers.tools.sync_document import FORMAT_VERSION, association_line, memory_line, parse
from memory_retrievers.tools.sync_import import MergeStrategy, take_in

SHOWN_ERRORS: Final = 20


class Operation(StrEnum):
    """Which way memories go."""

    EXPORT = "export"
    IMPORT = "import"


class SyncArguments(ManagementArguments):
    """Arguments of ``memory_sync``; ``validate`` is another name of ``validate_data``."""

    operation: Annotated[Operation, *one_of(Operation, name="operation"), Field(description="export or import.")]
    scope: Annotated[
        str | None,
        Field(
            description=(
                "For export: only this scope and those below it; leave it out for all. "
                "For import: the scope below which everything is put."
            )
        ),
    ] = None
    file_path: Annotated[
        str | None, Field(min_length=1, description="A file in the directory for exports; leave it out to use data.")
    ] = None
    include_associations: Annotated[bool, Field(description="For export: whether associations go along.")] = True
    compression: Annotated[bool, Field(description="For export: whether to pack it (gzip in base64).")] = False
    data: Annotated[str | None, Field(description="For import: the text that an export gave, packed or not.")] = None
    merge_strategy: Annotated[
        MergeStrategy,
        *one_of(MergeStrategy, name="merge_strategy"),
        Field(
            description=(
                "For import, what to do with a memory whose id is there already: skip_duplicates keeps the old one, "
                "overwrite replaces it, create_versions keeps both, merge_metadata adds metadata and tags to it."
            )
        ),
    ] = MergeStrategy.SKIP_DUPLICATES
    validate_data: Annotated[
        bool, Field(description="For import: refuse the whole document if a memory has no content.")
    ] = True

    @model_validator(mode="before")
    @classmethod
    def _validate_is_validate_data(cls, given: object) -> object:
        return under_one_name(given, {"validate": "validate_data"})


def memory_sync(context: ToolContext, arguments: SyncArguments) -> ToolOutput:
    """Export or import memories (specification §4.3); scopes in documents are relative to the root.

    Raises:
        ValidationError: The path, the document or its size is not acceptable, or nothing in it could be taken in.
    """
    return _export(context, arguments) if arguments.operation is Operation.EXPORT else _import(context, arguments)


def _export(context: ToolContext, arguments: SyncArguments) -> ToolOutput:
    # 1. everything that can be refused is refused before anything is written
    path = None if arguments.file_path is None else sync_files.confined(context.sync_directory, arguments.file_path)
    # 2. the document, as text
    document = _document(context, scope=arguments.scope, with_associations=arguments.include_associations)
    text = json.dumps(document, ensure_ascii=False, indent=2)
    if len(text) > sync_files.MAX_BYTES or len(text.encode()) > sync_files.MAX_BYTES:
        raise _too_large()
    if arguments.compression:
        text = sync_files.pack(text)
    # 3. into the file, or into the answer
    size = len(text.encode())
    if path is not None:
        size = sync_files.write(path, f"{sync_files.COMMENT}\n{text}\n" if arguments.compression else text)
    count = document["total_memories"]
    associations = len(document.get("associations", []))
    return ToolOutput.of(
        levels(
            {"success": True, "operation_type": "export", "data": text if path is None else None},
            {"item_count": count, "file_path": arguments.file_path},
            {
                "detailed_summary": _known(
                    {"export_scope": document["export_scope"], "exported": count, "associations": associations}
                ),
                "file_info": _known(
                    {
                        "file_path": arguments.file_path,
                        "size_bytes": size,
                        "compressed": arguments.compression,
                        "format_version": FORMAT_VERSION,
                    }
                ),
                "processing_stats": {"total_memories": count, "export_timestamp": document["export_timestamp"]},
            },
            level=arguments.response_level,
        )
    )


def _document(context: ToolContext, *, scope: str | None, with_associations: bool) -> JsonObject:
    """The memories of a scope and of those below it: facts only, since an episode is more than its summary."""
    within = context.root if scope is None else context.scope_named(scope)
    found = context.manager.select(
        MemoryFilter(scope=within, include_child_scopes=True, kinds=context.kinds, include_invalidated=True)
    )
    memories = [memory for memory in found if isinstance(memory, SemanticMemory)]
    if sum(len(memory.fact) for memory in memories) > sync_files.MAX_BYTES:
        raise _too_large()
    scope_of = {key_of(memory): context.shown(memory.scope) for memory in memories}
    edges = _edges(context, memories, within=within) if with_associations else {}
    associated: dict[MemoryKey, list[str]] = {key: [] for key in scope_of}
    for edge in edges.values():
        associated[edge.source].append(edge.target.id)
        associated[edge.target].append(edge.source.id)
    document: JsonObject = {
        "format_version": FORMAT_VERSION,
        "export_timestamp": iso(context.manager.now()),
        "export_scope": None if scope is None else context.shown(within),
        "total_memories": len(memories),
        "include_associations": with_associations,
        "memories": [
            memory_line(memory, scope=scope_of[key_of(memory)], associated=associated[key_of(memory)])
            for memory in memories
        ],
    }
    if with_associations:
        document["associations"] = [association_line(edge, scope_of=scope_of) for edge in edges.values()]
    return document


def _edges(
    context: ToolContext, memories: list[SemanticMemory], *, within: str
) -> dict[frozenset[MemoryKey], Association]:
    """Each association once, if both its memories are exported."""
    exported = {key_of(memory) for memory in memories}
    return {
        frozenset((edge.source, edge.target)): edge
        for memory in memories
        for edge in context.manager.associations_of(memory, within=within)
        if {edge.source, edge.target} <= exported
    }


def _known(given: JsonObject) -> JsonObject:
    return {name: value for name, value in given.items() if value is not None}


def _too_large() -> ValidationError:
    return ValidationError("the export is larger than 100 MB: choose a narrower scope")


def _import(context: ToolContext, arguments: SyncArguments) -> ToolOutput:
    text = sync_files.unpack(_given(context, arguments))
    document = parse(text, validate=arguments.validate_data)
    report = take_in(context, document, prefix=arguments.scope, strategy=arguments.merge_strategy)
    errors = report.errors[:SHOWN_ERRORS]
    if errors and not report.changed and not report.skipped:
        first = errors[0]
        raise ValidationError(
            f"Nothing could be imported; memory {first['index']}: {first['message']}", details={"errors": errors}
        )
    return ToolOutput.of(
        levels(
            {"success": True, "operation_type": "import"},
            {"item_count": report.changed, "file_path": arguments.file_path},
            {
                "detailed_summary": {
                    "imported": report.imported,
                    "skipped": report.skipped,
                    "overwritten": report.overwritten,
                    "merged": report.merged,
                    "errors": len(report.errors),
                    "error_details": errors,
                },
                "file_info": _known({"file_path": arguments.file_path, "size_bytes": len(text.encode())}),
                "processing_stats": {
                    "total_memories": len(document["memories"]),
                    "associations": report.associations,
                    "merge_strategy": str(arguments.merge_strategy),
                },
            },
            level=arguments.response_level,
        )
    )


def _given(context: ToolContext, arguments: SyncArguments) -> str:
    if (arguments.file_path is None) == (arguments.data is None):
        raise ValidationError("import needs either file_path or data")
    if arguments.file_path is None:
        return arguments.data or ""
    return sync_files.read(sync_files.confined(context.sync_directory, arguments.file_path))
