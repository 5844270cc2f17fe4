"""Hooks of mkdocs: pages that are made from what is elsewhere in the repository, so that nothing is told twice.

CONTRIBUTING.md, CHANGELOG.md and the list of examples become pages. A comment ``<!-- made: NAME -->`` in a page is
replaced by what ``_MADE`` has for it. A link to a file outside ``docs/`` gets a copy of that file in the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from command_line import command_line
from import_diagram import import_diagram
from settings_tables import settings_table

from memory_retrievers import IngestionSettings, RetrievalSettings, ReviewSettings, SceneSettings, ToolSettings

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]

_INCLUDED = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md", "examples.md": "examples/README.md"}
"""Pages whose text stands elsewhere in the repository."""

_MADE = {
    "command line": command_line,
    "import diagram": lambda: import_diagram((ROOT / "pyproject.toml").read_text(encoding="utf-8")),
    "retrieval settings": lambda: settings_table(
        {
            "default": RetrievalSettings(),
            "light()": RetrievalSettings.light(),
            "reference()": RetrievalSettings.reference(),
        }
    ),
    "ingestion settings": lambda: settings_table(
        {"default": IngestionSettings(), "reference()": IngestionSettings.reference()}
    ),
    "review settings": lambda: settings_table({"default": ReviewSettings()}),
    "scene settings": lambda: settings_table({"default": SceneSettings()}),
    "tool settings": lambda: settings_table({"default": ToolSettings()}),
}

_LINK = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)#\s]+)")
_MARK = re.compile(r"<!-- made: ([\w ]+) -->")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages whose text stands elsewhere, and every file outside ``docs/`` that a page links to."""
    from mkdocs.structure.files import File

    for page, source in _INCLUDED.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    pages = [file for file in files if file.is_documentation_page()]
    for target in sorted({found for page in pages for found in _outside(page.src_uri, page.content_string)}):
        files.append(File.generated(config, f"repository/{target}", abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Put in what is made, and let links find the copies of files outside ``docs/``."""
    here = page.file.src_uri

    def linked(found: re.Match[str]) -> str:
        address = _address(_target(here, found[2]))
        return found[1] + posixpath.relpath(address, posixpath.dirname(here) or ".")

    return _MARK.sub(lambda found: _MADE[found[1]](), _LINK.sub(linked, markdown))


def _target(page: str, link: str) -> str:
    """The file that a link of a page means, from the root of the repository."""
    source = _INCLUDED.get(page, f"docs/{page}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), link))


def _address(target: str) -> str:
    """Where a file of the repository is in the site; one that is not there is left to mkdocs to complain of."""
    for page, source in _INCLUDED.items():
        if source == target:
            return page
    return target.removeprefix("docs/") if target.startswith("docs/") else f"repository/{target}"


def _outside(page: str, markdown: str) -> set[str]:
    """The files that a page links to and that are not part of the site."""
    targets = {_target(page, found[2]) for found in _LINK.finditer(markdown)}
    outside = {target for target in targets if _address(target).startswith("repository/")}
    return {target for target in outside if (ROOT / target).is_file()}
