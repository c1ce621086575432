"""The daemon of the Python workers: a reader that has enough leaves no traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

from zkgroup.audit.spark import daemon
from zkgroup.audit.spark.session import _ALWAYS


def test_a_worker_whose_reader_has_gone_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after `limit(1)`; any other error is still one."""

    def broken(error: Exception) -> None:
        def fail(*_: object) -> int:
            raise error

        monkeypatch.setattr(daemon, "_worker", fail)

    broken(BrokenPipeError())
    assert daemon.worker(None, authenticated=True) == 1
    broken(ConnectionError())
    with pytest.raises(ConnectionError):
        daemon.worker(None, authenticated=True)


def test_sessions_run_their_workers_with_it() -> None:
    """By the name of the module."""
    assert _ALWAYS["spark.python.daemon.module"] == daemon.__name__


_STARTED = """
import sys
from zkgroup.audit.spark import daemon
daemon.daemon.manager = lambda: None
daemon.main()
assert "zkgroup.audit.spark.folding" in sys.modules
import pyarrow
table = pyarrow.table({"number": [1.0, None]})
assert "pandas" not in sys.modules
frame = table.to_pandas()
assert pyarrow.array(frame["number"]).null_count == 1
"""


def test_workers_are_forked_without_pandas_and_can_use_it() -> None:
    """pyarrow would import it at its first array; a function of a user gets it when it asks."""
    subprocess.run([sys.executable, "-c", _STARTED], check=True)
