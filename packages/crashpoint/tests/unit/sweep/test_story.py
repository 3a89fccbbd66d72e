import logging
from pathlib import Path

import pytest

from crashpoint.sweep.api import Job, Options, sweep
from sweep_jobs import Drawing, careful, careless, forgetful, hasty
from unit.sweep.reports import report


def story(job, scenario, **options):
    made = sweep(Job(job), Options(**options), only=scenario)
    (told,) = made.stories
    return told


def test_each_process_is_told_with_what_it_did():
    told = story(careless, first_accepted(careless))
    first, last = told.processes
    assert (first.entry, first.when) == ("start", "crashed")
    assert first.died.name == "accepted:file"
    assert first.died.place.endswith(" careless")
    assert "sweep_jobs.py:" in first.died.place
    assert [(r["op"], r["did"], r["key"]) for r in first.requests] == [("file", "acted", None)]
    assert first.changes == []
    assert (last.entry, last.when, last.died) == ("resume", "ended", None)
    assert [r["args"]["title"] for r in last.requests] == ["issue 0", "issue 1"]
    assert [(c.path, c.what, c.after) for c in last.changes] == [("state.json", "made", "2")]


def first_accepted(job):
    made = sweep(Job(job), Options(depth=1), stories=0)
    number = list(made.points).index("accepted:file") + 1
    return f"{number}-accepted:file"


def test_effects_stand_beside_those_of_a_run_without_a_crash():
    told = story(careless, first_accepted(careless))
    counts = {effect["name"]: (effect["clean"], effect["now"]) for effect in told.effects}
    assert counts == {"file(title='issue 0')": (1, 2), "file(title='issue 1')": (1, 1)}
    assert (told.code, told.said) == ("D", "DUPLICATED, 1 too many")


def test_a_repeat_that_the_receiver_knew_is_told_as_one():
    told = story(careful, first_accepted(careful))
    assert [r["did"] for p in told.processes for r in p.requests] == ["acted", "repeated", "acted"]
    assert told.code == "."


def test_what_is_missing_is_told():
    told = sweep(Job(hasty), Options(depth=1)).stories[0]
    assert told.code == "L"
    assert [effect["now"] for effect in told.effects] == [0, 1]


def test_the_places_of_second_crashes_are_known():
    made = report("careless")
    deep = next(s for s in made.stories if len(s.path) == 2)
    assert deep.processes[1].entry == "resume"
    assert "sweep_jobs.py:" in deep.processes[1].died.place


def test_results_that_differ_are_shown():
    told = sweep(Job(forgetful), Options(depth=1)).stories[0]
    assert told.code == "W"
    assert told.results == {"clean": '{"resumed": false}', "now": '{"resumed": true}'}


def test_what_it_printed_and_logged_is_kept_to_the_end():
    def chatty(tracker):
        print("first\n" * 5000)
        logging.getLogger("agent").warning("about to file")
        tracker.file("a", key="a")
        print("the last line")

    told = story(chatty, "1-sending:file")
    assert told.processes[0].printed.endswith("about to file\n")
    assert told.processes[1].printed.endswith("the last line\n")
    assert len(told.processes[1].printed) < 5000


def test_a_story_of_a_process_that_strays_says_so(tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    made = sweep(Job(Drawing(counter, after=True)), Options(depth=2, dedupe=False))
    assert made.worst is not None
    told = made.stories[0]
    assert told.code == "?"
    assert "not deterministic" in made.complaint()
    assert "this time it did not die at point" in told.said


def test_bytes_that_are_no_text_are_told_by_size():
    def binary(tracker):
        Path("blob").write_bytes(b"\xff\xfe\x00")
        tracker.file("a", key="a")

    told = story(binary, "3-sending:file")
    (change,) = told.processes[0].changes
    assert (change.path, change.size, change.after) == ("blob", 3, None)


@pytest.mark.parametrize("most", [0, 1, 3])
def test_so_many_stories_are_told_as_were_asked_for(most):
    assert len(sweep(Job(careless), Options(), stories=most).stories) == most
