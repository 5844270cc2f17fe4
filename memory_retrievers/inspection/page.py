"""The page: template, style, script and data become one file that a browser lets load nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib import resources
from string import Template
from typing import Final

import memory_retrievers
from memory_retrievers.fields import storable
from memory_retrievers.inspection.showing import MOST_CHARACTERS, MOST_MESSAGES, shown
from memory_retrievers.inspection.survey import Survey
from memory_retrievers.models import JsonObject

_SCRIPTS: Final = ("elements.js", "curves.js", "ranking.js", "page.js")
_MARKUP: Final = re.compile("[<>&\u2028\u2029]")


def page_of(survey: Survey, *, title: str) -> str:
    """The whole file.

    Args:
        survey: What it shows.
        title: What it is called: usually the store's name.
    """
    style, script = _file("page.css"), "\n".join(map(_file, _SCRIPTS))
    data = shown(survey) | {
        "title": title,
        "version": memory_retrievers.__version__,
        "most_characters": MOST_CHARACTERS,
        "most_messages": MOST_MESSAGES,
    }
    return Template(_file("page.html")).substitute(
        policy=html.escape(_policy(style=style, script=script)),
        title=html.escape(storable(title)),
        style=style,
        data=_inert(data),
        script=script,
    )


def _policy(*, style: str, script: str) -> str:
    """What the browser allows: this style and this script, by their hashes, and nothing from anywhere."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "img-src data:",  # the empty icon
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",  # text cannot become markup by the script either
        )
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _inert(value: JsonObject) -> str:
    """JSON that cannot end the element it stands in, whatever texts it holds."""
    literal = storable(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    return _MARKUP.sub(lambda match: f"\\u{ord(match[0]):04x}", literal)


def _file(name: str) -> str:
    return (resources.files("memory_retrievers.inspection") / "template" / name).read_text(encoding="utf-8")
