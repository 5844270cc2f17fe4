"""What works where: every wrapper, chain, engine, memory and store interface of the frameworks, as a table in the docs.

Each row is done for real four times: with the scope given and with the scope of the call, each synchronously and
asynchronously, in a memory of two users of whom one asks. A cell says ``works``, or why it cannot. Fails if something
does not work without a reason, or works in spite of one.

    python benchmarks/compatibility.py --write docs/compatibility.md
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeAlias

from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder

sys.path.insert(0, str(Path(__file__).parent))  # the cases lie beside this file

MODULES: Final = ("compatibility_langchain", "compatibility_llama_index", "compatibility_mcp")
"""Where the cases are: each module has ``SECTIONS``, a tuple of :class:`Section`."""

SCOPE: Final = "user/bob"
"""Whose memory is asked."""

COLUMNS: Final = ("scope given", "scope given, async", "scope of the call", "scope of the call, async")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How a case is to be done.

    Attributes:
        memory: A memory in which ``user/bob`` and ``user/alice`` have facts, ``Bob lives in Bergen`` among them.
        given: The object is made with :data:`SCOPE`; otherwise the call names it, as the framework does.
        asynchronous: By the asynchronous methods.
    """

    memory: AgentMemory
    given: bool
    asynchronous: bool

    @property
    def scope(self) -> str | None:
        """What the object is made with."""
        return SCOPE if self.given else None

    @property
    def column(self) -> str:
        """The heading of its column."""
        return COLUMNS[2 * (not self.given) + self.asynchronous]


Check: TypeAlias = Callable[[Setting], Awaitable[object]]
"""Does a case. It raises if something does not work; :func:`expect` is how to say so."""


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the table.

    Attributes:
        name: The interface, in Markdown.
        check: Does it.
        reasons: For a column in which it cannot work: why, for its readers.
    """

    name: str
    check: Check
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Section:
    """The cases of a framework.

    Attributes:
        title: Its heading.
        packages: The distributions whose versions are told.
        text: A paragraph before the table; how the call names a scope here.
        cases: The rows.
    """

    title: str
    packages: Sequence[str]
    text: str
    cases: Sequence[Case]


def expect(condition: object, what: object) -> None:
    """Raise an AssertionError that shows ``what`` unless the condition is true."""
    if not condition:
        raise AssertionError(f"unexpected: {what!r:.300}")


async def done(case: Case, *, given: bool, asynchronous: bool) -> tuple[str, bool]:
    """What a cell says, and whether that is as it should be."""
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        for user, town in (("alice", "Lyon"), ("bob", "Bergen")):
            memory.remember_fact(scope=f"user/{user}", id=f"{user}-1", fact=f"{user.title()} lives in {town}")
            memory.remember_fact(scope=f"user/{user}", id=f"{user}-2", fact=f"{user.title()} likes {town}")
        setting = Setting(memory=memory, given=given, asynchronous=asynchronous)
        reason = case.reasons.get(setting.column)
        try:
            await case.check(setting)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is what the cell tells
            return (reason, True) if reason else (f"**fails**: {type(error).__name__}: {error}"[:300], False)
    return ("works", True) if reason is None else (f"**works**, although: {reason}", False)


async def rows(section: Section) -> tuple[list[list[str]], bool]:
    """The rows of a section, and whether all are as they should be."""
    table, fine = [], True
    for case in section.cases:
        cells = [
            await done(case, given=given, asynchronous=asynchronous)
            for given in (True, False)
            for asynchronous in (False, True)
        ]
        table.append([case.name, *(text for text, _ in cells)])
        fine = fine and all(is_right for _, is_right in cells)
    return table, fine


def sections() -> Iterator[Section]:
    """All sections of the modules that are there."""
    for name in MODULES:
        if find_spec(name) is not None:
            yield from import_module(name).SECTIONS


async def page() -> tuple[str, bool]:
    """The page in Markdown, and whether every cell is as it should be."""
    parts, fine = [_HEAD], True
    for section in sections():
        table, right = await rows(section)
        fine = fine and right
        versions = ", ".join(f"{package} {version(package)}" for package in section.packages)
        lines = [f"| {' | '.join(cells)} |" for cells in ([section.title, *COLUMNS], ["---"] * 5, *table)]
        parts.append(f"## {section.title}\n\n{section.text}\n\nTried with {versions}.\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n", fine


_HEAD: Final = """# Compatibility

This page lists the framework interfaces that the package implements or works with. `python
benchmarks/compatibility.py` tests each of them with the real framework, with the scope given to the object and with the
scope named by the call. A cell says *works*, or why it does not."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--write", type=Path, help="write the page here, in place of printing it")
    target = arguments.parse_args().write
    warnings.simplefilter("ignore")  # the frameworks tell of what they are about to remove
    text, fine = asyncio.run(page())
    if target is None:
        print(text)
    else:
        target.write_text(text, encoding="utf-8")
    if not fine:
        sys.exit("something does not work, or works in spite of a reason")


if __name__ == "__main__":
    main()
