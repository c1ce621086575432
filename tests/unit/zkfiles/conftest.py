"""Both ways in which columns are made."""

from __future__ import annotations

import pytest

from tests.zkfiles_tables import use_plain_python


@pytest.fixture(params=["numpy", "plain"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With numpy, and as if it were not installed."""
    if request.param == "plain":
        use_plain_python(monkeypatch)
    return str(request.param)
