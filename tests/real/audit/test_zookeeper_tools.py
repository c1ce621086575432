"""ZooKeeper's own tools, run here, and the readers of zkfiles count the same in every recorded file."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import pytest

from tests.long.interop.formatted import formatted
from tests.long.interop.jars import MissingToolError
from tests.worlds.golden_data import FOLDER
from zkgroup.zkfiles.logs import inspect_log


@pytest.fixture(scope="module")
def outputs() -> dict[Path, str]:
    """What the tools print for every snapshot and log of `tests/golden`, by one JVM.

    Skips where there is no javac; with ZKGROUP_TEST_INTEROP=required that is a failure.
    """
    files = sorted(FOLDER.glob("**/version-2/snapshot.*")) + sorted(FOLDER.glob("**/version-2/log.*"))
    try:
        return formatted(files)
    except MissingToolError as missing:
        if os.environ.get("ZKGROUP_TEST_INTEROP") == "required":
            raise
        pytest.skip(f"ZooKeeper's tools are not compiled: {missing}")


def test_each_log_has_as_many_transactions_as_the_toolkit_reads(outputs: dict[Path, str]) -> None:
    """TxnLogToolkit compares every checksum too; the first and the last zxid are the same."""
    logs = {file: text for file, text in outputs.items() if file.name.startswith("log.")}
    assert len(logs) > 30
    for file, text in logs.items():
        health = inspect_log(file)
        zxids = [int(zxid, 16) for zxid in re.findall(r" cxid 0x\w+ zxid 0x(\w+) ", text)]
        assert f"EOF reached after {health.records} txns." in text
        assert [len(zxids), zxids[0], zxids[-1]] == [health.records, health.first_zxid, health.last_zxid]
        assert "CRC ERROR" not in text


def test_what_was_recorded_is_what_the_tools_print(outputs: dict[Path, str]) -> None:
    """Of the snapshots: the recordings are of these very files. Logs are printed in the JVM's local words."""
    for file, text in outputs.items():
        if file.name.startswith("snapshot."):
            recorded = file.parent.parent / "formatted" / f"{file.with_suffix('').name}.txt.gz"
            assert gzip.decompress(recorded.read_bytes()).decode("utf-8", "replace") == text
