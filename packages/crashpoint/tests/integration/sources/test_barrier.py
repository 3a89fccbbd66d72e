"""The points socket: announcements as subjects make them, and whatever else can arrive there."""

import asyncio
import gc
import json
import os
import warnings
from contextlib import asynccontextmanager, suppress

import pytest

from crashpoint.pipeline.contract import Launch
from crashpoint.pipeline.points import Point
from crashpoint.sources.barrier import CONNECTIONS_MAX, LINE_MAX, PointSocket

BARRIERS = ("b0", "b1", "b2")
NOT_ONE = {"error": 'an announcement is one line {"trial": TOKEN, "point": NAME}'}
NO_TRIAL = {"error": "no open trial for this token"}


class Client:
    """A peer that says what it likes."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    def say(self, data):
        self.writer.write(data)

    def announce(self, point, token="t"):
        self.say(json.dumps({"trial": token, "point": point}).encode() + b"\n")

    async def answer(self):
        line = await asyncio.wait_for(self.reader.readline(), 10)
        return json.loads(line) if line else None

    def hang_up(self):
        self.writer.close()


class Listener:
    """A points socket with one open trial, `t`."""

    def __init__(self, points):
        self.points = points
        self.source = points.source("t", BARRIERS)
        self._arrivals = self.source.reached()

    async def client(self):
        return Client(*await asyncio.open_unix_connection(str(self.points.path)))

    async def next(self):
        return await asyncio.wait_for(anext(self._arrivals), 10)


@asynccontextmanager
async def listening(folder):
    async with PointSocket(folder / "p") as points:
        yield Listener(points)


def scenario(function):
    """Run it in a loop of its own, with nothing left for the loop to complain about."""

    def test(tmp_path):
        complaints = []

        async def run():
            asyncio.get_running_loop().set_exception_handler(lambda _, c: complaints.append(c))
            async with listening(tmp_path) as listener:
                await function(listener)

        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", ResourceWarning
            )  # clients that hang up by being dropped
            asyncio.run(run())
            gc.collect()
        assert complaints == []

    test.__name__ = function.__name__
    return test


@scenario
async def test_an_announcement_waits_for_its_answer(listener):
    client = await listener.client()
    client.announce("b1")
    reached = await listener.next()
    assert reached.point == Point("barrier", "b1", 1)
    assert reached.pid == os.getpid()
    reached.release()
    assert await client.answer() == {"go": True}
    reached.release({"error": "too late"})
    client.announce("b2")
    (await listener.next()).release({"error": "disk full"})
    assert await client.answer() == {"error": "disk full"}


@scenario
async def test_the_same_point_again_has_another_ordinal(listener):
    client, other = await listener.client(), await listener.client()
    found = []
    for who, name in ((client, "b0"), (client, "b0"), (client, "b1"), (other, "b0")):
        who.announce(name)
        reached = await listener.next()
        found.append((reached.point.name, reached.point.ordinal))
        reached.release()
        await who.answer()
    assert found == [("b0", 1), ("b0", 2), ("b1", 1), ("b0", 1)]


@scenario
async def test_two_at_once_are_answered_one_by_one(listener):
    first, second = await listener.client(), await listener.client()
    first.announce("b0")
    one = await listener.next()
    second.announce("b1")
    two = await listener.next()
    two.release()
    assert await second.answer() == {"go": True}
    assert not one.answer.done()
    one.release()
    assert await first.answer() == {"go": True}


@scenario
async def test_what_is_no_announcement_is_answered_and_forgotten(listener):
    client = await listener.client()
    for said in (
        b"\n",
        b"b1\n",
        b"\x00\xff\xfe\n",
        b"null\n",
        b"[]\n",
        b'"b1"\n',
        b"{}\n",
        b'{"trial":"t"}\n',
        b'{"point":"b1"}\n',
        b'{"trial":"t","point":1}\n',
        b'{"trial":["t"],"point":"b1"}\n',
        b'{"trial":{},"point":"b1"}\n',
        b'{"trial":"t","point":"b1","point":"b2"}\n',
        b'{"trial":"t","point":NaN}\n',
        b"[" * 10_000 + b"\n",
    ):
        client.say(said)
        assert await client.answer() == NOT_ONE
    client.announce("b1", token="u")
    assert await client.answer() == NO_TRIAL
    client.announce("b3")
    assert await client.answer() == {"error": "no point 'b3'; there are b0, b1, b2"}
    client.announce("b" * 5000)
    assert await client.answer() == {"error": f"no point {'b' * 80!r}; there are b0, b1, b2"}
    client.announce("b1")
    (await listener.next()).release()
    assert await client.answer() == {"go": True}


@scenario
async def test_a_line_without_end_ends_the_conversation(listener):
    client = await listener.client()
    client.say(b"x" * (LINE_MAX + 1))
    assert await client.answer() is None
    cut = await listener.client()
    cut.say(b'{"trial":"t","point":"b1"}')
    cut.writer.write_eof()
    assert await cut.answer() is None
    sound = await listener.client()
    sound.announce("b1")
    (await listener.next()).release()
    assert await sound.answer() == {"go": True}


@scenario
async def test_one_who_hangs_up_while_waiting_is_seen_to_have_been_there(listener):
    client = await listener.client()
    client.announce("b1")
    client.hang_up()
    reached = await listener.next()
    assert reached.point.name == "b1"
    reached.release()
    other = await listener.client()
    other.announce("b2")
    (await listener.next()).release()
    assert await other.answer() == {"go": True}


@scenario
async def test_one_who_never_reads_is_not_answered_for_ever(listener):
    client = await listener.client()
    sent, deadline = 0, asyncio.get_running_loop().time() + 10
    client.writer.transport.set_write_buffer_limits(high=0)
    client.reader._transport.pause_reading()
    with suppress(TimeoutError):
        while sent < 1 << 26:
            client.say(b"what?\n" * 10_000)
            sent += 60_000
            async with asyncio.timeout(0.5):
                await client.writer.drain()
            assert asyncio.get_running_loop().time() < deadline
    assert sent < 1 << 25
    client.writer.transport.abort()


@scenario
async def test_more_than_the_most_are_hung_up_on(listener):
    clients = [await listener.client() for _ in range(CONNECTIONS_MAX)]
    clients[-1].announce("b0", token="u")
    assert await clients[-1].answer() == NO_TRIAL
    one_more = await listener.client()
    assert await one_more.answer() is None
    clients[0].hang_up()
    clients[1].announce("b0")
    (await listener.next()).release()
    for client in clients[1:]:
        client.hang_up()


@scenario
async def test_a_forgotten_trial_lets_go_and_is_refused(listener):
    waiting, later = await listener.client(), await listener.client()
    waiting.announce("b0")
    waiting.say(b"")
    later.announce("b9")
    await later.answer()
    listener.points.forget("t")
    assert await waiting.answer() == {"go": True}
    later.announce("b1")
    assert await later.answer() == NO_TRIAL
    listener.points.forget("t")


@scenario
async def test_the_end_hangs_up_on_who_waits(listener):
    client = await listener.client()
    client.announce("b0")
    await listener.next()


def test_what_a_launch_is_told(tmp_path):
    source = PointSocket(tmp_path / "p").source("t", BARRIERS)
    launch = source.attach(Launch("a:b", {"x": 1}, {"KEPT": "yes", "CRASHPOINT_TRIAL": "no"}))
    assert launch == Launch(
        "a:b",
        {"x": 1},
        {"KEPT": "yes", "CRASHPOINT_TRIAL": "t", "CRASHPOINT_POINTS": str(tmp_path / "p")},
    )
    assert source.known() == [Point("barrier", name) for name in BARRIERS]


@pytest.mark.parametrize("names", [(), ("b0",), BARRIERS])
def test_known_points_keep_their_order(tmp_path, names):
    known = PointSocket(tmp_path / "p").source("t", names).known()
    assert tuple(point.name for point in known) == names
