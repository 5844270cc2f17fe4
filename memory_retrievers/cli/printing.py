"""How the command line shows what it found: JSON, and tables for people or for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Final

import typer

from memory_retrievers.contents import AdoptionReport, VerificationReport
from memory_retrievers.models import AnyMemory, JsonObject, ScopeStatistics, SemanticMemory
from memory_retrievers.rendering.raw import iso
from memory_retrievers.retrieval.explained import ExplainedMemory, ExplainedRetrieval
from memory_retrievers.text import one_line

_MEMORY: Final = ("id", "kind", "created_at", "memory")
_ADOPTION: Final = ("adopted", "updated", "forgotten", "unchanged")
_COUNTS: Final = ("memories", "passages", "postings", "projected", "problems")
_BEFORE_STAGES: Final = ("kind", "rank", "dense", "bm25")
_STAGES: Final = ("kind", "rank", "stage", "place", "given", "memory")
_AFTER_STAGES: Final = ("fused", "before", "retrievability", "score", "memory")


def print_json(value: JsonObject) -> None:
    """Print an object as it is, for people and programs alike."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_explained(explained: ExplainedRetrieval) -> None:
    """Print why each memory stands where it stands; a stage that gave no memory anything is left out.

    For another program that is one line each. On a terminal, where that many columns have no room, the stages follow
    in a table of their own.
    """
    memories = [*explained.semantic, *explained.episodic]
    stages = list(dict.fromkeys(stage.name for memory in memories for stage in memory.stages if stage.score))
    if sys.stdout.isatty():
        print_table((*_BEFORE_STAGES, *_AFTER_STAGES), [_explained(memory, ()) for memory in memories])
        print_table(_STAGES, [line for memory in memories for line in _stages(memory)])
    else:
        headings = (*_BEFORE_STAGES, *(f"{name} score" for name in stages), *_AFTER_STAGES)
        print_table(headings, [_explained(memory, stages) for memory in memories])


def print_memory(memory: AnyMemory) -> None:
    """Print every field of a memory."""
    print_json({"kind": str(memory.kind)} | memory.model_dump(mode="json"))


def print_memories(memories: Sequence[AnyMemory]) -> None:
    """Print each memory in one line."""
    rows = [(memory.id, memory.kind, iso(memory.created_at), _headline(memory)) for memory in memories]
    print_table(_MEMORY, rows)


def print_statistics(statistics: ScopeStatistics) -> None:
    """Print how much a store or a scope holds."""
    print_table(list(ScopeStatistics.model_fields), [[str(count) for _, count in statistics]])


def print_report(report: VerificationReport) -> None:
    """Print what was looked at, then what is wrong, one problem a line."""
    counts = (report.memories, report.passages, report.postings, report.projected, len(report.problems))
    print_table(_COUNTS, [list(map(str, counts))])
    for problem in report.problems:
        typer.echo(one_line(problem))


def print_adoption(report: AdoptionReport) -> None:
    """Print how many documents became what, then how many were left out for which reason."""
    counts = (report.adopted, report.updated, report.forgotten, report.unchanged)
    print_table(_ADOPTION, [list(map(str, counts))])
    for skipped in report.skipped:
        examples = ", ".join(map(repr, skipped.examples))
        typer.echo(one_line(f"skipped {skipped.rows}: {skipped.reason}, for example {examples}"))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Draw a table, or print it tab-separated for another program; a cell cannot pose as structure in either."""
    lines = [[one_line(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _draw_table(headings, lines)
    else:
        for cells in (headings, *lines):
            typer.echo("\t".join(cells))


def _draw_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*headings, box=None, padding=(0, 2, 0, 0))
    for column in table.columns[:-1]:
        column.no_wrap = True
    for row in rows:
        table.add_row(*map(Text, row))  # a Text is no markup
    Console().print(table)


def _explained(memory: ExplainedMemory, stages: Sequence[str]) -> tuple[str, ...]:
    given = {stage.name: f"{stage.score:.4f}" for stage in memory.stages}
    return (
        memory.kind,
        str(memory.rank),
        str(memory.dense_rank or "-"),
        str(memory.bm25_rank or "-"),
        *(given.get(name, "-") for name in stages),
        f"{memory.fused_score:.6f}",
        str(memory.rank_before_forgetting),
        f"{memory.retrievability:.4f}",
        f"{memory.score:.4f}",
        memory.text,
    )


def _stages(memory: ExplainedMemory) -> list[tuple[str, ...]]:
    """What each stage gave a memory that gave it something, a line each; only the first names the memory."""
    given = [(stage.name, str(stage.rank), f"{stage.score:.4f}") for stage in memory.stages if stage.score]
    names = [(memory.kind, str(memory.rank), memory.text), *[("", "", "")] * len(given)]
    return [(kind, rank, *each, text) for (kind, rank, text), each in zip(names, given, strict=False)]


def _headline(memory: AnyMemory) -> str:
    return memory.fact if isinstance(memory, SemanticMemory) else memory.title or memory.summary
