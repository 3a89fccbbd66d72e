"""The HTTP API, path by path: what is answered, and what is said about bad input."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from engine_link import CODEC, NIL, Bench, jumping
from outlive.core.keys import effect_key
from outlive.server.http import ROUTES
from outlive.server.ports import TestClock
from outlive.wire import native_v1 as w

POSTS = sorted("/" + "/".join(path) for method, path in ROUTES if method == "POST")
BODY = {
    "/v1/runs": {"app": "a", "workflow": "flow"},
    "/v1/events": {"app": "a", "name": "e"},
    "/v1/approvals/{approval}": {"decision": "approve"},
    "/v1/runs/{run}/approvals/{call}": {"decision": "approve", "digest": "d"},
    "/v1/runs/{run}/steps/{call}": {"value": 1},
    "/v1/sessions/{session}/beat": {"token": "t"},
    "/v1/sessions/{session}/dead": {"token": "t"},
    "/v1/test/clock": {"advance_ms": 1},
}
"""What each path takes; the others take nothing."""


def filled(path):
    """The path with ids of nothing."""
    return path.replace("{", "no-").replace("}", "")


# --- runs ---


@jumping
async def test_runs_are_started_once_for_an_id_and_each_time_without_one():
    async with Bench() as bench:
        body = {"app": "a", "workflow": "flow", "id": "r1", "input": {"n": 1}}
        status, run = await bench.http("POST", "/v1/runs", body)
        assert status == 201
        assert (run["id"], run["app"], run["workflow"], run["state"]) == (
            "r1",
            "a",
            "flow",
            "queued",
        )
        assert run["started_ms"] == run["changed_ms"] == bench.clock.wall_ms()
        assert (await bench.http("POST", "/v1/runs", body))[0] == 200
        status, error = await bench.http("POST", "/v1/runs", {**body, "input": None})
        assert (status, error["error"]) == (
            409,
            "run r1 exists with another workflow or input: ids are used once",
        )
        del body["id"]
        first, second = [(await bench.http("POST", "/v1/runs", body))[1] for _ in range(2)]
        assert first["id"] != second["id"]


@jumping
async def test_a_run_shows_who_has_it_what_moves_it_and_its_end():
    async with Bench() as bench:
        await bench.start()
        _, run = await bench.http("GET", "/v1/runs/r1")
        assert run["why"] == "no runner has workflow flow of app a"
        full = await bench.ready_runner(workflows={"other": []}, room=1, runner="busy")
        await bench.start("o1", "other")
        await full.given("o1")
        full.cut()
        await full.back(*full.have.values(), workflows={"flow": [], "other": []}, room=1)
        _, run = await bench.http("GET", "/v1/runs/r1")
        assert run["why"] == "1 of 1 runners are full or away"
        runner = await bench.ready_runner(runner="anna", versions={"python": "3.11.7"})
        given = await runner.given()
        runner.say(w.Started("r1", given.epoch, "s#0"))
        _, run = await bench.http("GET", "/v1/runs/r1")
        assert (run["state"], run["holder"], run["epoch"]) == ("running", "anna", 1)
        assert run["why"] == "runner anna runs s#0"
        assert run["versions"] == {"python": "3.11.7"}
        assert run["next"][0]["in_s"] == 6.0
        runner.cut()
        _, run = await bench.http("GET", "/v1/runs/r1")
        assert run["why"] == "runner anna has it and is not connected"
        await runner.back(*runner.have.values())
        runner.ask(given, "m#0", "mark", key="k", dialect="keyed")
        await runner.asked(given, "e#0", "event", name="paid", for_ms=60_000)
        await runner.asked(given, "ok#0", "approve", title="Sure?", details=NIL, digest="d")
        await runner.asked(given, "c#0", "child", workflow="leaf", input=NIL)
        await runner.asked(given, "n#0", "sleep", for_ms=90_000)
        runner.suspend(given, 5)
        await bench.state("waiting")
        _, run = await bench.http("GET", "/v1/runs/r1")
        assert run["why"] == "it waits for 4 things"
        assert [one["what"] for one in run["next"]] == [
            "event paid",
            "a person: Sure?",
            "the end of a run of leaf",
            "its time",
        ]
        assert run["next"][0]["at_ms"] == bench.clock.wall_ms() + 60_000
        await bench.engine.send("a", "paid", "1", NIL)
        given = await runner.given()
        runner.finish(given, 6, value={"refund": 5})
        _, run = await bench.http("GET", "/v1/runs/r1", wait=30)
        assert (run["state"], run["result"], run["unsettled"]) == ("completed", {"refund": 5}, 1)
        assert "why" not in run
        assert run["versions"] == {"python": "3.11.7"}


@jumping
async def test_an_error_and_a_cause_are_shown():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.finish(given, 0, "failed", ["ValueError", "no", ["no"]])
        _, run = await bench.http("GET", "/v1/runs/r1", wait=1)
        assert run["error"] == {"type": "ValueError", "message": "no"}
        await bench.start("r2")
        given = await runner.given("r2")
        runner.say(w.Park("r2", given.epoch, "drift"))
        _, run = await bench.http("GET", "/v1/runs/r2", wait=1)
        assert (run["state"], run["cause"], run["why"]) == ("needs_attention", "drift", "drift")


@jumping
async def test_a_large_result_is_whole_in_its_run_and_only_its_size_in_lists():
    async with Bench() as bench:
        runner, given = await bench.given()
        text = "x" * 1_000_000
        runner.finish(given, 0, value=text)
        _, run = await bench.http("GET", "/v1/runs/r1", wait=5)
        assert run["result"] == text
        _, run = await bench.http("GET", "/v1/runs/r1")
        assert run["result"] == text
        _, found = await bench.http("GET", "/v1/runs")
        (run,) = found["runs"]
        assert "result" not in run
        assert run["value_bytes"] == len(CODEC.encode(text))
        (record,) = await bench.inner.page("run", None, 0, 10)
        assert len(record.body) < 1000


@jumping
async def test_runs_are_listed_by_state_and_app_page_by_page():
    async with Bench() as bench:
        for n in range(7):
            await bench.engine.start("b" if n % 3 == 0 else "a", "flow", f"r{n}", NIL)
        await bench.engine.cancel("r4")

        async def pages(**query):
            after, found = 0, []
            while after is not None:
                status, page = await bench.http("GET", "/v1/runs", after=after, **query)
                assert status == 200
                found.append([run["id"] for run in page["runs"]])
                after = page["after"]
            return found

        assert await pages() == [[f"r{n}" for n in range(7)]]
        assert await pages(limit=3) == [["r0", "r1", "r2"], ["r3", "r4", "r5"], ["r6"]]
        assert await pages(limit=7) == [[f"r{n}" for n in range(7)]]
        assert await pages(state="cancelled") == [["r4"]]
        assert await pages(state="queued", limit=6) == [["r0", "r1", "r2", "r3", "r5", "r6"]]
        assert [run for page in await pages(app="b", limit=2) for run in page] == ["r0", "r3", "r6"]
        assert await pages(app="c") == [[]]
        status, error = await bench.http("GET", "/v1/runs", state="sad")
        assert status == 400
        assert error["error"].startswith("there is no state 'sad'; there are queued, running,")


@jumping
async def test_a_record_is_shown_entry_by_entry_with_the_size_of_what_is_large():
    async with Bench() as bench:
        runner, given = await bench.given()
        runner.say(
            w.Tried("r1", given.epoch, "s#0", 1, CODEC.encode_error(OSError("flaky")), 5),
            w.Done("r1", given.epoch, "s#0", 2, True, CODEC.encode({"n": b"\0"})),
            w.Done("r1", given.epoch, "t#0", 1, False, CODEC.encode_error(KeyError("k"))),
            w.Done("r1", given.epoch, "u#0", 1, True, CODEC.encode("y" * 70_000)),
        )
        runner.ask(given, "n#0", "sleep", for_ms=1000)
        await bench.turn()
        status, found = await bench.http("GET", "/v1/runs/r1/steps")
        assert status == 200
        tried, done, failed, large, asked = found["steps"]
        assert (tried["kind"], tried["attempt"], tried["again_ms"]) == ("tried", 1, 5)
        assert tried["error"] == {"type": "OSError", "message": "flaky"}
        assert (done["call"], done["value"]) == ("s#0", {"n": {"base64": "AA=="}})
        assert failed["error"] == {"type": "KeyError", "message": "'k'"}
        assert large["value_bytes"] == 70_005
        assert "value" not in large
        assert (asked["wait"], asked["due_ms"]) == ("its time", bench.clock.wall_ms() + 1000)
        _, found = await bench.http("GET", "/v1/runs/r1/steps", after=1, limit=2)
        assert [step["seq"] for step in found["steps"]] == [2, 3]


@jumping
async def test_cancel_resume_and_supply_by_http():
    async with Bench() as bench:
        runner, given = await bench.given()
        status, error = await bench.http("POST", "/v1/runs/r1/resume")
        assert (status, error["error"]) == (409, "run r1 is running and needs no attention")
        runner.say(w.Done("r1", given.epoch, "s#0", 1, False, NIL, True))
        await bench.state("needs_attention")
        status, run = await bench.http("POST", "/v1/runs/r1/steps/s%230", {"value": {"n": 1}})
        assert (status, run["state"]) == (200, "queued")
        again = await runner.given()
        assert CODEC.decode(again.entries[-1].value) == {"n": 1}
        status, run = await bench.http("POST", "/v1/runs/r1/cancel")
        assert (status, run["state"]) == (200, "cancelling")
        runner.finish(again, 3, "cancelled")
        await bench.state("cancelled")
        status, error = await bench.http("POST", "/v1/runs/r1/cancel")
        assert (status, error["error"]) == (409, "run r1 has ended already: cancelled")


# --- events and questions ---


@jumping
async def test_events_by_http():
    async with Bench() as bench:
        await bench.ready_runner(workflows={"flow": ["e"]})
        body = {"app": "a", "name": "e", "id": "x", "data": [1]}
        status, sent = await bench.http("POST", "/v1/events", body)
        assert (status, sent["id"], sent["new"], len(sent["started"])) == (201, "x", True, 1)
        status, sent = await bench.http("POST", "/v1/events", body)
        assert (status, sent) == (200, {"id": "x", "new": False, "started": []})
        del body["id"]
        _, sent = await bench.http("POST", "/v1/events", body)
        assert sent["new"]


@jumping
async def test_questions_by_http():
    async with Bench() as bench:
        runner, given = await bench.given()
        about = {"title": "Sure?", "details": CODEC.encode({"n": 1}), "digest": "d"}
        status, kept = await bench.http(
            "POST",
            "/v1/runs/r1/approvals/early%230",
            {"decision": "deny", "digest": "d", "by": "eve"},
        )
        assert (status, kept) == (202, {"kept": True})
        entry = await runner.asked(given, "early#0", "approve", **about)
        assert entry.kind == "met"
        await runner.asked(given, "ok#0", "approve", for_ms=60_000, **about)
        status, found = await bench.http("GET", "/v1/approvals")
        (shown,) = found["approvals"]
        assert shown == {
            "id": effect_key("r1", "ok#0"),
            "run": "r1",
            "call": "ok#0",
            "title": "Sure?",
            "details": {"n": 1},
            "digest": "d",
            "state": "pending",
            "asked_ms": bench.clock.wall_ms(),
            "until_ms": bench.clock.wall_ms() + 60_000,
        }
        path = f"/v1/approvals/{shown['id']}"
        status, error = await bench.http("POST", path, {"decision": "approve", "digest": "z"})
        assert status == 409
        status, decided = await bench.http(
            "POST", path, {"decision": "approve", "by": "ann", "comment": "fine", "digest": "d"}
        )
        assert (status, decided["state"], decided["by"]) == (200, "approved", "ann")
        assert (await bench.http("GET", path))[1] == decided
        status, error = await bench.http("POST", path, {"decision": "deny"})
        assert (status, error["error"][-28:]) == (409, " is approved already, by ann")
        _, found = await bench.http("GET", "/v1/approvals", state="all")
        assert [one["state"] for one in found["approvals"]] == ["denied", "approved"]
        assert (await bench.http("GET", "/v1/approvals"))[1] == {"approvals": []}
        assert (await bench.http("GET", "/v1/approvals", state="sad"))[0] == 400
        assert (await bench.http("GET", "/v1/approvals/none"))[0] == 404
        status, error = await bench.http("POST", path, {"decision": "perhaps"})
        assert (status, error["error"]) == (400, "decision 'perhaps' is neither approve nor deny")
        status, error = await bench.http(
            "POST", "/v1/runs/r1/approvals/z%230", {"decision": "approve"}
        )
        assert (status, error["error"][:17]) == (400, "digest is missing")


# --- sessions, and the engine itself ---


@jumping
async def test_sessions_by_http():
    async with Bench() as bench:
        runner = await bench.ready_runner(runner="anna", versions={"app": "7"})
        path = f"/v1/sessions/{runner.session}"
        token = {"token": runner.token}
        assert (await bench.http("POST", f"{path}/beat", token)) == (200, {"ttl_s": 6.0})
        assert (await bench.http("POST", f"{path}/beat", {"token": "guess"}))[0] == 403
        _, found = await bench.http("GET", "/v1/apps")
        (shown,) = found["apps"]["a"]["runners"]
        assert (shown["name"], shown["connected"], shown["versions"]) == (
            "anna",
            True,
            {"app": "7"},
        )
        assert (await bench.http("POST", f"{path}/dead", {"token": "guess"}))[0] == 403
        assert (await bench.http("POST", f"{path}/dead", token)) == (200, {"ended": True})
        for what in ("beat", "dead"):
            status, error = await bench.http("POST", f"{path}/{what}", token)
            assert (status, "or it has ended" in error["error"]) == (410, True)


@jumping
async def test_health_ready_and_a_store_that_is_away():
    async with Bench() as bench:
        assert await bench.http("GET", "/v1/health") == (200, {"alive": True})
        status, ready = await bench.http("GET", "/v1/ready")
        assert (status, ready["ready"], ready["sessions"]) == (200, True, 0)
        bench.engine.ready, bench.engine.fault = False, "disk full"
        assert (await bench.http("GET", "/v1/health"))[0] == 200
        for method, pattern in ROUTES:
            path = filled("/" + "/".join(pattern))
            if path != "/v1/health":
                status, error = await bench.http(method, path)
                assert status == 503, path
                assert "disk full" in error["error"]
        bench.engine.ready = True


@jumping
async def test_a_store_that_fails_meanwhile_is_said_and_can_be_asked_again():
    async with Bench() as bench:
        bench.store.faults = ["before"]
        body = {"app": "a", "workflow": "flow", "id": "r1"}
        status, error = await bench.http("POST", "/v1/runs", body)
        assert (status, error["error"][:28]) == (503, "the store failed, ask again:")
        await bench.until(lambda: bench.engine.ready)
        assert (await bench.http("POST", "/v1/runs", body))[0] == 201
        bench.defects.clear()


@jumping
async def test_only_a_test_clock_jumps():
    async with Bench() as bench:
        status, error = await bench.http("POST", "/v1/test/clock", {"advance_ms": 1})
        assert (status, "--test-clock" in error["error"]) == (404, True)
        bench.engine.clock = clock = TestClock()
        bench.engine.numbers._clock = clock
        before = clock.wall_ms()
        status, now = await bench.http("POST", "/v1/test/clock", {"advance_ms": 86_400_000})
        assert status == 200
        assert now["now_ms"] >= before + 86_400_000
        for by_ms in (-1, 10**30):
            status, error = await bench.http("POST", "/v1/test/clock", {"advance_ms": by_ms})
            assert (status, "out of range" in error["error"]) == (400, True)


# --- bad input ---


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"nonsense",
        b"[]",
        b"null",
        b'"text"',
        b"{}",
        b'{"strange": 1}',
        b"\xff\xfe",
        b"[" * 10_000 + b"]" * 10_000,
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        b"NaN",
        b'{"app": NaN}',
    ],
    ids=lambda body: body[:12].decode("latin-1"),
)
@jumping
async def test_a_body_that_is_not_what_is_expected_is_said_in_one_line(path, body):
    async with Bench() as bench:
        if path == "/v1/test/clock":
            bench.engine.clock = TestClock()
        status, error = await bench.http("POST", filled(path), body)
        takes_none = path not in BODY
        assert status in ({404, 400} if takes_none else {400})
        assert "\n" not in error["error"]
        assert await bench.inner.page("run", None, 0, 10) == []


BAD_VALUES = {
    "NaN": b"NaN",
    "infinite": b"1e999",
    "half a pair": b'"\\ud800"',
    "half a pair in a key": b'{"\\ud800": 1}',
    "deep": b"[" * 10_000 + b"]" * 10_000,
    "101 deep": b"[" * 101 + b"]" * 101,
    "not closed": b"[1",
    "a control character": b'"\x00"',
}


@pytest.mark.parametrize("value", BAD_VALUES)
@pytest.mark.parametrize(
    ("path", "name"),
    [("/v1/runs", "input"), ("/v1/events", "data"), ("/v1/runs/no-run/steps/no-call", "value")],
)
@jumping
async def test_a_value_that_cannot_be_stored_is_said(path, name, value):
    async with Bench() as bench:
        pattern = "/v1/runs/{run}/steps/{call}" if "steps" in path else path
        body = {key: one for key, one in BODY[pattern].items() if key != name}
        whole = json.dumps(body)[:-1].encode() + (b", " if body else b"")
        whole += b'"%s": %s}' % (name.encode(), BAD_VALUES[value])
        status, error = await bench.http("POST", path, whole)
        assert status == 400, error
        assert "\n" not in error["error"]
        assert len(error["error"]) < 400


@pytest.mark.parametrize("name", ["", "\0", "a\nb", "x" * 201, "\x1f"])
@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/runs", "app"),
        ("/v1/runs", "workflow"),
        ("/v1/runs", "id"),
        ("/v1/events", "app"),
        ("/v1/events", "name"),
        ("/v1/events", "id"),
    ],
)
@jumping
async def test_a_name_that_cannot_be_kept_is_said(path, field, name):
    async with Bench() as bench:
        status, answer = await bench.http("POST", path, {**BODY[path], field: name})
        if field == "id" and not name:
            assert status == 201  # as if it had none
        else:
            assert status == 400
            assert "is no name: use 1 to 200 characters" in answer["error"]


@jumping
async def test_ids_are_whatever_a_path_can_say():
    async with Bench() as bench:
        for run in ("a/b", "ü ö", "..", "r#1?x=%20", "a+b", "'\"`;--"):
            body = {"app": "a", "workflow": "flow", "id": run}
            assert (await bench.http("POST", "/v1/runs", body))[0] == 201
            status, found = await bench.http("GET", f"/v1/runs/{quote(run, safe='')}")
            assert (status, found["id"]) == (200, run)


@pytest.mark.parametrize("path", ["%00", "%ff%fe", "%ed%a0%80", "x" * 5000, "%", "%zz"])
@jumping
async def test_an_id_of_nothing_is_not_found_whatever_it_is(path):
    async with Bench() as bench:
        for method, pattern in ROUTES:
            whole = "/" + "/".join(pattern)
            if "{" in whole:
                for name in ("{run}", "{call}", "{approval}", "{session}"):
                    whole = whole.replace(name, path)
                body = BODY.get("/" + "/".join(pattern))
                status, error = await bench.http(method, whole, body)
                assert status in {404, 409, 410}, (whole, error)


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "x"},
        {"limit": -1},
        {"limit": 1001},
        {"limit": "nan"},
        {"limit": "inf"},
        {"after": -1},
        {"after": 1 << 63},
        {"after": "1e400"},
    ],
    ids=str,
)
@jumping
async def test_a_number_out_of_range_is_said(query):
    async with Bench() as bench:
        status, error = await bench.http("GET", "/v1/runs", **query)
        assert status == 400
        assert "out of range: 0 to" in error["error"]
        status, error = await bench.http("GET", "/v1/runs/r1", wait=61)
        assert (status, error["error"]) == (400, "wait=61 is out of range: 0 to 60")


@pytest.mark.parametrize("raw", [b"%", b"%ff=%ff", b"=", b"&&&", b"limit=&limit=2", b"\xff\xff"])
@jumping
async def test_a_query_that_is_none_is_no_defect(raw):
    async with Bench() as bench:
        status, _ = await bench.http("GET", "/v1/runs", raw_query=raw)
        assert status == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "X"])
@jumping
async def test_a_method_that_a_path_has_not_is_said_with_those_it_has(method):
    async with Bench() as bench:
        status, error = await bench.http(method, "/v1/runs")
        assert (status, error["error"]) == (405, f"/v1/runs has no {method}, but POST, GET")
        assert (await bench.http("GET", "/v1/events"))[0] == 405
        for path in ("/", "/v1", "/v1/", "/v2/runs", "/v1/runs/", "/v1/runs/a/b/c/d", "/v1//runs"):
            status, error = await bench.http(method, path)
            assert status in {404, 405}, path


@jumping
async def test_a_defect_in_showing_is_answered_and_disturbs_nobody(monkeypatch):
    async with Bench() as bench:
        runner, _ = await bench.given()

        async def broken(*_args):
            raise ZeroDivisionError

        monkeypatch.setattr("outlive.server.http.run_view", broken)
        status, error = await bench.http("GET", "/v1/runs/r1")
        assert (status, error["error"]) == (
            500,
            "a defect of the engine; its log has the details",
        )
        await bench.turn()
        assert runner.up
        assert bench.store.opens == 1
