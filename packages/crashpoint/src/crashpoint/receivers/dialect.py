"""What a receiver promises to those who repeat a request, as data.

A dialect says whether keys are kept, for how long and how strictly, and whether one can look up
what has happened. The real process and the in-memory twin do what it says and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

__all__ = [
    "DIALECTS",
    "KEYED",
    "KEYED_CHECKED",
    "KEYED_RETENTION",
    "LOOKUP",
    "NOTHING",
    "Dialect",
    "DialectError",
    "Keys",
]


class DialectError(ValueError):
    """A dialect that does not exist or contradicts itself; the message names the value."""


class Keys(StrEnum):
    """How a receiver treats the key of a request that changes something."""

    NONE = "none"
    """Ignored: each request acts."""
    FOREVER = "forever"
    """A known key gets the first answer again, whatever else the request says."""
    RETENTION = "retention"
    """The same, until `retention_s` after the first; then the key is forgotten."""
    CHECKED = "checked"
    """Refused with 409 while the first is in progress and with 422 when the request differs."""


@dataclass(frozen=True)
class Dialect:
    """One set of promises. Raises DialectError for promises that contradict each other."""

    name: str
    keys: Keys
    retention_s: float | None = None
    """Seconds a key is kept, for RETENTION and, if given, CHECKED; None: for ever."""
    lookup: bool = True
    """Whether `find` and `look_up` are offered."""
    visible_within_s: float = 0.0
    """Seconds after which what was accepted shows in `find`, `look_up` and `search`."""

    def __post_init__(self) -> None:
        """Check that the fields fit together."""
        may_expire = self.keys in (Keys.RETENTION, Keys.CHECKED)
        if self.retention_s is None:
            if self.keys is Keys.RETENTION:
                raise DialectError(f"dialect {self.name!r}: retention_s is missing")
        elif not may_expire or self.retention_s <= 0:
            raise DialectError(
                f"dialect {self.name!r}: retention_s cannot be {self.retention_s!r} "
                f"with keys={self.keys.value!r}"
            )
        if self.visible_within_s < 0:
            raise DialectError(
                f"dialect {self.name!r}: visible_within_s must be 0 or more, "
                f"not {self.visible_within_s!r}"
            )

    @classmethod
    def parse(cls, text: str) -> Dialect:
        """A dialect from its name in DIALECTS, or from what `text()` gave. Raises DialectError."""
        if not text.startswith("{"):
            try:
                return DIALECTS[text]
            except KeyError:
                known = ", ".join(DIALECTS)
                raise DialectError(f"no dialect {text!r}; there are {known}") from None
        try:
            fields: dict[str, Any] = json.loads(text)
            return cls(**{**fields, "keys": Keys(fields["keys"])})
        except (ValueError, KeyError, TypeError) as error:
            raise DialectError(f"not a dialect: {text} ({error})") from None

    def text(self) -> str:
        """One line of JSON from which `parse` makes an equal one."""
        return json.dumps(asdict(self))


KEYED: Final = Dialect("keyed", Keys.FOREVER)
KEYED_RETENTION: Final = Dialect("keyed-retention", Keys.RETENTION, retention_s=86_400.0)
KEYED_CHECKED: Final = Dialect("keyed-checked", Keys.CHECKED)
LOOKUP: Final = Dialect("lookup", Keys.NONE, visible_within_s=1.0)
NOTHING: Final = Dialect("nothing", Keys.NONE, lookup=False)

DIALECTS: Final[Mapping[str, Dialect]] = MappingProxyType(
    {dialect.name: dialect for dialect in (KEYED, KEYED_RETENTION, KEYED_CHECKED, LOOKUP, NOTHING)}
)
"""Every dialect with a name."""
