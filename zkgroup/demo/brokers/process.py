"""The brokers of the demo as child processes, and the settings that each reads from its standard input."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from zkgroup.broker.settings import BrokerSettings
from zkgroup.demo.processes import ChildProcess
from zkgroup.errors import MemberFailedError


@dataclass(frozen=True, slots=True)
class BrokerProcessSettings:
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


def encode_settings(orders: BrokerProcessSettings) -> bytes:
    """One line, newline included."""
    return json.dumps(asdict(orders)).encode() + b"\n"


def decode_settings(line: bytes) -> BrokerProcessSettings:
    """The orders as they were given. Raises ValueError where the line is not whole."""
    return BrokerProcessSettings(**json.loads(line))


class BrokerProcess(ChildProcess):
    """One broker in a process of its own; started again it is another of these, with the same folder."""

    def __init__(self, broker: int, data: Path, log: Path) -> None:
        """Starts it, without orders yet: it imports what it needs meanwhile."""
        self.broker = broker
        self.data = data
        self.is_told_to_stop = False
        self.reigns: list[int] = []
        """Epochs in which it has ruled, by its own account."""
        self.terms: list[tuple[int, int]] = []
        """Partition and leader epoch of each term in which it has led, by its own account."""
        super().__init__(f"broker-{broker}", "zkgroup.demo.brokers.worker", log)

    def order(self, zookeeper: str, session_timeout_ms: int) -> None:
        """Now it begins."""
        self.give(
            encode_settings(BrokerProcessSettings(self.broker, zookeeper, str(self.data), session_timeout_ms))
        )

    def note(self, event: dict[str, Any]) -> None:
        """Brings state, reigns and terms up to date."""
        match event["event"]:
            case "registered":
                self.state = "serving"
            case "controller":
                self.reigns.append(event["epoch"])
            case "role" if event["role"] == "leader":
                self.terms.append((event["partition"], event["leader_epoch"]))

    def ask_to_stop(self) -> None:
        """SIGTERM: a controlled shutdown."""
        self.is_told_to_stop = True
        self.state = "leaving"
        super().ask_to_stop()

    def hang_up(self) -> None:
        """It leaves at once."""
        self.is_told_to_stop = True
        super().hang_up()

    def check(self) -> None:
        """Raises `MemberFailedError` where it ended by itself."""
        if self.ended and not self.killed and not self.is_told_to_stop:
            raise MemberFailedError(
                f"broker {self.broker} ended with exit code {self.exit_code}: {self.last_words}"
            )
