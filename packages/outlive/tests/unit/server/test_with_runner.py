"""Engine and the SDK's own session together, while everything that may break does."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from engine_link import CODEC, Bench, jumping
from outlive import App, Retry
from outlive.core.keys import effect_key
from outlive.server.engine import Refusal
from outlive.store.api import StoreFault
from outlive.wire import native_v1 as w

GONE = (Refusal, StoreFault)


class World:
    """What bodies did, and what was acknowledged of it."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.ran = []
        self.acknowledged = set()
        self.again = []

    async def body(self, name, value):
        if name in self.acknowledged:
            self.again.append(name)
        self.ran.append(name)
        await asyncio.sleep(self.rng.choice([0, 0, 0.01, 0.5, 3]))
        if self.rng.random() < 0.1:
            raise OSError("flaky")
        return value

    def watch(self, real):
        """Note what the engine acknowledges to a runner."""
        hear = real._hear

        def heard(messages):
            for m in messages:
                if isinstance(m, w.Entry) and m.kind == "done" and m.ok:
                    self.acknowledged.add(f"{m.run}/{m.call}")
            hear(messages)

        real._hear = heard
        real.wire._heard = heard


def app_of(world):
    app = App("a", retry=Retry(attempts=100, first="100ms", most="1s"))

    def step(ctx, name, value, n=0):
        return ctx.step.run(name, world.body, f"{ctx.run_id}/{name}#{n}", value)

    @app.workflow(name="leaf")
    async def leaf(ctx, value):
        one = await step(ctx, "leaf", value)
        await ctx.step.sleep("rest", "4s")
        return one + await step(ctx, "leaf", 1, n=1)

    @app.workflow(name="flow")
    async def flow(ctx, value):
        found = [await step(ctx, "a", n, n) for n in range(3)]
        found += await asyncio.gather(*(step(ctx, f"p{n}", n) for n in range(4)))
        event = await ctx.step.wait_for_event("go", "go", match={"n": value})
        found.append(event.data["say"])
        found.append(await ctx.step.run_workflow("kid", "leaf", value))
        await ctx.step.sleep("nap", "90s")
        answer = await ctx.step.approval("ok", "May it?", details={"n": value})
        found.append(answer.approved)
        await ctx.step.emit("tell", "told", {"n": value})
        found.append(await step(ctx, "z", 5))
        return found

    return app


def wanted(n):
    return [0, 1, 2, 0, 1, 2, 3, f"hi {n}", n + 1, True, 5]


async def outside(bench, runs):
    """People and programs that ask again until they are answered."""
    left = {("event", n) for n in range(runs)} | {("ok", n) for n in range(runs)}
    while left:
        await asyncio.sleep(7)
        for what, n in sorted(left):
            try:
                if what == "event":
                    data = CODEC.encode({"n": n, "say": f"hi {n}"})
                    await bench.engine.send("a", "go", f"go-{n}", data)
                else:
                    await bench.engine.decide(
                        effect_key(f"r{n}", "ok#0"),
                        approved=True,
                        by="ann",
                        comment="",
                        digest=None,
                    )
                left.discard((what, n))
            except GONE as error:
                if "already" in str(error):  # it was decided, and only the answer was lost
                    left.discard((what, n))


async def trouble(bench, world, runners, app):
    """Break something every few seconds."""
    rng = world.rng
    while True:
        await asyncio.sleep(rng.choice([0.01, 0.3, 1, 4]))
        what = rng.choice(["cut", "lose", "engine", "runner", "before", "after", "read", "bye"])
        real = rng.choice(runners)
        if what == "cut":
            real.cut()
        elif what == "lose":
            share = rng.choice([0, 0.1, 0.3])
            real.lose = lambda m, share=share: (
                not isinstance(m, w.Hello | w.Welcome) and rng.random() < share
            )
        elif what == "engine":
            await bench.kill()
        elif what == "runner":
            session, token = real.session.id, real.session.token
            real.kill()
            runners.remove(real)
            runners.append(fresh := bench.real(app))
            world.watch(fresh)
            if rng.random() < 0.7 and session:
                with contextlib.suppress(*GONE):
                    await bench.engine.dead(session, token)
        elif what == "bye":
            if real.session.welcomed:
                real.session.bye()
                await bench.turn(5)
                real.redials = False
                real.cut()
                runners.remove(real)
                runners.append(fresh := bench.real(app))
                world.watch(fresh)
        else:
            bench.store.faults.append(what)


@pytest.mark.parametrize("seed", range(12))
@jumping
async def test_whatever_breaks_every_run_ends_right_and_no_acknowledged_step_runs_again(seed):
    world = World(seed)
    app = app_of(world)
    async with Bench(deaths_max=1000) as bench:
        runners = [bench.real(app) for _ in range(2)]
        for real in runners:
            world.watch(real)
        count = 4
        for n in range(count):
            await bench.engine.start("a", "flow", f"r{n}", CODEC.encode(n))
        breaking = asyncio.ensure_future(trouble(bench, world, runners, app))
        asking = asyncio.ensure_future(outside(bench, count))
        await asyncio.sleep(300)
        breaking.cancel()
        for real in runners:
            real.lose = lambda _message: False
        bench.store.faults.clear()
        for n in range(count):
            row = await finished(bench, f"r{n}")
            assert row.state == "completed", (row.cause, await bench.record(f"r{n}"))
            assert CODEC.decode(row.value) == wanted(n)
        assert world.again == []
        await asking
        for n in range(count):
            record = await bench.record(f"r{n}")
            ended = [one for one in record if not one.startswith(("tried", "asked"))]
            assert len(set(ended)) == len(ended)
        for real in runners:
            assert real.session.drivers == {}
        assert not bench.engine.book.live
        assert await bench.inner.due(1 << 60, 10) == []
        bench.defects[:] = [one for one in bench.defects if "a defect" in one]


async def finished(bench, run):
    async with asyncio.timeout(2000):
        while True:
            with contextlib.suppress(*GONE):
                row = await bench.engine.run(run)
                if row.state in {"completed", "failed", "cancelled", "needs_attention"}:
                    return row
            await asyncio.sleep(1)


@jumping
async def test_cancelled_flows_end_cancelled_whatever_they_were_doing():
    world = World(1)
    app = app_of(world)
    async with Bench() as bench:
        bench.real(app)
        for n in range(40):
            await bench.engine.start("a", "flow", f"r{n}", CODEC.encode(n))
            await asyncio.sleep(0.2)
        for n in range(40):
            assert (await bench.engine.cancel(f"r{n}")).state in {"cancelling", "cancelled"}
        for n in range(40):
            assert (await finished(bench, f"r{n}")).state == "cancelled"
        assert not await bench.inner.due(1 << 60, 10)
