"""`broker run` without the extra `broker`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.shell import Shell
from zkgroup.wire import crc32c

DRY = ("--id", "1", "-z", "127.0.0.1:1", "--dry-run")


def test_a_broker_that_hosts_partitions_needs_the_package_for_checksums(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The message names the package and the command; a controller alone has no checksums to make."""
    shell = Shell(tmp_path)
    monkeypatch.setattr(crc32c, "_native", None)

    ran = shell.run("broker", "run", *DRY)
    alone = shell.run("broker", "run", "--controller-only", *DRY)

    message = "broker run needs the package crc32c: pip install 'zkgroup[broker]'"
    assert (ran.code, ran.err) == (2, f"error: {message}\n")
    assert alone.code == 0


def test_checksums_are_the_same_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that a program embeds go on without it, more slowly."""
    data = bytes(range(256)) * 10
    expected = crc32c.crc32c(data)
    monkeypatch.setattr(crc32c, "_native", None)

    assert crc32c.crc32c(data) == expected
