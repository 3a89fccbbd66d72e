"""The command line: one module a command, imported when it is the one that was typed.

Exit status: 0 done, 1 the engine says no or a run did not complete, 2 wrong usage or it cannot
start, 3 the engine turned the runner away, 4 no answer from an engine.
"""

from __future__ import annotations

import importlib
import signal
import sys
from typing import Final

import click

from outlive import __version__

__all__ = ["cli", "main"]

COMMANDS: Final = {
    "up": "Run an app: an engine, wardens and workers on this machine.",
    "engine": "Run an engine.",
    "runner": "Run an app for an engine: a warden and its worker.",
    "runs": "Start, list, show, cancel and resume runs.",
    "events": "Send events.",
    "approvals": "List questions to people, and answer them.",
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"outlive.commands.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="outlive")
def cli() -> None:
    """Workflows that finish what they started."""


def main() -> None:
    """Run the command line; ends the process."""
    try:
        status = cli.main(prog_name="outlive", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        status = error.exit_code
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx is not None else "outlive"
        click.echo(f"outlive: {error.format_message()} ({path} --help)", err=True)
        status = error.exit_code
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt):
        status = 128 + signal.SIGINT
    except BrokenPipeError:
        # Whoever read our output has had enough.
        sys.stderr.close()
        status = 128 + signal.SIGPIPE
    sys.exit(status if isinstance(status, int) else 0)
