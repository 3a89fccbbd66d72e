"""Evidence that was touched does not verify, however well the rest was made to fit.

Two forgers: one recomputes the receipt; the other has read the run's key out of the file and makes
the closing seal anew as well. What the second can still not do is change what the trials say.
"""

import copy
import io
import json
import random
import re

import pytest

from crashpoint.adapters.controls import Controls
from crashpoint.canonical import digest
from crashpoint.harness.partial import Partial
from crashpoint.harness.summary import summarise
from crashpoint.harness.verify import verify
from crashpoint.ledger.chain import Chain, Kind, trial_key
from crashpoint.model import Barrier
from crashpoint.pipeline.evidence import EvidenceFault, render
from matrices import document_of

ROWS = ("r_dup", "r_idem")
SAMPLE = 300


class Evidence:
    """A real run, and a way to write a changed copy of it."""

    def __init__(self, folder):
        self.document, self.lines = document_of(Controls(), ROWS, k=2)
        self.text = render(self.document).decode()
        self._folder = folder

    def copy(self):
        return copy.deepcopy(self.document)

    def verified(self, content, name="copy.json"):
        path = self._folder / name
        if isinstance(content, dict):
            content = render(content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return verify(path)

    def refused(self, content, name="copy.json"):
        """What is wrong with it."""
        with pytest.raises(EvidenceFault) as fault:
            self.verified(content, name)
        return str(fault.value)


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    return Evidence(tmp_path_factory.mktemp("evidence"))


def with_receipt(document):
    rest = {name: value for name, value in document.items() if name != "receipt"}
    document["receipt"] = f"sha256:{digest(rest)}"
    return document


def closed_anew(document):
    """As by somebody with the run's key and the program."""
    body = {name: v for name, v in document.items() if name not in {"closing", "receipt"}}
    key = trial_key(bytes.fromhex(document["run_key"]), "closing")
    chain = Chain("closing", key)
    chain.append(Kind.OPEN, 1)
    chain.append(Kind.SEAL, 2, note=digest(body))
    document["closing"] = {"head": chain.head, "count": 2, "records": chain.records}
    return with_receipt(document)


def trial(document, name):
    return next(t for t in document["trials"] if t["trial"] == name)


def test_the_run_itself_holds(evidence):
    assert evidence.verified(evidence.text).says == "12 trials, fault kill, exit 0"


def test_the_second_forger_changes_nothing_and_is_believed(evidence):
    assert evidence.verified(closed_anew(evidence.copy())).says == "12 trials, fault kill, exit 0"


def digits(text):
    """Places of digits: some of every line, and a seeded sample of all."""
    drawn = random.Random(8039)
    places, start = set(), 0
    for line in text.splitlines(keepends=True):
        found = [start + match.start() for match in re.finditer(r"\d", line)]
        places.update(found[:2], found[-2:], drawn.sample(found, min(4, len(found))))
        start += len(line)
    every = [match.start() for match in re.finditer(r"\d", text)]
    return sorted(places | set(drawn.sample(every, SAMPLE)))


def with_another_digit(text, place):
    other = str((int(text[place]) + 1 + place % 9) % 10)
    return text[:place] + other + text[place + 1 :]


def test_no_digit_can_be_another(evidence):
    places = digits(evidence.text)
    assert len(places) > SAMPLE
    for place in places:
        changed = with_another_digit(evidence.text, place)
        assert changed != evidence.text
        evidence.refused(changed)


def test_no_digit_can_be_another_under_a_new_receipt(evidence):
    receipt = evidence.text.index('"receipt"')
    for place in digits(evidence.text[:receipt]):
        changed = with_another_digit(evidence.text, place)
        try:
            document = json.loads(changed)
        except ValueError:  # 08
            evidence.refused(changed)
            continue
        evidence.refused(with_receipt(document))


def test_an_outcome_cannot_be_another(evidence):
    for forge, says in (
        (with_receipt, "the closing seal is not over this content"),
        (
            closed_anew,
            "trial r_dup.b1.0000: judged again it is DUPLICATED, the file says otherwise",
        ),
    ):
        document = evidence.copy()
        trial(document, "r_dup.b1.0000")["verdict"]["effects"] = "EXACTLY_ONCE"
        document["summary"] = summarise(document)
        assert document["summary"]["exit"] == 3
        assert evidence.refused(forge(document)) == says


def edit(change, says):
    return pytest.param(change, says, id=change.__name__)


def removed(document):
    document["trials"].remove(trial(document, "r_idem.b1.0001"))


def repeated(document):
    document["trials"].append(trial(document, "r_idem.b1.0001"))


def repeated_instead_of_another(document):
    document["trials"][-1] = document["trials"][-2]


def swapped_between_barriers(document):
    one, other = trial(document, "r_dup.b0.0000"), trial(document, "r_dup.b2.0000")
    one["barrier"], other["barrier"] = other["barrier"], one["barrier"]


def swapped_between_rows(document):
    one, other = trial(document, "r_dup.b1.0000"), trial(document, "r_idem.b1.0000")
    one["row"], other["row"] = other["row"], one["row"]


def renamed(document):
    trial(document, "r_dup.b1.0001")["trial"] = "r_dup.b1.0002"


def another_trial_under_this_name(document):
    at = document["trials"].index(trial(document, "r_dup.b1.0001"))
    document["trials"][at] = {**trial(document, "r_dup.b1.0000"), "trial": "r_dup.b1.0001"}


def observed_otherwise(document):
    trial(document, "r_dup.b1.0000")["seen"]["recover_us"] += 1


def store_read_otherwise(document):
    trial(document, "r_dup.b1.0000")["seen"]["store"]["recorded"] = True


def result_reported_otherwise(document):
    trial(document, "r_dup.b1.0000")["seen"]["final"]["result"] = {"paid": False}


def observed_more(document):
    trial(document, "r_dup.b1.0000")["seen"]["weather"] = "fine"


def action_of_another_size(document):
    trial(document, "r_dup.b1.0000")["records"][1]["action"]["cents"] = 1


def attempt_dropped(document):
    found = trial(document, "r_dup.b1.0000")
    found["records"] = [record for record in found["records"] if record["n"] != 2]
    found["count"] = len(found["records"])


def tail_cut(document):
    found = trial(document, "r_dup.b1.0000")
    found["records"].pop()
    found["count"], found["head"] = len(found["records"]), found["records"][-1]["hash"]


def reference_removed(document):
    document["references"].pop()


def reference_repeated(document):
    document["references"].append(document["references"][0])


def reference_of_another_result(document):
    document["references"][0]["seen"]["final"]["result"] = {"paid": 2}


def prediction_changed(document):
    document["rows"][0]["predicted"]["b1"] = "EXACTLY_ONCE"


def declaration_changed(document):
    document["rows"][0]["declaration"]["effect_mode"] = "idempotent"
    document["rows"][0]["predicted"]["b1"] = "EXACTLY_ONCE"


def digest_of_predictions_changed(document):
    document["predictions"] = "0" * 64


def fewer_asked_for(document):
    document["k"] = 1


def more_asked_for(document):
    document["k"] = 3


def barrier_dropped(document):
    document["barriers"].remove("b2")


def row_dropped(document):
    document["rows"].pop()
    document["trials"] = [t for t in document["trials"] if t["row"] == "r_dup"]
    document["references"] = [t for t in document["references"] if t["row"] == "r_dup"]


def more_void_allowed(document):
    document["summary"]["cells"][0]["void"] = 1


def finding_dropped(document):
    document["summary"]["findings"] = ["all is well"]


def exit_changed(document):
    document["summary"]["exit"] = 1


def effect_renamed(document):
    document["engines"]["controls"]["effects"] = ["refund"]


def control_chosen_anew(document):
    document["engines"]["controls"]["control"]["name"] = "r_idem"


def fault_changed(document):
    document["fault"] = "freeze"


def fault_invented(document):
    document["fault"] = "sneeze"


def member_missing(document):
    del document["engines"]


def trials_no_list(document):
    document["trials"] = {"r_dup": 1}


def trial_no_object(document):
    document["trials"][0] = 7


def verdict_missing(document):
    del document["trials"][0]["verdict"]


def barrier_dropped_everywhere(document):
    barrier_dropped(document)
    document["summary"] = summarise(document)


NOT_SEALED = "judged again it is VOID (the observations are not the ones that were sealed)"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        edit(removed, "r_idem at b1: 1 trials, there should be 2"),
        edit(repeated, "trial r_idem.b1.0001 stands in the file 2 times"),
        edit(repeated_instead_of_another, "stands in the file 2 times"),
        edit(swapped_between_barriers, "trial r_dup.b0.0000 stands at r_dup, b2"),
        edit(swapped_between_rows, "trial r_dup.b1.0000 stands at r_idem, b1"),
        edit(renamed, "trial r_dup.b1.0002: judged again it is VOID (record 0: belongs to trial"),
        edit(another_trial_under_this_name, "judged again it is VOID (record 0: belongs to trial"),
        edit(observed_otherwise, NOT_SEALED),
        edit(store_read_otherwise, NOT_SEALED),
        edit(result_reported_otherwise, NOT_SEALED),
        edit(observed_more, "malformed (TypeError:"),
        edit(action_of_another_size, "judged again it is VOID (record 1: content does not match"),
        edit(attempt_dropped, "judged again it is VOID (record 2: is numbered 3)"),
        edit(tail_cut, "judged again it is VOID (no seal at the end)"),
        edit(reference_removed, "malformed (KeyError:"),
        edit(reference_repeated, "trial r_dup.reference stands in the file 2 times"),
        edit(reference_of_another_result, NOT_SEALED),
        edit(prediction_changed, "r_dup at b1: the model predicts DUPLICATED, the file says"),
        edit(declaration_changed, "the digest of the predictions is not the rows'"),
        edit(digest_of_predictions_changed, "the digest of the predictions is not the rows'"),
        edit(fewer_asked_for, "r_dup at b0: 2 trials, there should be 1"),
        edit(more_asked_for, "r_dup at b0: 2 trials, there should be 3"),
        edit(barrier_dropped, "trial r_dup.b2.0000 stands in no cell that was asked for"),
        edit(barrier_dropped_everywhere, "trial r_dup.b2.0000 stands in no cell"),
        edit(row_dropped, "the digest of the predictions is not the rows'"),
        edit(more_void_allowed, "summary: cells is not what the trials give"),
        edit(finding_dropped, "summary: findings is not what the trials give"),
        edit(exit_changed, "summary: exit is not what the trials give"),
        edit(effect_renamed, "an effect nobody expected: 'charge'"),
        edit(control_chosen_anew, "summary: controls is not what the trials give"),
        edit(fault_changed, "r_dup at b0: the model predicts DUPLICATED"),
        edit(fault_invented, "malformed (ValueError: 'sneeze' is not a valid FaultKind)"),
        edit(member_missing, "malformed (KeyError: 'engines')"),
        edit(trials_no_list, "malformed (TypeError:"),
        edit(trial_no_object, "malformed (TypeError:"),
        edit(verdict_missing, "malformed (KeyError: 'verdict')"),
    ],
)
def test_the_second_forger_is_found_out(evidence, change, says):
    document = evidence.copy()
    change(document)
    assert evidence.refused(with_receipt(document)) == "the closing seal is not over this content"
    assert says in evidence.refused(closed_anew(document))


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("00" * 32, "the closing seal: record 0: MAC is not the ledger's"),
        ("xy", "the closing seal is malformed (ValueError:"),
        (7, "the closing seal is malformed (TypeError:"),
    ],
)
def test_another_key(evidence, key, says):
    document = evidence.copy()
    document["run_key"] = key
    assert says in evidence.refused(with_receipt(document))
    document["run_key"] = "00" * 32
    assert "record 0: MAC is not the ledger's" in evidence.refused(closed_anew(document))


@pytest.mark.parametrize(
    "closing",
    [None, [], {}, 7, "x", {"records": []}, {"records": {}}, {"records": [7]}, {"records": [{}]}],
)
def test_a_closing_seal_that_is_none(evidence, closing):
    document = evidence.copy()
    document["closing"] = closing
    assert "the closing seal" in evidence.refused(with_receipt(document))
    del document["closing"]
    assert "the closing seal" in evidence.refused(with_receipt(document))


def test_another_form_of_the_same_is_refused(evidence):
    says = "it is not in the form in which crashpoint writes evidence"
    document = evidence.document
    for text in (
        json.dumps(document),
        json.dumps(document, indent=1),
        json.dumps(document, indent=1, sort_keys=True) + "\n",
        evidence.text + "\n",
        evidence.text.rstrip("\n"),
        " " + evidence.text,
        evidence.text.replace("\n", "\r\n"),
        evidence.text.replace('"cents": 1999', '"cents":1999', 1),
        evidence.text.replace("r_dup", "r\\u005fdup", 1),
    ):
        assert evidence.refused(text) == says


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not JSON that can be kept"),
        (b"{", "not JSON that can be kept"),
        (b"\xff\xfe", "not JSON that can be kept"),
        (b"\xef\xbb\xbf{}\n", "not JSON that can be kept"),
        (b"[]\n", "it is not in the form"),
        (b"7\n", "it is not in the form"),
        (b'{\n "a": 1,\n "a": 1\n}\n', "key 'a' stands twice"),
        (render({"format": "crashpoint.matrix/2"}), "format 'crashpoint.matrix/2' is not known"),
        (
            render({"format": ["crashpoint.matrix/1"]}),
            "format ['crashpoint.matrix/1'] is not known",
        ),
        (render({"format": None}), "format None is not known here"),
        (render({"other": 1}), "format None is not known here"),
        (render({"format": "crashpoint.matrix/1"}), "the receipt is not the content's"),
        (render(with_receipt({"format": "crashpoint.matrix/1"})), "the closing seal"),
    ],
)
def test_what_is_no_evidence(evidence, content, says):
    assert says in evidence.refused(content)


def test_what_cannot_be_read(tmp_path):
    for path in (tmp_path / "nowhere.json", tmp_path / "nowhere.jsonl"):
        with pytest.raises(EvidenceFault, match=r"^cannot be read: No such file or directory$"):
            verify(path)
    with pytest.raises(EvidenceFault, match=r"^it is no regular file$"):
        verify(tmp_path)


def partial(document, *, without):
    document["complete"] = False
    document["trials"] = [t for t in document["trials"] if t["trial"] not in without]
    document["summary"] = summarise(document)
    return closed_anew(document)


def test_an_interrupted_run_may_lack_trials_but_not_have_too_many(evidence):
    cut = partial(evidence.copy(), without=["r_dup.b1.0001", "r_idem.b2.0000"])
    checked = evidence.verified(cut)
    assert checked.says == "10 trials, fault kill, exit 3"
    assert checked.warnings[0] == "PARTIAL: the run was interrupted"
    more = evidence.copy() | {"complete": False, "k": 1}
    assert "2 trials, there should be 1" in evidence.refused(closed_anew(more))


def test_lines_of_a_run_that_was_cut_off(evidence):
    lines = evidence.lines
    assert evidence.verified(lines, "cut.jsonl").says == (
        "12 sealed trials of a run that was cut off"
    )
    for end in (len(lines) - 1, len(lines) - 100, lines.rindex("\n", 0, -1) + 1):
        checked = evidence.verified(lines[:end], "cut.jsonl")
        assert checked.says == "11 sealed trials of a run that was cut off"
        assert checked.warnings == ("PARTIAL: not closed",)
    head = lines.index("\n") + 1
    assert evidence.verified(lines[:head], "cut.jsonl").says.startswith("0 sealed trials")
    for end in (0, 1, head - 2):
        assert evidence.refused(lines[:end], "cut.jsonl") == (
            "it holds no run: its first line is cut short"
        )


def test_no_digit_of_a_line_can_be_another(evidence):
    for place in digits(evidence.lines):
        evidence.refused(with_another_digit(evidence.lines, place), "cut.jsonl")


def linked(*records):
    """Lines as they are written, each bound to the one before; that takes no key."""
    sink = io.StringIO()
    partial = Partial(sink)
    for record in records:
        partial.add({name: value for name, value in record.items() if name != "line"})
    return sink.getvalue()


def test_lines_are_bound_to_each_other(evidence):
    lines = evidence.lines.splitlines(keepends=True)
    assert linked(*map(json.loads, lines)) == evidence.lines
    for kept, says in (
        ([*lines[:2], *lines[3:]], "line 3 is not what was written there"),
        ([lines[1], lines[0], *lines[2:]], "line 1 is not what was written there"),
        ([*lines, lines[-1]], f"line {len(lines) + 1} is not what was written there"),
        ([lines[0], "7\n"], "line 2 is malformed"),
        ([lines[0], "{}\n"], "line 2 is malformed ('line')"),
        ([lines[0], "what?\n", *lines[1:]], "line 2 is malformed"),
        (["[]\n", *lines[1:]], "line 1 is malformed"),
    ):
        assert says in evidence.refused("".join(kept), "cut.jsonl")


def test_lines_that_were_bound_anew_are_judged_all_the_same(evidence):
    head, first, *rest = map(json.loads, evidence.lines.splitlines())
    predicted = copy.deepcopy(head)
    predicted["rows"][0]["predicted"]["b1"] = "LOST"
    forged = copy.deepcopy(rest)
    forged[-1]["verdict"]["effects"] = "LOST"
    placed = copy.deepcopy(rest)
    placed[-1]["barrier"] = {"b0": "b2", "b1": "b0", "b2": "b1"}[placed[-1]["barrier"]]
    for records, says in (
        ([head, {}], "malformed (KeyError: 'kind')"),
        ([head, *rest], "malformed (KeyError:"),
        ([head, first, *rest, rest[-1]], "stands in the file 2 times"),
        ([predicted, first, *rest], "the model predicts DUPLICATED"),
        ([head, first, *forged], "the file says otherwise"),
        ([head, first, *placed], f"trial {placed[-1]['trial']} stands at"),
    ):
        assert says in evidence.refused(linked(*records), "cut.jsonl")


def test_barriers_are_those_of_the_model(evidence):
    assert evidence.document["barriers"] == [barrier.value for barrier in Barrier]
