"""Children: started once with the wait for them, ended in one commit with what that wakes."""

from __future__ import annotations

import asyncio

import pytest

from engine_link import CODEC, NIL, Bench, jumping, unpack
from outlive.core.keys import effect_key
from outlive.wire import native_v1 as w

CHILD = effect_key("r1", "c#0")


async def parent(bench, **about):
    runner, given = await bench.given(room=20)
    entry = await runner.asked(given, "c#0", "child", workflow="flow", input=NIL, **about)
    return runner, given, entry


def commit_with(bench, run_id, kind="run"):
    """The commits that wrote a record."""
    return [c for c in bench.store.applied if any(p[:2] == (kind, run_id) for p in c.put)]


@jumping
async def test_a_child_and_the_wait_for_it_are_one_commit_and_its_id_is_known():
    async with Bench() as bench:
        runner, _, entry = await parent(bench)
        assert (entry.kind, unpack(entry.value)[0]) == ("asked", "child")
        row = await bench.row(CHILD)
        assert (row.parent, row.parent_call, row.app) == ("r1", "c#0", "a")
        made = commit_with(bench, CHILD)[0]
        parent_no = (await bench.row()).no
        assert [item.run_no for item in made.append] == [row.no, parent_no]
        await runner.given(CHILD)


@jumping
async def test_a_child_that_is_asked_for_again_is_the_same():
    async with Bench() as bench:
        runner, given, _ = await parent(bench)
        for _ in range(3):
            runner.ask(given, "c#0", "child", workflow="flow", input=NIL)
        await bench.turn()
        assert await bench.record() == ["asked c#0"]
        assert len(await bench.inner.page("run", None, 0, 10)) == 2


@pytest.mark.parametrize("outcome", ["completed", "failed"])
@jumping
async def test_a_childs_end_and_the_parents_wake_are_one_commit(outcome):
    async with Bench() as bench:
        runner, given, _ = await parent(bench)
        runner.suspend(given, 1)
        await bench.state("waiting")
        child = await runner.given(CHILD)
        value = 7 if outcome == "completed" else ["ValueError", "no", None]
        runner.finish(child, 0, outcome, value)
        again = await runner.given("r1")
        last = again.entries[-1]
        assert (last.kind, last.call, last.ok) == ("met", "c#0", outcome == "completed")
        assert CODEC.decode(last.value) == value
        (ended,) = [c for c in commit_with(bench, CHILD) if c in commit_with(bench, "r1")]
        assert {p.tag for p in ended.put if p.kind == "run"} == {outcome, "queued"}


@jumping
async def test_a_childs_end_reaches_a_parent_that_runs():
    async with Bench() as bench:
        runner, given, _ = await parent(bench)
        child = await runner.given(CHILD)
        runner.finish(child, 0, value=7)
        entry = await runner.hear(w.Entry)
        assert (entry.kind, entry.call, CODEC.decode(entry.value)) == ("met", "c#0", 7)
        runner.finish(given, 2)
        await bench.state("completed")


@jumping
async def test_a_detached_child_is_known_by_its_id_and_not_waited_for():
    async with Bench() as bench:
        runner, given, entry = await parent(bench, detached=True)
        assert (entry.kind, CODEC.decode(entry.value)) == ("met", CHILD)
        runner.finish(given, 1)
        await bench.state("completed")
        child = await runner.given(CHILD)
        runner.finish(child, 0)
        await bench.state("completed", CHILD)
        assert await bench.record() == ["met c#0"]


@jumping
async def test_a_childs_end_after_its_parents_changes_nothing_there():
    async with Bench() as bench:
        runner, given, _ = await parent(bench)
        runner.finish(given, 1)
        await bench.state("completed")
        child = await runner.given(CHILD)
        runner.finish(child, 0)
        await bench.state("completed", CHILD)
        assert await bench.record() == ["asked c#0"]


@jumping
async def test_a_childs_end_reaches_a_parent_that_needs_a_person():
    async with Bench() as bench:
        runner, given, _ = await parent(bench)
        child = await runner.given(CHILD)
        runner.say(w.Park("r1", given.epoch, "why"))
        await bench.state("needs_attention")
        runner.finish(child, 0)
        await bench.state("completed", CHILD)
        assert await bench.record() == ["asked c#0", "met c#0"]
        assert (await bench.row()).state == "needs_attention"


@jumping
async def test_an_id_that_another_has_used_is_for_a_person():
    async with Bench() as bench:
        await bench.start(CHILD)
        runner, given = await bench.given("r1")
        runner.ask(given, "c#0", "child", workflow="flow", input=NIL)
        await runner.hear(w.Evict, run="r1")
        row = await bench.row()
        assert row.state == "needs_attention"
        assert row.cause == f"c#0 starts run {CHILD}, which is another's: ids are used once"


@pytest.mark.parametrize("turns", range(12))
@jumping
async def test_a_childs_end_and_its_parents_suspend_at_once(turns):
    async with Bench() as bench:
        runner, given, _ = await parent(bench)
        child = await runner.given(CHILD)
        runner.finish(child, 0, value=7)
        await bench.turn(turns)
        runner.suspend(given, 1)
        await bench.turn(100)
        if (await bench.row()).epoch == 1:
            assert (await runner.hear(w.Entry, run="r1")).kind == "met"
        else:
            assert (await runner.given()).entries[-1].kind == "met"


@jumping
async def test_twenty_children_end_at_once_and_none_is_missed():
    async with Bench() as bench:
        runner, given = await bench.given(room=50)
        for n in range(20):
            await runner.asked(given, f"c#{n}", "child", workflow="flow", input=NIL)
        runner.suspend(given, 20)
        await bench.state("waiting")
        children = [await runner.given(effect_key("r1", f"c#{n}")) for n in range(20)]
        for child in children:
            runner.finish(child, 0)
        await bench.turn(500)
        record = await bench.record()
        assert sorted(record[20:]) == sorted(f"met c#{n}" for n in range(20))
        epochs = [m.epoch for m in runner.heard if isinstance(m, w.Dispatch) and m.run == "r1"]
        assert epochs == sorted(set(epochs))
        assert (await bench.row()).state == "running"
        assert asyncio.get_running_loop().time() < 1010
