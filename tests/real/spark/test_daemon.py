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
from importlib.util import find_spec
from pathlib import Path
from zipimport import zipimporter
sys.path.insert(0, str(Path(find_spec("pyspark").origin).parent / "python" / "lib" / "pyspark.zip"))
from zkgroup.audit.spark import daemon
assert ".zip" not in daemon.daemon.__file__
daemon.daemon.manager = lambda: None
daemon.main()
assert not any(isinstance(each, zipimporter) for each in sys.path_importer_cache.values())
assert "zkgroup.audit.spark.folding" in sys.modules
import pyarrow
table = pyarrow.table({"number": [1.0, None]})
assert "pandas" not in sys.modules
frame = table.to_pandas()
assert pyarrow.array(frame["number"]).null_count == 1
"""


def test_workers_are_forked_without_pandas_and_archives() -> None:
    """Each would read the archives again. pyarrow would import pandas; a user's function gets it if it asks.

    Spark has its zip of pyspark in front of the path.
    """
    subprocess.run([sys.executable, "-c", _STARTED], check=True)
