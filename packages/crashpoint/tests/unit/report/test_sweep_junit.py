from xml.etree import ElementTree as ET

from crashpoint.report.sweep_junit import github, junit
from unit.sweep.reports import document


def suite(made):
    return ET.fromstring(junit(made)).find("testsuite")


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


def test_a_failure_tells_what_happened():
    failures = [case.find("failure") for case in suite(document()).findall("testcase")]
    texts = [failure.text for failure in failures if failure is not None]
    assert all("Again: pytest test_agent.py::test_it --crash-only" in text for text in texts)
    assert any("In the end the receivers hold" in text for text in texts)


def test_a_good_sweep_has_no_failure_and_no_annotation():
    assert suite(document("careful")).get("failures") == "0"
    assert github(document("careful")) == []


def test_control_characters_do_not_break_the_xml():
    made = document()
    made["failures"][0]["said"] = "a\x00b\x1bc<>&"
    made["stories"] = []
    assert suite(made) is not None


def test_annotations_name_file_and_line_and_stay_on_one():
    made = document()
    made["failures"][0]["said"] = "50%\nmore"
    lines = github(made)
    assert lines
    assert all(line.startswith("::error file=") and ",line=" in line for line in lines)
    assert "50%25%0Amore" in lines[0]
    assert len(lines) <= 10


def test_without_places_there_is_one_annotation_for_the_whole():
    made = document()
    made["places"] = []
    (line,) = github(made)
    assert line.startswith("::error title=crash sweep::careless: ")
