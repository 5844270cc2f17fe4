"""How long repeated calls take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Timings:
    """Milliseconds of repeated calls."""

    values: list[float] = field(default_factory=list)

    def measure(self, call: Callable[[], object]) -> None:
        start = time.perf_counter()
        call()
        self.values.append((time.perf_counter() - start) * 1_000)

    @property
    def p50(self) -> float:
        return statistics.median(self.values)

    @property
    def p95(self) -> float:
        return sorted(self.values)[int(len(self.values) * 0.95)]

    def __str__(self) -> str:
        return f"{_rounded(self.p50)} / {_rounded(self.p95)}"


def _rounded(milliseconds: float) -> str:
    """To three figures."""
    decimals = 2 if milliseconds < 10 else 1 if milliseconds < 100 else 0
    return f"{milliseconds:,.{decimals}f}"
