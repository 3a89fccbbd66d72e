"""The matrix command: `python -m crashpoint.harness.matrix`, also `crashpoint matrix`."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Final, TextIO

import click

from crashpoint.adapters import registry
from crashpoint.canonical import parse
from crashpoint.harness.context import command_line
from crashpoint.harness.lock import NameTaken, name_lock
from crashpoint.harness.progress import Progress, progress_for
from crashpoint.harness.run import Interrupted, MatrixSpec, run_matrix
from crashpoint.harness.summary import EXIT_UNCERTIFIED
from crashpoint.ledger.control import LedgerFault
from crashpoint.model import Barrier, FaultKind
from crashpoint.pipeline.contract import Adapter, Row
from crashpoint.pipeline.evidence import (
    EvidenceFault,
    read_document,
    render,
    write_atomically,
)
from crashpoint.procs.run_folder import FolderFault, RunFolder, run_folder
from crashpoint.procs.zygote import ZygoteFault

__all__ = ["EXIT_INTERRUPTED", "command", "main", "measure"]

MODULE: Final = "crashpoint.harness.matrix"
EXIT_INTERRUPTED: Final = 130
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
GIVEN: Final = "crashpoint.arguments"
WRITTEN: Final = ("json", "partial.json", "png", "svg", "html")
"""What a run writes atomically, by ending."""


class Uncertified(click.ClickException):
    """Nothing can be certified; one line says why."""

    exit_code = EXIT_UNCERTIFIED


class _Command(click.Command):
    """Remembers its arguments as they were given, however it was called."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[GIVEN] = list(args)
        return super().parse_args(ctx, args)


class _Finite(click.FloatRange):
    """A range without `nan`, which is in every range, and `inf`, which no evidence can hold."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number.", param, ctx)
        return number


def _rows(
    _context: click.Context, _option: click.Parameter, text: str
) -> list[tuple[Adapter, Row]]:
    found = []
    for name in dict.fromkeys(filter(None, text.split(","))):
        match = registry.find_row(name)
        if match is None:
            raise click.BadParameter(
                f"no row {name!r}; registered are {', '.join(registry.all_rows())}"
            )
        found.append(match)
    if not found:
        raise click.BadParameter("name at least one row")
    return found


def _barriers(_context: click.Context, _option: click.Parameter, text: str) -> list[Barrier]:
    known = [barrier.value for barrier in Barrier]
    asked = [name for name in text.split(",") if name]
    for name in asked:
        if name not in known:
            raise click.BadParameter(f"no barrier {name!r}; there are {', '.join(known)}")
    if not asked:
        raise click.BadParameter(f"name at least one of {', '.join(known)}")
    return [barrier for barrier in Barrier if barrier.value in asked]


def _name(_context: click.Context, _option: click.Parameter, text: str) -> str:
    if not NAME.fullmatch(text):
        raise click.BadParameter(
            f"{text!r} is no name: letters, digits, '_', '-' and '.'; --out names a folder"
        )
    return text


@click.command("matrix", cls=_Command, context_settings={"show_default": True})
@click.option("--k", type=click.IntRange(1, 1_000_000), default=10, help="Trials per cell.")
@click.option("--runtimes", "rows", callback=_rows, required=True, help="Rows, comma-separated.")
@click.option("--name", callback=_name, required=True, help="Name of the evidence file.")
@click.option("--barriers", callback=_barriers, default="b0,b1,b2", help="Where to inject.")
@click.option("--fault", type=click.Choice([f.value for f in FaultKind]), default="kill")
@click.option("--jobs", type=click.IntRange(1, 64), default=None, help="Trials at once.")
@click.option(
    "--timeout",
    "limit_s",
    type=_Finite(min=0, min_open=True),
    default=30.0,
    help="Seconds one process may take.",
)
@click.option(
    "--void-max",
    type=_Finite(0, 1),
    default=0.1,
    help="Share of VOID trials a cell may have.",
)
@click.option(
    "--cold",
    type=click.IntRange(min=0),
    default=1,
    help="Trials per cell that recover with a fresh interpreter (at most k - 1).",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("evidence"),
    help="Folder for evidence, plots and report.",
)
def command(  # noqa: PLR0917  click passes them by keyword
    k: int,
    rows: list[tuple[Adapter, Row]],
    name: str,
    barriers: list[Barrier],
    fault: str,
    jobs: int | None,
    limit_s: float,
    void_max: float,
    cold: int,
    out: Path,
) -> None:
    """Crash every row at every barrier k times, recover, and count what reached the world.

    Exit status: 0 every cell agrees with its prediction, 1 one does not, 2 wrong usage, 3 too many
    VOID trials or a dead control, 130 interrupted.
    """
    spec = MatrixSpec(
        name=name,
        rows=rows,
        barriers=barriers,
        fault=FaultKind(fault),
        k=k,
        jobs=jobs or default_jobs(),
        limit_s=limit_s,
        void_max=void_max,
        cold=min(cold, k - 1),
        command=command_line(MODULE, click.get_current_context().meta[GIVEN]),
    )
    sys.exit(measure(spec, out, progress_for(sys.stderr)))


def default_jobs() -> int:
    """Trials at once: a trial mostly waits for processes and syncs, so two for each core."""
    return min(16, 2 * len(os.sched_getaffinity(0)))


def measure(spec: MatrixSpec, out: Path, progress: Progress) -> int:
    """Run a matrix, write evidence and pictures into `out`, print the result, return the exit code.

    Raises click exceptions with one line for what stops it.
    """
    from crashpoint.report import publish, text  # matplotlib is slow to import

    target = out / f"{spec.name}.json"
    if target.is_dir():
        raise click.UsageError(f"{target} is a folder; choose another --name or --out")
    begun = time.monotonic()
    try:
        with name_lock(target), _partial(out, spec.name) as (sink, sink_path):
            spec = replace(spec, replaces=_receipt_in(target))
            try:
                with run_folder() as folder:
                    document = asyncio.run(_interruptible(spec, folder, progress, sink))
            except Interrupted as stopped:
                kept = out / f"{spec.name}.partial.json"
                _set_aside(kept)
                write_atomically(kept, render(stopped.document))
                sink_path.unlink()
                done = len(stopped.document["trials"])
                click.echo(f"interrupted: {done} sealed trials are in {kept}", err=True)
                return EXIT_INTERRUPTED
            written = render(document)
            write_atomically(target, written)
            sink_path.unlink()
            document = parse(written)  # what is shown is what the file says, in its order
            say(text.matrix(document, seconds=time.monotonic() - begun))
            files = publish.publish(document, out)
    except KeyboardInterrupt:
        click.echo(f"interrupted outside of the trials{_kept(out, spec.name)}", err=True)
        return EXIT_INTERRUPTED
    except (NameTaken, FolderFault) as fault:
        raise click.UsageError(str(fault)) from None
    except (LedgerFault, ZygoteFault) as fault:
        raise Uncertified(f"{fault}{_kept(out, spec.name)}") from None
    except OSError as error:
        raise Uncertified(
            f"cannot write {error.filename or out}: {error.strerror}{_kept(out, spec.name)}"
        ) from None
    say("wrote " + ", ".join(str(path) for path in (target, *files)))
    exit_code: int = document["summary"]["exit"]
    return exit_code


def say(line: str) -> None:
    """Print, if somebody still listens: a closed output changes no result."""
    try:
        click.echo(line)
    except OSError:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  till the end


async def _interruptible(
    spec: MatrixSpec, folder: RunFolder, progress: Progress, sink: TextIO
) -> dict[str, Any]:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        return await run_matrix(spec, folder, progress, sink, stop)
    except* (LedgerFault, ZygoteFault, OSError) as group:
        raise _first(group) from None


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


@contextmanager
def _partial(out: Path, name: str) -> Iterator[tuple[TextIO, Path]]:
    """The file that keeps sealed trials should this process be killed; gone when it holds none."""
    path = out / f"{name}.partial.jsonl"
    try:
        out.mkdir(parents=True, exist_ok=True)
        if _sealed_in(path):
            _set_aside(path)
        sink = path.open("w", encoding="utf-8")
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EIO}:
            raise
        raise click.UsageError(
            f"cannot write to {error.filename or out}: {error.strerror}; choose another --out"
        ) from None
    # Drafts of a run that was killed while it wrote them.
    for draft in (d for ending in WRITTEN for d in out.glob(f".{name}.{ending}.*.tmp")):
        draft.unlink(missing_ok=True)
    try:
        with sink:
            yield sink, path
    finally:
        if not _sealed_in(path):
            path.unlink(missing_ok=True)


def _set_aside(path: Path) -> None:
    """Keep what an earlier run left behind under a name of its own."""
    with suppress(FileNotFoundError):
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(path.stat().st_mtime))
        names = (f"{path.stem}.{stamp}{f'-{n}' if n else ''}{path.suffix}" for n in count())
        path.rename(next(free for name in names if not (free := path.with_name(name)).exists()))


def _receipt_in(target: Path) -> str | None:
    """The receipt of the file that will be replaced, None where there is none to name."""
    with suppress(EvidenceFault):
        receipt: str | None = read_document(target).get("receipt")
        return receipt
    return None


def _kept(out: Path, name: str) -> str:
    path = out / f"{name}.partial.jsonl"
    sealed = _sealed_in(path)
    return f"; {sealed} sealed trials are kept in {path}" if sealed else ""


def _sealed_in(path: Path) -> int:
    """How many whole lines follow the first in a partial file; 0 where there is none."""
    try:
        with path.open("rb") as file:
            return max(0, sum(line.endswith(b"\n") for line in file) - 1)
    except OSError:
        return 0


def main() -> None:
    """Run the command as a module."""
    command(prog_name=f"python -m {MODULE}")


if __name__ == "__main__":
    main()
