"""One broker of the demo: a process that hosts lines in a folder and is an elector for the controller.

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
from types import FrameType

from zkgroup.broker.broker import Broker
from zkgroup.broker.listener import BrokerListener
from zkgroup.broker.replicas.replica_view import Role
from zkgroup.demo.brokers.process import BrokerProcessSettings, decode_settings
from zkgroup.model import TopicPartition

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
