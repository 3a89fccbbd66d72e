"""Durations as people write them: `"1h"`, `"250ms"`, `"1d12h"`, seconds, or a timedelta."""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import Final

from outlive.sdk.errors import BadDuration

__all__ = ["Duration", "milliseconds", "seconds"]

Duration = str | int | float | dt.timedelta
"""Text with units (w, d, h, m, s, ms), seconds as a number, or a timedelta."""

_UNITS: Final = {"w": 604_800.0, "d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[wdhms])", re.ASCII)
_WHOLE: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[wdhms]))+", re.ASCII)
_MOST_S: Final = 36_525 * 86_400.0


def seconds(value: Duration, what: str = "duration") -> float:
    """Seconds, at least 0 and at most 100 years; raises BadDuration with `what` and the value."""
    found: float
    if isinstance(value, str):
        if len(value) > 100 or _WHOLE.fullmatch(value) is None:
            raise BadDuration(
                f'{what} {value[:100]!r} is no duration: write "1h", "250ms", "1d12h", or seconds'
            )
        found = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(value))
    elif isinstance(value, dt.timedelta):
        found = value.total_seconds()
    elif type(value) is int or isinstance(value, float):
        found = float(max(-1, min(value, 1 << 60)))
    else:
        raise BadDuration(
            f'{what} {value!r} is no duration: write "1h", "250ms", "1d12h", or seconds'
        )
    if math.isnan(found) or not 0 <= found <= _MOST_S:
        raise BadDuration(f"{what} {value!r} is out of range: from 0 to 100 years")
    return found


def milliseconds(value: Duration, what: str = "duration") -> int:
    """The same in whole milliseconds, rounded up, so that nothing comes earlier than asked."""
    return math.ceil(round(seconds(value, what) * 1000, 6))
