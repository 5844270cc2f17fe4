"""How passages belong together, out of the rows that tell it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from memory_retrievers.passages import TURN, WHOLE, Layout

_PLACE: Final = f"CAST(substr(p.part, {len(TURN) + 2}) AS INTEGER)"

LAYOUT: Final = f"""
    p.id, m.row, CASE WHEN p.part = m.kind THEN {WHOLE} ELSE {_PLACE} END, p.speaker, p.tells_time,
    coalesce(m.start_at, 0)
"""
"""What :func:`laid_out` reads, of passages ``p`` and their memories ``m``."""


def laid_out(rows: Iterable[Sequence[Any]]) -> Layout:
    """The layout that rows of ``LAYOUT`` tell, which may come in any order."""
    ordered = sorted(rows, key=lambda row: (row[1], row[2], row[0]))
    names: dict[str, int] = {}
    passages, memories, places, speakers, tells_time, began = zip(*ordered, strict=True) if ordered else [()] * 6
    codes = [-1 if speaker is None else names.setdefault(speaker, len(names)) for speaker in speakers]
    return Layout(
        passages=np.array(passages, np.int64),
        memories=np.array(memories, np.int64),
        places=np.array(places, np.int64),
        speakers=np.array(codes, np.int64),
        tells_time=np.array(tells_time, np.bool_),
        began=np.array(began, np.int64),
        names=tuple(names),
    )


def taken(layout: Layout, memories: Sequence[int]) -> Layout:
    """The part of a layout that is about these memories; it keeps the names of all speakers."""
    kept = np.isin(layout.memories, np.array(memories, np.int64))
    return Layout(
        passages=layout.passages[kept],
        memories=layout.memories[kept],
        places=layout.places[kept],
        speakers=layout.speakers[kept],
        tells_time=layout.tells_time[kept],
        began=layout.began[kept],
        names=layout.names,
    )
