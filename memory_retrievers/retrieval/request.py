"""What is asked: the parameters of a retrieval, checked and brought into their bounds (specification §2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from memory_retrievers import scopes
from memory_retrievers.errors import ValidationError
from memory_retrievers.fields import storable
from memory_retrievers.models import Category

MAX_EPISODES: Final = 100
MAX_FACTS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalRequest:
    """A checked question.

    Attributes:
        query: Stripped and not empty.
        scope: A well-formed scope.
        episodic_limit: 0 to 100; 0 skips the episodes.
        semantic_limit: 0 to 1,000; 0 skips the facts.
        category: Only facts of this category.
        include_child_scopes: Also search every scope below.
        limit: The most results over both kinds; None leaves it to the two limits.
        as_of: What held at that moment, in UTC; None is what holds now.
    """

    query: str
    scope: str
    episodic_limit: int
    semantic_limit: int
    category: Category | None = None
    include_child_scopes: bool = False
    limit: int | None = None
    as_of: datetime | None = None

    @classmethod
    def parse(
        cls,
        query: str,
        *,
        scope: str,
        episodic_limit: int,
        semantic_limit: int,
        category: Category | str | None = None,
        include_child_scopes: bool = False,
        limit: int | None = None,
        as_of: datetime | None = None,
    ) -> RetrievalRequest:
        """Check what a caller, perhaps a language model, has given.

        Raises:
            ValidationError: The query is blank, the scope malformed, a limit negative or not an integer, or the
                category unknown, or as_of no moment.
        """
        joint = None if limit is None else parse_limit("limit", limit)
        most = MAX_FACTS if joint is None else joint  # neither kind alone can have more than both together
        return cls(
            query=_parse_query(query),
            scope=scopes.parse(scope),
            episodic_limit=min(parse_limit("episodic_limit", episodic_limit), MAX_EPISODES, most),
            semantic_limit=min(parse_limit("semantic_limit", semantic_limit), MAX_FACTS, most),
            category=_parse_category(category),
            include_child_scopes=bool(include_child_scopes),
            limit=joint,
            as_of=_parse_moment("as_of", as_of),
        )


def parse_limit(name: str, value: object) -> int:
    """A limit as given, if it is an integer of 0 or more.

    Raises:
        ValidationError: It is not.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValidationError(f"{name} must be an integer, not {value!r}")
    if value < 0:
        raise ValidationError(f"{name} must be 0 or more, not {value}")
    return value


def _parse_moment(name: str, moment: object) -> datetime | None:
    """In UTC; without a time zone it is taken for UTC."""
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise ValidationError(f"{name} must be a datetime, not {moment!r}")
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise ValidationError(f"{name} is too far from now: {moment!r}") from None


def _parse_query(query: object) -> str:
    if not isinstance(query, str):
        raise ValidationError(f"query must be a string, not {type(query).__name__}")
    if not (stripped := storable(query).strip()):
        raise ValidationError("Query cannot be empty: ask something, for example 'where does the user live?'")
    return stripped


def _parse_category(category: Category | str | None) -> Category | None:
    if category is None:
        return None
    name = str(category).strip().lower()
    if not name:
        return None
    try:
        return Category(name)
    except ValueError:
        raise ValidationError(f"unknown category {category!r}; one of: {', '.join(Category)}") from None
