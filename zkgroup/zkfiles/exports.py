"""Trees in zkgroup's own format, which no release of ZooKeeper changes: `docs/reference/file-formats.md`.

A gzip file of JSON lines: a header, one znode a line with parents before children, and a last line with
their number and a checksum, without which the file is not whole.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
import tempfile
import zlib
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from io import FileIO
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from zkgroup.errors import ConfigError, DamagedFileError, NotZooKeeperFileError, RefusedError
from zkgroup.model.requests import STAT_NAMES, ZnodeStat
from zkgroup.zkfiles.files import open_regular
from zkgroup.zkfiles.logs import FileHealth
from zkgroup.zkfiles.records import Acl, AclEntry, StoredStat, StoredZnode

LINE_LIMIT: Final = 128 << 20
"""The most bytes of a line that zkgroup wrote: a znode has at most a few MB."""
EXPORT: Final = "export"
SCHEMA: Final = "zkgroup.tree/1"

_BEGINNING: Final = re.compile(rb'\{\s*"schema"\s*:\s*"zkgroup\.tree/')
_SNIFFED: Final = 64
_LEVEL: Final = 6
_STAT: Final = itemgetter(*STAT_NAMES)
_PROGRESS_EVERY: Final = 5000

Progress = Callable[[int], None]
"""A function that gets the number of znodes that are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportHeader:
    """The origin of an export, and the zxids between which it was read."""

    time_ms: int | None
    """The time of the walk or of the last transaction, since 1970; None where files do not have it."""
    source: str
    """The servers or the folders, for people to read."""
    chroot: str = ""
    """The path above all paths; empty for the whole tree."""
    zxid_before: int
    """The zxid at which everything outside `changed` was so."""
    zxid_after: int
    """The zxid that nothing in it is newer than."""
    changed: tuple[str, ...] = ()
    """The paths created, changed or deleted between the two: they are of some moment between them, or gone.
    A child that came and went before it was read is not among them, but its parent is."""
    unreadable: tuple[str, ...] = ()
    """The paths left out with everything below them, as their ACL did not allow reading."""
    detail: str = ""
    """The reason why a tree from files is not proved; empty where it is."""

    @property
    def is_exact(self) -> bool:
        """True if it is the whole tree of `zxid_before`."""
        return not self.changed and not self.unreadable and not self.detail


class ExportedZnode(NamedTuple):
    """One znode as a client sees it."""

    path: str
    data: bytes | None
    acl: Acl | None
    """The ACL; None where it is not known."""
    stat: ZnodeStat

    def stored(self) -> StoredZnode:
        """The znode as in a snapshot; clients see a `cversion` that counts deletes, too, not only creates."""
        shown = self.stat
        creates = (shown.cversion + shown.children_count) // 2
        stat = StoredStat(*shown[:5], creates, shown.aversion, shown.ephemeral_owner, shown.pzxid)
        return StoredZnode(self.path, self.data, self.acl, stat)


def exported(znode: StoredZnode, children: int) -> ExportedZnode:
    """The exported znode of one in a snapshot; `children` is the number of its children."""
    path, data, acl, stat = znode
    return ExportedZnode(path, data, acl, stat.shown(children, len(data or b"")))


class ExportSize(NamedTuple):
    """The size of an export."""

    znodes: int
    bytes: int


def write_export(
    path: Path,
    header: ExportHeader,
    znodes: Iterable[ExportedZnode],
    *,
    overwrite: bool = False,
    progress: Progress = lambda count: None,
) -> ExportSize:
    """Writes the file whole or not at all; parents must come before their children.

    It gets its name once every byte has reached the disk; a failure or an interruption leaves nothing.
    Raises RefusedError where the file exists already, ConfigError where it cannot be written.
    """
    if path.exists() and not overwrite:
        raise RefusedError(f"{path}: there is such a file already; name another one, or give --overwrite")
    name = None
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        with os.fdopen(descriptor, "wb") as file:
            count = _write(file, header, znodes, progress)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        Path(name).replace(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        if name is not None:
            with suppress(FileNotFoundError):
                os.unlink(name)  # noqa: PTH108 - also after an interruption
    return ExportSize(count, size)


def _write(file: IO[bytes], header: ExportHeader, znodes: Iterable[ExportedZnode], progress: Progress) -> int:
    digest, count = hashlib.sha256(), 0
    with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=_LEVEL, mtime=0) as packed:

        def write(fields: Mapping[str, Any]) -> None:
            line = json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"
            digest.update(line)
            packed.write(line)

        write({"schema": SCHEMA, **asdict(header)})
        for count, znode in enumerate(znodes, 1):
            data = None if znode.data is None else base64.b64encode(znode.data).decode("ascii")
            stat = dict(zip(STAT_NAMES, znode.stat, strict=True))
            write({"path": znode.path, "data_base64": data, "acl": znode.acl, "stat": stat})
            if count % _PROGRESS_EVERY == 0:
                progress(count)
        write({"znodes": count, "sha256": digest.hexdigest()})
    return count


class ExportReader:
    """One export; each iteration reads the file, and only the header is kept.

    Raises NotZooKeeperFileError where the file is no export or may not be read, DamagedFileError where its
    header is broken.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _opened(path) as packed:
            self.header = _header(path, _line(path, packed, 0))

    def exported(self) -> Iterator[ExportedZnode]:
        """Yields the znodes as clients see them, in the order of the file.

        Raises DamagedFileError as soon as anything is wrong; a file that ends before its last line, or whose
        checksum is not that of its lines, is noticed only at the end.
        """
        for at, line in self.lines():
            yield znode_of(self.path, at, line)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """The lines of znodes with their offsets. Raises as `exported`, but for what is wrong in a line."""
        path = self.path
        with _opened(path) as packed:
            line = _line(path, packed, 0)
            digest, count, at = hashlib.sha256(line), 0, len(line)
            while True:
                line = _line(path, packed, at)
                if b'"sha256"' in line and "sha256" in (fields := _object_of(path, at, line)):
                    break
                yield at, line
                digest.update(line)
                count, at = count + 1, at + len(line)
            found = {"znodes": count, "sha256": digest.hexdigest()}
            if fields != found:
                raise DamagedFileError(str(path), at, f"what was counted: {found}", str(fields))
            at += len(line)
            if _read(path, packed, at, 1):
                raise DamagedFileError(str(path), at, "the end of the file", "more behind the last line")


@contextmanager
def _opened(path: Path) -> Iterator[gzip.GzipFile]:
    """The unpacked file. Raises NotZooKeeperFileError; a link is not followed."""
    with FileIO(open_regular(path, "a file"), "rb") as file:
        try:
            magic = file.read(2)
            file.seek(0)
        except OSError as error:
            found = error.strerror or str(error)
            raise NotZooKeeperFileError(str(path), "a file to read", found) from error
        if magic != b"\x1f\x8b":
            found = f"one that begins with {magic.hex(' ')}" if magic else "an empty one"
            raise NotZooKeeperFileError(str(path), "a gzip file, as `audit export` writes", found)
        with gzip.GzipFile(fileobj=file, mode="rb") as packed:
            yield packed


def _line(path: Path, packed: gzip.GzipFile, at: int) -> bytes:
    """The next line, which is at an offset. Raises DamagedFileError where there is no whole one."""
    line = _read(path, packed, at, LINE_LIMIT)
    if not line.endswith(b"\n"):
        found = f"{len(line)} bytes without an end" if line else "the end of the file: half-written"
        raise DamagedFileError(str(path), at, "a line", found)
    return line


def _read(path: Path, packed: gzip.GzipFile, at: int, limit: int) -> bytes:
    try:
        return packed.readline(limit)
    except (EOFError, OSError, zlib.error) as error:
        raise DamagedFileError(str(path), at, "whole gzip data", str(error)) from error


def begins_as_export(path: Path) -> bool:
    """Returns whether a file begins like an export.

    Raises NotZooKeeperFileError for a file that is not packed, DamagedFileError for damage.
    """
    with _opened(path) as packed:
        return _BEGINNING.match(_read(path, packed, 0, _SNIFFED)) is not None


def inspect_export(path: Path) -> FileHealth:
    """The health of an export. Raises NotZooKeeperFileError where it is none, or may not be read."""
    header, records, notes = None, 0, []
    try:
        reader = ExportReader(path)
        header = reader.header
        for _ in reader.exported():
            records += 1
    except DamagedFileError as damage:
        notes.append(f"byte {damage.offset}: expected {damage.expected}, found {damage.found}")
    is_healthy = not notes
    if header is not None:
        changed, unreadable = len(header.changed), len(header.unreadable)
        notes += [f"{changed} paths changed while it was read, up to {header.zxid_after:#x}"] * bool(changed)
        notes += [f"{unreadable} paths could not be read"] * bool(unreadable)
        notes += [header.detail] * bool(header.detail)
    return FileHealth(
        path=path,
        kind=EXPORT,
        first_zxid=None if header is None else header.zxid_before,
        last_zxid=None if header is None else header.zxid_after,
        records=records,
        is_healthy=is_healthy,
        good_until_zxid=header.zxid_before if header and is_healthy else None,
        is_exact=is_healthy and header is not None and header.is_exact,
        detail="; ".join(notes),
    )


def _object_of(path: Path, start: int, line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(str(path), start, "a JSON object", str(error)) from error
    if not isinstance(fields, dict):
        raise DamagedFileError(str(path), start, "a JSON object", type(fields).__name__)
    return fields


def _header(path: Path, line: bytes) -> ExportHeader:
    is_one = _BEGINNING.match(line)
    fields = _object_of(path, 0, line) if is_one else {}
    if fields.get("schema") != SCHEMA:
        found = repr(fields["schema"] if is_one else line[:40])
        raise NotZooKeeperFileError(str(path), f"a header with schema {SCHEMA!r}", found)
    try:
        return ExportHeader(
            time_ms=None if fields["time_ms"] is None else _number(fields["time_ms"]),
            source=_text(fields["source"]),
            chroot=_text(fields["chroot"]),
            zxid_before=_number(fields["zxid_before"]),
            zxid_after=_number(fields["zxid_after"]),
            changed=tuple(map(_text, fields["changed"])),
            unreadable=tuple(map(_text, fields["unreadable"])),
            detail=_text(fields["detail"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFileError(str(path), 0, "the keys of a header", f"{error!r}") from error


def znode_of(path: Path, start: int, line: bytes) -> ExportedZnode:
    """The znode of a line at an offset. Raises DamagedFileError."""
    fields = _object_of(path, start, line)
    try:
        data = fields["data_base64"]
        return ExportedZnode(
            _path(fields["path"]),
            None if data is None else a2b_base64(_text(data), strict_mode=True),
            None if fields["acl"] is None else _acl(tuple(map(tuple, fields["acl"]))),
            ZnodeStat(*_numbers(*_STAT(fields["stat"]))),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFileError(str(path), start, "the keys of a znode", f"{error!r}") from error


@lru_cache(maxsize=1 << 10)
def _acl(entries: tuple[tuple[Any, ...], ...]) -> Acl:
    """Results are cached: few ACLs differ. Raises ValueError."""
    return tuple(AclEntry(_number(perms), _text(scheme), _text(id_)) for perms, scheme, id_ in entries)


def _number(value: object) -> int:
    return _numbers(value)[0]


def _numbers(*values: Any) -> Sequence[int]:
    """Numbers of 64 bits. Raises ValueError."""
    are_ints = {*map(type, values)} == {int}  # a bool is none
    if not are_ints or min(values) < -(2**63) or max(values) >= 2**63:
        raise ValueError(f"expected numbers of 64 bits, found {values}")
    return values


def _path(value: object) -> str:
    text = _text(value)
    if not text.startswith("/"):
        raise ValueError(f"expected a path, found {text!r}")
    return text


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a text, found {value!r}")  # noqa: TRY004 - one kind of damage
    return value


_TIME: Final = "%Y%m%dT%H%M%SZ"
_EXPORT_NAME: Final = re.compile(
    r"(?P<half>\.)?export-(?P<zxid>[0-9a-f]{16})-(?P<time>\d{8}T\d{6}Z)\.gz(?(half)\.\w+\.tmp)", re.ASCII
)


class NamedExport(NamedTuple):
    """An export as its name says; ordered by time."""

    time_ms: int
    zxid: int
    name: str
    is_whole: bool
    """False for what a process that was killed has left of one."""


def export_name(zxid: int, time_ms: int | None) -> str:
    """The name of an export of this zxid, of a time since 1970. `time_ms`: None where it is not known."""
    if time_ms is None:
        return f"export-{zxid:016x}.gz"
    return f"export-{zxid:016x}-{datetime.fromtimestamp(time_ms // 1000, UTC):{_TIME}}.gz"


def named_export(name: str) -> NamedExport | None:
    """The export of a name; None for a name that is none of ours, or has no time."""
    found = _EXPORT_NAME.fullmatch(name)
    if found is None:
        return None
    try:
        moment = datetime.strptime(found["time"], _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None
    return NamedExport(int(moment.timestamp()) * 1000, int(found["zxid"], 16), name, not found["half"])


def same_zxid(names: Iterable[str], zxid: int) -> str | None:
    """The name among these of an export of this zxid, the first if there are several."""
    untimed = export_name(zxid, None)

    def has_it(name: str) -> bool:
        found = named_export(name)
        return name == untimed or (found is not None and found.is_whole and found.zxid == zxid)

    return min(filter(has_it, names), default=None)


def outdated(names: Iterable[str], now_ms: int, keep_ms: int) -> list[str]:
    """The names of exports that are older than `keep_ms`, the oldest first; never of the newest one."""
    found = sorted(filter(None, map(named_export, names)))
    newest = max((one for one in found if one.is_whole), default=None)
    return [one.name for one in found if one != newest and one.time_ms < now_ms - keep_ms]


def next_due_ms(begun_ms: int, every_ms: int, now_ms: int) -> int:
    """The first time after `now_ms` that is a multiple of `every_ms` from `begun_ms`; others were missed."""
    return begun_ms + ((now_ms - begun_ms) // every_ms + 1) * every_ms
