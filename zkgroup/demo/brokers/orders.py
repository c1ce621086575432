"""What a broker's process is told, as one line on its standard input. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from zkgroup.broker.settings import BrokerSettings


@dataclass(frozen=True, slots=True)
class BrokerOrders:
    """Everything that one broker needs to know."""

    broker: int
    zookeeper: str
    data: str
    """Its folder."""
    session_timeout_ms: int

    def settings(self) -> BrokerSettings:
        """Short times, so that there is something to see within a minute."""
        return BrokerSettings(
            session_timeout_ms=self.session_timeout_ms,
            connection_timeout_ms=20_000,
            replica_lag_time_max_ms=4_000,
            controlled_shutdown_retry_backoff_ms=500,
            auto_leader_rebalance_enable=False,
        )


def encode(orders: BrokerOrders) -> bytes:
    """One line, newline included."""
    return json.dumps(asdict(orders)).encode() + b"\n"


def decode(line: bytes) -> BrokerOrders:
    """The orders as they were given. Raises ValueError where the line is not whole."""
    return BrokerOrders(**json.loads(line))
