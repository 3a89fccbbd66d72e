"""How values and errors are encoded, and which come back as they went in.

JSON's types, bytes, tuples, whole numbers of any size, dates and times, Decimal, UUID, and
registered dataclasses, msgspec structs, pydantic models and enums. Anything else is refused at the
border, with the name of the field, subclasses of these types among it; what was accepted comes back
equal and of the same type, or not at all. A NaN comes back as the NaN that it was.
"""

from __future__ import annotations

import base64
import builtins
import datetime as dt
import decimal
import math
import uuid
import zoneinfo
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from outlive.wire.objects import fields_of, is_storable, made_of, type_name

__all__ = [
    "DEPTH_MAX",
    "VALUE_MAX",
    "Codec",
    "NotRestorable",
    "NotStorable",
    "StepFailed",
    "as_json",
    "from_json",
]

DEPTH_MAX: Final = 100
"""How deep values may be nested."""
VALUE_MAX: Final = 16 << 20
"""Bytes of one encoded value."""
TEXT_MAX: Final = 65_536
"""Characters of an error's message that are kept."""
NAME_MAX: Final = 1000
INT64: Final = range(-(1 << 63), 1 << 64)

_TUPLE, _INT, _DATETIME, _DATE, _TIME, _DELTA, _DECIMAL, _UUID, _OBJECT = range(1, 10)

_pack = msgspec.msgpack.Encoder().encode


class NotStorable(TypeError):
    """A value that cannot be stored; the message names the field, the type and the remedy."""


class NotRestorable(ValueError):
    """Stored bytes that cannot be turned into the value they were; they stay as they are."""


class StepFailed(Exception):
    """What a step raised, when the type of it is not registered: `type` names it."""

    def __init__(self, type: str, message: str) -> None:  # noqa: A002  the word for it
        super().__init__(f"{type}: {message}")
        self.type = type
        self.message = message


class Codec:
    """Encodes and decodes with the types that were registered.

    `types` are dataclasses, msgspec structs, pydantic models or enums; `errors` are exception
    classes that can be made from their arguments. Raises NotStorable for other types.
    """

    def __init__(
        self, types: Iterable[type] = (), errors: Iterable[type[BaseException]] = ()
    ) -> None:
        self.types: dict[str, type] = {}
        """Name -> class, of what is registered."""
        for known in types:
            if not is_storable(known):
                raise NotStorable(
                    f"types: {known!r} is no dataclass, msgspec struct, pydantic model or enum"
                )
            if self.types.setdefault(type_name(known), known) is not known:
                raise NotStorable(f"types: there are two classes {type_name(known)}")
        self._errors: dict[str, type[BaseException]] = {
            name: known
            for name, known in vars(builtins).items()
            if isinstance(known, type) and issubclass(known, Exception)
        }
        for error in errors:
            if not (isinstance(error, type) and issubclass(error, BaseException)):  # type: ignore[redundant-expr]
                raise NotStorable(f"errors: {error!r} is no exception class")
            self._errors[type_name(error)] = error
        self._decode = msgspec.msgpack.Decoder(ext_hook=self._restore).decode

    def encode(self, value: Any, what: str = "value") -> bytes:
        """Bytes for a value. `what` names it in the message of NotStorable, which this raises."""
        try:
            encoded = _pack(_Walk(self).plain(value, DEPTH_MAX))
        except _Refused as refused:
            raise NotStorable(refused.line(what)) from None
        except RecursionError:
            raise NotStorable(f"{what} is nested too deep for where it is encoded") from None
        if len(encoded) > VALUE_MAX:
            raise NotStorable(
                f"{what} has {len(encoded):,} bytes encoded, the most is {VALUE_MAX:,}: store it "
                "elsewhere and keep its address"
            )
        return encoded

    def decode(self, data: bytes) -> Any:
        """The value again; raises NotRestorable."""
        try:
            return self._decode(data)
        except NotRestorable:
            raise
        except _WRONG as error:
            raise NotRestorable(f"stored bytes are no value: {error!r}") from error

    def encode_error(self, error: BaseException) -> bytes:
        """Bytes for what was raised; never raises: an error can always be stored."""
        if isinstance(error, StepFailed):
            name, message, args = _said(error.type), _said(error.message), None
        else:
            name, message, args = _error_name(error), _said(error), _arguments(error)
        try:
            return self.encode([name[:NAME_MAX], message, args])
        except NotStorable:
            return self.encode([name[:NAME_MAX], message, None])

    def decode_error(self, data: bytes) -> BaseException:
        """What was raised: its own type if that is registered, else StepFailed.

        It is StepFailed, too, when its arguments do not make the same error again. Raises
        NotRestorable for what is no error.
        """
        found = self.decode(data)
        if not (isinstance(found, list) and len(found) == 3):
            raise NotRestorable("stored bytes are no error")
        name, message, args = found
        if not (isinstance(name, str) and isinstance(message, str)):
            raise NotRestorable("stored bytes are no error")
        known = self._errors.get(name)
        if known is not None and isinstance(args, list):
            try:
                made = known(*args)
            except Exception:  # noqa: BLE001  a class that cannot be made from its arguments
                return StepFailed(name, message)
            if _said(made) == message:
                return made
        return StepFailed(name, message)

    def _restore(self, code: int, data: memoryview) -> Any:
        inner = self._decode(data)
        if code == _OBJECT:
            return self._restore_object(*inner)
        maker = _MAKERS.get(code)
        if maker is None:
            raise NotRestorable(f"stored bytes hold an unknown kind of value, {code}")
        return maker(inner)

    def _restore_object(self, name: str, fields: Mapping[str, Any]) -> Any:
        kind = self.types.get(name)
        if kind is None:
            raise NotRestorable(
                f"a stored value is {name}, which is not registered here: App(..., types=[...]) "
                "under the name it had"
            )
        try:
            made = made_of(kind, fields)
            _Walk(self).check(fields, fields_of(made))
        except _Refused as refused:
            line = refused.line(f"a stored {name}")
            raise NotRestorable(f"{line}: the class is not what it was") from None
        except Exception as error:
            raise NotRestorable(f"a stored {name} cannot be made again: {error}") from error
        return made


class _Refused(Exception):
    """Why a part cannot be stored; `parts` lead to it, the innermost first."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.parts: list[str] = []

    def line(self, what: str) -> str:
        """The message."""
        path = "".join(reversed(self.parts))
        if len(path) > NAME_MAX:
            path = f"{path[: NAME_MAX // 2]}...{path[-NAME_MAX // 2 :]}"
        return f"{what}{path} {self.reason}"


class _Walk:
    """One pass through a value: what msgspec is to pack."""

    __slots__ = ("_inside", "_parts", "_types")

    def __init__(self, codec: Codec) -> None:
        self._types = codec.types
        self._inside: set[int] = set()
        self._parts = 0

    def plain(self, value: Any, left: int) -> Any:
        """What to pack for a value that may be nested so deep; raises _Refused."""
        kind = type(value)
        if kind in _AS_IT_IS:
            return value
        if kind is str:
            return _text(value)
        if kind is int:
            return value if value in INT64 else _ext(_INT, _digits(value))
        write = _WRITERS.get(kind)
        if write is not None:
            return _ext(write[0], write[1](value))
        if left == 0:
            raise _Refused(f"is nested more than {DEPTH_MAX} deep")
        mark = id(value)
        if mark in self._inside:
            raise _Refused("contains itself")
        self._inside.add(mark)
        try:
            if kind is dict:
                return self._members(value, left - 1)
            if kind is list:
                return self._items(value, left - 1)
            if kind is tuple:
                return _ext(_TUPLE, self._items(value, left - 1))
            return self._object(value, kind, left - 1)
        finally:
            self._inside.discard(mark)

    def _count(self, more: int) -> None:
        # Each is at least a byte; and lists that share lists can be many more than there are.
        self._parts += more
        if self._parts > VALUE_MAX:
            raise _Refused(f"has more than {VALUE_MAX:,} parts: store it elsewhere")

    def _items(self, items: list[Any] | tuple[Any, ...], left: int) -> list[Any]:
        self._count(len(items))
        plain = []
        try:
            for item in items:
                plain.append(self.plain(item, left))  # noqa: PERF401  the place of a refusal
        except _Refused as refused:
            refused.parts.append(f"[{len(plain)}]")
            raise
        return plain

    def _members(self, members: Mapping[Any, Any], left: int) -> dict[str, Any]:
        self._count(len(members))
        plain: dict[str, Any] = {}
        for key, inner in members.items():
            if type(key) is not str:
                shown = _said(key, repr)[:NAME_MAX]
                raise _Refused(f"has the key {shown}: keys are strings; use str(key)")
            _text(key, "has a key with")
            try:
                plain[key] = self.plain(inner, left)
            except _Refused as refused:
                refused.parts.append(f".{key}" if key.isprintable() else f"[{key!r}]")
                raise
        return plain

    def _object(self, value: Any, kind: type, left: int) -> msgspec.msgpack.Ext:
        name = type_name(kind)
        if self._types.get(name) is not kind:
            raise _Refused(_why_not(value, kind))
        try:
            fields = fields_of(value)
        except AttributeError as error:
            raise _Refused(f"is a {name} with a field that is not set: {error}") from None
        plain = self._members(fields, left)
        try:
            made = made_of(kind, fields)
            again = fields_of(made)
            # A model compares its private attributes, too.
            equal = not hasattr(kind, "model_construct") or bool(made == value)
        except Exception as error:  # noqa: BLE001  a user's class may raise anything
            raise _Refused(
                f"is a {name} that cannot be made again from its fields: {_said(error)}"
            ) from None
        self.check(fields, again)
        if not equal:
            raise _Refused(
                f"is a {name} that would not come back equal: it holds more than its fields"
            )
        return _ext(_OBJECT, [name, plain])

    def check(self, fields: Mapping[str, Any], again: Mapping[str, Any]) -> None:
        """Raises _Refused if an object that was made again holds something else."""
        for name, was in fields.items():
            now = again.get(name, _NOTHING)
            if now is not was and not self._same(now, was):
                refused = _Refused(
                    f"is {_said(was, repr)[:NAME_MAX]} and would come back as "
                    f"{_said(now, repr)[:NAME_MAX]}"
                )
                refused.parts.append(f".{name}")
                raise refused

    def _same(self, now: object, was: object) -> bool:
        if type(now) is not type(was):
            return False
        return bool(_pack(self.plain(now, DEPTH_MAX)) == _pack(self.plain(was, DEPTH_MAX)))


_NOTHING: Final = object()


def from_json(document: bytes, what: str = "value") -> bytes:
    """The bytes for a JSON document; raises NotStorable."""
    try:
        value = msgspec.json.decode(document) if document else None
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise NotStorable(f"{what} is no JSON: {error}") from None
    return Codec().encode(value, what)


def as_json(data: bytes) -> Any:
    """What a person or another program may read of a value: JSON's types; never raises."""
    if not data:
        return None
    try:
        return _shown(msgspec.msgpack.decode(data, ext_hook=_show))
    except _WRONG as error:
        return {"unreadable": str(error), "bytes": len(data)}


def _show(code: int, data: memoryview) -> Any:
    inner = msgspec.msgpack.decode(data, ext_hook=_show)
    if code == _OBJECT:
        return inner[1]
    if code == _DELTA:
        return dt.timedelta(*inner).total_seconds()
    return int(inner) if code == _INT else inner


def _shown(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {str(key): _shown(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


_WRONG: Final = (
    msgspec.MsgspecError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)
"""What reading bytes that hold no value may raise."""


# --- what is said about it ----------------------------------------------------------------------


def _said(value: object, how: Callable[[object], str] = str) -> str:
    """Its text, cut and without half surrogate pairs, whatever it is."""
    try:
        text = how(value)[:TEXT_MAX]
    except Exception:  # noqa: BLE001  a class whose text cannot be had
        text = f"a {type_name(type(value))} that cannot be shown"
    return text.encode("utf-8", "backslashreplace").decode()


def _error_name(error: BaseException) -> str:
    kind = type(error)
    name = kind.__name__ if getattr(builtins, kind.__name__, None) is kind else type_name(kind)
    return _said(name)


def _arguments(error: BaseException) -> list[Any] | None:
    """What makes the error again, as pickle sees it: an OSError has a file name besides `args`."""
    try:
        reduced = error.__reduce__()
    except Exception:  # noqa: BLE001  an error that says how it is made, and cannot be
        return None
    if isinstance(reduced, tuple) and reduced[0] is type(error) and isinstance(reduced[1], tuple):
        return list(reduced[1])
    return None


def _why_not(value: object, kind: type) -> str:
    name = f"{kind.__module__}.{kind.__qualname__}"
    if is_storable(kind):
        return (
            f"is {type_name(kind)}, which is not registered and could not be restored: "
            f"App(..., types=[{kind.__name__}])"
        )
    for base, remedy in _REMEDIES:
        if isinstance(value, base):
            return f"is {name}, which would not come back as one: store {remedy}"
    return (
        f"is {name}, which cannot be stored; use JSON's types, bytes, tuple, datetime, Decimal, "
        "UUID or a registered class"
    )


_REMEDIES: Final = (
    ((set, frozenset), "a sorted list"),
    ((bytearray, memoryview), "bytes(...) of it"),
    *(
        (base, f"{base.__name__}(...) of it")
        for base in (str, int, float, bytes, dict, list, tuple, decimal.Decimal)
    ),
)


# --- one type after another ---------------------------------------------------------------------


def _text(value: str, what: str = "has") -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise _Refused(
                f"{what} half a surrogate pair at character {error.start}, which is no text: "
                "encode it, or store bytes"
            ) from None
    return value


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # Python's own limit, which it has for reading, too
        raise _Refused("is a whole number of too many digits: store bytes") from None


def _write_zoned(value: dt.datetime | dt.time) -> str:
    """ISO 8601, and the name of a zone behind it in brackets as in RFC 9557."""
    zone = value.tzinfo
    name = zone.key if type(zone) is zoneinfo.ZoneInfo else ""
    if not name and zone is not None and type(zone) is not dt.timezone:
        raise _Refused(
            f"has the time zone {_said(zone, repr)[:NAME_MAX]}: use zoneinfo.ZoneInfo(name) or "
            "datetime.timezone"
        )
    text = f"{value.isoformat()}[{name}]" if name else value.isoformat()
    read = _read_datetime if isinstance(value, dt.datetime) else _read_time
    if value.fold and read(text).fold != value.fold:
        raise _Refused(f"is {value!r}, whose fold would be lost: use fold=0")
    return text


def _read_datetime(text: str) -> dt.datetime:
    plain, zone = _zone(text)
    value = dt.datetime.fromisoformat(plain)
    if zone is None:
        return value
    for fold in (0, 1):
        zoned = value.replace(tzinfo=zone, fold=fold)
        if zoned.utcoffset() == value.utcoffset():
            return zoned
    raise NotRestorable(f"{text}: the rules of the zone have changed, it is another instant now")


def _read_time(text: str) -> dt.time:
    plain, zone = _zone(text)
    value = dt.time.fromisoformat(plain)
    return value if zone is None else value.replace(tzinfo=zone)


def _zone(text: str) -> tuple[str, zoneinfo.ZoneInfo | None]:
    plain, bracket, name = text.partition("[")
    return plain, zoneinfo.ZoneInfo(name.removesuffix("]")) if bracket else None


def _ext(code: int, inner: Any) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, _pack(inner))


_AS_IT_IS: Final = frozenset({type(None), bool, float, bytes})
_WRITERS: Final[Mapping[type, tuple[int, Callable[[Any], Any]]]] = {
    dt.datetime: (_DATETIME, _write_zoned),
    dt.date: (_DATE, dt.date.isoformat),
    dt.time: (_TIME, _write_zoned),
    dt.timedelta: (_DELTA, lambda value: [value.days, value.seconds, value.microseconds]),
    decimal.Decimal: (_DECIMAL, str),
    uuid.UUID: (_UUID, str),
}
_MAKERS: Final[Mapping[int, Callable[[Any], Any]]] = {
    _TUPLE: tuple,
    _INT: int,
    _DATETIME: _read_datetime,
    _DATE: dt.date.fromisoformat,
    _TIME: _read_time,
    _DELTA: lambda parts: dt.timedelta(*parts),
    _DECIMAL: decimal.Decimal,
    _UUID: uuid.UUID,
}
