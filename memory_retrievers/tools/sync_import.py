"""Import of a ``memory_sync`` document: all of its facts, episodes and associations are stored, or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import chain, count

from memory_retrievers.backends.sql.connection import ids_by_scope
from memory_retrievers.errors import ValidationError
from memory_retrievers.models import AnyMemory, Draft, EpisodicMemory, JsonObject, Kind, MemoryKey, SemanticMemory
from memory_retrievers.models.fields import storable
from memory_retrievers.models.management import Association, Change, MemoryFilter, require_category
from memory_retrievers.storage.tracing import advance
from memory_retrievers.tools.arguments import check_limits
from memory_retrievers.tools.sync_document import AnyLine, EpisodeLine, MemoryLine, is_line_of, parse_association, under
from memory_retrievers.tools.tool import ToolContext


class MergeStrategy(StrEnum):
    """Handling of a memory whose id its scope has already."""

    SKIP_DUPLICATES = "skip_duplicates"
    OVERWRITE = "overwrite"
    CREATE_VERSIONS = "create_versions"
    MERGE_METADATA = "merge_metadata"


@dataclass(slots=True)
class Import:
    """Writes that an import makes, and what became of the rest of the document.

    An error has its ``index`` in its list, ``memory_id`` if there is one, ``message``, and ``kind`` of an episode.
    """

    new: list[Draft] = field(default_factory=list)  # what is stored, in place of what is there or not
    replaced: list[AnyMemory] = field(default_factory=list)  # what that takes the place of
    changes: list[Change] = field(default_factory=list)  # what is added to other memories
    landed: dict[MemoryKey, MemoryKey] = field(default_factory=dict)  # where each memory of the document is
    unchanged: int = 0  # there just so, though they were to be stored in place of others
    skipped: int = 0  # there already, or expired
    associations: int = 0  # how many of the document's associations were new
    errors: list[JsonObject] = field(default_factory=list)  # what was wrong with the rest

    @property
    def imported(self) -> int:
        """The number of memories stored as new ones, versions included."""
        return len(self.new) - len(self.replaced)

    @property
    def overwritten(self) -> int:
        """The number of memories stored in place of others, or there just so."""
        return len(self.replaced) + self.unchanged

    @property
    def changed(self) -> int:
        """The number of memories of the document that left something behind."""
        return len(self.new) + len(self.changes) + self.unchanged


def take_in(context: ToolContext, document: JsonObject, *, prefix: str | None, strategy: MergeStrategy) -> Import:
    """Store the facts and episodes of a document and what associates them, all of it or none.

    Args:
        context: What the tool works on.
        document: As ``sync_document.parse`` gives it; without the lists that are not to be taken in.
        prefix: A scope, relative to the root, below which the document's scopes are put.
        strategy: What becomes of a memory whose id its scope has already.
    """
    # 1. read every memory with care; what is wrong with one is its own error
    prefix = None if prefix is None else prefix.rstrip("/")
    context.scope_named(prefix)
    plan = Import()
    lines = _readable(context, document, prefix=prefix, plan=plan)
    with context.manager.transaction():
        # 2. decide what becomes of each
        _decide(context, lines, strategy=strategy, plan=plan)
        # 3. write it: the new memories, then the changed ones, each with their texts embedded in batches
        manager = context.manager
        kept = [edge for memory in plan.replaced for edge in manager.associations_of(memory, within=context.root)]
        manager.add(plan.new, replace=True)
        manager.update_many(plan.changes)
        # 4. what was associated stays so, and what the document associates comes to it
        _associate(context, kept)
        edges = _edges(context, document, prefix=prefix, landed=plan.landed)
        plan.associations = _associate(context, edges)
        advance()  # the last moment at which it can be ended
    return plan


def _associate(context: ToolContext, edges: Sequence[Association]) -> int:
    """Write the associations whose memories are both there; gives how many are new."""
    present = _present(context, {key for edge in edges for key in (edge.source, edge.target)})
    return context.manager.associate([edge for edge in edges if {edge.source, edge.target} <= present.keys()])


def _readable(
    context: ToolContext, document: JsonObject, *, prefix: str | None, plan: Import
) -> dict[MemoryKey, tuple[int, AnyLine]]:
    """The memories that keep all rules, by where they belong, each with its place in its list of the document."""
    kinds: list[tuple[str, type[AnyLine]]] = [("memories", MemoryLine), ("episodes", EpisodeLine)]
    lines: dict[MemoryKey, tuple[int, AnyLine]] = {}
    for name, kind in kinds:
        episode = name == "episodes"
        for index, each in enumerate(document.get(name, [])):
            try:
                line = kind.parse(each)
                check_limits(context.manager.settings, content=line.content, tags=line.tags, metadata=line.metadata)
                if isinstance(line, EpisodeLine):
                    for text in (line.title, *(message.content for message in line.messages)):
                        check_limits(context.manager.settings, content=text)
                else:
                    require_category(line.category, context.manager.ingestion.categories)
                scope = _placed(context, line.scope, prefix=prefix)
                key = MemoryKey(scope=scope, id=line.id_in(scope))
            except ValidationError as error:
                _note(plan, index, each, error, episode=episode)
                continue
            if key in lines:
                twice = ValidationError("the same id is in the document twice")
                _note(plan, index, each, twice, episode=episode)
            else:
                lines[key] = (index, line)
    return lines


def _placed(context: ToolContext, scope: str | None, *, prefix: str | None) -> str:
    """The scope of the store for a scope of the document."""
    return context.scope_named(prefix if scope is None else under(prefix, scope))


def _note(plan: Import, index: int, given: object, error: ValidationError, *, episode: bool = False) -> None:
    known = given.get("memory_id") if isinstance(given, Mapping) else None
    named: JsonObject = {"memory_id": storable(known[:200])} if isinstance(known, str) else {}
    kind: JsonObject = {"kind": str(Kind.EPISODIC)} if episode else {}
    plan.errors.append({"index": index, **kind, **named, "message": str(error)})


def _decide(
    context: ToolContext, lines: Mapping[MemoryKey, tuple[int, AnyLine]], *, strategy: MergeStrategy, plan: Import
) -> None:
    now = context.manager.now()
    present = _present(context, lines)
    for key, (index, line) in lines.items():
        advance()
        there = present.get(key)
        plan.landed[key] = key
        if line.expires_at is not None and line.expires_at <= now:
            plan.skipped += 1
        elif there is None:
            plan.new.append(line.draft(scope=key.scope, id=key.id))
        elif strategy is MergeStrategy.SKIP_DUPLICATES:
            plan.skipped += 1
        elif strategy is MergeStrategy.MERGE_METADATA:
            tags = tuple(dict.fromkeys((*there.tags, *line.tags)))
            try:
                check_limits(context.manager.settings, tags=tags, metadata={**there.metadata, **line.metadata})
            except ValidationError as error:
                _note(plan, index, {"memory_id": key.id}, error, episode=isinstance(line, EpisodeLine))
                continue
            plan.changes.append(Change(memory=there, metadata=line.metadata, tags=tags))
        elif strategy is MergeStrategy.CREATE_VERSIONS:
            version = _version(context, key, now=now, taken=lines)
            plan.landed[key] = version
            plan.new.append(line.draft(scope=version.scope, id=version.id))
        elif isinstance(there, SemanticMemory) == isinstance(line, MemoryLine):
            if is_line_of(line, there):  # it would only lose its history
                plan.unchanged += 1
            else:
                plan.replaced.append(there)
                plan.new.append(line.draft(scope=key.scope, id=key.id, origin=there.origin))
        else:
            kind = "an episode" if isinstance(there, EpisodicMemory) else "a fact"
            other = ValidationError(f"{kind} cannot be overwritten by a memory of the other kind")
            _note(plan, index, {"memory_id": key.id}, other, episode=isinstance(line, EpisodeLine))


def _version(context: ToolContext, key: MemoryKey, *, now: datetime, taken: Iterable[MemoryKey]) -> MemoryKey:
    """A free id for another version of a memory."""
    first = f"{key.id}_v{now:%Y%m%d_%H%M%S}"
    free = chain([first], (f"{first}_{number}" for number in count(2)))
    versions = (MemoryKey(scope=key.scope, id=each) for each in free)
    return next(each for each in versions if each not in taken and not _present(context, [each]))


def _present(context: ToolContext, keys: Iterable[MemoryKey]) -> dict[MemoryKey, AnyMemory]:
    """Those of the memories that are there, of either kind and any origin."""
    return {
        memory.key: memory
        for scope, ids in ids_by_scope(keys).items()
        for memory in context.manager.select(
            MemoryFilter(scope=scope, kinds="all", ids=tuple(ids), include_invalidated=True)
        )
    }


def _edges(
    context: ToolContext, document: JsonObject, *, prefix: str | None, landed: Mapping[MemoryKey, MemoryKey]
) -> list[Association]:
    """The document's associations between memories of the document, from where they are now."""
    places: dict[str, list[MemoryKey]] = {}
    for key in landed:
        places.setdefault(key.id, []).append(key)

    def find(id: str, scope: str | None) -> MemoryKey | None:
        if scope is None:
            of_that_id = places.get(id, [])
            return landed[of_that_id[0]] if len(of_that_id) == 1 else None
        try:
            return landed.get(MemoryKey(scope=_placed(context, scope, prefix=prefix), id=id))
        except ValidationError:
            return None

    found: list[Association] = []
    for each in document.get("associations", []):
        line = parse_association(each)
        if line is None:
            continue
        source, target = find(line.source_id, line.source_scope), find(line.target_id, line.target_scope)
        if source is not None and target is not None and source != target:
            found.append(
                Association(
                    source=source,
                    target=target,
                    type=line.association_type,
                    strength=line.strength,
                    auto_generated=line.auto_generated,
                    created_at=line.created_at or context.manager.now(),
                )
            )
    return found
