"""A log read in parts is the log, and its last record is found from one that was the last."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.worlds import zkfiles_writer as writer
from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles.logs import LogReader, has_hop, last_record, splits_of
from zkgroup.zkfiles.records import Operation, Transaction, TransactionType

EVERY = 7


def transactions(count: int) -> list[Transaction]:
    """Zxids are even, so that there are some between."""
    return [
        Transaction(
            *(2 * number, 1, number, 1000, TransactionType.SET_DATA),
            (Operation(TransactionType.SET_DATA, "/a", bytes(number * 97 % 3000), version=1),),
        )
        for number in range(1, count + 1)
    ]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return writer.write_log(tmp_path, transactions(150), padding=5000)


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("every", [1, EVERY, 149, 150, 4096])
def test_the_parts_are_the_log(every: int, is_packed: bool, log: Path) -> None:
    """In order, none twice, plain and packed, however many records a part has."""
    if is_packed:
        packed = log.with_name(f"{log.name}.gz")
        packed.write_bytes(gzip.compress(log.read_bytes()))
        log = packed
    whole = list(LogReader(log))
    splits = splits_of(log, every)
    parts = [list(LogReader(log, from_offset=split[0], to_offset=split[1])) for split in splits]
    assert [each for part in parts for each in part] == whole
    assert splits[0][0] == 16
    assert [len(part) for part in parts][:-1] == [every] * (len(parts) - 1)
    assert last_record(log) == (whole[-1].zxid, whole[-1].offset)


@pytest.mark.parametrize("to_zxid", [None, 1, 2, 16, 17, 250, 400])
def test_a_range_is_in_few_parts(to_zxid: int | None, log: Path) -> None:
    """All of it, and no more than the rest of two parts beside it."""
    whole = [each.zxid for each in LogReader(log)]
    for from_zxid in (0, 1, 2, 3, 14, 15, 16, 17, 299, 300, 301):
        wanted = [zxid for zxid in whole if from_zxid <= zxid <= (to_zxid or 1000)]
        read = [
            each.zxid
            for split in splits_of(log, EVERY, from_zxid, to_zxid)
            for each in LogReader(log, from_offset=split[0], to_offset=split[1])
        ]
        assert [zxid for zxid in read if from_zxid <= zxid <= (to_zxid or 1000)] == wanted, from_zxid
        assert len(read) <= len(wanted) + 2 * EVERY, from_zxid


def test_the_last_record_is_found_from_the_one_before(tmp_path: Path) -> None:
    """Of a log that grew, also where there was none; what is still being written is none."""
    path = tmp_path / "log.1"
    known = None
    for raw in (b"", writer.log([], padding=100)):
        path.write_bytes(raw)
        assert (last_record(path), splits_of(path, EVERY)) == (None, [])
    for count in (60, 60, 61, 62, 149, 150):
        raw = writer.log(transactions(count))
        path.write_bytes(raw[:-1])
        assert last_record(path, known) == last_record(path)
        path.write_bytes(raw)
        assert known is None or has_hop(path, known)
        known = last_record(path, known)
        assert known is not None
        assert known.zxid == 2 * count
    path.write_bytes(b"x" * 16 + path.read_bytes()[16:])
    with pytest.raises(NotZooKeeperFileError):
        has_hop(path, known)


def test_a_record_of_another_file_is_known(log: Path) -> None:
    """One that was cut back, one that was written anew."""
    hop = last_record(log)
    assert hop is not None
    others = [each._replace(zxid=each.zxid + 1) for each in transactions(150)]
    anew = [each._replace(cxid=9) for each in transactions(250)[100:]]
    for records in (transactions(20), others, anew):
        log.write_bytes(writer.log(records))
        assert not has_hop(log, hop)
        assert last_record(log, hop) == last_record(log)


def test_a_damaged_log_is_not_split(log: Path) -> None:
    """Parts of it would hide where the damage is."""
    raw = bytearray(log.read_bytes())
    raw[2000] ^= 1
    log.write_bytes(raw)
    with pytest.raises(DamagedFileError):
        splits_of(log, EVERY)
