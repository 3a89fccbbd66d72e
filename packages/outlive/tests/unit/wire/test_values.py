"""Values: each comes back exactly as it was, or is refused with the name of the field."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime as dt
import decimal
import enum
import math
import pathlib
import struct
import time
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlive.wire.values import (
    DEPTH_MAX,
    VALUE_MAX,
    Codec,
    NotRestorable,
    NotStorable,
    as_json,
    from_json,
)

UTC = dt.UTC
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


class Colour(enum.Enum):
    RED = "red"
    BLUE = ("b", 2)


class Level(enum.IntEnum):
    LOW = 1


class Might(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    id: uuid.UUID
    lines: tuple[Point, ...] = ()
    colour: Colour = Colour.RED


@dataclasses.dataclass
class Derived:
    base: int
    doubled: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.doubled = self.base * 2


class Card(msgspec.Struct, frozen=True, rename="camel", tag=True):
    holder_name: str
    point: Point | None = None


class Payment(pydantic.BaseModel):
    amount: decimal.Decimal
    card: Card | None = None
    payee_name: str = pydantic.Field(default="", alias="payeeName")
    tags: list[Any] = []

    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)


class Open(pydantic.BaseModel, extra="allow"):
    a: int


class Future(pydantic.BaseModel):
    due: pydantic.FutureDatetime


class Numbers(pydantic.RootModel[list[int]]):
    pass


CODEC = Codec([Point, Order, Derived, Card, Payment, Open, Future, Numbers, Colour, Level, Might])


def exact(value: Any) -> Any:
    """Something that is equal only for values that nobody can tell apart."""
    kind = type(value)
    if kind is float:
        return kind, struct.pack(">d", value)
    if kind is dict:
        return kind, [(key, exact(inner)) for key, inner in value.items()]
    if kind in (list, tuple):
        return kind, [exact(inner) for inner in value]
    if kind is decimal.Decimal:
        return kind, value.as_tuple()
    if kind in (dt.datetime, dt.time):
        return (
            kind,
            value.isoformat(),
            value.fold,
            type(value.tzinfo),
            getattr(value.tzinfo, "key", ""),
        )
    if isinstance(value, enum.Enum):
        return kind, id(value)
    if dataclasses.is_dataclass(kind):
        return kind, [exact(getattr(value, one.name)) for one in dataclasses.fields(kind)]
    if isinstance(value, msgspec.Struct):
        return kind, [exact(getattr(value, name)) for name in value.__struct_fields__]
    if isinstance(value, pydantic.BaseModel):
        return kind, exact(dict(value)), exact(value.model_extra)
    return kind, value


# --- what comes back ----------------------------------------------------------------------------

texts = st.text(st.characters(codec="utf-8"))
zones = st.sampled_from(
    [None, UTC, BERLIN, zoneinfo.ZoneInfo("UTC"), zoneinfo.ZoneInfo("America/St_Johns")]
) | st.integers(-86_399, 86_399).map(lambda s: dt.timezone(dt.timedelta(seconds=s)))
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(1 << 200), 1 << 200),
    st.sampled_from([(1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, -(1 << 63), -(1 << 63) - 1]),
    st.floats(),
    st.sampled_from([-0.0, math.inf, -math.inf, math.nan, 5e-324]),
    texts,
    st.binary(),
    st.datetimes().flatmap(lambda at: zones.map(lambda zone: at.replace(tzinfo=zone, fold=0))),
    st.dates(),
    st.times().flatmap(lambda at: zones.map(lambda zone: at.replace(tzinfo=zone, fold=0))),
    st.timedeltas(),
    st.decimals(),
    st.uuids(),
    st.sampled_from([*Colour, *Level, Might.READ, Might.READ | Might.WRITE, Might(0)]),
)


def wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    points = st.builds(Point, inner, inner)
    return st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(texts, inner),
        points,
        st.builds(Derived, st.integers()),
        st.builds(
            Order, id=st.uuids(), lines=st.lists(points).map(tuple), colour=st.sampled_from(Colour)
        ),
        st.builds(Card, texts, st.none() | points),
        st.builds(
            lambda amount, tags: Payment(amount=amount, payeeName="p", tags=tags),
            st.decimals(allow_nan=False, allow_infinity=False),
            st.lists(inner),
        ),
        st.builds(
            lambda extra: Open(a=1, **{f"x{n}": v for n, v in enumerate(extra)}), st.lists(inner)
        ),
    )


values = st.recursive(leaves, wider, max_leaves=20)


@settings(max_examples=400, deadline=None)
@given(value=values)
def test_what_is_accepted_comes_back_as_nobody_can_tell_it_from_what_it_was(value):
    encoded = CODEC.encode(value)
    back = CODEC.decode(encoded)
    assert exact(back) == exact(value)
    assert CODEC.encode(back) == encoded


@settings(max_examples=200, deadline=None)
@given(value=values)
def test_people_can_be_shown_whatever_is_accepted(value):
    msgspec.json.encode(as_json(CODEC.encode(value)))


STRANGE_BUT_KEPT = {
    "NUL": "a\0b\0",
    "a NaN with a payload": struct.unpack(">d", bytes.fromhex("7ff8000000000123"))[0],
    "minus zero": -0.0,
    "minus zero, decimal": decimal.Decimal("-0E+3"),
    "a signalling NaN, decimal": decimal.Decimal("sNaN12"),
    "True is not 1": [True, 1, 1.0],
    "keys that look alike": {"a": 1, "a\0": 2, "A": 3, "": 4, "é": 5, "e\u0301": 6},
    "the order of keys": {"b": 1, "a": 2},
    "an empty tuple": ((), [], {}),
    "the most digits": int("9" * 4300),
    "the hour that is there twice": dt.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
    "the hour that is not there": dt.datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN),
    "an offset of seconds": dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(seconds=3661))),
    "the last instant": dt.datetime.max,  # noqa: DTZ901  it has no zone
    "the longest time": dt.timedelta.max,
    "a time in a zone": dt.time(12, 30, tzinfo=BERLIN),
    "a point that holds a NaN": Point([math.nan], math.nan),
    "a field that is no argument": Derived(4),
    "a model of one value": Numbers([1, 2]),
    "a struct that is renamed on other wires": Card("x", Point(1)),
    "a model made without validation": Payment.model_construct(amount=1, tags=(), card=None),
}


@pytest.mark.parametrize("value", STRANGE_BUT_KEPT.values(), ids=STRANGE_BUT_KEPT)
def test_strange_values_that_are_kept(value):
    assert exact(CODEC.decode(CODEC.encode(value))) == exact(value)


def test_what_was_valid_then_comes_back_though_it_would_not_be_valid_now():
    due = dt.datetime.now(UTC) + dt.timedelta(milliseconds=20)
    encoded = CODEC.encode(Future(due=due))
    deadline = time.monotonic() + 5
    while dt.datetime.now(UTC) <= due:
        assert time.monotonic() < deadline
    with pytest.raises(pydantic.ValidationError):
        Future(due=due)
    assert CODEC.decode(encoded).due == due


def test_a_zones_rules_that_changed_are_not_taken_for_the_old_ones():
    encoded = CODEC.encode(dt.datetime(2026, 7, 1, tzinfo=BERLIN))
    assert b"+02:00[Europe/Berlin]" in encoded
    with pytest.raises(NotRestorable, match="the rules of the zone have changed"):
        CODEC.decode(encoded.replace(b"+02:00", b"+03:00"))
    with pytest.raises(NotRestorable, match="Europe/Atlans"):
        CODEC.decode(encoded.replace(b"Europe/Berlin", b"Europe/Atlans"))


# --- what is refused ----------------------------------------------------------------------------


class Text(str):
    __slots__ = ()


class Pair(tuple):
    __slots__ = ()


class Money(decimal.Decimal):
    pass


Named = collections.namedtuple("Named", "a b")  # noqa: PYI024  one as people have them


class Shout(enum.StrEnum):
    YES = "yes"


@dataclasses.dataclass
class Unknown:
    a: int = 1


class Zone(dt.tzinfo):
    def utcoffset(self, at):
        raise RuntimeError("no")


def looped() -> list[Any]:
    inner: list[Any] = []
    inner += [[inner, inner], inner]
    return inner


REFUSED: dict[str, tuple[Any, str]] = {
    "half a surrogate pair": ("ab\ud800", "half a surrogate pair at character 2"),
    "half a pair as a key": ({"\ud800": 1}, "has a key with half a surrogate pair"),
    "a set": ({1, 2}, "builtins.set, .* store a sorted list"),
    "a frozen set": (frozenset(), "builtins.frozenset, .* store a sorted list"),
    "a whole number as a key": ({1: 2}, r"has the key 1: keys are strings; use str\(key\)"),
    "None as a key": ({None: 2}, "has the key None"),
    "bytes as a key": ({b"a": 2}, "has the key b'a'"),
    "a string of another class as a key": ({Text("a"): 2}, "has the key 'a'"),
    "a string of another class": (Text("a"), r"test_values.Text, .* store str\(...\) of it"),
    "a tuple of another class": (Pair((1,)), r"store tuple\(...\) of it"),
    "a named tuple": (Named(1, 2), r"test_values.Named, .* store tuple\(...\) of it"),
    "an ordered dict": (collections.OrderedDict(a=1), r"OrderedDict, .* store dict\(...\) of it"),
    "a default dict": (collections.defaultdict(list), r"store dict\(...\) of it"),
    "a counter": (collections.Counter("aa"), r"store dict\(...\) of it"),
    "a decimal of another class": (Money("1"), r"store Decimal\(...\) of it"),
    "bytes that change": (bytearray(b"a"), r"bytearray, .* store bytes\(...\) of it"),
    "a view of bytes": (memoryview(b"a"), r"memoryview, .* store bytes\(...\) of it"),
    "a complex number": (1j, "builtins.complex, which cannot be stored"),
    "a path": (pathlib.PurePosixPath("/"), "PurePosixPath, which cannot be stored"),
    "a function": (len, "builtins.builtin_function_or_method, which cannot be stored"),
    "a class": (int, "builtins.type, which cannot be stored"),
    "an exception": (ValueError("x"), "builtins.ValueError, which cannot be stored"),
    "UNSET": (msgspec.UNSET, "UnsetType, which cannot be stored"),
    "an unregistered dataclass": (Unknown(), r"not registered .*App\(..., types=\[Unknown\]\)"),
    "an unregistered enum": (Shout.YES, r"not registered .*App\(..., types=\[Shout\]\)"),
    "another time zone": (dt.datetime(2026, 1, 1, tzinfo=Zone()), "has the time zone .*zoneinfo"),
    "a time in another zone": (dt.time(1, tzinfo=Zone()), "has the time zone"),
    "a fold without a zone": (
        dt.datetime(2026, 1, 1, fold=1),  # noqa: DTZ001  that is the case
        "whose fold would be lost",
    ),
    "a fold that means nothing": (
        dt.datetime(2026, 1, 1, tzinfo=BERLIN, fold=1),
        "whose fold would be lost",
    ),
    "a time with a fold": (dt.time(1, fold=1), "whose fold would be lost"),
    "too many digits": (10**4300, "is a whole number of too many digits: store bytes"),
    "far too many digits": (1 << 10_000_000, "is a whole number of too many digits"),
    "itself": (looped(), "contains itself"),
}


@pytest.mark.parametrize(("value", "reason"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize(
    ("around", "where"),
    [
        (lambda value: value, "result"),
        (lambda value: {"ok": 1, "a b": [0, value]}, r"result\.a b\[1\]"),
        (lambda value: (Point(1, {"k": value}),), r"result\[0\]\.y\.k"),
        (lambda value: Card("n", Point(value)), r"result\.point\.x"),
        (lambda value: {"\n": value}, r"result\['\\n'\]"),
    ],
    ids=["alone", "in a dict", "in a dataclass", "in a struct", "under a strange key"],
)
def test_what_cannot_come_back_is_refused_with_the_name_of_its_field(value, reason, around, where):
    with pytest.raises(NotStorable) as caught:
        CODEC.encode(around(value), "result")
    line = str(caught.value)
    assert "\n" not in line
    line.encode()
    assert __import__("re").match(rf"{where}(\[\d\])* {reason}|{where}(\[\d\])* .*{reason}", line)


class Doubles(pydantic.BaseModel):
    a: int

    @pydantic.model_validator(mode="after")
    def _once_more(self) -> Doubles:
        self.__dict__["a"] *= 2
        return self


class Private(pydantic.BaseModel):
    a: int
    _secret: int = pydantic.PrivateAttr(default=0)


@dataclasses.dataclass
class Grows:
    a: int

    def __post_init__(self) -> None:
        self.a += 1


@dataclasses.dataclass
class Picky:
    a: Any

    def __post_init__(self) -> None:
        if self.a == "bad":
            raise ValueError("a is bad")


@dataclasses.dataclass
class NeedsMore:
    a: int
    more: dataclasses.InitVar[int]


@dataclasses.dataclass
class Floats:
    a: float

    def __post_init__(self) -> None:
        self.a = float(self.a)


def changed(value: Any, **fields: Any) -> Any:
    for name, inner in fields.items():
        value.__dict__[name] = inner
    return value


def without_field(value: Any, name: str) -> Any:
    delattr(value, name)
    return value


NOT_AGAIN: dict[str, tuple[Any, str]] = {
    "a dataclass that changes what it is given": (Grows(1), r"v\.a is 2 and would come back as 3"),
    "one that refuses it": (changed(Picky(1), a="bad"), "v is a .*Picky that cannot be made again"),
    "one that needs what it does not keep": (NeedsMore(1, 2), "NeedsMore that cannot be made"),
    "one with a field of another type": (
        changed(Floats(1), a=1),
        r"v\.a is 1 and would come back as 1\.0",
    ),
    "one whose other field does not follow": (
        changed(Derived(1), doubled=7),
        r"v\.doubled is 7 and would come back as 2",
    ),
    "one without one of its fields": (without_field(Grows(1), "a"), "with a field that is not set"),
    "a model with something private": (
        changed_private := Private(a=1),
        "would not come back equal: it holds more than its fields",
    ),
}
changed_private._secret = 5


@pytest.mark.parametrize(("value", "reason"), NOT_AGAIN.values(), ids=NOT_AGAIN)
def test_an_object_that_would_come_back_as_another_is_refused(value, reason):
    codec = Codec([Grows, Picky, NeedsMore, Floats, Derived, Private])
    with pytest.raises(NotStorable, match=reason):
        codec.encode(value, "v")


def test_a_model_is_made_again_without_its_validators():
    codec = Codec([Doubles])
    assert codec.decode(codec.encode(Doubles(a=2))).a == 4


# --- limits -------------------------------------------------------------------------------------

NESTS: dict[str, Callable[[Any], Any]] = {
    "lists": lambda inner: [inner],
    "tuples": lambda inner: (inner,),
    "dicts": lambda inner: {"a": inner},
    "dataclasses": Point,
    "all in turn": lambda inner: [{"a": (Point(inner),)}],
}


def nested(wrap: Callable[[Any], Any], times: int) -> Any:
    value: Any = 1
    for _ in range(times):
        value = wrap(value)
    return value


@pytest.mark.parametrize("wrap", list(NESTS.values())[:4], ids=list(NESTS)[:4])
def test_values_may_be_nested_so_deep_and_no_deeper(wrap):
    deepest = nested(wrap, DEPTH_MAX)
    encoded = CODEC.encode(deepest)
    assert CODEC.encode(CODEC.decode(encoded)) == encoded
    with pytest.raises(NotStorable, match=f"is nested more than {DEPTH_MAX} deep"):
        CODEC.encode(wrap(deepest))


@pytest.mark.parametrize("wrap", NESTS.values(), ids=NESTS)
def test_nesting_of_ten_thousand_is_one_line(wrap):
    with pytest.raises(NotStorable) as caught:
        CODEC.encode(nested(wrap, 10_000), "result")
    assert f"is nested more than {DEPTH_MAX} deep" in str(caught.value)
    assert len(str(caught.value)) < 1200


def test_lists_that_share_lists_are_counted_as_often_as_they_would_be_written():
    value: Any = "x" * 1000
    for _ in range(40):
        value = [value] * 8
    with pytest.raises(NotStorable, match=f"has more than {VALUE_MAX:,} parts"):
        CODEC.encode(value)


def test_one_value_has_so_many_bytes_and_no_more():
    fits = b"x" * (VALUE_MAX - 5)
    assert len(CODEC.encode(fits)) == VALUE_MAX
    assert CODEC.decode(CODEC.encode(fits)) == fits
    with pytest.raises(
        NotStorable, match=r"result has 16,777,217 bytes encoded, the most is 16,77"
    ):
        CODEC.encode(fits + b"x", "result")


# --- bytes that are no value, or no more ----------------------------------------------------------


def ext(code: int, inner: Any) -> bytes:
    return msgspec.msgpack.encode(msgspec.msgpack.Ext(code, msgspec.msgpack.encode(inner)))


BROKEN = {
    "nothing": b"",
    "half": CODEC.encode({"a": [1, 2]})[:-1],
    "two": b"\1\1",
    "no opcode": b"\xc1",
    "no text": b"\xa1\xff",
    "a list longer than there is": b"\xdd\xff\xff\xff\xff",
    "a map longer than there is": b"\xdf\xff\xff\xff\xff",
    "lists ten thousand deep": b"\x91" * 10_000 + b"\xc0",
    "maps ten thousand deep": b"\x81\xa0" * 10_000 + b"\xc0",
    "a list as a key": b"\x81\x81\x01\x02\x03",
    "an unknown extension": ext(10, 1),
    "an extension of nothing": msgspec.msgpack.encode(msgspec.msgpack.Ext(1, b"")),
    "a tuple of no list": ext(1, 5),
    "digits that are none": ext(2, "12x"),
    "more digits than can be read": ext(2, "9" * 4301),
    "an instant that is none": ext(3, "2026-13-01"),
    "an instant that is a number": ext(3, 5),
    "an instant with half a zone": ext(3, "2026-01-01T00:00:00+00:00[Nowhere"),
    "an instant with a zone that is a path": ext(3, "2026-01-01T00:00:00+00:00[../../etc/passwd]"),
    "a duration of words": ext(6, ["a"]),
    "a duration without end": ext(6, [10**12, 0, 0]),
    "a decimal that is none": ext(7, "1.x"),
    "a decimal of a list": ext(7, [1]),
    "a UUID that is none": ext(8, "x"),
    "a UUID that is a number": ext(8, 5),
    "an object of one part": ext(9, ["a"]),
    "an object that is a number": ext(9, 5),
    "an object whose name is a list": ext(9, [["a"], {}]),
    "an object without a map": ext(9, [f"{__name__}:Point", 5]),
    "an object of an unknown class": ext(9, ["nowhere:X", {}]),
    "an object with a strange field": ext(9, [f"{__name__}:Point", {"x": 1, "z": 2}]),
    "an object with a missing field": ext(9, [f"{__name__}:Point", {"y": 1}]),
    "a struct with a strange field": ext(9, [f"{__name__}:Card", {"holder_name": "a", "z": 1}]),
    "a model with a strange field": ext(9, [f"{__name__}:Payment", {"amount": 1, "z": 1}]),
    "a model with a missing field": ext(9, [f"{__name__}:Payment", {"tags": []}]),
    "an enum without that value": ext(9, [f"{__name__}:Colour", {"value": "green"}]),
    "an enum without a value": ext(9, [f"{__name__}:Colour", {}]),
    "an object that holds something else": ext(
        9, [f"{__name__}:Derived", {"base": 1, "doubled": 9}]
    ),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_bytes_that_are_no_value_are_not_restored(data):
    with pytest.raises(NotRestorable) as caught:
        CODEC.decode(data)
    assert "\n" not in str(caught.value)
    msgspec.json.encode(as_json(data))


def test_extensions_nested_without_end_are_not_restored():
    data = b"\xc0"
    for _ in range(10_000):
        data = msgspec.msgpack.encode(msgspec.msgpack.Ext(1, b"\x91" + data))
        if len(data) > 200_000:
            break
    with pytest.raises(NotRestorable):
        CODEC.decode(data)
    msgspec.json.encode(as_json(data))


@settings(max_examples=500, deadline=None)
@given(data=st.binary(max_size=60))
def test_random_bytes_are_a_value_or_are_not_restored(data):
    with contextlib.suppress(NotRestorable):
        CODEC.decode(data)
    msgspec.json.encode(as_json(data))


@settings(max_examples=300, deadline=None)
@given(value=values, data=st.data())
def test_a_value_with_one_byte_changed_is_a_value_or_is_not_restored(value, data):
    encoded = bytearray(CODEC.encode(value))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(NotRestorable):
        CODEC.decode(bytes(encoded))
    msgspec.json.encode(as_json(bytes(encoded)))


# --- classes ------------------------------------------------------------------------------------


def test_a_class_that_gained_a_field_reads_what_was_stored_before():
    @dataclasses.dataclass
    class Point:
        x: Any
        y: Any = 0
        z: Any = "new"

    Point.__qualname__ = "Point"
    back = Codec([Point]).decode(CODEC.encode({"x": [CODEC_POINT]}))
    assert back["x"][0] == Point(1, 2, "new")


CODEC_POINT = Point(1, 2)


def test_a_class_that_lost_a_field_does_not_read_what_was_stored_before():
    @dataclasses.dataclass
    class Point:
        x: Any

    Point.__qualname__ = "Point"
    with pytest.raises(NotRestorable, match="it had a field 'y', which the class has not"):
        Codec([Point]).decode(CODEC.encode(CODEC_POINT))


@dataclasses.dataclass
class ADict(dict):
    a: int = 1


@pytest.mark.parametrize(
    "kind",
    [int, dict, pathlib.Path, Named, ADict, "Point", Annotated[int, 1], list[int], ValueError],
)
def test_what_cannot_be_registered_is_refused_at_once(kind):
    with pytest.raises(
        NotStorable, match="is no dataclass, msgspec struct, pydantic model or enum"
    ):
        Codec([kind])


def test_two_classes_of_one_name_are_refused_and_one_twice_is_not():
    other = dataclasses.make_dataclass("Point", ["x"])
    other.__module__ = __name__
    with pytest.raises(NotStorable, match=f"there are two classes {__name__}:Point"):
        Codec([Point, other])
    Codec([Point, Point])


def test_another_class_of_a_registered_name_is_not_taken_for_it():
    other = dataclasses.make_dataclass("Point", ["x"])
    other.__module__ = __name__
    with pytest.raises(NotStorable, match="which is not registered"):
        CODEC.encode(other(1))


# --- JSON ---------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=20,
)


@given(value=json_values)
def test_a_json_document_is_the_value_that_it_says_and_is_shown_as_it_was(value):
    document = msgspec.json.encode(value)
    encoded = from_json(document)
    assert exact(CODEC.decode(encoded)) == exact(msgspec.json.decode(document))
    assert exact(as_json(encoded)) == exact(msgspec.json.decode(document))


def test_no_document_is_none():
    assert CODEC.decode(from_json(b"")) is None
    assert as_json(b"") is None


@pytest.mark.parametrize(
    "document",
    [
        b"NaN",
        b"[Infinity]",
        b"1e400",
        b'"\\ud800"',
        b'"\xff"',
        b"{",
        b"[1,]",
        b"1 2",
        b"'a'",
        b"[" * 10_000 + b"]" * 10_000,
        b'{"a":' * 10_000,
        b"9" * 4301,
    ],
    ids=lambda document: document[:10].decode("latin-1"),
)
def test_a_document_that_is_no_json_is_refused(document):
    with pytest.raises(NotStorable, match=r"input is no JSON: .+"):
        from_json(document, "input")


def test_a_document_that_is_too_deep_for_a_value_is_refused():
    from_json(b"[" * DEPTH_MAX + b"]" * DEPTH_MAX)
    with pytest.raises(NotStorable, match="is nested more than"):
        from_json(b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1))


SHOWN = [
    (b"\0\xff", {"base64": "AP8="}),
    ((1, (2,)), [1, [2]]),
    (1 << 70, 1 << 70),
    (dt.timedelta(minutes=1, milliseconds=500), 60.5),
    (dt.datetime(2026, 1, 2, tzinfo=BERLIN), "2026-01-02T00:00:00+01:00[Europe/Berlin]"),
    (decimal.Decimal("1.50"), "1.50"),
    (Point(1, Colour.BLUE), {"x": 1, "y": {"value": ["b", 2]}}),
    ([math.nan, -math.inf], ["nan", "-inf"]),
]


@pytest.mark.parametrize(("value", "shown"), SHOWN, ids=lambda value: type(value).__name__)
def test_what_json_has_not_is_shown_in_its_words(value, shown):
    assert as_json(CODEC.encode(value)) == shown
