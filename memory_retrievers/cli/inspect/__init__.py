"""Inspection: one HTML file that shows what a memory holds, how it fades, and why a question is answered as it is.

The file needs nothing else: no script, font or style is loaded from anywhere, and a policy in its head has the browser
refuse whatever tries. Texts of memories are data in it and never become markup. Looking changes nothing in the store.
"""

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
from memory_retrievers.cli.inspect.data import (
    DEFAULT_LIMIT,
    MOST_CHARACTERS,
    MOST_MESSAGES,
    Question,
    ScopeSurvey,
    Survey,
    shown,
    survey_of,
)
from memory_retrievers.models import JsonObject
from memory_retrievers.models.fields import storable

__all__ = ["DEFAULT_LIMIT", "Question", "ScopeSurvey", "Survey", "page_of", "survey_of"]


_SCRIPTS: Final = ("elements.js", "curves.js", "ranking.js", "page.js")
_MARKUP: Final = re.compile("[<>&\u2028\u2029]")


def page_of(survey: Survey, *, title: str) -> str:
    """Build the whole file."""
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
    """Content security policy: this style and this script, by their hashes, and nothing from anywhere."""
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
    """JSON that cannot close the element that contains it, whatever texts it holds."""
    literal = storable(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    return _MARKUP.sub(lambda match: f"\\u{ord(match[0]):04x}", literal)


def _file(name: str) -> str:
    return (resources.files("memory_retrievers.cli.inspect") / "template" / name).read_text(encoding="utf-8")
