"""Undo records: what a change overwrites or deletes, saved before the change, and how it is restored.

A record is undone in one of five ways: offsets are written again (`group`), a user gets former credentials
(`user`), ACLs their former entries, a command is run (`undo_command`), or znodes that are gone are created
again. Or it cannot be undone (`no_undo` says why).
"""

from __future__ import annotations

import base64
import errno
import json
import os
import re
import secrets
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from zkgroup.errors import AccessDeniedError, ConfigError, ConflictError, NotFoundError, RefusedError
from zkgroup.model import TopicPartition
from zkgroup.model.text import counted, named

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
class ChangeRecord:
    """The author of a change, for the undo record and the audit znode of a group."""

    undo_id: str
    command: str
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRecord:
    """The former state. `offsets` are put back one by one; `znodes` are created again where they are gone.

    Nothing prints data of `znodes` and `left`: credentials may be among it, and the file is of its owner's.
    """

    undo_id: str
    """Id of the record, which `undo` takes."""
    time_ms: int
    """The moment at which the change was made, in epoch milliseconds."""
    command: str
    """The command line that is undone, without secrets."""
    zookeeper: str
    """The ensemble that it was done on: the record is good for that one only."""
    group: str | None = None
    """The group whose offsets are recorded; None for a record of another kind."""
    user: str | None = None
    """The user whose credentials are in `znodes` as they were, and in `left`; None for another kind."""
    offsets: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """Partition to (before, after); -1 where nothing was committed."""
    originals: Mapping[TopicPartition, bytes] = field(default_factory=dict)
    """Data of offset znodes that is not `before` in plain digits: bytes that are no offset, `007`, `-5`."""
    created: frozenset[TopicPartition] = frozenset()
    """Those of `offsets` whose znode the change creates: the undo deletes it."""
    parents: tuple[str, ...] = ()
    """Empty znodes that are made for the offsets, parents first: they go too where nothing else has come."""
    znodes: tuple[tuple[str, bytes | None], ...] = field(default=(), repr=False)
    """Path and data of persistent znodes that are deleted, parents first."""
    no_undo: str | None = None
    """The reason why this cannot be undone; `znodes` then have the former data."""
    undo_command: tuple[str, ...] = ()
    """The words of the command that undoes it, without `zkgroup`, the ensemble and `--execute`."""
    when: str | None = None
    """From when on it can be undone, as the end of a phrase."""
    left: tuple[tuple[str, bytes | None], ...] = field(default=(), repr=False)
    """Path and data of what the change left: where one differs by now, something else has changed it."""
    made_at: int | None = None
    """The zxid at which the change made what it left: a znode with another `czxid` is not the same one."""
    rollback_file: str | None = None
    """Of a reassignment: the file with the replica lists as they were."""
    targets: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    """The lists that it asked for."""

    @property
    def is_of_acls(self) -> bool:
        """True where `znodes` and `left` are ACLs of topics, groups or others, as they were and became."""
        return any(path.startswith("/kafka-acl") for path in self._paths)

    @property
    def _paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path for path, _ in (*self.znodes, *self.left)))

    def typed_undo_command(self, *options: str) -> list[str]:
        """The words of `undo_command` with these options; no name that begins with `-` is taken for one."""
        match self.undo_command:
            case ("group", "rename" | "unfreeze", *names) | ("topic", "delete", *names) if any(
                name.startswith("-") for name in names
            ):
                return [*self.undo_command[:2], *options, "--", *names]
            case ("acl", "zookeeper", "apply", group, *rights) if group.startswith("-"):
                return ["acl", "zookeeper", "apply", *rights, *options, "--", group]
        return [*self.undo_command, *options]

    @property
    def summary(self) -> str:
        """The effect of the undo, or the reason why there is none, in a few words."""
        if self.no_undo is not None:
            return self.no_undo
        if self.undo_command:
            return shlex.join(["zkgroup", *self.typed_undo_command()])
        if self.user is not None:
            return f"credentials of {self.user}"
        if self.is_of_acls:
            return f"ACLs in {named(self._paths, 2)}"
        count, what = (len(self.znodes), "znode") if self.group is None else (len(self.offsets), "offset")
        text = counted(count, what)
        if self.group is not None:
            return f"{text} of {self.group}"
        return f"{text} from {self.znodes[0][0]}" if self.znodes else text

    def encode(self) -> bytes:
        """The record as the JSON of its file."""
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
            **({} if self.user is None else {"user": self.user}),
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
                user=fields.get("user"),
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


class UndoFolder:
    """The folder with one file for each change."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, undo_id: str) -> Path:
        """Returns where the record of this id is."""
        return self.path / f"{undo_id}.json"

    def new_id(self, wall_ms: int) -> str:
        """An id that no record here has, which sorts by time: `20260131-120000-1a2b`."""
        second = f"{datetime.fromtimestamp(wall_ms / 1000, UTC):%Y%m%d-%H%M%S}"
        while self.file(undo_id := f"{second}-{secrets.token_hex(2)}").exists():
            pass  # a change of many groups saves hundreds in a second
        return undo_id

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
