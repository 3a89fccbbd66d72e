"""Reports and documents for tests of what is made from them: from real sweeps, made once."""

from functools import cache

import sweep_jobs
from crashpoint.canonical import parse
from crashpoint.pipeline.evidence import render
from crashpoint.sweep.api import Job, Options, sweep
from crashpoint.sweep.document import document_of

__all__ = ["document", "report"]


@cache
def report(name="careless", *, depth=2, stories=40, **options):
    """The report of a job of sweep_jobs."""
    job = Job(getattr(sweep_jobs, name), name=name)
    return sweep(
        job,
        Options(depth=depth, **options),
        again="pytest test_agent.py::test_it --crash-only",
        stories=stories,
    )


@cache
def _written(name):
    made = document_of(report(name), name, command=f"pytest test_{name}.py")
    return render(made)


def document(name="careless"):
    """A document as it is read back; each call gives another one that may be changed."""
    return parse(_written(name))
