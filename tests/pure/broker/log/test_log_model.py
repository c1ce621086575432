"""A log against a plain list of records, whatever is done to it, and across crashes and restarts."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from kafka.record.memory_records import MemoryRecords

from tests.pure.broker.log.made_batches import TP, batch, headers_of
from zkgroup.broker.log.data_dir import DataDir
from zkgroup.broker.log.leader_epochs import LeaderEpochs
from zkgroup.broker.log.log_config import LogConfig
from zkgroup.broker.log.partition_log import PartitionLog
from zkgroup.broker.log.storage import MemoryStorage
from zkgroup.wire.messages import ErrorCode

PRODUCER = 9


class Record(NamedTuple):
    """A record, and the batch that it is in."""

    offset: int
    timestamp: int
    value: bytes
    epoch: int
    batch_base: int


class LogModel(RuleBasedStateMachine):
    """The model of a log: `records` is its content; times matter only for retention and lookups."""

    @initialize(
        segment_bytes=st.integers(150, 1_500),
        interval=st.sampled_from([0, 80, 400, 4_096]),
        retention_ms=st.sampled_from([-1, 200]),
    )
    def begin(self, segment_bytes: int, interval: int, retention_ms: int) -> None:
        self.config = LogConfig(
            segment_bytes=segment_bytes, index_interval_bytes=interval, retention_ms=retention_ms
        )
        self.storage = MemoryStorage()
        self.records: list[Record] = []
        self.start = self.end = self.epoch = self.kept = self.values = 0
        self.sent: list[tuple[bytes, int, int]] = []
        """Batches of the producer that are in the log, with offset and next sequence."""
        self.data_dir = self.opened()
        self.log = self.data_dir.create(TP, 0)

    @property
    def watermark(self) -> int:
        """A cut leaves what is kept as it is: that is how a replica knows that it lacks records."""
        return min(self.kept, self.end)

    def opened(self) -> DataDir:
        return DataDir.in_memory(self.config, lambda: 0, self.storage)

    def reopen(self) -> None:
        self.data_dir = self.opened()
        log = self.data_dir.open(TP)
        assert log is not None
        self.log: PartitionLog = log

    def add(self, times: list[int], idempotent: bool) -> bytes:
        """Puts a batch at the end of the model, and returns it."""
        values = [b"%d" % (self.values + n) * (1 + (self.values + n) % 20) for n in range(len(times))]
        self.values += len(times)
        sequence = (self.sent[-1][2] if self.sent else 0) if idempotent else -1
        producer = (PRODUCER, 0, sequence) if idempotent else (-1, -1, -1)
        made = batch(*values, timestamp=times, producer=producer)
        self.records += [
            Record(self.end + n, time, value, self.epoch, self.end)
            for n, (time, value) in enumerate(zip(times, values, strict=True))
        ]
        if idempotent:
            self.sent.append((made, self.end, sequence + len(times)))
        self.end += len(times)
        return made

    @rule(times=st.lists(st.integers(0, 500), min_size=1, max_size=4), idempotent=st.booleans())
    def append(self, times: list[int], idempotent: bool) -> None:
        base = self.end
        appended = self.log.append_as_leader(self.add(times, idempotent), self.epoch, 0)
        assert appended == (ErrorCode.NONE, base, self.end, -1, "", ())

    @rule(size=st.integers(1, 6))
    def follow(self, size: int) -> None:
        """Batches of a leader, several at once."""
        leader = MemoryStorage()
        other = DataDir.in_memory(LogConfig(), lambda: 0, leader).create(TP, 0)
        other.truncate_fully_and_start_at(self.end)
        base = self.end
        for number in range(size):
            self.epoch += number % 2
            other.append_as_leader(self.add([number], False), self.epoch, 0)
        assert self.log.append_as_follower(other.read(base, self.end, 1 << 20), self.epoch) is None

    @rule(by=st.integers(1, 3))
    def lead_anew(self, by: int) -> None:
        self.epoch += by
        self.log.begin_epoch(self.epoch)

    @precondition(lambda self: self.sent)
    @rule(back=st.integers(0, 4))
    def send_again(self, back: int) -> None:
        """The last batches of a producer that are still known are answered, and not appended."""
        made, offset, _ = self.sent[max(len(self.sent) - 1 - back, 0)]
        appended = self.log.append_as_leader(made, self.epoch, 0)
        if appended.error is ErrorCode.NONE:
            assert appended.base_offset == offset
        else:
            assert appended.error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER
            assert back > 0

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        offset = self.start + int(share * (self.end - self.start))
        whole = [record for record in self.records if record.offset >= offset]
        if whole:
            # A batch goes as a whole, but not what stands before the log start offset of one that is cut.
            offset = whole[0].batch_base
        self.log.truncate_to(offset)
        self.records = [record for record in self.records if record.offset < offset]
        self.end = min(self.end, offset)
        self.start = min(self.start, self.end)
        self.sent = [each for each in self.sent if each[1] < self.end]

    @rule(gap=st.integers(0, 50))
    def start_anew(self, gap: int) -> None:
        self.end = self.start = self.kept = self.end + gap
        self.records, self.sent = [], []
        self.log.truncate_fully_and_start_at(self.end)
        self.log.keep_high_watermark(self.end)

    @rule(share=st.floats(0, 1))
    def raise_high_watermark(self, share: float) -> None:
        self.kept = self.watermark + int(share * (self.end - self.watermark))
        self.log.keep_high_watermark(self.kept)

    @rule(share=st.floats(0, 1))
    def advance_start(self, share: float) -> None:
        self.moved_to(self.start + int(share * (self.watermark - self.start)))
        self.log.advance_start(self.start)

    @rule(now=st.integers(0, 900))
    def retain(self, now: int) -> None:
        """The log says how far; what it deletes is old, below the high watermark, and not too little."""
        before = [segment.base_offset for segment in self.log.segments]
        moved = self.log.apply_retention(now)
        start = self.log.start_offset
        if not moved:
            assert start == self.start
            return
        assert self.config.retention_ms >= 0
        assert start <= self.watermark
        assert start in (*before, self.end)
        gone = [record for record in self.records if record.offset < start]
        assert all(now - record.timestamp > self.config.retention_ms for record in gone)
        self.moved_to(start)

    def moved_to(self, offset: int) -> None:
        self.start = max(self.start, offset)
        self.records = [record for record in self.records if record.offset >= self.start]

    @rule(checkpoint=st.booleans())
    def crash(self, checkpoint: bool) -> None:
        if checkpoint:
            self.data_dir.checkpoint()
        self.reopen()

    @rule(junk=st.binary(min_size=1, max_size=90))
    def crash_while_appending(self, junk: bytes) -> None:
        """What was written of the batch is cut off."""
        path = self.log.segments[-1].log_path
        self.storage.write(path, self.storage.size(path) or 0, junk)
        self.reopen()

    @rule()
    def restart(self) -> None:
        self.data_dir.close()
        self.reopen()
        assert self.log.recovery_point == self.end

    @invariant()
    def it_holds_what_it_should(self) -> None:
        log = self.log
        assert (log.start_offset, log.end_offset) == (self.start, self.end)
        assert log.kept_high_watermark == self.kept
        found: list[Record] = []
        offset = self.start
        while offset < self.end:
            records = log.read(offset, self.end, 300)
            bases = iter(headers_of(records))
            batches = MemoryRecords(records)
            while (read := batches.next_batch()) is not None:
                header = next(bases)
                found += [
                    Record(each.offset, each.timestamp, each.value, header.leader_epoch, header.base_offset)
                    for each in read
                    if each.offset >= self.start
                ]
            offset = found[-1].offset + 1
        assert found == self.records

    @invariant()
    def its_epochs_are_those_of_its_records(self) -> None:
        epochs: LeaderEpochs = self.log.epochs
        for record in self.records:
            assert epochs.epoch_before(record.offset + 1) == record.epoch
        assert epochs.last <= self.epoch

    @rule(timestamp=st.integers(-1, 600))
    def look_up_a_time(self, timestamp: int) -> None:
        """The first record of that time or later."""
        wanted = next((record for record in self.records if record.timestamp >= timestamp), None)
        found = self.log.offset_for_time(timestamp, self.end)
        assert found == (wanted and (wanted.offset, wanted.timestamp))

    @rule(share=st.floats(0, 1), most=st.integers(1, 2_000))
    def read_in_the_middle(self, share: float, most: int) -> None:
        """Below the high watermark, from any offset."""
        offset = self.start + int(share * (self.end - self.start))
        read = headers_of(self.log.read(offset, self.watermark, most))
        if read:
            assert read[0].base_offset <= offset <= read[0].last_offset
            assert read[-1].last_offset < self.watermark
        else:
            holding = next((record for record in self.records if record.offset == offset), None)
            if holding is not None:
                last = max(r.offset for r in self.records if r.batch_base == holding.batch_base)
                assert last >= self.watermark


LogModel.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestLogModel = LogModel.TestCase
