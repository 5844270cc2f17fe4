"""Follows three calls through the package: which files they pass, how often they change file, what SQL they say.

Each call is made twice on a store on disk with twelve memories in the scope; the second, warm one is followed.

    python benchmarks/trace.py [--files] [--sql]
"""

from __future__ import annotations

import argparse
import gc
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

import memory_retrievers
from memory_retrievers import AgentMemory, Message
from memory_retrievers.langchain import MemoryToolkit
from memory_retrievers.testing import HashEmbedder

HOME: Final = Path(memory_retrievers.__file__).parent
SCOPE: Final = "user/ines"
COMPREHENSIONS: Final = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>"}


@dataclass
class Trace:
    """What one call passed.

    Attributes:
        calls: Calls of functions of the package.
        functions: Which, each once.
        files: The file of each call, in order.
        deepest: How many of its functions were open at once.
        statements: What the database was asked, transactions included.
    """

    calls: int = 0
    functions: set[tuple[str, str, int]] = field(default_factory=set)
    files: list[str] = field(default_factory=list)
    deepest: int = 0
    statements: list[str] = field(default_factory=list)
    _depth: int = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """What the interpreter calls at every call and return."""
        code = frame.f_code
        if not code.co_filename.startswith(f"{HOME}/") or code.co_name in COMPREHENSIONS:
            return
        if event == "return":
            self._depth -= 1
        elif event == "call":
            self._depth += 1
            self.deepest = max(self.deepest, self._depth)
            self.calls += 1
            self.functions.add((code.co_filename, code.co_name, code.co_firstlineno))
            self.files.append(str(Path(code.co_filename).relative_to(HOME)))

    @property
    def changes(self) -> int:
        """How often the next call is in another file."""
        return sum(one != other for one, other in zip(self.files, self.files[1:], strict=False))

    def row(self, name: str) -> str:
        """A line of the table."""
        rooms = {file.split("/")[0] for file in self.files}
        asked = [each for each in self.statements if each.split()[0].upper() not in {"BEGIN", "COMMIT", "ROLLBACK"}]
        figures = (
            self.calls,
            len(self.functions),
            len(set(self.files)),
            len(rooms),
            self.deepest,
            self.changes,
            len(asked),
        )
        return f"| {name} | {' | '.join(map(str, figures))} |"


@contextmanager
def statements_of_connections() -> Iterator[list[str]]:
    """What this thread asks all connections that are opened within; the threads of the store come as they like."""
    said: list[str] = []
    thread = threading.get_ident()
    connect = sqlite3.connect

    def heard(asked: str) -> None:
        # SQLite tells a statement once more for each trigger that it sets off
        if threading.get_ident() == thread and not (asked.startswith("INSERT") and said[-1:] == [asked]):
            said.append(asked)

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:  # noqa: ANN401
        connection = connect(*arguments, **options)
        connection.set_trace_callback(heard)
        return connection

    sqlite3.connect = traced  # type: ignore[assignment]
    try:
        yield said
    finally:
        sqlite3.connect = connect


def followed(call: Callable[[], object], said: list[str]) -> Trace:
    """The second of two calls, in this thread."""
    # The collector closes a memory that somebody left open, wherever it runs, and with it goes what is remembered.
    gc.collect()
    gc.disable()
    try:
        call()
        trace = Trace()
        said.clear()
        sys.setprofile(trace)
        call()
    finally:
        sys.setprofile(None)
        gc.enable()
    trace.statements = list(said)
    return trace


def filled(memory: AgentMemory) -> AgentMemory:
    """Twelve memories, half facts and half episodes."""
    for number in range(6):
        memory.remember_fact(scope=SCOPE, fact=f"Fact {number}: the boat {number} lands at pier {number}")
        memory.remember_episode(
            scope=SCOPE,
            title=f"Landing {number}",
            summary=f"Boat {number} was late and the price of cod was discussed.",
            messages=[
                Message(role="user", content=f"Boat {number} is late"),
                Message(role="assistant", content="Noted"),
            ],
        )
    return memory


def traces(directory: Path) -> dict[str, Trace]:
    """Each call with what it passed."""
    numbers = iter(range(1_000))
    with statements_of_connections() as said, AgentMemory.open(directory, embedder=HashEmbedder()) as memory:
        filled(memory)
        store = next(tool for tool in MemoryToolkit(memory, scope=SCOPE).get_tools() if tool.name == "memory_store")
        result = memory.retrieve("which pier for boat 3?", scope=SCOPE)
        calls: dict[str, Callable[[], object]] = {
            "`AgentMemory.retrieve`": lambda: memory.retrieve("which pier for boat 3?", scope=SCOPE),
            "`.to_markdown()`": result.to_markdown,
            "`AgentMemory.remember_episode`": lambda: memory.remember_episode(
                scope=SCOPE, summary=f"The ice machine broke, time {next(numbers)}.", messages=[]
            ),
            "LangChain `memory_store`": lambda: store.invoke({"content": f"The auction starts at {next(numbers)}"}),
        }
        return {name: followed(call, said) for name, call in calls.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", action="store_true", help="name the files that each call passes")
    parser.add_argument("--sql", action="store_true", help="print what each call asks the database")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        found = traces(Path(directory))
    print("| call | calls | functions | files | rooms | deepest | changes of file | SQL |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for name, trace in found.items():
        print(trace.row(name))
    for name, trace in found.items():
        if arguments.files:
            print(f"\n{name}:", *dict.fromkeys(trace.files), sep="\n  ")
        if arguments.sql:
            print(f"\n{name}:", *(" ".join(each.split())[:160] for each in trace.statements), sep="\n  ")


if __name__ == "__main__":
    main()
