"""Real targets: a LangGraph graph, and a script with a naive checkpoint beside its careful twin."""

import sys
from pathlib import Path

import pytest

from crashpoint.sweep.api import Job, Options, sweep
from crashpoint.sweep.words import kind_of
from sweep_targets import careful_import, graph, naive_import

FOLDER = Path(graph.__file__).parent
EFFECTS = ("file", "refund", "comment")


def codes(report):
    """What a single crash at each point came to."""
    return [(first.name, first.code) for _, first in sorted(report.firsts.items())]


def script(module, mode):
    name = module.__name__.rpartition(".")[2]
    start = [sys.executable, str(FOLDER / f"{name}.py")] if mode == "spawn" else module.main
    return Job(start, name=name)


@pytest.mark.timeout(300)
def test_a_graph_without_keys_does_an_effect_twice_until_langgraph_has_saved_its_writes():
    killed = sweep(Job(graph.naive), Options(mode="fork", depth=1))
    assert killed.outcomes.keys() == {".", "D"}
    windows = [name for name, code in codes(killed) if code == "D"]
    kinds = [kind_of(name) for name in windows]
    assert kinds == ["accepted", "returned", "writes"] * len(EFFECTS)
    accepted = [name.partition(":")[2] for name in windows if kind_of(name) == "accepted"]
    assert accepted == list(EFFECTS)
    # The refund was found by a look-up before it, which is sent again and changes nothing.
    assert "returned:look_up" in killed.points

    raised = sweep(Job(graph.naive), Options(depth=1))
    assert codes(raised) == codes(killed)


@pytest.mark.timeout(300)
def test_a_graph_with_keys_passes():
    report = sweep(Job(graph.keyed), Options(mode="fork", depth=1))
    report.assert_exactly_once()
    kinds = {kind_of(name) for name in report.points}
    assert kinds >= {"writes", "writesaved", "checkpoint", "checkpointed", "committed", "accepted"}


@pytest.mark.timeout(300)
def test_a_naive_checkpoint_is_torn_and_repeats_and_all_modes_agree_on_where():
    reports = {
        mode: sweep(script(naive_import, mode), Options(mode=mode, depth=1))
        for mode in ("raise", "fork", "spawn")
    }
    expected = {"sending": ".", "accepted": "D", "returned": "D", "truncated": "?", "written": "."}
    for report in reports.values():
        assert [kind_of(name) for name, _ in codes(report)] == list(expected) * 4
        assert all(code == expected[kind_of(name)] for name, code in codes(report))
        torn = next(s for s in report.failures if kind_of(s.names[0]) == "truncated")
        assert torn.verdict.ending == "CRASHLOOP"
    assert [report.basis for report in reports.values()] == ["IN_PROCESS", "KILLED", "KILLED"]
    assert len({str(codes(report)) for report in reports.values()}) == 1


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["raise", "fork", "spawn"])
def test_a_careful_checkpoint_passes(mode):
    report = sweep(script(careful_import, mode), Options(mode=mode, depth=1))
    report.assert_exactly_once()
    assert len(report.points) == 4 * len(
        ["sending", "accepted", "returned", "truncated", "written", "tmp", "renamed"]
    )


def test_a_careful_checkpoint_passes_when_its_restart_is_crashed_too():
    sweep(script(careful_import, "raise"), Options(depth=2)).assert_exactly_once()
