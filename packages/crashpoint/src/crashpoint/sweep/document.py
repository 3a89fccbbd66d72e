"""A sweep's evidence file: the report, what it depends on, and stories; written, read and checked.

Format `crashpoint.sweep/1`. The counts, the grid and the failures say the same thing three times,
and a check compares them; the closing seal binds them to each other, not to their author.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from crashpoint.harness.closing import closed
from crashpoint.harness.context import context
from crashpoint.pipeline.evidence import EvidenceFault, read_document, render, write_atomically
from crashpoint.sweep.report import CODES, FAILURES_MAX, Report, as_json

__all__ = ["FORMAT", "document_of", "fault_in", "publish", "read"]

FORMAT: Final = "crashpoint.sweep/1"


def document_of(
    report: Report, name: str, *, command: str, settings: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The sealed document of a report. Raises LedgerFault and FolderFault.

    `settings` are those of a job that was given on the command line; None for a test's.
    """
    return closed(
        {
            "format": FORMAT,
            "kind": "sweep",
            "name": name,
            "command": command,
            "settings": None if settings is None else dict(settings),
            **context(),
            **as_json(report),
        }
    )


def publish(document: Mapping[str, Any], folder: Path, name: str) -> list[Path]:
    """Write NAME.json and NAME.html into a folder that is made if need be; raises OSError."""
    from crashpoint.report.sweep_html import page

    folder.mkdir(parents=True, exist_ok=True)
    files = {"json": render(document), "html": page(document).encode()}
    paths = []
    for ending, data in files.items():
        paths.append(folder / f"{name}.{ending}")
        write_atomically(paths[-1], data)
    return paths


def read(path: Path) -> dict[str, Any]:
    """A document that holds; raises EvidenceFault."""
    from crashpoint.harness.verify import verify

    document = read_document(path)
    if document.get("format") != FORMAT:
        raise EvidenceFault(f"format {document.get('format')!r} is no sweep")
    verify(path)
    return document


def fault_in(document: Mapping[str, Any]) -> str | None:
    """Why a document's numbers do not fit each other, or None. Its seals are checked apart."""
    firsts, failures = document["firsts"], document["failures"]
    counted = Counter[str]()
    for first in firsts:
        if len(first["again"]) != len(first["names"]):
            return f"point {first['n']}: its second crashes and their names differ in number"
        counted.update([first["code"], *first["again"]])
    if document["fault"] == "kill" and document["complete"]:
        names = [first["name"] for first in firsts]
        if names != document["points"]:
            return "the first crashes are not at the program's points"
    outcomes = document["outcomes"]
    if not outcomes.keys() <= CODES.keys():
        return f"there is no outcome {min(outcomes.keys() - CODES.keys())!r}"
    if sum(outcomes.values()) != document["scenarios"]:
        return f"{document['scenarios']} scenarios, the outcomes are {sum(outcomes.values())}"
    is_whole = document["depth"] <= 2 and document["complete"]
    for code, number in counted.items():
        if number > outcomes.get(code, 0) or (is_whole and number != outcomes.get(code, 0)):
            return f"outcome {code!r}: {outcomes.get(code, 0)} counted, {number} in the grid"
    return _fault_in_failures(document, failures)


def _fault_in_failures(document: Mapping[str, Any], failures: Any) -> str | None:
    firsts = {first["n"]: first for first in document["firsts"]}
    failed = sum(n for code, n in document["outcomes"].items() if code != ".")
    if len(failures) > failed or (len(failures) < failed and len(failures) < FAILURES_MAX):
        return f"{failed} scenarios failed, {len(failures)} are listed"
    for failure in failures:
        first, *rest = failure["path"]
        row = firsts[first]
        codes = row["code"] if not rest else row["again"][rest[0] - 1 : rest[0]]
        if failure["code"] == "." or (len(rest) < 2 and codes != failure["code"]):
            return f"{failure['id']}: listed as {failure['code']!r}, {codes!r} in the grid"
    sums = document["sums"]
    if len(failures) == failed:
        for name in ("dups", "missing"):
            if sum(failure[name] for failure in failures) != sums[name]:
                return f"{name}: {sums[name]}, the failures have another sum"
    known = {failure["id"] for failure in failures}
    for told in document["stories"]:
        if document["complete"] and told["id"] not in known:
            return f"{told['id']}: a story of a scenario that is not listed"
    return None
