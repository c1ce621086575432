"""Undo records: what a change overwrites or deletes, saved before the change, and how it is restored.

A record is undone in one of three ways: offsets are written again (`group`), a command is run
(`undo_command`), or znodes that are gone are created again. Or it cannot be undone (`no_undo` says why).
"""

from __future__ import annotations

import base64
import errno
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from zkgroup.admin.offsets.planning import NONE, OffsetChange, OffsetPlan, plan_values
from zkgroup.errors import (
    AccessDeniedError,
    ConfigError,
    ConflictError,
    NotFoundError,
    OperationRefusedError,
    PartlyDoneError,
    RefusedError,
    ZkGroupError,
)
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.reader import snapshot_or_empty
from zkgroup.groups.snapshot import decode_or_error
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Create
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import Topic, topics_path
from zkgroup.znodes.consumers import Offset
from zkgroup.znodes.controller import ControllerRegistration

SCHEMA = "zkgroup.undo/1"

REFUSALS = (
    AccessDeniedError,
    ConfigError,
    ConflictError,
    NotFoundError,
    RefusedError,
)
"""Errors after which nothing has been changed; a change in part is PartlyDoneError, no answer is neither."""

_ID = re.compile(r"[0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRecord:
    """How things were. `offsets` are put back one by one; `znodes` are created again where they are gone."""

    undo_id: str
    time_ms: int
    command: str
    """The command line that is undone, without secrets."""
    zookeeper: str
    """The ensemble that it was done on: the record is good for that one only."""
    group: str | None = None
    offsets: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """Partition to (before, after); -1 where nothing was committed."""
    originals: Mapping[TopicPartition, bytes] = field(default_factory=dict)
    """Data of offset znodes that is not `before` in plain digits: bytes that are no offset, `007`, `-5`."""
    created: frozenset[TopicPartition] = frozenset()
    """Those of `offsets` whose znode the change creates: the undo deletes it."""
    parents: tuple[str, ...] = ()
    """Empty znodes that are made for the offsets, parents first: they go too where nothing else has come."""
    znodes: tuple[tuple[str, bytes | None], ...] = ()
    """Path and data of persistent znodes that are deleted, parents first."""
    no_undo: str | None = None
    """Why this cannot be undone; `znodes` then have the former data."""
    undo_command: tuple[str, ...] = ()
    """The words of the command that undoes it, without `zkgroup`, the ensemble and `--execute`."""
    when: str | None = None
    """From when on it can be undone, as the end of a phrase."""
    left: tuple[tuple[str, bytes | None], ...] = ()
    """Path and data of what the change left: where one differs by now, something else has changed it."""
    made_at: int | None = None
    """The zxid at which the change made what it left: a znode with another `czxid` is not the same one."""
    rollback_file: str | None = None
    """Of a reassignment: the file with the replica lists as they were."""
    targets: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    """The lists that it asked for."""

    @property
    def summary(self) -> str:
        """What the undo does, or why there is none, in a few words."""
        if self.no_undo is not None:
            return self.no_undo
        if self.undo_command:
            return shlex.join(["zkgroup", *self.undo_command])
        count, what = (len(self.znodes), "znode") if self.group is None else (len(self.offsets), "offset")
        named = f"{count} {what}{'' if count == 1 else 's'}"
        if self.group is not None:
            return f"{named} of {self.group}"
        return f"{named} from {self.znodes[0][0]}" if self.znodes else named

    def encode(self) -> bytes:
        document = {
            "schema": SCHEMA,
            "undo": self.undo_id,
            "time_ms": self.time_ms,
            "command": self.command,
            "zookeeper": self.zookeeper,
            "group": self.group,
            "offsets": [
                {"topic": tp.topic, "partition": tp.partition, "before": before, "after": after}
                | ({"before_base64": _base64(self.originals[tp])} if tp in self.originals else {})
                | ({"created": True} if tp in self.created else {})
                for tp, (before, after) in sorted(self.offsets.items())
            ],
            "znodes": _znode_rows(self.znodes),
            **({"parents": list(self.parents)} if self.parents else {}),
            **({} if self.no_undo is None else {"way_back": self.no_undo}),
            **({"command_back": list(self.undo_command)} if self.undo_command else {}),
            **({} if self.when is None else {"when": self.when}),
            **({"left": _znode_rows(self.left)} if self.left else {}),
            **({} if self.made_at is None else {"made_at_zxid": self.made_at}),
            **({} if self.rollback_file is None else {"reassignment": self._reassignment()}),
        }
        return (json.dumps(document, indent=1) + "\n").encode()

    def _reassignment(self) -> dict[str, object]:
        return {
            "rollback_file": self.rollback_file,
            "asked_for": [
                {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas)}
                for tp, replicas in sorted(self.targets.items())
            ],
        }

    @classmethod
    def decode(cls, where: str, data: bytes) -> UndoRecord:
        """Raises ConfigError where the file is no undo file of this schema."""
        try:
            fields = json.loads(data)
            if fields["schema"] != SCHEMA:
                raise ConfigError(f"{where}: expected schema {SCHEMA}, found {fields['schema']!r}")
            asked = fields.get("reassignment") or {"rollback_file": None, "asked_for": []}
            return cls(
                undo_id=fields["undo"],
                time_ms=fields["time_ms"],
                command=fields["command"],
                zookeeper=fields["zookeeper"],
                group=fields["group"],
                offsets={
                    TopicPartition(row["topic"], row["partition"]): (row["before"], row["after"])
                    for row in fields["offsets"]
                },
                originals={
                    TopicPartition(row["topic"], row["partition"]): base64.b64decode(row["before_base64"])
                    for row in fields["offsets"]
                    if "before_base64" in row
                },
                created=frozenset(
                    TopicPartition(row["topic"], row["partition"])
                    for row in fields["offsets"]
                    if row.get("created")
                ),
                parents=tuple(fields.get("parents", ())),
                znodes=_znodes_of(fields["znodes"]),
                no_undo=fields.get("way_back"),
                undo_command=tuple(fields.get("command_back", ())),
                when=fields.get("when"),
                left=_znodes_of(fields.get("left", ())),
                made_at=fields.get("made_at_zxid"),
                rollback_file=asked["rollback_file"],
                targets={
                    TopicPartition(row["topic"], row["partition"]): tuple(row["replicas"])
                    for row in asked["asked_for"]
                },
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{where}: not an undo file: {type(error).__name__}: {error}") from error


def _znode_rows(znodes: Iterable[tuple[str, bytes | None]]) -> list[dict[str, str | None]]:
    return [{"path": path, "data_base64": None if data is None else _base64(data)} for path, data in znodes]


def _znodes_of(rows: Iterable[Mapping[str, str | None]]) -> tuple[tuple[str, bytes | None], ...]:
    found = []
    for row in rows:
        path, data = row["path"], row["data_base64"]
        assert path is not None
        found.append((path, None if data is None else base64.b64decode(data)))
    return tuple(found)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def new_undo_id(wall_ms: int, random_hex4: str) -> str:
    """An id that sorts by time: `20260131-120000-1a2b`."""
    return f"{datetime.fromtimestamp(wall_ms / 1000, UTC):%Y%m%d-%H%M%S}-{random_hex4}"


class UndoFolder:
    """The folder with one file for each change."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, undo_id: str) -> Path:
        """Where the record of this id is."""
        return self.path / f"{undo_id}.json"

    def save(self, record: UndoRecord) -> Path:
        """Writes the record so that it survives a crash of the machine.

        Raises ConfigError; the rollback file then goes, too.
        """
        file = self.file(record.undo_id)
        try:
            write_whole(file, record.encode())
        except OSError as error:
            if record.rollback_file:
                Path(record.rollback_file).unlink(missing_ok=True)
            raise ConfigError(
                f"{file}: the undo file cannot be written, so nothing was changed: {error}"
            ) from error
        return file

    def amend(self, undo_id: str, **fields: Any) -> None:
        """Changes these fields of a record, whole or not at all. Raises NotFoundError, ConfigError."""
        record, file = replace(self.load(undo_id), **fields), self.file(undo_id)
        try:
            write_whole(file, record.encode(), again=True)
        except OSError as error:
            raise ConfigError(f"{file}: cannot be written: {error}") from error

    @contextmanager
    def removed_if_refused(self, record: UndoRecord) -> Iterator[None]:
        """Around the change of a saved record: the record is removed again where the change was refused.

        Whatever else ends the block may have changed something: the record stays.
        """
        try:
            yield
        except REFUSALS:
            for file in (
                self.file(record.undo_id),
                *([record.rollback_file] if record.rollback_file else ()),
            ):
                Path(file).unlink(missing_ok=True)
            raise

    def load(self, undo_id: str) -> UndoRecord:
        """Raises NotFoundError, ConfigError."""
        file = self.file(undo_id)
        if not _ID.fullmatch(undo_id) or not file.is_file():
            raise NotFoundError(
                f"{file}: there is no undo file {undo_id!r}; known: {', '.join(self.ids()[-5:]) or 'none'}"
            )
        return UndoRecord.decode(str(file), file.read_bytes())

    def newest(self, suits: Callable[[UndoRecord], bool]) -> UndoRecord:
        """The last record for which `suits` is true. Raises NotFoundError, ConfigError."""
        for record in self.latest_first():
            if suits(record):
                return record
        raise NotFoundError(f"{self.path}: there is no undo file for this ensemble")

    def latest_first(self) -> Iterator[UndoRecord]:
        """Every record, read one by one. Raises ConfigError at one that is no undo file."""
        for _, ids in groupby(reversed(self.ids()), lambda undo_id: undo_id.rpartition("-")[0]):
            # an id has the second only
            yield from sorted(map(self.load, ids), key=lambda record: record.time_ms, reverse=True)

    def ids(self) -> list[str]:
        """Ids of all records, oldest first."""
        return sorted(file.stem for file in self.path.glob("*.json")) if self.path.is_dir() else []


def write_whole(file: Path, data: bytes, *, again: bool = False) -> None:
    """Writes a file of the owner's alone so that it survives a crash of the machine: a new one, or `again`.

    Under another name first: where that fails, on a full disk too, nothing of it is left. Raises OSError.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if file.exists() and not again:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(file))
    part = file.with_name(f".{file.name}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        part.rename(file)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    _sync_folder(file.parent)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


ZNODES_AT_ONCE = 500

NO_UNDO_COMMAND = "no command removes only what is restored here"

NAMED = 5
"""Partitions that one message names."""


@dataclass(frozen=True, slots=True)
class Restoration:
    """Znodes that would be created again. Nothing has been."""

    as_of: AsOf
    missing: tuple[tuple[str, bytes | None], ...]
    """Path and data, parents first."""

    @property
    def undo_command(self) -> tuple[str, ...]:
        """The command that removes again what is restored: a topic, or a request for moves. Or none."""
        for path, _ in self.missing:
            parent, _, name = path.rpartition("/")
            if parent == topics_path():
                return "topic", "delete", name
            if path == Reassignment.path():
                return "reassign", "cancel"
        return ()

    @property
    def no_undo(self) -> str | None:
        """Why there is none."""
        return None if self.undo_command else NO_UNDO_COMMAND


def plan_undo(ensemble: Ensemble, record: UndoRecord, *, force: bool = False) -> OffsetPlan:
    """The plan that puts the offsets of a record back.

    Offset znodes get the very bytes that they had; those that the change created are deleted, and what it
    created above them where nothing else is there. Raises ConflictError where one is neither as the change
    left it nor as it was before, unless forced: something else has changed it since. Raises RefusedError for
    bytes that are no offset where the group has members, whose owners could not obey them.
    """
    assert record.group is not None
    snapshot = snapshot_or_empty(ensemble, record.group, sorted({tp.topic for tp in record.offsets}))
    values = {tp: before for tp, (before, _) in record.offsets.items()}
    plan = plan_values(snapshot, values, record.originals, allow_missing=True)
    if record.created:
        plan = _without_created(plan, record)
    moved = []
    for change in plan.changes:
        tp = change.topic_partition
        before, after = record.offsets[tp]
        now = _held_now(change)
        is_left = now == after or (after == NONE and change.before is None)
        if change.changes and now != before and not is_left:
            moved.append(f"{tp} is at {now}, was left at {after}")
        elif change.removes and change.version:
            moved.append(f"{tp} is at {now} as it was left, but was written since")
    if moved and not force:
        more = f" and {len(moved) - 3} more" if len(moved) > 3 else ""
        raise ConflictError(
            f"offsets of {record.group} have moved since {record.undo_id}: {'; '.join(moved[:3])}{more}; "
            "--force puts them back all the same"
        )
    if plan.members:
        _refuse_offsets_of_members(plan)
    return plan


def _without_created(plan: OffsetPlan, record: UndoRecord) -> OffsetPlan:
    """The plan, with offsets that the change made deleted instead of written; a made one has version 0.

    In a group with members they are only set back to -1: the version of an owner's offset is its fence.
    """
    made = [
        change
        for change in plan.changes
        if change.topic_partition in record.created and change.version is not None
    ]
    others = [change for change in plan.changes if change.topic_partition not in record.created]
    if plan.members:
        notes = (f"{plan.group} has members, so what was made stays, as -1: {_named(made)}",) if made else ()
        return replace(plan, changes=_in_order([*others, *made]), notes=(*plan.notes, *notes))
    made = [replace(change, removes=True, exactly=None) for change in made]
    return replace(plan, changes=_in_order([*others, *made]), sweep=record.parents)


def _in_order(changes: Sequence[OffsetChange]) -> tuple[OffsetChange, ...]:
    return tuple(sorted(changes, key=lambda change: change.topic_partition))


def _named(changes: Sequence[OffsetChange]) -> str:
    named = ", ".join(str(change.topic_partition) for change in changes[:NAMED])
    return named if len(changes) <= NAMED else f"{named} and {len(changes) - NAMED} more"


def _held_now(change: OffsetChange) -> int | str:
    if change.before is not None:
        return change.before
    return NONE if change.original is None else repr(change.original)


def _refuse_offsets_of_members(plan: OffsetPlan) -> None:
    for change in plan.effective:
        if change.exactly is not None and change.after == NONE:
            raise RefusedError(
                f"{Offset.path(plan.group, change.topic_partition)}: held {change.exactly!r} before, which "
                f"no owner could go on from, and {plan.group} has members: stop them first"
            )


def check_untouched(ensemble: Ensemble, record: UndoRecord) -> None:
    """Raises ConflictError where what the change left has been changed since.

    What it left is compared byte by byte. Partitions that it moved have to be where it asked them to be;
    while a reassignment runs, that cannot be said yet.
    """
    ensemble.zk.sync("/")
    found = ensemble.zk.read_many([path for path, _ in record.left])
    for path, data in record.left:
        if not _is_as_left(found[path], data, record.made_at):
            raise ConflictError(f"{path}: has changed since {record.undo_id}; --force undoes it all the same")
    if not record.targets or ensemble.zk.exists(Reassignment.path()) is not None:
        return
    names = sorted({tp.topic for tp in record.targets})
    znodes = ensemble.zk.read_many([Topic.path(name) for name in names])
    for name in names:
        znode = znodes[Topic.path(name)]
        topic = Topic.decode(znode.path, znode.data) if znode else Topic({})
        for tp, replicas in record.targets.items():
            now = topic.partitions.get(tp.partition)
            if tp.topic == name and now != replicas:
                raise ConflictError(
                    f"{Topic.path(name)}: {tp} is on {list(now or ())}, {record.undo_id} asked for "
                    f"{list(replicas)}; --force moves it back all the same"
                )


def _is_as_left(znode: Znode | None, data: bytes | None, made_at: int | None) -> bool:
    """Whether it is that znode, with the data that the change left; to a topic a controller may add an id."""
    if znode is None or (made_at is not None and znode.stat.czxid != made_at):
        return False
    if (znode.data or b"") == (data or b""):
        return True
    if znode.path.rpartition("/")[0] != topics_path():
        return False
    now = decode_or_error(znode, Topic.decode).value
    return now is not None and replace(now, topic_id=None, version=1) == Topic.decode(znode.path, data)


def plan_restoration(ensemble: Ensemble, record: UndoRecord) -> Restoration:
    """Which of the record's znodes are gone and would be created again.

    Raises ConflictError where one exists with other data: another program made it. Raises RefusedError
    beside a living controller for a topic whose partitions had leaders: Kafka's controller (0.8.2.2,
    `PartitionStateMachine.initializeLeaderAndIsrForPartition`) fails at partition states that it has not
    made, and the topic would never be led.
    """
    found = ensemble.zk.read_many([path for path, _ in record.znodes])
    missing = []
    for path, data in record.znodes:
        present = found[path]
        if present is None:
            missing.append((path, data))
        elif (present.data or b"") != (data or b""):
            raise ConflictError(
                f"{path}: expected it gone or as it was, found other data; nothing was changed"
            )
    _refuse_beside_a_controller(ensemble, missing)
    return Restoration(ensemble.as_of(), tuple(missing))


def _refuse_beside_a_controller(ensemble: Ensemble, missing: Sequence[tuple[str, bytes | None]]) -> None:
    led = {path.split("/")[3] for path, _ in missing if path.endswith("/state")}
    if not led or ensemble.zk.exists(ControllerRegistration.path()) is None:
        return
    hints = []
    for path, data in missing:
        topic = path.rpartition("/")[2]
        if topic in led and path == Topic.path(topic):
            lists = _texts_of_lists(Topic.decode(path, data))
            hints.append(
                f"; `zkgroup topic create {topic} --replica-assignment {lists}` makes it anew, empty"
            )
    raise RefusedError(
        f"{ControllerRegistration.path()}: expected no controller, found one, which would fail at partitions "
        f"of {', '.join(sorted(led))} that it has not made itself{''.join(hints)}"
    )


def replica_lists(znodes: Iterable[Znode]) -> str | None:
    """Where the partitions of the topic among these znodes were, as `--replica-assignment` takes it."""
    for znode in znodes:
        if znode.path.rpartition("/")[0] == topics_path():
            topic = decode_or_error(znode, Topic.decode).value
            return _texts_of_lists(topic) if topic else None
    return None


def _texts_of_lists(topic: Topic) -> str:
    return ",".join(":".join(map(str, topic.partitions[number])) for number in sorted(topic.partitions))


def restore_znodes(ensemble: Ensemble, plan: Restoration) -> None:
    """Creates the znodes of the plan.

    Raises ConflictError where one has been created since, PartlyDoneError when that happens after the first
    of several transactions.
    """
    for start in range(0, len(plan.missing), ZNODES_AT_ONCE):
        batch = plan.missing[start : start + ZNODES_AT_ONCE]
        try:
            ensemble.zk.multi(*(Create(path, data) for path, data in batch))
        except ZkGroupError as error:
            message = str(error)
            if isinstance(error, OperationRefusedError):
                message = f"{error.path}: changed since it was read ({error.code}); run again"
            if start:
                raise PartlyDoneError(
                    f"{start} of {len(plan.missing)} znodes are created, then: {message}"
                ) from error
            if isinstance(error, OperationRefusedError):
                raise ConflictError(message) from error
            raise
