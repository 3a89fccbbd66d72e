"""Fails when README.md or RESULTS.md holds a figure that was not generated from evidence.

Figures stand in blocks, `<!-- figures: RENDERER evidence/NAME.json -->` to `<!-- /figures -->`,
which must equal what the renderer makes of that file now; `--write` makes them so. Anywhere else
nothing may look like a measurement. Exit code 0: all is well; 1: a line for each problem; 2: usage.
"""

import argparse
import json
import re
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from find_figures import fenced, figures

from crashpoint.canonical import NotCanonical, digest, parse
from crashpoint.harness import verify
from crashpoint.pipeline.evidence import EvidenceFault, write_atomically
from crashpoint.report.markdown import CannotRender, render
from crashpoint.report.plots import RECEIPT_FIELD

DOCUMENTS = ("README.md", "RESULTS.md")

ALLOWED = {
    r"95% (?:Wilson )?(?:confidence )?intervals?": "a convention, not a measurement",
}
"""Phrase (regular expression) -> why it is no figure."""

BEGIN = re.compile(r"<!-- figures: (\S+) (\S+) -->")
END = "<!-- /figures -->"
EVIDENCE = re.compile(r"evidence/[A-Za-z0-9][A-Za-z0-9_.-]*\.json")
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


class BadEvidence(Exception):
    """An evidence file that is missing or does not hold; the message says why."""


@dataclass
class Block:
    """A block of figures in a document; `line` is where it begins, from 1."""

    line: int
    renderer: str
    path: str
    content: list[str] = field(default_factory=list)


@dataclass
class Parts:
    """A document taken apart: lines and blocks in order, and what is wrong with the marks."""

    pieces: list[str | Block] = field(default_factory=list)
    problems: list[tuple[int, str]] = field(default_factory=list)


def main(argv: Sequence[str] | None = None) -> int:
    """Check (or, with --write, first regenerate) the documents at --root; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--write", action="store_true", help="regenerate the blocks in place")
    options = parser.parse_args(argv)
    checker = _Checker(options.root)
    if options.write:
        for name in DOCUMENTS:
            checker.write(name)
    problems = [problem for name in DOCUMENTS for problem in checker.check(name)]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def take_apart(text: str) -> Parts:
    """Split a document into plain lines and blocks. Marks inside code fences are only text."""
    parts = Parts()
    block: Block | None = None
    for number, (line, inside, _) in enumerate(fenced(text), 1):
        mark = line.strip()
        # A block may hold a fence of its own, so its end counts there too.
        if block is not None:
            if mark == END:
                block = None
            elif BEGIN.fullmatch(mark):
                parts.problems.append((number, f"a block begins inside the one of {block.path}"))
            else:
                block.content.append(line)
            continue
        begins = None if inside else BEGIN.fullmatch(mark)
        if begins:
            block = Block(number, begins[1], begins[2])
            parts.pieces.append(block)
            continue
        if not inside and re.match(r"<!--\s*/?\s*figures?\b", mark):
            parts.problems.append((number, f"{mark} is no mark of a block, or ends none"))
        parts.pieces.append(line)
    if block is not None:
        parts.problems.append((block.line, f"the block has no end; write {END} on a line after it"))
        parts.pieces.remove(block)
        parts.pieces += ["\n", *block.content]
    return parts


class _Checker:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._read: dict[str, Mapping[str, Any] | BadEvidence] = {}

    def write(self, name: str) -> None:
        """Regenerate the blocks of a document whose marks and evidence are in order."""
        path = self._root / name
        if not path.is_file():
            return
        text = path.read_text(encoding="utf-8")
        parts = take_apart(text)
        if parts.problems:
            return
        made = "".join(
            piece if isinstance(piece, str) else self._rewritten(piece) for piece in parts.pieces
        )
        if made != text:
            write_atomically(path, made.encode())

    def check(self, name: str) -> Iterator[str]:
        """Yield the problems of a document, a line each."""
        try:
            text = (self._root / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            yield f"{name}: cannot be read ({error})"
            return
        parts = take_apart(text)
        problems = list(parts.problems)
        outside = []
        for piece in parts.pieces:
            if isinstance(piece, str):
                outside.append(piece)
                continue
            outside += ["\n"] * (len(piece.content) + 2)
            problem = self._problem(piece)
            if problem is not None:
                problems.append((piece.line, problem))
        problems += [
            (found.line, f'"{found.text}" is a figure outside a block; generate it from evidence')
            for found in figures("".join(outside), allowed=ALLOWED)
        ]
        for line, problem in sorted(problems):
            yield f"{name}:{line}: {problem}"

    def _rewritten(self, block: Block) -> str:
        try:
            content = self._wanted(block)
        except (BadEvidence, CannotRender):  # `check` says so
            content = "".join(block.content)
        return f"<!-- figures: {block.renderer} {block.path} -->\n{content}{END}\n"

    def _problem(self, block: Block) -> str | None:
        try:
            wanted = self._wanted(block)
        except (BadEvidence, CannotRender) as error:
            return str(error)
        here = "".join(block.content)
        if here == wanted:
            return None
        return (
            f"the block differs from what {block.renderer} makes of {block.path}"
            f" ({_first_difference(here, wanted)}); run `python scripts/check_figures.py --write`"
        )

    def _wanted(self, block: Block) -> str:
        """What the block should hold; raises BadEvidence or CannotRender."""
        document = self._evidence(block.path)
        content = render(block.renderer, document, block.path)
        if block.renderer == "picture":
            self._check_picture(document, block.path)
        return content + "\n"

    def _evidence(self, path: str) -> Mapping[str, Any]:
        if path not in self._read:
            try:
                self._read[path] = _read_evidence(self._root, path)
            except BadEvidence as error:
                self._read[path] = error
        found = self._read[path]
        if isinstance(found, BadEvidence):
            raise found
        return found

    def _check_picture(self, document: Mapping[str, Any], path: str) -> None:
        picture = Path(path).with_suffix(".png")
        if not (self._root / picture).is_file():
            raise BadEvidence(f"{picture} is missing; run `crashpoint report {path}`")
        if _png_text(self._root / picture, RECEIPT_FIELD) != document.get("receipt"):
            raise BadEvidence(
                f"{picture} was drawn from another {path}; run `crashpoint report {path}`"
            )


def _read_evidence(root: Path, path: str) -> Mapping[str, Any]:
    """A document that holds. Matrices are judged anew, others have their receipt checked."""
    if not EVIDENCE.fullmatch(path):
        raise BadEvidence(f"{path} is no evidence file; name one as evidence/NAME.json")
    try:
        document = parse((root / path).read_bytes())
    except OSError as error:
        raise BadEvidence(f"{path} cannot be read: {error.strerror}") from None
    except NotCanonical as error:
        raise BadEvidence(f"{path}: {error}") from None
    if not isinstance(document, dict) or not document.get("command"):
        raise BadEvidence(f"{path} names no command that made it")
    if document.get("format") in verify.CHECKS:
        try:
            verify.verify(root / path)
        except EvidenceFault as error:
            raise BadEvidence(f"{path}: {error}") from None
    elif "receipt" in document:
        rest = {name: value for name, value in document.items() if name != "receipt"}
        if document["receipt"] != f"sha256:{digest(rest)}":
            raise BadEvidence(f"{path}: the receipt is not the content's")
    return document


def _first_difference(here: str, wanted: str) -> str:
    left, right = here.splitlines(), wanted.splitlines()
    for n in range(max(len(left), len(right))):
        has, should = (lines[n] if n < len(lines) else "nothing" for lines in (left, right))
        if has != should:
            return f"line {n + 1} is {_cut(has)}, should be {_cut(should)}"
    return "in its line breaks"


def _cut(line: str, length: int = 60) -> str:
    return json.dumps(line if len(line) <= length else line[:length] + "...", ensure_ascii=False)


def _png_text(path: Path, keyword: str) -> str | None:
    """A text that a PNG carries under a keyword."""
    data = path.read_bytes()
    at = len(PNG_SIGNATURE)
    while data.startswith(PNG_SIGNATURE) and at + 8 <= len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        name, _, value = data[at + 8 : at + 8 + length].partition(b"\0")
        if kind == b"tEXt" and name == keyword.encode():
            return value.decode("latin-1")
        at += length + 12
    return None


if __name__ == "__main__":
    sys.exit(main())
