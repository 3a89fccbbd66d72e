"""What a program holds in memory, kept before each run in this process and put back after it.

So functions that are called again and again forget as processes do. It covers what a program's own
modules hold: globals, classes, closures, default arguments, the object behind a bound method; also
the environment and loggers. What libraries hold is left alone.
"""

from __future__ import annotations

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
from typing import Any, Final

__all__ = ["Image"]

ITEMS_MAX: Final = 10_000
"""Items in one container that is put back; a larger one is a table, not a memory."""
OBJECTS_MAX: Final = 50_000

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_PYTHON: Final = (os.path.dirname(os.__file__) + os.sep, os.path.join(sys.prefix, "lib") + os.sep)


class Image:
    """The memory of the program that the entries belong to."""

    def __init__(self, entries: Iterable[Callable[..., Any]]) -> None:
        self._seen: dict[int, Any] = {}
        """By id, so that no id becomes another object's meanwhile."""
        self._mappings: list[Any] = []
        self._sequences: list[Any] = []
        self._sets: list[set[Any]] = []
        self._owners: list[Any] = []
        """Modules and classes, whose names are set and deleted."""
        self._cells: list[types.CellType] = []
        self._slots: list[tuple[Any, str]] = []
        self._draws: list[random.Random] = []
        self._caches: list[Callable[[], None]] = []
        waiting: list[Any] = list(entries)
        while waiting and len(self._seen) < OBJECTS_MAX:
            found = waiting.pop()
            if id(found) not in self._seen:
                self._seen[id(found)] = found
                waiting.extend(self._led_to(found))
        self.keep()

    def keep(self) -> None:
        """Remember everything as it is now."""
        self._kept_mappings = [dict(mapping) for mapping in self._mappings]
        self._kept_sequences = [list(sequence) for sequence in self._sequences]
        self._kept_sets = [set(one) for one in self._sets]
        self._kept_names = [dict(vars(owner)) for owner in self._owners]
        self._kept_cells = [_content(cell) for cell in self._cells]
        self._kept_slots = [getattr(owner, slot, _EMPTY) for owner, slot in self._slots]
        self._kept_draws = [draw.getstate() for draw in self._draws]
        self._kept_counts = [
            (names, name, *_numbers(value))
            for names in (*self._kept_mappings, *self._kept_names)
            for name, value in names.items()
            if type(value) is itertools.count
        ]
        self._environment = os.environ._data.copy()  # type: ignore[attr-defined]  # noqa: SLF001
        self._loggers = {logger: _settings(logger) for logger in _loggers()}
        self._modules = frozenset(sys.modules)

    def put_back(self) -> None:
        """Make it what it was."""
        for names, name, *numbers in self._kept_counts:
            names[name] = itertools.count(*numbers)
        for mapping, kept in zip(self._mappings, self._kept_mappings, strict=True):
            if not _are_same(mapping.values(), kept.values()) or mapping.keys() != kept.keys():
                mapping.clear()
                mapping.update(kept)
        for sequence, items in zip(self._sequences, self._kept_sequences, strict=True):
            if not _are_same(sequence, items):
                sequence.clear()
                sequence.extend(items)
        for one, members in zip(self._sets, self._kept_sets, strict=True):
            one.clear()
            one.update(members)
        for owner, kept in zip(self._owners, self._kept_names, strict=True):
            _rename(owner, kept)
        for cell, content in zip(self._cells, self._kept_cells, strict=True):
            if content is not _EMPTY:
                cell.cell_contents = content
        for (owner, slot), value in zip(self._slots, self._kept_slots, strict=True):
            if value is not _EMPTY:
                object.__setattr__(owner, slot, value)
        for draw, state in zip(self._draws, self._kept_draws, strict=True):
            draw.setstate(state)
        for clear in self._caches:
            clear()
        self._put_back_surroundings()

    def _put_back_surroundings(self) -> None:
        if os.environ._data != self._environment:  # type: ignore[attr-defined]  # noqa: SLF001
            kept = {os.fsdecode(name): os.fsdecode(value) for name, value in self._environment.items()}
            os.environ.clear()
            os.environ.update(kept)
        for logger in _loggers():
            settings = self._loggers.get(logger, ([], [], logging.NOTSET, True, False))
            if _settings(logger) != settings:
                handlers, filters, logger.level, logger.propagate, logger.disabled = settings
                logger.handlers[:], logger.filters[:] = handlers, filters
                logger.manager._clear_cache()  # type: ignore[attr-defined]  # noqa: SLF001
        for name in sys.modules.keys() - self._modules:
            if _is_own(getattr(sys.modules[name], "__file__", None)):
                del sys.modules[name]

    def _led_to(self, found: Any) -> Iterator[Any]:
        """Note what there is to put back of one object, and say what else it leads to."""
        if isinstance(found, functools.partial):
            yield from (found.func, found.args, found.keywords)
        elif isinstance(found, types.MethodType):
            yield from (found.__self__, found.__func__)
        elif isinstance(found, types.FunctionType):
            yield from self._led_to_by_function(found)
        elif isinstance(found, types.ModuleType):
            if _is_own(getattr(found, "__file__", None)):
                self._owners.append(found)
                yield from list(vars(found).values())
        elif isinstance(found, type):
            if _is_own_module(found.__module__):
                self._owners.append(found)
                yield from list(vars(found).values())
                yield from found.__bases__
        elif isinstance(found, dict):
            if len(found) <= ITEMS_MAX:
                self._mappings.append(found)
                yield from list(found.values())
        elif isinstance(found, list | deque):
            if len(found) <= ITEMS_MAX:
                self._sequences.append(found)
                yield from list(found)
        elif isinstance(found, bytearray):
            self._sequences.append(found)
        elif isinstance(found, set):
            if len(found) <= ITEMS_MAX:
                self._sets.append(found)
                yield from list(found)
        elif isinstance(found, tuple | frozenset):
            yield from found
        elif isinstance(found, staticmethod | classmethod):
            yield found.__func__
        elif isinstance(found, property):
            yield from (found.fget, found.fset)
        elif isinstance(found, random.Random):
            self._draws.append(found)
        elif hasattr(type(found), "cache_clear"):
            self._caches.append(found.cache_clear)
            yield getattr(found, "__wrapped__", None)
        elif _is_own_module(type(found).__module__):
            yield from self._led_to_by_instance(found)

    def _led_to_by_function(self, function: types.FunctionType) -> Iterator[Any]:
        if not _is_own_module(function.__module__):
            return
        yield sys.modules[function.__module__]
        yield from (function.__defaults__, function.__kwdefaults__, function.__dict__)
        for cell in function.__closure__ or ():
            self._cells.append(cell)
            yield _content(cell)

    def _led_to_by_instance(self, found: Any) -> Iterator[Any]:
        yield type(found)
        if hasattr(found, "__dict__"):
            yield vars(found)
        for kind in type(found).__mro__:
            slots = vars(kind).get("__slots__", ())
            for slot in (slots,) if isinstance(slots, str) else tuple(slots):
                if slot not in {"__dict__", "__weakref__"} and hasattr(found, slot):
                    self._slots.append((found, slot))
                    yield getattr(found, slot)


_EMPTY: Final = object()


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY


def _are_same(some: Any, others: Any) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))


def _numbers(count: Any) -> list[int]:
    """Where an `itertools.count` is and how far it steps; it can be read in no other way."""
    return [int(number) for number in re.findall(r"-?\d+", repr(count))]


def _rename(owner: Any, kept: dict[str, Any]) -> None:
    now = vars(owner)
    if _are_same(now.values(), kept.values()):
        return
    with suppress(AttributeError, TypeError):  # a class may forbid it
        for name in [name for name in now if name not in kept]:
            delattr(owner, name)
        for name, value in kept.items():
            if now.get(name, _EMPTY) is not value:
                setattr(owner, name, value)


@functools.cache
def _is_own_module(name: str) -> bool:
    """Whether a module is the program's: neither ours, nor Python's, nor installed."""
    return _is_own(getattr(sys.modules.get(name), "__file__", None))


@functools.cache
def _is_own(file: str | None) -> bool:
    if file is None:
        return False
    whole = os.path.abspath(file)
    return not whole.startswith((_PACKAGE, *_PYTHON)) and "-packages" + os.sep not in whole


def _loggers() -> list[logging.Logger]:
    named = logging.root.manager.loggerDict.values()
    return [logging.root, *(logger for logger in named if isinstance(logger, logging.Logger))]


def _settings(logger: logging.Logger) -> tuple[list[Any], list[Any], int, bool, bool]:
    handlers, filters = list(logger.handlers), list(logger.filters)
    return handlers, filters, logger.level, logger.propagate, logger.disabled
