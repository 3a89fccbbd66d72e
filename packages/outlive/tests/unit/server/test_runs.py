"""Runs: started once, owned by one epoch at a time, and moved only by its messages."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from engine_link import CODEC, NIL, SAID, Bench, jumping, pack
from outlive.server.engine import Refusal
from outlive.wire import native_v1 as w


def dispatches(*runners):
    return [m for runner in runners for m in runner.heard if isinstance(m, w.Dispatch)]


# --- start ---


@jumping
async def test_an_id_is_used_once_whatever_has_become_of_the_run():
    async with Bench() as bench:
        value = CODEC.encode({"a": 1})
        first, new = await bench.engine.start("a", "flow", "r1", value)
        assert new
        again, new = await bench.engine.start("a", "flow", "r1", value)
        assert not new
        assert (again.no, again.made_ms) == (first.no, first.made_ms)
        for app, workflow, other in (
            ("b", "flow", value),
            ("a", "other", value),
            ("a", "flow", NIL),
        ):
            with pytest.raises(Refusal, match="run r1 exists with another workflow or input"):
                await bench.engine.start(app, workflow, "r1", other)
        runner = await bench.ready_runner()
        given = await runner.given()
        runner.finish(given, 0)
        await bench.state("completed")
        again, new = await bench.engine.start("a", "flow", "r1", value)
        assert (new, again.state) == (False, "completed")
        with pytest.raises(Refusal):
            await bench.engine.start("a", "flow", "r1", NIL)
        await bench.turn()
        assert len(dispatches(runner)) == 1


@jumping
async def test_twenty_starts_of_one_id_at_once_make_one_run():
    async with Bench() as bench:
        runner = await bench.ready_runner()
        found = await asyncio.gather(
            *(bench.engine.start("a", "flow", "r1", NIL) for _ in range(20))
        )
        assert [new for _, new in found].count(True) == 1
        assert len({row.no for row, _ in found}) == 1
        await runner.given()
        await bench.turn()
        assert len(dispatches(runner)) == 1


@jumping
async def test_what_start_answers_is_what_was_stored_and_not_what_happened_since():
    async with Bench() as bench:
        await bench.ready_runner()
        row = await bench.start()
        await bench.turn()
        assert row.state == "queued"
        assert (await bench.row()).state == "running"


@jumping
async def test_a_run_waits_for_a_runner_of_its_app_that_has_its_workflow():
    async with Bench() as bench:
        await bench.start()
        other = await bench.ready_runner("b")
        lacks = await bench.ready_runner(workflows={"other": []})
        await bench.turn()
        assert not dispatches(other, lacks)
        runner = await bench.ready_runner()
        given = await runner.given()
        assert (given.workflow, given.input, given.last_seq) == ("flow", NIL, 0)


@jumping
async def test_a_runner_is_given_what_it_has_room_for_and_the_rest_when_there_is_more():
    async with Bench() as bench:
        runner = await bench.ready_runner(room=2)
        for n in range(5):
            await bench.start(f"r{n}")
        await bench.turn()
        first = dispatches(runner)
        assert [d.run for d in first] == ["r0", "r1"]
        runner.finish(first[1], 0)
        await runner.given("r2")
        runner.suspend(first[0], 0)
        await bench.turn()
        assert len(dispatches(runner)) == 4


@jumping
async def test_runs_are_spread_over_the_runners_that_have_least():
    async with Bench() as bench:
        runners = [await bench.ready_runner() for _ in range(4)]
        for n in range(12):
            await bench.start(f"r{n}")
        await bench.turn()
        assert [len(dispatches(runner)) for runner in runners] == [3, 3, 3, 3]


# --- owners ---


@jumping
async def test_twenty_runners_wait_for_one_run_and_one_gets_it():
    async with Bench() as bench:
        runners = [await bench.ready_runner(room=1) for _ in range(20)]
        await bench.start()
        await bench.turn()
        (given,) = dispatches(*runners)
        assert given.epoch == 1


@jumping
async def test_a_run_that_becomes_ready_in_twenty_ways_at_once_has_one_owner():
    async with Bench() as bench:
        first, given = await bench.given()
        for n in range(20):
            await first.asked(given, f"e#{n}", "event", name=f"e{n}")
        first.suspend(given, 20)
        await bench.state("waiting")
        runners = [await bench.ready_runner(room=1) for _ in range(20)]
        await asyncio.gather(
            *(bench.engine.send("a", f"e{n}", "1", NIL) for n in range(19)),
            bench.engine.send("a", "e19", "1", NIL),
        )
        await bench.turn(200)
        (again,) = dispatches(*runners, first)[1:]
        assert again.epoch == 2
        assert again.last_seq == 40


@jumping
async def test_twenty_runners_that_return_with_one_run_leave_one_owner():
    async with Bench() as bench:
        runner, given = await bench.given()
        others = [bench.runner() for _ in range(20)]
        for other in others:
            await other.hello(have=[w.Have("r1", given.epoch, 0)])
            assert (
                (await other.hear(w.Evict)).run == "r1"
                if other.beat(w.Have("r1", given.epoch, 0))
                else None
            )
            other.done(given, "s#0")
        await bench.turn()
        assert await bench.record() == []
        runner.done(given, "s#0")
        await runner.hear(w.Entry)


@jumping
async def test_epochs_only_grow():
    async with Bench() as bench:
        epochs = []
        await bench.start()
        for n in range(6):
            runner = await bench.ready_runner()
            given = await runner.given()
            runner.done(given, f"s#{n}")
            await runner.hear(w.Entry)
            epochs.append(given.epoch)
            if n % 2:
                runner.say(w.Bye())
                await runner.gone()
            else:
                await bench.engine.dead(runner.session, runner.token)
            if n == 3:
                await bench.kill()
        assert epochs == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("kind", SAID)
@jumping
async def test_a_message_of_an_old_epoch_is_answered_by_evict_and_changes_nothing(kind):
    async with Bench() as bench:
        old, first = await bench.given()
        await bench.engine.dead(old.session, old.token)
        runner = await bench.ready_runner()
        second = await runner.given()
        before = await bench.inner.page("run", None, 0, 10)
        # From the present owner itself, from the old one that came back, and from a stranger.
        await old.back()
        stranger = await bench.ready_runner()
        for speaker in (runner, old, stranger):
            speaker.say(SAID[kind](first, first.epoch))
            evict = await speaker.hear(w.Evict)
            assert (evict.run, evict.epoch) == ("r1", first.epoch)
        for speaker in (old, stranger):
            speaker.say(SAID[kind](first, second.epoch))
            assert (await speaker.hear(w.Evict)).epoch == second.epoch
        runner.say(SAID[kind](first, second.epoch + 1))
        assert (await runner.hear(w.Evict)).epoch == second.epoch + 1
        await bench.turn()
        assert await bench.inner.page("run", None, 0, 10) == before
        assert await bench.record() == []
        runner.done(second, "s#0")
        assert (await runner.hear(w.Entry)).seq == 1


@pytest.mark.parametrize("kind", SAID)
@jumping
async def test_another_apps_run_is_not_touched(kind):
    async with Bench() as bench:
        _, given = await bench.given()
        other = await bench.ready_runner("b")
        other.say(SAID[kind](given, given.epoch))
        assert (await other.hear(w.Evict)).run == "r1"
        assert await bench.record() == []
        assert (await bench.row()).state == "running"


@pytest.mark.parametrize("kind", SAID)
@jumping
async def test_a_message_about_a_run_that_never_was_is_answered_by_evict(kind):
    async with Bench() as bench:
        runner = await bench.ready_runner()
        runner.say(SAID[kind](w.Dispatch("ghost", 3, "flow", NIL, 0, 0, []), 3))
        assert await runner.hear(w.Evict) == w.Evict("ghost", 3)


# --- the record ---


@jumping
async def test_done_is_recorded_once_and_answered_without_its_value_once_it_is_durable():
    async with Bench() as bench:
        runner, given = await bench.given()
        bench.store.hold()
        runner.done(given, "s#0", {"a": 1}, attempt=3)
        runner.done(given, "s#0", {"a": 1}, attempt=3)
        await bench.turn()
        assert not runner.after()
        bench.store.let_go()
        entry = await runner.hear(w.Entry)
        assert (entry.seq, entry.kind, entry.call, entry.ok) == (1, "done", "s#0", True)
        assert (entry.value, entry.attempt) == (b"", 3)
        runner.done(given, "s#0", "something else")
        await bench.turn()
        assert not runner.after()
        assert await bench.record() == ["done s#0"]


@jumping
async def test_a_done_whose_answer_was_lost_is_answered_alike_at_the_beats():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.done(given, "s#0", {"a": 1})
        await runner.hear(w.Entry)
        for _ in range(2):  # it says it has nothing, twice
            runner.done(given, "s#0", {"a": 1})
            runner.beat(w.Have("r1", given.epoch, 0))
            await bench.turn()
        entry = await runner.hear(w.Entry)
        assert (entry.seq, entry.call, CODEC.decode(entry.value)) == (1, "s#0", {"a": 1})
        assert await bench.record() == ["done s#0"]


@jumping
async def test_messages_in_any_order_make_one_record_of_each():
    async with Bench() as bench:
        runner = await bench.ready_runner(room=100)
        runs = []
        for n, order in enumerate(itertools.permutations(range(4))):
            await bench.start(f"r{n}")
            given = await runner.given(f"r{n}")
            messages = [
                w.Started(given.run, given.epoch, "s#0"),
                w.Tried(given.run, given.epoch, "s#0", 1, NIL, 5),
                w.Done(given.run, given.epoch, "s#0", 2, True, NIL),
                w.Ask(given.run, given.epoch, "n#0", "sleep", pack({"for_ms": 9_000_000})),
            ]
            for at in (*order, *order):
                runner.say(messages[at])
            runs.append(given.run)
        await bench.turn(300)
        for run in runs:
            record = await bench.record(run)
            assert sorted(set(record)) == sorted(record)
            assert {"done s#0", "asked n#0"} <= set(record)
            assert set(record) <= {"done s#0", "asked n#0", "tried s#0"}
            live = bench.engine.book.live[run]
            assert not live.bodies or record.index("done s#0") >= 0


@jumping
async def test_an_attempt_is_recorded_once_and_an_older_one_never_after_it():
    async with Bench() as bench:
        runner, given = await bench.given()
        for attempt in (1, 2, 1, 2, 3):
            runner.say(w.Tried("r1", given.epoch, "s#0", attempt, NIL, 7))
        await bench.turn()
        assert await bench.record() == ["tried s#0"] * 3
        runner.done(given, "s#0", attempt=4)
        runner.say(w.Tried("r1", given.epoch, "s#0", 5, NIL, 7))
        await bench.turn()
        assert await bench.record() == ["tried s#0"] * 3 + ["done s#0"]


@jumping
async def test_entries_are_numbered_without_a_gap_and_sent_in_order():
    async with Bench() as bench:
        runner, given = await bench.given()
        for n in range(50):
            runner.done(given, f"s#{n}")
            runner.ask(given, f"n#{n}", "event", name=f"e{n % 7}")
            if n % 10 == 0:
                await bench.turn()
        await bench.turn(500)
        entries = [m for m in runner.after() if isinstance(m, w.Entry)]
        assert [e.seq for e in entries] == list(range(1, 101))
        times = [e.at_ms for e in entries]
        assert times == sorted(times)


# --- the end ---


@jumping
async def test_finish_counts_only_with_the_last_entry_and_is_answered_once_it_is_durable():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.done(given, "s#0")
        runner.finish(given, 0)
        await bench.turn()
        assert (await bench.row()).state == "running"
        bench.store.hold()
        runner.finish(given, 1, value=7)
        runner.finish(given, 1, value=8)
        await bench.turn()
        assert not [m for m in runner.heard if isinstance(m, w.Evict)]
        bench.store.let_go()
        await runner.hear(w.Evict)
        row = await bench.row()
        assert (row.state, CODEC.decode(row.value), row.session) == ("completed", 7, "")
        runner.finish(given, 1, "failed")
        await runner.hear(w.Evict)
        assert (await bench.row()).state == "completed"


@pytest.mark.parametrize("outcome", ["cancelled", "nonsense", ""])
@jumping
async def test_an_end_that_cannot_be_is_for_a_person(outcome):
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.finish(given, 0, outcome)
        await runner.hear(w.Evict)
        row = await bench.row()
        assert row.state == "needs_attention"
        assert f"it ended as {outcome!r}, which a running run cannot" in row.cause


@jumping
async def test_a_result_that_cannot_be_stored_has_happened_and_a_person_may_supply_it():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.done(given, "s#0", "a set is no value", ok=False, refused=True)
        await runner.hear(w.Evict)
        row = await bench.row()
        assert row.state == "needs_attention"
        assert row.cause == "s#0 happened and its result cannot be stored: supply one"
        assert await bench.record() == ["refused s#0"]
        with pytest.raises(Refusal, match="call t#0 of run r1 has no result that was refused"):
            await bench.engine.supply("r1", "t#0", NIL)
        await bench.engine.supply("r1", "s#0", CODEC.encode(5))
        again = await runner.given()
        assert [(e.kind, e.call, e.value) for e in again.entries] == [
            ("refused", "s#0", CODEC.encode("a set is no value")),
            ("done", "s#0", CODEC.encode(5)),
        ]
        with pytest.raises(Refusal, match="has no result that was refused"):
            await bench.engine.supply("r1", "s#0", NIL)


@jumping
async def test_a_result_above_the_cap_is_refused_too():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.say(w.Done("r1", given.epoch, "s#0", 1, True, b"\0" * ((16 << 20) + 1)))
        await runner.hear(w.Evict)
        assert (await bench.row()).state == "needs_attention"
        assert await bench.record() == ["refused s#0"]


@jumping
async def test_a_final_value_above_the_cap_is_for_a_person():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.say(w.Finish("r1", given.epoch, 0, "completed", b"\0" * ((16 << 20) + 1)))
        await runner.hear(w.Evict)
        row = await bench.row()
        assert (row.state, row.value) == ("needs_attention", b"")
        assert "its result has 16,777,217 bytes, the most is 16,777,216" in row.cause


@jumping
async def test_park_says_why_and_resume_gives_the_run_out_again():
    async with Bench() as bench:
        runner, given = await bench.given()
        with pytest.raises(Refusal, match="run r1 is running and needs no attention"):
            await bench.engine.resume("r1")
        runner.say(w.Park("r1", given.epoch, "the code has changed"))
        await runner.hear(w.Evict)
        row = await bench.row()
        assert (row.state, row.cause, row.session) == (
            "needs_attention",
            "the code has changed",
            "",
        )
        assert (await bench.engine.resume("r1")).state == "queued"
        assert (await runner.given()).epoch == 2
        assert (await bench.row()).cause == ""
        with pytest.raises(Refusal, match="there is no run r9"):
            await bench.engine.resume("r9")


# --- suspend ---


@jumping
async def test_suspend_counts_only_with_the_last_entry_and_lets_go_of_the_run():
    async with Bench() as bench:
        runner, given = await bench.given()
        await runner.asked(given, "n#0", "event", name="e")
        runner.suspend(given, 0)
        await bench.turn()
        assert (await bench.row()).state == "running"
        runner.suspend(given, 1)
        await runner.hear(w.Evict)
        row = await bench.row()
        assert (row.state, row.asleep, row.session) == ("waiting", True, "")
        assert not bench.engine.book.live


@jumping
async def test_a_run_that_waits_for_nothing_is_for_a_person():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.suspend(given, 0)
        await runner.hear(w.Evict)
        row = await bench.row()
        assert (row.state, row.cause) == (
            "needs_attention",
            "it waits for nothing that could ever happen",
        )


@jumping
async def test_a_run_sleeps_until_its_next_attempt_is_due():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.lives()
        due = bench.clock.wall_ms() + 60_000
        runner.say(w.Tried("r1", given.epoch, "s#0", 1, NIL, due))
        await runner.hear(w.Entry)
        runner.suspend(given, 1)
        await bench.state("waiting")
        again = await runner.given()
        assert due <= bench.clock.wall_ms() <= due + 1100
        assert [e.kind for e in again.entries] == ["tried"]
        runner.done(again, "s#0", attempt=2)
        await runner.hear(w.Entry, kind="done")
        runner.finish(again, 2)
        await bench.state("completed")
        assert not await bench.inner.due(1 << 60, 10)


@jumping
async def test_an_event_wakes_a_run_that_sleeps_until_its_next_attempt():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.say(
            w.Tried("r1", given.epoch, "s#0", 1, NIL, bench.clock.wall_ms() + 60_000),
        )
        await runner.asked(given, "e#0", "event", name="e")
        runner.suspend(given, 2)
        await bench.state("waiting")
        await bench.engine.send("a", "e", "1", NIL)
        again = await runner.given()
        assert [e.kind for e in again.entries] == ["tried", "asked", "met"]
        runner.suspend(again, 3)
        await bench.state("waiting")
        runner.lives()
        await runner.given()


# --- effects ---


@jumping
async def test_a_mark_is_recorded_once_and_an_end_says_how_many_are_unsettled():
    async with Bench() as bench:
        runner, given = await bench.given()
        for call in ("s#0", "t#0", "u#0", "v#0"):
            for _ in range(2):
                runner.ask(given, call, "mark", key=call, dialect="keyed")
        await bench.turn()
        assert await bench.record() == [f"marked {call}" for call in ("s#0", "t#0", "u#0", "v#0")]
        runner.done(given, "s#0")
        runner.done(given, "t#0", ok=False)
        runner.ask(given, "v#0!1", "mark", key="v#0!1", dialect="keyed", trial=1)
        runner.done(given, "v#0")
        await bench.turn()
        runner.finish(given, 8, "failed", ["Error", "no", None])
        await bench.state("failed")
        assert (await bench.row()).unsettled == 2


@jumping
async def test_what_is_unsettled_is_known_after_a_restart():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.ask(given, "s#0", "mark", key="k", dialect="keyed")
        runner.ask(given, "t#0", "mark", key="l", dialect="keyed")
        runner.done(given, "t#0")
        await bench.turn()
        await bench.kill()
        runner.up = False
        await runner.back(w.Have("r1", given.epoch, 3))
        runner.ask(given, "s#0", "mark", key="k", dialect="keyed")
        runner.finish(given, 3)
        await bench.state("completed")
        assert await bench.record() == ["marked s#0", "marked t#0", "done t#0"]
        assert (await bench.row()).unsettled == 1
