"""Steps and waits: what code sees, what is sent, and in which order."""

from __future__ import annotations

import asyncio
import contextvars
import datetime as dt
import functools
import itertools
import logging
import uuid
from dataclasses import dataclass

import pytest

from fake_engine import BASE_MS, CODEC, Fake, Run, jumping, told
from outlive import (
    App,
    Approved,
    BadDuration,
    BadStepId,
    Event,
    NotDeterministic,
    NotInStep,
    Retry,
    StepFailed,
    current,
)
from outlive.core.keys import effect_key
from outlive.wire import asks
from outlive.wire import native_v1 as w

HOUR_MS = 3_600_000


@dataclass
class Money:
    amount: int
    currency: str


class Declined(Exception):
    pass


async def add(one, two=0):
    return one + two


def sub(one, two=0):
    return one - two


def flow_of(code, **options):
    app = App("a", **options)
    app.workflow(name="flow")(code)
    return app


async def ended(code, value=None, **options):
    """The run of a workflow without further ado."""
    fake = Fake(flow_of(code, **options))
    run = await fake.play("flow", value)
    run.fake = fake
    return run


@jumping
async def test_a_workflow_of_plain_steps():
    async def code(ctx, given):
        one = await ctx.step.run("one", add, given, two=2)
        return await ctx.step.run("two", sub, one, 1)

    run = await ended(code, 5)
    assert run.outcome[0] == "completed"
    assert run.result == 6
    assert run.kinds() == ["done one#0", "done two#0"]
    assert run.fake.session.drivers == {}


@jumping
async def test_ids_are_told_apart_by_their_order():
    async def code(ctx):
        return [await ctx.step.run("x", add, n) for n in range(3)]

    run = await ended(code)
    assert run.kinds() == ["done x#0", "done x#1", "done x#2"]
    assert run.result == [0, 1, 2]


@jumping
async def test_any_kind_of_callable_is_a_body():
    class Adder:
        async def __call__(self, one):
            return one + 1

        async def method(self, one):
            return one + 2

        def plain(self, one):
            return one + 3

    def wrapped(fn):
        @functools.wraps(fn)
        def call(*args):
            return fn(*args)

        return call

    async def code(ctx):
        adder = Adder()
        bodies = [
            adder,
            adder.method,
            adder.plain,
            functools.partial(add, two=10),
            functools.partial(sub, two=10),
            lambda one: add(one, 20),
            wrapped(add),
        ]
        return [await ctx.step.run("x", body, 1) for body in bodies]

    assert (await ended(code)).result == [2, 3, 4, 11, -9, 21, 1]


@jumping
async def test_code_sees_what_was_stored_and_never_the_object_itself():
    kept = Money(1, "EUR")
    seen = []

    async def body():
        return kept, {"list": (1, 2)}

    async def code(ctx):
        money, other = await ctx.step.run("x", body)
        seen.append(money)
        return money == kept and money is not kept and other == {"list": (1, 2)}

    assert (await ended(code, types=[Money])).result is True
    assert type(seen[0]) is Money


@jumping
async def test_a_result_that_cannot_be_stored_is_recorded_as_refused_and_never_run_again():
    calls = []

    async def body():
        calls.append(1)
        return object()

    async def code(ctx):
        return await ctx.step.run("x", body)

    run = await ended(code)
    assert calls == [1]
    assert run.kinds() == ["refused x#0"]
    assert run.state == "parked"
    assert "x#0" in run.cause
    (done,) = told(run.fake, w.Done)
    assert done.refused
    assert "cannot be stored" in str(CODEC.decode_error(done.value))
    # A person resumes it without, and then with, what the step gave.
    run.done.clear()
    run.fake.dispatch(run)
    await run.done.wait()
    assert run.state == "parked"
    run.fake.entry(run, "done", "x#0", value=CODEC.encode("by hand"))
    run.done.clear()
    run.fake.dispatch(run)
    await run.done.wait()
    assert run.result == "by hand"
    assert calls == [1]


@jumping
async def test_errors_come_back_as_themselves_if_registered():
    async def body(kind):
        raise kind("why", 3)

    class Strange(Exception):
        pass

    async def code(ctx):
        seen = []
        for kind in (ValueError, Declined, Strange):
            try:
                await ctx.step.run("x", body, kind, retry=Retry(attempts=1))
            except (ValueError, Declined, StepFailed) as error:
                seen.append(f"{type(error).__name__} {error}")
        return seen

    run = await ended(code, errors=[Declined])
    assert run.result[0] == "ValueError ('why', 3)"
    assert run.result[1] == "Declined ('why', 3)"
    assert run.result[2].startswith("StepFailed")
    assert "Strange" in run.result[2]


@pytest.mark.parametrize("thread", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        SystemExit(1),
        KeyboardInterrupt(),
        StopIteration(1),
        GeneratorExit(),
        asyncio.CancelledError(),
        StopAsyncIteration(),
        BaseExceptionGroup("all", [SystemExit()]),
    ],
)
def test_whatever_a_body_raises_fails_its_step_and_no_more(error, thread):
    @jumping
    async def test():
        async def body():
            raise error

        def in_thread():
            raise error

        async def code(ctx):
            try:
                await ctx.step.run("x", in_thread if thread else body, retry=Retry(attempts=1))
            except Exception as seen:
                return isinstance(seen, StepFailed | RuntimeError | StopAsyncIteration)
            return None

        run = await ended(code)
        assert run.result is True
        assert run.record[0].ok is False

    test()


@jumping
async def test_an_error_that_cannot_be_shown_fails_the_step_all_the_same():
    class Silent(Exception):
        def __str__(self):
            raise RuntimeError("no")

    async def body():
        raise Silent

    async def code(ctx):
        try:
            await ctx.step.run("x", body, retry=Retry(attempts=1))
        except StepFailed as error:
            return error.type

    assert "Silent" in (await ended(code)).result


# --- retries and time-outs ---


@jumping
async def test_a_failing_step_is_tried_again_after_its_delays():
    times, loop = [], asyncio.get_running_loop()

    async def body():
        times.append(loop.time())
        if len(times) < 4:
            raise OSError("later")
        return len(times)

    async def code(ctx):
        return await ctx.step.run("x", body, retry=Retry(attempts=5, first="2s", factor=2))

    run = await ended(code)
    assert run.result == 4
    assert run.kinds() == ["tried x#0"] * 3 + ["done x#0"]
    assert [round(b - a, 2) for a, b in itertools.pairwise(times)] == [2, 4, 8]
    assert [entry.attempt for entry in run.record] == [1, 2, 3, 4]


@jumping
async def test_the_last_attempt_fails_the_step():
    async def body():
        raise OSError("no")

    async def code(ctx):
        await ctx.step.run("x", body)

    run = await ended(code, retry=Retry(attempts=2))
    assert run.kinds() == ["tried x#0", "done x#0"]
    assert run.outcome[0] == "failed"
    assert isinstance(run.result, OSError)


@jumping
async def test_an_error_to_give_up_on_ends_the_step_at_once():
    async def body():
        raise TypeError("a bug")

    async def code(ctx):
        await ctx.step.run("x", body)

    assert (await ended(code)).kinds() == ["done x#0"]


@jumping
async def test_a_late_retry_sleeps_in_the_engine_and_a_resumed_run_goes_on_counting():
    attempts = []

    async def body():
        attempts.append(current().number)
        raise OSError("no")

    async def code(ctx):
        await ctx.step.run("x", body, retry=Retry(attempts=3, first="1h", most="1h"))

    fake = Fake(flow_of(code))
    fake.connect()
    await fake.turn()
    run = fake.start("flow")
    await fake.turn()
    assert run.state == "suspended"
    assert fake.session.drivers == {}
    await run.done.wait()
    assert run.epoch == 3
    assert attempts == [1, 2, 3]
    assert run.outcome[0] == "failed"


@jumping
async def test_a_retry_that_is_due_soon_keeps_its_run():
    async def body():
        if current().number == 1:
            raise OSError("no")

    async def code(ctx):
        await ctx.step.run("x", body, retry=Retry(first="3s"))

    run = await ended(code)
    assert told(run.fake, w.Suspend) == []


@jumping
async def test_a_time_out_cancels_an_async_body_and_fails_the_attempt():
    async def body():
        await asyncio.sleep(100)

    async def code(ctx):
        try:
            await ctx.step.run("x", body, timeout="5s", retry=Retry(attempts=2))
        except TimeoutError as error:
            return str(error)

    run = await ended(code)
    assert run.kinds() == ["tried x#0", "done x#0"]
    assert run.result == "step x#0 took longer than 5 s"


@jumping
async def test_a_body_that_ends_in_spite_of_its_time_out_has_its_result():
    async def body():
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            return "saved"

    async def code(ctx):
        return await ctx.step.run("x", body, timeout=5)

    assert (await ended(code)).result == "saved"


@jumping
async def test_a_thread_that_is_late_is_not_tried_again_before_it_ended():
    began = []

    def body():
        began.append(1)
        return "in time"

    async def code(ctx):
        return await ctx.step.run("x", body, timeout="1s", retry=Retry(attempts=2))

    fake = Fake(flow_of(code))
    fake.threads.hold = True
    fake.connect()
    await fake.turn()
    run = fake.start("flow")
    await asyncio.sleep(30)
    assert run.kinds() == ["tried x#0"]
    assert len(fake.threads.held) == 1
    assert run.state == "running", "a body runs: neither asleep nor over"
    fake.threads.release()
    await fake.turn()
    assert len(fake.threads.held) == 1, "now the second attempt"
    assert run.kinds() == ["tried x#0"], "what came too late does not count"
    fake.threads.hold = False
    fake.threads.release()
    await run.done.wait()
    assert run.result == "in time"
    assert began == [1, 1]


@jumping
async def test_a_run_does_not_finish_while_a_late_thread_runs():
    async def code(ctx):
        try:
            await ctx.step.run("x", sub, 1, timeout="1s", retry=Retry(attempts=1))
        except TimeoutError:
            return "late"

    fake = Fake(flow_of(code))
    fake.threads.hold = True
    fake.connect()
    await fake.turn()
    run = fake.start("flow")
    await asyncio.sleep(5)
    assert run.kinds() == ["done x#0"]
    assert told(fake, w.Finish) == []
    fake.threads.release()
    await run.done.wait()
    assert run.result == "late"


@jumping
async def test_an_abandoned_step_that_failed_is_ended_and_does_not_keep_waking_the_run():
    async def flaky():
        raise OSError("no")

    async def broken():
        await asyncio.sleep(1)
        raise TypeError("at once")

    async def code(ctx):
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(ctx.step.run("flaky", flaky, retry=Retry(9, "1h", 1, "1h")))
                group.create_task(ctx.step.run("broken", broken))
        except* TypeError:
            pass
        await ctx.step.sleep("nap", "2h")

    run = await ended(code)
    assert run.outcome[0] == "completed"
    assert run.kinds() == [
        "tried flaky#0",
        "done broken#0",
        "asked nap#0",
        "done flaky#0",
        "met nap#0",
    ]


# --- in order ---


@jumping
async def test_parallel_steps_are_delivered_in_the_order_of_the_record():
    order = []

    async def slow(n):
        await asyncio.sleep(10 - n)
        return n

    async def one(ctx, n):
        order.append(await ctx.step.run("p", slow, n))
        await ctx.step.run("after", add, n)

    async def code(ctx):
        await asyncio.gather(*(one(ctx, n) for n in range(4)))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ctx.step.run("q", slow, n)) for n in range(3)]
        return [task.result() for task in tasks]

    run = await ended(code)
    assert order == [3, 2, 1, 0]
    assert run.result == [0, 1, 2]
    # Which `after` is which was decided by the record, so a replay has the same names.
    for cut in range(len(run.record) + 1):
        await replayed_from(run, code, cut)


async def replayed_from(run, code, cut):
    fake = Fake(flow_of(code))
    fake.connect()
    await fake.turn()
    again = fake.runs["run-1"] = Run("run-1", "flow", None)
    again.record = list(run.record[:cut])
    again.ended = {entry.call for entry in again.record if entry.kind in ("done", "met")}
    fake.dispatch(again)
    await again.done.wait()
    assert again.outcome == run.outcome, again.cause
    assert sorted(again.kinds()) == sorted(run.kinds())
    return fake


@jumping
async def test_nothing_unrecorded_starts_before_the_whole_record_was_read():
    started = []

    async def body(name):
        started.append(name)
        return name

    async def code(ctx):
        return await asyncio.gather(*(ctx.step.run(n, body, n) for n in ("a", "b", "c")))

    fake = Fake(flow_of(code))
    fake.connect()
    await fake.turn()
    run = fake.runs["run-1"] = Run("run-1", "flow", None)
    for name in ("c", "b"):
        fake.entry(run, "done", f"{name}#0", value=CODEC.encode(f"old {name}"))
    # The dispatch holds one entry of two: nothing may start until the other has come.
    fake.lose = lambda message: isinstance(message, w.Entry)
    fake.dispatch(run, inline=1)
    await fake.turn()
    assert started == []
    fake.lose = lambda _message: False
    await asyncio.sleep(5)
    await run.done.wait()
    assert started == ["a"]
    assert run.result == ["a", "old b", "old c"]


@jumping
async def test_entries_are_delivered_one_at_a_time_and_now_is_the_last_ones():
    seen = []

    async def one(ctx, name):
        await ctx.step.run(name, add, 0)
        seen.append((name, ctx.now))
        await asyncio.sleep(0)
        seen.append((name, ctx.now))

    async def code(ctx):
        seen.append(("start", ctx.now))
        await asyncio.gather(one(ctx, "a"), one(ctx, "b"))

    fake = Fake(flow_of(code))
    run = fake.runs["run-1"] = Run("run-1", "flow", None)
    for n, name in enumerate("ba", 1):
        made = fake.entry(run, "done", f"{name}#0", value=b"\x00")
        run.record[-1] = w.Entry("run-1", 0, n, "done", made.call, BASE_MS + n * 1000, True, b"\0")
    fake.connect()
    await fake.turn()
    fake.dispatch(run)
    await run.done.wait()
    begin = dt.datetime.fromtimestamp(BASE_MS / 1000, dt.UTC)
    after = [begin + dt.timedelta(seconds=s) for s in (0, 1, 1, 2, 2)]
    assert seen == list(zip(["start", "b", "b", "a", "a"], after, strict=True))


# --- what a context has ---


@jumping
async def test_random_and_uuids_are_the_same_on_each_pass_and_differ_between_runs():
    passes = []

    async def code(ctx):
        passes.append((ctx.run_id, ctx.random.random(), ctx.uuid4()))
        await ctx.step.sleep("nap", "1h")
        return [str(ctx.uuid4()), ctx.random.randrange(1000)]

    fake = Fake(flow_of(code))
    one = await fake.play("flow")
    other = await fake.play("flow", run="run-2")
    assert len(passes) == 4
    assert passes[0] == passes[1]
    assert passes[2] == passes[3]
    assert passes[0][1:] != passes[2][1:]
    assert one.result != other.result
    assert uuid.UUID(one.result[0]).version == 4


@pytest.mark.parametrize("thread", [False, True])
def test_a_body_has_a_key_a_growing_fence_and_the_callers_contextvars(thread):
    @jumping
    async def test():
        seen, var = [], contextvars.ContextVar("var", default="none")
        contexts = []

        def body():
            ctx = contexts[0]
            now = current()
            seen.append((now.key, ctx.key, now.fence, ctx.fence, now.step, now.number, var.get()))
            if now.number == 1:
                raise OSError("again")

        async def async_body():
            body()

        async def code(ctx):
            contexts.append(ctx)
            var.set("set")
            await ctx.step.run("pay", body if thread else async_body)
            await ctx.step.run("pay", body if thread else async_body)

        await ended(code)
        keys = [effect_key("run-1", f"pay#{n}") for n in (0, 0, 1, 1)]
        assert [one[0] for one in seen] == [one[1] for one in seen] == keys
        fences = [one[2] for one in seen]
        assert fences == sorted(set(fences)) == [one[3] for one in seen]
        assert fences[0] == (1 << 20) | 1
        assert [one[4:] for one in seen] == [("pay", n, "set") for n in (1, 2, 1, 2)]

    test()


@jumping
async def test_key_and_fence_are_for_bodies():
    async def code(ctx):
        seen = []
        for name in ("key", "fence"):
            try:
                getattr(ctx, name)
            except NotInStep as error:
                seen.append(str(error))
        return seen

    assert len((await ended(code)).result) == 2
    with pytest.raises(NotInStep):
        current()


@jumping
async def test_steps_are_not_nested():
    async def code(ctx):
        async def outer():
            await ctx.step.run("inner", add, 1)

        await ctx.step.run("outer", outer, retry=Retry(attempts=1))

    run = await ended(code, errors=[NotDeterministic])
    assert run.outcome[0] == "failed"
    assert "nested" in str(run.result)


@pytest.mark.parametrize("name", ["", "a#b", "a!", "a\nb", "x" * 201, 3, None, ["a"], "\ud800"])
def test_ids_that_cannot_name_a_call_are_refused(name):
    @jumping
    async def test():
        async def code(ctx):
            seen = 0
            for make in (
                lambda: ctx.step.run(name, add, 1),
                lambda: ctx.step.sleep(name, 1),
                lambda: ctx.step.approval(name, "t"),
            ):
                try:
                    await make()
                except BadStepId:
                    seen += 1
            return seen

        run = await ended(code)
        assert run.result == 3
        assert run.record == []

    test()


@jumping
async def test_a_log_is_silent_about_what_was_said_before():
    said = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append((record.getMessage(), record.run_id))
    logger = logging.getLogger("outlive.run")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:

        async def code(ctx):
            ctx.log.info("before")
            await ctx.step.sleep("nap", "1h")
            ctx.log.info("after")

        await ended(code)
    finally:
        logger.removeHandler(handler)
    assert said == [("before", "run-1"), ("after", "run-1")]


# --- waits ---


@jumping
async def test_a_sleep_needs_no_runner_meanwhile():
    async def code(ctx):
        await ctx.step.sleep("nap", "1h")
        await ctx.step.sleep_until("dawn", ctx.now + dt.timedelta(hours=1))
        return ctx.now

    run = await ended(code)
    assert run.kinds() == ["asked nap#0", "met nap#0", "asked dawn#0", "met dawn#0"]
    asked = [asks.read(m.kind, m.about) for m in told(run.fake, w.Ask)]
    assert asked[0].for_ms == HOUR_MS
    assert asked[1].until_ms == run.record[1].at_ms + HOUR_MS
    assert len(told(run.fake, w.Suspend)) == 2
    with pytest.raises(ValueError, match="no time zone"):
        outlive_context().step.sleep_until("x", dt.datetime(2027, 1, 1))  # noqa: DTZ001
    with pytest.raises(BadDuration, match="soon"):
        outlive_context().step.sleep("x", "soon")


def outlive_context():
    from types import SimpleNamespace

    from outlive.sdk.context import Context

    return Context(SimpleNamespace(codec=CODEC, run="r", tracing=False, counts={}))


@jumping
async def test_an_event_comes_as_its_data_or_as_none():
    async def code(ctx):
        one = await ctx.step.wait_for_event("e", "paid", {"order.id": 7}, timeout="1d")
        two = await ctx.step.wait_for_event("e", "paid")
        return [one == Event("paid", "ev-1", {"order": {"id": 7}}), two]

    fake = Fake(flow_of(code))
    fake.connect()
    await fake.turn()
    run = fake.start("flow")
    await fake.turn()
    what = asks.read("event", run.open["e#0"].about)
    assert what == asks.Event("paid", {"order.id": CODEC.encode(7)}, 86_400_000)
    fake.meet(run, "e#0", {"name": "paid", "id": "ev-1", "data": {"order": {"id": 7}}})
    await fake.turn()
    assert asks.read("event", run.open["e#1"].about).for_ms is None
    fake.meet(run, "e#1", ok=False)
    await run.done.wait()
    assert run.result == [True, None]


@jumping
async def test_an_event_is_sent_once_by_its_call_or_by_what_the_code_says():
    async def code(ctx):
        await ctx.step.emit("a", "made", {"n": 1})
        await ctx.step.emit("a", "made", {"n": 1}, dedupe="order-7")

    run = await ended(code)
    assert run.kinds() == ["emitted a#0", "emitted a#1"]
    first, second = (asks.read("emit", m.about) for m in told(run.fake, w.Ask))
    assert first == asks.Emit("made", effect_key("run-1", "a#0"), CODEC.encode({"n": 1}))
    assert second.id == "order-7"


@jumping
async def test_another_run_gives_its_result_or_raises_its_error():
    app = App("a", errors=[Declined])

    @app.workflow
    async def child(ctx, given):
        pass

    @app.workflow
    async def flow(ctx):
        one = await ctx.step.run_workflow("c", child, {"n": 1})
        two = await ctx.step.run_workflow("c", "child", 2, detached=True)
        try:
            await ctx.step.run_workflow("c", child, 3)
        except Declined as error:
            return [one, two, str(error)]

    fake = Fake(app)
    fake.connect()
    await fake.turn()
    run = fake.start("flow")
    await fake.turn()
    assert asks.read("child", run.open["c#0"].about) == asks.Child("child", CODEC.encode({"n": 1}))
    fake.meet(run, "c#0", "one")
    await fake.turn()
    assert asks.read("child", run.open["c#1"].about).detached
    fake.meet(run, "c#1", "run-9")
    await fake.turn()
    fake.entry(run, "met", "c#2", ok=False, value=CODEC.encode_error(Declined("no funds")))
    await run.done.wait()
    assert run.result == ["one", "run-9", "no funds"]


@jumping
async def test_an_approval_is_bound_to_what_was_shown():
    async def code(ctx, amount):
        found = await ctx.step.approval("ok", "Refund?", {"amount": amount}, timeout="1d")
        return [found == Approved(True, "eve", "fine"), await ctx.step.approval("ok", "Sure?")]

    digests = []
    for amount in (1, 1, 2):
        fake = Fake(flow_of(code))
        fake.connect()
        await fake.turn()
        run = fake.start("flow", amount)
        await fake.turn()
        what = asks.read("approve", run.open["ok#0"].about)
        assert (what.title, what.for_ms) == ("Refund?", 86_400_000)
        assert CODEC.decode(what.details) == {"amount": amount}
        digests.append(what.digest)
        fake.meet(run, "ok#0", {"approved": True, "by": "eve", "comment": "fine"})
        await fake.turn()
        fake.meet(run, "ok#1", ok=False)
        await run.done.wait()
        assert run.result == [True, None]
    assert digests[0] == digests[1] != digests[2]
