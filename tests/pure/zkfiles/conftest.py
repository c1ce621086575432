"""Both ways in which columns are made."""

from __future__ import annotations

import pytest

from tests.worlds.zkfiles_tables import use_plain_python
from zkgroup.zkfiles import snapshot_arrays


@pytest.fixture(params=["numpy", "plain"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With numpy, and as if it were not installed."""
    if request.param == "plain":
        use_plain_python(monkeypatch)
    return str(request.param)


@pytest.fixture
def even_few_znodes_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that those of small snapshots go through numpy too."""
    monkeypatch.setattr(snapshot_arrays, "_WORTH_BYTES", 0)
