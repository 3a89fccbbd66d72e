"""Events and sleeps: early, late, matching, in time or not, each once, and sent once for an id."""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest

from engine_link import CODEC, NIL, Bench, JumpClock, jumping, pack, unpack
from outlive.server.numbers import INSTANT_MAX
from outlive.wire import native_v1 as w


async def event(bench, name="e", event_id="1", data=None):
    return await bench.engine.send("a", name, event_id, CODEC.encode(data))


def met(entry):
    value = unpack(entry.value)
    return value["id"], value["data"]


# --- sleeps ---


@jumping
async def test_a_sleep_is_over_at_its_instant_and_not_before():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.lives()
        began = bench.clock.wall_ms()
        asked = await runner.asked(given, "n#0", "sleep", for_ms=5000)
        kind, _about, due_ms = unpack(asked.value)
        assert (kind, due_ms) == ("sleep", began + 5000)
        over = await runner.hear(w.Entry, kind="met")
        assert (over.call, over.ok, over.value) == ("n#0", True, NIL)
        assert due_ms <= over.at_ms <= due_ms + 10


@jumping
async def test_a_sleep_until_an_instant_that_is_past_is_over_at_once():
    async with Bench() as bench:
        runner, given = await bench.given()
        for n, until in enumerate((0, 1, bench.clock.wall_ms() - 1, -(1 << 62))):
            await runner.asked(given, f"n#{n}", "sleep", until_ms=until)
            assert (await runner.hear(w.Entry, kind="met", within_s=1)).call == f"n#{n}"


@pytest.mark.parametrize("about", [{"for_ms": (1 << 64) - 1}, {"until_ms": (1 << 64) - 1}])
@jumping
async def test_an_instant_beyond_all_is_the_last_there_is(about):
    async with Bench() as bench:
        runner, given = await bench.given()
        asked = await runner.asked(given, "n#0", "sleep", **about)
        assert unpack(asked.value)[2] == INSTANT_MAX
        runner.say(w.Tried("r1", given.epoch, "s#0", 1, NIL, (1 << 63) - 1))
        await runner.hear(w.Entry)
        runner.suspend(given, 2)
        await bench.state("waiting")


@jumping
async def test_sleepers_wake_in_the_order_of_their_instants_also_after_a_restart():
    async with Bench() as bench:
        runner = await bench.ready_runner()
        for n in range(5):
            await bench.start(f"r{n}")
            given = await runner.given(f"r{n}")
            await runner.asked(given, "n#0", "sleep", for_ms=20_000 - 3000 * n)
            runner.suspend(given, 1)
            await bench.state("waiting", f"r{n}")
        await bench.kill()
        runner = await bench.ready_runner()
        runner.lives()
        woken = [(await runner.hear(w.Dispatch)).run for _ in range(5)]
        assert woken == ["r4", "r3", "r2", "r1", "r0"]


@jumping
async def test_a_jump_of_the_wall_clock_ahead_is_noticed_within_seconds():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.lives()
        await runner.asked(given, "n#0", "sleep", for_ms=86_400_000)
        bench.clock.wall_back_ms = -86_400_000
        await runner.hear(w.Entry, kind="met", within_s=3)


@jumping
async def test_sleepers_cost_no_commits_while_nothing_is_due():
    async with Bench() as bench:
        runner, given = await bench.given()
        await runner.asked(given, "n#0", "sleep", for_ms=86_400_000)
        runner.suspend(given, 1)
        await bench.state("waiting")
        runner.say(w.Bye())
        await runner.gone()
        await bench.turn()
        before = len(bench.store.applied)
        await asyncio.sleep(600)
        assert len(bench.store.applied) == before


# --- events ---


@jumping
async def test_an_event_meets_a_wait_that_is_open():
    async with Bench() as bench:
        runner, given = await bench.given()
        asked = await runner.asked(given, "e#0", "event", name="e")
        assert (asked.kind, unpack(asked.value)[0]) == ("asked", "event")
        sent = await event(bench, data={"n": 1})
        assert (sent.new, sent.started) == (True, ())
        entry = await runner.hear(w.Entry)
        assert (entry.kind, entry.call, entry.ok) == ("met", "e#0", True)
        assert unpack(entry.value) == {"name": "e", "id": "1", "data": {"n": 1}}


@jumping
async def test_an_event_that_came_early_counts_if_it_came_after_the_runs_start():
    async with Bench() as bench:
        await event(bench, event_id="before")
        runner, given = await bench.given()
        await event(bench, event_id="after")
        await event(bench, event_id="later")
        await event(bench, name="other")
        assert met(await runner.asked(given, "e#0", "event", name="e"))[0] == "after"
        assert met(await runner.asked(given, "e#1", "event", name="e"))[0] == "later"
        assert (await runner.asked(given, "e#2", "event", name="e")).kind == "asked"


@jumping
async def test_an_early_event_still_counts_after_restarts_and_evictions():
    async with Bench() as bench:
        await event(bench, event_id="before")
        runner, given = await bench.given()
        await event(bench, event_id="after")
        await runner.asked(given, "n#0", "event", name="other")
        runner.suspend(given, 1)
        await bench.state("waiting")
        await bench.kill()
        runner = await bench.ready_runner()
        await event(bench, name="other")
        given = await runner.given()
        assert met(await runner.asked(given, "e#0", "event", name="e"))[0] == "after"


@jumping
async def test_a_wait_takes_the_first_that_matches_and_leaves_the_others_to_others():
    async with Bench() as bench:
        runner, given = await bench.given()
        for n, color in enumerate(["red", "blue", "red", "green"]):
            await event(bench, event_id=str(n), data={"color": {"name": color}})

        def wants(color):
            return {"color.name": pack(color)}

        blue = await runner.asked(given, "e#0", "event", name="e", match=wants("blue"))
        assert met(blue)[0] == "1"
        assert met(await runner.asked(given, "e#1", "event", name="e"))[0] == "0"
        red = await runner.asked(given, "e#2", "event", name="e", match=wants("red"))
        assert met(red)[0] == "2"
        none = await runner.asked(given, "e#3", "event", name="e", match=wants("red"))
        assert none.kind == "asked"
        await event(bench, event_id="4", data={"color": {"name": "blue"}})
        await event(bench, event_id="5", data={"color": "red"})
        await event(bench, event_id="6", data=["red"])
        await event(bench, event_id="7", data={"color": {"name": "red"}})
        assert met(await runner.hear(w.Entry))[0] == "7"
        rest = [met(await runner.asked(given, f"f#{n}", "event", name="e"))[0] for n in range(4)]
        assert rest == ["3", "4", "5", "6"]


class Model:
    """What each wait should take, found in lists that keep everything."""

    def __init__(self):
        self.sent = []
        self.waits = []
        self.taken = {}

    def send(self, event_id, kind):
        self.sent.append((event_id, kind))
        for call, want in self.waits:
            if call not in self.taken and want in (None, kind):
                self.taken[call] = event_id
                return

    def wait(self, call, want):
        self.waits.append((call, want))
        for event_id, kind in self.sent:
            if event_id not in self.taken.values() and want in (None, kind):
                self.taken[call] = event_id
                return


@pytest.mark.parametrize("seed", range(20))
@jumping
async def test_each_wait_takes_the_first_that_it_can_of_those_not_taken(seed):
    rng = random.Random(seed)
    model = Model()
    async with Bench() as bench:
        runner, given = await bench.given()
        for n in range(40):
            if rng.random() < 0.5:
                kind = rng.randrange(3)
                await event(bench, event_id=str(n), data={"k": kind})
                model.send(str(n), kind)
            else:
                want = rng.choice([None, 0, 1, 2])
                match = {} if want is None else {"k": pack(want)}
                runner.ask(given, f"e#{n}", "event", name="e", match=match)
                model.wait(f"e#{n}", want)
            await bench.turn(20)
            if rng.random() < 0.2:
                await runner.asked(given, f"w#{n}", "event", name=f"wake{n}")
                runner.suspend(given, bench.engine.book.live["r1"].seq)
                await bench.state("waiting")
                if rng.random() < 0.3:
                    await bench.kill()
                    runner = await bench.ready_runner()
                await event(bench, name=f"wake{n}")
                given = await runner.given()
        record = {}
        for body in (await bench.inner.entries((await bench.row()).no))[1:]:
            kind, call, _at, _ok, value, *_ = unpack(body)
            if kind == "met" and call.startswith("e"):
                record[call] = unpack(value)["id"]
        assert record == model.taken


@jumping
async def test_a_wait_for_an_event_ends_with_its_time_and_an_event_then_is_the_next_waits():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.lives()
        asked = await runner.asked(given, "e#0", "event", name="e", for_ms=3000)
        over = await runner.hear(w.Entry)
        assert (over.kind, over.ok, over.value) == ("met", False, NIL)
        assert over.at_ms - asked.at_ms in range(3000, 3010)
        await event(bench)
        await bench.turn()
        assert not [m for m in runner.after() if isinstance(m, w.Entry)]
        assert met(await runner.asked(given, "e#1", "event", name="e"))[0] == "1"


@jumping
async def test_an_event_that_came_in_time_is_not_timed_out_later():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.lives()
        await runner.asked(given, "e#0", "event", name="e", for_ms=3000)
        await event(bench)
        assert (await runner.hear(w.Entry)).ok
        await asyncio.sleep(10)
        assert not [m for m in runner.after() if isinstance(m, w.Entry)]
        assert not await bench.inner.due(1 << 60, 10)


@pytest.mark.parametrize("turns", range(12))
@jumping
async def test_an_event_and_the_end_of_its_time_at_once_meet_the_wait_once(turns):
    async with Bench() as bench:
        runner, given = await bench.given()
        await runner.asked(given, "e#0", "event", name="e", for_ms=3000)
        runner.suspend(given, 1)
        await bench.state("waiting")
        bench.clock.wall_back_ms = -3000
        bench.engine.look_at_clock()
        await bench.turn(turns)
        await event(bench)
        again = await runner.given()
        await bench.turn()
        assert [e.kind for e in again.entries] == ["asked", "met"]
        assert await bench.record() == ["asked e#0", "met e#0"]


@pytest.mark.parametrize(("first", "turns"), list(itertools.product(["event", "wait"], range(10))))
@jumping
async def test_event_and_wait_at_once_never_miss_each_other(first, turns):
    async with Bench() as bench:
        runner, given = await bench.given()
        if first == "wait":
            runner.ask(given, "e#0", "event", name="e")
            await bench.turn(turns)
            await event(bench)
        else:
            sending = asyncio.ensure_future(event(bench))
            await bench.turn(turns)
            runner.ask(given, "e#0", "event", name="e")
            await sending
        await runner.hear(w.Entry, kind="met", call="e#0")
        await bench.turn()
        assert (await bench.record()).count("met e#0") == 1


@jumping
async def test_many_events_and_waits_at_once_never_miss_each_other():
    async with Bench() as bench:
        runner = await bench.ready_runner(room=50)
        given = []
        for n in range(20):
            await bench.start(f"r{n}")
            given.append(await runner.given(f"r{n}"))
        sends = []
        for n in range(20):
            runner.ask(given[n], "e#0", "event", name="e")
            sends.append(asyncio.ensure_future(event(bench, event_id=str(n))))
            if n % 3 == 0:
                runner.ask(given[n], "e#1", "event", name="e")
        await asyncio.gather(*sends)
        await bench.turn(300)
        for n in range(20):
            record = await bench.record(f"r{n}")
            assert "met e#0" in record
            assert n % 3 or "met e#1" in record or n == 19


@jumping
async def test_an_event_is_sent_once_for_its_id():
    async with Bench() as bench:
        runner, given = await bench.given()
        assert (await event(bench, data=1)).new
        assert not (await event(bench, data=2)).new
        found = await asyncio.gather(*(event(bench, event_id="2") for _ in range(20)))
        assert [sent.new for sent in found].count(True) == 1
        assert (await event(bench, name="f")).new
        assert (await bench.engine.send("b", "e", "1", NIL)).new
        assert met(await runner.asked(given, "e#0", "event", name="e")) == ("1", 1)
        assert met(await runner.asked(given, "e#1", "event", name="e"))[0] == "2"
        assert (await runner.asked(given, "e#2", "event", name="e")).kind == "asked"


@jumping
async def test_an_event_starts_the_workflows_it_is_said_to_start_once():
    async with Bench() as bench:
        runner = await bench.ready_runner(workflows={"one": ["e", "f"], "two": ["e"], "three": []})
        sent = await event(bench, data={"n": 1})
        assert len(sent.started) == 2
        given = [await runner.hear(w.Dispatch) for _ in range(2)]
        assert {d.workflow for d in given} == {"one", "two"}
        assert {CODEC.decode(d.input)["n"] for d in given} == {1}
        again = await event(bench, data={"n": 1})
        assert (again.new, again.started) == (False, ())
        await bench.turn()
        assert not [m for m in runner.after() if isinstance(m, w.Dispatch)]
        # What an event starts does not take it as one that came after its start.
        assert (await runner.asked(given[0], "e#0", "event", name="e")).kind == "asked"


@jumping
async def test_what_starts_by_events_is_known_after_a_restart():
    async with Bench() as bench:
        await bench.ready_runner(workflows={"one": ["e"]})
        await bench.kill()
        sent = await event(bench)
        assert len(sent.started) == 1
        assert (await bench.row(sent.started[0])).state == "queued"


@jumping
async def test_a_run_sends_an_event_once():
    async with Bench() as bench:
        runner, given = await bench.given()
        await bench.start("r2")
        other = await runner.given("r2")
        await runner.asked(other, "e#0", "event", name="e")
        for _ in range(3):
            runner.ask(given, "m#0", "emit", name="e", id="x", data=CODEC.encode([1]))
        await bench.turn()
        assert await bench.record() == ["emitted m#0"]
        assert await bench.record("r2") == ["asked e#0", "met e#0"]
        emitted = await runner.asked(given, "m#1", "emit", name="e", id="x", data=NIL)
        assert emitted.kind == "emitted"  # it had been before
        assert not (await event(bench, event_id="x")).new


@jumping
async def test_a_run_may_wait_for_what_it_sends_itself():
    async with Bench() as bench:
        runner, given = await bench.given()
        await runner.asked(given, "e#0", "event", name="e")
        runner.ask(given, "m#0", "emit", name="e", id="x", data=NIL)
        kinds = [(await runner.hear(w.Entry)).kind for _ in range(2)]
        assert kinds == ["emitted", "met"]


@pytest.mark.parametrize(
    ("kind", "about"),
    [
        ("emit", {"name": "e", "id": "1", "data": b"\x01\x02"}),
        ("emit", {"name": "e", "id": "1", "data": b""}),
        ("emit", {"name": "e", "id": "1", "data": b"\x91" * 100_000}),
        ("emit", {"name": "", "id": "1", "data": NIL}),
        ("emit", {"name": "e", "id": "\0", "data": NIL}),
        ("event", {"name": "e\n"}),
        ("event", {"name": 7}),
        ("child", {"workflow": "", "input": NIL}),
        ("sleep", {"for_ms": "1h"}),
        ("sleep", {"for": 1}),
        ("nonsense", {}),
    ],
    ids=str,
)
@jumping
async def test_what_nobody_can_give_is_for_a_person(kind, about):
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.say(w.Ask("r1", given.epoch, "e#0", kind, pack(about)))
        await runner.hear(w.Evict)
        row = await bench.row()
        assert row.state == "needs_attention"
        assert row.cause.startswith("e#0 asks for what nobody can give: ")
        assert await bench.record() == []


@jumping
async def test_a_call_without_a_name_is_for_a_person():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.ask(given, "", "sleep", for_ms=1)
        await runner.hear(w.Evict)
        assert "a call without a name" in (await bench.row()).cause


@jumping
async def test_data_nested_too_deep_to_be_compared_matches_nothing():
    async with Bench() as bench:
        runner, given = await bench.given()
        await runner.asked(given, "e#0", "event", name="e", match={"a": pack(1)})
        deep = b"\x81\xa1a" * 5000 + NIL
        assert (await bench.engine.send("a", "e", "1", deep)).new
        assert (await event(bench, event_id="2", data={"a": 1})).new
        assert met(await runner.hear(w.Entry))[0] == "2"


# --- time ---


@jumping
async def test_the_engines_time_never_goes_back_not_even_after_a_restart():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.lives()
        runner.done(given, "s#0")
        first = await runner.hear(w.Entry)
        bench.clock.wall_back_ms = 3_600_000
        runner.done(given, "s#1")
        second = await runner.hear(w.Entry)
        assert second.at_ms >= first.at_ms
        await asyncio.sleep(5)
        await bench.kill()
        await runner.back(*runner.have.values())
        runner.done(given, "s#2")
        third = await runner.hear(w.Entry, call="s#2")
        assert third.at_ms >= second.at_ms
        welcome = [m for m in runner.heard if isinstance(m, w.Welcome)]
        assert welcome[-1].now_ms >= welcome[0].now_ms
        assert isinstance(bench.clock, JumpClock)
