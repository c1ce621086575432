"""What all parts of a broker's machine share beside the books of every machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from zkgroup.broker.machine.events import BrokerEffect, Failed
from zkgroup.broker.machine.isr import IsrChangePropagationConfig
from zkgroup.runtime.procedures import MachineContext
from zkgroup.znodes.brokers import VERSION_DEFAULT
from zkgroup.znodes.cluster import RESERVED_BROKER_MAX_ID
from zkgroup.znodes.notifications import CHANGE_AGE_MAX_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Configuration of a broker's machine."""

    broker: int | None
    """Its id; None: one is given out by `/brokers/seqid`."""
    new_cluster_id: bytes
    """16 random bytes, for a cluster that has no id yet."""
    registration_version: int = VERSION_DEFAULT
    rack: str | None = None
    """From registration version 3 on."""
    reserved_max_id: int = RESERVED_BROKER_MAX_ID
    lag_max_ms: int = 10_000
    notices: IsrChangePropagationConfig = field(default_factory=IsrChangePropagationConfig)
    change_age_max_ms: int = CHANGE_AGE_MAX_MS
    """Notifications of configurations that are older are deleted."""
    jitter: Callable[[], float] = lambda: 0.5
    """Draws a number in [0, 1). The only source of randomness of the machine."""


class BrokerContext(MachineContext[BrokerEffect]):
    """The books of one broker."""

    def __init__(self, config: BrokerConfig) -> None:
        super().__init__(config.jitter)
        self.config = config
        self.broker = config.broker
        """The own id, once it is known."""
        self.has_failed = False
        self._server_time: tuple[int, int] | None = None

    def fail(self, error: Exception) -> None:
        """Nothing more is asked."""
        self.has_failed = True
        self.emit(Failed(error))

    def saw_server_time(self, wall_ms: int) -> None:
        """A time that the servers have just written down."""
        self._server_time = wall_ms, self.now.ms

    @property
    def server_time_ms(self) -> int | None:
        """The servers' wall time now, or a little less; None where none is known.

        What they wrote down can only be compared with their own clock.
        """
        if self._server_time is None:
            return None
        wall_ms, at_ms = self._server_time
        return wall_ms + self.now.ms - at_ms
