"""Questions to people: bound to run, call and digest, and decided once."""

from __future__ import annotations

import asyncio

import pytest

from engine_link import CODEC, NIL, Bench, jumping, unpack
from outlive.core.keys import effect_key
from outlive.core.rows import ApprovalRow
from outlive.server.engine import Refusal
from outlive.server.records import row_of
from outlive.store.api import Key
from outlive.wire import native_v1 as w

ABOUT = {"title": "Refund 5?", "details": CODEC.encode({"amount": 5}), "digest": "d1"}


async def asked(bench, *, call="ok#0", **about):
    """A runner whose run has asked."""
    runner, given = await bench.given()
    entry = await runner.asked(given, call, "approve", **{**ABOUT, **about})
    return runner, given, entry


async def decide(bench, *, approved=True, by="ann", comment="", digest=None, call="ok#0"):
    return await bench.engine.decide(
        effect_key("r1", call), approved=approved, by=by, comment=comment, digest=digest
    )


async def early(bench, *, digest="d1", approved=True, call="ok#0", run="r1"):
    await bench.engine.decide_early(
        run, call, digest=digest, approved=approved, by="eve", comment="early"
    )


async def question(bench, call="ok#0"):
    (record,) = await bench.inner.load([Key("approval", effect_key("r1", call))])
    return row_of(record, ApprovalRow)


@pytest.mark.parametrize("approved", [True, False])
@jumping
async def test_a_decision_is_told_to_the_run_with_who_and_why(approved):
    async with Bench() as bench:
        runner, _, entry = await asked(bench)
        assert (entry.kind, unpack(entry.value)[0]) == ("asked", "approve")
        row = await question(bench)
        assert (row.state, row.title, row.digest, row.run, row.call) == (
            "pending",
            "Refund 5?",
            "d1",
            "r1",
            "ok#0",
        )
        row = await decide(bench, approved=approved, comment="fine")
        told = await runner.hear(w.Entry)
        assert (told.kind, told.ok) == ("met", True)
        assert unpack(told.value) == {"approved": approved, "by": "ann", "comment": "fine"}
        assert row.state == ("approved" if approved else "denied")
        assert (await question(bench)) == row


@jumping
async def test_a_question_is_decided_once():
    async with Bench() as bench:
        await asked(bench)
        await decide(bench)
        for approved in (True, False):
            with pytest.raises(Refusal, match="is approved already, by ann"):
                await decide(bench, approved=approved, by="bob")
        assert (await bench.record()).count("met ok#0") == 1


@jumping
async def test_twenty_decisions_at_once_are_one():
    async with Bench() as bench:
        await asked(bench)
        found = await asyncio.gather(
            *(decide(bench, approved=n % 2 == 0, by=str(n)) for n in range(20)),
            return_exceptions=True,
        )
        decided = [one for one in found if not isinstance(one, Refusal)]
        assert len(decided) == 1
        assert (await question(bench)) == decided[0]
        assert (await bench.record()) == ["asked ok#0", "met ok#0"]


@jumping
async def test_a_decision_about_something_else_is_refused():
    async with Bench() as bench:
        await asked(bench)
        with pytest.raises(Refusal, match="is for d1, not for d2"):
            await decide(bench, digest="d2")
        with pytest.raises(Refusal, match="there is no approval"):
            await decide(bench, call="other#0")
        assert (await question(bench)).state == "pending"
        await decide(bench, digest="d1")


@jumping
async def test_a_decision_wakes_a_run_that_sleeps():
    async with Bench() as bench:
        runner, given, _ = await asked(bench)
        runner.suspend(given, 1)
        await bench.state("waiting")
        await decide(bench)
        again = await runner.given()
        assert [e.kind for e in again.entries] == ["asked", "met"]


@jumping
async def test_a_decision_that_came_early_meets_the_question_it_was_about():
    async with Bench() as bench:
        runner, given = await bench.given()
        await early(bench, approved=False)
        await early(bench)  # a later one replaces it
        entry = await runner.asked(given, "ok#0", "approve", **ABOUT)
        assert (entry.kind, unpack(entry.value)) == (
            "met",
            {"approved": True, "by": "eve", "comment": "early"},
        )
        row = await question(bench)
        assert (row.state, row.by) == ("approved", "eve")
        with pytest.raises(Refusal, match="is approved already, by eve"):
            await decide(bench)
        assert await bench.inner.page("early", None, 0, 10) == []


@jumping
async def test_an_early_decision_about_something_else_is_kept_and_counts_for_nothing():
    async with Bench() as bench:
        runner, given = await bench.given()
        await early(bench, digest="d2")
        entry = await runner.asked(given, "ok#0", "approve", **ABOUT)
        assert entry.kind == "asked"
        assert (await question(bench)).state == "pending"
        assert len(await bench.inner.page("early", None, 0, 10)) == 1
        await decide(bench)
        assert unpack((await runner.hear(w.Entry)).value)["by"] == "ann"


@jumping
async def test_an_early_decision_needs_a_run_that_is_open_and_a_question_not_asked():
    async with Bench() as bench:
        with pytest.raises(Refusal, match="there is no open run r1"):
            await early(bench)
        runner, given, _ = await asked(bench)
        with pytest.raises(Refusal, match="call ok#0 of run r1 was asked: decide"):
            await early(bench)
        runner.finish(given, 1)
        await bench.state("completed")
        with pytest.raises(Refusal, match="there is no open run r1"):
            await early(bench, call="other#0")


@pytest.mark.parametrize("turns", range(8))
@pytest.mark.parametrize("first", ["early", "ask"])
@jumping
async def test_an_early_decision_and_its_question_at_once_never_miss_each_other(first, turns):
    async with Bench() as bench:
        runner, given = await bench.given()

        async def decides():
            try:
                await early(bench)
            except Refusal:
                await decide(bench, by="eve")

        if first == "ask":
            runner.ask(given, "ok#0", "approve", **ABOUT)
            await bench.turn(turns)
            await decides()
        else:
            deciding = asyncio.ensure_future(decides())
            await bench.turn(turns)
            runner.ask(given, "ok#0", "approve", **ABOUT)
            await deciding
        entry = await runner.hear(w.Entry, kind="met")
        assert unpack(entry.value)["by"] == "eve"
        assert (await question(bench)).state == "approved"


@jumping
async def test_a_question_expires_and_is_then_decided():
    async with Bench() as bench:
        runner, _, _ = await asked(bench, for_ms=3000)
        runner.lives()
        over = await runner.hear(w.Entry)
        assert (over.kind, over.ok, over.value) == ("met", False, NIL)
        row = await question(bench)
        assert (row.state, row.by) == ("expired", "")
        with pytest.raises(Refusal, match="is expired already, by time"):
            await decide(bench)


@jumping
async def test_a_question_that_was_decided_in_time_does_not_expire():
    async with Bench() as bench:
        runner, _, _ = await asked(bench, for_ms=3000)
        runner.lives()
        await decide(bench)
        await asyncio.sleep(10)
        assert (await question(bench)).state == "approved"
        assert (await bench.record()) == ["asked ok#0", "met ok#0"]


@pytest.mark.parametrize("turns", range(14))
@jumping
async def test_time_and_a_decision_at_once_decide_once(turns):
    async with Bench() as bench:
        runner, _, _ = await asked(bench, for_ms=3000)
        bench.clock.wall_back_ms = -3000
        bench.engine.look_at_clock()
        await bench.turn(turns)
        try:
            await decide(bench)
            want = ("approved", True)
        except Refusal:
            want = ("expired", False)
        entry = await runner.hear(w.Entry)
        await bench.turn()
        assert ((await question(bench)).state, entry.ok) == want
        assert (await bench.record()) == ["asked ok#0", "met ok#0"]


@pytest.mark.parametrize("outcome", ["completed", "failed"])
@jumping
async def test_a_question_is_withdrawn_when_its_run_ends(outcome):
    async with Bench() as bench:
        runner, given, _ = await asked(bench, for_ms=60_000)
        runner.finish(given, 1, outcome)
        await bench.state(outcome)
        assert (await question(bench)).state == "withdrawn"
        with pytest.raises(Refusal, match="is withdrawn already"):
            await decide(bench)
        assert not await bench.inner.due(1 << 60, 10)


@pytest.mark.parametrize("turns", range(10))
@jumping
async def test_a_decision_and_the_runs_end_at_once_are_told_apart(turns):
    async with Bench() as bench:
        runner, given, _ = await asked(bench)
        deciding = asyncio.ensure_future(decide(bench))
        await bench.turn(turns)
        runner.finish(given, 1)
        try:
            await deciding
        except Refusal:
            assert (await bench.state("completed")).state == "completed"
            assert (await question(bench)).state == "withdrawn"
        else:
            await bench.turn()
            assert (await question(bench)).state == "approved"
            runner.finish(given, 2)
            await bench.state("completed")


@jumping
async def test_a_question_of_a_run_that_needs_a_person_can_be_decided():
    async with Bench() as bench:
        runner, given, _ = await asked(bench)
        runner.say(w.Park("r1", given.epoch, "why"))
        await bench.state("needs_attention")
        await decide(bench)
        assert (await bench.row()).state == "needs_attention"
        await bench.engine.resume("r1")
        again = await runner.given()
        assert [e.kind for e in again.entries] == ["asked", "met"]
