"""One member of the demo's group as a child process, which reads flights and writes one line for each.

    python -m zkgroup.demo.members.worker

The first line of its standard input holds its settings; a command line would show secrets to other users.
It ends on SIGTERM, or when its standard input closes, after a clean leave. Events go to standard output, one
JSON object a line.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

from zkgroup import (
    BrokerSource,
    Consumer,
    FileSource,
    GroupSettings,
    Lease,
    RebalanceListener,
    Record,
    TopicPartition,
)
from zkgroup.consumer.machine.events import MemberState
from zkgroup.demo.flight_data import TOPIC, Processed, airport_and_delay, encode_line
from zkgroup.demo.processes import ChildProcess
from zkgroup.errors import MemberFailedError
from zkgroup.history import HistoryFile
from zkgroup.zookeeper import ClientSettings
from zkgroup.zookeeper.settings import Digest, Sasl, Secret, Tls


@dataclass(frozen=True, slots=True)
class MemberProcessSettings:
    """Everything that one member needs to know."""

    name: str
    zookeeper: str
    group: str
    source: str | None
    """Folder of the topic's files; None for zkgroup's brokers."""
    output: str
    """File for the processed records, one line each."""
    history: str
    """File for the recorded history."""
    records_per_s: int
    """How fast it works: the demo is for watching."""
    session_timeout_ms: int
    server_tick_ms: int
    connection: ClientSettings
    """Who we are and how it is encrypted; the rest of it is not passed on."""


def encode_settings(orders: MemberProcessSettings) -> bytes:
    """One line, newline included. Holds secrets in clear: for the pipe to the process only."""
    plain = {
        name: getattr(orders, name)
        for name in MemberProcessSettings.__dataclass_fields__
        if name != "connection"
    }
    auth, tls = orders.connection.auth, orders.connection.tls
    plain["digest"] = auth.credential if isinstance(auth, Digest) else None
    plain["sasl"] = auth.options() if isinstance(auth, Sasl) else None
    plain["tls"] = _tls_fields(tls) if tls else None
    return json.dumps(plain).encode() + b"\n"


def decode_settings(line: bytes) -> MemberProcessSettings:
    """The orders as they were given. Raises ValueError where the line is not whole."""
    plain = json.loads(line)
    auth = _auth(plain.pop("digest"), plain.pop("sasl"))
    tls = plain.pop("tls")
    if tls is not None:
        password = tls.pop("key_password")
        tls = Tls(**tls, key_password=Secret(password) if password else None)
    return MemberProcessSettings(**plain, connection=ClientSettings(auth=auth, tls=tls))


def _tls_fields(tls: Tls) -> dict[str, Any]:
    return {
        "ca_file": tls.ca_file,
        "cert_file": tls.cert_file,
        "key_file": tls.key_file,
        "key_password": tls.key_password.reveal() if tls.key_password else None,
        "check_host_name": tls.check_host_name,
    }


def _auth(digest: str | None, sasl: dict[str, str] | None) -> Digest | Sasl | None:
    if digest is not None:
        user, _, password = digest.partition(":")
        return Digest(user, Secret(password))
    if sasl is not None:
        password = sasl.pop("password", "")
        return Sasl(**sasl, password=Secret(password) if password else None)
    return None


class MemberProcess(ChildProcess):
    """One consumer in a process of its own."""

    def __init__(self, orders: MemberProcessSettings, log: Path) -> None:
        """Starts it. `log` receives what it writes to standard error."""
        self.output = Path(orders.output)
        self.processed = 0
        self.lost_session = False
        super().__init__(orders.name, "zkgroup.demo.members.worker", log)
        self.give(encode_settings(orders))

    def note(self, event: dict[str, Any]) -> None:
        """Brings state and count up to date."""
        match event["event"]:
            case "state":
                self.state = event["after"]
            case "lost":
                self.lost_session = True
            case "progress":
                self.processed = event["processed"]

    def check(self) -> None:
        """Raises `MemberFailedError` where it ended by itself."""
        if self.ended and not self.killed and self.state not in ("left", "closed"):
            raise MemberFailedError(f"{self.name} ended with exit code {self.exit_code}: {self.last_words}")


PROGRESS_EVERY_S = 0.2
PAUSE_EVERY = 10
"""Records between two pauses: one sleep a record would be dominated by the sleep's own cost."""


class MemberEventPrinter(RebalanceListener):
    """Writes what happens to the member to standard output."""

    def on_state(self, before: MemberState, after: MemberState, reason: str) -> None:
        """The member's state changed."""
        print_event("state", before=before.value, after=after.value, reason=reason)

    def on_assigned(self, leases: Sequence[Lease]) -> None:
        """These partitions came."""
        print_event("assigned", partitions=[lease.partition for lease in leases])

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """These go to another member."""
        print_event("revoked", partitions=[one.partition for one in partitions])

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """These are gone without notice."""
        print_event("lost", partitions=[one.partition for one in partitions])


def print_event(event: str, **fields: object) -> None:
    """One event, in one write, so that lines of two threads never mix."""
    line = json.dumps({"event": event, **fields}) + "\n"
    os.write(sys.stdout.fileno(), line.encode())


def process(record: Record, output: BinaryIO) -> None:
    """The work: one line in the member's own file, in one write."""
    assert record.value is not None
    airport, delay = airport_and_delay(record.value)
    output.write(encode_line(Processed(record.partition, record.offset, airport, delay, record.token)))


def settings(orders: MemberProcessSettings) -> GroupSettings:
    """Short times, so that there is something to see within a minute."""
    return GroupSettings(
        consumer_id=orders.name,
        session_timeout_ms=orders.session_timeout_ms,
        server_tick_ms=orders.server_tick_ms,
        auto_commit_interval_ms=500,
    )


def consume(consumer: Consumer, output: BinaryIO, records_per_s: int) -> int:
    """Processes records until the consumer is stopped; returns how many."""
    processed = 0
    told_s = time.monotonic()
    for record in consumer:
        process(record, output)
        processed += 1
        if processed % PAUSE_EVERY == 0:
            time.sleep(PAUSE_EVERY / records_per_s)
        if time.monotonic() - told_s > PROGRESS_EVERY_S:
            told_s = time.monotonic()
            print_event("progress", processed=processed)
    return processed


def run(orders: MemberProcessSettings) -> None:
    """Joins the group and works until it is told to stop."""
    history = HistoryFile(orders.history)
    consumer = Consumer(
        orders.zookeeper,
        group=orders.group,
        topics=[TOPIC],
        source=BrokerSource() if orders.source is None else FileSource(orders.source),
        settings=settings(orders),
        listener=MemberEventPrinter(),
        history=history,
        connection=orders.connection,
    )

    def stop(number: int, frame: FrameType | None) -> None:
        consumer.stop()

    signal.signal(signal.SIGTERM, stop)
    threading.Thread(target=_stop_at_end_of_input, args=(consumer,), daemon=True).start()
    with open(orders.output, "ab", buffering=0) as output, consumer:  # noqa: PTH123
        processed = consume(consumer, output, orders.records_per_s)
        print_event("progress", processed=processed)


def _stop_at_end_of_input(consumer: Consumer) -> None:
    """The demo holds the other end of our standard input; when the demo is killed it closes."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    consumer.stop()


if __name__ == "__main__":
    run(decode_settings(sys.stdin.buffer.readline()))
