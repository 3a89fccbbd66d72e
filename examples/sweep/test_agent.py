"""Fails by design: docs/sweep.md shows what it prints and how to read that."""

from agent import run_agent


def test_my_agent_survives(crash_sweep, tracker):
    report = crash_sweep(start=run_agent, resume=run_agent, depth=2)
    report.assert_exactly_once()
