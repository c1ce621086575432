"""What servers wrote without their leader, for all tests of this folder."""

from __future__ import annotations

import pytest

from tests.worlds.server_files import Written, without_its_leader

WRITES = 30


@pytest.fixture(scope="session")
def lost_leader(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Files of three servers whose leader was killed and came back; the servers have ended."""
    return without_its_leader(tmp_path_factory.mktemp("lost-leader"), WRITES)
