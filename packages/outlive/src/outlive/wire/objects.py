"""Dataclasses, msgspec structs, pydantic models and enums: their fields, and making them again.

What is not a field is not stored. A model is made again without its validators: what a step
returned a month ago may not be valid today, and it is still what the step returned.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

__all__ = ["fields_of", "is_storable", "made_of", "type_name"]

_PLAIN: Final = (str, int, float, complex, bytes, bytearray, dict, list, tuple, set, frozenset)


def type_name(kind: type) -> str:
    """What a class is stored under: `module:Name`."""
    return f"{kind.__module__}:{kind.__qualname__}"


def is_storable(kind: object) -> bool:
    """Whether it is a class of one of the four kinds, and holds nothing but its fields."""
    if not isinstance(kind, type):
        return False
    if issubclass(kind, enum.Enum):
        return True
    has_fields = dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct)
    return (has_fields or _is_model(kind)) and not issubclass(kind, _PLAIN)


def _is_model(kind: type) -> bool:
    return hasattr(kind, "model_construct") and hasattr(kind, "model_fields")


def fields_of(value: Any) -> dict[str, Any]:
    """Name of a field -> what is in it; raises AttributeError if one is not set."""
    kind = type(value)
    if isinstance(value, enum.Enum):
        return {"value": value.value}
    if dataclasses.is_dataclass(kind):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    fields = {name: getattr(value, name) for name in kind.model_fields}
    return fields | (value.model_extra or {})


def made_of(kind: Any, fields: Mapping[str, Any]) -> Any:
    """An instance with these fields; raises whatever its class raises, ValueError if none fits.

    Whether they are in it afterwards is for the caller to see.
    """
    if issubclass(kind, enum.Enum):
        return kind(fields["value"])
    if hasattr(kind, "__dataclass_fields__"):
        known = {field.name: field for field in dataclasses.fields(kind)}
        _check_known(fields, known)
        return kind(**{name: value for name, value in fields.items() if known[name].init})
    if issubclass(kind, msgspec.Struct):
        _check_known(fields, kind.__struct_fields__)
        return kind(**fields)
    if kind.model_config.get("extra") != "allow":
        _check_known(fields, kind.model_fields)
    for name, field in kind.model_fields.items():
        if name not in fields and field.is_required():
            raise ValueError(f"it had no field {name!r}, which the class needs")
    return kind.model_construct(**fields)


def _check_known(fields: Mapping[str, Any], known: Iterable[str]) -> None:
    strange = fields.keys() - set(known)
    if strange:
        raise ValueError(f"it had a field {min(strange)!r}, which the class has not")
