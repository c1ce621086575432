"""The JSON documents of `zkgroup audit`, from the rows that `zkgroup.audit` and `zkgroup.zkfiles` give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from zkgroup.audit.documents import cause_fields, counts_of
from zkgroup.audit.engine import Skipped
from zkgroup.audit.incidents.found import FoundIncidents, NumberedFinding, NumberedIncident
from zkgroup.audit.incidents.incident import PartitionDamage
from zkgroup.audit.incidents.summary import SummaryRow
from zkgroup.audit.owner_lives import OwnerLife
from zkgroup.audit.rules import Finding
from zkgroup.audit.views.group_rows import GroupPartition
from zkgroup.audit.views.offsets import OffsetRow
from zkgroup.audit.views.sessions import SessionRow
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import hex_session
from zkgroup.zkfiles.diffs import State, ZnodeChange
from zkgroup.zkfiles.exports import ExportHeader, ExportSize
from zkgroup.zkfiles.frames import Oversized
from zkgroup.zkfiles.health import FileHealth
from zkgroup.zkfiles.zxids import Hole

from .schema import (
    COUNT,
    SESSION,
    STRING,
    TIME,
    Document,
    Inline,
    JsonKey,
    Shape,
    T,
    given,
    list_of,
    map_of,
    nullable,
    object_of,
    word,
)
from .units import iso_time
from .znode_documents import ZNODE


@dataclass(frozen=True, slots=True)
class LastTransaction:
    """The last transaction that was read; the time is None where there is none."""

    zxid: int
    time_ms: int | None

    @classmethod
    def of(cls, zxid: int | None, time_ms: int | None) -> LastTransaction:
        """`zxid` may be None or -1 where there is no transaction."""
        return cls(max(zxid or 0, 0), time_ms)


LAST_TRANSACTION = Shape(LastTransaction)


def _document(name: str, shape: Shape[T]) -> Document[T]:
    return Document(f"audit_{name}", shape, LAST_TRANSACTION)


def session_text(session: int | None) -> str | None:
    """As ZooKeeper's own tools write it; None for None and 0, which stand for no session."""
    return hex_session(session) if session else None


# A session of 0 is unknown there: a snapshot does not name the writer.
_SESSION = JsonKey("session", nullable(SESSION), lambda row: session_text(row.session))
# Nullable in the published schema, also where a row always knows it.
_LENGTHS = ("unowned_ms", "leaderless_ms")


def _milliseconds(name: str) -> JsonKey:
    """A duration in milliseconds: by its name it would be a time."""
    return given(name, COUNT)


_SPAN = (
    given("from_zxid", nullable(COUNT)),
    "to_zxid",
    JsonKey("from", nullable(TIME), lambda row: iso_time(row.from_ms)),
    "to_ms",
)


@dataclass(frozen=True, slots=True)
class AuditFilesDocument:
    """`audit inspect`."""

    files: Sequence[FileHealth]
    missing: Sequence[Hole]
    """Between the logs of folders."""


@dataclass(frozen=True, slots=True)
class AuditTreeDocument:
    """`audit tree`."""

    path: str
    exact: bool
    znodes: Sequence[Znode]


@dataclass(frozen=True, slots=True)
class AuditDiffDocument:
    """`audit diff`."""

    path: str
    from_zxid: int
    to_zxid: int
    exact: bool
    changes: Sequence[ZnodeChange]


@dataclass(frozen=True, slots=True)
class AuditExportDocument:
    """`audit export`."""

    file: Path
    written: ExportSize
    header: ExportHeader


class PartitionOwner(NamedTuple):
    """An ownership, and of which partition."""

    topic_partition: TopicPartition
    life: OwnerLife


@dataclass(frozen=True, slots=True)
class AuditOwnersDocument:
    """`audit owners`."""

    group: str
    topic_partition: TopicPartition | None
    """None for all of the group."""
    intervals: Sequence[PartitionOwner]


class PartitionOffset(NamedTuple):
    """A write of an offset, and of which partition."""

    where: GroupPartition
    write: OffsetRow


@dataclass(frozen=True, slots=True)
class AuditOffsetsDocument:
    """`audit offsets`."""

    group: str | None
    offsets: Sequence[PartitionOffset]


class GroupMemberId(NamedTuple):
    """A member of a group."""

    group: str
    member: str


@dataclass(frozen=True, slots=True)
class AuditSessionsDocument:
    """`audit sessions`."""

    sessions: Sequence[SessionRow]


class ReportFile(NamedTuple):
    """A file that `audit report` wrote."""

    path: Path
    bytes: int


@dataclass(frozen=True, slots=True)
class AuditReportDocument:
    """`audit report`."""

    files: Sequence[ReportFile]
    errors: int
    warnings: int
    notes: int


@dataclass(frozen=True, slots=True)
class AuditSummaryDocument:
    """`audit summary`."""

    start_ms: int | None
    groups: Sequence[SummaryRow]


@dataclass(frozen=True, slots=True)
class EnsembleIncident:
    """An incident of `audit run`, which reads several ensembles; numbers are those within its ensemble."""

    ensemble: str
    incident: NumberedIncident


@dataclass(frozen=True, slots=True)
class EnsembleFinding:
    """A finding of `audit run`, and the number of its incident in its ensemble."""

    ensemble: str
    finding: NumberedFinding


@dataclass(frozen=True, slots=True)
class EnsembleRun:
    """An ensemble of `audit run`, beside its findings."""

    ensemble: str
    as_of: LastTransaction
    skipped: Sequence[Skipped]
    damage: Sequence[str]
    """Damaged or missing files, in words."""


@dataclass(frozen=True, slots=True)
class AuditRunDocument:
    """`audit run`: each ensemble has its own moment."""

    ensembles: Sequence[EnsembleRun]
    incidents: Sequence[EnsembleIncident]
    findings: Sequence[EnsembleFinding]


_JSON_NAMES = {
    "ephemeral_owner": "ephemeralOwner",
    "data_length": "dataLength",
    "children_count": "numChildren",
}
"""Fields of a Stat that have other names in ZooKeeper."""

OVERSIZED = Shape(Oversized, "zxid", "time_ms", "bytes=size")
FILE = Shape(
    FileHealth,
    *("path", given("kind", word("snapshot", "log", "export")), "first_zxid", "last_zxid", "records"),
    *("healthy=is_healthy", "good_until_zxid", "exact=is_exact"),
    JsonKey("detail", nullable(STRING), lambda one: one.detail or None),
    "oversized",
)
HOLE = Shape(Hole, "from_zxid=first_missing", "to_zxid=last_missing")
FILES = _document("files", Shape(AuditFilesDocument))
TREE = _document("tree", Shape(AuditTreeDocument))
STATE = Shape(State, Inline("znode", ZNODE))
CHANGE = Shape(
    ZnodeChange,
    *("path", "change", "before", "after"),
    JsonKey("fields", list_of(STRING), lambda change: names_of(change)),
)
DIFF = _document("diff", Shape(AuditDiffDocument))
EXPORT = _document(
    "export",
    Shape(
        AuditExportDocument,
        *("file", "written.znodes", "written.bytes", "header.zxid_before", "header.zxid_after"),
        *("exact=header.is_exact", "header.changed", "header.unreadable"),
    ),
)
OWNER = Shape(OwnerLife, "owner=thread", _SESSION, *_SPAN, "ended_by")
PARTITION_OWNER = Shape(PartitionOwner, Inline("life", OWNER), "topic_partition")
OWNERS = _document(
    "owners",
    Shape(
        AuditOwnersDocument,
        "group",
        JsonKey("topic", nullable(STRING), lambda row: row.topic_partition and row.topic_partition.topic),
        JsonKey(
            "partition",
            nullable(COUNT),
            lambda row: None if row.topic_partition is None else row.topic_partition.partition,
        ),
        "intervals",
    ),
)
OFFSET = Shape(
    PartitionOffset,
    *("where.group", "where.topic_partition", "write.zxid", "write.time_ms"),
    JsonKey("session", nullable(SESSION), lambda row: session_text(row.write.session)),
    *("write.members", "write.kind"),
    JsonKey("offset", nullable(COUNT), lambda row: position(row.write.offset)),
    JsonKey("previous", nullable(COUNT), lambda row: position(row.write.previous)),
    *("write.owned", "write.owner", "rewind=write.is_rewind"),
)
OFFSETS = _document("offsets", Shape(AuditOffsetsDocument))
MEMBER = Shape(GroupMemberId)
AUDITED_SESSION = Shape(
    SessionRow,
    *("session", "server", "timeout_ms", *_SPAN, "ended", "writes", "silence_ms", "ephemerals", "created"),
    JsonKey(
        "members",
        list_of(MEMBER.schema),
        lambda row: [MEMBER.json(GroupMemberId(*one)) for one in row.members],
    ),
    *("brokers", "controller=was_controller"),
)
SESSIONS = _document("sessions", Shape(AuditSessionsDocument))
REPORT_FILE = Shape(ReportFile)
REPORT = _document("report", Shape(AuditReportDocument))

# The objects of the next two documents are built by `zkgroup.audit`, which writes them as findings.json too;
# tests/pure/cli/test_documents.py and tests/real/spark/test_run_document.py compare them with these.
FINDING = Shape(Finding, "finding", "severity", "group", "topic", "partition", _SESSION, *_SPAN, "detail")
SKIPPED = Shape(Skipped, JsonKey("finding", STRING, lambda one: one.rule.name), "reason")
NUMBERED_FINDING = Shape(NumberedFinding, Inline("finding", FINDING), "incident")
DAMAGE = Shape(
    PartitionDamage, *("group", "topic", "partition", "delivered_again"), *map(_milliseconds, _LENGTHS)
)
_CAUSE = object_of(
    kind=STRING, what=STRING, session=nullable(SESSION), zxid=nullable(COUNT), time=nullable(TIME)
)
INCIDENT = Shape(
    NumberedIncident,
    *("number", "incident.title", "incident.severity", "incident.group"),
    *("incident.from_zxid", "incident.to_zxid"),
    JsonKey("from", nullable(TIME), lambda row: iso_time(row.incident.from_ms)),
    JsonKey("to", nullable(TIME), lambda row: iso_time(row.incident.to_ms)),
    JsonKey("cause", nullable(_CAUSE), lambda row: cause_fields(row.incident.cause)),
    *("incident.damage", "incident.act"),
    JsonKey("counts", map_of(COUNT), lambda row: counts_of(row.incident.findings)),
)
FINDINGS = _document("findings", Shape(FoundIncidents, "incidents", "findings", "skipped"))
GROUP_SUMMARY = Shape(SummaryRow)
SUMMARY = _document("summary", Shape(AuditSummaryDocument, "start_ms", "groups"))
ENSEMBLE_INCIDENT = Shape(EnsembleIncident, "ensemble", Inline("incident", INCIDENT))
ENSEMBLE_FINDING = Shape(EnsembleFinding, "ensemble", Inline("finding", NUMBERED_FINDING))
ENSEMBLE_RUN = Shape(EnsembleRun)
RUN = Document("audit_run", Shape(AuditRunDocument), as_of=None)


def names_of(change: ZnodeChange) -> list[str]:
    """What differs, with ZooKeeper's own names for the fields of a Stat."""
    return [_JSON_NAMES.get(name, name) for name in change.fields]


def position(offset: int | None) -> int | None:
    """A committed offset; None for a negative one, which stands for none."""
    return None if offset is None or offset < 0 else offset
