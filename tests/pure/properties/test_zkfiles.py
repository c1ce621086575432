"""Random logs and snapshots are read back unchanged; random bytes cause typed errors only.

`ZKGROUP_FILES=100000` reads this many random files instead of the few of a usual run.
"""

from __future__ import annotations

import gzip
import os
import random
import struct
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worlds import zkfiles_writer as writer
from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles.logs import LogReader, inspect_log, splits_of
from zkgroup.zkfiles.records import (
    AclEntry,
    Operation,
    StoredStat,
    StoredZnode,
    Transaction,
    TransactionType,
    TreeDigest,
)
from zkgroup.zkfiles.snapshots import SnapshotEnd, inspect_snapshot, likely_end, open_snapshot

FILES: Final = int(os.environ.get("ZKGROUP_FILES", "1500"))
"""Random files of each kind."""
BOUND_BYTES: Final = 8 << 20
"""What reading a small file may take, whatever it says."""

T = TransactionType
ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
paths = st.lists(texts.filter(lambda text: text != "" and "/" not in text), max_size=3).map(
    lambda parts: "/" + "/".join(parts)
)
datas = st.none() | st.binary(max_size=60) | st.binary(max_size=4).map(lambda piece: piece * 100_000)
acls = (
    st.none()
    | st.just(writer.OPEN_ACL)
    | st.lists(st.builds(AclEntry, ints, texts, texts), max_size=3).map(tuple)
)
digests = st.none() | st.builds(TreeDigest, st.just(2), st.integers(0, 2**64 - 1))


def _one(kinds: list[int], **fields: st.SearchStrategy[object]) -> st.SearchStrategy[Operation]:
    chosen: dict[str, st.SearchStrategy[object]] = {"type": st.sampled_from(kinds), **fields}
    return st.fixed_dictionaries(chosen).map(lambda each: Operation(**each))  # type: ignore[arg-type]


operations = st.one_of(
    _one(
        [T.CREATE, T.CREATE2],
        path=paths,
        data=datas,
        acl=acls,
        is_ephemeral=st.booleans(),
        parent_cversion=ints,
    ),
    _one([T.CREATE_CONTAINER], path=paths, data=datas, acl=acls, parent_cversion=ints),
    _one([T.CREATE_TTL], path=paths, data=datas, acl=acls, parent_cversion=ints, ttl_ms=longs),
    _one([T.DELETE, T.DELETE_CONTAINER], path=paths),
    _one([T.SET_DATA, T.RECONFIG], path=paths, data=datas, version=ints),
    _one([T.SET_ACL], path=paths, acl=acls, version=ints),
    _one([T.CHECK], path=paths, version=ints),
    _one([T.ERROR], error=ints),
)
old_creates = _one([T.CREATE], path=paths, data=datas, acl=acls, is_ephemeral=st.booleans())
heads = {"session": longs, "cxid": ints, "time_ms": longs, "zxid": st.just(0)}


def _record(**fields: st.SearchStrategy[object]) -> st.SearchStrategy[Transaction]:
    chosen: dict[str, st.SearchStrategy[object]] = {**fields, **heads}
    return st.fixed_dictionaries(chosen).map(lambda each: Transaction(**each))  # type: ignore[arg-type]


singles = st.builds(
    lambda operation, digest, **head: Transaction(
        type=operation.type, operations=(operation,), digest=digest, **head
    ),
    operations,
    digests,
    **heads,
)
transactions = st.one_of(
    singles,
    _record(
        type=st.just(T.MULTI),
        operations=st.lists(operations | old_creates, max_size=4).map(tuple),
        digest=digests,
    ),
    _record(type=st.just(T.CREATE_SESSION), timeout_ms=ints, digest=digests),
    _record(
        type=st.just(T.CLOSE_SESSION),
        closed_paths=st.none() | st.lists(paths, max_size=4).map(tuple),
        digest=digests,
    ),
    st.builds(
        lambda old, **head: Transaction(type=T.CREATE, operations=(old,), **head), old_creates, **heads
    ),
)
logs = st.lists(transactions, max_size=12).map(
    lambda found: [each._replace(zxid=zxid) for zxid, each in enumerate(found, 1)]
)
stats = st.builds(StoredStat, longs, longs, longs, longs, ints, ints, ints, longs, longs)
packings = st.sampled_from([bytes, gzip.compress, writer.snappy_stream])


@given(logs, st.integers(0, 300_000), packings, st.integers(1, 5))
def test_a_log_comes_back(
    written: list[Transaction], padding: int, pack: Callable[[bytes], bytes], every: int
) -> None:
    """Read in one pass, and in parts by its splits."""
    with _file("log.1", pack(writer.log(written, padding))) as path:
        found = list(LogReader(path))
        assert [each._replace(offset=0) for each in found] == written
        splits = splits_of(path, every)
        parts = [
            each for split in splits for each in LogReader(path, from_offset=split[0], to_offset=split[1])
        ]
        assert parts == found
        health = inspect_log(path)
        assert (health.is_healthy, health.is_exact, health.records) == (True, True, len(written))


@given(
    st.lists(
        st.builds(StoredZnode, paths, datas, st.just(None), stats),
        max_size=8,
        unique_by=lambda znode: znode.path,
    ),
    st.dictionaries(longs, ints, max_size=5),
    st.dictionaries(st.integers(0, 2**63 - 1), acls.filter(lambda acl: acl is not None), max_size=4),
    st.none() | st.tuples(longs, digests.filter(lambda digest: digest is not None)),
    st.none() | longs,
    packings,
    st.randoms(use_true_random=False),
)
def test_a_snapshot_comes_back(
    znodes: list[StoredZnode],
    sessions: dict[int, int],
    table: dict[int, tuple[AclEntry, ...]],
    digest: tuple[int, TreeDigest] | None,
    last_zxid: int | None,
    pack: Callable[[bytes], bytes],
    chosen: random.Random,
) -> None:
    """With any sessions, ACLs and sections, in any compression."""
    by_path = {each.path: chosen.choice([-1, *table]) for each in znodes}
    known = {-1: writer.OPEN_ACL, **table}
    written = [each._replace(acl=known[by_path[each.path]]) for each in znodes]
    raw = writer.snapshot(
        written, sessions=sessions, acls=table, acl_ids=by_path, digest=digest, last_zxid=last_zxid
    )
    with _file("snapshot.1", pack(raw)) as path:
        reader = open_snapshot(path)
        assert list(reader.znodes()) == written
        assert (reader.sessions, reader.acls) == (sessions, known)
        assert reader.end == SnapshotEnd(*(digest or (None, None)), last_zxid)
        likely = reader.end._replace(digest=None) if pack is bytes else None
        assert likely_end(path) == likely
        assert inspect_snapshot(path).is_healthy


@given(logs.filter(bool), st.data())
def test_a_log_that_was_tampered_with_gives_nothing_that_was_not_in_it(
    written: list[Transaction], data: st.DataObject
) -> None:
    """With bytes changed, cut or added anywhere behind the header, the records read are a part, in order."""
    raw = bytearray(writer.log(written, padding=100))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(len(writer.LOG_HEADER), len(raw)))
        raw[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    with _file("log.1", bytes(raw)) as path:
        found = [each._replace(offset=0) for each in LogReader(path, resync=True)]
        remaining = iter(written)
        assert all(each in remaining for each in found)
        before = []
        try:
            before.extend(each._replace(offset=0) for each in LogReader(path))
        except DamagedFileError as error:
            assert len(writer.LOG_HEADER) <= error.offset <= len(raw)  # noqa: PT017 - or there is none
        assert before == written[: len(before)]


def _file(name: str, raw: bytes) -> _Written:
    return _Written(name, raw)


class _Written:
    """A file in a folder of its own, which is deleted at the end of the block."""

    def __init__(self, name: str, raw: bytes) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name) / name
        self._path.write_bytes(raw)

    def __enter__(self) -> Path:
        return self._path

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


def _mutated(chosen: random.Random, raw: bytes) -> bytes:
    """The bytes of a file that a person or a disk has damaged."""
    damaged = bytearray(raw)
    for _ in range(chosen.randrange(1, 6)):
        at = chosen.randrange(len(damaged) + 1)
        match chosen.randrange(6):
            case 0:
                damaged[at : at + 1] = chosen.randbytes(1)
            case 1:
                number = chosen.choice([0, -1, 1, 2**31 - 1, -(2**31), 64 << 20, len(raw), 255])
                damaged[at : at + 4] = struct.pack(">i", number)
            case 2:
                del damaged[at : at + chosen.randrange(1, 40)]
            case 3:
                damaged[at:at] = chosen.randbytes(chosen.randrange(1, 40))
            case 4:
                damaged[at:] = b""
            case _:
                other = chosen.randrange(len(damaged) + 1)
                damaged[at:at] = damaged[other : other + chosen.randrange(1, 200)]
    return bytes(damaged)


def _random_files(seed: int, samples: list[bytes]) -> Iterator[bytes]:
    chosen = random.Random(seed)
    for _ in range(FILES):
        sample = chosen.choice(samples)
        front = sample[: chosen.choice([0, 4, 16, 16, 24])]
        kind = chosen.randrange(8)
        if kind == 0:
            raw = front + chosen.randbytes(chosen.randrange(400))
        elif kind == 1:
            raw = front + struct.pack(">qi", chosen.getrandbits(32), chosen.getrandbits(26)) + bytes(200)
        else:
            raw = sample if kind == 2 else _mutated(chosen, sample)
        match chosen.randrange(8):
            case 0:
                raw = gzip.compress(raw, 1)
            case 1:
                raw = _mutated(chosen, gzip.compress(raw, 1))
            case 2:
                raw = writer.snappy_stream(raw, 64)
            case 3:
                raw = _mutated(chosen, writer.snappy_stream(raw, 64))
        yield raw


def _samples(kind: str) -> list[bytes]:
    creates = [
        Transaction(
            *(zxid, 1, 1, 1, T.CREATE),
            (Operation(T.CREATE, f"/a{zxid}", b"x" * zxid, writer.OPEN_ACL, parent_cversion=1),),
            digest=TreeDigest(2, zxid),
        )
        for zxid in range(1, 6)
    ]
    multi = Transaction(6, 1, 1, 1, T.MULTI, tuple(each.operations[0] for each in creates))
    closing = Transaction(7, 1, 1, 1, T.CLOSE_SESSION, closed_paths=("/a", "/b"))
    znodes = [
        StoredZnode(path, path.encode(), None, StoredStat(1, 1, 1, 1, 0, 0, 0, 0, 1))
        for path in ("/", "/a", "/b")
    ]
    table = {1: writer.OPEN_ACL}
    return {
        "log": [
            writer.log(creates),
            writer.log([*creates[:2], multi, closing], 60),
            writer.log([closing, multi], 900),
        ],
        "snapshot": [
            writer.snapshot(znodes, sessions={1: 1}, acls=table, acl_ids={"/a": 1}),
            writer.snapshot(znodes, digest=(1, TreeDigest(2, 1)), last_zxid=2),
            writer.snapshot(znodes, digest=(1, TreeDigest(1, 1))),
        ],
    }[kind]


@pytest.mark.timeout(60 + FILES // 10)
@pytest.mark.parametrize("kind", ["log", "snapshot"])
def test_random_files_give_typed_errors_in_bounded_memory(kind: str, tmp_path: Path) -> None:
    """No other error, no crash and no hang; data that no checksum covers is not trusted."""
    path = tmp_path / f"{kind}.1"
    outcomes = {"whole": 0, "damaged": 0, "foreign": 0}
    read: Callable[[Path], Iterator[object]] = (
        LogReader if kind == "log" else lambda file: open_snapshot(file).znodes()
    )
    inspect = inspect_log if kind == "log" else inspect_snapshot
    for number, raw in enumerate(_random_files(7, _samples(kind))):
        path.write_bytes(raw)
        is_measured = number % 10 == 0
        if is_measured:
            tracemalloc.start()
        try:
            for _ in read(path):
                pass
            outcome = "whole"
        except DamagedFileError:
            outcome = "damaged"
        except NotZooKeeperFileError:
            outcome = "foreign"
        outcomes[outcome] += 1
        likely_end(path)
        health = inspect(path)
        assert health.is_healthy == (outcome == "whole"), raw.hex()
        if is_measured:
            assert tracemalloc.get_traced_memory()[1] < BOUND_BYTES, raw.hex()
            tracemalloc.stop()
    assert all(count > FILES // 200 for count in outcomes.values()), outcomes
