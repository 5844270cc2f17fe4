"""Output of commands: memories, tables and progress, safe for a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import typer
from pydantic_core import to_jsonable_python

from memory_retrievers.models import AnyMemory, JsonObject, ScopeStatistics, SemanticMemory
from memory_retrievers.models.contents import AdoptionReport, Progress, VerificationReport
from memory_retrievers.models.fields import iso
from memory_retrievers.models.results import MemoryDiff
from memory_retrievers.text.analysis import for_terminals, json_for_terminals, one_line

if TYPE_CHECKING:
    from memory_retrievers.storage.diagnosis import Diagnosis


def print_json(value: JsonObject) -> None:
    r"""Print an object as it is, for people and programs alike; ``\u001b`` in JSON loses nothing."""
    typer.echo(json_for_terminals(value))


def print_answer(answer: JsonObject | str) -> None:
    """Print an object as JSON, or a text of one or more lines."""
    if isinstance(answer, str):
        print_text(answer)
    else:
        print_json(answer)


def print_text(text: object, *, err: bool = False) -> None:
    """Print a text of one or more lines."""
    typer.echo(for_terminals(str(text)), err=err)


def announce(what: str, address: str) -> None:
    """Print where a server does what; it does so as well where standard output cannot be written."""
    with suppress(OSError):
        print_text(f"{what} at {address}")


def print_line(text: str, *, err: bool = False) -> None:
    """Print a text on one line; the arguments are those of :func:`print_text`."""
    typer.echo(shown_line(text), err=err)


def shown_line(text: str) -> str:
    """The text on one line, for a terminal."""
    return one_line(for_terminals(" ".join(text.split())))


def print_memories(memories: Sequence[AnyMemory]) -> None:
    """Print each memory in one line, and since when it does not hold any more, if it does not."""
    ended = [memory.invalid_at if isinstance(memory, SemanticMemory) else None for memory in memories]
    rows = [
        (memory.id, memory.kind, iso(memory.created_at), "" if end is None else iso(end), _headline(memory))
        for memory, end in zip(memories, ended, strict=True)
    ]
    print_table(("id", "kind", "created_at", "invalid_at", "memory"), rows)


def print_diff(diff: MemoryDiff) -> None:
    """Print a line for each memory: ``+`` for what is new, ``-`` for what was, both for what changed."""
    for memory in diff.added:
        print_line(f"+ {_headline(memory)}")
    for before, after in diff.changed:
        print_line(f"- {_headline(before)}")
        print_line(f"+ {_headline(after)}")
    for fact in diff.ended:
        print_line(f"- {_headline(fact)}")
    if not diff.is_complete:
        print_line("More has changed; ask for a shorter time.", err=True)


def print_statistics(statistics: ScopeStatistics) -> None:
    """Print how much a store or a scope holds."""
    print_table(list(ScopeStatistics.model_fields), [[str(count) for _, count in statistics]])


def print_report(report: VerificationReport) -> None:
    """Print what was looked at, then what is wrong, one problem a line, then what is worth a look."""
    counts = (report.memories, report.passages, report.postings, report.projected, len(report.problems))
    print_table(("memories", "passages", "postings", "projected", "problems"), [list(map(str, counts))])
    for problem in report.problems:
        print_line(problem)
    for note in report.notes:
        print_line(f"note: {note}")


def print_diagnosis(store: str, seen: Diagnosis) -> None:
    """Print how a store is, who uses it, and what to do, one finding a line."""
    print_table(("what", "is"), [("store", store), *_rows(seen)])
    if seen.users:
        print_line("")
        users = [_user(each) for each in to_jsonable_python(seen.users)]
        print_table(("pid", "program", "version", "since", "holds"), users)
    print_line("")
    for finding in seen.findings:
        print_line(f"{finding.what}: {finding.remedy}")
    if not seen.findings:
        print_line("nothing to do")


_SHOWN: Final = "memories embedder dimension waiting_messages pending_reviews review_jobs reembedded"


def _rows(seen: Diagnosis) -> list[tuple[str, str]]:
    schema = f"{seen.schema}"
    if 0 < seen.schema < seen.known_schema:
        schema += f" (brought to {seen.known_schema} when it is opened)"
    rows = [
        ("backend", seen.backend),
        ("schema", schema),
        ("bytes", ", ".join(f"{part} {number:,}" for part, number in seen.bytes.items())),
        ("check", "; ".join(seen.damage) or "ok"),
    ]
    if (tables := seen.tables) is None:
        return rows
    known = ((name.replace("_", " "), value) for name in _SHOWN.split() if (value := getattr(tables, name)) is not None)
    rows += [(name, f"{value:,}" if isinstance(value, int) else value) for name, value in known]
    if tables.projection is not None:
        behind = f"{tables.unprojected:,} passages behind" if tables.unprojected else "up to date"
        rows.append(("Chroma", behind if tables.projection else "not used yet"))
    return rows


def _user(user: dict[str, Any]) -> tuple[str, ...]:
    holds = ", ".join(user["holds"]) if user["is_alive"] else "nothing: it was killed"
    return str(user["pid"] or "?"), user["program"], user["version"], user["since"] or "?", holds


def print_adoption(report: AdoptionReport) -> None:
    """Print how many documents became what, then how many were left out for which reason."""
    counts = (report.adopted, report.updated, report.forgotten, report.unchanged)
    print_table(("adopted", "updated", "forgotten", "unchanged"), [list(map(str, counts))])
    for skipped in report.skipped:
        examples = ", ".join(map(repr, skipped.examples))
        print_line(f"skipped {skipped.rows}: {skipped.reason}, for example {examples}")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Draw a table, or print it tab-separated for another program; a cell cannot pose as structure in either."""
    lines = [[shown_line(cell) for cell in row] for row in rows]
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


def _headline(memory: AnyMemory) -> str:
    return memory.fact if isinstance(memory, SemanticMemory) else memory.title or memory.summary


@contextmanager
def progress_bar(doing: str) -> Iterator[Progress]:
    """Draw a bar on a terminal until the block ends, and nothing elsewhere.

    Yields:
        A function to call with how much is done, and of how much; before its first call the bar shows only that work
        goes on.
    """
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(shown_line(doing), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
