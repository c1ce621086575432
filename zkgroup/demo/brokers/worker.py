"""One broker of the demo as a child process: its settings, and what the process does.

    python -m zkgroup.demo.brokers.worker

The first line of its standard input holds its settings. On SIGTERM it does a controlled shutdown; when its
standard input closes it ends at once. Events go to standard output, one JSON object a line.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from zkgroup.broker.broker import Broker
from zkgroup.broker.replicas.replica_view import Role
from zkgroup.broker.settings import BrokerSettings
from zkgroup.broker.telemetry import BrokerListener
from zkgroup.demo.processes import ChildProcess
from zkgroup.errors import MemberFailedError
from zkgroup.model import TopicPartition


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


READ_S = 0.5
"""Between two looks whether the broker has failed."""
LEAVE_S = 3
"""So long it may take to leave: when the demo is gone ZooKeeper is too. Then a signal ends it."""


class BrokerEventPrinter(BrokerListener):
    """Writes what happens to the broker to standard output."""

    def on_registered(self, broker: int, host: str, port: int, epoch: int) -> None:
        """It stands in `/brokers/ids`."""
        print_event("registered", epoch=epoch)

    def on_role(self, topic_partition: TopicPartition, role: Role, leader_epoch: int | None) -> None:
        """A replica leads, follows, or does neither."""
        print_event("role", partition=topic_partition.partition, role=role.value, leader_epoch=leader_epoch)

    def on_controller(self, epoch: int, partitions: int, load_ms: int) -> None:
        """It is the controller."""
        print_event("controller", epoch=epoch)

    def on_resigned(self, reason: str) -> None:
        """It is the controller no more."""
        print_event("resigned", reason=reason)


def print_event(event: str, **fields: object) -> None:
    """One event, in one write, so that lines of two threads never mix."""
    line = json.dumps({"event": event, **fields}) + "\n"
    os.write(sys.stdout.fileno(), line.encode())


def serve(orders: BrokerProcessSettings) -> None:
    """Serves until it is told to stop. Raises what made the broker fail."""
    woken, wake = os.pipe()

    def stop(number: int, frame: FrameType | None) -> None:
        os.write(wake, b"!")

    signal.signal(signal.SIGTERM, stop)
    broker = Broker(
        orders.zookeeper,
        broker=orders.broker,
        data=orders.data,
        settings=orders.settings(),
        listener=BrokerEventPrinter(),
    )
    try:
        broker.start()
        while True:
            ready, _, _ = select.select([woken, sys.stdin.fileno()], [], [], READ_S)
            if sys.stdin.fileno() in ready:
                broker.hurry()
                signal.alarm(LEAVE_S)
            if ready:
                break
            broker.check()
    finally:
        broker.close()


def first_line() -> bytes:
    """The orders, and not a byte beyond: the rest of the input is waited for by `select`."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(sys.stdin.fileno(), 1)):
        line += byte
    return line


if __name__ == "__main__":
    if given := first_line():
        serve(decode_settings(given))
