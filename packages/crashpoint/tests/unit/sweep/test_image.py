"""What a program's functions change in memory is undone, and nothing of anybody else's is."""

import itertools
import logging
import os
import random
import sys
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from functools import cache, partial, wraps

import pytest

from crashpoint.sweep import image
from crashpoint.sweep.image import Image

NUMBER = 1
NAMES = {"a": [1]}
ORDERED = OrderedDict(b=1, a=2)
LIST = [{"x": 1}]
SET = {1}
QUEUE = deque([1], maxlen=3)
BYTES = bytearray(b"ab")
COUNT = itertools.count(10, 5)
FEED = iter([1, 2, 3])
DRAWS = random.Random(1)
TABLE = list(range(image.ITEMS_MAX + 1))
log = logging.getLogger("unit.sweep.test_image")


class Base:
    inherited = [1]  # noqa: RUF012


class Slotted:
    __slots__ = ("__weakref__", "late", "one")

    def __init__(self):
        self.one = 1


class Holder(Base):
    shared = [1]  # noqa: RUF012
    number = 1

    def __init__(self):
        self.own = [1]
        self.counts = itertools.count()
        self.slotted = Slotted()

    @classmethod
    def grow(cls):
        cls.shared.append(2)
        cls.inherited.append(2)
        cls.number += 1
        cls.new = 1

    @property
    def cell(self):
        return KEPT_BY_PROPERTY

    def work(self):
        self.own.append(2)
        self.more = 1
        next(self.counts)
        self.slotted.one = 2
        self.slotted.late = 3


@dataclass(frozen=True)
class Frozen:
    inner: list = field(default_factory=lambda: [1])


KEPT_BY_PROPERTY = [1]
HOLDER = Holder()
FROZEN = Frozen()


@cache
def squared(number):
    return [number * number]


def with_default(seen=[]):  # noqa: B006  the very mistake
    seen.append(1)
    return len(seen)


def set_global():
    global NUMBER  # noqa: PLW0603
    NUMBER = 2
    globals()["ANOTHER"] = 3


def set_mappings():
    NAMES["a"].append(2)
    NAMES["b"] = 1
    ORDERED.move_to_end("b")
    ORDERED["c"] = 1


def set_sequences():
    LIST[0]["x"] = 2
    LIST.append(3)
    QUEUE.extend([2, 3, 4])
    BYTES[0] = 0
    SET.clear()


def use_up():
    next(COUNT)
    next(FEED)
    DRAWS.random()


def state_of_everything():
    return {
        "global": (NUMBER, "ANOTHER" in globals()),
        "mappings": (repr(NAMES), list(ORDERED.items())),
        "sequences": (repr(LIST), list(QUEUE), QUEUE.maxlen, bytes(BYTES), set(SET)),
        "iterators": (repr(COUNT), FEED.__length_hint__(), DRAWS.getstate()),
        "class": (list(Holder.shared), list(Base.inherited), Holder.number, hasattr(Holder, "new")),
        "instance": (list(HOLDER.own), hasattr(HOLDER, "more"), repr(HOLDER.counts)),
        "slots": (HOLDER.slotted.one, getattr(HOLDER.slotted, "late", None)),
        "frozen": list(FROZEN.inner),
        "cached": squared.cache_info().currsize,
        "environment": os.environ.get("CRASHPOINT_UNIT"),
        "log": (list(log.handlers), log.level, log.propagate, log.isEnabledFor(logging.DEBUG)),
    }


def log_more():
    log.addHandler(logging.NullHandler())
    log.setLevel(logging.DEBUG)
    log.propagate = False
    logging.getLogger("unit.sweep.test_image.new").addHandler(logging.NullHandler())


CHANGES = [
    set_global,
    set_mappings,
    set_sequences,
    use_up,
    Holder.grow,
    HOLDER.work,
    FROZEN.inner.clear,
    partial(squared, 7),
    partial(os.environ.__setitem__, "CRASHPOINT_UNIT", "1"),
    log_more,
]


def entry():
    """Something in this module: all the rest is reached from it."""


@pytest.mark.parametrize("change", CHANGES, ids=[str(n) for n in range(len(CHANGES))])
def test_what_changed_is_put_back_again_and_again(change):
    kept = Image([entry])
    before = state_of_everything()
    for _ in range(2):
        kept.keep()
        change()
        assert state_of_everything() != before
        kept.put_back()
        assert state_of_everything() == before


def test_defaults_closures_partials_methods_and_decorators_are_followed():
    cell, argument, worker = [1], {"a": 1}, Holder()

    def decorated(function):
        @wraps(function)
        def inner(*args):
            return function(*args)

        return inner

    number = 1

    @decorated
    def enclosed(given):
        nonlocal number
        number += 1
        cell.append(2)
        given["a"] = 2
        worker.work()
        return with_default()

    kept = Image([partial(enclosed, argument)])
    for _ in range(2):
        assert enclosed(argument) == 1
        kept.put_back()
        assert (cell, argument, worker.own, number) == ([1], {"a": 1}, [1], 1)


def test_a_method_s_object_is_followed():
    worker = Holder()
    kept = Image([worker.work])
    worker.work()
    kept.put_back()
    assert (worker.own, vars(worker).keys()) == ([1], {"own", "counts", "slotted"})


def test_what_others_changed_between_two_runs_stays():
    heard = []

    def job():
        heard.append("job")

    kept = Image([job])
    for _ in range(2):
        kept.keep()
        job()
        kept.put_back()
        heard.append("told")
    assert heard == ["told", "told"]


def test_libraries_and_large_tables_are_left_alone():
    kept = Image([entry])
    setattr(itertools, "crashpoint_unit", 1)  # noqa: B010
    try:
        TABLE.append(1)
        kept.put_back()
        assert itertools.crashpoint_unit == 1
        assert len(TABLE) == image.ITEMS_MAX + 2
    finally:
        del itertools.crashpoint_unit
        TABLE.pop()


def test_a_module_that_a_run_imports_is_imported_anew(tmp_path, monkeypatch):
    (tmp_path / "fresh_of_the_unit.py").write_text("NUMBERS = [1]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    kept = Image([entry])
    for _ in range(2):
        kept.keep()
        import fresh_of_the_unit

        assert fresh_of_the_unit.NUMBERS == [1]
        fresh_of_the_unit.NUMBERS.append(2)
        kept.put_back()
        assert "fresh_of_the_unit" not in sys.modules


def test_objects_that_refuse_to_be_looked_at_do_no_harm():
    class Strange:
        __slots__ = ("slot",)

        @property
        def __class__(self):
            raise RuntimeError("not to be classified")

        def __eq__(self, other):
            raise RuntimeError("not to be compared")

        __hash__ = object.__hash__

        def __getattr__(self, name):
            raise RuntimeError("not to be looked at")

    strange = Strange()

    def job():
        return strange

    Image([job]).put_back()
