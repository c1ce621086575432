"""Big transaction logs and snapshots as servers of 3.9 leave them, written straight into files.

    python -m tests.programs.benchmarks.zookeeper_files log FILE RECORDS         single operations
    python -m tests.programs.benchmarks.zookeeper_files multis FILE OPERATIONS   commits of 200 partitions
    python -m tests.programs.benchmarks.zookeeper_files snapshot FILE ZNODES

A log of single operations is 72 % offset writes; the rest are owners that come and go, states of partitions,
refused requests and, one record in a hundred, a multi of ten. The digests in it are random numbers: no reader
that is measured here replays. Equal arguments give equal bytes.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from struct import Struct, pack
from zlib import adler32

FIRST_ZXID = 0x100000001
FIRST_MS = 1_700_000_000_000
PREALLOCATED = 64 * 1024 * 1024
_HEAD = Struct(">qiqqi").pack
_FRAME = Struct(">qi").pack
_INT = Struct(">i").pack
_DIGEST = Struct(">iQ").pack
_OPEN_ACL = _INT(1) + _INT(31) + _INT(5) + b"world" + _INT(6) + b"anyone"
_STAT = Struct(">qqqqqiiiqq").pack
_CREATE, _DELETE, _SET, _MULTI, _ERROR, _CREATE_SESSION = 1, 2, 5, 14, -1, -10
_GROUPS, _TOPICS, _PARTITIONS, _SESSIONS = 40, 25, 16, 200


def _buffer(value: bytes) -> bytes:
    return _INT(len(value)) + value


class _Operations:
    """The operations that a cluster and its groups write."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._offset = 0

    def place(self) -> tuple[str, str, str]:
        pick = self._random.randrange
        return f"group-{pick(_GROUPS)}", f"topic-{pick(_TOPICS)}", str(pick(_PARTITIONS))

    def offset(self) -> tuple[int, bytes]:
        group, topic, partition = self.place()
        self._offset += self._random.randrange(100)
        path = f"/consumers/{group}/offsets/{topic}/{partition}".encode()
        return _SET, _buffer(path) + _buffer(b"%d" % self._offset) + _INT(self._offset & 0xFFFF)

    def owner(self) -> tuple[int, bytes]:
        group, topic, partition = self.place()
        path = f"/consumers/{group}/owners/{topic}/{partition}".encode()
        if self._random.random() < 0.5:
            return _DELETE, _buffer(path)
        owner = f"{group}_host-{partition}-1700000000000-0a1b2c3d-0".encode()
        return _CREATE, _buffer(path) + _buffer(owner) + _OPEN_ACL + b"\1" + _INT(self._offset & 0xFFFF)

    def state(self) -> tuple[int, bytes]:
        _, topic, partition = self.place()
        path = f"/brokers/topics/{topic}/partitions/{partition}/state".encode()
        state = b'{"controller_epoch":7,"leader":%d,"version":1,"leader_epoch":%d,"isr":[1,2,3]}' % (
            self._random.randrange(1, 4),
            self._offset & 0xFF,
        )
        return _SET, _buffer(path) + _buffer(state) + _INT(self._offset & 0xFFFF)

    def single(self) -> tuple[int, bytes]:
        chance = self._random.random()
        if chance < 0.72:
            return self.offset()
        if chance < 0.86:
            return self.owner()
        if chance < 0.97:
            return self.state()
        if chance < 0.98:
            return _ERROR, _INT(-101)
        if chance < 0.99:
            return _CREATE_SESSION, _INT(6000)
        return self.multi(10)

    def multi(self, count: int) -> tuple[int, bytes]:
        parts = [self.offset() for _ in range(count)]
        return _MULTI, _INT(count) + b"".join(_INT(kind) + _buffer(body) for kind, body in parts)

    def entry(self, zxid: int, kind: int, body: bytes) -> bytes:
        session = 0x1000_0001_0000_0000 + self._random.randrange(_SESSIONS)
        head = _HEAD(session, zxid & 0x7FFFFFFF, zxid, FIRST_MS + (zxid - FIRST_ZXID) // 3, kind)
        digest = b"" if kind == _ERROR else _DIGEST(2, self._random.getrandbits(64))
        return head + body + digest


def write_log(
    path: Path, records: int, *, multi_of: int = 0, seed: int = 1, first_zxid: int = FIRST_ZXID
) -> Path:
    """Writes a log of this many records; with `multi_of`, each is a multi of this many operations."""
    operations = _Operations(seed)
    with path.open("wb") as file:
        file.write(b"ZKLG" + pack(">iq", 2, 0))
        for zxid in range(first_zxid, first_zxid + records):
            kind, body = operations.multi(multi_of) if multi_of else operations.single()
            entry = operations.entry(zxid, kind, body)
            file.write(_FRAME(adler32(entry), len(entry)) + entry + b"B")
        file.truncate(-(-file.tell() // PREALLOCATED) * PREALLOCATED)
    return path


def _znodes(count: int) -> Iterator[tuple[str, bytes]]:
    """A tree of groups with owners and offsets, parents first."""
    groups = itertools.chain.from_iterable(_group(number) for number in itertools.count())
    return itertools.islice(itertools.chain([("", b""), ("/consumers", b"")], groups), count)


def _group(number: int) -> Iterator[tuple[str, bytes]]:
    group = f"/consumers/group-{number}"
    yield group, b""
    for kind in ("owners", "offsets"):
        yield f"{group}/{kind}", b""
        for topic in range(_TOPICS):
            yield f"{group}/{kind}/topic-{topic}", b""
            for partition in range(_PARTITIONS):
                data = (
                    f"group-{number}_host-{partition}-0" if kind == "owners" else str(partition * 1_000_003)
                )
                yield f"{group}/{kind}/topic-{topic}/{partition}", data.encode()


def write_snapshot(path: Path, znodes: int, *, end_zxid: int | None = None) -> Path:
    """Writes a sealed snapshot of this many znodes; by default each was created by its own transaction."""
    end_zxid = FIRST_ZXID + znodes if end_zxid is None else end_zxid
    with path.open("wb") as file:
        total = 1

        def write(raw: bytes) -> None:
            nonlocal total
            total = adler32(raw, total)
            file.write(raw)

        def seal() -> None:
            write(pack(">q", total) + _INT(1) + b"/")

        write(b"ZKSN" + pack(">iq", 2, -1) + _INT(0) + _INT(0))
        for number, (name, data) in enumerate(_znodes(znodes), FIRST_ZXID):
            zxid = min(number, end_zxid)
            stat = _STAT(-1, zxid, zxid, FIRST_MS, FIRST_MS + number % 1000, number % 7, 0, 0, 0, zxid)
            write(_buffer(name.encode()) + _buffer(data) + stat)
        write(_INT(1) + b"/")
        seal()
        write(pack(">qiQ", end_zxid, 2, 0))
        seal()
        write(pack(">q", end_zxid))
        seal()
    return path


if __name__ == "__main__":
    what, name, size = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    if what == "snapshot":
        write_snapshot(name, size)
    else:
        write_log(name, size // 200 if what == "multis" else size, multi_of=200 if what == "multis" else 0)
