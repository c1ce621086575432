"""One owned partition on its way to the application: what is fetched, delivered, processed. Pure.

A flow lives as long as one claim. It has no lock of its own: `Delivery` guards all flows with one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from zkgroup.consumer.records import Record, SourceRecord
from zkgroup.consumer.tracking import AckTracker
from zkgroup.model import LeaseGrant, TopicPartition

Identity = tuple[int, int]
"""Token of a claim, and number of jumps within it."""


class Flow:
    """Buffer, position and switches of one claim."""

    __slots__ = (
        "buffer",
        "committed",
        "epoch",
        "fetch_offset",
        "full",
        "grant",
        "paused",
        "settling",
        "sought",
        "started",
        "stopped",
        "tracker",
    )

    def __init__(self, grant: LeaseGrant, unacked_max: int) -> None:
        known = grant.offset is not None and grant.offset >= 0
        start = grant.offset if grant.offset is not None and known else 0
        self.grant = grant
        self.tracker = AckTracker(grant.topic_partition, start, unacked_max)
        self.fetch_offset: int | None = start if known else None
        """Offset that the source is asked for next; None until the reset policy has given one."""
        self.committed: int | None = start if known else None
        """Value of the offset znode as far as this member knows."""
        self.epoch = 0
        """Counts the jumps of the position: what was fetched before one is dropped."""
        self.started = False
        """`on_assigned` of this claim has returned."""
        self.stopped = False
        """Being revoked."""
        self.paused = False
        """By the application."""
        self.settling = not known
        """The start position is not committed yet: nothing is delivered."""
        self.sought = 0
        """`epoch` since the last jump of the application's own, or of its reset policy's; 0: there was none,
        or somebody else moved the position since. The first commit after it may go back."""
        self.buffer: deque[SourceRecord] = deque()
        self.full = False
        """Enough is buffered; the source is asked again when half of it is gone."""

    @property
    def topic_partition(self) -> TopicPartition:
        return self.grant.topic_partition

    @property
    def identity(self) -> Identity:
        """Tells this claim, and this stretch without a jump, from every other one of the partition."""
        return (self.grant.token, self.epoch)

    def place(self, offset: int) -> dict[str, object]:
        """This offset of this claim, for the history."""
        topic, partition = self.topic_partition.topic, self.topic_partition.partition
        return {"topic": topic, "partition": partition, "offset": offset, "token": self.grant.token}

    @property
    def is_open(self) -> bool:
        """Whether a record may be handed out, as far as this flow knows (the lease is checked apart)."""
        return (
            self.started
            and not self.stopped
            and not self.paused
            and not self.settling
            and not self.tracker.is_full
        )

    @property
    def wants(self) -> bool:
        """Whether the source should be asked for more."""
        return self.fetch_offset is not None and not self.stopped and not self.full

    @property
    def unresolved(self) -> bool:
        """Whether the reset policy must give the position."""
        return self.fetch_offset is None and not self.stopped

    def accept(self, records: Sequence[SourceRecord], buffered_max: int) -> None:
        """Buffers what the source gave for `fetch_offset`."""
        for record in records:
            if self.fetch_offset is not None and record.offset >= self.fetch_offset:
                self.buffer.append(record)
                self.fetch_offset = record.offset + 1
        self.full = len(self.buffer) >= buffered_max

    def got_hungry(self, buffered_max: int) -> bool:
        """True once when so much has been handed out that the source should be asked again."""
        if not self.full or len(self.buffer) > buffered_max // 2:
            return False
        self.full = False
        return True

    def hand_out(self) -> Record:
        """The next buffered record, from now on the application's."""
        read = self.buffer.popleft()
        self.tracker.delivered(read.offset)
        return Record(
            topic=read.topic,
            partition=read.partition,
            offset=read.offset,
            key=read.key,
            value=read.value,
            timestamp_ms=read.timestamp_ms,
            headers=read.headers,
            thread=self.grant.thread,
            token=self.grant.token,
        )

    def seek(self, offset: int) -> None:
        """The application goes on from here; it alone may go back behind what is committed."""
        self._jump(offset)
        self.settling = False
        self.sought = self.epoch

    def move(self, offset: int | None) -> None:
        """Somebody else's offset is obeyed; None: it says that there is none, so the policy decides."""
        self._jump(offset)
        self.settling = offset is None
        self.committed = offset
        self.sought = 0

    def restart(self) -> None:
        """The source does not have the position: the reset policy decides, and may lead back.

        Also where the position came from the policy itself: its commit may be on its way."""
        self._jump(None)
        self.settling = True
        self.sought = self.epoch

    def begin_at(self, offset: int) -> None:
        """The reset policy's position, which is committed before anything is delivered."""
        self._jump(offset)
        self.sought = self.epoch if self.committed is not None or self.sought else 0

    def _jump(self, offset: int | None) -> None:
        """Drops what is buffered and in hand; None: the position is not known."""
        self.epoch += 1
        self.buffer.clear()
        self.full = False
        self.fetch_offset = offset
        self.tracker.seek(offset if offset is not None else self.tracker.position)

    def to_commit(self) -> int | None:
        """The processed position where it is news, else None."""
        if self.settling or self.tracker.position == self.committed:
            return None
        return self.tracker.position

    def was_committed(self, offset: int) -> None:
        self.committed = offset
