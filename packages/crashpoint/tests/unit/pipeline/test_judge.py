"""The judge: every verdict and every reason for VOID, by construction; every break is noticed."""

import sys
from dataclasses import replace
from inspect import getsource
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crashpoint.ledger import oracle
from crashpoint.model import FaultKind, Outcome
from crashpoint.pipeline import judge as judge_module
from crashpoint.pipeline.judge import Ending, Observed, Result, judge
from unit.mutate import load, mutants
from unit.pipeline.judgements import CASES, WANT, Case, chain_of, killed

MEMBERS = {enum.__name__: tuple(enum.__members__) for enum in (Outcome, Ending, Result, FaultKind)}


CHAINS = {name: case.chain() for name, case in CASES.items()}


def said(module, name):
    case = CASES[name]
    return module.judge(CHAINS[name], case.want, case.seen, basis="KILLED").as_json()


def wanted(case: Case):
    verdict = {"effects": case.effects, "ending": case.ending, "result": case.result}
    return verdict | {"basis": "KILLED"} | ({"void": case.void} if case.void else {})


@pytest.mark.parametrize("name", CASES)
def test_the_verdict(name):
    assert said(judge_module, name) == wanted(CASES[name])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.effects == "VOID"])
def test_a_chain_that_does_not_hold_is_void_first(name):
    case = CASES[name]
    chain = replace(case.chain(), head="0" * 64)
    verdict = judge(chain, case.want, case.seen, basis="KILLED")
    assert verdict.void == "the chain does not end in the head that the controller knows"


def test_the_note_tells_observations_apart():
    good = killed()
    assert good.note() == killed().note()
    for changed in (killed(mode="cold"), killed(recover_us=10), killed(passed=())):
        assert changed.note() != good.note()
    assert Observed("hot").as_json() == {"mode": "hot", "passed": ()}


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
process = st.fixed_dictionaries(
    {
        "how": st.sampled_from(["crashed", "frozen", "ended", "hung"]),
        "code": st.none() | st.integers(-64, 255),
    },
    optional={"said": st.text(), "leftovers": st.integers(0, 9)},
)
fired = st.fixed_dictionaries(
    {"point": st.sampled_from(["b0", "b1", "b2"]), "announced_within": st.booleans()}
)
observed = st.builds(
    Observed,
    mode=st.sampled_from(["hot", "cold"]),
    passed=st.lists(st.sampled_from(["b0", "b1", "b2"])),
    first=st.none() | process,
    fired=st.none() | fired,
    records_at_fault=st.none() | st.integers(0, 5),
    store=st.none() | st.fixed_dictionaries({"recorded": st.booleans(), "facts": json}),
    recovery=st.none() | process,
    thawed=st.none() | process,
    final=st.none()
    | st.fixed_dictionaries({"finished": st.booleans(), "result": json, "facts": json}),
    error=st.none() | st.text(min_size=1),
)


@given(observed, st.sampled_from([None, *FaultKind]))
def test_whatever_was_seen_there_is_a_verdict(seen, fault):
    want = replace(WANT, fault=fault)
    verdict = judge(chain_of(((None, 1), (None, 1)), seen.note()), want, seen, basis="KILLED")
    assert (verdict.effects == "VOID") == (verdict.void is not None)
    if verdict.effects != "VOID":
        assert verdict.ending == "ENDED"
        assert seen.final["finished"]
        assert seen.error is None
        if fault is not None:
            assert seen.fired["point"] == "b1"
            assert not seen.store["recorded"]
            assert seen.recovery["code"] == 0


def stands(module):
    return all(
        said(module, name) == wanted(case)
        and module.Observed(**vars(case.seen)).note() == case.seen.note()
        for name, case in CASES.items()
    )


def survives(mutated):
    try:
        return stands(load(mutated))
    except (AttributeError, KeyError, TypeError):
        return False


def test_no_mutant_survives(monkeypatch):
    # Where dataclasses look up the module that they are defined in.
    monkeypatch.setitem(sys.modules, "mutant", ModuleType("mutant"))
    # The oracle has mutants of its own; what it says of a chain is the same each time.
    counted = {id(chain): oracle.count(chain, WANT.effects) for chain in CHAINS.values()}
    monkeypatch.setattr(oracle, "count", lambda chain, wanted: counted[id(chain)])
    source = getsource(judge_module)
    assert stands(load(source)), "the checks must pass on the original"
    broken = mutants(source, members=MEMBERS)
    assert len(broken) > 60
    assert [what for what, mutated in broken if survives(mutated)] == []
