"""What a program holds in memory, kept before each run in this process and put back after it.

So functions that are called again and again forget as processes do. It covers what a program's own
modules hold: globals, classes, closures, default arguments, the object behind a bound method; also
the environment and loggers. What libraries hold is left alone.
"""
# ruff: noqa: PTH100, PTH118, PTH120

from __future__ import annotations

import copy
import functools
import itertools
import logging
import os
import random
import re
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from operator import is_
from typing import Any, Final, Protocol

__all__ = ["Image", "is_own"]

ITEMS_MAX: Final = 10_000
"""Items in one container that is put back; a larger one is a table, not a memory."""
OBJECTS_MAX: Final = 50_000

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_PYTHON: Final = (os.path.dirname(os.__file__) + os.sep, os.path.join(sys.prefix, "lib") + os.sep)
_NOTHING: Final = object()


class Image:
    """The memory of the program that the entries belong to."""

    def __init__(self, entries: Iterable[Callable[..., Any]]) -> None:
        self._seen: dict[int, Any] = {}
        """By id, so that no id becomes another object's meanwhile."""
        self._parts: list[_Part] = [_Environment(), _Loggers(), _Modules()]
        waiting: list[Any] = list(entries)
        while waiting and len(self._seen) < OBJECTS_MAX:
            found = waiting.pop()
            if id(found) not in self._seen:
                self._seen[id(found)] = found
                waiting.extend(self._led_to(found))
        self.keep()

    def keep(self) -> None:
        """Remember everything as it is now."""
        for part in self._parts:
            part.keep()

    def put_back(self) -> None:
        """Make it what it was."""
        for part in self._parts:
            part.put_back()

    def _led_to(self, found: Any) -> Iterator[Any]:
        """Note what there is to put back of one object, and say what else it leads to."""
        kind = type(found)  # not isinstance: a proxy's class may be what is not there now
        for kinds, lead in _LEADS:
            if issubclass(kind, kinds):
                return lead(found, self._parts)
        if hasattr(kind, "cache_clear"):
            self._parts.append(_Cache(found))
        elif _is_own_module(kind.__module__):
            return _led_to_by_instance(found, self._parts)
        return iter(())


class _Part(Protocol):
    def keep(self) -> None: ...
    def put_back(self) -> None: ...


class _Mapping:
    """A dictionary, or the names of an instance."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def keep(self) -> None:
        self._kept = {name: _unused(value) for name, value in self._held.items()}

    def put_back(self) -> None:
        held, kept = self._held, self._kept
        if not _are_same(held.values(), kept.values()) or held.keys() != kept.keys():
            held.clear()
            held.update(kept)


class _Names:
    """A module or a class, whose names are set and deleted one by one."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def keep(self) -> None:
        self._kept = {name: _unused(value) for name, value in vars(self._owner).items()}

    def put_back(self) -> None:
        now, kept = vars(self._owner), self._kept
        if _are_same(now.values(), kept.values()):
            return
        with suppress(AttributeError, TypeError):  # a class may forbid it
            for name in [name for name in now if name not in kept]:
                delattr(self._owner, name)
            for name, value in kept.items():
                if now.get(name, _NOTHING) is not value:
                    setattr(self._owner, name, value)


class _Sequence:
    def __init__(self, held: Any) -> None:
        self._held = held

    def keep(self) -> None:
        self._kept = list(self._held)

    def put_back(self) -> None:
        if not _are_same(self._held, self._kept):
            self._held.clear()
            self._held.extend(self._kept)


class _Set:
    def __init__(self, held: set[Any]) -> None:
        self._held = held

    def keep(self) -> None:
        self._kept = set(self._held)

    def put_back(self) -> None:
        self._held.clear()
        self._held.update(self._kept)


class _Attribute:
    """A slot of an instance, or the content of a closure's cell."""

    def __init__(self, owner: Any, name: str) -> None:
        self._owner = owner
        self._name = name

    def keep(self) -> None:
        self._kept = _unused(_got(self._owner, self._name))

    def put_back(self) -> None:
        if self._kept is not _NOTHING:
            object.__setattr__(self._owner, self._name, self._kept)
        elif _got(self._owner, self._name) is not _NOTHING:
            object.__delattr__(self._owner, self._name)


class _Draws:
    def __init__(self, held: random.Random) -> None:
        self._held = held

    def keep(self) -> None:
        self._kept = self._held.getstate()

    def put_back(self) -> None:
        self._held.setstate(self._kept)


class _Cache:
    def __init__(self, held: Any) -> None:
        self._held = held

    def keep(self) -> None:
        """A cache is as good empty."""

    def put_back(self) -> None:
        self._held.cache_clear()


class _Environment:
    def keep(self) -> None:
        self._kept = os.environ._data.copy()  # type: ignore[attr-defined]  # noqa: SLF001

    def put_back(self) -> None:
        if os.environ._data != self._kept:  # type: ignore[attr-defined]  # noqa: SLF001
            os.environ.clear()
            os.environ.update(
                {os.fsdecode(name): os.fsdecode(value) for name, value in self._kept.items()}
            )


class _Loggers:
    def keep(self) -> None:
        self._kept = {logger: _settings(logger) for logger in _loggers()}

    def put_back(self) -> None:
        for logger in _loggers():
            settings = self._kept.get(logger, ([], [], logging.NOTSET, True, False))
            if _settings(logger) != settings:
                handlers, filters, level, logger.propagate, logger.disabled = settings
                logger.handlers[:], logger.filters[:] = handlers, filters
                logger.setLevel(level)


class _Modules:
    """Modules of the program that a run imports are imported again by the next."""

    def keep(self) -> None:
        self._kept = frozenset(sys.modules)

    def put_back(self) -> None:
        for name in sys.modules.keys() - self._kept:
            if _is_own_module(name):
                del sys.modules[name]


def _led_to_by_function(function: types.FunctionType, parts: list[_Part]) -> Iterator[Any]:
    if not _is_own_module(function.__module__):
        return
    yield sys.modules[function.__module__]
    yield from (function.__defaults__, function.__kwdefaults__, function.__dict__)
    for cell in function.__closure__ or ():
        parts.append(_Attribute(cell, "cell_contents"))
        yield _got(cell, "cell_contents")


def _led_to_by_names(owner: Any, parts: list[_Part]) -> Iterator[Any]:
    module = owner.__name__ if isinstance(owner, types.ModuleType) else owner.__module__
    if _is_own_module(module):
        parts.append(_Names(owner))
        yield from (*vars(owner).values(), *getattr(owner, "__bases__", ()))


def _led_to_by_container(found: Any, parts: list[_Part]) -> Iterator[Any]:
    if len(found) > ITEMS_MAX:
        return
    if isinstance(found, dict):
        parts.append(_Mapping(found))
        yield from list(found.values())
    elif isinstance(found, set):
        parts.append(_Set(found))
        yield from list(found)
    else:
        parts.append(_Sequence(found))
        yield from list(found)


def _led_to_by_instance(found: Any, parts: list[_Part]) -> Iterator[Any]:
    yield type(found)
    yield _got(found, "__dict__")
    for kind in type(found).__mro__:
        slots = vars(kind).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else tuple(slots):
            if slot not in {"__dict__", "__weakref__"}:
                parts.append(_Attribute(found, slot))
                yield _got(found, slot)


def _led_to_by_draws(found: random.Random, parts: list[_Part]) -> Iterator[Any]:
    parts.append(_Draws(found))
    return iter(())


_LEADS: Final[tuple[tuple[Any, Callable[[Any, list[_Part]], Iterator[Any]]], ...]] = (
    (types.FunctionType, _led_to_by_function),
    (types.MethodType, lambda found, _: iter((found.__self__, found.__func__))),
    (functools.partial, lambda found, _: iter((found.func, found.args, found.keywords))),
    (types.ModuleType | type, _led_to_by_names),
    (dict | list | set | deque | bytearray, _led_to_by_container),
    (tuple | frozenset, lambda found, _: iter(found)),
    (staticmethod | classmethod, lambda found, _: iter((found.__func__,))),
    (property, lambda found, _: iter((found.fget, found.fset))),
    (random.Random, _led_to_by_draws),
)
"""By kind of object, how to note it and what it leads to."""


def _got(owner: Any, name: str) -> Any:
    try:
        return object.__getattribute__(owner, name)
    except (AttributeError, ValueError):  # a cell that is not filled yet
        return _NOTHING


def _are_same(some: Any, others: Any) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))


def _unused(value: Any) -> Any:
    """The value, or if that is used up by being used, an equal one in its place."""
    if type(value) is itertools.count:
        # Only its text tells where it stands and how far it steps.
        return itertools.count(*[int(number) for number in re.findall(r"-?\d+", repr(value))])
    return copy.copy(value) if type(value) in _ITERATORS else value


_ITERATORS: Final = frozenset({type(iter([])), type(iter(())), type(iter(range(0)))})


def is_own(function: Any) -> bool:
    """Whether a function, or the object of a method, is of a program's own code."""
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__self__", function)
    module = getattr(function, "__module__", None) or type(function).__module__
    return _is_own_module(module)


def _is_own_module(name: str) -> bool:
    """Whether a module is the program's: neither ours, nor Python's, nor installed."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is not None and _is_own(file)


@functools.cache
def _is_own(file: str) -> bool:
    whole = os.path.abspath(file)
    return not whole.startswith((_PACKAGE, *_PYTHON)) and "-packages" + os.sep not in whole


def _loggers() -> list[logging.Logger]:
    named = logging.root.manager.loggerDict.values()
    return [logging.root, *(logger for logger in named if isinstance(logger, logging.Logger))]


def _settings(logger: logging.Logger) -> tuple[list[Any], list[Any], int, bool, bool]:
    handlers, filters = list(logger.handlers), list(logger.filters)
    return handlers, filters, logger.level, logger.propagate, logger.disabled
