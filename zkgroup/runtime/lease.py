"""The length of a lease, in which a process may act without an acknowledged write (recipes.md 9).

    deadline = sent_at(last acknowledged write) + lease_fraction x T - min(server_tick_ms / 2, T / 4)

T is the session timeout. `sent_at` is the time of the step that issued the write: the server's own timer
cannot have started earlier. Members and controllers have leases of this length, and write heartbeats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

HEARTBEATS_PER_TIMEOUT: Final = 6
HEARTBEAT_SPREAD: Final = 0.2
"""The longest period is so much longer than the shortest (recipes.md 9: T/6 plus or minus 20 %)."""


def lease_ms(timeout_ms: int, lease_fraction: float, server_tick_ms: int) -> int:
    """Length of a lease in milliseconds, from the send time of an acknowledged write."""
    return int(lease_fraction * timeout_ms - min(server_tick_ms / 2, timeout_ms / 4))


def heartbeat_period_ms(timeout_ms: int, jitter: Callable[[], float]) -> int:
    """Milliseconds from one write to the next heartbeat: T/6 or more; `jitter` draws from [0, 1)."""
    return math.ceil(timeout_ms / HEARTBEATS_PER_TIMEOUT * (1 + HEARTBEAT_SPREAD * jitter()))
