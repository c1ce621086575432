"""Servers and brokers of the short benchmarks start as fast as they can: no test judges their seconds."""

from __future__ import annotations

import pytest

from tests.programs.benchmarks.server import BenchServer
from tests.worlds.processes import preforked as preforked


@pytest.fixture(autouse=True)
def _servers_start_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BenchServer, "starts_fast", True)
