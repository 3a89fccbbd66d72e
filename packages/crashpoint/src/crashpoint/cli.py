"""The `crashpoint` command. Each subcommand is imported when it is asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import click

import crashpoint

__all__ = ["main"]

ELSEWHERE: Final[Mapping[str, tuple[str, str, str]]] = MappingProxyType(
    {
        "demo": (
            "crashpoint.harness.demo",
            "command",
            "Kill LangGraph at three barriers and look at what it did twice.",
        ),
        "matrix": (
            "crashpoint.harness.matrix",
            "command",
            "Crash rows at barriers, recover, count what reached the world.",
        ),
        "sweep": (
            "crashpoint.sweep.cli",
            "command",
            "Crash a program at every point, and at every point of its recovery.",
        ),
    }
)
"""Commands that live beside what they run, with the line `--help` shows without importing them."""


class _Group(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *ELSEWHERE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        module, name, _ = ELSEWHERE[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shown = {name: line for name, (_, _, line) in ELSEWHERE.items()}
        shown |= {name: command.get_short_help_str(80) for name, command in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(shown.items()))


@click.group("crashpoint", cls=_Group)
@click.version_option(crashpoint.__version__, prog_name="crashpoint")
def main() -> None:
    """Kill, freeze and unplug programs where it matters; count what reached the world."""


@main.command("model", context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def model(arguments: tuple[str, ...]) -> None:
    """Print what the model predicts (options as for python -m crashpoint.model)."""
    from crashpoint.model.__main__ import main as print_model

    sys.exit(print_model(list(arguments)))


@main.command("verify")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def verify_files(files: tuple[Path, ...]) -> None:
    """Check evidence files by judging every trial in them again; exit 1 if one does not hold."""
    from crashpoint.harness.verify import verify
    from crashpoint.pipeline.evidence import EvidenceFault

    failed = False
    for path in files:
        try:
            checked = verify(path)
        except EvidenceFault as fault:
            failed = True
            click.echo(f"FAIL  {path}: {fault}")
            continue
        click.echo(f"ok    {path}: {checked.says}")
        for warning in checked.warnings:
            click.echo(f"      {warning}")
    sys.exit(1 if failed else 0)


@main.command("ledger")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--row", help="Only trials of this row.")
@click.option("--barrier", help="Only trials at this barrier.")
@click.option("--trial", "name", help="Only this trial, with its records.")
@click.option("--json", "as_json", is_flag=True, help="The trials as JSON, a line each.")
def ledger(
    file: Path, row: str | None, barrier: str | None, name: str | None, *, as_json: bool
) -> None:
    """Show what the ledger held: the trials of an evidence file, or one trial's records."""
    from crashpoint.report import story

    document = _read(file)
    trials = [
        trial
        for trial in (*document["references"], *document["control_trials"], *document["trials"])
        if row in {None, trial["row"]}
        and barrier in {None, trial["barrier"]}
        and name in {None, trial["trial"]}
    ]
    if not trials:
        raise click.UsageError(
            f"{file} holds no such trial; leave an option out to see which it has"
        )
    for trial in trials:
        click.echo(story.line(trial) if not as_json else story.as_json(trial))
        if name is not None and not as_json:
            click.echo(story.records(trial))


@main.command("report")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder to write to.")
def report(file: Path, out: Path | None) -> None:
    """Print an evidence file's matrix and write its plots and page again."""
    from crashpoint.pipeline.evidence import EvidenceFault
    from crashpoint.report import publish, text

    document = _read(file)
    click.echo(text.matrix(document))
    folder = out or file.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = publish.publish(document, folder)
    except (OSError, EvidenceFault) as fault:
        problem = f"cannot write into {folder}: {fault}; choose another --out"
        raise click.UsageError(problem) from None
    click.echo("wrote " + ", ".join(map(str, written)))


def _read(file: Path) -> dict[str, Any]:
    """A matrix document that holds; raises ClickException with one line."""
    from crashpoint.harness.verify import verify
    from crashpoint.pipeline.evidence import EvidenceFault, read_document

    try:
        verify(file)
        document = read_document(file)
    except EvidenceFault as fault:
        raise click.ClickException(f"{file}: {fault}") from None
    if document["kind"] != "matrix":
        raise click.ClickException(f"{file} holds no matrix but a {document['kind']}")
    return document
