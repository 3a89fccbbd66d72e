"""An engine for the unit tests of users, and its clock."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import time

import pytest

from outlive import App, Approved, Context, Retry
from outlive.client import RunNotCompleted
from outlive.core.tables import Run
from outlive.testing import LocalEngine


def running(test):
    """Run a coroutine as a test."""

    @functools.wraps(test)
    def run(*args, **options):
        asyncio.run(test(*args, **options))

    return run


@dataclasses.dataclass(frozen=True)
class Refund:
    id: str
    cents: int


class Broke(Exception):
    pass


app = App("testing", types=[Refund], errors=[Broke])
ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran():
    ran.clear()


def triage(ticket: dict) -> int:
    ran.append("triage")
    return ticket["cents"]


async def pay(cents: int) -> Refund:
    ran.append("pay")
    return Refund("R-1", cents)


@app.workflow(on="ticket.created")
async def refund(ctx: Context, ticket: dict) -> Refund:
    cents = await ctx.step.run("triage", triage, ticket)
    await ctx.step.sleep("cool-off", "30d")
    return await ctx.step.run("pay", pay, cents)


@running
async def test_a_month_passes_at_once_and_types_come_back():
    began = time.monotonic()
    async with LocalEngine(app) as engine:
        run = await engine.start(refund, {"cents": 5})
        assert await run.state() is Run.WAITING
        assert ran == ["triage"]
        await engine.advance("29d")
        assert await run.state() is Run.WAITING
        with pytest.raises(RunNotCompleted, match="waiting"):
            await run.result()
        await engine.advance("1d")
        assert await run.result() == Refund("R-1", 5)
    assert ran == ["triage", "pay"]
    assert time.monotonic() - began < 30


@running
async def test_an_event_starts_a_run_and_a_crash_runs_no_step_again():
    async with LocalEngine(app) as engine:
        (run,) = await engine.send("ticket.created", {"cents": 7})
        await engine.crash()
        await engine.advance("30d")
        await engine.crash()
        assert (await run.result()).cents == 7
        assert (await run.shown())["epoch"] >= 2
        kinds = [(step["kind"], step["call"]) for step in await run.steps()]
        assert kinds == [
            ("done", "triage#0"),
            ("asked", "cool-off#0"),
            ("met", "cool-off#0"),
            ("done", "pay#0"),
        ]
    assert ran == ["triage", "pay"]


@app.workflow
async def chained(ctx: Context) -> list[str]:
    when = []
    for _ in range(3):
        await ctx.step.sleep("nap", "1h")
        when.append(ctx.now.isoformat())
    return when


@running
async def test_one_jump_passes_through_all_that_is_due_on_the_way():
    async with LocalEngine(app) as engine:
        run = await engine.start(chained)
        await engine.advance("2h59m")
        assert await run.state() is Run.WAITING
        await engine.advance("2m")
        assert len(await run.result()) == 3


def fails_twice() -> int:
    ran.append("tried")
    if len(ran) < 3:
        raise OSError(f"no {len(ran)}")
    return len(ran)


@app.workflow
async def retried(ctx: Context) -> int:
    return await ctx.step.run("flaky", fails_twice, retry=Retry(attempts=3, first="8s"))


@running
async def test_retries_wait_for_the_clock_that_jumps():
    async with LocalEngine(app) as engine:
        run = await engine.start(retried)
        assert ran == ["tried"]
        await engine.advance("7s")
        assert ran == ["tried"]
        await engine.advance("2s")
        assert ran == ["tried"] * 2
        await engine.advance("1m")
        assert await run.result() == 3


@app.workflow
async def broken(ctx: Context) -> None:
    async def body() -> None:
        raise Broke("for good")

    await ctx.step.run("body", body, retry=Retry(attempts=1))


@running
async def test_a_failed_run_raises_what_it_failed_with():
    async with LocalEngine(app) as engine:
        run = await engine.start(broken)
        assert await run.state() is Run.FAILED
        with pytest.raises(Broke, match="for good"):
            await run.result()


@app.workflow
async def asking(ctx: Context) -> tuple[str, str]:
    answer = await ctx.step.approval("ask", "refund 5 cents?", {"cents": 5}, timeout="1d")
    assert isinstance(answer, Approved)
    event = await ctx.step.wait_for_event("wait", "paid", {"cents": 5}, timeout="1d")
    return answer.by, "late" if event is None else event.data["from"]


@running
async def test_questions_events_and_time_outs():
    async with LocalEngine(app) as engine:
        run = await engine.start(asking)
        (question,) = await engine.questions()
        assert question.title == "refund 5 cents?"
        await engine.decide(question, approve=True, by="ann")
        await engine.send("paid", {"cents": 6, "from": "x"})
        await engine.send("paid", {"cents": 5, "from": "y"})
        assert await run.result() == ("ann", "y")
        late = await engine.start(asking)
        await engine.decide((await engine.questions())[0], approve=False)
        await engine.advance("25h")
        assert (await late.result())[1] == "late"


@running
async def test_a_cancel_is_heard_in_the_test():
    async with LocalEngine(app) as engine:
        run = await engine.start(chained)
        await run.cancel()
        assert await run.state() is Run.CANCELLED
        with pytest.raises(RunNotCompleted, match="cancelled"):
            await run.result()


@app.workflow
async def drifting(ctx: Context) -> None:
    ran.append("pass")
    await ctx.step.run(f"step-{len(ran)}", pay, 1)
    await ctx.step.run("next", pay, 1)


@running
async def test_code_that_drifts_is_named_where_it_does():
    async with LocalEngine(app, replay_always=True) as engine:
        run = await engine.start(drifting)
        assert await run.state() is Run.NEEDS_ATTENTION
        why = (await run.shown())["why"]
        assert "step-1#0 done" in why
        assert "test_testing.py:" in why
