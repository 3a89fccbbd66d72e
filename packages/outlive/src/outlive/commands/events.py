"""`outlive events`."""

from __future__ import annotations

import click

from outlive.commands.common import (
    app_of,
    app_option,
    asks,
    client,
    engine_option,
    json_of,
    json_option,
    shown,
)

__all__ = ["command"]


@click.group
def command() -> None:
    """Send events."""


@command.command
@click.argument("name")
@click.argument("data", metavar="[DATA]", default="null")
@app_option
@click.option("--id", "event_id", default="", help="Send it once, however often this is typed.")
@json_option
@engine_option
@asks
def send(*, name: str, data: str, app: str, event_id: str, as_json: bool, engine: str) -> None:
    """Send the event NAME: it starts workflows and meets waits. DATA is JSON."""
    api = client(engine)
    answer = api.send(app_of(api, app), name, json_of(data, "DATA"), id=event_id)
    if as_json:
        shown(answer)
        return
    click.echo(f"event {answer['id']} {'sent' if answer['new'] else 'had been sent before'}")
    for run_id in answer["started"]:
        click.echo(f"started {run_id}")
