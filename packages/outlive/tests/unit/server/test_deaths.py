"""Deaths: charged to what was running, suspects alone, a limit, and the queue behind goes on."""

from __future__ import annotations

import asyncio

import pytest

from engine_link import Bench, jumping
from outlive.wire import native_v1 as w


async def dies(bench, runner, *bodies):
    """The runner says that these bodies began, and its process ends."""
    for given, call in bodies:
        runner.say(w.Started(given.run, given.epoch, call))
    await bench.engine.dead(runner.session, runner.token)
    await bench.turn()


async def spoken(bench, runner, run):
    """A run that the runner has, and has said something of."""
    given = await runner.given(run)
    runner.done(given, f"warm-up#{given.epoch}")
    await runner.hear(w.Entry, run=run, kind="done")
    return given


async def deaths(bench, run):
    row = await bench.row(run)
    return row.deaths, row.deaths_alone


@jumping
async def test_a_death_is_charged_to_runs_with_a_body_in_flight_and_to_no_other():
    async with Bench() as bench:
        runner = await bench.ready_runner()
        for run in ("r1", "r2", "r3"):
            await bench.start(run)
        one, two, three = [await spoken(bench, runner, run) for run in ("r1", "r2", "r3")]
        runner.say(w.Started("r3", three.epoch, "over#0"))
        runner.done(three, "over#0")
        await dies(bench, runner, (one, "s#0"), (two, "s#0"))
        assert [await deaths(bench, run) for run in ("r1", "r2", "r3")] == [(1, 0), (1, 0), (0, 0)]


@jumping
async def test_a_body_that_failed_or_was_recorded_is_not_in_flight():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.say(
            w.Started("r1", given.epoch, "s#0"),
            w.Tried("r1", given.epoch, "s#0", 1, b"\xc0", 0),
            w.Started("r1", given.epoch, "s#0"),
            w.Done("r1", given.epoch, "s#0", 2, True, b"\xc0"),
            w.Started("r1", given.epoch, "s#0"),
        )
        await dies(bench, runner)
        assert await deaths(bench, "r1") == (0, 0)


@jumping
async def test_a_run_whose_code_ends_the_process_before_it_says_anything_is_charged():
    async with Bench() as bench:
        await bench.start("bad")
        for n in range(3):
            runner = await bench.ready_runner()
            await runner.given("bad")
            assert (await bench.row("bad")).deaths == n
            await dies(bench, runner)
        row = await bench.row("bad")
        assert row.state == "needs_attention"
        assert "its process died 3 times with nothing else running" in row.cause


@jumping
async def test_a_lease_that_lapses_is_charged_like_a_death():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.say(w.Started("r1", given.epoch, "s#0"))
        await bench.state("queued")
        assert await deaths(bench, "r1") == (1, 1)


@jumping
async def test_after_so_many_deaths_alone_a_run_needs_a_person_and_the_cause_names_the_step():
    async with Bench() as bench:
        await bench.start("bad")
        for n in range(1, 4):
            runner = await bench.ready_runner()
            given = await runner.given("bad")
            await dies(bench, runner, (given, "crash#0"))
            assert await deaths(bench, "bad") == (n, n)
        row = await bench.row("bad")
        assert (row.state, row.session) == ("needs_attention", "")
        assert row.cause == ("its process died 3 times with nothing else running, last in crash#0")
        await bench.engine.resume("bad")
        assert await deaths(bench, "bad") == (0, 0)


@jumping
async def test_a_suspect_is_given_out_alone_and_only_deaths_alone_count():
    async with Bench() as bench:
        await bench.start("bad")
        await bench.start("good")
        for n in range(1, 3):
            runner = await bench.ready_runner()
            bad, good = await spoken_or_given(runner, "bad"), await spoken_or_given(runner, "good")
            await dies(bench, runner, (bad, "crash#0"), (good, "work#0"))
            assert await deaths(bench, "bad") == await deaths(bench, "good") == (n, 0)
        # Both are suspects now: each gets a runner of its own.
        one, two = await bench.ready_runner(), await bench.ready_runner()
        await bench.turn()
        first = [m.run for m in one.heard + two.heard if isinstance(m, w.Dispatch)]
        assert sorted(first) == ["bad", "good"]
        assert len(one.have) == len(two.have) == 1
        await bench.start("third")
        await bench.turn()
        assert len(one.have) == len(two.have) == 1, "nothing runs beside a suspect"
        innocent = one if "good" in one.have else two
        guilty = two if innocent is one else one
        innocent.done(await innocent.given("good"), "work#0")
        await innocent.given("third")
        assert await deaths(bench, "good") == (0, 0)
        await dies(bench, guilty, (await guilty.given("bad"), "crash#0"))
        assert await deaths(bench, "bad") == (3, 1)


async def spoken_or_given(runner, run):
    return await runner.given(run)


@jumping
async def test_a_suspect_waits_until_a_runner_has_nothing_else_and_is_not_starved():
    async with Bench() as bench:
        await bench.start("bad")
        for _ in range(2):
            runner = await bench.ready_runner()
            await dies(bench, runner, (await runner.given("bad"), "crash#0"))
        runner = await bench.ready_runner(room=10, workflows={"flow": [], "other": []})
        await runner.given("bad")
        await bench.start("o1", workflow="other")
        await bench.turn()
        assert list(runner.have) == ["bad"]
        runner.say(w.Bye())
        await bench.turn()
        busy = bench.runner(room=10, workflows={"other": []})
        await busy.hello()
        o1 = await busy.given("o1")
        busy.cut()
        await busy.back(*busy.have.values(), workflows={"flow": [], "other": []})
        await bench.start("o2", workflow="other")
        await bench.turn()
        assert list(busy.have) == ["o1"], "it waits for the suspect, and the suspect for it"
        busy.finish(o1, 0)
        await busy.given("bad")
        assert list(busy.have) == ["bad"]


@jumping
async def test_the_queue_behind_a_run_that_kills_goes_on():
    async with Bench() as bench:
        await bench.start("bad")
        for n in range(10):
            await bench.start(f"good{n}")
        finished = set()
        for _ in range(40):
            runner = await bench.ready_runner(room=4)
            await bench.turn()
            for run, had in list(runner.have.items()):
                if run != "bad":
                    runner.say(w.Finish(run, had.epoch, 0, "completed", b"\xc0"))
                    await bench.turn()
                    finished.add(run)
            if "bad" in runner.have:
                had = runner.have["bad"]
                runner.say(w.Started("bad", had.epoch, "crash#0"))
                await bench.engine.dead(runner.session, runner.token)
            else:
                runner.say(w.Bye())
            await bench.turn()
            if len(finished) == 10 and (await bench.row("bad")).state == "needs_attention":
                break
        assert len(finished) == 10
        assert (await bench.row("bad")).state == "needs_attention"


@jumping
async def test_progress_makes_a_suspect_a_run_like_any_other():
    async with Bench() as bench:
        await bench.start("slow")
        for n in range(8):
            runner = await bench.ready_runner()
            given = await runner.given("slow")
            runner.done(given, f"s#{n}")
            await runner.hear(w.Entry, kind="done")
            await dies(bench, runner, (given, f"s#{n + 1}"))
            assert await deaths(bench, "slow") == (1, 1)
        assert (await bench.row("slow")).state == "queued"


@pytest.mark.parametrize("most", [1, 5])
@jumping
async def test_how_many_deaths_are_too_many_is_an_option(most):
    async with Bench(deaths_max=most) as bench:
        await bench.start("bad")
        for _ in range(most):
            assert (await bench.row("bad")).state != "needs_attention"
            runner = await bench.ready_runner()
            await dies(bench, runner, (await runner.given("bad"), "crash#0"))
        assert (await bench.row("bad")).state == "needs_attention"


@jumping
async def test_deaths_of_a_run_that_is_being_cancelled_count_too():
    async with Bench() as bench:
        await bench.start("bad")
        for n in range(3):
            runner = await bench.ready_runner()
            given = await runner.given("bad")
            if n == 0:
                await bench.engine.cancel("bad")
            await dies(bench, runner, (given, "crash#0"))
        assert (await bench.row("bad")).state == "needs_attention"
        assert (await bench.engine.resume("bad")).state == "cancelling"


@jumping
async def test_no_run_is_shown_as_running_whose_lease_is_over():
    async with Bench() as bench:
        await bench.given()
        bench.store.hold()
        loop = asyncio.get_running_loop()
        for _ in range(3):
            loop.now += 1.9
            await bench.turn()
        loop.now += 0.4  # not yet time to look again
        asking = asyncio.ensure_future(bench.row())
        await bench.turn()
        assert not asking.done(), "that it is over is not stored yet"
        bench.store.let_go()
        assert (await asking).state == "queued"
