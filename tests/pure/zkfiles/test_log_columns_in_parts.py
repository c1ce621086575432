"""Parts of a log as columns: rows and columns that are chosen, batches, splits, and what damage leaves."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.programs.benchmarks.zookeeper_files import write_log
from tests.worlds import zkfiles_writer as writer
from tests.worlds.zkfiles_tables import Row, everything, log_rows, outcome, rows_of, values_of
from zkgroup.errors import DamagedFileError
from zkgroup.zkfiles.columns import log_columns
from zkgroup.zkfiles.logs import LogReader, splits_of

pytestmark = pytest.mark.usefixtures("way")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return writer.write_log(tmp_path, everything(), padding=5000)


@pytest.fixture
def rows(log: Path) -> list[Row]:
    return list(log_rows(LogReader(log), log))


@pytest.mark.parametrize(("first", "last"), [(0, 3), (30, 31), (90, 400), (500, 600)])
def test_zxids_are_chosen_and_both_ends_included(first: int, last: int, log: Path, rows: list[Row]) -> None:
    """At the ends, in the middle, and where nothing is."""
    low, high = (7 << 32) + first, (7 << 32) + last
    found = rows_of(log_columns(log, from_zxid=low, to_zxid=high))
    assert found == [row for row in rows if low <= row["zxid"] <= high]


def test_reading_ends_at_the_first_transaction_behind(log: Path) -> None:
    """So damage further back is not met."""
    raw = bytearray(log.read_bytes())
    raw[raw.rindex(b"/a") + 1] ^= 1
    log.write_bytes(raw)
    wanted = (7 << 32) + 5
    assert {row["zxid"] for row in rows_of(log_columns(log, to_zxid=wanted))} == set(
        range(wanted - 4, wanted + 1)
    )
    with pytest.raises(DamagedFileError):
        rows_of(log_columns(log))


@pytest.mark.parametrize("prefix", ["", "/", "/a/b", "/a/b7", "/zookeeper/", "/nothing"])
def test_a_prefix_of_the_path(prefix: str, log: Path, rows: list[Row]) -> None:
    """As text; what has no path is left out, even by a prefix that everything has."""
    found = rows_of(log_columns(log, path_prefix=prefix))
    assert found == [row for row in rows if row["path"] is not None and row["path"].startswith(prefix)]


def test_columns_are_chosen_by_name_and_in_that_order(log: Path, rows: list[Row]) -> None:
    """A name that is told twice counts once, one that there is not is an error."""
    names = ("op", "zxid", "parent", "op")
    (batch,) = log_columns(log, columns=names)
    assert tuple(batch.arrays) == ("op", "zxid", "parent")
    assert rows_of([batch]) == [{name: row[name] for name in names} for row in rows]
    with pytest.raises(ValueError, match="no column depth: there are zxid, epoch"):
        log_columns(log, columns=["zxid", "depth"])


@pytest.mark.parametrize("most", [1, 7, 100])
def test_batches_end_with_the_transaction_that_reaches_the_bound(
    most: int, log: Path, rows: list[Row]
) -> None:
    """No transaction is in two batches, and none is much smaller than it may be."""
    batches = list(log_columns(log, rows_per_batch=most))
    assert rows_of(batches) == rows
    for batch, following in itertools.pairwise(batches):
        last = list(values_of(batch, "offset")).count(values_of(batch, "offset")[-1])
        assert batch.rows - last < most
        assert batch.rows >= most - 2
        assert values_of(batch, "offset")[-1] < values_of(following, "offset")[0]


def test_splits_make_the_whole(log: Path, rows: list[Row]) -> None:
    """Each record is in one part, in order."""
    splits = splits_of(log, 13)
    assert len(splits) > 5
    parts = [rows_of(log_columns(log, start_offset=split[0], end_offset=split[1])) for split in splits]
    assert list(itertools.chain(*parts)) == rows


@pytest.mark.parametrize("content", [b"", b"ZKLG", writer.LOG_HEADER, writer.LOG_HEADER + bytes(9000)])
def test_a_log_without_records(content: bytes, tmp_path: Path) -> None:
    """Stopped before the header, behind it, or with nothing but what was preallocated."""
    path = tmp_path / "log.1"
    path.write_bytes(content)
    assert list(log_columns(path)) == []


def same_as_plain_values(path: Path, *, resync: bool = False) -> str:
    """Compares rows and error with those of `LogReader`; the error."""
    transactions, error = outcome(lambda: LogReader(path, resync=resync))
    batches, found = outcome(lambda: log_columns(path, resync=resync))
    assert rows_of(batches) == list(log_rows(transactions, path))
    assert found == error
    return error


@pytest.mark.parametrize("resync", [False, True])
def test_a_flipped_bit_in_a_record(log: Path, *, resync: bool) -> None:
    """What is told, and the rows before and, on demand, behind are those of the plain reader."""
    offsets = [each.offset for each in LogReader(log)]
    start, end = offsets[74], offsets[75]
    raw = log.read_bytes()
    errors = 0
    places = range(start, end, 3)
    for place in places:
        log.write_bytes(raw[:place] + bytes([raw[place] ^ 0x40]) + raw[place + 1 :])
        errors += bool(same_as_plain_values(log, resync=resync))
    assert errors == (0 if resync else len(places))


def test_a_record_that_no_server_writes(tmp_path: Path) -> None:
    """Its checksum holds, and it is still damage; behind it reading goes on when that is asked for."""
    transactions = everything()
    entry = writer.entry(transactions[0])[:-20]
    raw = writer.log(transactions[:90]) + writer.record(entry) + writer.log(transactions[90:])[16:]
    path = tmp_path / "log.1"
    path.write_bytes(raw)
    assert "expected" in same_as_plain_values(path)
    assert same_as_plain_values(path, resync=True) == ""


def test_a_log_of_large_multis(tmp_path: Path) -> None:
    """Multis of 2,001 operations: more than a batch is meant to have."""
    path = write_log(tmp_path / "log.100000001", 12, multi_of=2001)
    batches = list(log_columns(path, rows_per_batch=3000))
    assert {batch.rows for batch in batches} == {4002}
    assert rows_of(batches) == list(log_rows(LogReader(path), path))
