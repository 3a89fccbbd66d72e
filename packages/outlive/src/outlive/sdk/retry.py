"""How often a failing step is tried, and how long between."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from outlive.sdk.durations import Duration, seconds

__all__ = ["NEVER", "Retry"]

_HOPELESS: Final[tuple[type[BaseException], ...]] = (
    TypeError,
    AttributeError,
    NameError,
    ImportError,
    AssertionError,
    NotImplementedError,
)


@dataclass(frozen=True)
class Retry:
    """A policy: `attempts` in all, then `first`, `first * factor`, ... up to `most` between them.

    An error that is one of `give_up_on` ends the step at once: by default those that a second try
    of the same code cannot mend. Raises ValueError for a policy that cannot be meant.
    """

    attempts: int = 3
    first: Duration = "1s"
    factor: float = 2
    most: Duration = "1m"
    give_up_on: tuple[type[BaseException], ...] = _HOPELESS
    _first_s: float = field(init=False, repr=False, compare=False, default=0.0)
    _most_s: float = field(init=False, repr=False, compare=False, default=0.0)

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or self.attempts < 1:
            raise ValueError(f"Retry attempts={self.attempts!r}: a whole number from 1 on")
        if isinstance(self.factor, bool) or not 1 <= self.factor < float("inf"):
            raise ValueError(f"Retry factor={self.factor!r}: a number from 1 on")
        try:
            isinstance(None, self.give_up_on)
        except TypeError:
            raise ValueError(
                f"Retry give_up_on={self.give_up_on!r}: a tuple of exception classes"
            ) from None
        object.__setattr__(self, "_first_s", seconds(self.first, "Retry first="))
        object.__setattr__(self, "_most_s", seconds(self.most, "Retry most="))

    def delay_s(self, attempt: int) -> float:
        """Seconds between the end of an attempt (1: the first) and the next."""
        try:
            return min(self._most_s, self._first_s * self.factor ** (attempt - 1))
        except OverflowError:
            return self._most_s

    def again(self, attempt: int, error: BaseException) -> bool:
        """Whether another attempt follows one that failed so."""
        return attempt < self.attempts and not isinstance(error, self.give_up_on)


NEVER: Final = Retry(attempts=1)
"""No second attempt."""
