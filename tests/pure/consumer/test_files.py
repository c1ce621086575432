"""FileSource: lines of a folder as records."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import happened
from zkgroup.errors import ConfigError, OffsetOutOfRangeError, SourceError, SourceUnavailableError
from zkgroup.model import TopicPartition
from zkgroup.sources.files import INDEX_EVERY, FileSource, LineIndex
from zkgroup.sources.port import Bounds
from zkgroup.znodes.brokers import BrokerRegistration

ORDERS_0 = TopicPartition("orders", 0)


class TwoPartitions:
    """A cluster in which every topic has the partitions 0 and 1."""

    def brokers(self) -> dict[int, BrokerRegistration]:
        return {}

    def partitions(self, topic: str) -> tuple[int, ...]:
        return (0, 1)


def write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / "orders" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def values(source: FileSource, offset: int, max_records: int = 100) -> list[bytes | None]:
    return [record.value for record in source.read(ORDERS_0, offset, max_records)]


def test_the_offset_is_the_line_number(tmp_path: Path) -> None:
    """Lines count from 0; their newline is not part of the record."""
    write(tmp_path, "0.jsonl", b'{"a":1}\n\n{"b":2}\r\n')

    records = FileSource(tmp_path).read(ORDERS_0, 0, 10)

    assert [(r.offset, r.value) for r in records] == [(0, b'{"a":1}'), (1, b""), (2, b'{"b":2}\r')]


def test_a_torn_last_line_is_not_there_yet(tmp_path: Path) -> None:
    """A line counts once its newline is written, and is then read whole."""
    path = write(tmp_path, "0.log", b"one\ntw")
    source = FileSource(tmp_path)
    before = (values(source, 0), source.bounds(ORDERS_0), values(source, 1))

    with path.open("ab") as file:
        file.write(b"o\nthree\n")

    assert before == ([b"one"], Bounds(0, 1), [])
    assert (values(source, 1), source.bounds(ORDERS_0)) == ([b"two", b"three"], Bounds(0, 3))


def test_a_partition_without_a_file_is_empty(tmp_path: Path) -> None:
    """The file may come later."""
    source = FileSource(tmp_path)
    before = (values(source, 0), source.bounds(ORDERS_0))

    write(tmp_path, "0.jsonl", b"one\n")

    assert before == ([], Bounds(0, 0))
    assert values(source, 0) == [b"one"]


def test_both_endings_for_one_partition_are_an_error(tmp_path: Path) -> None:
    """It would not be clear which of the two is meant."""
    write(tmp_path, "0.jsonl", b"one\n")
    write(tmp_path, "0.log", b"one\n")

    with pytest.raises(SourceError, match=r"orders-0: .*0\.jsonl.*0\.log"):
        FileSource(tmp_path).bounds(ORDERS_0)


def test_a_file_beyond_the_partition_count_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No member reads its records; the warning is logged once."""
    write(tmp_path, "0.log", b"one\n")
    write(tmp_path, "2.log", b"lost\n")
    write(tmp_path, "notes.txt", b"not a partition\n")
    source = FileSource(tmp_path)
    source.open(TwoPartitions())

    with caplog.at_level(logging.WARNING):
        source.bounds(ORDERS_0)
        source.bounds(TopicPartition("orders", 1))

    assert [
        record.getMessage().endswith("topic orders has partitions [0, 1]") for record in caplog.records
    ] == [True]
    assert "2.log" in caplog.text


def test_consumers_that_share_a_source_ask_their_own_cluster(tmp_path: Path) -> None:
    """One that has ended takes its connection with it; the other's still answers."""

    class Ended(TwoPartitions):
        def partitions(self, topic: str) -> tuple[int, ...]:
            raise AssertionError("asked after its end")

    write(tmp_path, "0.log", b"one\n")
    source = FileSource(tmp_path)
    source.open(TwoPartitions())
    other = threading.Thread(target=lambda: source.open(Ended()))
    other.start()
    other.join()

    assert source.bounds(ORDERS_0) == Bounds(0, 1)


def test_a_missing_folder_is_a_configuration_error(tmp_path: Path) -> None:
    """A mistyped name must not be taken for an empty topic."""
    with pytest.raises(ConfigError, match="nowhere"):
        FileSource(tmp_path / "nowhere")


def replaced(path: Path, content: bytes) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(content)
    other.rename(path)


def truncated(path: Path, content: bytes) -> None:
    path.write_bytes(content)


@pytest.mark.parametrize("change", [replaced, truncated])
def test_a_file_that_gets_shorter_is_out_of_range(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: Callable[[Path, bytes], None]
) -> None:
    """Also while its lines are read: one warning, and what is there counts from its beginning."""
    path = write(tmp_path, "0.log", b"one\ntwo\nthree\n")
    source = FileSource(tmp_path)
    before = values(source, 0)
    change(path, b"1\n2\n")

    with pytest.raises(
        OffsetOutOfRangeError, match=f"orders-0: offset 3 is out of range: {path} has 2 lines"
    ):
        values(source, 3)
    assert before == [b"one", b"two", b"three"]
    assert (values(source, 0), values(source, 2), source.bounds(ORDERS_0)) == ([b"1", b"2"], [], Bounds(0, 2))
    (warning,) = [record.getMessage() for record in caplog.records]
    assert f"{path} was {change.__name__}: it had 14 bytes and has 4" in warning


def test_a_file_that_is_replaced_by_a_longer_one_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A writer may write it anew with more lines; the warning says that it was another file."""
    path = write(tmp_path, "0.log", b"one\n")
    source = FileSource(tmp_path)
    before = values(source, 0)
    replaced(path, b"a longer one\ntwo\n")

    assert before == [b"one"]
    assert values(source, 1) == [b"two"]
    assert "was replaced" in caplog.text


def test_a_position_beyond_the_end_is_out_of_range(tmp_path: Path) -> None:
    """The file was replaced while no consumer ran; at its end a consumer waits."""
    write(tmp_path, "0.log", b"one\n")
    source = FileSource(tmp_path)

    with pytest.raises(OffsetOutOfRangeError, match="offset 2 is out of range"):
        values(source, 2)
    assert values(source, 1) == []


def test_a_file_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    """It may be on a disk that is not mounted: its partition is not read from the beginning then."""
    source = FileSource(tmp_path)
    with pytest.raises(SourceUnavailableError, match="expected a file with a line 2, found none"):
        values(source, 2)
    path = write(tmp_path, "0.jsonl", b"one\ntwo\nthree\n")
    assert values(source, 2) == [b"three"]
    path.unlink()
    with pytest.raises(SourceUnavailableError):
        values(source, 3)


def test_any_line_is_found_in_a_long_file(tmp_path: Path) -> None:
    """The sparse index gives the same lines as reading from the start, in any order of positions."""
    lines = [f"line {i}".encode() * (1 + i % 3) for i in range(3 * INDEX_EVERY + 7)]
    path = write(tmp_path, "0.log", b"".join(line + b"\n" for line in lines))
    index = LineIndex(path)

    for start in (3000, 5, INDEX_EVERY, 2 * INDEX_EVERY - 1, 0, len(lines) - 1, len(lines), 2000):
        assert index.read(start, 3) == lines[start : start + 3]
    assert index.end() == len(lines)


def test_reading_on_follows_growth(tmp_path: Path) -> None:
    """A reader at the end gets exactly what is appended."""
    path = write(tmp_path, "0.log", b"")
    index = LineIndex(path)
    seen: list[bytes] = []
    for i in range(50):
        with path.open("ab") as file:
            file.write(b"%d\n" % i)
        seen += index.read(len(seen), 10)

    assert seen == [b"%d" % i for i in range(50)]


class Interrupted(list[int]):
    """An index's entries; while the first one is added, another reader has its turn."""

    def __init__(self, entries: list[int]) -> None:
        super().__init__(entries)
        self.adding, self.other_is_done = threading.Event(), threading.Event()

    def append(self, entry: int) -> None:
        if not self.adding.is_set():
            self.adding.set()
            self.other_is_done.wait(0.3)  # in vain where the other has to wait for us
        super().append(entry)


def test_consumers_that_share_a_source_may_read_one_partition_at_once(tmp_path: Path) -> None:
    """While a partition moves both do: the index of its lines must not be torn between them."""
    count = 4 * INDEX_EVERY
    index = LineIndex(write(tmp_path, "0.log", b"".join(b"%d\n" % number for number in range(count))))
    index._entries = entries = Interrupted(index._entries)

    def read_after() -> None:
        happened(entries.adding)
        index.end()
        entries.other_is_done.set()

    other = threading.Thread(target=read_after)
    other.start()
    index.read(0, count)
    other.join()

    lines = [INDEX_EVERY * number + 7 for number in range(4)]
    assert [index.read(line, 1) for line in lines] == [[b"%d" % line] for line in lines]
