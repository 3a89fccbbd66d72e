"""How values and errors are encoded, and which come back as they went in.

JSON's types, bytes, tuples, whole numbers of any size, datetime, Decimal, UUID, and registered
dataclasses, msgspec structs and pydantic models. Anything else is refused at the border, with the
name of the field; what was accepted comes back equal and of the same type, or not at all.
"""

from __future__ import annotations

import base64
import builtins
import dataclasses
import datetime as dt
import decimal
import math
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

__all__ = ["DEPTH_MAX", "VALUE_MAX", "Codec", "NotRestorable", "NotStorable", "StepFailed"]

DEPTH_MAX: Final = 100
"""How deep values may be nested."""
VALUE_MAX: Final = 16 << 20
"""Bytes of one encoded value."""
TEXT_MAX: Final = 65_536
"""Characters of an error's message that are kept."""
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

    `types` are dataclasses, msgspec structs or pydantic models; `errors` are exception classes that
    can be made from their arguments.
    """

    def __init__(
        self, types: Iterable[type] = (), errors: Iterable[type[BaseException]] = ()
    ) -> None:
        self._types = {_name(known): known for known in types}
        self._errors: dict[str, type[BaseException]] = {
            name: known
            for name, known in vars(builtins).items()
            if isinstance(known, type) and issubclass(known, Exception)
        }
        self._errors |= {_name(known): known for known in errors}
        self._decode = msgspec.msgpack.Decoder(ext_hook=self._restore).decode

    def encode(self, value: Any, what: str = "value") -> bytes:
        """Bytes for a value. `what` names it in the message of NotStorable, which this raises."""
        encoded = _pack(self._plain(value, what, DEPTH_MAX))
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
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
            raise NotRestorable(f"stored bytes are no value: {error}") from error

    def encode_error(self, error: BaseException) -> bytes:
        """Bytes for what was raised; never raises: an error can always be stored."""
        text = str(error)[:TEXT_MAX].encode("utf-8", "backslashreplace").decode()
        args: Any = list(error.args)
        try:
            name = error.type if isinstance(error, StepFailed) else _error_name(error)
            self.encode(args)
        except (NotStorable, RecursionError):
            name, args = _error_name(error), None
        message = error.message if isinstance(error, StepFailed) else text
        return self.encode([name, message, args])

    def decode_error(self, data: bytes) -> BaseException:
        """What was raised: its own type if that is registered, else StepFailed."""
        name, message, args = self.decode(data)
        known = self._errors.get(name)
        if known is not None and args is not None:
            try:
                return known(*args)
            except Exception:  # noqa: BLE001  a class that cannot be made from its arguments
                return StepFailed(name, message)
        return StepFailed(name, message)

    def _plain(self, value: Any, what: str, left: int) -> Any:
        kind = type(value)
        if kind in _AS_IT_IS:
            return value
        if kind is str:
            return _text(value, what)
        if kind is int:
            return value if value in INT64 else _ext(_INT, str(value))
        if left == 0:
            raise NotStorable(f"{what} is nested more than {DEPTH_MAX} deep")
        if kind is dict:
            return {
                self._key(key, what): self._plain(inner, f"{what}.{key}", left - 1)
                for key, inner in value.items()
            }
        if kind is list:
            return [self._plain(x, f"{what}[{n}]", left - 1) for n, x in enumerate(value)]
        if kind is tuple:
            inner = [self._plain(x, f"{what}[{n}]", left - 1) for n, x in enumerate(value)]
            return _ext(_TUPLE, inner)
        texts = _TEXTS.get(kind)
        if texts is not None:
            return _ext(texts[0], texts[1](value))
        return self._object(value, what, left)

    @staticmethod
    def _key(key: Any, what: str) -> str:
        if type(key) is not str:
            raise NotStorable(f"{what} has the key {key!r}: keys are strings; use str(key)")
        return _text(key, f"a key of {what}")

    def _object(self, value: Any, what: str, left: int) -> msgspec.msgpack.Ext:
        kind = type(value)
        name = _name(kind)
        fields = _fields(value)
        if fields is None:
            raise NotStorable(
                f"{what} is {kind.__module__}.{kind.__qualname__}, which cannot be stored; use "
                "JSON's types, bytes, tuple, datetime, Decimal, UUID or a registered class"
            )
        if self._types.get(name) is not kind:
            raise NotStorable(
                f"{what} is {name}, which is not registered and could not be restored: "
                f"App(..., types=[{kind.__name__}])"
            )
        plain = {key: self._plain(x, f"{what}.{key}", left - 1) for key, x in fields.items()}
        return _ext(_OBJECT, [name, plain])

    def _restore(self, code: int, data: memoryview) -> Any:
        inner = self._decode(bytes(data))
        if code == _TUPLE:
            return tuple(inner)
        if code == _INT:
            return int(inner)
        if code == _OBJECT:
            return self._restore_object(*inner)
        maker = _MAKERS.get(code)
        if maker is None:
            raise NotRestorable(f"stored bytes hold an unknown kind of value, {code}")
        return maker(inner)

    def _restore_object(self, name: str, fields: Mapping[str, Any]) -> Any:
        kind = self._types.get(name)
        if kind is None:
            raise NotRestorable(
                f"a stored value is {name}, which is not registered here: App(..., types=[...]) "
                "under the name it had"
            )
        try:
            if hasattr(kind, "model_construct"):
                return kind.model_validate(fields)  # type: ignore[attr-defined]
            if dataclasses.is_dataclass(kind):
                return _make_dataclass(kind, fields)
            return kind(**fields)
        except Exception as error:
            raise NotRestorable(f"a stored {name} cannot be made again: {error}") from error


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
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        return {"unreadable": str(error), "bytes": len(data)}


def _show(code: int, data: memoryview) -> Any:
    inner = msgspec.msgpack.decode(bytes(data), ext_hook=_show)
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


def _make_dataclass(kind: Any, fields: Mapping[str, Any]) -> Any:
    known = {field.name: field for field in dataclasses.fields(kind)}
    strange = fields.keys() - known.keys()
    if strange:
        raise ValueError(f"it had a field {min(strange)!r}, which the class has not")
    made = kind(**{name: value for name, value in fields.items() if known[name].init})
    for name, value in fields.items():
        if getattr(made, name) != value:
            raise ValueError(f"field {name!r} was {value!r} and would be {getattr(made, name)!r}")
    return made


def _fields(value: Any) -> dict[str, Any] | None:
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if hasattr(kind, "model_fields") and hasattr(kind, "model_validate"):
        return {name: getattr(value, name) for name in kind.model_fields}
    return None


def _text(value: str, what: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise NotStorable(
            f"{what} has half a surrogate pair at character {error.start}, which is no text: "
            "encode it, or store bytes"
        ) from None
    return value


def _ext(code: int, inner: Any) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, _pack(inner))


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _error_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__name__ if getattr(builtins, kind.__name__, None) is kind else _name(kind)


def _seconds(value: dt.timedelta) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


_AS_IT_IS: Final = frozenset({type(None), bool, float, bytes})
_TEXTS: Final[Mapping[type, tuple[int, Any]]] = {
    dt.datetime: (_DATETIME, dt.datetime.isoformat),
    dt.date: (_DATE, dt.date.isoformat),
    dt.time: (_TIME, dt.time.isoformat),
    dt.timedelta: (_DELTA, _seconds),
    decimal.Decimal: (_DECIMAL, str),
    uuid.UUID: (_UUID, str),
}
_MAKERS: Final[Mapping[int, Any]] = {
    _DATETIME: dt.datetime.fromisoformat,
    _DATE: dt.date.fromisoformat,
    _TIME: dt.time.fromisoformat,
    _DELTA: lambda parts: dt.timedelta(*parts),
    _DECIMAL: decimal.Decimal,
    _UUID: uuid.UUID,
}
