"""Members of one process: their work ends few sessions, and ended sessions make little work (recipes 9)."""

from __future__ import annotations

import pytest

from tests.pure.simulation.crowded_process import CrowdedProcess
from zkgroup.consumer import turns


def test_members_that_take_turns_converge_without_the_loss_of_a_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """24 members whose passes take the core for longer than a lease; without turns most leases end. The real
    limit of turns is for hundreds of members."""
    monkeypatch.setattr(turns, "TURNS_MAX", 2)
    crowd = CrowdedProcess(24, 48, entry_ms=4, znode_ms=4, every_ms=100)

    assert crowd.run_until_converged(60_000) is not None
    assert crowd.count("lease.expired") == 0


def test_members_that_share_a_client_lose_no_lease() -> None:
    """24 members on one client, without turns; with sessions of their own dozens of leases end. A heartbeat
    of one member renews all leases, so there is time for passes."""
    crowd = CrowdedProcess(24, 48, entry_ms=4, znode_ms=4, every_ms=100, shared=24)

    assert crowd.run_until_converged(60_000) is not None
    assert crowd.count("lease.expired") == 0


def test_expiries_that_work_makes_become_fewer() -> None:
    """16 members with more work than the core can ever do: pauses between their registrations leave time to
    those that are registered. Without pauses each session is followed by the next for ever."""
    crowd = CrowdedProcess(16, 32, entry_ms=20, znode_ms=20, every_ms=100)

    crowd.run_until_converged(40_000)
    first = crowd.count("registered")
    crowd.run_until_converged(40_000)

    assert crowd.count("registered") - first < 0.65 * first
