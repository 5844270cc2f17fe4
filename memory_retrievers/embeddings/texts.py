"""What every embedder accepts: a list of texts, and nothing that merely looks like one."""

from __future__ import annotations

from collections.abc import Sequence

from memory_retrievers.errors import ValidationError


def checked_texts(texts: Sequence[str]) -> list[str]:
    """The texts as a list.

    >>> checked_texts(("tea", "coffee"))
    ['tea', 'coffee']

    Raises:
        ValidationError: It is a single string, which would be embedded letter by letter, or holds other things.
    """
    if isinstance(texts, str):
        raise ValidationError("expected a list of texts to embed, not a single string: put it in a list")
    checked = list(texts)
    for index, text in enumerate(checked):
        if not isinstance(text, str):
            raise ValidationError(f"text {index} to embed must be a string, not {type(text).__name__}")
    return checked
