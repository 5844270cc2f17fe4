"""An extension of griffe: docstrings name things as Sphinx does, and cite the specification; both become Markdown.

A model's fields are told by its docstring: ``(**given: object)``, which is how it is made, tells a reader nothing.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`~?([^`]+)`")
_LITERAL = re.compile(r"^::\n\n|(?<=:):$", re.MULTILINE)
_SECTION = re.compile(r"§(\d+\.\d+)")
_ANCHOR = re.compile(r"^#+ .*\{ ?#s(\d+)-(\d+) ?\}", re.MULTILINE)

_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "specification.md"


def as_markdown(docstring: str, *, sections: frozenset[str]) -> str:
    """A docstring with roles as plain code, and with links to those sections of the specification that are told.

    Literal blocks keep their indentation, which Markdown takes for code as well.
    """
    named = _ROLE.sub(lambda found: f"`{found[1].rsplit('.', 1)[-1]}`", docstring)
    linked = _SECTION.sub(lambda found: _link(found[1]) if found[1] in sections else found[0], named)
    return _LITERAL.sub("", linked).replace("``", "`")


def _link(section: str) -> str:
    return f"[§{section}][s{section.replace('.', '-')}]"


class RolesAndSections(griffe.Extension):
    """Turns the docstring of every object into Markdown before it is parsed."""

    def __init__(self) -> None:
        text = _PAGE.read_text(encoding="utf-8")
        self._sections = frozenset(f"{chapter}.{section}" for chapter, section in _ANCHOR.findall(text))

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401 - what griffe hands over
        """Change the docstring in place."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value, sections=self._sections)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:  # noqa: ANN401 - likewise
        """Leave out how the models are made whose errors are said in our words."""
        pkg["models.fields.ValidatedModel"].del_member("__init__")
