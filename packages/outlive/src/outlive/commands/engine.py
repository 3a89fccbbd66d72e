"""`outlive engine`."""

from __future__ import annotations

import logging
import os
import signal
from typing import Final

import click

from outlive.commands.common import CannotStart, F, address

__all__ = ["command", "engine_options"]

STORE: Final = "sqlite:///outlive.db"


def engine_options(command: F) -> F:
    """Options that `outlive up` hands on to its engine."""
    for option in (
        click.option(
            "--store",
            envvar="OUTLIVE_STORE",
            default=STORE,
            show_default=True,
            help="Where everything durable is kept: sqlite:///PATH, or memory: (nothing is).",
        ),
        click.option(
            "--listen",
            metavar="HOST:PORT",
            default="127.0.0.1:6770",
            show_default=True,
            help="Where runners and clients find it; port 0 takes a free one.",
        ),
        click.option(
            "--ttl",
            "ttl_s",
            type=click.FloatRange(0.1, 3600),
            default=6.0,
            show_default=True,
            help="Seconds that a runner's lease holds without a beat.",
        ),
        click.option(
            "--grace",
            "grace_s",
            type=click.FloatRange(0, 3600),
            default=3.0,
            show_default=True,
            help="Seconds that a runner whose connection broke has to come back.",
        ),
        click.option("--test-clock", is_flag=True, help="Let POST /v1/test/clock jump its clock."),
    ):
        command = option(command)
    return command


@click.command
@engine_options
@click.option("--ready-fd", type=int, hidden=True, help="Write the address there once it answers.")
@click.option("--parent", type=int, hidden=True, help="End when that process, our parent, ends.")
def command(
    *,
    store: str,
    listen: str,
    ttl_s: float,
    grace_s: float,
    test_clock: bool,
    ready_fd: int | None,
    parent: int | None,
) -> None:
    """Run an engine: it keeps every run's record and gives runs to runners.

    It needs OUTLIVE_KEY in its environment to listen anywhere else than on loopback.
    """
    if parent is not None:
        from outlive.supervise.parent import die_with

        die_with(parent, signal.SIGTERM)
    logging.basicConfig(
        level=os.environ.get("OUTLIVE_LOG", "WARNING").upper(),
        format="%(asctime)s engine %(name)s %(levelname)s %(message)s",
    )
    from outlive.server.engine import Leases
    from outlive.server.main import CannotServe, Options, run
    from outlive.store.api import StoreFault

    host, port = address(listen)

    def ready(url: str) -> None:
        if ready_fd is not None:
            os.write(ready_fd, f"{url}\n".encode())
            os.close(ready_fd)
        else:
            click.echo(f"outlive engine: {url}, {store}")

    options = Options(
        store=store,
        host=host,
        port=port,
        key=os.environ.get("OUTLIVE_KEY", ""),
        test_clock=test_clock,
        leases=Leases(ttl_s=ttl_s, grace_s=grace_s),
    )
    try:
        run(options, ready)
    except (CannotServe, StoreFault) as error:
        raise CannotStart(str(error)) from None
