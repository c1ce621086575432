"""The ways in which columns are made."""

from __future__ import annotations

import pytest

from tests.worlds.zkfiles_tables import WAYS, use_way


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the kernel and without."""
    use_way(request.param, monkeypatch)
    return str(request.param)
