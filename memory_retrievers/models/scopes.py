"""Scopes: parses and checks the paths that separate the memories of different owners."""

from __future__ import annotations

import functools

from memory_retrievers.errors import ValidationError

MAX_SEGMENTS = 10
MAX_SEGMENT_LENGTH = 200
MAX_BYTES = 512


def parse(scope: object) -> str:
    """Check a scope and return it unchanged.

    A scope is one to ten segments joined by ``/``; each has 1 to 200 printable Unicode characters, is not ``.`` or
    ``..`` and has no space at either end; the whole is at most 512 bytes of UTF-8. Scopes are compared exactly as
    given: case, accents and forms of Unicode all count.

    Raises:
        ValidationError: The scope breaks a rule; the message says which.

    >>> parse("user/alice@example.com")
    'user/alice@example.com'
    """
    if not isinstance(scope, str):
        raise ValidationError(f"scope must be a string such as 'user/alice', not {type(scope).__name__}")
    if not scope:
        raise ValidationError("scope must not be empty: name whose memory this is, for example 'user/alice'")
    segments = scope.split("/")
    if len(segments) > MAX_SEGMENTS:
        raise ValidationError(f"scope has {len(segments)} segments; at most {MAX_SEGMENTS} are allowed")
    for segment in segments:
        if problem := _segment_problem(segment):
            raise ValidationError(f"scope {scope[:MAX_BYTES]!r} is malformed: {problem}")
    if len(scope.encode()) > MAX_BYTES:
        raise ValidationError(f"scope is longer than {MAX_BYTES} bytes of UTF-8")
    return scope


known = functools.lru_cache(maxsize=1_024)(parse)
"""Like :func:`parse`, for strings alone; the last well-formed ones, of 512 bytes at most, are remembered."""


def _segment_problem(segment: str) -> str | None:
    if not segment:
        return "a segment is empty (no slash at either end, no two in a row)"
    if segment in {".", ".."}:
        return "'.' and '..' are not segments"
    if len(segment) > MAX_SEGMENT_LENGTH:
        return f"a segment is longer than {MAX_SEGMENT_LENGTH} characters"
    if segment != segment.strip():
        return "a segment begins or ends with a space"
    if not segment.isprintable():
        return "a segment has a character that does not print"
    return None


def join(root: str, relative: str) -> str:
    """Return the scope that ``relative`` names below ``root``; ``.`` is the root itself.

    >>> join("user/alice", "work/projects")
    'user/alice/work/projects'
    >>> join("user/alice", ".")
    'user/alice'
    """
    parse(root)
    return root if relative == "." else parse(f"{root}/{parse(relative)}")


def lineage(scope: str) -> list[str]:
    """List the scope and every scope above it, the highest first.

    >>> lineage("user/alice/work")
    ['user', 'user/alice', 'user/alice/work']
    """
    segments = scope.split("/")
    return ["/".join(segments[:depth]) for depth in range(1, len(segments) + 1)]


def child_range(scope: str) -> tuple[str, str]:
    """Return the half-open range, by code point, that contains every scope below ``scope`` and no other.

    >>> child_range("user/1")
    ('user/1/', 'user/10')
    >>> "user/1/" <= "user/1/work" < "user/10"
    True
    """
    return f"{scope}/", f"{scope}0"  # "0" is the character after "/"


def is_within(root: str, scope: str) -> bool:
    """Return True if a scope is the root itself or below it.

    >>> is_within("user/1", "user/1/work"), is_within("user/1", "user/10")
    (True, False)
    """
    return scope == root or scope.startswith(f"{root}/")
