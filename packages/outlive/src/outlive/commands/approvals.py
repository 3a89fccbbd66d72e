"""`outlive approvals`."""

from __future__ import annotations

import getpass

import click
import msgspec

from outlive.client import part
from outlive.commands.common import asks, client, engine_option, json_option, shown, stamp

__all__ = ["command"]


@click.group
def command() -> None:
    """List questions to people, and answer them."""


@command.command("list")
@click.option(
    "--state",
    default="pending",
    show_default=True,
    help="pending, approved, denied, expired, withdrawn or all.",
)
@json_option
@engine_option
@asks
def list_(*, state: str, as_json: bool, engine: str) -> None:
    """List questions, the oldest first."""
    answer = client(engine).get("/v1/approvals", {"state": state, "limit": 1000})
    if as_json:
        shown(answer)
        return
    for one in answer["approvals"]:
        until = f", until {stamp(one['until_ms'])}" if one.get("until_ms") else ""
        click.echo(f"{one['id']}  {one['state']}  {one['title']}")
        click.echo(f"    run {one['run']}, {one['call']}, {stamp(one['asked_ms'])}{until}")
        if one["details"] is not None:
            click.echo(f"    {msgspec.json.encode(one['details']).decode()}")
        if one.get("by") or one.get("comment"):
            click.echo(f"    by {one['by']}: {one['comment']}")
    if not answer["approvals"]:
        click.echo(f"no question is {state}" if state != "all" else "no question was asked")


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _decide(approval: str, *, approve: bool, by: str, comment: str, digest: str, url: str) -> None:
    api = client(url)
    shows = digest or api.get(f"/v1/approvals/{part(approval)}")["digest"]
    answer = api.decide(approval, approve=approve, by=by or _who(), comment=comment, digest=shows)
    click.echo(f"{answer['id']} {answer['state']}: {answer['title']}")


_by = click.option("--by", default="", help="Who decides; the user's name if not given.")
_comment = click.option("--comment", default="", help="What the run is told with it.")
_digest = click.option("--digest", default="", help="Decide only if it asks about exactly this.")


@command.command
@click.argument("approval")
@_by
@_comment
@_digest
@engine_option
@asks
def approve(*, approval: str, by: str, comment: str, digest: str, engine: str) -> None:
    """Say yes."""
    _decide(approval, approve=True, by=by, comment=comment, digest=digest, url=engine)


@command.command
@click.argument("approval")
@_by
@_comment
@_digest
@engine_option
@asks
def deny(*, approval: str, by: str, comment: str, digest: str, engine: str) -> None:
    """Say no."""
    _decide(approval, approve=False, by=by, comment=comment, digest=digest, url=engine)
