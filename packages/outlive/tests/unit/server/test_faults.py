"""Nothing is answered before it is durable, and a store that fails loses nothing that was."""

from __future__ import annotations

import asyncio

import pytest

from engine_link import CODEC, NIL, SAID, Bench, InlineThread, jumping
from outlive.core.keys import effect_key
from outlive.server.engine import Refusal
from outlive.store.api import Commit, Key, StoreFault
from outlive.store.sqlite import SqliteStore
from outlive.wire import native_v1 as w

FAULTS = ["before", "after"]
"""Whether the commit that fails is stored all the same; nobody can know."""


async def asked_once(bench):
    """A run that somebody else has, with a wait, and a run that a person decides about."""
    runner, given = await bench.given()
    await runner.asked(given, "w#0", "approve", title="t", details=NIL, digest="d")
    runner.after()
    return runner, w.Dispatch(**{**fields(given), "last_seq": 1})


def fields(message):
    return {name: getattr(message, name) for name in message.__struct_fields__}


async def back(bench, runner):
    """The runner comes back as soon as the engine answers."""
    await runner.gone()
    await bench.until(lambda: bench.engine.ready)
    answer = await runner.back(*runner.have.values())
    assert isinstance(answer, w.Welcome)
    return answer


def said_since(runner):
    return [m for m in runner.after() if not isinstance(m, w.Accepted)]


# --- what runners say ---


@pytest.mark.parametrize("kind", SAID)
@jumping
async def test_nothing_is_answered_before_it_is_durable(kind):
    async with Bench() as bench:
        runner, given = await asked_once(bench)
        bench.store.hold()
        runner.say(SAID[kind](given, given.epoch))
        await bench.turn(200)
        assert said_since(runner) == []
        bench.store.let_go()
        await bench.turn(200)
        if kind != "started":
            assert said_since(runner)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", SAID)
@jumping
async def test_a_fault_while_it_is_stored_answers_nothing_and_saying_it_again_settles_it(
    kind, fault
):
    async with Bench() as bench:
        runner, given = await asked_once(bench)
        bench.store.faults = [fault]
        runner.say(SAID[kind](given, given.epoch))
        await bench.turn(200)
        if kind == "started":
            assert runner.up
            return
        assert said_since(runner) == []
        session = runner.session
        assert (await back(bench, runner)).session == session
        for _ in range(2):
            runner.say(SAID[kind](given, given.epoch))
            runner.beat(*runner.have.values())
            await bench.turn(200)
        assert said_since(runner)
        record = await bench.record()
        assert record[0] == "asked w#0"
        assert len(record) <= (3 if kind == "sleep" else 2)
        row = await bench.row()
        assert row.epoch == 1 or kind == "sleep"
        want = {"suspend": "waiting", "finish": "completed", "park": "needs_attention"}
        want |= {"refused": "needs_attention", "nonsense": "needs_attention"}
        assert row.state == want.get(kind, "running")
        bench.defects.clear()


@pytest.mark.parametrize("fault", FAULTS)
@jumping
async def test_what_was_acknowledged_is_there_after_any_fault(fault):
    async with Bench() as bench:
        runner, given = await bench.given()
        acknowledged = []
        for n in range(30):
            if n % 3 == 2:
                bench.store.faults = [fault]
            runner.done(given, f"s#{n}", n)
            await bench.turn(100)
            if not runner.up:
                await back(bench, runner)
                runner.done(given, f"s#{n}", n)
                await bench.turn(100)
            acknowledged += [m.call for m in runner.after() if isinstance(m, w.Entry)]
            record = await bench.record()
            assert [f"done {call}" for call in dict.fromkeys(acknowledged)] == record
        assert len(record) == 30
        assert (await bench.row()).epoch == 1
        bench.defects.clear()


@jumping
async def test_one_fault_is_one_reading_however_much_was_on_its_way():
    async with Bench() as bench:
        runner, given = await bench.given(room=50)
        for n in range(20):
            await bench.start(f"x{n}")
        await bench.turn()
        bench.store.faults = ["after"]
        runner.done(given, "s#0")
        for n in range(20):
            runner.ask(given, f"e#{n}", "event", name=f"e{n}")
        sends = [asyncio.ensure_future(bench.engine.send("a", "e1", str(n), NIL)) for n in range(9)]
        waits = [asyncio.ensure_future(bench.engine.wait("r1", 60)) for _ in range(9)]
        starts = [asyncio.ensure_future(bench.start(f"y{n}")) for n in range(9)]
        found = await asyncio.gather(*sends, *waits, *starts, return_exceptions=True)
        assert {type(one) for one in found} <= {StoreFault, Refusal}
        await bench.until(lambda: bench.engine.ready)
        await asyncio.sleep(3)
        assert bench.store.opens == 2
        assert len(bench.defects) == 1
        bench.defects.clear()


@pytest.mark.parametrize("when", range(6))
@jumping
async def test_a_read_that_fails_is_a_fault_too(when):
    async with Bench() as bench:
        runner, given = await asked_once(bench)
        bench.store.faults = ["read"]
        if when == 0:
            runner.ask(given, "e#0", "event", name="e")
        elif when == 1:
            runner.ask(given, "c#0", "child", workflow="flow", input=NIL)
        elif when == 2:
            runner.cut()
            runner.dial()
            runner.say(w.Hello("a", {"flow": []}, "told", 9, runner.session, runner.token))
        elif when == 3:
            runner.finish(given, 1)
        elif when == 4:
            runner.cut()
            await bench.turn()
            await asyncio.sleep(7)
        else:
            bench.store.faults = []
            await bench.start("r2")
            bench.store.faults = ["read"]
            await bench.turn(300)
        await bench.turn(300)
        if when == 4:
            await bench.state("queued")
        else:
            await back(bench, runner)
        bench.defects.clear()


@jumping
async def test_a_store_that_stays_away_is_tried_again_and_meanwhile_nothing_is_answered():
    async with Bench() as bench:
        runner, given = await bench.given()
        whole = bench.inner.open
        tries = []

        async def away():
            tries.append(asyncio.get_running_loop().time())
            if len(tries) < 6:
                raise StoreFault("no such disk")
            await whole()

        bench.inner.open = away
        bench.store.faults = ["before"]
        runner.done(given, "s#0")
        await runner.gone()
        await bench.until(lambda: len(tries) == 3)
        for asks in (
            lambda: bench.engine.run("r1"),
            lambda: bench.start("r2"),
            lambda: bench.engine.cancel("r1"),
            lambda: bench.engine.wait("r1", 1),
            lambda: bench.engine.send("a", "e", "1", NIL),
        ):
            with pytest.raises(Refusal, match="the engine is not ready: no such disk") as refused:
                await asks()
            assert refused.value.code == 503
        stranger = bench.runner()
        stranger.dial()
        stranger.say(w.Hello("a", {"flow": []}, "told", 1))
        await stranger.gone()
        assert stranger.heard == []
        await back(bench, runner)
        assert tries[-1] - tries[0] < 3
        assert (await bench.row()).state == "running"
        bench.defects.clear()


@jumping
async def test_another_writer_is_noticed_and_its_state_is_taken():
    async with Bench() as bench:
        runner, given = await bench.given()
        (record,) = await bench.inner.load([Key("run", "r1")])
        await bench.inner.apply([Commit(put=(record._replace(version=record.version + 1),))])
        runner.done(given, "s#0")
        await back(bench, runner)
        assert await bench.record() == []
        runner.done(given, "s#0")
        await runner.hear(w.Entry)
        assert "holds another state" in bench.defects.pop()


@jumping
async def test_a_defect_ends_the_connection_that_met_it_and_loses_nothing(monkeypatch):
    async with Bench() as bench:
        runner, given = await bench.given()
        other = await bench.ready_runner()
        runner.done(given, "s#0")
        await runner.hear(w.Entry)

        def broken(*_args, **_more):
            raise ZeroDivisionError("a defect")

        monkeypatch.setattr(bench.engine.book, "need", broken, raising=False)
        monkeypatch.setattr(type(bench.engine.book), "expect", broken)
        runner.done(given, "t#0")
        assert "ZeroDivisionError" in (await runner.hear(w.Refused)).cause
        await runner.gone()
        await other.gone()
        monkeypatch.undo()
        await bench.until(lambda: bench.engine.ready)
        assert await bench.record() == ["done s#0"]
        await back_after_refusal(bench, runner, given)
        bench.defects.clear()


async def back_after_refusal(bench, runner, given):
    answer = await runner.back(w.Have("r1", given.epoch, 1))
    assert isinstance(answer, w.Welcome)
    runner.done(given, "t#0")
    await runner.hear(w.Entry, call="t#0")


@jumping
async def test_a_defect_behind_a_question_of_a_person_is_told_and_loses_nothing(monkeypatch):
    async with Bench() as bench:
        runner, _ = await bench.given()
        monkeypatch.setattr(
            type(bench.engine.book), "write", lambda *_: (_ for _ in ()).throw(KeyError("defect"))
        )
        with pytest.raises(KeyError):
            await bench.engine.cancel("r1")
        monkeypatch.undo()
        await back(bench, runner)
        assert (await bench.row()).state == "running"
        assert (await bench.engine.cancel("r1")).state == "cancelling"
        bench.defects.clear()


@jumping
async def test_a_runner_with_more_entries_than_are_stored_starts_that_run_anew():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.done(given, "s#0")
        await runner.hear(w.Entry)
        runner.beat(w.Have("r1", given.epoch, 9))
        await runner.hear(w.Evict)
        again = await runner.given()
        assert again.epoch > given.epoch
        runner.cut()
        await runner.back(w.Have("r1", again.epoch, 7))
        await runner.hear(w.Evict)
        assert (await runner.given()).epoch > again.epoch


# --- what people ask for ---


async def question(bench, runner, given):
    return effect_key("r1", "w#0")


async def refused_step(bench, runner, given):
    runner.say(w.Done("r1", given.epoch, "s#0", 1, False, NIL, True))
    await bench.state("needs_attention")


async def parked(bench, runner, given):
    runner.say(w.Park("r1", given.epoch, "why"))
    await bench.state("needs_attention")


async def nothing(bench, runner, given):
    pass


ASKED = {
    "start": (nothing, lambda e: e.start("a", "flow", "new", NIL), None),
    "send": (nothing, lambda e: e.send("a", "e", "1", NIL), None),
    "cancel": (nothing, lambda e: e.cancel("r1"), None),
    "resume": (parked, lambda e: e.resume("r1"), "needs no attention"),
    "supply": (refused_step, lambda e: e.supply("r1", "s#0", NIL), "no result that was refused"),
    "decide": (
        nothing,
        lambda e: e.decide(
            effect_key("r1", "w#0"), approved=True, by="ann", comment="", digest="d"
        ),
        "is approved already, by ann",
    ),
    "decide_early": (
        nothing,
        lambda e: e.decide_early("r1", "z#0", digest="d", approved=True, by="eve", comment=""),
        None,
    ),
    "dead": (nothing, lambda e: e.dead(*LATEST), "there is no session"),
}
LATEST: list[str] = []


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("what", ASKED)
@jumping
async def test_what_was_asked_for_is_not_answered_in_a_fault_and_can_be_asked_again(what, fault):
    before, ask, settled = ASKED[what]
    async with Bench() as bench:
        runner, given = await asked_once(bench)
        LATEST[:] = runner.session, runner.token
        await before(bench, runner, given)
        await bench.turn()
        bench.store.faults = [fault]
        if what == "dead":
            await ask(
                bench.engine
            )  # answered when decided: the lease of the dead is over either way
            await bench.turn()
        else:
            with pytest.raises(StoreFault):
                await ask(bench.engine)
        await bench.until(lambda: bench.engine.ready)
        if fault == "after" and settled is not None:
            with pytest.raises(Refusal, match=settled):
                await ask(bench.engine)
        else:
            await ask(bench.engine)
        bench.defects.clear()


@jumping
async def test_answers_wait_for_the_disk():
    async with Bench() as bench:
        await asked_once(bench)
        bench.store.hold()
        asking = [
            asyncio.ensure_future(ask)
            for ask in (
                bench.engine.start("a", "flow", "new", NIL),
                bench.engine.start_new("a", "flow", "newer", NIL),
                bench.engine.send("a", "e", "1", NIL),
                bench.engine.cancel("r1"),
            )
        ]
        await bench.turn(300)
        assert not any(one.done() for one in asking)
        bench.store.let_go()
        await asyncio.gather(*asking)


@jumping
async def test_a_refusal_waits_for_its_reason_to_be_durable():
    async with Bench() as bench:
        await asked_once(bench)
        bench.store.hold()
        approval = effect_key("r1", "w#0")
        first, second = (
            asyncio.ensure_future(
                bench.engine.decide(approval, approved=True, by="ann", comment="", digest=None)
            )
            for _ in range(2)
        )
        await bench.turn(300)
        assert not first.done()
        assert not second.done()
        bench.store.let_go()
        await first
        with pytest.raises(Refusal, match="approved already"):
            await second


@jumping
async def test_reads_show_what_is_durable():
    async with Bench() as bench:
        runner, given = await bench.given()
        bench.store.hold()
        runner.finish(given, 0)
        cancelling = asyncio.ensure_future(bench.start("r2"))
        await bench.turn()
        assert (await bench.row()).state == "running"
        with pytest.raises(Refusal, match="there is no run r2"):
            await bench.row("r2")
        bench.store.let_go()
        await cancelling
        assert (await bench.row()).state == "completed"


@jumping
async def test_who_waits_for_an_end_is_told_once_it_is_durable():
    async with Bench() as bench:
        runner, given = await bench.given()
        waiting = asyncio.ensure_future(bench.engine.wait("r1", 30))
        bench.store.hold()
        await bench.turn()
        runner.finish(given, 0, value=7)
        await bench.turn()
        assert not waiting.done()
        bench.store.let_go()
        row = await waiting
        assert (row.state, CODEC.decode(row.value)) == ("completed", 7)
        assert (await bench.engine.wait("r1", 30)).state == "completed"


@jumping
async def test_who_waits_is_shown_the_run_as_it_is_when_the_time_is_over():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.lives()
        assert (await bench.engine.wait("r1", 5)).state == "running"
        runner.say(w.Park("r1", given.epoch, "why"))
        assert (await bench.engine.wait("r1", 5)).state == "needs_attention"
        with pytest.raises(Refusal, match="there is no run r9"):
            await bench.engine.wait("r9", 5)
        assert not bench.engine._watching


# --- on a file ---


@jumping
async def test_the_same_on_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("outlive.store.sqlite.DiskThread", InlineThread)
    async with Bench(SqliteStore(tmp_path / "outlive.db")) as bench:
        runner, given = await bench.given()
        for n, fault in enumerate(("", "before", "", "after", "")):
            bench.store.faults = [fault]
            runner.done(given, f"s#{n}", n)
            await bench.turn(100)
            if fault:
                await back(bench, runner)
                runner.done(given, f"s#{n}", n)
                await bench.turn(100)
        await bench.kill()
        await runner.back(*runner.have.values())
        runner.finish(given, 5, value="end")
        row = await bench.state("completed")
        assert CODEC.decode(row.value) == "end"
        assert await bench.record() == [f"done s#{n}" for n in range(5)]
        bench.defects.clear()
