"""A sweep for continuous integration: JUnit XML and GitHub's annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from xml.etree import ElementTree as ET

from crashpoint.report.sweep_text import NAMES, command, counted, headline, story
from crashpoint.report.words import plain, plural
from crashpoint.sweep.report import WORST_FIRST, described

__all__ = ["github", "junit"]

ANNOTATIONS_MAX: Final = 10
"""As many as GitHub shows of one step."""


def junit(sweep: Mapping[str, Any]) -> str:
    """One test case for each first crash; it fails when a scenario that begins so fails."""
    cases = list(sweep["firsts"])
    worst = _worst_of_each(sweep)
    suites = ET.Element("testsuites")
    suite = ET.SubElement(
        suites,
        "testsuite",
        name=f"crash sweep of {plain(sweep['job'])}",
        tests=str(len(cases)),
        failures=str(sum(_is_bad(first) for first in cases)),
        errors="0",
    )
    for first in cases:
        named = f"{first['n']}-{plain(first['name'])}"
        case = ET.SubElement(suite, "testcase", classname=plain(sweep["job"]), name=named)
        file, line = _place(sweep["places"], first["n"])
        if line:
            case.set("file", file)
            case.set("line", line)
        if _is_bad(first):
            code = min(first["code"] + first["again"], key=_rank)
            scenarios = 1 + len(first["again"])
            bad = sum(c != "." for c in first["code"] + first["again"])
            message = f"{bad} of {plural(scenarios, 'scenario')} that begin here: {NAMES[code]}"
            failure = ET.SubElement(case, "failure", type=NAMES[code], message=message)
            failure.text = _xml(_told(sweep, worst.get(first["n"])))
    ET.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suites, "unicode") + "\n"


def github(sweep: Mapping[str, Any]) -> list[str]:
    """Workflow commands that annotate the places where the worst failures died, and the whole."""
    lines: list[str] = []
    places: set[tuple[str, str]] = set()
    for failure in sweep["failures"]:
        n = failure["path"][0]
        file, line = _place(sweep["places"], n)
        if line and (file, line) not in places and len(lines) < ANNOTATIONS_MAX:
            places.add((file, line))
            name = described(failure["names"][0])
            again = command(sweep, failure["id"])
            text = f"A crash here, when {name}: {failure['said']}."
            text += f" Again: {again}" if again else ""
            title = f"crash sweep of {sweep['job']}: {NAMES[failure['code']]}"
            where = f"file={_property(file)},line={line}"
            lines.append(f"::error {where},title={_property(title)}::{_data(text)}")
    if counted(sweep) and not lines:
        lines.append(f"::error title=crash sweep::{_data(headline(sweep))}")
    return lines


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


def _place(places: Sequence[str], n: int) -> tuple[str, str]:
    """File and line of the n-th point; two empty strings where that is not known."""
    if n > len(places):
        return "", ""
    file, _, line = places[n - 1].rpartition(" ")[0].rpartition(":")
    return file, line


def _xml(text: str) -> str:
    """Without what XML cannot hold."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
