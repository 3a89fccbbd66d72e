"""From trials to cells, controls, findings and the exit status; every break is noticed."""

from copy import deepcopy
from inspect import getsource
from itertools import product

import pytest

from crashpoint.canonical import digest
from crashpoint.harness import summary as summary_module
from crashpoint.harness.summary import declaration_of, reference_fault, summarise
from crashpoint.model import S1_ROWS, Barrier, FaultKind, Outcome, every_declaration, predict
from unit.mutate import load, mutants

BARRIERS = ["b0", "b1", "b2"]
MEMBERS = {enum.__name__: tuple(enum.__members__) for enum in (Outcome, Barrier, FaultKind)}


def row(name="r_dup"):
    declared = S1_ROWS[name]
    predicted = {b.value: predict(declared, b).value for b in Barrier}
    return {"name": name, "engine": "e", "declaration": declared.words(), "predicted": predicted}


def trial(name, barrier, outcome, **more):
    """`more`: void, result, mode, recover_us."""
    verdict = {"effects": outcome, "result": more.get("result", "SAME")}
    seen = {"mode": more.get("mode", "hot")}
    if "void" in more:
        verdict |= {"void": more["void"], "result": "NOT_CHECKED"}
    if "recover_us" in more:
        seen["recover_us"] = more["recover_us"]
    return {"row": name, "barrier": barrier, "verdict": verdict, "seen": seen}


def reference(name="r_dup", *, effects="EXACTLY_ONCE", passed=BARRIERS, **verdict):
    seen = {"passed": passed, "final": {"result": {"paid": True}}}
    return {"row": name, "verdict": {"effects": effects, **verdict}, "seen": seen}


def run(*trials, k=1, void_max=0.1, rows=("r_dup",), references=None, controls=(), **more):
    """A run whose control is r_dup, at b1."""
    declared = S1_ROWS["r_dup"].words()
    return {
        "fault": "kill",
        "k": k,
        "void_max": void_max,
        "barriers": ["b1"],
        "rows": [row(name) for name in rows],
        "engines": {"e": {"control": {"name": "r_dup", "declaration": declared}}},
        "references": [reference(name) for name in rows] if references is None else references,
        "control_trials": list(controls),
        "trials": list(trials),
        **more,
    }


RED = trial("r_dup", "b1", "DUPLICATED")
GREEN = trial("r_dup", "b1", "EXACTLY_ONCE")
VOID = trial("r_dup", "b1", "VOID", void="it rained")
ONCE = trial("r_idem", "b1", "EXACTLY_ONCE")
TWICE = trial("r_idem", "b1", "DUPLICATED")
BOTH = {"rows": ("r_dup", "r_idem")}

# What ran, the exit status, what is found.
RUNS = {
    "all as predicted": (run(RED, RED, k=2), 0, []),
    "one differs": (
        run(RED, ONCE, TWICE, k=1, **BOTH),
        1,
        ["r_idem at b1: predicted EXACTLY_ONCE, observed EXACTLY_ONCE 1, DUPLICATED 1"],
    ),
    "VOID within the limit": (run(*[RED] * 9, VOID, k=10), 0, []),
    "VOID above the limit": (
        run(*[RED] * 8, VOID, VOID, k=10),
        3,
        ["r_dup at b1: 2 of 10 VOID: 2 x it rained"],
    ),
    "VOID for two reasons": (
        run(RED, VOID, trial("r_dup", "b1", "VOID", void="and snowed"), k=3),
        3,
        ["r_dup at b1: 2 of 3 VOID: 1 x and snowed; 1 x it rained"],
    ),
    "no VOID allowed": (
        run(*[RED] * 9, VOID, k=10, void_max=0),
        3,
        ["r_dup at b1: 1 of 10 VOID: 1 x it rained"],
    ),
    "every VOID allowed": (run(RED, VOID, VOID, k=3, void_max=1), 0, []),
    "not run is VOID": (run(RED, k=2), 3, ["r_dup at b1: 1 of 2 VOID: 1 not run"]),
    "not run and VOID": (
        run(RED, VOID, k=3),
        3,
        ["r_dup at b1: 2 of 3 VOID: 1 x it rained; 1 not run"],
    ),
    "differs and VOID": (
        run(RED, RED, TWICE, VOID, k=2, rows=("r_dup", "r_idem"), controls=()),
        1,
        [
            "r_idem at b1: predicted EXACTLY_ONCE, observed DUPLICATED 1",
            "r_idem at b1: 1 of 2 VOID: 1 not run",
        ],
    ),
    "a dead control": (
        run(GREEN),
        3,
        [
            "control r_dup at b1 is not red: EXACTLY_ONCE 1; nothing is certified",
            "r_dup at b1: predicted DUPLICATED, observed EXACTLY_ONCE 1",
        ],
    ),
    "a control that is sometimes green": (
        run(RED, GREEN, k=2),
        3,
        [
            "control r_dup at b1 is not red: DUPLICATED 1, EXACTLY_ONCE 1; nothing is certified",
            "r_dup at b1: predicted DUPLICATED, observed EXACTLY_ONCE 1, DUPLICATED 1",
        ],
    ),
    "a control that is always VOID": (
        run(VOID, void_max=1),
        3,
        ["control r_dup at b1 is not red: VOID 1; nothing is certified"],
    ),
    "a control that did not run": (
        run(ONCE, rows=("r_idem",)),
        3,
        ["control r_dup at b1 is not red: nothing; nothing is certified"],
    ),
    "a control run apart": (run(ONCE, rows=("r_idem",), controls=[RED]), 0, []),
    "a control red elsewhere": (
        run(ONCE, rows=("r_idem",), controls=[trial("r_dup", "b0", "DUPLICATED")]),
        3,
        ["control r_dup at b1 is not red: nothing; nothing is certified"],
    ),
    "another row red at b1": (
        run(ONCE, rows=("r_idem",), controls=[TWICE]),
        3,
        ["control r_dup at b1 is not red: nothing; nothing is certified"],
    ),
    "a dead reference": (
        run(
            RED, rows=("r_dup", "r_idem"), references=[reference(), reference("r_idem", passed=[])]
        ),
        3,
        [
            "r_idem: an uncrashed run passes no barrier",
            "r_idem at b1: 1 of 1 VOID: 1 not run",
        ],
    ),
    "a dead reference and VOID allowed": (
        run(
            RED,
            rows=("r_dup", "r_idem"),
            void_max=1,
            references=[reference(), reference("r_idem", passed=[])],
        ),
        3,
        ["r_idem: an uncrashed run passes no barrier"],
    ),
    "wrong results": (
        run(RED, trial("r_dup", "b1", "DUPLICATED", result="WRONG"), k=2),
        0,
        ["r_dup at b1: 1 recovered runs report another result (WRONG)"],
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_exit_status_and_findings(name):
    given, code, findings = RUNS[name]
    summary = summarise(given)
    assert (summary["exit"], summary["findings"]) == (code, findings)


def test_a_cell():
    given = run(
        *[trial("r_dup", "b1", "DUPLICATED", recover_us=n) for n in (5, 1)],
        trial("r_dup", "b1", "DUPLICATED", recover_us=9, mode="cold"),
        trial("r_dup", "b1", "VOID", void="late", recover_us=99),
        trial("r_dup", "b1", "LOST", result="WRONG"),
        trial("r_dup", "b0", "EXACTLY_ONCE", recover_us=7),
        trial("r_idem", "b1", "EXACTLY_ONCE", recover_us=8),
        k=6,
    )
    assert summarise(given)["cells"] == [
        {
            "row": "r_dup",
            "barrier": "b1",
            "predicted": "DUPLICATED",
            "counts": {"DUPLICATED": 3, "LOST": 1, "VOID": 1},
            "run": 5,
            "void": 2,
            "rate": [3, 6],
            "interval": [0.1876, 0.8124],
            "differing": 1,
            "agrees": False,
            "wrong_results": 1,
            "reasons": {"late": 1},
            "recover_hot_us": {"n": 2, "median": 3, "max": 5},
            "recover_cold_us": {"n": 1, "median": 9, "max": 9},
        }
    ]


# Trials of a cell of which 10 were asked for, at most one of them VOID: does the cell agree?
AGREE = {
    (10, 0, 0): True,
    (9, 1, 0): True,
    (8, 2, 0): False,
    (9, 0, 1): False,
    (9, 0, 0): True,
    (8, 0, 0): False,
    (8, 1, 1): False,
    (0, 0, 0): False,
}


def cell_of(module, hits, void, differing):
    trials = [RED] * hits + [VOID] * void + [GREEN] * differing
    return module.summarise(run(*trials, k=10))["cells"][0]


@pytest.mark.parametrize("counts", AGREE)
def test_the_rule_of_agreement(counts):
    cell = cell_of(summary_module, *counts)
    assert cell["agrees"] == AGREE[counts]
    # VOID stays in the denominator, and so does what did not run.
    assert cell["rate"] == [counts[0], 10]


def test_cells_come_row_by_row():
    given = run(rows=("r_idem", "r_dup"), barriers=["b0", "b2"])
    cells = summarise(given)["cells"]
    assert [(cell["row"], cell["barrier"]) for cell in cells] == [
        ("r_idem", "b0"),
        ("r_idem", "b2"),
        ("r_dup", "b0"),
        ("r_dup", "b2"),
    ]


def test_controls_are_what_the_model_says_under_the_fault():
    declared = S1_ROWS["r_lost"].words()
    engines = {"e": {"control": {"name": "r_lost", "declaration": declared}}}
    lost = trial("r_lost", "b1", "LOST")
    killed = summarise(run(lost, rows=("r_lost",), engines=engines))
    assert killed["controls"] == [
        {
            "engine": "e",
            "row": "r_lost",
            "predicted": "LOST",
            "counts": {"LOST": 1},
            "alive": True,
        }
    ]
    frozen = summarise(run(lost, rows=("r_lost",), engines=engines, fault="freeze"))
    assert frozen["controls"][0]["predicted"] == "EXACTLY_ONCE"
    assert not frozen["controls"][0]["alive"]


REFERENCES = {
    "sound": (reference(), None),
    "VOID": (
        reference(effects="VOID", void="it hung"),
        "an uncrashed run is VOID (it hung)",
    ),
    "red": (
        reference(effects="DUPLICATED"),
        "an uncrashed run is DUPLICATED (no crash at all)",
    ),
    "without barriers": (reference(passed=[]), "an uncrashed run passes no barrier"),
    "with too few": (reference(passed=["b0", "b2"]), "an uncrashed run passes b0, b2"),
    "with too many": (
        reference(passed=["b0", "b1", "b1", "b2"]),
        "an uncrashed run passes b0, b1, b1, b2",
    ),
    "in another order": (
        reference(passed=["b1", "b0", "b2"]),
        "an uncrashed run passes b1, b0, b2",
    ),
    "nothing known": (
        {"row": "r", "verdict": {"effects": "EXACTLY_ONCE"}, "seen": {}},
        "an uncrashed run passes no barrier",
    ),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_what_makes_a_reference(name):
    given, fault = REFERENCES[name]
    assert reference_fault(given) == fault


def test_a_declaration_is_found_again_in_its_words():
    for declared in every_declaration():
        assert declaration_of(declared.words()) == declared
    with pytest.raises(ValueError, match="sometimes"):
        declaration_of({**S1_ROWS["r_dup"].words(), "determinism": "sometimes"})
    with pytest.raises(KeyError):
        declaration_of({})


PAID = digest({"paid": True})


def expectations(module, name, fault, barrier, given):
    found = module.expectation(
        effects=("charge",),
        declaration=S1_ROWS[name],
        fault=fault,
        barrier=barrier,
        reference=given,
    )
    place = found.place and (found.place.effect_done, found.place.recorded)
    return (found.fault, found.barrier, place, found.result)


EXPECTED = [
    (("r_dup", FaultKind.KILL, "b1", reference()), ("kill", "b1", (True, False), PAID)),
    (("r_lost", FaultKind.FREEZE, "b1", reference()), ("freeze", "b1", (False, True), PAID)),
    (("r_dup", FaultKind.KILL, "b2", None), ("kill", "b2", (True, True), None)),
    (("r_dup", FaultKind.KILL, "b0", {"seen": {}}), ("kill", "b0", (False, False), None)),
    (("r_dup", None, None, None), (None, None, None, None)),
    (("r_dup", None, "b1", reference()), (None, None, None, PAID)),
    (("r_dup", FaultKind.KILL, None, reference()), (None, None, None, PAID)),
]


@pytest.mark.parametrize(("given", "found"), EXPECTED)
def test_what_a_trial_is_judged_against(given, found):
    assert expectations(summary_module, *given) == found


def stands(module):
    return (
        all(
            (summary["exit"], summary["findings"]) == (code, findings)
            for given, code, findings in RUNS.values()
            for summary in [module.summarise(given)]
        )
        and all(cell_of(module, *counts)["agrees"] == agrees for counts, agrees in AGREE.items())
        and all(module.reference_fault(given) == fault for given, fault in REFERENCES.values())
        and all(expectations(module, *given) == found for given, found in EXPECTED)
        and module.summarise(DETAILED) == summarise(DETAILED)
    )


DETAILED = run(
    *[
        trial(name, barrier, outcome, recover_us=n, mode=mode)
        for n, (name, barrier, outcome, mode) in enumerate(
            product(("r_dup", "r_idem"), BARRIERS, ("DUPLICATED", "LOST"), ("hot", "cold"))
        )
    ],
    trial("r_dup", "b1", "VOID", void="late", recover_us=99),
    trial("r_dup", "b1", "DUPLICATED"),
    k=8,
    barriers=BARRIERS,
    rows=("r_dup", "r_idem"),
)


def survives(mutated):
    try:
        return stands(load(mutated))
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


def test_no_mutant_survives():
    source = getsource(summary_module)
    assert stands(load(source)), "the checks must pass on the original"
    broken = mutants(source, members=MEMBERS)
    assert len(broken) > 60
    assert [what for what, mutated in broken if survives(mutated)] == []


def test_nothing_is_changed_by_being_summed_up():
    before = deepcopy(DETAILED)
    summarise(DETAILED)
    assert before == DETAILED
