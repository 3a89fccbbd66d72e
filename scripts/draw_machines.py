"""Draws outlive's machines into docs/machines.md, from the tables that the engine decides by.

`--check` writes nothing and fails when the file is not what the tables say. Exit code 0: it is, or
it was written; 1: it is not; 2: wrong usage.
"""

import argparse
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from outlive.core.tables import MACHINES

PAGE = Path("docs", "machines.md")
HEAD = """\
# Machines

What may happen in each state, and what then follows. An event that stands at no arrow out of a
state is refused there and changes nothing. This page is drawn from
`packages/outlive/src/outlive/core/tables.py`: change the tables, then run
`python scripts/draw_machines.py`.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the page in the repository at --root (the one around this script)."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    options = parser.parse_args(argv)
    path: Path = options.root / PAGE
    wanted = page()
    if not options.check:
        path.write_text(wanted)
        return 0
    if path.is_file() and path.read_text() == wanted:
        return 0
    print(f"machines: {PAGE} is not what the tables say; run `python scripts/draw_machines.py`")
    return 1


def page() -> str:
    """The page, whole."""
    parts = [HEAD]
    for machine in MACHINES:
        title = machine.name.capitalize()
        about = textwrap.fill(machine.about, 100)
        parts.append(f"## {title}\n\n{about}\n\n```mermaid\n{machine.diagram()}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
