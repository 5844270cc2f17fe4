"""Tables of settings: every field with its value in each profile, from the classes themselves."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel


def settings_table(profiles: Mapping[str, BaseModel]) -> str:
    """A Markdown table with a row for each field; a value that differs from the first profile's is in bold.

    Args:
        profiles: Settings of one class by the names of their columns, the default first.
    """
    default, *_ = profiles.values()
    head = f"| field | {' | '.join(profiles)} |\n|---|{'---|' * len(profiles)}"
    rows = [f"| `{field}` | {' | '.join(_cells(field, profiles, default))} |" for field in type(default).model_fields]
    return "\n".join((head, *rows))


def _cells(field: str, profiles: Mapping[str, BaseModel], default: BaseModel) -> list[str]:
    usual = getattr(default, field)
    values = [getattr(settings, field) for settings in profiles.values()]
    return [_told(value) if value == usual else f"**{_told(value)}**" for value in values]


def _told(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else str(value)
