"""Makes the page of the package from the README when it is built, so that no link on it needs a file beside it.

Where the project's address is known, by ``Source`` in ``[project.urls]`` or by MEMORY_RETRIEVERS_SOURCE in the
environment, links and pictures lead to the files of this version there. Without one a link becomes its words with the
path of the file, which is in the source archive, and a picture its description.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from hatchling.metadata.plugin.interface import MetadataHookInterface

SOURCE: Final = "MEMORY_RETRIEVERS_SOURCE"
_FENCED: Final = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_RELATIVE: Final = re.compile(r"(!?)\[([^\]]+)\]\((?![a-z]+:|#)([^)\s]+)\)")
_FILES: Final = """

## Files that are named here

`docs/…`, `examples/…` and the other files named in round brackets are in the source archive of this version: `pip download --no-deps --no-binary memory-retrievers memory-retrievers`.
"""  # noqa: E501 - a paragraph


class PackagePage(MetadataHookInterface):
    """The hook by which hatchling asks for the page."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme of the package."""
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = os.environ.get(SOURCE) or metadata.get("urls", {}).get("Source", "")
        text = page(readme, source=source.rstrip("/"), version=metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def page(readme: str, *, source: str, version: str) -> str:
    """The README as it stands alone.

    Args:
        readme: Its text, with links to files beside it.
        source: Address of the repository, as GitHub, GitLab and Gitea have it; empty if there is none.
        version: Version of the package, whose tag is ``v`` and the version.
    """

    def standing_alone(link: re.Match[str]) -> str:
        picture, words, path = link.groups()
        if not source:
            return f"{words} (`{path}`)"
        return f"{picture}[{words}]({source}/{'raw' if picture else 'blob'}/v{version}/{path})"

    pieces = _FENCED.split(readme)  # what is fenced stands at the odd places
    pieces[::2] = [_RELATIVE.sub(standing_alone, piece) for piece in pieces[::2]]
    return "".join(pieces) + ("" if source else _FILES)
