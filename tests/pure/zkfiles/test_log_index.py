"""A log read in parts is the log; an index holds for the file it was made of, and grows with it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.worlds import zkfiles_writer as writer
from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles.log_index import Hop, has_hop, index_log
from zkgroup.zkfiles.logs import LogReader
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
    index = index_log(log, every=every)
    assert (index.records, index.last_zxid) == (150, 300)
    assert index.hops == tuple(Hop(each.zxid, each.offset) for each in whole[::every])
    parts = [
        list(LogReader(log, from_offset=split.from_offset, to_offset=split.to_offset))
        for split in index.splits()
    ]
    assert [each for part in parts for each in part] == whole
    assert (index.splits()[0].from_offset, index.splits()[-1].to_offset) == (16, index.end_offset)
    assert [len(part) for part in parts][:-1] == [every] * (len(parts) - 1)
    assert has_hop(log, index.hops[-1])


@pytest.mark.parametrize("to_zxid", [None, 1, 2, 16, 17, 250, 400])
def test_a_range_is_in_few_parts(to_zxid: int | None, log: Path) -> None:
    """All of it, and no more than the rest of two parts beside it."""
    index = index_log(log, every=EVERY)
    whole = [each.zxid for each in LogReader(log)]
    for from_zxid in (0, 1, 2, 3, 14, 15, 16, 17, 299, 300, 301):
        wanted = [zxid for zxid in whole if from_zxid <= zxid <= (to_zxid or 1000)]
        read = [
            each.zxid
            for split in index.splits(from_zxid, to_zxid)
            for each in LogReader(log, from_offset=split[0], to_offset=split[1])
        ]
        assert [zxid for zxid in read if from_zxid <= zxid <= (to_zxid or 1000)] == wanted, from_zxid
        assert len(read) <= len(wanted) + 2 * EVERY, from_zxid


def test_an_index_is_carried_on(tmp_path: Path) -> None:
    """Of a log that grew; only what is new is read, and nothing of it changes where nothing is."""
    path = writer.write_log(tmp_path, transactions(60), padding=5000)
    known = index_log(path, every=EVERY)
    assert index_log(path, every=EVERY, known=known) == known
    for count in (61, 62, 149, 150):
        path.write_bytes(writer.log(transactions(count)))
        assert has_hop(path, known.hops[-1])
        known = index_log(path, every=EVERY, known=known)
        assert known == index_log(path, every=EVERY)
    path.write_bytes(b"x" * 16 + path.read_bytes()[16:])
    with pytest.raises(NotZooKeeperFileError):
        has_hop(path, known.hops[-1])


def test_a_record_that_is_being_written_is_not_in_it(tmp_path: Path) -> None:
    """It is in the next one, once it is whole."""
    path = writer.write_log(tmp_path, transactions(10))
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    index = index_log(path, every=1)
    assert (index.records, index.last_zxid) == (9, 18)
    path.write_bytes(whole)
    assert index_log(path, every=1, known=index).last_zxid == 20


def test_an_index_of_another_file_is_known(tmp_path: Path, log: Path) -> None:
    """One that was cut back, one that was written anew."""
    index = index_log(log, every=EVERY)
    log.write_bytes(writer.log(transactions(20)))
    assert not has_hop(log, index.hops[-1])
    others = [each._replace(zxid=each.zxid + 1) for each in transactions(150)]
    log.write_bytes(writer.log(others))
    assert not has_hop(log, index.hops[-1])
    log.write_bytes(writer.log([each._replace(cxid=9) for each in transactions(250)[100:]]))
    assert not has_hop(log, index.hops[-1])


def test_an_empty_log(tmp_path: Path) -> None:
    """It has no hop and no part, and can be carried on when records come."""
    path = tmp_path / "log.1"
    for raw in (b"", writer.log([], padding=100)):
        path.write_bytes(raw)
        index = index_log(path)
        assert (index.records, index.hops, index.splits()) == (0, (), ())
        path.write_bytes(writer.log(transactions(3)))
        assert index_log(path, known=index) == index_log(path)


def test_a_damaged_log_is_not_indexed(log: Path) -> None:
    """Parts of it would hide where the damage is."""
    raw = bytearray(log.read_bytes())
    raw[2000] ^= 1
    log.write_bytes(raw)
    with pytest.raises(DamagedFileError):
        index_log(log)
