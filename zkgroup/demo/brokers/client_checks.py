"""The checks of what Kafka's own clients produced and read in `zkgroup demo brokers`. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from zkgroup.demo.progress import CheckResult, named

PRODUCED = "every record of Kafka's clients is at its offset on every replica"
READ = "every client reads the same records"
DUMPED = "Kafka's DumpLogSegments reads the same records"

_BATCH = re.compile(r"baseOffset: \d+ lastOffset: \d+ count: (\d+) .* isvalid: (true|false)")
_PRODUCER = re.compile(r"producerId: (-?\d+)")
_RECORD = re.compile(r"\| offset: (\d+) .* key: (.*) payload: (.*)")
_OTHER = ("Dumping ", "Starting offset: ", "Log starting offset: ")
"""Beginnings of the lines of DumpLogSegments that are no batch and no record."""


@dataclass(frozen=True, slots=True)
class ClientRecord:
    """Key and value of a record."""

    key: bytes
    value: bytes


Read = Mapping[int, ClientRecord]
"""Offset to record."""


@dataclass(frozen=True, slots=True)
class ClientRun:
    """What one client produced to the topic, and what it read from there."""

    client: str
    version: str
    records: Sequence[ClientRecord]
    """What it had to produce, in order."""
    offsets: Sequence[int] | None = None
    """The offset of each record, as it was acknowledged; None for a client that does not report them."""
    read: Read | None = None
    """None where it did not get that far."""
    problem: str = ""
    """Why it failed, if it did."""

    @property
    def produced(self) -> int:
        """Number of records that it had to produce."""
        return len(self.records)

    @property
    def records_read(self) -> int:
        """Number of records that it has read."""
        return len(self.read or ())


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A client or a tool that did not take part."""

    client: str
    reason: str


@dataclass(frozen=True, slots=True)
class SegmentDump:
    """A segment of the topic, as Kafka's dump tool prints it."""

    file: str
    """Broker, folder and name."""
    lines: tuple[str, ...]
    """All that the tool printed."""

    @property
    def batches(self) -> tuple[str, ...]:
        """The lines of the batches."""
        return tuple(line for line in self.lines if _BATCH.match(line))

    @property
    def first_batches(self) -> tuple[str, ...]:
        """The line of the first batch of each producer, in the order of the log."""
        found: dict[str, str] = {}
        for line in self.batches:
            if match := _PRODUCER.search(line):
                found.setdefault(match[1], line)
        return tuple(found.values())

    @property
    def records(self) -> dict[int, ClientRecord]:
        """The records that the tool printed."""
        found = filter(None, map(_RECORD.match, self.lines))
        return {int(one[1]): ClientRecord(one[2].encode(), one[3].encode()) for one in found}

    @property
    def complaints(self) -> list[str]:
        """Lines that report a fault, or that the tool does not print for a segment without faults."""
        known = (line for line in self.lines if line and not line.startswith(_OTHER))
        return [
            line
            for line in known
            if not _RECORD.match(line) and ((batch := _BATCH.match(line)) is None or batch[2] != "true")
        ]


@dataclass(frozen=True, slots=True)
class ClientEvidence:
    """Everything that these checks read."""

    runs: Sequence[ClientRun]
    left_out: Sequence[LeftOut] = ()
    replicas: Mapping[int, Sequence[ClientRecord]] = field(default_factory=dict)
    """Broker to the records of its log, in order."""
    dump: SegmentDump | None = None
    """None where Kafka's tools are not there."""


def check_clients(evidence: ClientEvidence) -> tuple[CheckResult, ...]:
    """All checks; that of the dump only where there is one."""
    dumped = () if evidence.dump is None else (_dumped(evidence, evidence.dump),)
    return (_produced(evidence), _read(evidence), *dumped)


def _produced(evidence: ClientEvidence) -> CheckResult:
    """Compares each record with the log of each replica; nothing else may be in there."""
    faults = [f"{run.client}: {run.problem}" for run in evidence.runs if run.problem]
    count = sum(len(run.records) for run in evidence.runs)
    for broker, log in evidence.replicas.items():
        faults += [f"broker {broker}: {one}" for run in evidence.runs for one in _missing(run, log)]
        if len(log) != count:
            faults.append(f"broker {broker} has {len(log):,} records of {count:,}")
    clients = f"{len(evidence.runs)} client{'' if len(evidence.runs) == 1 else 's'}"
    text = f"{count:,} of {clients} on {len(evidence.replicas)} brokers" if not faults else named(faults)
    return CheckResult(PRODUCED, bool(count and evidence.replicas) and not faults, text)


def _missing(run: ClientRun, log: Sequence[ClientRecord]) -> list[str]:
    """Offsets where a record is not; without offsets, whether its records are there once and in order."""
    if run.offsets is None:
        own = {record.key for record in run.records}
        same = [record for record in log if record.key in own] == list(run.records)
        return [] if same else [f"not each record of {run.client}, once and in order"]
    if len(run.offsets) != len(run.records):
        return [f"{run.client}: {len(run.offsets)} of {len(run.records)} acknowledged"]
    pairs = zip(run.offsets, run.records, strict=True)
    return [
        f"not {run.client}'s at {offset}"
        for offset, record in pairs
        if not (0 <= offset < len(log) and log[offset] == record)
    ]


def _read(evidence: ClientEvidence) -> CheckResult:
    log = dict(enumerate(next(iter(evidence.replicas.values()), ())))
    faults: list[str] = []
    for run in evidence.runs:
        if run.read is None:
            faults.append(f"{run.client} read nothing")
        elif run.read != log:
            wrong = sorted(at for at in log.keys() | run.read.keys() if log.get(at) != run.read.get(at))
            faults.append(f"{run.client} differs at {named(list(map(str, wrong)))}")
    text = f"{len(log):,} by {named([run.client for run in evidence.runs])}" if not faults else named(faults)
    return CheckResult(READ, bool(log) and not faults, text)


def _dumped(evidence: ClientEvidence, dump: SegmentDump) -> CheckResult:
    log = dict(enumerate(next(iter(evidence.replicas.values()), ())))
    faults = dump.complaints
    found = dump.records
    if wrong := sorted(at for at in log.keys() | found.keys() if log.get(at) != found.get(at)):
        faults.append(f"it differs at {named(list(map(str, wrong)))}")
    text = f"{len(dump.batches)} batches, all valid, in {dump.file}" if not faults else named(faults)
    return CheckResult(DUMPED, bool(log) and not faults, text)
