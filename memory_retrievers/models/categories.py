"""Categories of facts: nine that every memory has, and names that a memory adds."""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum
from typing import Final

from memory_retrievers.errors import ValidationError

OWN_CATEGORY: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
"""Names that a category of one's own may have."""


class Category(StrEnum):
    """Topic of a fact: one of nine, or of those that ``IngestionSettings.categories`` adds.

    >>> Category("allergy") in set(Category)
    False
    """

    IDENTITY = "identity"
    PREFERENCE = "preference"
    INTEREST = "interest"
    PERSONALITY = "personality"
    RELATIONSHIP = "relationship"
    EXPERIENCE = "experience"
    GOAL = "goal"
    GUIDELINE = "guideline"
    NOTE = "note"

    @classmethod
    def _missing_(cls, value: object) -> Category | None:
        """A category of a memory's own; whether a memory has it is for the memory to say."""
        if not (isinstance(value, str) and OWN_CATEGORY.fullmatch(value)):
            return None
        own = str.__new__(cls, value)
        own._name_, own._value_ = value.upper(), value
        return own


def require_category(category: Category, own: Collection[str]) -> None:
    """Refuse a category that a memory does not have.

    Raises:
        ValidationError: It is neither one of the nine nor among ``own``; the message names those that there are.
    """
    known = [*Category, *own]
    if category not in known:
        raise ValidationError(f"unknown category {category.value!r}; one of: {', '.join(known)}")
