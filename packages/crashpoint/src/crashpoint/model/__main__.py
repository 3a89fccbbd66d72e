"""Print the predictions: `python -m crashpoint.model`.

`main` is also what `crashpoint model` calls.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence

from crashpoint.model.declaration import Declaration
from crashpoint.model.render import as_json, table
from crashpoint.model.rows import S1_ROWS, RowConflictError, with_s1_rows
from crashpoint.model.words import FaultKind

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the predictions asked for by `argv` (default: the process's own) and return 0.

    Returns 1, with one line on standard error, if an adapter's row takes one of the 26 names.
    Raises SystemExit(2) for an unknown option, SystemExit(0) after `--help`.
    """
    options = _parser().parse_args(argv)
    fault = FaultKind(options.fault)
    try:
        rows = _every_row() if options.all else S1_ROWS
    except RowConflictError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    text = json.dumps(as_json(rows, fault), indent=2) if options.json else table(rows, fault)
    sys.stdout.write(f"{text}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m crashpoint.model",
        description="Print the outcome predicted for each row at each barrier.",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    parser.add_argument("--all", action="store_true", help="every registered row, not only the 26")
    parser.add_argument(
        "--fault",
        choices=[fault.value for fault in FaultKind],
        default=FaultKind.KILL.value,
        help="the fault to predict for (default: %(default)s)",
    )
    return parser


def _every_row() -> Mapping[str, Declaration]:
    # Imported here only: the model stands without the adapters, and they stand on the model.
    from crashpoint.adapters import registry

    return with_s1_rows(registry.all_rows())


if __name__ == "__main__":
    sys.exit(main())
