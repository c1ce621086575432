"""The length of a lease and the period of its heartbeats."""

from __future__ import annotations

import pytest

from zkgroup.runtime.procedures import heartbeat_period_ms, lease_ms


@pytest.mark.parametrize(
    ("timeout_ms", "fraction", "tick_ms", "length_ms"),
    [(6000, 2 / 3, 2000, 3000), (4000, 2 / 3, 2000, 1666), (30_000, 0.5, 2000, 14_000)],
)
def test_a_lease_ends_before_any_server_can_end_the_session(
    timeout_ms: int, fraction: float, tick_ms: int, length_ms: int
) -> None:
    """A fraction of the session timeout less half a tick of the server, or a quarter of the timeout."""
    assert lease_ms(timeout_ms, fraction, tick_ms) == length_ms


def test_heartbeats_are_a_sixth_of_the_timeout_apart_and_up_to_a_fifth_more() -> None:
    """Never less, so that an idle session makes at most six quorum writes in T."""
    assert heartbeat_period_ms(6000, lambda: 0.0) == 1000
    assert heartbeat_period_ms(6000, lambda: 0.5) == 1100
    assert heartbeat_period_ms(6001, lambda: 0.0) == 1001
