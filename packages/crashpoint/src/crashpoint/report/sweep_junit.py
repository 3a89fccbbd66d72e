"""A sweep for continuous integration: JUnit XML and GitHub's annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from xml.etree import ElementTree as ET

from crashpoint.report.sweep_text import (
    NAMES,
    command,
    counted,
    headline,
    located,
    place_of,
    story,
)
from crashpoint.report.words import plain, plural
from crashpoint.sweep.report import WORST_FIRST, described

__all__ = ["github", "junit"]

ANNOTATIONS_MAX: Final = 10
"""As many as GitHub shows of one step."""


def junit(sweep: Mapping[str, Any]) -> str:
    """One test case for each first crash; it fails when a scenario that begins so fails.

    What keeps the whole from being a pass is one more, with an error. Fits the schema that Jenkins
    checks with, as what pytest writes does: no attributes but those.
    """
    worst = _worst_of_each(sweep)
    name, trouble = plain(sweep["job"]), _trouble(sweep)
    bad = [first for first in sweep["firsts"] if first["n"] in worst or _is_bad(first)]
    counts = {
        "tests": str(len(sweep["firsts"]) + bool(trouble)),
        "failures": str(len(bad)),
        "errors": str(int(bool(trouble))),
    }
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", counts, name=f"crash sweep of {name}", skipped="0")
    for first in sweep["firsts"]:
        named = f"{first['n']}-{plain(first['name'])}"
        case = ET.SubElement(suite, "testcase", classname=name, name=named)
        if first in bad:
            code, message = _complaint(sweep, first)
            failure = ET.SubElement(case, "failure", type=NAMES[code], message=message)
            failure.text = _shown(_told(sweep, worst.get(first["n"])))
    if trouble:
        case = ET.SubElement(suite, "testcase", classname=name, name="the sweep as a whole")
        ET.SubElement(case, "error", type="VOID", message=trouble)
    ET.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suites, "unicode") + "\n"


def github(sweep: Mapping[str, Any]) -> list[str]:
    """Workflow commands that annotate the places where the worst failures died, and the whole."""
    trouble = _trouble(sweep)
    lines = [f"::error title=crash sweep::{_data(trouble)}"] if trouble else []
    places: set[tuple[str, str]] = set()
    for failure in sweep["failures"]:
        where = sweep["places"][failure["path"][0] - 1 :]
        file, line, _ = located(where[0]) if where else ("", "", "")
        if line and (file, line) not in places and len(lines) < ANNOTATIONS_MAX:
            places.add((file, line))
            name = described(failure["names"][0])
            again = command(sweep, failure["id"])
            text = f"A crash here, when {name}: {failure['said']}."
            text += f" Again: {again}" if again else ""
            title = f"crash sweep of {sweep['job']}: {NAMES[failure['code']]}"
            properties = f"file={_property(file)},line={line},title={_property(title)}"
            lines.append(f"::error {properties}::{_data(text)}")
    if counted(sweep) and not places:
        lines.append(f"::error title=crash sweep::{_data(headline(sweep))}")
    return lines


def _trouble(sweep: Mapping[str, Any]) -> str:
    """Why it would be no pass even if no scenario failed; empty when it would be one."""
    if not sweep["complete"]:
        return "PARTIAL: not every scenario was run"
    if not sweep["clean"]:
        return "no receiver saw an effect, even without a crash, so nothing is shown"
    return ""


def _complaint(sweep: Mapping[str, Any], first: Mapping[str, Any]) -> tuple[str, str]:
    """The worst letter of the scenarios that begin with a crash, and what to say of them all."""
    listed = [f for f in sweep["failures"] if f["path"][0] == first["n"]]
    deeper = "".join(f["code"] for f in listed if len(f["path"]) > 2)  # the grid has the others
    codes = first["code"] + first["again"] + deeper
    code = min(codes, key=_rank)
    bad = sum(c != "." for c in codes)
    # Deeper scenarios are not all listed.
    number = (
        f"{bad} of {plural(len(codes), 'scenario')}" if sweep["depth"] <= 2 else f"{bad} or more"
    )
    place = place_of(sweep["places"], first["n"])
    at = f" (at {place})" if place else ""
    return code, f"{number} that begin here{at}: {NAMES[code]}"


def _worst_of_each(sweep: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """The worst failure for each first crash; they are listed worst first."""
    found: dict[int, Mapping[str, Any]] = {}
    for failure in sweep["failures"]:
        found.setdefault(failure["path"][0], failure)
    return found


def _told(sweep: Mapping[str, Any], failure: Mapping[str, Any] | None) -> str:
    if failure is None:
        return "not among the failures that were kept"
    told = next((s for s in sweep["stories"] if s["id"] == failure["id"]), None)
    if told is not None:
        return story(told, sweep)
    again = command(sweep, failure["id"])
    return f"{failure['id']}: {failure['said']}" + (f"\nAgain: {again}" if again else "")


def _is_bad(first: Mapping[str, Any]) -> bool:
    return any(code != "." for code in first["code"] + first["again"])


def _rank(code: str) -> int:
    return WORST_FIRST.find(code) if code != "." else len(WORST_FIRST)


def _shown(text: str) -> str:
    """With what XML and logs cannot hold written out; line breaks stay."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def _data(text: str) -> str:
    return _shown(text).replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
