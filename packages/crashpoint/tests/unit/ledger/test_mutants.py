"""Every break of a rule of the oracle and of the chain is caught by a small battery of chains."""

import copy
import sys
from collections.abc import Callable, Iterator
from inspect import getsource
from types import ModuleType
from typing import Any

import pytest

from crashpoint.canonical import GENESIS
from crashpoint.ledger import chain as chain_module
from crashpoint.ledger import oracle as oracle_module
from crashpoint.ledger.chain import Kind, SealedChain, trial_key
from unit.ledger.chains import KEY, RUN_KEY, TRIAL, believed, rehashed, sealed, signed
from unit.ledger.outcomes import CASES
from unit.mutate import OUTCOMES, load, mutants

MEMBERS = {**OUTCOMES, "Kind": tuple(Kind.__members__)}

FULL = sealed(
    {"effect": "charge", "key": "k", "action": 1, "id": "i"},
    {"effect": "charge", "key": "k", "action": 1, "id": "i"},
    {"effect": "charge", "key": "k", "action": 2, "id": "j"},
    {"effect": "charge", "action": [2], "pid": 5},
)
OPEN, ATTEMPT, RESEND, MISMATCH, KEYLESS, SEAL = range(6)

Edit = Callable[[list[Any]], None]


def edited(edit: Edit) -> list[Any]:
    records = copy.deepcopy(list(FULL.records))
    edit(records)
    return records


def put(at: int, **members: Any) -> list[Any]:
    return edited(lambda records: records[at].update(members))


def without(at: int, name: str) -> list[Any]:
    return edited(lambda records: records[at].pop(name))


# Signed by somebody who has the key and the controller's ear: only what the daemon would never
# write can give these away.
UNFIT: dict[str, list[Any]] = {
    "the digest is another action's": put(KEYLESS, digest="0" * 64),
    "a mismatch that is none": put(KEYLESS, mismatch=True),
    "a mismatch under a key that is none": put(ATTEMPT, mismatch=True),
    "a mismatch hidden": put(MISMATCH, mismatch=False),
    "a re-send hidden among attempts": put(RESEND, kind="attempt"),
    "an attempt hidden as a re-send": put(KEYLESS, kind="resend"),
    "a re-send from another process": put(
        RESEND, peer={"pid": 5, "uid": 1000, "gid": 1000, "start": 35}
    ),
    "a re-send of another id": put(RESEND, id="j"),
    "a re-send of another effect": put(RESEND, effect="mail"),
    "a re-send with another action": put(
        RESEND, action=2, digest=FULL.records[MISMATCH]["digest"], mismatch=True
    ),
    "a re-send without its key": put(RESEND, key=None),
}


def oracle_stands(module: ModuleType) -> bool:
    for case in CASES.values():
        chain = sealed(*case.attempts)
        counted = module.count(chain, case.wanted)
        found = {
            name: (e.outcome, e.crossings, e.attempts, e.mismatches)
            for name, e in counted.effects.items()
        }
        if (counted.outcome, found) != (case.outcome, case.effects):
            return False
        crossed = sum(each for _, each, _, _ in case.effects.values())
        if case.effects and module.crossings(chain.records[:-1]) != crossed:
            return False
    return not any(oracle_believes(module, chain) for chain in forged_chains())


def oracle_believes(module: ModuleType, chain: SealedChain) -> bool:
    return module.count(chain, ["charge", "mail"]).void is None


def forged_chains() -> Iterator[SealedChain]:
    for records in UNFIT.values():
        yield believed(FULL, rehashed(records))
    yield believed(FULL, put(ATTEMPT, effect="mail"))
    longer = rehashed([*FULL.records[:-1], FULL.records[KEYLESS], FULL.records[SEAL]])
    longer[KEYLESS + 1] |= {"id": "new"}
    longer = rehashed(longer)
    yield SealedChain(TRIAL, KEY, longer[-1]["hash"], FULL.count, longer)
    yield SealedChain(TRIAL, KEY, FULL.head, len(longer), longer)
    yield SealedChain(TRIAL, KEY, FULL.head, FULL.count, None)  # type: ignore[arg-type]
    yield SealedChain(TRIAL, KEY, GENESIS, 0, [])
    yield SealedChain(TRIAL, KEY, FULL.head, 1, [{}])


def signed_at(at: int, **members: Any) -> list[Any]:
    """Signed anew from there on, whatever the link to the record before now says."""
    records = put(at, **members)
    records[at] = signed(records[at])
    for later in range(at + 1, len(records)):
        records[later] = signed({**records[later], "prev": records[later - 1]["hash"]})
    return records


# The list, and whether it is asked to be complete. Each breaks one rule and keeps the others.
FAULTS: dict[str, tuple[list[Any], bool]] = {
    "another trial's": (rehashed(put(OPEN, trial="t-2")), True),
    "numbered wrong": (signed_at(KEYLESS, n=7), True),
    "numbered with a float": (signed_at(KEYLESS, n=float(KEYLESS)), True),
    "no link to the one before": (signed_at(KEYLESS, prev="0" * 64), True),
    "content changed": (put(KEYLESS, at_ns=0), True),
    "hash changed": (put(SEAL, hash="0" * 64), True),
    "another key's MAC": (rehashed(FULL.records, trial_key(RUN_KEY, "t-2")), True),
    "unknown kind": (rehashed(put(SEAL, kind="end")), True),
    "a kind that is no word": (rehashed(put(SEAL, kind=[])), True),
    "a second opening": (
        rehashed(edited(lambda r: r.insert(1, dict(r[OPEN])))),
        True,
    ),
    "no opening": (rehashed(FULL.records[1:]), True),
    "a seal at the start": (rehashed([FULL.records[SEAL]]), True),
    "a record after the seal": (
        rehashed(edited(lambda r: r.append(dict(r[SEAL])))),
        True,
    ),
    "no seal": (rehashed(FULL.records[:-1]), True),
    "nothing at all": ([], True),
    "a member too many": (rehashed(put(OPEN, note="x")), True),
    "a member of another kind": (rehashed(put(SEAL, body=1)), True),
    "no note": (rehashed(without(SEAL, "note")), True),
    "no action": (rehashed(without(KEYLESS, "action")), True),
    "no peer": (rehashed(without(RESEND, "peer")), True),
    "a peer that is none": (rehashed(put(KEYLESS, peer=[])), True),
    "a peer without a start": (
        rehashed(edited(lambda r: r[KEYLESS]["peer"].pop("start"))),
        True,
    ),
    "a peer with more": (rehashed(edited(lambda r: r[KEYLESS]["peer"].update(name=1))), True),
    "a peer that is true": (rehashed(edited(lambda r: r[KEYLESS]["peer"].update(pid=True))), True),
    "a note that is a number": (rehashed(put(SEAL, note=1)), True),
    "a mismatch that is a number": (rehashed(put(KEYLESS, mismatch=0)), True),
    "a key that is a number": (rehashed(put(KEYLESS, key=0)), True),
    "no record": ([*FULL.records[:SEAL], None], True),
    "not a seal, when only the links are asked for": (put(KEYLESS, at_ns=0), False),
}


def chain_stands(module: ModuleType) -> bool:
    for records, complete in FAULTS.values():
        if module.fault_in(TRIAL, KEY, records, complete=complete) is None:
            return False
    whole = list(FULL.records)
    return (
        module.fault_in(TRIAL, KEY, whole) is None
        and module.fault_in(TRIAL, KEY, whole[:-1]) is not None
        and all(
            module.fault_in(TRIAL, KEY, whole[:n], complete=False) is None
            for n in range(len(whole) + 1)
        )
        and module.fault_in(TRIAL, KEY, witnessed(module)) is None
        and grows_right(module)
    )


def witnessed(module: ModuleType) -> list[Any]:
    chain = module.Chain(TRIAL, KEY)
    chain.append(module.Kind.OPEN, 1)
    peer = dict.fromkeys(("pid", "uid", "gid", "start"), 1)
    for body in (None, True, 1, 1.5, "x", [], {}):
        chain.append(module.Kind.WITNESS, 2, peer=peer, body=body)
    chain.append(module.Kind.SEAL, 3, note="")
    return chain.records


def grows_right(module: ModuleType) -> bool:
    chain = module.Chain(TRIAL, KEY)
    steps = [(chain.head, chain.sealed)]
    for kind, fields in (("OPEN", {}), ("SEAL", {"note": "x"})):
        record, line = chain.append(module.Kind[kind], 1, **fields)
        steps.append((chain.head, chain.sealed))
        if not line.endswith(f',"mac":"{record["mac"]}"}}\n'.encode()):
            return False
    first, last = (record["hash"] for record in chain.records)
    return steps == [(GENESIS, False), (first, False), (last, True)]


@pytest.mark.parametrize("what", FAULTS)
def test_each_fault_is_found_and_said_in_one_line(what):
    records, complete = FAULTS[what]
    said = chain_module.fault_in(TRIAL, KEY, records, complete=complete)
    assert said is not None
    assert "\n" not in said


@pytest.mark.parametrize("what", UNFIT)
def test_what_the_daemon_would_not_write_is_void_whoever_signed_it(what):
    chain = believed(FULL, rehashed(UNFIT[what]))
    assert chain_module.fault_in(TRIAL, KEY, chain.records) is None, "only the oracle can tell"
    assert not oracle_believes(oracle_module, chain)


@pytest.mark.parametrize(
    ("module", "stands"), [(oracle_module, oracle_stands), (chain_module, chain_stands)]
)
def test_no_mutant_survives(module, stands, monkeypatch):
    # Where dataclasses look up the module that they are defined in.
    monkeypatch.setitem(sys.modules, "mutant", ModuleType("mutant"))
    source = getsource(module)
    assert stands(load(source)), "the checks must pass on the original"
    broken = mutants(source, members=MEMBERS)
    assert len(broken) > 30
    survivors = [what for what, mutated in broken if survives(stands, mutated)]
    assert survivors == []


def survives(stands: Callable[[ModuleType], bool], mutated: str) -> bool:
    try:
        return stands(load(mutated))
    except Exception:  # noqa: BLE001  whatever it is, it was noticed
        return False
