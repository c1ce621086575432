"""The ways in which columns are made."""

from __future__ import annotations

import pytest

from tests.worlds.zkfiles_tables import WAYS, use_way
from zkgroup.zkfiles import znode_columns


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the kernel and many znodes at a time, and one by one."""
    use_way(request.param, monkeypatch)
    return str(request.param)


@pytest.fixture
def even_few_znodes_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that those of small snapshots go through numpy too."""
    monkeypatch.setattr(znode_columns, "_WORTH_BYTES", 0)
