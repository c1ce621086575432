"""What outlives the machine: with `Flush.BATCH` what was acknowledged, else what recovery points cover."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.pure.broker.log.failing_storage import ForcedStorage
from tests.pure.broker.log.made_batches import FOLDER, TP, append, batch, contents, headers_of
from zkgroup.broker.log.data_dir import DataDir
from zkgroup.broker.log.log_config import LogConfig
from zkgroup.broker.log.partition_log import PartitionLog
from zkgroup.broker.log.storage import Flush, MemoryStorage

SMALL = LogConfig(segment_bytes=500, index_interval_bytes=100)


def found_in(storage: MemoryStorage, config: LogConfig) -> PartitionLog:
    log = DataDir.in_memory(config, lambda: 2_000, storage).open(TP)
    assert log is not None
    return log


def epochs_fit(log: PartitionLog) -> bool:
    """Whether each batch is of the epoch that the log has for its offsets."""
    return all(
        header.leader_epoch == log.epochs.epoch_before(header.last_offset + 1)
        for header in headers_of(contents(log))
    )


def test_with_a_flush_for_each_batch_all_that_was_appended_outlives_the_machine() -> None:
    """With its leader epoch; across rolls, cuts and a new start. The indexes are made again."""
    storage, config = ForcedStorage(), replace(SMALL, flush=Flush.BATCH)
    data_dir = DataDir.in_memory(config, lambda: 2_000, storage)
    log = data_dir.create(TP, 0)
    for epoch in range(12):
        for _ in range(3):
            append(log, b"x" * 60, epoch=epoch)
            left = found_in(storage.after_the_machine_died(), config)
            assert contents(left) == contents(log)
            assert left.epochs == log.epochs
            assert epochs_fit(left)
        if epoch == 6:
            data_dir.checkpoint()
            log.truncate_to(15)
        if epoch == 8:
            log.truncate_fully_and_start_at(1_000)
    assert log.start_offset == 1_000
    assert len(log.segments) > 2


@pytest.mark.parametrize("point", [0, 3, 11, 25])
def test_without_it_all_below_the_recovery_point_does(point: int) -> None:
    """And the epochs of what is left are right, whatever else was lost."""
    storage = ForcedStorage()
    data_dir = DataDir.in_memory(SMALL, lambda: 2_000, storage)
    log = data_dir.create(TP, 0)
    data_dir.checkpoint()
    storage.flush("")
    for number in range(30):
        log.append_as_leader(batch(b"x" * 60, producer=(7, 0, number)), number // 4, 0)
        if number == point:
            data_dir.checkpoint()
    trusted = log.recovery_point
    whole = contents(log)
    assert trusted <= point
    left = DataDir.in_memory(SMALL, lambda: 2_000, storage.after_the_machine_died()).open(TP)
    if left is None:
        assert trusted == 0
        return
    assert trusted <= left.end_offset <= 30
    assert whole.startswith(contents(left))
    assert epochs_fit(left)


def test_after_a_clean_shutdown_everything_does() -> None:
    """And nothing has to be checked."""
    storage = ForcedStorage()
    data_dir = DataDir.in_memory(SMALL, lambda: 2_000, storage)
    log = data_dir.create(TP, 0)
    for number in range(30):
        append(log, b"x" * 60, epoch=number // 4)
    data_dir.close()
    found = storage.after_the_machine_died()
    path = f"{FOLDER}/leader-epoch-checkpoint"
    assert found.read_all(path) == storage.read_all(path)
    left = found_in(found, SMALL)
    assert contents(left) == contents(log)
    assert left.epochs == log.epochs
    assert left.recovery_point == 30
