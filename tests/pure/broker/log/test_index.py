"""The indexes of a segment: searches against a plain list, and what is read for one."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkgroup.broker.log.index import BLOCK_ENTRIES, OffsetIndex, TimeIndex
from zkgroup.broker.log.storage import MemoryStorage


def entries(index: Any) -> list[Any]:
    return [index[number] for number in range(len(index))]


def offset_index(entries: int) -> tuple[MemoryStorage, OffsetIndex]:
    """Entries for offsets 1000 + 10 n at positions 7 n."""
    storage = MemoryStorage()
    index = OffsetIndex(storage, "i", 1000)
    for number in range(entries):
        index.append(1000 + 10 * number, 7 * number)
    return storage, index


@pytest.mark.parametrize("entries", [0, 1, 2, BLOCK_ENTRIES, BLOCK_ENTRIES + 1, 3 * BLOCK_ENTRIES + 5])
def test_every_search_finds_the_last_entry_at_or_before(entries: int) -> None:
    """By offset and by position, before the first entry too; and again when the file is opened."""
    storage, index = offset_index(entries)
    for opened in (index, OffsetIndex(storage, "i", 1000)):
        assert len(opened) == entries
        for offset in range(990, 1000 + 10 * entries + 15, 3 if entries < 10 else 37):
            number = min((offset - 1000) // 10, entries - 1)
            expected = None if number < 0 else (1000 + 10 * number, 7 * number)
            assert opened.lookup(offset) == expected
        for position in range(0, 7 * entries + 20, 1 if entries < 10 else 53):
            number = min(position // 7, entries - 1)
            expected = None if number < 0 else (1000 + 10 * number, 7 * number)
            assert opened.lookup_position(position) == expected


def test_a_search_reads_one_block_and_a_few_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an index that is a hundred times as long."""
    _, index = offset_index(100 * BLOCK_ENTRIES)
    sizes: list[int] = []
    read = MemoryStorage.read
    monkeypatch.setattr(
        MemoryStorage, "read", lambda self, path, at, size: sizes.append(size) or read(self, path, at, size)
    )
    assert index.lookup(1000 + 10 * 12345) == (1000 + 10 * 12345, 7 * 12345)
    assert sum(sizes) <= 3 * 8 * BLOCK_ENTRIES


class Failing(MemoryStorage):
    """Counts writes, and fails if that is wanted."""

    writes = 0
    is_broken = False

    def write(self, path: str, position: int, data: bytes | bytearray | memoryview) -> None:
        if self.is_broken:
            raise OSError("broken")
        self.writes += 1
        super().write(path, position, data)


def test_entries_that_are_written_together_take_one_write() -> None:
    """They are behind those that were there; what fails leaves the index as it was."""
    storage = Failing()
    index = OffsetIndex(storage, "i", 1000)
    index.append(1000, 0)
    with index.written_together():
        for number in range(1, 10):
            index.append(1000 + 10 * number, 7 * number)
    expected = [(1000 + 10 * number, 7 * number) for number in range(10)]
    assert storage.writes == 2
    assert entries(index) == entries(OffsetIndex(storage, "i", 1000)) == expected

    storage.is_broken = True
    with pytest.raises(OSError, match="broken"), index.written_together():
        index.append(2000, 100)
    storage.is_broken = False
    assert entries(index) == expected
    index.append(1100, 70)
    assert index.last == (1100, 70)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 5)), max_size=40), st.integers(-1, 60))
def test_a_time_index_keeps_what_ascends(added: list[tuple[int, int]], timestamp: int) -> None:
    """An entry with an earlier timestamp, or the same, is left out; a search finds the last one."""
    index = TimeIndex(MemoryStorage(), "t", 100)
    kept: list[tuple[int, int]] = []
    offset = 100
    for time, records in added:
        offset += records
        index.maybe_append(time, offset)
        if not kept or time > kept[-1][0]:
            kept.append((time, offset))
    assert entries(index) == kept
    assert index.last == (kept[-1] if kept else None)
    number = bisect_right(kept, timestamp, key=lambda entry: entry[0])
    assert index.lookup(timestamp) == (kept[number - 1] if number else None)


def test_records_without_a_timestamp_make_no_time_entry() -> None:
    """-1 is no time."""
    index = TimeIndex(MemoryStorage(), "t", 0)
    index.maybe_append(-1, 5)
    assert index.last is None


@pytest.mark.parametrize("offset", [999, 1000, 1001, 1030, 2000])
def test_a_cut_removes_the_entries_of_batches_that_reach_an_offset(offset: int) -> None:
    """Also from the file."""
    storage, index = offset_index(5)
    index.truncate_to(offset)
    left = [1000 + 10 * n for n in range(5) if 1000 + 10 * n < offset]
    assert [entry.offset for entry in entries(index)] == left
    assert storage.size("i") == 8 * len(left)


def test_a_part_of_an_entry_is_left_out_and_removed() -> None:
    """A write that was cut short."""
    storage, index = offset_index(2)
    storage.write("i", 16, b"abc")
    index = OffsetIndex(storage, "i", 1000)
    assert len(index) == 2
    index.truncate(2)
    assert storage.size("i") == 16
    index.append(1050, 90)
    assert OffsetIndex(storage, "i", 1000).last == (1050, 90)


def test_a_file_that_became_shorter_is_an_error() -> None:
    """Not an entry made of what is not there."""
    storage, index = offset_index(5)
    storage.truncate("i", 12)
    with pytest.raises(OSError, match="found fewer"):
        index.lookup(1040)
