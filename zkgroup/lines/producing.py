"""Which lines go to their leaders next, and what became of those that went. Pure.

What is promised: a line that is acknowledged is at its offset, and each line is acknowledged once at most.
A line is appended at least once: where no answer came, it may have been appended, and goes again. So it can
be in the log twice; its acknowledgement says so (`may_be_repeated`). Lines of a partition stay in order: one
batch of it is under way at a time, and where one fails for good, those behind it fail too, unsent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode, describe
from zkgroup.wire.replica_host import ACKS_ALL, ACKS_LEADER, AppendLinesRequest, AppendLinesResponse

LINE_BYTES_MAX = 16 * 1024 * 1024
"""Of one line; a broker takes requests of up to 100 MiB."""
AGAIN = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_FOR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
"""Errors after which another leader, or this one with more replicas in sync, may take the lines."""


class Acks(Enum):
    """When lines count as taken; Kafka's `acks`."""

    NONE = "0"
    """When they are sent: nothing is known of them afterwards."""
    LEADER = "1"
    """When the leader has them: they are lost with it."""
    ALL = "all"
    """When every in-sync replica has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How lines are appended. The names are Kafka's where Kafka has the setting."""

    acks: Acks = Acks.ALL
    delivery_timeout_ms: int = 120_000
    """From when lines are first in turn until they are given up."""
    request_timeout_ms: int = 30_000
    """For one answer, or less where the lines are given up before; then the connection is given up and the
    lines go again."""
    batch_bytes: int = 256 * 1024
    batch_lines: int = 5_000
    """At most so many lines in one request."""
    buffered_bytes: int = 32 * 1024 * 1024
    """Of lines that wait or are under way; beyond it `append` waits."""
    client_id: str = "zkgroup-producer"

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        for name in (
            "delivery_timeout_ms",
            "request_timeout_ms",
            "batch_bytes",
            "batch_lines",
            "buffered_bytes",
        ):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: expected at least 1, found {getattr(self, name)}")


class Outcome(Enum):
    """What became of lines."""

    ACKNOWLEDGED = "acknowledged"
    SENT = "sent"
    """With acks=0; whether they arrived is not known."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of some lines of a partition that went together."""

    topic_partition: TopicPartition
    outcome: Outcome
    numbers: tuple[int, ...]
    """Of the lines, as `append` gave them, in their order in the partition."""
    base_offset: int = -1
    """Of the first line, the others follow it; -1 unless acknowledged."""
    leader_epoch: int = -1
    """Of the leader that acknowledged; -1 unless acknowledged."""
    may_be_repeated: bool = False
    """Acknowledged: the lines may be in the log once more, at other offsets, because an earlier answer was
    lost. Failed: they may be in the log all the same."""
    reason: str = ""
    """Why they failed."""


@dataclass(slots=True)
class _Lane:
    """The lines of one partition."""

    waiting: deque[tuple[int, bytes]] = field(default_factory=deque)
    numbers: tuple[int, ...] = ()
    """Of the batch in turn: empty where none is."""
    lines: tuple[bytes, ...] = ()
    since_ms: int = 0
    """When its batch came into turn, or its first line where there is none."""
    under_way_epoch: int | None = None
    unsure: bool = False
    """The batch may have been appended."""
    trouble: str = "no leader was found"


class Producing:
    """Lines on their way. Times in ms of any steady clock."""

    def __init__(self, settings: ProducerSettings) -> None:
        self._settings = settings
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._deliveries: list[Delivery] = []
        self.held_bytes = 0
        """Of lines that wait or are under way."""

    # --- in ---------------------------------------------------------------------------------------

    def add(self, tp: TopicPartition, number: int, line: bytes, now_ms: int) -> None:
        """One more line, behind those of its partition. Raises ConfigError for what is no line."""
        if b"\n" in line:
            raise ConfigError(f"line {number}: expected no newline in it, found one at byte {line.index(10)}")
        if len(line) > LINE_BYTES_MAX:
            raise ConfigError(f"line {number}: expected at most {LINE_BYTES_MAX} bytes, found {len(line)}")
        lane = self._lanes.setdefault(tp, _Lane())
        if not lane.waiting and not lane.numbers:
            lane.since_ms = now_ms
        lane.waiting.append((number, line))
        self.held_bytes += len(line) + 1

    # --- out --------------------------------------------------------------------------------------

    def ready(self) -> Iterator[TopicPartition]:
        """Partitions with lines of which none is under way."""
        for tp, lane in self._lanes.items():
            if lane.under_way_epoch is None and (lane.numbers or lane.waiting):
                yield tp

    @property
    def is_idle(self) -> bool:
        """Whether no line waits or is under way."""
        return not any(lane.numbers or lane.waiting for lane in self._lanes.values())

    def request(self, tp: TopicPartition, leader_epoch: int) -> AppendLinesRequest:
        """The next batch of a partition that is ready, under way from now on; its end must be told."""
        lane = self._lanes[tp]
        assert lane.under_way_epoch is None
        if not lane.numbers:
            self._form(lane)
        lane.under_way_epoch = leader_epoch
        acks = ACKS_ALL if self._settings.acks is Acks.ALL else ACKS_LEADER
        return AppendLinesRequest(tp.topic, tp.partition, leader_epoch, acks, lane.lines)

    def _form(self, lane: _Lane) -> None:
        numbers: list[int] = []
        lines: list[bytes] = []
        size = 0
        while lane.waiting and len(lines) < self._settings.batch_lines:
            number, line = lane.waiting[0]
            size += len(line) + 1
            if lines and size > self._settings.batch_bytes:
                break
            lane.waiting.popleft()
            numbers.append(number)
            lines.append(line)
        lane.numbers, lane.lines, lane.unsure = tuple(numbers), tuple(lines), False

    def patience_ms(self, tp: TopicPartition, now_ms: int) -> int:
        """How long an answer to what is under way is waited for: not beyond the time to give its lines up."""
        left_ms = self._lanes[tp].since_ms + self._settings.delivery_timeout_ms - now_ms
        return max(1, min(self._settings.request_timeout_ms, left_ms))

    # --- what became of it ------------------------------------------------------------------------

    def answered(self, tp: TopicPartition, response: AppendLinesResponse, now_ms: int) -> str:
        """A leader's answer to what is under way. Returns why the leader is to be doubted, or nothing."""
        lane = self._lanes[tp]
        error = response.error
        trouble = "" if error == ErrorCode.NONE else f"{tp}: its leader answers {describe(error)}"
        if self._settings.acks is Acks.NONE:
            self._finish(tp, lane, Outcome.SENT, now_ms)
        elif error == ErrorCode.NONE:
            self._finish(tp, lane, Outcome.ACKNOWLEDGED, now_ms, base_offset=response.base_offset)
        elif error in AGAIN:
            self._again(tp, lane, trouble, unsure=response.base_offset >= 0, now_ms=now_ms)
        else:
            lane.unsure = lane.unsure or error != ErrorCode.INVALID_RECORD
            self._fail(tp, lane, trouble)
        return trouble

    def unanswered(self, tp: TopicPartition, sent: bool, trouble: str, now_ms: int) -> None:
        """What is under way found no answer; `sent`: the broker may have got it."""
        lane = self._lanes[tp]
        if sent and self._settings.acks is Acks.NONE:
            self._finish(tp, lane, Outcome.SENT, now_ms)
        else:
            self._again(tp, lane, trouble, sent, now_ms)

    def trouble(self, tp: TopicPartition, trouble: str) -> None:
        """Why the lines of a partition cannot go, in case that they are given up for it."""
        self._lanes[tp].trouble = trouble

    def expire(self, now_ms: int) -> None:
        """Gives up lines that have been in turn for too long and are not under way."""
        for tp, lane in self._lanes.items():
            if lane.under_way_epoch is None and (lane.numbers or lane.waiting):
                self._give_up_late(tp, lane, now_ms)

    def fail_all(self, reason: str) -> None:
        """Gives up every line, those under way included."""
        for tp, lane in self._lanes.items():
            if lane.numbers or lane.waiting:
                lane.unsure = lane.unsure or lane.under_way_epoch is not None
                self._fail(tp, lane, reason)

    def deadline_ms(self) -> int | None:
        """When the next line would be given up, of those not under way."""
        waiting = [self._lanes[tp].since_ms for tp in self.ready()]
        return min(waiting) + self._settings.delivery_timeout_ms if waiting else None

    def take_deliveries(self) -> list[Delivery]:
        """What became of lines since the last call."""
        taken, self._deliveries = self._deliveries, []
        return taken

    def _again(self, tp: TopicPartition, lane: _Lane, trouble: str, unsure: bool, now_ms: int) -> None:
        lane.under_way_epoch = None
        lane.unsure = lane.unsure or unsure
        lane.trouble = trouble
        self._give_up_late(tp, lane, now_ms)

    def _give_up_late(self, tp: TopicPartition, lane: _Lane, now_ms: int) -> None:
        limit_ms = self._settings.delivery_timeout_ms
        if now_ms - lane.since_ms >= limit_ms:
            self._fail(tp, lane, f"not acknowledged within {limit_ms} ms; last: {lane.trouble}")

    def _finish(
        self, tp: TopicPartition, lane: _Lane, outcome: Outcome, now_ms: int, base_offset: int = -1
    ) -> None:
        epoch = lane.under_way_epoch
        assert epoch is not None
        self._deliveries.append(
            Delivery(
                tp,
                outcome,
                lane.numbers,
                base_offset,
                epoch if outcome is Outcome.ACKNOWLEDGED else -1,
                may_be_repeated=lane.unsure,
            )
        )
        self._clear(lane)
        lane.since_ms = now_ms

    def _fail(self, tp: TopicPartition, lane: _Lane, reason: str) -> None:
        if not lane.numbers and lane.waiting:
            self._form(lane)
        first, unsure = lane.numbers, lane.unsure
        self._clear(lane)
        self._deliveries.append(Delivery(tp, Outcome.FAILED, first, may_be_repeated=unsure, reason=reason))
        behind = tuple(number for number, _ in lane.waiting)
        if behind:
            self.held_bytes -= sum(len(line) + 1 for _, line in lane.waiting)
            lane.waiting.clear()
            self._deliveries.append(
                Delivery(tp, Outcome.FAILED, behind, reason=f"{tp}: lines before them failed: {reason}")
            )

    def _clear(self, lane: _Lane) -> None:
        self.held_bytes -= sum(len(line) + 1 for line in lane.lines)
        lane.numbers, lane.lines, lane.unsure, lane.under_way_epoch = (), (), False, None
