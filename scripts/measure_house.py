"""Measures the structure of the package from its source alone: nothing of it is imported or run.

    python scripts/measure_house.py [--json] [ROOT]

Counted are modules and lines; chains of those imports that run when a module is imported, circles of all imports; the
lines of functions, and of their bodies without signature and docstring; and of public functions and methods how many
are typed, describe their arguments, and tell the shape of the arrays they take or give.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import statistics
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

PACKAGE: Final = "memory_retrievers"
SMALL: Final = 60
"""A module with fewer lines is small."""
DESCRIBED_FROM: Final = 3
"""From so many parameters on a docstring has Args."""
_ARRAY: Final = re.compile(r"\b(NDArray|ndarray|Vectors?|FloatArray|IntArray|BoolArray|Mask)\b")
_SHAPE: Final = re.compile(r"\bshapes?\b|\b[Oo]f length\b", re.IGNORECASE)

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class House:
    """The figures of one package.

    Attributes:
        modules: Files of Python.
        lines: Their lines.
        loose: Modules at the top that are in no room, ``__init__`` included.
        layers: Of the first import contract.
        longest_chain: Modules in the longest chain of imports.
        small: Modules with fewer than 60 lines.
        cycles: Modules that import each other in a circle.
        function_median: Lines of a function, signature and docstring included.
        body_max: Lines of the longest body.
        typed: Share of functions with all parameters and the result annotated.
        described: Share of public functions with three or more parameters whose docstring has Args.
        shaped: Share of public functions about arrays whose docstring tells a shape.
        mro: Classes of the package that ``AgentMemory`` is made of, itself included.
    """

    modules: int
    lines: int
    loose: int
    layers: int
    longest_chain: int
    small: int
    cycles: int
    function_median: float
    body_max: int
    typed: float
    described: float
    shaped: float
    mro: int


BOUNDS: Final[dict[str, tuple[str, float]]] = {
    "modules": ("<=", 210),
    "lines": ("<=", 34_000),
    "loose": ("<=", 8),
    "layers": ("<=", 8),
    "longest_chain": ("<=", 16),
    "small": ("<=", 25),
    "cycles": ("<=", 0),
    "function_median": ("<=", 8),
    "body_max": ("<=", 60),
    "typed": (">=", 1.0),
    "described": (">=", 0.95),
    "shaped": (">=", 0.95),
    "mro": ("<=", 3),
}
"""What the package has to keep to."""


class Source:
    """The parsed modules of a package.

    Args:
        root: The checkout.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / PACKAGE
        self.files = {self._name(file): file for file in sorted(self.home.rglob("*.py"))}
        self.texts = {name: file.read_text("utf-8") for name, file in self.files.items()}
        self.trees = {name: ast.parse(text) for name, text in self.texts.items()}

    def measure(self) -> House:
        """All figures."""
        functions = list(self._functions())
        public = [each for each, is_public in functions if is_public]
        many = [each for each in public if len(_parameters(each)) >= DESCRIBED_FROM]
        arrays = [each for each in public if _ARRAY.search(_signature(each))]
        bodies = [_body_lines(each) for each, _ in functions]
        return House(
            modules=len(self.files),
            lines=sum(text.count("\n") for text in self.texts.values()),
            loose=sum(file.parent == self.home for file in self.files.values()),
            layers=self._layers(),
            longest_chain=longest_chain(self.imports(at_import_only=True)),
            small=sum(text.count("\n") < SMALL for text in self.texts.values()),
            cycles=len(in_cycles(self.imports())),
            function_median=statistics.median(map(_lines, (each for each, _ in functions))),
            body_max=max(bodies),
            typed=_share([_is_typed(each) for each, _ in functions]),
            described=_share(["Args:" in (ast.get_docstring(each) or "") for each in many]),
            shaped=_share([bool(_SHAPE.search(ast.get_docstring(each) or "")) for each in arrays]),
            mro=len(self._ancestry("AgentMemory")),
        )

    def imports(self, *, at_import_only: bool = False) -> dict[str, set[str]]:
        """For each module those that it imports.

        Args:
            at_import_only: Leave out what is imported inside of functions or for type checkers alone.
        """
        return {name: self._imported(name, at_import_only) - {name} for name in self.trees}

    def missing(self) -> Iterator[str]:
        """Public functions that do not describe their arguments or tell no shape, and the longest bodies."""
        for name, tree in self.trees.items():
            for function, is_public in _functions_of(tree):
                where = f"{self.files[name].relative_to(self.root)}:{function.lineno} {function.name}"
                told = ast.get_docstring(function) or ""
                if is_public and len(_parameters(function)) >= DESCRIBED_FROM and "Args:" not in told:
                    yield f"{where}: no Args"
                if is_public and _ARRAY.search(_signature(function)) and not _SHAPE.search(told):
                    yield f"{where}: no shape"
                if not _is_typed(function):
                    yield f"{where}: not typed"
                if _body_lines(function) > BOUNDS["body_max"][1]:
                    yield f"{where}: {_body_lines(function)} lines"

    def _name(self, file: Path) -> str:
        parts = file.relative_to(self.root).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def _imported(self, name: str, at_import_only: bool) -> set[str]:
        found: set[str] = set()
        for node in _at_import(self.trees[name]) if at_import_only else ast.walk(self.trees[name]):
            if isinstance(node, ast.Import):
                found |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                for each in node.names:
                    inner = f"{node.module}.{each.name}"
                    found.add(inner if inner in self.files else node.module)
        return found & self.files.keys()

    def _functions(self) -> Iterator[tuple[Function, bool]]:
        for tree in self.trees.values():
            yield from _functions_of(tree)

    def _layers(self) -> int:
        project = tomllib.loads((self.root / "pyproject.toml").read_text("utf-8"))
        contracts = project["tool"]["importlinter"]["contracts"]
        return len(next(each["layers"] for each in contracts if each["type"] == "layers"))

    def _ancestry(self, name: str) -> set[str]:
        bases = {
            node.name: [base.id for base in map(_unsubscripted, node.bases) if isinstance(base, ast.Name)]
            for tree in self.trees.values()
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        }
        found, waiting = set(), [name]
        while waiting:
            each = waiting.pop()
            if each in bases and each not in found:
                found.add(each)
                waiting += bases[each]
        return found


def longest_chain(graph: dict[str, set[str]]) -> int:
    """Modules in the longest chain of imports; a circle counts as one module."""
    circle_of = {name: min(circle) for circle in in_cycles_grouped(graph) for name in circle}

    @cache
    def length(name: str) -> int:
        members = [each for each in graph if circle_of.get(each, each) == name]
        behind = {circle_of.get(other, other) for each in members for other in graph[each]} - {name}
        return 1 + max(map(length, behind), default=0)

    sys.setrecursionlimit(10_000)
    return max(length(circle_of.get(name, name)) for name in graph)


def in_cycles(graph: dict[str, set[str]]) -> set[str]:
    """The modules that import themselves by way of others."""
    return {name for circle in in_cycles_grouped(graph) for name in circle}


def in_cycles_grouped(graph: dict[str, set[str]]) -> list[set[str]]:
    """The circles of imports, each with all modules that are in it."""
    reached = {name: _reachable(graph, name) for name in graph}
    circles: list[set[str]] = []
    for name in graph:
        circle = {other for other in reached[name] if name in reached[other]}
        if circle and not any(name in known for known in circles):
            circles.append(circle | {name})
    return circles


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += graph[name]
    return found


def _functions_of(tree: ast.Module) -> Iterator[tuple[Function, bool]]:
    """Every function and method, and whether it is public; those inside of functions are part of these."""
    for node in tree.body:
        if isinstance(node, Function):
            yield node, not node.name.startswith("_")
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, Function):
                    is_overload = any(
                        isinstance(each, ast.Name) and each.id == "overload" for each in inner.decorator_list
                    )
                    yield inner, not (node.name.startswith("_") or inner.name.startswith("_") or is_overload)


def _at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported."""
    for node in ast.iter_child_nodes(tree):
        is_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not is_for_types and not isinstance(node, Function):
            yield node
            yield from _at_import(node)


def _parameters(function: Function) -> list[ast.arg]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return [each for each in every if each.arg not in {"self", "cls"}]


def _signature(function: Function) -> str:
    told = [each.annotation for each in _parameters(function)] + [function.returns]
    return " ".join(ast.unparse(each) for each in told if each is not None)


def _is_typed(function: Function) -> bool:
    return function.returns is not None and all(each.annotation is not None for each in _parameters(function))


def _lines(function: Function) -> int:
    return (function.end_lineno or 0) - function.lineno + 1


def _body_lines(function: Function) -> int:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def _unsubscripted(base: ast.expr) -> ast.expr:
    return base.value if isinstance(base, ast.Subscript) else base


def _share(kept: list[bool]) -> float:
    return sum(kept) / len(kept) if kept else 1.0


def broken(house: House) -> list[str]:
    """A line for each bound that is not kept."""
    figures = asdict(house)
    return [
        f"{name} is {figures[name]:,}, not {sign} {bound:,}"
        for name, (sign, bound) in BOUNDS.items()
        if not (figures[name] <= bound if sign == "<=" else figures[name] >= bound)
    ]


def main() -> None:
    """Print the figures beside their bounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1], help="a checkout")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--missing", action="store_true", help="name the functions that fall short")
    arguments = parser.parse_args()
    source = Source(arguments.root.resolve())
    house = source.measure()
    if arguments.json:
        print(json.dumps(asdict(house), indent=2))
        return
    for name, figure in asdict(house).items():
        sign, bound = BOUNDS[name]
        print(
            f"{name:14} {figure:>10,.3f} {sign} {bound:,}"
            if isinstance(figure, float)
            else f"{name:14} {figure:>10,} {sign} {bound:,}"
        )
    if arguments.missing:
        print("\n".join(source.missing()))


if __name__ == "__main__":
    main()
