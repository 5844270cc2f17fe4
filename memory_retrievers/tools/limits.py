"""What a model may put into one memory at most: the limits of ``ToolSettings``, told in one sentence each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from pydantic import JsonValue

from memory_retrievers.errors import ValidationError
from memory_retrievers.settings import ToolSettings


def check_limits(
    settings: ToolSettings,
    *,
    content: str | None = None,
    tags: Sequence[str] | None = None,
    metadata: Mapping[str, JsonValue] | None = None,
) -> None:
    """Refuse what is too much for one memory; what is None is not looked at.

    Raises:
        ValidationError: The content, the tags or the metadata are beyond a limit, or the metadata is not JSON.
    """
    if content is not None and len(content) > settings.max_content_length:
        raise ValidationError(
            f"Content is too long: {len(content)} characters, at most {settings.max_content_length} are allowed"
        )
    if tags is not None:
        _check_tags(settings, tags)
    if metadata is not None:
        _check_metadata(settings, metadata)


def expiry(created_at: datetime, *, ttl_seconds: int | None) -> datetime | None:
    """When a memory expires; None if it is not said, as with 0 seconds (specification §3.2).

    Raises:
        ValidationError: The moment lies beyond the calendar.
    """
    if not ttl_seconds:
        return None
    try:
        return created_at + timedelta(seconds=ttl_seconds)
    except OverflowError:
        raise ValidationError("ttl_seconds is too large: leave it out for a memory that never expires") from None


def _check_tags(settings: ToolSettings, tags: Sequence[str]) -> None:
    if len(tags) > settings.max_tags:
        raise ValidationError(f"Too many tags: {len(tags)}, at most {settings.max_tags} are allowed")
    longest = max(map(len, tags), default=0)
    if longest > settings.max_tag_length:
        raise ValidationError(f"A tag is too long: {longest} characters, at most {settings.max_tag_length} are allowed")


def _check_metadata(settings: ToolSettings, metadata: Mapping[str, JsonValue]) -> None:
    try:
        size = len(json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise ValidationError("metadata must be JSON: NaN, infinity and endless nesting are not") from None
    if size > settings.max_metadata_bytes:
        raise ValidationError(
            f"metadata is too large: {size} bytes of JSON, at most {settings.max_metadata_bytes} are allowed"
        )
