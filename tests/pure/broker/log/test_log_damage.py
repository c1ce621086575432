"""Files that are torn, flipped, missing or lying; a disk that is full; a process that dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from tests.pure.broker.log.failing_storage import CountingStorage, DyingStorage, FullStorage, Killed, copied
from tests.pure.broker.log.made_batches import (
    FOLDER,
    TP,
    append,
    batch,
    contents,
    headers_of,
    new_log,
    opened,
)
from zkgroup.broker.log.log_config import LogConfig
from zkgroup.broker.log.log_loader import LoadMarks, load_log
from zkgroup.broker.log.partition_log import PartitionLog
from zkgroup.broker.log.storage import MemoryStorage
from zkgroup.errors import ReplicaStorageError
from zkgroup.wire.messages import ErrorCode

SMALL = LogConfig(segment_bytes=1_000, index_interval_bytes=100)
FIRST = f"{FOLDER}/{0:020d}"


def three_batches() -> tuple[MemoryStorage, list[int]]:
    """Of two epochs, in one segment; and where each begins and the last one ends."""
    storage = MemoryStorage()
    log = new_log(storage)
    append(log, b"a", b"bb", epoch=1)
    append(log, b"ccc", epoch=1)
    log.append_as_leader(batch(b"d", b"e" * 40, producer=(7, 0, 0)), 4, 1_000)
    log.keep_high_watermark(5)
    ends = [0]
    for header in headers_of(contents(log)):
        ends.append(ends[-1] + header.size)
    return storage, ends


def test_torn_at_every_byte_the_log_ends_with_its_last_whole_batch() -> None:
    """Then appending goes on there, and the producer's batch may come again."""
    storage, ends = three_batches()
    whole = bytes(storage.files[FIRST + ".log"])
    for left in range(len(whole) + 1):
        torn = copied(storage)
        torn.truncate(FIRST + ".log", left)
        batches = sum(end <= left for end in ends[1:])
        log = opened(torn)
        assert (log.end_offset, left) == ((0, 2, 3, 5)[batches], left)
        assert contents(log) == whole[: ends[batches]] == torn.read_all(FIRST + ".log")
        assert log.kept_high_watermark == 5
        if left % 10 == 0:
            again = log.append_as_leader(batch(b"d", b"e" * 40, producer=(7, 0, 0)), 9, 1_000)
            assert again.base_offset == (3 if batches == 3 else (0, 2, 3)[batches])


def test_flipped_at_every_byte_the_log_ends_before_that_batch() -> None:
    """Offset and leader epoch too, which lie outside the CRC."""
    storage, ends = three_batches()
    whole = bytes(storage.files[FIRST + ".log"])
    for position in range(len(whole)):
        for bits in (0x01, 0x80):
            flipped = copied(storage)
            flipped.files[FIRST + ".log"][position] ^= bits
            batches = sum(end <= position for end in ends[1:])
            log = opened(flipped)
            assert (log.end_offset, position) == ((0, 2, 3)[batches], position)
            assert contents(log) == whole[: ends[batches]]
            assert len(log.producers) == 0


@pytest.mark.parametrize("junk", [b"\0" * 100, b"\xff" * 100, batch(b"x")])
def test_what_does_not_follow_is_cut_off(junk: bytes) -> None:
    """Zeros that a file system left, or a whole batch of another place."""
    storage, ends = three_batches()
    storage.write(FIRST + ".log", ends[3], junk)
    assert opened(storage).end_offset == 5
    assert storage.size(FIRST + ".log") == ends[3]


def test_a_damaged_segment_ends_the_log_and_later_ones_go() -> None:
    """No gap is left in the middle of a log."""
    storage = MemoryStorage()
    log = new_log(storage, SMALL)
    for _ in range(40):
        append(log, b"x" * 100)
    whole, bases = contents(log), [segment.base_offset for segment in log.segments]
    assert len(bases) > 5
    storage.files[f"{FOLDER}/{bases[2]:020d}.log"][300] ^= 1
    cut = opened(storage, SMALL)

    assert bases[2] < cut.end_offset < bases[3]
    assert whole.startswith(contents(cut))
    assert [segment.base_offset for segment in cut.segments] == bases[:3]
    assert [name for name in storage.names(FOLDER) if name.endswith("index")] == [
        f"{base:020d}.{ending}" for base in bases[:3] for ending in ("index", "timeindex")
    ]


def test_below_the_recovery_point_nothing_is_read_again() -> None:
    """There a wrong byte is the disk's fault, and as in Kafka the clients' checksum shows it."""
    storage, ends = three_batches()
    storage.files[FIRST + ".log"][ends[1] - 1] ^= 1
    assert opened(copied(storage), clean=True, recovery_point=5).end_offset == 5
    assert opened(storage, recovery_point=0).end_offset == 0


def test_after_a_clean_shutdown_a_log_that_is_torn_all_the_same_is_checked() -> None:
    """Its end is not what a clean shutdown leaves."""
    storage, ends = three_batches()
    storage.truncate(FIRST + ".log", ends[3] - 1)
    log = opened(storage, clean=True, recovery_point=5)
    assert log.end_offset == 3
    assert log.kept_high_watermark == 5


Damage = Callable[[bytearray], None]


def lies(data: bytearray) -> None:
    """Every entry says something else, and the order stays."""
    for at in range(7, len(data), 8):
        data[at] ^= 0x04


def shifted(data: bytearray) -> None:
    data[:] = bytes(8) + data[:-8]


def halved(data: bytearray) -> None:
    del data[len(data) // 2 // 24 * 24 :]


def torn(data: bytearray) -> None:
    del data[-3:]


def grown(data: bytearray) -> None:
    """As Kafka leaves an index behind when it dies: with zeros up to its full size."""
    data += bytes(240)


@pytest.mark.parametrize("ending", [".index", ".timeindex"])
@pytest.mark.parametrize(
    "damage",
    [None, bytearray.clear, lies, shifted, halved, torn, grown],
    ids=lambda each: each and each.__name__,
)
@pytest.mark.parametrize("clean", [True, False])
def test_a_wrong_index_is_never_believed(ending: str, damage: Damage | None, clean: bool) -> None:
    """Missing, empty, lying, short, torn or grown, in each segment: reads and times are right."""
    storage = MemoryStorage()
    log = new_log(storage, SMALL)
    for number in range(60):
        append(log, b"x" * (number % 50), timestamp=1_000 + 10 * number)
    log.close()
    whole = contents(log)
    for path in [path for path in storage.files if path.endswith(ending)]:
        if damage is None:
            storage.remove(path)
        else:
            damage(storage.files[path])
    again = opened(storage, SMALL, clean=clean, recovery_point=60)
    assert contents(again) == whole
    for offset in range(60):
        assert headers_of(again.read(offset, 60, 150))[0].base_offset == offset
        assert again.offset_for_time(1_000 + 10 * offset - 5, 60) == (offset, 1_000 + 10 * offset)
    assert again.offset_for_time(5_000, 60) is None


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("epochs", [None, b"", b"nonsense", b"0\n2\n1 0\n", b"0\n1\n-1 0\n", b"0\n0\n"])
def test_leader_epochs_are_found_again_in_the_batches(epochs: bytes | None, clean: bool) -> None:
    """Where their file is missing or damaged."""
    storage, _ = three_batches()
    path = f"{FOLDER}/leader-epoch-checkpoint"
    storage.remove(path) if epochs is None else storage.replace(path, epochs, False)
    log = opened(storage, clean=clean, recovery_point=5)
    assert log.end_offset == 5
    assert log.epochs == ((1, 0), (4, 3))
    assert storage.read_all(path) == b"0\n2\n1 0\n4 3\n"


def test_an_epoch_without_records_is_known_after_a_restart() -> None:
    """And one that begins behind the end is not."""
    storage, _ = three_batches()
    opened(storage).begin_epoch(6)
    assert opened(storage).epochs == ((1, 0), (4, 3), (6, 5))
    storage.truncate(FIRST + ".log", storage.size(FIRST + ".log") or -1)
    storage.files[FIRST + ".log"][-1] ^= 1
    assert opened(storage).epochs == ((1, 0), (4, 3))


def test_a_log_that_starts_within_a_batch_is_recovered() -> None:
    """Epochs below the log start offset are no longer known; the batches there are not wrong for that."""
    storage, _ = three_batches()
    log = opened(storage)
    log.advance_start(4)
    assert log.epochs == ((4, 4),)
    again = opened(storage, start_offset=4)
    assert (again.start_offset, again.end_offset, again.epochs) == (4, 5, ((4, 4),))


@pytest.mark.parametrize("left", ["log", "index", "high-watermark"])
def test_what_the_beginning_of_a_log_has_left_is_none(left: str) -> None:
    """Its `.log` comes last. A folder that lost it is no new log: its high watermark shows it."""
    storage, _ = three_batches()
    storage.remove(FIRST + ".log")
    if left == "high-watermark":
        log = opened(storage)
        assert (log.end_offset, log.kept_high_watermark, log.epochs) == (0, 5, ((1, 0),))
    else:
        storage.replace(f"{FOLDER}/high-watermark", b"0" * 19 + b"\n", False)
        with pytest.raises(AssertionError):
            opened(storage)


def test_a_full_disk_leaves_the_log_as_it_was() -> None:
    """Wherever the room ends: nothing is appended in part, and with room again the append succeeds."""
    config = LogConfig(segment_bytes=600, index_interval_bytes=100)
    rooms = 0
    for room in range(0, 1_200, 7):
        storage = FullStorage()
        log = new_log(storage, config)
        for number in range(4):
            append(log, b"x" * 50, epoch=number)
        before, end = contents(log), log.end_offset
        storage.room = room
        failed = False
        for number in range(4, 9):
            try:
                append(log, b"y" * 70, epoch=number)
            except ReplicaStorageError:
                failed = True
                break
            before, end = contents(log), log.end_offset
        rooms += failed
        assert (log.end_offset, contents(log)) == (end, before)
        assert contents(opened(copied(storage), config)) == before
        storage.room = None
        append(log, b"z", epoch=20)
        assert contents(log)[: len(before)] == before
        assert contents(opened(storage, config)) == contents(log)
    assert rooms > 50


def actions(log: PartitionLog) -> Iterator[None]:
    """What may be cut short; each step is whole where the next one begins."""
    for number in range(12):
        append(log, b"x" * 120, epoch=number // 3)
        yield
    log.keep_high_watermark(10)
    yield
    log.advance_start(5)
    yield
    log.truncate_to(9)
    yield
    append(log, b"y" * 60, epoch=7)
    yield
    log.truncate_fully_and_start_at(100)
    yield
    append(log, b"z", epoch=8)
    yield


@pytest.mark.parametrize("high_watermark", [0, 7])
def test_killed_while_a_log_is_made_there_is_none_or_all_of_it(high_watermark: int) -> None:
    """Never one without its high watermark: such a replica would not lead before it has caught up."""
    ends = []
    for changes in range(20):
        storage = DyingStorage()
        storage.changes_left = changes
        with suppress(Killed):
            new_log(storage, high_watermark=high_watermark)
        storage.changes_left = None
        log = load_log(storage, TP, LogConfig(), LoadMarks(), 2_000)
        ends.append(log is not None)
        assert log is None or log.kept_high_watermark == high_watermark

    assert not ends[0]
    assert ends[-1]


def test_killed_at_every_change_of_a_file_the_log_opens_as_it_was_or_as_it_became() -> None:
    """With the recovery point where it was when the process began, and a cut that lowers it."""
    config = LogConfig(segment_bytes=500, index_interval_bytes=100)
    dead = set()
    for changes in range(150):
        storage = DyingStorage()
        log = new_log(storage, config)
        states = [b""]
        storage.changes_left = changes
        with suppress(Killed):
            states.extend(contents(log) for _ in actions(log))
        killed = storage.changes_left < 0
        storage.changes_left = None
        again = opened(storage, config, recovery_point=0)
        found = contents(again)
        step = len(states) - 1 if killed else None
        dead.add(step)
        match step:
            case None:
                assert found == states[-1]
            case 13:  # advance_start, one segment after the other
                assert states[-1].endswith(found)
                assert again.start_offset <= 5
                assert again.end_offset == 12
            case 14 | 16:  # truncate_to, truncate_fully_and_start_at
                assert states[-1].startswith(found) or found == b""
            case _:
                assert found.startswith(states[-1])
        for header in headers_of(found):
            assert header.leader_epoch == again.epochs.epoch_before(header.last_offset + 1)
        append(again, b"next", epoch=9)
        assert contents(opened(storage, config)) == contents(again)
    assert dead >= {None, *range(18)}


def long_log() -> tuple[MemoryStorage, LogConfig, PartitionLog]:
    config = LogConfig(segment_bytes=40_000, index_interval_bytes=1_000)
    storage = MemoryStorage()
    log = new_log(storage, config)
    for number in range(600):
        append(log, b"x" * 900, timestamp=number)
    log.flush_rolled()
    return storage, config, log


def test_an_unclean_start_reads_what_lies_behind_the_recovery_point() -> None:
    """The last segment of fifteen, and no other."""
    storage, config, log = long_log()
    assert len(log.segments) > 13
    counting = CountingStorage(storage)
    again = opened(counting, config, recovery_point=log.recovery_point)
    active = log.segments[-1]

    assert contents(again) == contents(log)
    counting = CountingStorage(storage)
    opened(counting, config, recovery_point=log.recovery_point)
    assert active.size <= counting.ending(".log") <= active.size + 5_000
    assert [path for path in counting.read_bytes if path.endswith(".log")] == [active.log_path]


def test_a_clean_start_reads_the_headers_behind_the_last_index_entry() -> None:
    """However long the log is; and after an unclean end of that run, not much more."""
    storage, config, log = long_log()
    log.close()
    counting = CountingStorage(storage)
    again = opened(counting, config, clean=True, recovery_point=600)
    assert counting.ending(".log") <= 10_000
    assert sum(counting.read_bytes.values()) <= 12_000
    append(again, b"y" * 5_000)
    counting = CountingStorage(storage)
    assert opened(counting, config, recovery_point=600).end_offset == 601
    assert counting.ending(".log") <= 10_000


def test_a_read_of_a_long_log_reads_little_else() -> None:
    """The index and a few headers beside the records."""
    storage, config, log = long_log()
    log.close()
    counting = CountingStorage(storage)
    again = opened(counting, config, clean=True, recovery_point=600)
    counting.read_bytes.clear()
    for offset in (17, 300, 599):
        assert len(again.read(offset, 600, 2_000)) in (970, 1_940)
    assert sum(counting.read_bytes.values()) <= 3 * 2_000 + 3 * 10_000


def test_followers_that_are_level_read_the_new_records_alone() -> None:
    """Past bug: of two followers the second one searched the index for the place where the first one was."""
    counting = CountingStorage(MemoryStorage())
    log = new_log(counting, LogConfig(index_interval_bytes=0))
    for _ in range(20):
        append(log, b"x" * 100)
    counting.read_bytes.clear()
    records = 0
    for offset in range(20, 40):
        append(log, b"y" * 100)
        records += sum(len(log.read(offset, offset + 1, 1_000)) for _ in range(2))
    assert sum(counting.read_bytes.values()) == records


def test_a_producers_state_is_read_from_the_snapshot() -> None:
    """After a clean shutdown no batch is read for it, and a snapshot that is damaged is not used."""
    storage = MemoryStorage()
    log = new_log(storage, SMALL)
    for number in range(20):
        log.append_as_leader(batch(b"x" * 100, producer=(7, 0, number)), 0, 1_000)
    log.close()
    snapshots = [name for name in storage.names(FOLDER) if name.endswith(".snapshot")]
    assert snapshots[-1] == f"{20:020d}.snapshot"
    for broken in range(len(snapshots) + 1):
        damaged = copied(storage)
        for name in snapshots[len(snapshots) - broken :]:
            damaged.files[f"{FOLDER}/{name}"][-1] ^= 1
        for clean in (True, False):
            again = opened(copied(damaged), SMALL, clean=clean, recovery_point=20)
            repeated = again.append_as_leader(batch(b"x" * 100, producer=(7, 0, 19)), 0, 1_000)
            assert (repeated.error, repeated.base_offset) == (ErrorCode.NONE, 19)
            assert again.append_as_leader(batch(b"x", producer=(7, 0, 20)), 0, 1_000).base_offset == 20
