"""`outlive runner`."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from typing import Any

import click

from outlive.commands.common import F, client, engine_option

__all__ = ["command", "runner_options"]


def runner_options(command: F) -> F:
    """Options that `outlive up` hands on to its wardens."""
    for option in (
        click.option(
            "--room",
            type=click.IntRange(1, 1_000_000),
            default=1000,
            show_default=True,
            help="How many runs a worker has at once.",
        ),
        click.option(
            "--threads",
            type=click.IntRange(1, 10_000),
            default=64,
            show_default=True,
            help="How many `def` steps a worker runs at once.",
        ),
        click.option(
            "--replay-always",
            is_flag=True,
            help="Replay each run after each step, to find code that drifts; slow.",
        ),
    ):
        command = option(command)
    return command


@click.command
@click.argument("target", metavar="APP")
@engine_option
@runner_options
@click.option("--name", default="", help="What lists call it; host and process if not given.")
@click.option("--report-fd", type=int, hidden=True, help="Tell sessions there.")
@click.option("--parent", type=int, hidden=True, help="End when that process, our parent, ends.")
def command(*, engine: str, parent: int | None, report_fd: int | None, **options: Any) -> None:
    """Run an app for an engine. APP is FILE.py or MODULE, with :NAME if it has several apps.

    This process is the warden: the code runs in a worker below it, which is ended before its lease
    is, started again when it dies, and told to finish what runs when this gets SIGTERM.
    """
    if parent is not None:
        from outlive.supervise.parent import die_with

        die_with(parent, signal.SIGTERM)
    level = os.environ.get("OUTLIVE_LOG", "WARNING").upper()
    logging.basicConfig(level=level, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    client(engine)
    sys.exit(asyncio.run(_run(engine, report_fd, level, options)))


async def _run(engine: str, report_fd: int | None, level: str, given: dict[str, Any]) -> int:
    from outlive.supervise.reports import Told, tell
    from outlive.supervise.warden import Options, Warden

    name = given["name"] or f"{os.uname().nodename}:{os.getpid()}"
    options = Options(
        target=given["target"],
        engine=engine,
        name=name,
        room=given["room"],
        threads=given["threads"],
        replay_always=given["replay_always"],
        log_level=level,
    )
    if report_fd is not None:
        os.set_inheritable(report_fd, False)

    def report(told: Told) -> None:
        if report_fd is not None:
            tell(report_fd, told)
        elif told.session:
            click.echo(f"outlive runner {name}: worker {told.pid} is ready")

    warden = Warden(options, report=report)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, warden.stop)
    return await warden.run()
