"""Fails when an entry of the lab notebook was changed: results/NN-* is written once and then stays.

Git's history is the witness: each entry, in HEAD and in the working tree, must be byte for byte
what the commit that first added it holds. Exit code 0: nothing changed, or no git checkout to
compare with; 1: something changed, or the history cannot be read; 2: wrong usage.
"""

import argparse
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

NOTEBOOK = "results"
ENTRY = re.compile(rf"{NOTEBOOK}/(\d\d)-[^/]+")  # an entry is a file, or a folder with files


class NotebookError(Exception):
    """The history cannot be read; the message says why and what to do."""


def main(argv: Sequence[str] | None = None) -> int:
    """Check the repository at --root (by default the one around this script); return the code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    root: Path = parser.parse_args(argv).root
    if not (root / ".git").exists():
        print("notebook: not a git checkout, so there is nothing to compare results/ with here")
        return 0
    try:
        problems = find_problems(root)
    except NotebookError as error:
        print(f"notebook: {error}")
        return 1
    for problem in problems:
        print(f"notebook: {problem}")
    return 1 if problems else 0


def find_problems(root: Path) -> list[str]:
    """Return one line for each entry changed, deleted or renamed, and each number used twice.

    Raises NotebookError if git is missing, does not accept the checkout, or the clone is shallow.
    """
    if _git(root, "rev-parse", "--is-shallow-repository").strip() == b"true":
        raise NotebookError(
            "this clone is shallow, so the first version of an entry may be missing;"
            " run `git fetch --unshallow`"
        )
    committed = _git(root, "rev-list", "-n1", "--all")
    head = _head(root) if committed else {}
    first = _first_versions(root) if committed else {}
    here = _working_tree(root)
    problems = []
    for path, blob in sorted(first.items()):
        remedy = f"entries are never edited; restore {path} and write a new one"
        if head.get(path) != blob:
            verb = "was edited" if path in head else "was deleted or renamed"
            problems.append(f"{path} {verb} in a commit; {remedy}")
        elif path not in here:
            problems.append(f"{path} is deleted or renamed in the working tree; {remedy}")
        elif (root / path).read_bytes() != _git(root, "cat-file", "blob", blob):
            problems.append(f"{path} is edited in the working tree; {remedy}")
    return problems + _shared_numbers([*head, *here])


def _first_versions(root: Path) -> dict[str, str]:
    """Map each entry's path that HEAD's history ever added to the blob it was first added as."""
    log = _git(
        root,
        *("log", "--topo-order", "--reverse", "--full-history", "-m", "--no-renames"),
        *("--diff-filter=A", "--raw", "--no-abbrev", "--format=", "-z", "HEAD", "--", NOTEBOOK),
    )
    first: dict[str, str] = {}
    fields = iter(log.decode(errors="surrogateescape").split("\0"))
    for field in fields:
        if field.lstrip("\n").startswith(":"):
            blob, path = field.split()[3], next(fields)
            if ENTRY.match(path):
                first.setdefault(path, blob)
    return first


def _head(root: Path) -> dict[str, str]:
    listing = _git(root, "ls-tree", "-r", "-z", "HEAD", "--", NOTEBOOK)
    head = {}
    for line in listing.decode(errors="surrogateescape").split("\0")[:-1]:
        about, path = line.split("\t", maxsplit=1)
        if ENTRY.match(path):
            head[path] = about.split()[2]
    return head


def _working_tree(root: Path) -> set[str]:
    paths = (p for p in (root / NOTEBOOK).rglob("*") if p.is_file() and not p.is_symlink())
    return {name for p in paths if ENTRY.match(name := p.relative_to(root).as_posix())}


def _shared_numbers(paths: Iterable[str]) -> list[str]:
    entries = defaultdict[str, set[str]](set)
    for path in paths:
        if found := ENTRY.match(path):
            entries[found[1]].add(found[0])
    return [
        f"number {number} is used twice, by {' and '.join(sorted(names))}; take the next free one"
        for number, names in sorted(entries.items())
        if len(names) > 1
    ]


def _git(root: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(root), *arguments]
    try:
        return subprocess.run(command, check=True, capture_output=True).stdout
    except FileNotFoundError:
        raise NotebookError("git is not installed, and the history is needed; install it") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().split("\n")[0]
        raise NotebookError(f"`git {arguments[0]}` failed: {said}") from None


if __name__ == "__main__":
    sys.exit(main())
