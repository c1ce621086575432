"""What all parts of a controller share beside the books of every machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from zkgroup.controller.machine.effects import ControllerEffect
from zkgroup.runtime.procedures import MachineContext
from zkgroup.znodes.json_fields import DATA_BYTES_MAX

TAKEOVER_GRACE_MS: Final = 2000
"""`controller.takeover.grace` (recipes 13)."""


class ControllerOnly(NamedTuple):
    """Where a controller that hosts nothing listens (recipes 14)."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectorConfig:
    """What a candidate is told once, at its start."""

    broker: int
    """Its id."""
    controller_only: ControllerOnly | None = None
    """None for a broker, whose registration is its own affair and comes before the election."""
    takeover_grace_ms: int = TAKEOVER_GRACE_MS
    lease_fraction: float = 2 / 3
    """Of the session timeout; as `lease_fraction` of a member."""
    server_tick_ms: int = 2000
    """`tickTime` of the servers, which a client cannot ask for."""
    request_bytes_max: int = DATA_BYTES_MAX
    """Of one transaction of many writes; more go as several, each with the whole fence."""
    jitter: Callable[[], float] = lambda: 0.5
    """Draws a number in [0, 1). The only source of randomness of the machine."""


class ElectorContext(MachineContext[ControllerEffect]):
    """The books of one controller."""

    def __init__(self, config: ElectorConfig) -> None:
        super().__init__(config.jitter)
        self.config = config
