"""A delivery with its host, for the tests that need no settings of their own."""

from __future__ import annotations

import pytest

from tests.pure.consumer.rig import Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()
