"""Who wrote the committed offsets of a group, and when (history of commits, recipes 28).

Most of it stands in znodes that are written anyway: a reset has a marker, and an owner of zkgroup alone
commits what it owns. Only the commits of owners that are gone, and those that a later claim wrote anew, need
a record, which members write with `commit_history`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zkgroup.errors import AccessDeniedError
from zkgroup.groups.descriptions import Evidence
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.snapshot import DecodedZnode, GroupSnapshot, decode_or_error
from zkgroup.model import TopicPartition, Znode
from zkgroup.znodes.group_records import CommitRecord, Reset
from zkgroup.znodes.ids import member_host


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetWriter:
    """Who has committed the present offset of a partition, or has set it."""

    name: str
    """The member id; of a reset, the user."""
    host: str | None
    """Of the member, if it is known."""
    version: str | None
    """The version of zkgroup of the member; None for others, and for a reset."""
    at_ms: int
    """The time of the commit or of the reset, by the server's clock, in epoch milliseconds."""
    by: Evidence
    """The evidence for it."""


def read_writers(ensemble: Ensemble, snapshot: GroupSnapshot) -> Mapping[TopicPartition, OffsetWriter]:
    """The writers of the offsets, where they are known, by one bulk read; none for a user who may not read
    what tells them."""
    group, tps = snapshot.group, sorted(snapshot.offsets)
    records, markers = ([kind.path(group, tp) for tp in tps] for kind in (CommitRecord, Reset))
    try:
        found = ensemble.zk.read_many([*records, *markers])
    except AccessDeniedError:
        return {}
    writers = {
        tp: writer_of(snapshot, tp, found[record], found[marker])
        for tp, record, marker in zip(tps, records, markers, strict=True)
    }
    return {tp: writer for tp, writer in writers.items() if writer is not None}


def writer_of(
    snapshot: GroupSnapshot, tp: TopicPartition, record_znode: Znode | None, marker_znode: Znode | None
) -> OffsetWriter | None:
    """The writer of a partition's offset; None where nothing tells.

    The newest record or marker that has the present offset names it: whatever was written after that was the
    same, as each claim writes it. Otherwise it is the owner, if the offset has been written since its claim,
    unless the owner writes records and this is none of its commits.
    """
    entry = snapshot.offsets.get(tp)
    if entry is None or entry.value is None:
        return None
    value, record, marker = entry.value.value, None, None
    if record_znode is not None:
        record = decode_or_error(record_znode, CommitRecord.decode)
    if marker_znode is not None:
        marker = decode_or_error(marker_znode, Reset.decode)
    named = [one for one in (record, marker) if one and one.value is not None and one.value.offset == value]
    if named:
        newest = max(named, key=lambda one: one.stat.mzxid)
        return _named(snapshot.group, newest)
    return _owner(snapshot, tp, record)


def _named(group: str, entry: DecodedZnode[CommitRecord] | DecodedZnode[Reset]) -> OffsetWriter:
    written, at_ms = entry.value, entry.stat.mtime
    if isinstance(written, Reset):
        return OffsetWriter(name=written.by, host=None, version=None, at_ms=at_ms, by="reset")
    assert written is not None
    host = written.host or member_host(group, written.member)
    return OffsetWriter(name=written.member, host=host, version=written.version, at_ms=at_ms, by="record")


def _owner(
    snapshot: GroupSnapshot, tp: TopicPartition, record: DecodedZnode[CommitRecord] | None
) -> OffsetWriter | None:
    owner, member, written = snapshot.owners.get(tp), snapshot.registered_owner(tp), snapshot.offsets[tp].stat
    if owner is None or member is None or written.mzxid <= owner.stat.czxid:
        return None
    keeps_records = record is not None and record.value is not None and record.value.token == owner.stat.czxid
    if keeps_records and record is not None and record.stat.mzxid < written.mzxid:
        return None  # another client has written it
    registration = snapshot.registrations[member].value
    return OffsetWriter(
        name=member,
        host=member_host(snapshot.group, member) or (registration.host if registration else None),
        version=registration.version if registration else None,
        at_ms=written.mtime,
        by="owner",
    )
