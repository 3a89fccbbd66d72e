"""`crashpoint sweep`: run a sweep of a program, show one, write a file that repeats a scenario."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Final

import click

from crashpoint.harness.lock import NameTaken, name_lock
from crashpoint.inside.points import CHANGES
from crashpoint.receivers.dialect import DIALECTS
from crashpoint.receivers.person import ScriptedPerson
from crashpoint.sweep.api import MODES, Entry, Job, Options, path_of, sweep
from crashpoint.sweep.faults import SweepFaultKind
from crashpoint.sweep.report import Report, as_json
from crashpoint.sweep.words import SweepFault, id_of

__all__ = ["Settings", "command", "run_only"]

EXIT_FAILED: Final = 1
EXIT_CANNOT: Final = 3
EXIT_INTERRUPTED: Final = 130
STORIES_MAX: Final = 40
GIVEN: Final = "crashpoint.arguments"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
FUNCTION: Final = re.compile(r"(?s)(?P<where>.+):(?P<name>[A-Za-z_][\w.]*)")


class Cannot(click.ClickException):
    """The program cannot be swept; one line says why."""

    exit_code = EXIT_CANNOT


@dataclass(frozen=True)
class Settings:
    """What decides which scenarios there are, as given on the command line."""

    start: str
    resume: str | None = None
    mode: str | None = None
    depth: int = 2
    tracker: str = "keyed"
    payments: str = "keyed"
    limit_s: float = 10.0
    dedupe: bool = True
    person_wrong_rate: float = 0.0
    fault: str = "kill"
    expected: Mapping[str, int] | None = None

    def job(self) -> Job:
        """The program; raises SweepFault when there is none there."""
        resume = None if self.resume is None else entry_of(self.resume)
        return Job(entry_of(self.start), resume, name=self.start)

    def options(self, job: Job) -> Options:
        """How to sweep it."""
        mode = self.mode or ("raise" if callable(job.start) else "spawn")
        return Options(
            mode=mode,
            depth=self.depth,
            limit_s=self.limit_s,
            dedupe=self.dedupe,
            receivers={"tracker": DIALECTS[self.tracker], "payments": DIALECTS[self.payments]},
            person=ScriptedPerson(wrong_rate=self.person_wrong_rate),
            expected=self.expected,
            fault=SweepFaultKind(self.fault),
        )

    def again(self) -> str:
        """The command that runs one scenario again, up to its id."""
        words = ["crashpoint", "sweep", "run"]
        usual = {field.name: field.default for field in fields(self)}
        for name, value in asdict(self).items():
            # Neither the depth nor what is not done twice changes what a scenario is.
            if value == usual[name] or name in {"depth", "dedupe"}:
                continue
            option = f"--{name.removesuffix('_s').replace('_', '-')}"
            if isinstance(value, Mapping):
                words += [word for op, n in value.items() for word in (option, f"{op}={n}")]
            else:
                words += [option, f"{value:g}" if isinstance(value, float) else str(value)]
        return shlex.join([*words, "--only"])


def entry_of(text: str) -> Entry:
    """What `module:function`, `path.py:function` or a command means; raises SweepFault."""
    found = FUNCTION.fullmatch(text)
    if found is None:
        return text
    where, name = found["where"], found["name"]
    if where.endswith(".py"):
        if not Path(where).is_file() and " " in where:
            return text
        return _function(_file_module(Path(where)), name, text)
    if re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", where):
        return _function(_module(where), name, text)
    return text


def run_only(settings: Settings, scenario: str) -> int:
    """Run one scenario and print its story; 0 if it is exactly once, 1 if not.

    Raises SweepFault when it cannot be run.
    """
    from crashpoint.report import sweep_text

    job = settings.job()
    report = sweep(job, settings.options(job), only=scenario, again=settings.again())
    told = as_json(report)
    click.echo(sweep_text.story(told["stories"][0], told))
    return EXIT_FAILED if report.failed else 0


class _Remembering(click.Command):
    """Keeps its arguments as they were given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[GIVEN] = [_shortened(argument) for argument in args]
        return super().parse_args(ctx, args)


def _expected(
    _context: click.Context, _option: click.Parameter, given: tuple[str, ...]
) -> dict[str, int] | None:
    wanted: dict[str, int] = {}
    for text in given:
        op, _, number = text.partition("=")
        if op not in CHANGES or op in wanted or not re.fullmatch(r"[0-9]{1,9}", number):
            raise click.BadParameter(
                f"{text!r}: write OPERATION=NUMBER, such as refund=2, once for an operation; "
                f"there are {', '.join(sorted(CHANGES))}"
            )
        wanted[op] = int(number)
    return wanted or None


@click.group("sweep")
def command() -> None:
    """Crash a program at every point, and at every point of its recovery."""


@command.command("run", cls=_Remembering, context_settings={"show_default": True})
@click.option("--start", required=True, help="'CMD', module:function or path.py:function.")
@click.option("--resume", help="The same for restarts.  [default: as --start]")
@click.option(
    "--mode", type=click.Choice(MODES), help="How to crash.  [default: raise; commands: spawn]"
)
@click.option("--depth", type=click.IntRange(min=1), default=2, help="Crashes in one run, at most.")
@click.option("--tracker", type=click.Choice(list(DIALECTS)), default="keyed")
@click.option("--payments", type=click.Choice(list(DIALECTS)), default="keyed")
@click.option(
    "--limit",
    "limit_s",
    type=click.FloatRange(min=0, max=1e6, min_open=True),
    default=10.0,
    help="Seconds one process may take.",
)
@click.option("--no-dedupe", is_flag=True, help="Recover equal worlds every time.")
@click.option(
    "--person-wrong-rate",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Share of a person's answers that are wrong.",
)
@click.option("--fault", type=click.Choice([kind.value for kind in SweepFaultKind]), default="kill")
@click.option(
    "--expected",
    metavar="OPERATION=NUMBER",
    multiple=True,
    callback=_expected,
    help="How often an operation should cross without any crash, such as refund=2; repeatable.",
)
@click.option("--name", help="Name of the report.  [default: from --start]")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out"),
    help="Folder for the report.",
)
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), help="JUnit XML file.")
@click.option("--github", is_flag=True, help="Print GitHub's annotations.")
@click.option("--only", metavar="ID", help="Run just this scenario and print its story.")
def run(  # noqa: PLR0917  click passes them by keyword
    start: str,
    resume: str | None,
    mode: str | None,
    depth: int,
    tracker: str,
    payments: str,
    limit_s: float,
    no_dedupe: bool,  # noqa: FBT001
    person_wrong_rate: float,
    fault: str,
    expected: dict[str, int] | None,
    name: str | None,
    out: Path,
    junit: Path | None,
    github: bool,  # noqa: FBT001
    only: str | None,
) -> None:
    """Sweep a program and write NAME.json, NAME.html and, if it fails, NAME.repro.py.

    Exit status: 0 every scenario is exactly once, 1 one is not, 2 wrong usage, 3 the program cannot
    be swept or a scenario is VOID, 130 interrupted.
    """
    settings = Settings(
        start=_shortened(start),
        resume=None if resume is None else _shortened(resume),
        mode=mode,
        depth=depth,
        tracker=tracker,
        payments=payments,
        limit_s=limit_s,
        dedupe=not no_dedupe,
        person_wrong_rate=person_wrong_rate,
        fault=fault,
        expected=expected,
    )
    name = name or _name_from(start)
    _check(settings, name, only)
    try:
        if only is not None:
            sys.exit(run_only(settings, only))
        with name_lock(out / f"{name}.json"):
            sys.exit(_run_all(settings, name, out, junit=junit, github=github))
    except NameTaken as taken:
        raise click.UsageError(str(taken)) from None
    except SweepFault as fault_found:
        raise Cannot(str(fault_found)) from None
    except KeyboardInterrupt:
        click.echo("interrupted before the first scenario was judged", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except OSError as error:
        where = error.filename or out
        raise click.UsageError(f"cannot write {where}: {error.strerror}") from None


@command.command("show")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("scenario", metavar="[ID]", required=False)
def show(file: Path, scenario: str | None) -> None:
    """Print the summary of a sweep that was run, or the story of one scenario in it."""
    from crashpoint.report import sweep_text

    document = _read(file)
    if scenario is None:
        click.echo(sweep_text.summary(document))
        return
    told = next((s for s in document["stories"] if s["id"] == scenario), None)
    if told is not None:
        click.echo(sweep_text.story(told, document))
        return
    again = sweep_text.command(document, _known(document, scenario))
    click.echo(f"{file} does not tell this scenario. To run it: {again}")


@command.command("repro")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("scenario", metavar="ID")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("repro.py"))
def repro(file: Path, scenario: str, out: Path) -> None:
    """Write a file that runs one scenario again: exit 1 if it still fails, 0 if it is fixed."""
    from crashpoint.sweep.repro import write_job, write_test

    document = _read(file)
    _known(document, scenario)
    if document["settings"] is not None:
        write_job(out, document["settings"], scenario)
    else:
        test = document["again"].removesuffix(" --crash-only")
        write_test(out, test, document["prefix"] + scenario)
    click.echo(f"wrote {out}")


def _run_all(settings: Settings, name: str, out: Path, *, junit: Path | None, github: bool) -> int:
    from crashpoint.report import sweep_junit, sweep_text
    from crashpoint.sweep.document import document_of, publish
    from crashpoint.sweep.live import progress_for
    from crashpoint.sweep.repro import write_job

    job = settings.job()
    begun = time.monotonic()
    latest: list[Report] = []
    progress = progress_for(sys.stderr)

    def tell(scenario: Any, report: Report) -> None:
        latest[:] = [report]
        progress.tell(scenario, report)

    stopped = False
    try:
        with _stoppable() as has_stopped:
            report = sweep(
                job,
                settings.options(job),
                again=settings.again(),
                tell=tell,
                stopped=has_stopped,
                stories=STORIES_MAX,
            )
    except KeyboardInterrupt:
        if not latest:
            raise
        report, stopped, name = latest[0], True, f"{name}.partial"
    finally:
        progress.end()
    worst = report.worst
    files = []
    if worst is not None:
        files.append(out / f"{name}.repro.py")
        write_job(files[0], asdict(settings), worst.id)
        report.repro = str(files[0])
    given = shlex.join(["crashpoint", "sweep", "run", *click.get_current_context().meta[GIVEN]])
    document = document_of(report, name, command=given, settings=asdict(settings))
    files = [*publish(document, out, name), *files]
    click.echo(sweep_text.summary(document, seconds=time.monotonic() - begun))
    if junit is not None:
        junit.parent.mkdir(parents=True, exist_ok=True)
        junit.write_text(sweep_junit.junit(document), encoding="utf-8")
        files.append(junit)
    if github:
        for line in sweep_junit.github(document):
            click.echo(line)
    click.echo("wrote " + ", ".join(map(str, files)))
    if stopped:
        return EXIT_INTERRUPTED
    if not report.failed:
        return 0 if report.clean.crossings else EXIT_CANNOT
    return EXIT_CANNOT if report.failed == report.outcomes["?"] else EXIT_FAILED


@contextmanager
def _stoppable() -> Iterator[Callable[[], bool]]:
    """Turn SIGINT and SIGTERM into KeyboardInterrupt, and remember it if the job swallows that."""
    seen: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        seen.append(number)
        raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, stop) for number in numbers]
    try:
        yield lambda: bool(seen)
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _check(settings: Settings, name: str, only: str | None) -> None:
    """Refuse what makes no sense together, with one line; raises UsageError."""
    try:
        job = settings.job()
        if only is not None:
            path_of(only)
    except SweepFault as fault:
        raise click.UsageError(str(fault)) from None
    is_command = not callable(job.start)
    if settings.resume is not None and is_command == callable(job.resume):
        raise click.UsageError("--start and --resume: give two functions or two commands")
    mode = settings.options(job).mode
    if is_command != (mode == "spawn"):
        what = "a command, so --mode spawn" if is_command else "a function, so --mode raise or fork"
        raise click.UsageError(f"--mode {mode}: --start is {what}")
    if settings.fault == SweepFaultKind.WRONG_ANSWER and not settings.person_wrong_rate:
        raise click.UsageError("--fault wrong-answer: say how often, with --person-wrong-rate")
    if not NAME.fullmatch(name):
        raise click.UsageError(
            f"--name {name!r} is no name: letters, digits, '_', '-' and '.'; --out names a folder"
        )


def _read(file: Path) -> dict[str, Any]:
    from crashpoint.pipeline.evidence import EvidenceFault
    from crashpoint.sweep.document import read

    try:
        return read(file)
    except EvidenceFault as fault:
        raise click.ClickException(f"{file}: {fault}") from None


def _known(document: dict[str, Any], scenario: str) -> str:
    """The id, if the sweep has such a scenario; raises UsageError."""
    try:
        first, *rest = path_of(scenario)
    except SweepFault as fault:
        raise click.UsageError(str(fault)) from None
    row = next((row for row in document["firsts"] if row["n"] == first), None)
    if row is not None and len(rest) > 1:
        return scenario  # deeper crashes are counted and not listed
    if row is not None and (not rest or rest[0] <= len(row["names"])):
        names = [row["name"], *(row["names"][n - 1] for n in rest)]
        if id_of([first, *rest], names) == scenario:
            return scenario
    raise click.UsageError(f"{document['name']} has no scenario {scenario}")


def _shortened(text: str) -> str:
    """The text without the current folder in front of what lies below it."""
    return text.replace(f"{Path.cwd()}{os.sep}", "")


def _name_from(start: str) -> str:
    """A name for the report: the function's, or that of the first file a command names."""
    found = FUNCTION.fullmatch(start)
    if found is not None and " " not in start:
        return found["name"].replace(".", "_").strip("_") or "sweep"
    words = shlex.split(start) or ["sweep"]
    named = next((word for word in words if Path(word).is_file() and Path(word).suffix), words[0])
    return re.sub(r"[^A-Za-z0-9_-]+", "-", Path(named).stem).strip("-_") or "sweep"


def _module(name: str) -> ModuleType:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise SweepFault(f"cannot import {name}: {type(error).__name__}: {error}") from error


def _file_module(path: Path) -> ModuleType:
    """The module of a file, imported once, with its folder on the path as for a script."""
    if not path.is_file():
        raise SweepFault(f"there is no file {path}")
    whole = path.resolve()
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == str(whole):
            return module
    folder = str(whole.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(whole.stem, whole)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[whole.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[whole.stem]
        raise SweepFault(f"cannot import {path}: {type(error).__name__}: {error}") from error
    return module


def _function(module: ModuleType, name: str, text: str) -> Callable[..., Any]:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise SweepFault(f"{text}: there is no function {name}")
    function: Callable[..., Any] = found
    return function
