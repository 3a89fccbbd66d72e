"""`outlive runs`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec

from outlive.client import FINAL, Client, part
from outlive.commands.common import (
    app_of,
    app_option,
    asks,
    client,
    engine_option,
    json_of,
    json_option,
    shown,
    span,
    stamp,
)

__all__ = ["command"]

WIDTH: Final = 100
PAGE: Final = 1000


@click.group
def command() -> None:
    """Start, list, show, cancel and resume runs."""


@command.command
@click.argument("workflow")
@click.argument("value", metavar="[INPUT]", default="null")
@app_option
@click.option("--id", "run_id", default="", help="Start it once, however often this is typed.")
@click.option("--wait", is_flag=True, help="Wait for its result and print it as JSON.")
@engine_option
@asks
def start(*, workflow: str, value: str, app: str, run_id: str, wait: bool, engine: str) -> None:
    """Start a run of WORKFLOW. INPUT is JSON."""
    api = client(engine)
    given = json_of(value, "INPUT")
    run_id = api.start(workflow, given, app=app_of(api, app), id=run_id)
    if not wait:
        click.echo(run_id)
        return
    found = api.run(run_id)
    while found["state"] not in FINAL and found["state"] != "needs_attention":
        found = api.run(run_id, wait_s=30)
    if found["state"] == "completed":
        shown(found.get("result"))
        return
    click.echo(f"outlive: run {run_id} is {found['state']}: {_why(found)}", err=True)
    sys.exit(1)


@command.command("list")
@click.option("--app", envvar="OUTLIVE_APP", default=None, help="Of one app only.")
@click.option("--state", default=None, help="In one state only: queued, running, waiting, ...")
@click.option(
    "--limit",
    type=click.IntRange(1, 1_000_000),
    default=50,
    show_default=True,
    help="How many; the newest come last.",
)
@click.option("--after", type=int, default=0, help="Go on where the page before ended.")
@json_option
@engine_option
@asks
def list_(
    *, app: str | None, state: str | None, limit: int, after: int, as_json: bool, engine: str
) -> None:
    """List runs in the order in which they were started."""
    api = client(engine)
    found: list[dict[str, Any]] = []
    more: int | None = after
    while more is not None and len(found) < limit:
        query = {"app": app, "state": state, "after": more, "limit": min(PAGE, limit - len(found))}
        page = api.get("/v1/runs", query)
        found += page["runs"]
        more = page["after"]
    if as_json:
        shown({"runs": found, "after": more})
        return
    rows = [("run", "workflow", "state", "started", "")]
    rows += [
        (run["id"], run["workflow"], run["state"], stamp(run["started_ms"]), _short(run))
        for run in found
    ]
    _columns(rows)
    if more is not None:
        click.echo(f"more: --after {more}")


@command.command
@click.argument("run_id", metavar="RUN")
@json_option
@engine_option
@asks
def show(*, run_id: str, as_json: bool, engine: str) -> None:
    """Show a run: its record, who has it, why it does not move, what will move it and when."""
    api = client(engine)
    run = api.get(f"/v1/runs/{part(run_id)}")
    steps = api.get(f"/v1/runs/{part(run_id)}/steps")["steps"]
    if as_json:
        shown({**run, "steps": steps})
        return
    click.echo(f"run {run['id']}: {run['workflow']} of {run['app']}")
    click.echo(f"state {run['state']}, owner number {run['epoch']}{_deaths(run)}")
    click.echo("")
    rows: list[tuple[str, ...]] = [(stamp(run["started_ms"]), "started", "", "")]
    rows += [_step(step) for step in steps]
    if run["state"] in FINAL:
        rows.append((stamp(run["changed_ms"]), run["state"], "", _outcome(run)))
    _columns(rows)
    if run["state"] not in FINAL:
        click.echo(f"\nwhy it does not move: {run['why']}")
        for one in run["next"]:
            click.echo(f"what will move it:    {_next(api, one)}")


@command.command
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
@engine_option
@asks
def cancel(*, run_ids: tuple[str, ...], engine: str) -> None:
    """Cancel runs: what is in flight is recorded, clean-up runs, children are cancelled too."""
    api = client(engine)
    for run_id in run_ids:
        click.echo(f"{run_id} {api.cancel(run_id)['state']}")


@command.command
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
@engine_option
@asks
def resume(*, run_ids: tuple[str, ...], engine: str) -> None:
    """Have runs that need attention tried again."""
    api = client(engine)
    for run_id in run_ids:
        click.echo(f"{run_id} {api.post(f'/v1/runs/{part(run_id)}/resume', {})['state']}")


@command.command
@click.argument("run_id", metavar="RUN")
@click.argument("call")
@click.argument("value")
@engine_option
@asks
def supply(*, run_id: str, call: str, value: str, engine: str) -> None:
    """Give a step's result, as JSON VALUE, when it happened and its own could not be stored."""
    body = {"value": json_of(value, "VALUE")}
    answer = client(engine).post(f"/v1/runs/{part(run_id)}/steps/{part(call)}", body)
    click.echo(f"{run_id} {answer['state']}")


# --- showing --------------------------------------------------------------------------------------


def _columns(rows: Sequence[tuple[str, ...]]) -> None:
    wide = [max(len(row[n]) for row in rows) for n in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, wide, strict=False)]
        click.echo("  ".join([*cells, row[-1]]).rstrip())


def _value(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= WIDTH else f"{text[:WIDTH]}... ({len(text):,} characters)"


def _error(error: Any) -> str:
    if not isinstance(error, dict):
        return _value(error)
    return f"{error['type']}: {error['message']}"[: 2 * WIDTH].replace("\n", " ")


def _outcome(run: dict[str, Any]) -> str:
    return _error(run["error"]) if run.get("error") else _value(run.get("result"))


def _why(run: dict[str, Any]) -> str:
    return str(run.get("cause") or run.get("why") or _outcome(run))


def _short(run: dict[str, Any]) -> str:
    if run.get("cause"):
        return str(run["cause"])[:WIDTH]
    return _outcome(run) if run["state"] in {"completed", "failed"} else ""


def _deaths(run: dict[str, Any]) -> str:
    return f", {run['deaths']} of its processes died" if run.get("deaths") else ""


def _step(step: dict[str, Any]) -> tuple[str, ...]:
    attempt = step.get("attempt", 0)
    what = f"{step['kind']}{f' (attempt {attempt})' if attempt > 1 else ''}"
    if step["kind"] == "asked":
        told = f"for {step['wait']}"
        if step.get("due_ms") is not None:
            told += f", until {stamp(step['due_ms'])}"
    elif step["kind"] == "tried":
        told = f"{_error(step['error'])}; again at {stamp(step['again_ms'])}"
    elif step["ok"]:
        told = _value(step["value"]) if step.get("value") is not None else ""
    else:
        told = _error(step["error"]) if step.get("error") else "its time ran out"
    return stamp(step["at_ms"]), what, step["call"], told


def _next(api: Client, one: dict[str, Any]) -> str:
    told = str(one["what"])
    if one.get("call"):
        told = f"{one['call']}: {told}"
    if one.get("at_ms") is not None:
        left = one["at_ms"] - api.get("/v1/ready")["now_ms"]
        told += f" at {stamp(one['at_ms'])} ({'in ' if left > 0 else 'due for '}{span(left)})"
    elif one.get("in_s") is not None:
        told += f", in {one['in_s']:g} s at most"
    return told
