"""Wilson intervals and percentiles."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

__all__ = ["P95_MIN", "percentiles", "wilson"]

Z95: Final = 1.959963984540054
"""Standard normal quantile for a two-sided 95% interval."""
P95_MIN: Final = 30
"""Fewest values for which a 95th percentile is given."""


def wilson(hits: int, n: int) -> tuple[float, float]:
    """95% score interval of a proportion (Wilson 1927), rounded to 4 digits; (0, 1) for n = 0.

    Raises ValueError unless 0 <= hits <= n.
    """
    if not 0 <= hits <= n:
        raise ValueError(f"{hits} of {n} is not a proportion")
    if n == 0:
        return (0.0, 1.0)
    rate, z2 = hits / n, Z95 * Z95
    middle = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 / (1 + z2 / n) * math.sqrt(rate * (1 - rate) / n + z2 / (4 * n * n))
    return (round(max(0.0, middle - half), 4), round(min(1.0, middle + half), 4))


def percentiles(values_us: Sequence[int]) -> dict[str, int] | None:
    """n, median, p95 (from 30 values on) and maximum, in microseconds; None for no values."""
    if not values_us:
        return None
    ordered = sorted(values_us)
    found = {"n": len(ordered), "median": int(statistics.median(ordered)), "max": ordered[-1]}
    if len(ordered) >= P95_MIN:
        found["p95"] = ordered[math.ceil(0.95 * len(ordered)) - 1]
    return found
