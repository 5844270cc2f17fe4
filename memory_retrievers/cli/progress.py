"""A bar on standard error while something takes its time, if somebody is looking."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from memory_retrievers.contents import Progress


@contextmanager
def progress_bar(doing: str) -> Iterator[Progress]:
    """Draw a bar on a terminal until the block ends, and nothing elsewhere.

    Args:
        doing: What takes its time, for example ``exporting``.

    Yields:
        A function to be told how much is done and of how much; until it is called the bar only shows that work goes on.
    """
    if not sys.stderr.isatty():
        yield _ignored
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(doing, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _ignored(done: int, total: int) -> None:
    """Nobody is looking."""
