"""Response levels: how much of an answer a tool shows (specification §4.1)."""

from __future__ import annotations

from collections.abc import Collection

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import JsonObject, ResponseLevel


def parse_level(level: ResponseLevel | str) -> ResponseLevel:
    """The level a caller, perhaps a language model, has named in any case of letters.

    >>> parse_level(" Full ")
    <ResponseLevel.FULL: 'full'>

    Raises:
        ValidationError: There is no such level.
    """
    try:
        return ResponseLevel(str(level).strip().lower())
    except ValueError:
        known = ", ".join(ResponseLevel)
        raise ValidationError(f"Invalid response_level: {level}. Must be one of: {known}") from None


def levels(
    minimal: JsonObject,
    standard: JsonObject,
    full: JsonObject,
    *,
    level: ResponseLevel,
    optional: Collection[str] = (),
) -> JsonObject:
    """The answer of one level: everything up to it, a later value in place of an earlier one.

    >>> levels({"success": True}, {"results": [], "note": None}, {"metadata": {}}, level=ResponseLevel.STANDARD)
    {'success': True, 'results': []}

    Args:
        minimal: What every level shows.
        standard: What ``standard`` and ``full`` add.
        full: What only ``full`` adds.
        level: The level that was asked for.
        optional: Keys that are left out when their list or object is empty. A key whose value is None always is.
    """
    shown = dict(minimal)
    if level is not ResponseLevel.MINIMAL:
        shown |= standard
    if level is ResponseLevel.FULL:
        shown |= full
    return {
        key: value for key, value in shown.items() if value is not None and not (key in optional and value in ([], {}))
    }


def preview(text: str, length: int) -> str:
    r"""The first characters (code points) of a text on one line; ``...`` behind them says that there is more.

    >>> preview("Nightly  backups\nrun at 02:00", 15)
    'Nightly backups...'

    Args:
        text: Any text; runs of white space count as one space.
        length: How many characters to show at most; three more where the text goes on.
    """
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[:length]}..."


def estimate_tokens(text: str) -> int:
    """About how many tokens a text costs: a quarter of its characters, at least one (specification §1.7).

    >>> estimate_tokens("Hello world"), estimate_tokens(""), estimate_tokens("x" * 400)
    (2, 1, 100)
    """
    return max(1, len(text) // 4)
