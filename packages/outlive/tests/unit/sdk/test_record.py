"""A run and its record: replays, what is drift, cancels, failures and ends."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
from pathlib import Path

import pytest

from fake_engine import CODEC, Fake, Run, jumping, told
from outlive import App, Retry, StepFailed
from outlive.sdk.program import CLEAN_UP_MAX
from outlive.wire import native_v1 as w

NO = Retry(attempts=1)


async def add(one, two=0):
    return one + two


async def fail(error):
    raise error


def flow_of(code, failure=None, **options):
    app = App("a", **options)
    flow = app.workflow(name="flow")(code)
    if failure is not None:
        flow.on_failure(failure)
    return app


async def ended(code, failure=None, **options):
    fake = Fake(flow_of(code, failure), **options)
    run = await fake.play("flow")
    run.fake = fake
    return run


async def resumed(code, record, *, failure=None, **options):
    """A run with a record, given to code."""
    fake = Fake(flow_of(code, failure), **options)
    fake.connect()
    await fake.turn()
    run = fake.restore("run-1", "flow", record)
    fake.dispatch(run)
    await run.done.wait()
    await fake.turn()
    run.fake = fake
    return run


# --- replay ---


async def rich(ctx):
    """Code with some of everything, whose choices depend on what it was given."""
    found = [await ctx.step.run("a", add, n) for n in range(3)]
    found += await asyncio.gather(*(ctx.step.run("p", add, n, 10) for n in range(4)))
    await ctx.step.sleep("nap", "90s")
    try:
        await ctx.step.run("bad", fail, OSError("no"), retry=Retry(attempts=3, first="1s"))
    except OSError:
        found.append(str(ctx.uuid4()))
    await ctx.step.emit("tell", "made", found)
    async with asyncio.TaskGroup() as group:
        group.create_task(ctx.step.sleep("one", "2h"))
        group.create_task(ctx.step.sleep("two", "1h"))
        last = group.create_task(ctx.step.run("last", add, ctx.random.randrange(10)))
    return [found, last.result(), str(ctx.now)]


@jumping
async def test_the_record_of_a_live_run_replays_to_the_same_end_and_starts_nothing():
    live = await ended(rich)
    assert live.outcome[0] == "completed"
    again = await resumed(rich, live.record)
    assert again.outcome == live.outcome
    assert again.record == live.record
    assert told(again.fake, w.Started) == told(again.fake, w.Done) == told(again.fake, w.Ask) == []
    (finish,) = told(again.fake, w.Finish)
    assert finish.seq == len(live.record)


@jumping
async def test_a_run_may_be_resumed_after_any_entry():
    live = await ended(rich)
    for cut in range(len(live.record)):
        again = await resumed(rich, live.record[:cut])
        assert again.outcome[0] == "completed", (cut, again.cause)
        assert again.result[0] == live.result[0]
        done = [e.call for e in again.record if e.kind in ("done", "met", "emitted")]
        assert sorted(done) == sorted(set(done))


@jumping
async def test_a_body_that_was_recorded_is_not_run_again():
    ran = []

    async def body(n):
        ran.append(n)
        return n

    async def code(ctx):
        return [await ctx.step.run("x", body, n) for n in range(4)]

    live = await ended(code)
    ran.clear()
    await resumed(code, live.record[:2])
    assert ran == [2, 3]


# --- drift ---


def entry(seq, kind, call, *, ok=True, value=b"\x01"):
    return w.Entry("run-1", 0, seq, kind, call, 1_800_000_000_000 + seq, ok, value, 1)


async def one_step(ctx):
    await ctx.step.run("a", add, 1)
    await ctx.step.run("b", add, 1)


async def one_sleep(ctx):
    await ctx.step.sleep("a", 1)


async def one_emit(ctx):
    await ctx.step.emit("a", "made")


async def nothing(ctx):
    return None


ASKED_SLEEP = b"\x93\xa5sleep\xc4\x01\x80\xc0"


@pytest.mark.parametrize(
    ("code", "record", "says"),
    [
        (one_step, [entry(1, "done", "z#0")], ["entry 1, z#0 done", "waits for a#0"]),
        (one_step, [entry(1, "done", "b#0")], ["entry 1, b#0 done", "waits for a#0"]),
        (one_step, [entry(1, "done", "a#1")], ["a#1 done", "waits for a#0"]),
        (
            one_step,
            [entry(1, "done", "a#0"), entry(2, "done", "c#0")],
            ["entry 2, c#0 done", "waits for b#0"],
        ),
        (one_step, [entry(1, "asked", "a#0", value=ASKED_SLEEP)], ["a#0 asked", "a step"]),
        (one_step, [entry(1, "met", "a#0")], ["a#0 met", "a step"]),
        (one_sleep, [entry(1, "done", "a#0")], ["a#0 done", "a sleep"]),
        (one_sleep, [entry(1, "tried", "a#0")], ["a#0 tried", "a sleep"]),
        (one_sleep, [entry(1, "emitted", "a#0")], ["a#0 emitted", "a sleep"]),
        (one_emit, [entry(1, "asked", "a#0", value=ASKED_SLEEP)], ["a#0 asked", "emit"]),
        (nothing, [entry(1, "done", "a#0")], ["entry 1, a#0 done", "has ended as completed"]),
        (nothing, [entry(1, "marked", "a#0!1")], ["a#0!1 marked", "ended"]),
    ],
)
def test_code_that_the_record_cannot_bear_is_parked_at_the_first_difference(code, record, says):
    @jumping
    async def test():
        run = await resumed(code, record)
        assert run.state == "parked"
        assert run.record == record, "nothing was started"
        for words in says:
            assert words in run.cause
        assert "recorded: " in run.cause
        assert "code: " in run.cause
        if "waits" in run.cause:
            assert "test_record.py:" in run.cause
        assert "\n" not in run.cause
        assert told(run.fake, w.Started) == told(run.fake, w.Done) == []

    test()


@jumping
async def test_an_approval_of_something_else_is_drift():
    async def code(ctx):
        await ctx.step.approval("ok", "Pay?", {"amount": amount})

    amount = 1
    fake = Fake(flow_of(code))
    fake.connect()
    await fake.turn()
    run = fake.start("flow")
    await fake.turn()
    amount = 2
    again = await resumed(code, run.record)
    assert again.state == "parked"
    assert "ok#0" in again.cause
    assert "digest" in again.cause


@jumping
async def test_what_may_change_goes_on():
    async def before(ctx):
        await ctx.step.run("a", add, 1)
        await ctx.step.sleep("nap", "1h")

    async def after(ctx):
        await ctx.step.run("a", fail, OSError("another body"))
        await ctx.step.sleep("nap", "2h")
        return await ctx.step.run("new", add, 5)

    live = await ended(before)
    again = await resumed(after, live.record)
    assert again.result == 5


@jumping
async def test_marks_of_an_effect_in_the_record_are_no_drift():
    record = [entry(1, "marked", "a#0!1"), entry(2, "done", "a#0")]
    run = await resumed(one_step, record)
    assert run.outcome[0] == "completed"


@jumping
async def test_entries_of_calls_that_code_gave_up_are_no_drift():
    async def slow():
        await asyncio.sleep(30)
        return "late"

    async def code(ctx):
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(ctx.step.run("slow", slow))
                group.create_task(ctx.step.run("bad", fail, ValueError(), retry=NO))
        except* ValueError:
            pass
        return "gave up"

    live = await ended(code)
    assert live.result == "gave up"
    assert live.kinds() == ["done bad#0", "done slow#0"], "a body that runs is waited for"
    assert (await resumed(code, live.record)).outcome == live.outcome
    assert (await resumed(code, live.record[:1])).outcome == live.outcome


@jumping
async def test_a_value_that_cannot_be_restored_parks_the_run():
    run = await resumed(one_step, [entry(1, "done", "a#0", value=b"\xc1")])
    assert run.state == "parked"
    assert "a#0, entry 1" in run.cause


@jumping
async def test_an_input_that_cannot_be_restored_parks_the_run():
    fake = Fake(flow_of(nothing))
    fake.connect()
    await fake.turn()
    run = fake.runs["run-1"] = Run("run-1", "flow", None)
    run.input = b"\xc1"
    fake.dispatch(run)
    await run.done.wait()
    assert "input" in run.cause


@jumping
async def test_code_that_never_waits_parks_its_run_and_no_other():
    async def code(ctx):
        while True:
            await asyncio.sleep(0)

    run = await ended(code)
    assert run.state == "parked"
    assert "without waiting for a step" in run.cause


@jumping
async def test_code_that_waits_for_what_never_comes_is_parked():
    async def code(ctx):
        await ctx.step.run("a", add, 1)
        await asyncio.Event().wait()

    run = await ended(code)
    assert run.state == "parked"
    assert "nothing will ever move it" in run.cause
    assert "test_record.py:" in run.cause


# --- replay_always ---


def drifting(name):
    """Code that does otherwise each time, and the marked line where it shows."""
    count = itertools.count()

    async def other_id(ctx):
        await ctx.step.run("same", add, 1)
        await ctx.step.run(f"x{next(count)}", add, 1)  # drifts: other_id

    async def other_argument(ctx):
        await ctx.step.run("same", add, 1)
        await ctx.step.run("x", add, random.random())  # drifts: other_argument

    async def other_kind(ctx):
        await ctx.step.run("same", add, 1)
        if next(count) % 2:
            await ctx.step.run("x", add, 1)
        else:
            await ctx.step.sleep("x", 1)  # drifts: other_kind

    async def gathered(ctx):
        await asyncio.gather(
            ctx.step.run("same", add, 1),
            ctx.step.run("x", add, next(count)),  # drifts: gathered
        )

    async def only_once(ctx):
        await ctx.step.run("same", add, 1)
        if next(count) == 0:
            await ctx.step.run("x", add, 1)  # drifts: only_once

    return {f.__name__: f for f in (other_id, other_argument, other_kind, gathered, only_once)}[
        name
    ]


@pytest.mark.parametrize(
    "name", ["other_id", "other_argument", "other_kind", "gathered", "only_once"]
)
def test_replaying_always_names_the_first_line_that_drifts(name):
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    wanted = next(n for n, line in enumerate(lines, 1) if line.endswith(f"# drifts: {name}"))

    @jumping
    async def test():
        run = await ended(drifting(name), replay_always=True)
        assert run.state == "parked", run.kinds()
        assert f"test_record.py:{wanted}: the code drifts" in run.cause

    test()


@jumping
async def test_replaying_always_leaves_right_code_alone():
    run = await ended(rich, replay_always=True)
    plain = await ended(rich)
    assert run.outcome[0] == plain.outcome[0] == "completed"
    assert run.kinds() == plain.kinds()


@jumping
async def test_replaying_always_sees_another_end():
    count = itertools.count()

    async def code(ctx):
        await ctx.step.run("a", add, 1)
        return next(count)

    run = await ended(code, replay_always=True)
    assert run.state == "parked"
    assert "another value" in run.cause


# --- failure ---


@jumping
async def test_an_exception_fails_the_run_after_its_handler():
    seen = []

    async def code(ctx):
        await ctx.step.run("tell", add, 1)
        raise LookupError("gone")

    async def failure(ctx, error):
        seen.append(repr(error))
        seen.append(await ctx.step.run("tell", add, 2))

    live = await ended(code, failure)
    assert live.outcome[0] == "failed"
    assert repr(live.result) == "LookupError('gone')"
    assert live.kinds() == ["done tell#0", "done on_failure:tell#0"]
    assert seen == ["LookupError('gone')", 2]
    again = await resumed(code, live.record, failure=failure)
    assert again.outcome == live.outcome


@jumping
async def test_a_handler_that_fails_changes_nothing():
    async def code(ctx):
        raise LookupError("gone")

    async def failure(ctx, error):
        raise RuntimeError("handler")

    assert repr((await ended(code, failure)).result) == "LookupError('gone')"


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError()])
def test_a_base_exception_of_code_fails_the_run(error):
    @jumping
    async def test():
        async def code(ctx):
            raise error

        run = await ended(code)
        assert run.outcome[0] == "failed"
        assert isinstance(run.result, StepFailed)

    test()


@jumping
async def test_a_result_that_cannot_be_stored_fails_the_run():
    async def code(ctx):
        return object()

    run = await ended(code)
    assert run.outcome[0] == "failed"
    assert "cannot be stored" in str(run.result)


@jumping
async def test_what_code_leaves_behind_ends_with_it():
    started = []

    async def body():
        started.append(1)

    async def code(ctx):
        tasks = [asyncio.create_task(ctx.step.run("left", body))]
        await ctx.step.run("a", add, 1)
        tasks.append(asyncio.create_task(ctx.step.run("later", body)))
        await asyncio.sleep(0)
        return "over"

    run = await ended(code)
    assert run.result == "over"
    assert started == [1], "what had begun was recorded, what had not was not begun"
    assert sorted(run.kinds()) == ["done a#0", "done left#0"]
    gc.collect()


# --- cancel ---


async def cancelled(code, failure=None):
    """A run that is cancelled once it waits."""
    fake = Fake(flow_of(code, failure))
    fake.connect()
    await fake.turn()
    run = fake.start("flow")
    await fake.turn()
    fake.cancel(run)
    await run.done.wait()
    await fake.turn()
    run.fake = fake
    return run


@jumping
async def test_a_cancel_is_heard_and_ends_the_run_without_on_failure():
    seen = []

    async def code(ctx):
        try:
            await ctx.step.sleep("nap", "1h")
        finally:
            seen.append(await ctx.step.run("clean", add, 1))

    async def failure(ctx, error):
        seen.append("never")

    run = await cancelled(code, failure)
    assert run.outcome[0] == "cancelled"
    assert seen[-1] == 1
    assert "never" not in seen
    assert run.kinds() == ["asked nap#0", "cancelling", "done clean#0"]
    again = await resumed(code, run.record)
    assert again.outcome == run.outcome


@jumping
async def test_what_is_in_flight_at_a_cancel_is_recorded():
    async def slow():
        await asyncio.sleep(30)
        return "done"

    async def code(ctx):
        await ctx.step.run("slow", slow)

    run = await cancelled(code)
    assert run.kinds() == ["cancelling", "done slow#0"]
    assert run.outcome[0] == "cancelled"


@jumping
async def test_code_that_does_not_hear_a_cancel_ends_as_cancelled_all_the_same():
    async def code(ctx):
        try:
            await ctx.step.sleep("nap", "1h")
        except asyncio.CancelledError:
            return "completed"

    assert (await cancelled(code)).outcome[0] == "cancelled"


@pytest.mark.parametrize("catches", [False, True])
def test_cleaning_up_is_bounded(catches):
    @jumping
    async def test():
        async def code(ctx):
            try:
                await ctx.step.sleep("nap", "1h")
            finally:
                while True:
                    try:
                        await ctx.step.run("clean", add, 1)
                    except asyncio.CancelledError:
                        if not catches:
                            raise

        run = await cancelled(code)
        assert run.outcome[0] == "cancelled"
        assert run.kinds().count("done clean#31") == 1
        assert len(run.record) == 2 + CLEAN_UP_MAX
        assert (await resumed(code, run.record)).outcome == run.outcome
        gc.collect()

    test()


@jumping
async def test_a_clean_up_that_fails_fails_the_run():
    async def code(ctx):
        try:
            await ctx.step.sleep("nap", "1h")
        finally:
            await ctx.step.run("clean", fail, ValueError("stuck"), retry=NO)

    run = await cancelled(code)
    assert run.outcome[0] == "failed"
    assert repr(run.result) == "ValueError('stuck')"


@jumping
async def test_a_cancel_that_comes_with_the_end_wins():
    async def code(ctx):
        return await ctx.step.run("a", add, 1)

    fake = Fake(flow_of(code))
    fake.connect()
    await fake.turn()
    run = fake.start("flow")
    # The completion is refused, since an entry came between.
    fake.lose = lambda message: isinstance(message, w.Finish) and "cancelling" not in run.kinds()
    await fake.turn()
    assert told(fake, w.Finish)[-1].outcome == "completed"
    fake.cancel(run)
    await run.done.wait()
    assert run.outcome[0] == "cancelled"
    assert told(fake, w.Finish)[-1].seq == 2


# --- ends ---


@jumping
async def test_a_finish_is_said_again_with_the_entry_that_came_between():
    async def slow():
        await asyncio.sleep(10)

    async def code(ctx):
        await ctx.step.sleep("nap", "1h")

    fake = Fake(flow_of(code))
    fake.connect()
    await fake.turn()
    run = fake.start("flow")
    fake.lose = lambda message: isinstance(message, w.Suspend)
    await fake.turn()
    assert run.state == "running"
    fake.lose = lambda _message: False
    fake.meet(run, "nap#0")
    await run.done.wait()
    assert told(fake, w.Suspend)[0].seq == 1
    assert told(fake, w.Finish)[0].seq == 2


@jumping
async def test_a_run_with_a_body_does_not_sleep():
    async def slow():
        await asyncio.sleep(30)

    async def code(ctx):
        await asyncio.gather(ctx.step.sleep("nap", "1h"), ctx.step.run("slow", slow))

    fake = Fake(flow_of(code))
    fake.connect()
    await fake.turn()
    run = fake.start("flow")
    await asyncio.sleep(29)
    assert told(fake, w.Suspend) == []
    await asyncio.sleep(2)
    assert run.state == "suspended"
    assert told(fake, w.Suspend)[0].seq == 2


@jumping
async def test_an_evicted_run_stops_at_once_and_says_nothing_more():
    log = []

    async def slow():
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            log.append("stopped")
            raise

    async def code(ctx):
        try:
            await asyncio.gather(ctx.step.run("slow", slow), ctx.step.run("thread", sub))
        except Exception:
            log.append("never")
        finally:
            log.append("closed")
            await ctx.step.run("more", add, 1)

    def sub():
        return 1

    fake = Fake(flow_of(code))
    fake.threads.hold = True
    fake.connect()
    await fake.turn()
    run = fake.start("flow")
    await fake.turn()
    before = len(fake.said)
    fake.send(w.Evict(run.id, run.epoch))
    await fake.turn()
    assert sorted(log) == ["closed", "stopped"]
    assert fake.session.drivers == {}
    fake.threads.release()
    await asyncio.sleep(1)
    assert len(fake.said) == before
    gc.collect()


@jumping
async def test_an_end_is_answered_with_what_the_code_gave():
    async def code(ctx):
        return {"n": [1, (2,)]}

    run = await ended(code)
    assert CODEC.decode(run.outcome[1]) == {"n": [1, (2,)]}
