import re
from xml.etree import ElementTree as ET

import pytest

from crashpoint.report.sweep_junit import github, junit
from crashpoint.sweep.report import as_json
from unit.sweep.reports import document
from unit.sweep.test_report import GOOD, TWICE, report_of

COUNTS = {"tests", "failures", "errors"}
SCHEMA = {
    # Element: attributes it must have, attributes it may have, elements it may hold.
    "testsuites": (set(), {"name", "time", *COUNTS}, {"testsuite"}),
    "testsuite": (
        {"name", *COUNTS},
        {
            "group",
            "time",
            "skipped",
            "timestamp",
            "hostname",
            "id",
            "package",
            "file",
            "log",
            "url",
        },
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "testcase": (
        {"name"},
        {"classname", "time", "group"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "failure": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
}
"""What Jenkins's xUnit plugin allows, as far as it concerns us."""


def faults(element):
    """Where an element and those inside it break the schema or do not add up."""
    must, may, inside = SCHEMA[element.tag]
    if not must <= element.attrib.keys() <= must | may:
        yield f"{element.tag}: attributes {sorted(element.attrib)}"
    for child in element:
        if child.tag not in inside:
            yield f"{child.tag} inside of {element.tag}"
        yield from faults(child)
    for name, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
        if element.get(name, str(here := len(list(element.iter(tag))))) != str(here):
            yield f"{element.tag}: {name} is {element.get(name)}, there are {here}"
    if element.tag == "testcase" and len(element) > 1:
        yield f"{element.get('name')} has more than one result"


def suite(made):
    suites = ET.fromstring(junit(made))
    assert suites.tag == "testsuites"
    assert list(faults(suites)) == []
    return suites.find("testsuite")


def changed(**members):
    return document() | members


def deep(*scenarios):
    made = report_of(*scenarios)
    made.depth, made.complete = 3, True
    return as_json(made)


def test_the_schema_is_heeded():
    suites = ET.fromstring(junit(document()))
    case = next(case for case in suites.iter("testcase") if case.find("failure") is not None)
    case.set("line", "7")
    ET.SubElement(case, "error")
    extra, twice, *miscounted = faults(suites)
    assert extra.startswith("testcase: attributes")
    assert twice.endswith("has more than one result")
    assert [fault.partition(" is ")[0] for fault in miscounted] == [
        "testsuite: errors",
        "testsuites: errors",
    ]


def test_each_first_crash_is_a_test_case():
    made = document()
    cases = suite(made).findall("testcase")
    assert [case.get("name") for case in cases] == [f"{f['n']}-{f['name']}" for f in made["firsts"]]
    assert suite(made).get("tests") == str(len(cases))


def test_a_case_fails_when_a_scenario_that_begins_with_it_does():
    made = document()
    cases = suite(made).findall("testcase")
    failed = [case.find("failure") is not None for case in cases]
    assert failed == [set(f["code"] + f["again"]) != {"."} for f in made["firsts"]]
    assert suite(made).get("failures") == str(sum(failed))


def test_a_case_fails_when_only_a_third_crash_does():
    made = deep(((1,), GOOD), ((1, 2), GOOD), ((1, 2, 3), TWICE), ((2,), GOOD))
    bad, good = suite(made).findall("testcase")
    assert bad.find("failure").get("message") == "1 or more that begin here: DUPLICATED"
    assert "1-a.2-b.3-c: DUPLICATED, 1 too many" in bad.find("failure").text
    assert len(good) == 0


def test_a_failure_tells_what_happened_and_where():
    made = document()
    failures = [case.find("failure") for case in suite(made).findall("testcase")]
    messages = [failure.get("message") for failure in failures if failure is not None]
    said = r"\d+ of \d+ scenarios that begin here \(at \S*sweep_jobs\.py:\d+\): DUPLICATED"
    assert all(re.fullmatch(said, message) for message in messages)
    texts = [failure.text for failure in failures if failure is not None]
    assert all("Again: pytest test_agent.py::test_it --crash-only" in text for text in texts)
    assert any("In the end the receivers hold" in text for text in texts)


def test_a_good_sweep_has_no_failure_and_no_annotation():
    assert suite(document("careful")).get("failures") == "0"
    assert github(document("careful")) == []


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"complete": False}, "PARTIAL: not every scenario was run"),
        ({"clean": {}}, "no receiver saw an effect"),
    ],
)
def test_what_is_no_pass_though_nothing_failed_is_an_error(members, says):
    made = document("careful") | members
    assert suite(made).get("errors") == "1"
    *_, last = suite(made).findall("testcase")
    assert says in last.find("error").get("message")
    (line,) = github(made)
    assert line.startswith(f"::error title=crash sweep::{says}")


def test_control_characters_do_not_break_the_xml():
    made = document()
    made["failures"][0]["said"] = "a\x00b\x1bc<>&\ud800\ufffe"
    made["stories"] = []
    made["job"] = "a\x00\n<b>"
    assert "a\\x00b\\x1bc<>&\\ud800\\ufffe" in "".join(suite(made).itertext())


def annotation(line):
    """Level, properties and text of a workflow command, taken apart as GitHub's runner does."""
    command, text = re.fullmatch(r"::(error [^\n]*?)::([^\n]*)", line).groups()
    level, _, given = command.partition(" ")
    properties = dict(part.split("=", 1) for part in given.split(","))
    return level, {name: unescaped(v, "%3A", "%2C") for name, v in properties.items()}, text


def unescaped(text, *more):
    known = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}
    pattern = "|".join(("%0D", "%0A", "%25", *more))
    return re.sub(pattern, lambda found: known[found[0]], text)


def test_annotations_name_file_and_line():
    lines = github(document())
    assert 0 < len(lines) <= 10
    for line in lines:
        level, properties, _ = annotation(line)
        assert level == "error"
        assert properties.keys() == {"file", "line", "title"}
        assert properties["file"].endswith("sweep_jobs.py")
        assert int(properties["line"]) > 0


def test_what_means_something_in_an_annotation_is_escaped_and_read_back_as_it_was():
    made = document()
    first = made["failures"][0]
    file = "a,b/c:d%e,line=1::f.py"
    made["places"] = [f"{file}:7 run"] * len(made["places"])
    made["job"] = "node x.js --at 1:2,3\n::warning::no"
    first["said"] = "50% done%0A: a, b\nmore::error::\x1b[0m"
    (line,) = github(made)
    assert "50%25 done%250A: a, b%0Amore::error::\\x1b[0m" in line
    assert "file=a%2Cb/c%3Ad%25e%2Cline=1%3A%3Af.py,line=7,title=" in line
    _, properties, text = annotation(line)
    assert properties == {
        "file": file,
        "line": "7",
        "title": f"crash sweep of {made['job']}: DUPLICATED",
    }
    assert "50% done%0A: a, b\nmore::error::\\x1b[0m. Again: pytest " in unescaped(text)


@pytest.mark.parametrize(
    "place", ["", "x.js", "x.js:7,title=a:b", "x.js:\u0667 f", "x.js:7\n::x::y f"]
)
def test_a_place_that_is_none_is_not_annotated(place):
    made = document()
    made["places"] = [place] * len(made["places"])
    (line,) = github(made)
    assert line.startswith("::error title=crash sweep::careless: ")
    suite(made)


def test_without_places_there_is_one_annotation_for_the_whole():
    (line,) = github(changed(places=[]))
    assert line.startswith("::error title=crash sweep::careless: ")
