"""Cancelling: committed once, never followed by a completion, and passed on to children."""

from __future__ import annotations

import asyncio

import pytest

from engine_link import CODEC, NIL, Bench, jumping
from outlive.core.keys import effect_key
from outlive.server.engine import Refusal
from outlive.wire import native_v1 as w


def child_of(run, call="c#0"):
    return effect_key(run, call)


@jumping
async def test_a_run_that_nobody_had_is_cancelled_at_once():
    async with Bench() as bench:
        await bench.start()
        assert (await bench.engine.cancel("r1")).state == "cancelled"
        runner = await bench.ready_runner()
        await bench.turn()
        assert not [m for m in runner.heard if isinstance(m, w.Dispatch)]
        with pytest.raises(Refusal, match="run r1 has ended already: cancelled"):
            await bench.engine.cancel("r1")
        with pytest.raises(Refusal, match="there is no run r9"):
            await bench.engine.cancel("r9")


@pytest.mark.parametrize("outcome", ["completed", "cancelled"])
@jumping
async def test_a_running_run_is_told_and_cannot_complete_any_more(outcome):
    async with Bench() as bench:
        runner, given = await bench.given()
        row = await bench.engine.cancel("r1")
        assert row.state == "cancelling"
        assert (await runner.hear(w.Entry)).kind == "cancelling"
        runner.done(given, "clean-up#0")
        await runner.hear(w.Entry, kind="done")
        runner.finish(given, 2, outcome, 7)
        await bench.state("cancelled")
        with pytest.raises(Refusal, match="has ended already: cancelled"):
            await bench.engine.cancel("r1")


@jumping
async def test_a_run_that_is_being_cancelled_may_fail():
    async with Bench() as bench:
        runner, given = await bench.given()
        await bench.engine.cancel("r1")
        runner.finish(given, 1, "failed", ["E", "no", None])
        await bench.state("failed")


@jumping
async def test_cancelling_twice_is_recorded_once():
    async with Bench() as bench:
        runner, _ = await bench.given()
        await asyncio.gather(*(bench.engine.cancel("r1") for _ in range(20)))
        await bench.turn()
        assert await bench.record() == ["cancelling"]
        assert len([m for m in runner.heard if isinstance(m, w.Entry)]) == 1


@jumping
async def test_a_waiting_run_is_woken_to_be_cancelled_and_may_wait_while_it_cleans_up():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.lives()
        await runner.asked(given, "e#0", "event", name="e", for_ms=60_000)
        runner.suspend(given, 1)
        await bench.state("waiting")
        await bench.engine.cancel("r1")
        again = await runner.given()
        assert [e.kind for e in again.entries] == ["asked", "cancelling"]
        await runner.asked(again, "n#0", "sleep", for_ms=5000)
        runner.suspend(again, 3)
        await runner.hear(w.Evict)
        row = await bench.row()
        assert (row.state, row.asleep) == ("cancelling", True)
        third = await runner.given()
        assert third.entries[-1].kind == "met"
        runner.finish(third, 4, "cancelled")
        await bench.state("cancelled")
        assert not await bench.inner.due(1 << 60, 10)


@jumping
async def test_a_queued_run_that_ran_before_is_given_out_to_clean_up():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.done(given, "s#0")
        await runner.hear(w.Entry)
        runner.say(w.Bye())
        await bench.state("queued")
        await bench.engine.cancel("r1")
        second = await bench.ready_runner()
        again = await second.given()
        assert [e.kind for e in again.entries] == ["done", "cancelling"]
        second.finish(again, 2, "cancelled")
        await bench.state("cancelled")


@jumping
async def test_a_run_being_cancelled_goes_on_with_that_on_another_runner_and_after_a_restart():
    async with Bench() as bench:
        runner, _ = await bench.given()
        await bench.engine.cancel("r1")
        await bench.engine.dead(runner.session, runner.token)
        second = await bench.ready_runner()
        given = await second.given()
        assert [e.kind for e in given.entries] == ["cancelling"]
        await bench.kill()
        await second.back(w.Have("r1", given.epoch, 1))
        second.finish(given, 1, value=7)
        await bench.state("cancelled")


@jumping
async def test_a_run_that_is_cancelled_while_its_engine_is_away_from_a_runner_is_still_queued():
    async with Bench() as bench:
        runner, _ = await bench.given()
        await bench.engine.cancel("r1")
        await bench.engine.dead(runner.session, runner.token)
        await bench.turn()
        await bench.kill()
        second = await bench.ready_runner()
        given = await second.given()
        second.finish(given, 1, "cancelled")
        await bench.state("cancelled")


@jumping
async def test_a_run_that_needs_a_person_is_cancelled_by_one():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.say(w.Park("r1", given.epoch, "why"))
        await bench.state("needs_attention")
        await bench.engine.cancel("r1")
        again = await runner.given()
        assert again.entries[-1].kind == "cancelling"
        runner.finish(again, 1, "cancelled")
        await bench.state("cancelled")


@pytest.mark.parametrize("how", ["resume", "cancel"])
@jumping
async def test_what_was_being_cancelled_still_is_after_it_needed_a_person(how):
    async with Bench() as bench:
        runner, given = await bench.given()
        await bench.engine.cancel("r1")
        runner.say(w.Park("r1", given.epoch, "why"))
        await bench.state("needs_attention")
        assert (await getattr(bench.engine, how)("r1")).state == "cancelling"
        again = await runner.given()
        assert [e.kind for e in again.entries] == ["cancelling"]
        runner.finish(again, 1, "completed")
        await bench.state("cancelled")


# --- races ---


@pytest.mark.parametrize("turns", range(10))
@pytest.mark.parametrize("first", ["cancel", "done", "finish"])
@jumping
async def test_cancel_and_the_last_step_and_the_end_in_every_order(first, turns):
    async with Bench() as bench:
        runner, given = await bench.given()

        def last():
            if first == "done":
                runner.done(given, "s#0")
            else:
                runner.finish(given, 0, value=7)

        if first != "cancel":
            last()
        cancelling = asyncio.ensure_future(bench.engine.cancel("r1"))
        await bench.turn(turns)
        if first == "cancel":
            last()
        try:
            row = await cancelling
        except Refusal:
            assert (await bench.row()).state == "completed"
            assert await bench.record() == []
            return
        assert row.state == "cancelling"
        await bench.turn()
        record = await bench.record()
        assert "cancelling" in record
        if first == "done":
            assert sorted(record) == ["cancelling", "done s#0"]  # what was in flight is recorded
        runner.finish(given, len(record), "completed", 7)
        await bench.state("cancelled")


@pytest.mark.parametrize("turns", range(10))
@pytest.mark.parametrize("what", ["suspend", "park", "bye", "dead"])
@jumping
async def test_cancel_and_the_run_leaving_its_runner_in_every_order(what, turns):
    for late in (False, True):
        async with Bench() as bench:
            runner, given = await bench.given()
            await runner.asked(given, "e#0", "event", name="e")

            def leave(bench=bench, runner=runner, given=given):
                if what == "suspend":
                    runner.suspend(given, 1)
                elif what == "park":
                    runner.say(w.Park("r1", given.epoch, "why"))
                elif what == "bye":
                    runner.say(w.Bye())
                else:
                    return asyncio.ensure_future(bench.engine.dead(runner.session, runner.token))
                return None

            pending = None if late else leave()
            cancelling = asyncio.ensure_future(bench.engine.cancel("r1"))
            await bench.turn(turns)
            pending = leave() if late else pending
            await cancelling
            if pending is not None:
                await pending
            await bench.turn(100)
            if what == "park" and late and (await bench.row()).state == "needs_attention":
                assert (await bench.engine.resume("r1")).state == "cancelling"
            other = await bench.ready_runner()
            await bench.turn(100)
            (owner,) = [one for one in (runner, other) if one.up and "r1" in one.have]
            had = owner.have["r1"]
            assert (await bench.record())[-1] == "cancelling"
            owner.say(w.Finish("r1", had.epoch, 2, "completed", NIL))
            await bench.state("cancelled")


@pytest.mark.parametrize("turns", range(10))
@jumping
async def test_cancel_and_a_claim_at_once(turns):
    async with Bench() as bench:
        runner = await bench.ready_runner()
        await bench.start()
        await bench.turn(turns)
        row = await bench.engine.cancel("r1")
        await bench.turn(100)
        if row.state == "cancelled":
            assert not [m for m in runner.heard if isinstance(m, w.Dispatch)]
        else:
            given = await runner.given()
            runner.finish(given, 1, "completed", 7)
        await bench.state("cancelled")


# --- children ---


@jumping
async def test_a_parents_children_are_cancelled_with_it_but_not_detached_ones():
    async with Bench() as bench:
        runner, given = await bench.given(room=20)
        await runner.asked(given, "c#0", "child", workflow="flow", input=NIL)
        await runner.asked(given, "c#1", "child", workflow="flow", input=NIL, detached=True)
        await runner.asked(given, "c#2", "child", workflow="nobody has it", input=NIL)
        await runner.asked(given, "c#3", "child", workflow="flow", input=NIL)
        done = await runner.given(child_of("r1", "c#3"))
        runner.finish(done, 0)
        await bench.state("completed", child_of("r1", "c#3"))
        grandchild = await runner.given(child_of("r1"))
        await runner.asked(grandchild, "c#0", "child", workflow="flow", input=NIL)
        await bench.turn()
        before = len(bench.store.applied)
        await bench.engine.cancel("r1")
        assert (await bench.row(child_of("r1"))).state == "cancelling"
        assert (await bench.row(child_of(child_of("r1")))).state == "cancelling"
        assert (await bench.row(child_of("r1", "c#1"))).state == "running"
        assert (await bench.row(child_of("r1", "c#2"))).state == "cancelled"
        # In one commit, so that no crash leaves half of it.
        commits = [c for c in bench.store.applied[before:] if any(p.kind == "run" for p in c.put)]
        assert len(commits) == 1
        entries = await bench.record()
        assert entries[-2:] == ["cancelling", "met c#2"]


@jumping
async def test_a_child_that_is_being_started_is_cancelled_with_its_parent():
    async with Bench() as bench:
        runner, given = await bench.given(room=20)
        bench.store.hold()
        runner.ask(given, "c#0", "child", workflow="flow", input=NIL)
        await bench.turn()
        cancelling = asyncio.ensure_future(bench.engine.cancel("r1"))
        await bench.turn()
        bench.store.let_go()
        await cancelling
        assert (await bench.row(child_of("r1"))).state in {"cancelled", "cancelling"}


@jumping
async def test_a_sleeping_tree_is_cancelled_at_once():
    async with Bench() as bench:
        runner, given = await bench.given(room=20)
        ids = ["r1"]
        for _ in range(3):
            await runner.asked(given, "c#0", "child", workflow="flow", input=NIL)
            runner.suspend(given, 1)
            await bench.state("waiting", ids[-1])
            ids.append(child_of(ids[-1]))
            given = await runner.given(ids[-1])
        await runner.asked(given, "e#0", "event", name="e")
        runner.suspend(given, 1)
        await bench.state("waiting", ids[-1])
        await bench.engine.cancel("r1")
        for run in reversed(ids):
            again = await runner.hear(w.Dispatch, run=run) if run == ids[-1] else None
            had = runner.have[run]
            seq = (await bench.record(run)).index("cancelling") + 1
            assert seq == 2
            last = len(await bench.record(run))
            runner.say(w.Finish(run, had.epoch, last, "cancelled", NIL))
            await bench.state("cancelled", run)
            assert again is None or again.entries[-1].kind == "cancelling"


@jumping
async def test_a_cancelled_childs_parent_is_told_what_it_was():
    async with Bench() as bench:
        runner, given = await bench.given(room=20)
        await runner.asked(given, "c#0", "child", workflow="nobody has it", input=NIL)
        await bench.engine.cancel(child_of("r1"))
        entry = await runner.hear(w.Entry)
        assert (entry.kind, entry.ok) == ("met", False)
        error = CODEC.decode_error(entry.value)
        assert "was cancelled" in str(error)


@jumping
async def test_a_thousand_generations_are_cancelled_with_the_first():
    async with Bench() as bench:
        runner = await bench.ready_runner(room=2000)
        await bench.start()
        run = "r1"
        for _ in range(1100):
            given = await runner.given(run)
            await runner.asked(given, "c#0", "child", workflow="flow", input=NIL)
            run = child_of(run)
        await runner.given(run)
        await bench.engine.cancel("r1")
        assert (await bench.row(run)).state == "cancelling"
