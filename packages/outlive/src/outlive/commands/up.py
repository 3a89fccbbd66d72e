"""`outlive up`."""

from __future__ import annotations

import asyncio
import logging
import os
import signal

import click

from outlive.commands.common import CannotStart, address
from outlive.commands.engine import engine_options
from outlive.commands.runner import runner_options

__all__ = ["command"]


@click.command
@click.argument("target", metavar="APP")
@click.option(
    "--runners",
    type=click.IntRange(1, 100),
    default=2,
    show_default=True,
    help="How many workers: with two, the second goes on where the first died.",
)
@engine_options
@runner_options
def command(
    *,
    target: str,
    runners: int,
    store: str,
    listen: str,
    ttl_s: float,
    grace_s: float,
    test_clock: bool,
    room: int,
    threads: int,
    replay_always: bool,
) -> None:
    """Run an app: an engine, wardens and workers, each started again when it ends.

    APP is FILE.py or MODULE, with :NAME if it has several apps. SIGTERM or Ctrl-C lets what runs
    finish first; the second one does not.
    """
    logging.basicConfig(
        level=os.environ.get("OUTLIVE_LOG", "WARNING").upper(),
        format="%(asctime)s %(name)s %(levelname)s %(message)s",
    )
    from outlive.supervise.up import EngineOptions, Up, UpFailed

    host, port = address(listen)
    engine = ["--store", store, "--ttl", f"{ttl_s}", "--grace", f"{grace_s}"]
    engine += ["--test-clock"] if test_clock else []
    warden = [target, "--room", f"{room}", "--threads", f"{threads}"]
    warden += ["--replay-always"] if replay_always else []

    async def run() -> None:
        up = Up(EngineOptions(host, port, engine), warden, runners, say=_say)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, up.stop)
        await up.run()

    try:
        asyncio.run(run())
    except UpFailed as error:
        if str(error):
            raise CannotStart(str(error)) from None
        raise click.exceptions.Exit(2) from None


def _say(line: str) -> None:
    click.echo(f"outlive up: {line}")
