"""The same test of the agent with the fault mended."""

from fixed import run_agent


def test_my_agent_survives(crash_sweep, tracker):
    report = crash_sweep(start=run_agent, resume=run_agent, depth=2)
    report.assert_exactly_once()
