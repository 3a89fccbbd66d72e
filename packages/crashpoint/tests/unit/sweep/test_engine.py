import pytest

from crashpoint.inside.points import allow, point
from crashpoint.model import Outcome
from crashpoint.pipeline.judge import Ending
from crashpoint.sweep.engine import Sweep
from crashpoint.sweep.inprocess import CopyCrasher
from crashpoint.sweep.words import Seen, SweepFault


class World:
    """What a tiny job leaves: a list of effects, and a list of what it saved."""

    def __init__(self, effects=(), saved=()):
        self.effects = list(effects)
        self.saved = list(saved)

    def copy(self):
        return World(self.effects, self.saved)

    def key(self):
        return tuple(self.effects), tuple(self.saved)

    def seen(self):
        crossings = {}
        for effect, action in self.effects:
            crossings[effect] = (*crossings.get(effect, ()), action)
        return Seen(crossings)

    def do(self, effect, action=""):
        allow()
        self.effects.append((effect, action))
        point("accepted", effect)

    def save(self, value):
        allow()
        self.saved.append(value)
        point("saved", str(value))


def swept(job, *, depth=2, dedupe=True, limit_s=5.0):
    with CopyCrasher(fresh=World, start=job, resume=job, limit_s=limit_s) as crasher:
        sweep = Sweep(crasher, depth=depth, dedupe=dedupe)
        return {scenario.id: scenario.verdict for scenario in sweep.scenarios()}


def twice(world):
    world.do("mail")
    world.save(1)


def first_saved(world):
    if not world.saved:
        world.save(1)
        world.do("mail")


def drawn(world):
    world.do("mail", action=f"draft {len(world.effects)}")
    world.save(1)


def lost_between(world):
    if not world.saved:
        world.save(1)
        raise RuntimeError("cannot go on")


def test_each_point_and_each_point_of_each_restart_is_crashed_at():
    assert list(swept(twice)) == [
        "1-accepted:mail",
        "1-accepted:mail.1-accepted:mail",
        "1-accepted:mail.2-saved:1",
        "2-saved:1",
        "2-saved:1.1-accepted:mail",
        "2-saved:1.2-saved:1",
    ]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_depth_is_the_number_of_crashes(depth):
    assert max(len(name.split(".")) for name in swept(twice, depth=depth)) == depth


def test_an_effect_too_many_is_duplicated_and_counted():
    verdicts = swept(twice)
    assert verdicts["1-accepted:mail"].outcome is Outcome.DUPLICATED
    assert verdicts["1-accepted:mail"].dups == 1
    assert verdicts["1-accepted:mail.1-accepted:mail"].dups == 2


def test_an_effect_that_is_not_there_is_lost():
    verdicts = swept(first_saved, depth=1)
    assert verdicts["1-saved:1"].outcome is Outcome.LOST
    assert verdicts["1-saved:1"].missing == 1
    assert verdicts["2-accepted:mail"].good


def test_the_same_effect_with_another_action_diverges():
    assert swept(drawn, depth=1)["2-saved:1"].outcome is Outcome.DIVERGED


def test_equal_worlds_give_equal_verdicts_with_and_without_recovering_them_again():
    for job in (twice, first_saved, drawn):
        assert swept(job, depth=3, dedupe=True) == swept(job, depth=3, dedupe=False)


def test_a_job_that_fails_without_a_crash_is_not_swept():
    with pytest.raises(SweepFault, match=r"^NO_START: .*failed: RuntimeError: cannot go on$"):
        swept(lost_between)


def test_a_job_without_points_is_not_swept():
    with pytest.raises(SweepFault, match="announces no point"):
        swept(lambda _world: None)


def test_a_restart_that_keeps_failing_is_a_crash_loop():
    def job(world):
        if world.saved:
            raise RuntimeError("what is this?")
        world.save(1)

    verdict = swept(job, depth=1)["1-saved:1"]
    assert (verdict.outcome, verdict.ending) == (Outcome.VOID, Ending.CRASHLOOP)
    assert "3 restarts failed: RuntimeError: what is this?" in verdict.void


def test_a_restart_that_does_not_end_is_stuck():
    def job(world):
        while world.saved:
            point("waiting")
        world.save(1)

    verdict = swept(job, depth=1)["1-saved:1"]
    assert (verdict.outcome, verdict.ending) == (Outcome.VOID, Ending.STUCK)


def test_a_job_that_wanders_without_a_crash_is_not_swept():
    passed = []

    def job(_world):
        passed.append(None)
        point(f"draw-{len(passed)}")

    with pytest.raises(SweepFault, match=r"point 1 was draw-1 and is now draw-2"):
        swept(job)


def test_a_job_whose_effects_wander_is_not_swept():
    passed = []

    def job(world):
        passed.append(None)
        world.effects.append((f"mail {len(passed)}", ""))
        point("sent")

    with pytest.raises(SweepFault, match="name effects by what does not change"):
        swept(job)


def test_a_restart_that_wanders_is_void_and_says_where():
    passed = []

    def job(world):
        if world.saved:
            passed.append(None)
            point(f"draw-{len(passed)}")
        world.save(len(world.saved))

    verdicts = swept(job, dedupe=False)
    void = {name: verdict.void for name, verdict in verdicts.items() if verdict.void}
    assert void["1-saved:0.1-draw-1"] == "not deterministic: point 1 was draw-1 and is now draw-2"
    assert verdicts["1-saved:0"].good


def test_one_scenario_can_be_run_alone():
    with CopyCrasher(fresh=World, start=twice, resume=twice) as crasher:
        sweep = Sweep(crasher, depth=1)
        (scenario,) = sweep.scenarios((1, 2))
    assert scenario.id == "1-accepted:mail.2-saved:1"


@pytest.mark.parametrize("path", [(), (0,), (3,), (1, 7)])
def test_a_scenario_that_does_not_exist_is_a_fault(path):
    with CopyCrasher(fresh=World, start=twice, resume=twice) as crasher:
        sweep = Sweep(crasher)
        with pytest.raises(SweepFault, match="points, not"):
            list(sweep.scenarios(path))


def test_no_crash_is_no_sweep():
    with pytest.raises(SweepFault, match="depth 0"):
        swept(twice, depth=0)
