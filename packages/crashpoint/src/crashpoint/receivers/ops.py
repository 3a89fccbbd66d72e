"""What can be asked of each receiver: operations, their arguments, what is wrong with a request.

The tables serve everyone: the service validates with them, the MCP front lists them as tools.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

__all__ = [
    "KEY",
    "RECEIVERS",
    "Op",
    "Param",
    "Refusal",
    "Request",
    "checked",
    "checked_change",
    "shown",
]

Request = Mapping[str, Any]
"""`op`, `args` and, where something is changed, an optional `key`."""

TITLE_MAX: Final = 255
"""Characters in a title, an order or a key."""
TEXT_MAX: Final = 8_192
NUMBER_MAX: Final = 10**15
SHOWN_MAX: Final = 60
REQUIRED: Final = object()
"""The default of an argument that must be given."""


class Refusal(Exception):
    """A request that is refused: `status` as in HTTP, str() is the sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Param:
    """One argument: what it must be in words, as a test, and as JSON Schema."""

    says: str
    fits: Callable[[Any], bool]
    schema: Mapping[str, Any]
    default: Any = REQUIRED

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is REQUIRED


@dataclass(frozen=True)
class Op:
    """One operation. `noun` is the member of the answer that names what a change made."""

    name: str
    does: str
    params: Mapping[str, Param]
    noun: str | None = None

    @property
    def changes(self) -> bool:
        """Whether it changes the receiver."""
        return self.noun is not None


def checked(receiver: str, request: Request) -> tuple[Op, dict[str, Any]]:
    """The operation a request asks for and its arguments, those left out filled in.

    Raises Refusal (400) with the first thing wrong with it.
    """
    if type(request) is not dict or not request.keys() <= _MEMBERS:
        raise Refusal(400, "a request is an object with the members op, args and, if wanted, key")
    name, given = request.get("op"), request.get("args")
    op = RECEIVERS[receiver].get(name) if type(name) is str else None
    if op is None:
        known = ", ".join(RECEIVERS[receiver])
        raise Refusal(400, f"{receiver} has no operation {shown(name)}; it has {known}")
    if type(given) is not dict:
        raise Refusal(400, f"{op.name}: args must be an object, not {shown(given)}")
    args = {}
    left = len(given)
    for param_name, param in op.params.items():
        if param_name in given:
            left -= 1
            args[param_name] = value = given[param_name]
            if not param.fits(value):
                must = f"{op.name}: {param_name} must be {param.says}"
                raise Refusal(400, f"{must}, not {shown(value)}")
        elif param.default is REQUIRED:
            raise Refusal(400, f"{op.name}: {param_name} is missing")
        else:
            args[param_name] = param.default
    if left:
        stranger = next(member for member in given if member not in op.params)
        known = ", ".join(op.params)
        raise Refusal(400, f"{op.name}: unknown argument {shown(stranger)}; it takes {known}")
    return op, args


def checked_change(receiver: str, request: Request) -> tuple[Op, dict[str, Any]]:
    """As `checked`, for a request that somebody wants to know about: it must change something."""
    op, args = checked(receiver, request)
    if not op.changes:
        raise Refusal(400, f"{op.name} changes nothing, so nobody knows whether it was done")
    return op, args


def shown(value: Any) -> str:
    """A value as it stands in a sentence: short, and printable whatever it is."""
    text = ascii(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


def _text(most: int, *, least: int = 1, default: Any = REQUIRED) -> Param:
    def fits(value: Any) -> bool:
        if type(value) is not str or not least <= len(value) <= most:
            return False
        return value.isascii() or _has_utf8(value)

    says = f"a string of {least} to {most} characters without lone surrogates"
    return Param(says, fits, {"type": "string", "minLength": least, "maxLength": most}, default)


def _has_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_whole(value: Any) -> bool:
    return type(value) is int and 1 <= value <= NUMBER_MAX


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= NUMBER_MAX


def _is_currency(value: Any) -> bool:
    is_word = type(value) is str and len(value) == 3 and value.isascii() and value.isalpha()
    return is_word and value.isupper()


KEY: Final = _text(TITLE_MAX)
"""What a key may be."""

_TITLE: Final = _text(TITLE_MAX)
_BODY: Final = _text(TEXT_MAX, least=0, default="")
_TEXT: Final = _text(TEXT_MAX)
_ORDER: Final = _text(TITLE_MAX)
_WHOLE: Final = Param(
    f"a whole number from 1 to {NUMBER_MAX}",
    _is_whole,
    {"type": "integer", "minimum": 1, "maximum": NUMBER_MAX},
)
_CURRENCY: Final = Param(
    "three capital letters", _is_currency, {"type": "string", "pattern": "^[A-Z]{3}$"}, "EUR"
)
_FIND: Final = Op(
    "find",
    "Look up whether a request has been done: by its op and args, or by its key.",
    {
        "op": _text(TITLE_MAX, default=None),
        "args": Param("an object", lambda value: type(value) is dict, {"type": "object"}, None),
        "key": _text(TITLE_MAX, default=None),
        "age_s": Param(
            "a number of seconds, 0 or more", _is_time, {"type": "number", "minimum": 0}, 0.0
        ),
    },
)

RECEIVERS: Final[Mapping[str, Mapping[str, Op]]] = MappingProxyType(
    {
        receiver: MappingProxyType({op.name: op for op in ops})
        for receiver, ops in {
            "tracker": (
                Op("file", "File an issue.", {"title": _TITLE, "body": _BODY}, "issue"),
                Op("comment", "Comment on an issue.", {"issue": _WHOLE, "text": _TEXT}, "comment"),
                Op("search", "Issues whose title or body holds a text.", {"text": _TEXT}),
                _FIND,
            ),
            "payments": (
                Op(
                    "charge",
                    "Charge an order.",
                    {"order": _ORDER, "cents": _WHOLE, "currency": _CURRENCY},
                    "charge",
                ),
                Op(
                    "refund",
                    "Refund a charge, in part or whole.",
                    {"charge": _WHOLE, "cents": _WHOLE},
                    "refund",
                ),
                Op("look_up", "Charges of an order, and what was refunded.", {"order": _ORDER}),
                _FIND,
            ),
        }.items()
    }
)
"""The operations of each receiver by name."""

_MEMBERS: Final = frozenset({"op", "args", "key"})
