"""Sessions: hello and its answers, breaks and returns, and the three ways in which one ends."""

from __future__ import annotations

import asyncio

import pytest

from engine_link import Bench, jumping
from outlive.server.engine import Refusal
from outlive.wire import native_v1 as w


def have(given, seq=0):
    return w.Have(given.run, given.epoch, seq)


# --- hello ---


@jumping
async def test_a_runner_is_welcomed_with_a_session_a_token_and_the_ttl():
    async with Bench() as bench:
        welcome = await bench.runner().hello()
        assert welcome.session
        assert welcome.token
        assert welcome.ttl_ms == 6000
        assert welcome.now_ms == bench.clock.wall_ms()


@jumping
async def test_two_runners_under_one_name_have_a_session_each():
    async with Bench() as bench:
        one, two = await bench.ready_runner(room=1), await bench.ready_runner(room=1)
        assert one.session != two.session
        await bench.start("r1")
        await bench.start("r2")
        await bench.turn()
        runs = {type(m).__name__: m for m in one.after() + two.after()}
        assert runs.keys() == {"Dispatch"}
        assert {d.session.id for d in bench.engine.book.live.values()} == {
            one.session,
            two.session,
        }


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"app": ""}, "'' is no name"),
        ({"app": "a\0b"}, "'a\\x00b' is no name"),
        ({"runner": "x" * 201}, "is no name: use 1 to 200"),
        ({"workflows": {"f": ["\n"]}}, "'\\n' is no name"),
        ({"room": 0}, "room 0 is out of range"),
        ({"room": 1 << 40}, "room 1099511627776 is out of range"),
    ],
)
@jumping
async def test_a_hello_that_cannot_be_kept_is_refused_and_says_why(options, cause):
    async with Bench() as bench:
        runner = bench.runner()
        answer = await runner.hello(**options)
        assert isinstance(answer, w.Refused)
        assert cause in answer.cause
        await runner.gone()
        assert not bench.engine.sessions.all


@jumping
async def test_the_first_message_is_hello():
    async with Bench() as bench:
        runner = bench.runner()
        runner.dial()
        runner.beat()
        assert "the first message is hello" in (await runner.hear(w.Refused)).cause
        await runner.gone()


@jumping
async def test_hello_twice_on_one_connection_ends_it_and_nothing_after_it_counts():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.say(
            w.Hello("a", {"flow": []}, "told", 1), w.Done("r1", given.epoch, "s#0", 1, True, b"\1")
        )
        assert "twice" in (await runner.hear(w.Refused)).cause
        runner.done(given, "s#0")
        await runner.gone()
        assert await bench.record() == []


@jumping
async def test_a_runner_that_hangs_up_before_it_is_welcomed_has_no_connection():
    async with Bench() as bench:
        runner = bench.runner()
        runner.dial()
        bench.store.hold()
        runner.say(w.Hello("a", {"flow": []}, "told", 1))
        await bench.turn()
        runner.cut()
        bench.store.let_go()
        await bench.turn()
        (session,) = bench.engine.sessions.all.values()
        assert session.link is None
        await bench.start()
        await asyncio.sleep(7)
        assert not bench.engine.sessions.all
        assert (await bench.row()).state == "queued"


# --- breaks ---


@jumping
async def test_a_closed_connection_is_no_death_and_the_session_returns_under_the_same_epoch():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.done(given, "s#0", 1)
        await runner.hear(w.Entry, call="s#0")
        runner.cut()
        await asyncio.sleep(2.9)
        session = runner.session
        assert (await runner.back(have(given, 1))).session == session
        runner.done(given, "t#0", 2)
        entry = await runner.hear(w.Entry)
        assert (entry.seq, entry.epoch) == (2, given.epoch)
        assert not [m for m in runner.heard if isinstance(m, w.Evict)]


@jumping
async def test_after_the_grace_the_session_does_not_return():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.cut()
        await asyncio.sleep(3.1)
        session = runner.session
        assert (await runner.back(have(given))).session != session
        again = await runner.given()
        assert again.epoch > given.epoch


@jumping
async def test_a_wrong_token_or_another_app_gets_a_new_session():
    async with Bench() as bench:
        runner, given = await bench.given()
        session, token = runner.session, runner.token
        other = bench.runner()
        assert (await other.hello(session=session, token="guessed")).session != session
        third = bench.runner("b")
        assert (await third.hello(session=session, token=token)).session != session
        runner.done(given, "s#0")
        await runner.hear(w.Entry, call="s#0")


@jumping
async def test_a_return_that_the_engine_knew_of_no_break_takes_the_place_of_the_old_connection():
    async with Bench() as bench:
        runner, given = await bench.given()
        old = runner.peer, runner.wire
        await runner.back(have(given))
        old[0].received([w.Done("r1", given.epoch, "s#0", 1, True, b"\1")])
        await bench.turn()
        assert await bench.record() == []
        assert not old[1].up
        runner.done(given, "s#0")
        await runner.hear(w.Entry, call="s#0")


@jumping
async def test_what_was_missed_is_sent_again_on_return():
    async with Bench() as bench:
        runner, given = await bench.given()
        for n in range(5):
            runner.done(given, f"s#{n}", n)
        runner.cut()
        await bench.turn()
        await runner.back(have(given, 2))
        missed = [await runner.hear(w.Entry) for _ in range(3)]
        assert [(e.seq, e.value) for e in missed] == [(3, b"\2"), (4, b"\3"), (5, b"\4")]


@jumping
async def test_a_run_given_during_a_break_is_sent_on_return_but_not_before_it_is_stored():
    async with Bench() as bench:
        runner, given = await bench.given(room=1)
        await bench.start("r2")
        runner.cut()
        bench.store.hold()
        await runner.back(have(given), room=2)
        await bench.turn()
        assert "r2" in bench.engine.book.live
        runner.cut()
        await runner.back(have(given), room=2)
        await bench.turn()
        assert {m.run for m in runner.heard if isinstance(m, w.Dispatch)} == {"r1"}
        bench.store.let_go()
        await runner.given("r2")


# --- ends ---


@jumping
async def test_goodbye_ends_it_at_once_and_charges_nobody():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.say(w.Started("r1", given.epoch, "s#0"), w.Bye())
        other = await bench.ready_runner()
        again = await other.given()
        assert again.epoch > given.epoch
        assert (await bench.row()).deaths == 0


@jumping
async def test_a_confirmed_death_ends_it_at_once_and_charges_the_run_with_a_body_in_flight():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.done(given, "r#0")
        await runner.hear(w.Entry)
        await bench.start("r2")
        idle = await runner.given("r2")
        runner.done(idle, "x#0")
        runner.say(w.Started("r1", given.epoch, "s#0"))
        began = asyncio.get_running_loop().time()
        await bench.engine.dead(runner.session, runner.token)
        other = await bench.ready_runner()
        assert (await other.given("r1")).epoch > given.epoch
        assert (await other.given("r2")).epoch > idle.epoch
        assert asyncio.get_running_loop().time() - began < 0.1
        assert (await bench.row("r1")).deaths == 1
        assert (await bench.row("r2")).deaths == 0


@jumping
async def test_a_death_is_believed_only_with_the_token():
    async with Bench() as bench:
        runner, _ = await bench.given()
        with pytest.raises(Refusal, match="not the token"):
            await bench.engine.dead(runner.session, "guessed")
        with pytest.raises(Refusal, match="there is no session"):
            await bench.engine.dead("nobody", "guessed")
        assert bench.engine.sessions.all


@jumping
async def test_a_session_whose_beat_stays_the_same_for_its_ttl_has_ended_and_not_before():
    async with Bench() as bench:
        runner, given = await bench.given()
        for _ in range(10):
            runner.beat(have(given))
            await asyncio.sleep(5.9)
        assert runner.session in bench.engine.sessions.all
        assert runner.up
        await asyncio.sleep(0.7)
        assert not bench.engine.sessions.all
        assert not runner.up
        assert (await bench.row()).state == "queued"


@jumping
async def test_beats_are_answered_with_their_number_and_the_time():
    async with Bench() as bench:
        runner = await bench.ready_runner()
        number = runner.beat()
        accepted = await runner.hear(w.Accepted)
        assert (accepted.number, accepted.now_ms) == (number, bench.clock.wall_ms())


@jumping
async def test_a_warden_renews_while_connected_and_within_the_grace_only():
    async with Bench() as bench:
        runner, _ = await bench.given()
        for _ in range(10):
            assert bench.engine.renew(runner.session, runner.token) == 6.0
            await asyncio.sleep(5)
        bench.engine.renew(runner.session, runner.token)
        runner.cut()
        await asyncio.sleep(2.9)
        bench.engine.renew(runner.session, runner.token)
        await asyncio.sleep(0.2)
        with pytest.raises(Refusal, match="may not come back"):
            bench.engine.renew(runner.session, runner.token)
        with pytest.raises(Refusal, match="not the token"):
            bench.engine.renew(runner.session, "guessed")


@jumping
async def test_an_engine_that_was_stopped_itself_gives_beats_the_time_to_be_read():
    async with Bench() as bench:
        runner, given = await bench.given()
        asyncio.get_running_loop().now += 100
        await asyncio.sleep(0.6)
        assert runner.session in bench.engine.sessions.all
        runner.beat(have(given))
        await asyncio.sleep(3)
        assert runner.session in bench.engine.sessions.all


# --- a restart of the engine ---


@jumping
async def test_after_a_restart_the_session_returns_under_the_same_epoch_within_its_ttl():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.done(given, "s#0", 1)
        await runner.hear(w.Entry)
        await bench.kill()
        await asyncio.sleep(5)
        session = runner.session
        assert (await runner.back(have(given, 1))).session == session
        runner.done(given, "t#0")
        assert (await runner.hear(w.Entry)).seq == 2


@jumping
async def test_after_a_restart_a_session_that_does_not_return_ends_with_its_ttl():
    async with Bench() as bench:
        _, given = await bench.given()
        await bench.kill()
        other = await bench.ready_runner()
        other.lives()
        await asyncio.sleep(5)
        assert (await bench.row()).state == "running"
        assert not [m for m in other.after() if isinstance(m, w.Dispatch)]
        again = await other.given()
        assert again.epoch > given.epoch


@jumping
async def test_a_run_stored_as_running_whose_session_is_gone_is_released_at_restart():
    async with Bench() as bench:
        runner, given = await bench.given()
        bench.store.faults = ["", "before"]  # its session's end is stored, the run's release is not
        bench.engine.records.committer._failed = lambda _fault: None
        await bench.engine.dead(runner.session, runner.token)
        await bench.turn()
        await bench.kill()
        assert not bench.engine.sessions.all
        await bench.turn()
        assert (await bench.row()).state == "queued"
        again = await (await bench.ready_runner()).given()
        assert again.epoch > given.epoch
