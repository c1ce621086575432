"""Many procedures of one machine at once."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import Any

from zkgroup.runtime.machine import ConcurrentProcedures, Job
from zkgroup.runtime.procedures import Procedure


class Written:
    """What a job would write."""


def test_a_job_that_has_ended_is_gone() -> None:
    """With all that it has, and without Python's garbage collector, which runs rarely in a broker."""
    context: Any = SimpleNamespace(connected=True)
    procedures = ConcurrentProcedures[Any](context)

    def job(written: Written) -> Job:
        def start() -> Procedure[None]:
            assert written
            yield from ()

        return Job("a job", start, lambda error: None)

    gc.disable()
    try:
        written = Written()
        kept = weakref.ref(written)
        procedures.add("k", job(written))
        del written
        assert "k" not in procedures
        assert kept() is None
    finally:
        gc.enable()
