"""Small matrices run inside the test process, in a place that must be empty afterwards."""

import asyncio
import io

import pytest

from crashpoint.harness.progress import PlainProgress
from crashpoint.harness.run import MatrixSpec, run_matrix
from crashpoint.model import Barrier, FaultKind
from crashpoint.procs.run_folder import run_folder
from leftovers import nothing_left

__all__ = ["document_of"]


def document_of(adapter, rows, *, k=1, barriers=tuple(Barrier), fault=FaultKind.KILL, cold=0):
    """The closed document of a run of an adapter's rows, and what the run wrote meanwhile."""
    known = {row.name: row for row in adapter.rows()}
    spec = MatrixSpec(
        name="small",
        rows=[(adapter, known[name]) for name in rows],
        barriers=barriers,
        fault=fault,
        k=k,
        jobs=4,
        limit_s=30.0,
        void_max=0.1,
        cold=cold,
        command="pytest",
    )
    sink = io.StringIO()
    with nothing_left() as place, pytest.MonkeyPatch.context() as patch:
        for name, value in place.mark.items():
            patch.setenv(name, value)
        with run_folder() as folder:
            run = run_matrix(spec, folder, PlainProgress(io.StringIO()), sink, asyncio.Event())
            return asyncio.run(run), sink.getvalue()
