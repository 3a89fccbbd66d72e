from crashpoint.model import Outcome
from crashpoint.sweep.meter import Meter
from crashpoint.sweep.words import Scenario, Verdict
from unit.sweep.test_report import report_of

GOOD = Verdict(Outcome.EXACTLY_ONCE)


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


def told(*paths, seconds, verdict=GOOD):
    clock = Clock()
    meter, report = Meter(clock), report_of()
    for path in paths:
        scenario = Scenario(path, tuple("abc"[n - 1] for n in path), verdict)
        report.add(scenario)
        meter.tell(scenario, report)
    clock.now_s += seconds
    return meter.line()


def test_before_the_first_scenario_it_says_that_points_are_looked_for():
    assert told(seconds=3) == "looking for points, 3 s"


def test_it_says_how_many_how_fast_where_and_how_long():
    # Of the weights 3, 2, 1 the first is done: half of the work.
    assert told((1,), (1, 1), (2,), seconds=2) == "3 scenarios, 2/s, point 2 of 3, ETA 2 s"


def test_it_counts_what_is_not_exactly_once():
    bad = Verdict(Outcome.LOST)
    assert told((1,), seconds=0, verdict=bad) == "1 scenario, point 1 of 3, 1 not exactly once"
