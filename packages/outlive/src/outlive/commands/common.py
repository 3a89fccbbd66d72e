"""What commands share: options, one line for each failure, times as people read them."""

from __future__ import annotations

import datetime as dt
import functools
import sys
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

import click
import msgspec

from outlive.client import DEFAULT_ENGINE, ApiRefused, Client, EngineAway

__all__ = [
    "CannotStart",
    "F",
    "address",
    "app_of",
    "app_option",
    "asks",
    "client",
    "engine_option",
    "json_of",
    "json_option",
    "shown",
    "span",
    "stamp",
]

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
"""What a decorator gives back as it was given."""

REFUSED: Final = 1
AWAY: Final = 4

engine_option = click.option(
    "--engine",
    envvar="OUTLIVE_ENGINE",
    default=DEFAULT_ENGINE,
    show_default=True,
    help="Address of the engine (OUTLIVE_ENGINE); its key is read from OUTLIVE_KEY.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="What the engine answered.")
app_option = click.option(
    "--app", envvar="OUTLIVE_APP", default="", help="The app's name; needed if there are several."
)


class CannotStart(click.ClickException):
    """It cannot start as it was told to; the message has the remedy."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Print it."""
        click.echo(f"outlive: {self.message}", file=file or sys.stderr)


class _Fails(CannotStart):
    """The engine said no."""

    exit_code = REFUSED


class _Away(CannotStart):
    """It said nothing."""

    exit_code = AWAY


def asks(command: Callable[P, T]) -> Callable[P, T]:
    """Turn what the engine refuses, and its absence, into one line and an exit status."""

    @functools.wraps(command)
    def run(*args: P.args, **options: P.kwargs) -> T:
        try:
            return command(*args, **options)
        except ApiRefused as error:
            raise _Fails(str(error)) from None
        except EngineAway as error:
            raise _Away(str(error)) from None

    return run


def client(engine: str) -> Client:
    """A client; raises UsageError for an address that is none."""
    try:
        return Client(engine)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def app_of(engine: Client, given: str) -> str:
    """The app's name: as given, or the only one that the engine knows; raises UsageError."""
    if given:
        return given
    names = sorted(engine.get("/v1/apps")["apps"])
    if len(names) == 1:
        return str(names[0])
    there = f"it knows {', '.join(names)}" if names else "no runner has connected yet"
    raise click.UsageError(f"which app? say --app NAME: {there}")


def json_of(text: str, what: str) -> Any:
    """A value typed as JSON; raises UsageError."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise click.UsageError(f"{what} {text[:60]!r} is no JSON: {error}") from None


def address(listen: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT` or `[HOST]:PORT`; raises UsageError."""
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise click.UsageError(f"--listen {listen!r} is no HOST:PORT: write 127.0.0.1:6770")
    return host.removeprefix("[").removesuffix("]"), int(port)


def shown(answer: Any) -> None:
    """Print an answer of the engine as JSON."""
    click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())


def stamp(at_ms: int | None) -> str:
    """An instant in local time."""
    if at_ms is None:
        return ""
    when = dt.datetime.fromtimestamp(at_ms / 1000).astimezone()
    form = "%H:%M:%S" if when.date() == dt.datetime.now().astimezone().date() else "%F %T"
    return f"{when.strftime(form)}.{when.microsecond // 1000:03d}"


def span(ms: float) -> str:
    """A duration, to its largest two units."""
    seconds = abs(ms) / 1000
    if seconds < 1:
        return f"{abs(ms):.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    units = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
    parts: list[str] = []
    left = int(seconds)
    for unit, size in units:
        if left >= size or parts:
            parts.append(f"{left // size}{unit}")
            left %= size
    return " ".join(parts[:2])
