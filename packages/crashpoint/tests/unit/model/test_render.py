import hashlib
import json
from dataclasses import replace

from crashpoint.model import (
    S1_ROWS,
    Barrier,
    FaultKind,
    Takeover,
    as_json,
    predictions_digest,
    table,
)
from unit.model.tables import FREEZE, KILL

FEW = {name: S1_ROWS[name] for name in ("r_lost", "r_twophase")}


def test_the_table_is_aligned_and_holds_the_declaration_first():
    assert table(FEW, FaultKind.KILL).split("\n") == [
        f"{left}  {right}"
        for left, right in (
            (
                "row         durability  persist order  effect mode  determinism ",
                "b0            b1            b2",
            ),
            (
                "r_lost      journaled   before-effect  naive        reproducible",
                "EXACTLY_ONCE  LOST          EXACTLY_ONCE",
            ),
            (
                "r_twophase  journaled   after-effect   twophase     drawn       ",
                "EXACTLY_ONCE  EXACTLY_ONCE  EXACTLY_ONCE",
            ),
        )
    ]


def test_the_takeover_has_a_column_where_a_row_answers_that_question():
    ended = replace(S1_ROWS["r_dup"], takeover=Takeover.AFTER_DEATH)
    heads, dup, new = table(
        {"r_dup": S1_ROWS["r_dup"], "r_new": ended}, FaultKind.FREEZE
    ).splitlines()
    assert dup.split()[1:6] == [*S1_ROWS["r_dup"].words().values(), "while-alive"]
    assert new.split()[1:] == [
        *ended.words().values(),
        "EXACTLY_ONCE",
        "DUPLICATED",
        "EXACTLY_ONCE",
    ]
    assert "takeover" in heads
    rows = as_json({"r_new": ended}, FaultKind.FREEZE)["rows"]
    assert rows["r_new"]["declaration"]["takeover"] == "after-death"


def test_the_table_of_no_rows_is_its_headings():
    assert table({}, FaultKind.KILL) == (
        "row  durability  persist order  effect mode  determinism  b0  b1  b2"
    )


def test_json_holds_declaration_and_prediction_of_each_row():
    assert as_json({"r_null": S1_ROWS["r_null"]}, FaultKind.FREEZE) == {
        "fault": "freeze",
        "rows": {
            "r_null": {
                "declaration": {
                    "durability": "none",
                    "persist_order": "after-effect",
                    "effect_mode": "naive",
                    "determinism": "reproducible",
                },
                "predicted": {"b0": "DUPLICATED", "b1": "DUPLICATED", "b2": "DUPLICATED"},
            },
        },
    }


def test_json_holds_every_row_in_order_and_the_asked_for_fault():
    kill, freeze = (as_json(S1_ROWS, fault)["rows"] for fault in FaultKind)
    assert [*kill] == [*KILL]
    assert {name: (*row["predicted"].values(),) for name, row in kill.items()} == KILL
    assert {name: (*freeze[name]["predicted"].values(),) for name in FREEZE} == FREEZE
    assert [*kill["r_null"]["predicted"]] == [barrier.value for barrier in Barrier]


def test_the_digest_is_the_sha256_of_the_compact_sorted_json():
    text = json.dumps(as_json(FEW, FaultKind.KILL), sort_keys=True, separators=(",", ":"))
    assert predictions_digest(FEW, FaultKind.KILL) == hashlib.sha256(text.encode()).hexdigest()


def test_the_digest_sees_rows_names_declarations_and_fault_but_not_order():
    base = predictions_digest(FEW, FaultKind.KILL)
    lost, twophase = FEW.values()
    assert predictions_digest(dict(reversed(FEW.items())), FaultKind.KILL) == base
    changed = [
        predictions_digest({"r_lost": lost}, FaultKind.KILL),
        predictions_digest({"r_lost": lost, "r_other": twophase}, FaultKind.KILL),
        # The same outcomes, another declaration.
        predictions_digest({**FEW, "r_twophase": S1_ROWS["r_idem"]}, FaultKind.KILL),
        predictions_digest(FEW, FaultKind.FREEZE),
    ]
    assert len({base, *changed}) == 5


def test_the_digests_of_the_26_are_what_evidence_pins():
    # A change here is a change of a published prediction: it needs an entry in results/.
    assert {fault.value: predictions_digest(S1_ROWS, fault) for fault in FaultKind} == {
        "kill": "9e890a66807a06a57b1137b6dff457ee29a42c650c250be522fb7fbd62d0f3ce",
        "freeze": "858dab36e958e73ef42e09640291455bdcc4e31219b2bc8cbd2ae8fee0a2fd59",
    }
