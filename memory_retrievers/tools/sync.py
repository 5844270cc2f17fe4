"""The tool that exports and imports memories as one document, and its files, which lie within one directory."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar, Final

from pydantic import Field

from memory_retrievers.backends.files import PRIVATE, Folder, make_directories, name_beside
from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.models import AnyMemory, EpisodicMemory, JsonObject, MemoryKey, SemanticMemory
from memory_retrievers.models.fields import iso
from memory_retrievers.models.management import Association, MemoryFilter
from memory_retrievers.tools.arguments import ManagementArguments, one_of
from memory_retrievers.tools.sync_document import FORMAT_VERSION, association_line, memory_line, parse
from memory_retrievers.tools.sync_import import MergeStrategy, take_in
from memory_retrievers.tools.tool import Answer, ToolContext

SHOWN_ERRORS: Final = 20


class Direction(StrEnum):
    """Direction in which memories go."""

    EXPORT = "export"
    IMPORT = "import"


class SyncKinds(StrEnum):
    """Memories of a document."""

    FACTS = "facts"
    EPISODES = "episodes"
    ALL = "all"


class SyncArguments(ManagementArguments):
    """Arguments of ``memory_sync``; ``validate`` is another name of ``validate_data``."""

    other_names: ClassVar[Mapping[str, str]] = {"validate": "validate_data"}

    operation: Annotated[Direction, *one_of(Direction), Field(description="export or import.")]
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
    kind: Annotated[
        SyncKinds | None,
        *one_of(SyncKinds),
        Field(
            description=(
                "facts, episodes (with their messages), or all. Left out, an export has facts, and an import takes in "
                "all that the document has."
            )
        ),
    ] = None
    include_associations: Annotated[bool, Field(description="For export: whether to include associations.")] = True
    compression: Annotated[bool, Field(description="For export: whether to compress it (gzip in base64).")] = False
    data: Annotated[str | None, Field(description="For import: the text of an export, compressed or not.")] = None
    merge_strategy: Annotated[
        MergeStrategy,
        *one_of(MergeStrategy),
        Field(
            description=(
                "For import, what to do with a memory whose id already exists: skip_duplicates keeps the old one, "
                "overwrite replaces it, create_versions keeps both, merge_metadata adds metadata and tags to it."
            )
        ),
    ] = MergeStrategy.SKIP_DUPLICATES
    validate_data: Annotated[
        bool, Field(description="For import: refuse the whole document if a memory has no content.")
    ] = True


def memory_sync(context: ToolContext, arguments: SyncArguments) -> Answer:
    """Export or import memories (specification §4.3); scopes in documents are relative to the root.

    Raises:
        ValidationError: The path, the document or its size is not acceptable, or nothing in it could be taken in.
    """
    return _export(context, arguments) if arguments.operation is Direction.EXPORT else _import(context, arguments)


def _export(context: ToolContext, arguments: SyncArguments) -> Answer:
    # everything that can be refused is refused before anything is written
    home = context.sync_directory
    path = None if arguments.file_path is None else confined(home, arguments.file_path)
    kinds = arguments.kind or SyncKinds.FACTS
    document, left_out = _document(
        context, scope=arguments.scope, kinds=kinds, with_associations=arguments.include_associations
    )
    text = json.dumps(document, ensure_ascii=False, indent=2)
    if len(text) > MAX_BYTES or len(text.encode()) > MAX_BYTES:
        raise _export_too_large()
    if arguments.compression:
        text = pack(text)
    size = len(text.encode())
    if path is not None and home is not None:
        written = f"{COMMENT}\n{text}\n" if arguments.compression else text
        size = write_file(path, written, within=home)
    count = document["total_memories"] + document.get("total_episodes", 0)
    associations = len(document.get("associations", []))
    return Answer(
        {"success": True, "operation_type": "export", "data": text if path is None else None},
        {"item_count": count, "file_path": arguments.file_path, "left_out": left_out},
        lambda: {
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
    )


def _left_out(found: Sequence[AnyMemory], *, kinds: SyncKinds) -> str | None:
    """What an export says of what is not in it; None if all is."""
    facts = sum(isinstance(memory, SemanticMemory) for memory in found)
    queued = sum(isinstance(memory, EpisodicMemory) and memory.is_open for memory in found)
    episodes = len(found) - facts - queued
    parts = []
    if kinds is SyncKinds.FACTS and episodes:
        parts.append(f"{_counted(episodes, 'episode')}: ask for them with kind='all'")
    if kinds is SyncKinds.EPISODES and facts:
        parts.append(f"{_counted(facts, 'fact')}: ask for them with kind='all'")
    if queued:
        parts.append(f"{_counted(queued, 'conversation')} not yet closed: flush, or AgentMemory.export")
    return "; ".join(parts) or None


def _counted(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def _document(
    context: ToolContext, *, scope: str | None, kinds: SyncKinds, with_associations: bool
) -> tuple[JsonObject, str | None]:
    """The memories of a scope and of those below it, and what is left out; a queued conversation always is."""
    within = context.root if scope is None else context.scope_named(scope)
    found = context.manager.select(
        MemoryFilter(scope=within, include_child_scopes=True, kinds=context.seen, include_invalidated=True)
    )
    facts = [each for each in found if isinstance(each, SemanticMemory) and kinds is not SyncKinds.EPISODES]
    episodes = [
        each for each in found if isinstance(each, EpisodicMemory) and not each.is_open and kinds is not SyncKinds.FACTS
    ]
    memories: list[AnyMemory] = [*facts, *episodes]
    if sum(map(_length, memories)) > MAX_BYTES:
        raise _export_too_large()
    context.manager.quote(memories)
    scope_of = {memory.key: context.shown(memory.scope) for memory in memories}
    edges = _edges(context, memories, within=within) if with_associations else {}
    associated: dict[MemoryKey, list[str]] = {key: [] for key in scope_of}
    for edge in edges.values():
        associated[edge.source].append(edge.target.id)
        associated[edge.target].append(edge.source.id)

    def lines(of: Sequence[AnyMemory]) -> list[JsonObject]:
        return [memory_line(each, scope=scope_of[each.key], associated=associated[each.key]) for each in of]

    document: JsonObject = {
        "format_version": FORMAT_VERSION,
        "export_timestamp": iso(context.manager.now()),
        "export_scope": None if scope is None else context.shown(within),
        "total_memories": len(facts),
        "include_associations": with_associations,
        "memories": lines(facts),
    }
    if kinds is not SyncKinds.FACTS:
        document |= {"total_episodes": len(episodes), "episodes": lines(episodes)}
    if with_associations:
        document["associations"] = [association_line(edge, scope_of=scope_of) for edge in edges.values()]
    return document, _left_out(found, kinds=kinds)


def _length(memory: AnyMemory) -> int:
    """Characters of the texts of a memory."""
    if isinstance(memory, SemanticMemory):
        return len(memory.fact)
    return len(memory.title) + len(memory.summary) + sum(len(message.content) for message in memory.messages)


def _edges(
    context: ToolContext, memories: Sequence[AnyMemory], *, within: str
) -> dict[frozenset[MemoryKey], Association]:
    """Each association once, if both its memories are exported."""
    exported = {memory.key for memory in memories}
    return {
        frozenset((edge.source, edge.target)): edge
        for memory in memories
        for edge in context.manager.associations_of(memory, within=within)
        if {edge.source, edge.target} <= exported
    }


def _known(given: JsonObject) -> JsonObject:
    return {name: value for name, value in given.items() if value is not None}


def _export_too_large() -> ValidationError:
    return ValidationError("the export is larger than 100 MB: choose a narrower scope")


def _import(context: ToolContext, arguments: SyncArguments) -> Answer:
    settings = context.manager.settings
    text = unpack(_given(context, arguments), most=settings.import_max_bytes)
    document = parse(text, validate=arguments.validate_data, settings=settings)
    left_out = _narrow(document, arguments.kind)
    report = take_in(context, document, prefix=arguments.scope, strategy=arguments.merge_strategy)
    errors = report.errors[:SHOWN_ERRORS]
    if errors and not report.changed and not report.skipped:
        first = errors[0]
        name = "episode" if "kind" in first else "memory"
        raise ValidationError(
            f"Nothing could be imported; {name} {first['index']}: {first['message']}", details={"errors": errors}
        )
    return Answer(
        {"success": True, "operation_type": "import"},
        {"item_count": report.changed, "file_path": arguments.file_path, "left_out": left_out},
        lambda: {
            "detailed_summary": {
                "imported": report.imported,
                "skipped": report.skipped,
                "overwritten": report.overwritten,
                "merged": len(report.changes),
                "errors": len(report.errors),
                "error_details": errors,
            },
            "file_info": _known({"file_path": arguments.file_path, "size_bytes": len(text.encode())}),
            "processing_stats": {
                "total_memories": len(document["memories"]) + len(document.get("episodes", [])),
                "associations": report.associations,
                "merge_strategy": str(arguments.merge_strategy),
            },
        },
    )


def _narrow(document: JsonObject, kinds: SyncKinds | None) -> str | None:
    """Empty the list of a document that is not asked for, and say what is left out; None if nothing is."""
    name, one = ("episodes", "episode") if kinds is SyncKinds.FACTS else ("memories", "fact")
    if kinds in {None, SyncKinds.ALL} or not (left_out := document.get(name)):
        return None
    document[name] = []
    return f"{_counted(len(left_out), one)} of the document"


def _given(context: ToolContext, arguments: SyncArguments) -> str:
    if (arguments.file_path is None) == (arguments.data is None):
        raise ValidationError("import needs either file_path or data")
    if arguments.file_path is None:
        return arguments.data or ""
    path = confined(home := context.sync_directory, arguments.file_path)
    return read_file(path, within=home or path.parent, most=context.manager.settings.import_max_bytes)


MAX_BYTES: Final = 100 * 1024 * 1024
"""The largest export, packed or not, and what the command line takes in (specification §4.3)."""

COMMENT: Final = "# Compressed memory export: base64 of gzip"
_COMMENT_START: Final = "# Compressed"
_SPACES: Final = b" \t\r\n\v\f"


def confined(directory: Path | None, named: str) -> Path:
    """The file that a model has named, within the directory of the host; symbolic links are followed first.

    Raises:
        ValidationError: There is no such directory, or the path leads out of it or to something that is no file.
    """
    if directory is None:
        raise ValidationError("file_path cannot be used here: leave it out, and exchange the data in the answer")
    home = directory.resolve()
    try:
        path = (home / named).resolve()
        if path == home or not path.is_relative_to(home):
            raise ValidationError("file_path leads out of the directory for exports: give a relative path within it")
        if path.exists() and not path.is_file():
            raise ValidationError("file_path is not a file")
    except (ValueError, OSError, RuntimeError) as error:
        if isinstance(error, ValidationError):
            raise
        raise ValidationError("file_path is not a path that can be used") from error
    return path


def write_file(path: Path, text: str, *, within: Path) -> int:
    """Write a file whole or not at all, and give its size in bytes.

    Args:
        path: What :func:`confined` gave.
        text: What to write.
        within: The directory it was confined to.

    Raises:
        ValidationError: It cannot be written.
    """
    content = text.encode()
    part = name_beside(path)
    try:
        with _folder_of(path, within, make=True) as folder:
            try:
                with folder.create(part) as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())  # or a power cut could leave an empty file under the name
                folder.replace(part, path.name)
            finally:
                folder.remove(part)
    except OSError as error:
        raise ValidationError(f"the file cannot be written: {error.strerror}") from error
    return len(content)


def read_file(path: Path, *, within: Path, most: int) -> str:
    """The text of a file that :func:`confined` gave, in the directory it was confined to.

    Args:
        path: The file.
        within: The directory.
        most: How many bytes it may have.

    Raises:
        ValidationError: There is none, it is too large, or no UTF-8.
    """
    try:
        with _folder_of(path, within) as folder:
            content = folder.read(path.name, most + 1)
    except OSError as error:
        raise ValidationError(f"the file cannot be read: {error.strerror}") from error
    except ConfigurationError as error:
        raise ValidationError("the file cannot be read: it is a link, or no plain file") from error
    return _decoded(content, of="the file", most=most)


@contextmanager
def _folder_of(path: Path, within: Path, *, make: bool = False) -> Iterator[Folder]:
    """The directory of a file, gone down to step by step: what has become a link meanwhile leads nowhere."""
    home = within.resolve()
    if make:
        make_directories(home)
    with ExitStack() as steps:
        folder = steps.enter_context(Folder(home))
        for name in path.relative_to(home).parts[:-1]:
            folder = steps.enter_context(folder.below(name, PRIVATE if make else None))
        yield folder


def pack(text: str) -> str:
    """The text as base64 of gzip; the same text always packs to the same."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def unpack(text: str, *, most: int) -> str:
    """The document in a text, packed or not, with or without the comment before it; ``most`` bytes in either form.

    Raises:
        ValidationError: It is too large, or packed in another way.
    """
    if len(text) > most or (not text.isascii() and len(text.encode("utf-8", "replace")) > most):
        raise _too_large("the data", most=most)
    text = text.lstrip("\ufeff \t\r\n")
    if text.startswith(_COMMENT_START):
        text = text.partition("\n")[2].lstrip()
    if text.startswith(("{", "[")):
        return text
    try:
        packed = base64.b64decode(text.encode("ascii").translate(None, _SPACES), validate=True)
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as unpacked:
            content = unpacked.read(most + 1)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise ValidationError("the data is neither JSON nor base64 of gzip") from error
    return _decoded(content, of="the unpacked data", most=most)


def _too_large(what: str, *, most: int) -> ValidationError:
    """The error for a passed limit of bytes, which says how to raise the limit."""
    bound = f"{most // 2**20} MB" if most >= 2**20 else f"{most} bytes"
    return ValidationError(
        f"{what} is larger than {bound}: import it in parts, or let the host raise import_max_bytes of ToolSettings"
    )


def _decoded(content: bytes, *, of: str, most: int) -> str:
    if len(content) > most:
        raise _too_large(of, most=most)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValidationError(f"{of} is not UTF-8") from error
