"""One member of the demo's group as a child process, which reads flights and writes one line for each.

    python -m zkgroup.demo.group.worker

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
from dataclasses import astuple, dataclass
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
from zkgroup.zookeeper.settings import Acl, Digest, Sasl, Secret, Tls


@dataclass(frozen=True, slots=True)
class MemberChildSettings:
    """Settings of one member's process."""

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
    """Its speed, slow enough to watch."""
    session_timeout_ms: int
    server_tick_ms: int
    connection: ClientSettings
    """Authentication, encryption and access list; the other settings are not passed on."""


def encode_settings(child_settings: MemberChildSettings) -> bytes:
    """One line, newline included. It holds secrets in clear text: for the pipe to the process only."""
    plain = {
        name: getattr(child_settings, name)
        for name in MemberChildSettings.__dataclass_fields__
        if name != "connection"
    }
    auth, tls = child_settings.connection.auth, child_settings.connection.tls
    plain["digest"] = auth.credential if isinstance(auth, Digest) else None
    plain["sasl"] = auth.options() if isinstance(auth, Sasl) else None
    plain["tls"] = _tls_fields(tls) if tls else None
    plain["acl"] = [astuple(entry) for entry in child_settings.connection.acl]
    return json.dumps(plain).encode() + b"\n"


def decode_settings(line: bytes) -> MemberChildSettings:
    """The decoded settings. Raises ValueError where the line is incomplete."""
    plain = json.loads(line)
    auth = _auth(plain.pop("digest"), plain.pop("sasl"))
    tls = plain.pop("tls")
    if tls is not None:
        password = tls.pop("key_password")
        tls = Tls(**tls, key_password=Secret(password) if password else None)
    acl = tuple(Acl(*entry) for entry in plain.pop("acl"))
    return MemberChildSettings(**plain, connection=ClientSettings(auth=auth, tls=tls, acl=acl))


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


class MemberChild(ChildProcess):
    """One consumer in its own process."""

    def __init__(self, child_settings: MemberChildSettings, log: Path) -> None:
        """Starts the process. `log` receives its standard error."""
        self.output = Path(child_settings.output)
        self.processed = 0
        self.lost_session = False
        super().__init__(child_settings.name, "zkgroup.demo.group.worker", log)
        self.send_line(encode_settings(child_settings))

    def apply_event(self, event: dict[str, Any]) -> None:
        """Updates the state and the number of processed records."""
        match event["event"]:
            case "state":
                self.state = event["after"]
            case "lost":
                self.lost_session = True
            case "progress":
                self.processed = event["processed"]

    def check(self) -> None:
        """Raises `MemberFailedError` where the process ended unexpectedly."""
        if self.ended and not self.killed and self.state not in ("left", "closed"):
            raise MemberFailedError(
                f"{self.name} ended with exit code {self.exit_code}: {self.last_log_line}"
            )


PROGRESS_EVERY_S = 0.2
PAUSE_EVERY = 10
"""Records between two pauses: with one sleep per record the cost of the sleep itself would dominate."""


class MemberEventPrinter(RebalanceListener):
    """Prints the member's events to standard output."""

    def on_state(self, before: MemberState, after: MemberState, reason: str) -> None:
        """The member's state changed."""
        print_event("state", before=before.value, after=after.value, reason=reason)

    def on_assigned(self, leases: Sequence[Lease]) -> None:
        """These partitions were assigned."""
        print_event("assigned", partitions=[lease.partition for lease in leases])

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions go to another member."""
        print_event("revoked", partitions=[one.partition for one in partitions])

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions were lost without a handover."""
        print_event("lost", partitions=[one.partition for one in partitions])


def print_event(event: str, **fields: object) -> None:
    """Prints one event in one write, so that lines of two threads never mix."""
    line = json.dumps({"event": event, **fields}) + "\n"
    os.write(sys.stdout.fileno(), line.encode())


def process(record: Record, output: BinaryIO) -> None:
    """Processes a record: writes one line to the member's own file, in one write."""
    assert record.value is not None
    airport, delay = airport_and_delay(record.value)
    output.write(encode_line(Processed(record.partition, record.offset, airport, delay, record.token)))


def settings(child_settings: MemberChildSettings) -> GroupSettings:
    """Group settings with short times, so that the demo fits into a minute."""
    return GroupSettings(
        consumer_id=child_settings.name,
        session_timeout_ms=child_settings.session_timeout_ms,
        server_tick_ms=child_settings.server_tick_ms,
        auto_commit_interval_ms=500,
    )


def consume(consumer: Consumer, output: BinaryIO, records_per_s: int) -> int:
    """Processes records until the consumer is stopped; returns their number."""
    processed = 0
    printed_s = time.monotonic()
    for record in consumer:
        process(record, output)
        processed += 1
        if processed % PAUSE_EVERY == 0:
            time.sleep(PAUSE_EVERY / records_per_s)
        if time.monotonic() - printed_s > PROGRESS_EVERY_S:
            printed_s = time.monotonic()
            print_event("progress", processed=processed)
    return processed


def run(child_settings: MemberChildSettings) -> None:
    """Joins the group and consumes until SIGTERM or the end of its input."""
    history = HistoryFile(child_settings.history)
    consumer = Consumer(
        child_settings.zookeeper,
        group=child_settings.group,
        topics=[TOPIC],
        source=BrokerSource() if child_settings.source is None else FileSource(child_settings.source),
        settings=settings(child_settings),
        listener=MemberEventPrinter(),
        history=history,
        connection=child_settings.connection,
    )

    def stop(number: int, frame: FrameType | None) -> None:
        consumer.stop()

    signal.signal(signal.SIGTERM, stop)
    threading.Thread(target=_stop_at_end_of_input, args=(consumer,), daemon=True).start()
    with open(child_settings.output, "ab", buffering=0) as output, consumer:  # noqa: PTH123
        processed = consume(consumer, output, child_settings.records_per_s)
        print_event("progress", processed=processed)


def _stop_at_end_of_input(consumer: Consumer) -> None:
    """Stops the consumer when standard input closes, as it does when the demo is killed."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    consumer.stop()


if __name__ == "__main__":
    run(decode_settings(sys.stdin.buffer.readline()))
