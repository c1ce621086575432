"""One broker of the demo as a child process.

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
from zkgroup.broker.replica_view import Role
from zkgroup.broker.settings import BrokerSettings
from zkgroup.broker.telemetry import BrokerListener
from zkgroup.demo.processes import ChildProcess
from zkgroup.errors import MemberFailedError
from zkgroup.model import TopicPartition


@dataclass(frozen=True, slots=True)
class BrokerChildSettings:
    """Settings of one broker's process."""

    broker: int
    zookeeper: str
    data: str
    """Its data folder."""
    session_timeout_ms: int

    def settings(self) -> BrokerSettings:
        """Broker settings with short times, so that the demo fits into a minute."""
        return BrokerSettings(
            session_timeout_ms=self.session_timeout_ms,
            connection_timeout_ms=20_000,
            replica_lag_time_max_ms=4_000,
            controlled_shutdown_retry_backoff_ms=500,
            auto_leader_rebalance_enable=False,
            group_initial_rebalance_delay_ms=1_000,
        )


def encode_settings(child_settings: BrokerChildSettings) -> bytes:
    """One line, newline included."""
    return json.dumps(asdict(child_settings)).encode() + b"\n"


def decode_settings(line: bytes) -> BrokerChildSettings:
    """The decoded settings. Raises ValueError where the line is incomplete."""
    return BrokerChildSettings(**json.loads(line))


class BrokerChild(ChildProcess):
    """The process of one start of a broker; a restart is a new instance with the same folder."""

    def __init__(self, broker: int, data: Path, log: Path) -> None:
        """Starts the process without settings: it imports its modules meanwhile."""
        self.broker = broker
        self.data = data
        self.is_stopping = False
        self.controller_epochs: list[int] = []
        """Epochs in which it was controller, as it reported them."""
        self.terms: list[tuple[TopicPartition, int]] = []
        """Partition and leader epoch of each of its leaderships, as it reported them."""
        super().__init__(f"broker-{broker}", "zkgroup.demo.brokers.worker", log)

    def send_settings(self, zookeeper: str, session_timeout_ms: int) -> None:
        """Sends the settings, on which the broker starts."""
        self.send_line(
            encode_settings(BrokerChildSettings(self.broker, zookeeper, str(self.data), session_timeout_ms))
        )

    def apply_event(self, event: dict[str, Any]) -> None:
        """Updates state, controller epochs and leaderships."""
        match event["event"]:
            case "registered":
                self.state = "serving"
            case "controller":
                self.controller_epochs.append(event["epoch"])
            case "role" if event["role"] == "leader":
                tp = TopicPartition(event["topic"], event["partition"])
                self.terms.append((tp, event["leader_epoch"]))

    def terminate(self) -> None:
        """Sends SIGTERM, which starts a controlled shutdown."""
        self.is_stopping = True
        self.state = "leaving"
        super().terminate()

    def close_stdin(self) -> None:
        """Closes its standard input, on which it ends at once."""
        self.is_stopping = True
        super().close_stdin()

    def check(self) -> None:
        """Raises `MemberFailedError` where it ended by itself."""
        if self.ended and not self.killed and not self.is_stopping:
            raise MemberFailedError(
                f"broker {self.broker} ended with exit code {self.exit_code}: {self.last_log_line}"
            )


READ_S = 0.5
"""Seconds between two checks whether the broker has failed."""
LEAVE_S = 3
"""Longest time to leave. ZooKeeper is gone when the demo is, so a signal ends the process then."""


class BrokerEventPrinter(BrokerListener):
    """Prints the broker's events to standard output."""

    def on_registered(self, broker: int, host: str, port: int, epoch: int) -> None:
        """The broker is registered in `/brokers/ids`."""
        print_event("registered", epoch=epoch)

    def on_role(self, topic_partition: TopicPartition, role: Role, leader_epoch: int | None) -> None:
        """A replica became leader or follower, or stopped being either."""
        topic, partition = topic_partition
        print_event("role", topic=topic, partition=partition, role=role.value, leader_epoch=leader_epoch)

    def on_controller(self, epoch: int, partitions: int, load_ms: int) -> None:
        """The broker became the controller."""
        print_event("controller", epoch=epoch)

    def on_resigned(self, reason: str) -> None:
        """The broker is no longer the controller."""
        print_event("resigned", reason=reason)


def print_event(event: str, **fields: object) -> None:
    """Prints one event in one write, so that lines of two threads never mix."""
    line = json.dumps({"event": event, **fields}) + "\n"
    os.write(sys.stdout.fileno(), line.encode())


def serve(child_settings: BrokerChildSettings) -> None:
    """Serves until SIGTERM or the end of its input. Raises what made the broker fail."""
    woken, wake = os.pipe()

    def stop(number: int, frame: FrameType | None) -> None:
        os.write(wake, b"!")

    signal.signal(signal.SIGTERM, stop)
    broker = Broker(
        child_settings.zookeeper,
        broker=child_settings.broker,
        data=child_settings.data,
        settings=child_settings.settings(),
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
    """The first line of standard input, read byte by byte: `select` waits for the rest."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(sys.stdin.fileno(), 1)):
        line += byte
    return line


if __name__ == "__main__":
    if given := first_line():
        serve(decode_settings(given))
