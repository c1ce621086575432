"""Reads the progress of reassignments from ZooKeeper, and waits for their end. Writes nothing.

A move is under way while the request names it, and also while the topic itself says that it gains or loses
replicas: from 2.4 on moves can be asked for without the request (how moves are asked for, controller.md 4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from zkgroup.admin.cluster.brokers import read_states, read_topics, topic_names
from zkgroup.admin.cluster.controller import ControllerInfo, read_controller_info
from zkgroup.admin.reassign.submission import former_replicas
from zkgroup.errors import CorruptZnodeError, NotFoundError
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.snapshot import DecodedZnode, decode_or_error, value_of
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.reassignment_records import FinishedReassignment, finished_reassignments_path

POLL_S = 1.0
"""Seconds between two reads."""

DONE, IN_PROGRESS, FAILED, UNKNOWN = "done", "in_progress", "failed", "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentStatus:
    """One partition and how its move stands."""

    topic_partition: TopicPartition
    """The partition."""
    before: tuple[int, ...] | None
    """The replicas before the move; None where no znode shows them any more. Of a move that has begun
    the order may be another: the topic keeps the replicas, not their order."""
    target: tuple[int, ...]
    """The replica list that was asked for."""
    status: str
    """`done`, `in_progress`, `failed` (not moving, and not where it shall be) or `unknown` (unreadable)."""
    detail: str | None = None
    """The reason why it has this status; None if there is nothing to add."""
    bytes_left: int | None = None
    """Of a move under way: the bytes still to be copied; None where brokers do not say their sizes."""
    left_ms: int | None = None
    """The time left at the rate of a window, in milliseconds; None without one, and where nothing came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentProgress:
    """The progress of a set of moves."""

    done: int
    total: int
    elapsed_ms: int
    done_before: int = 0
    """The number that were done when the waiting began: they do not count for the rate."""
    bytes_left: int | None = None
    """The bytes that are still to be copied; None where brokers do not say their sizes."""
    bytes_done: int = 0
    """Those copied since the waiting began."""

    @property
    def per_minute(self) -> float | None:
        """Partitions a minute; None until one has been done."""
        fresh = self.done - self.done_before
        return fresh * 60_000 / self.elapsed_ms if fresh and self.elapsed_ms else None

    @property
    def bytes_per_second(self) -> float | None:
        """None until something has been copied."""
        return self.bytes_done * 1000 / self.elapsed_ms if self.bytes_done and self.elapsed_ms else None

    @property
    def left_ms(self) -> int | None:
        """Time left at the rate in bytes, else in partitions."""
        if self.bytes_left is not None and self.bytes_per_second is not None:
            return round(self.bytes_left * 1000 / self.bytes_per_second)
        rate = self.per_minute
        return None if rate is None else round((self.total - self.done) * 60_000 / rate)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Holds what one pass has read, in this order: an entry that is gone has left its result in the topic."""

    request: DecodedZnode[Reassignment] | None
    finished: Mapping[TopicPartition, FinishedReassignment]
    topics: Mapping[str, DecodedZnode[Topic]]
    states: Mapping[TopicPartition, PartitionState | None]
    info: ControllerInfo

    @property
    def targets(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        return self.request.value.targets if self.request and self.request.value else {}

    @property
    def readable(self) -> dict[str, Topic]:
        return {name: entry.value for name, entry in self.topics.items() if entry.value}


def verify_reassignments(
    ensemble: Ensemble, moves: Sequence[Move]
) -> tuple[AsOf, tuple[ReassignmentStatus, ...]]:
    """The status of each of these moves, in order."""
    ensemble.zk.sync("/")
    wanted = {move.topic_partition: move.replicas for move in moves}
    seen = _read(ensemble, sorted({tp.topic for tp in wanted}), list(wanted))
    rows = tuple(_status(seen, tp, target) for tp, target in sorted(wanted.items()))
    return ensemble.as_of(), rows


def list_reassignments(
    ensemble: Ensemble,
) -> tuple[AsOf, tuple[ReassignmentStatus, ...], tuple[CorruptZnodeError, ...]]:
    """Every move under way, in order, and what of it cannot be read."""
    ensemble.zk.sync("/")
    seen = _read(ensemble, topic_names(ensemble), [])
    moving = {
        TopicPartition(name, number): target_of(topic, number)
        for name, topic in seen.readable.items()
        for number in topic.moving
    }
    moving |= seen.targets
    rows = tuple(_status(seen, tp, target) for tp, target in sorted(moving.items()))
    errors = [seen.request.error] if seen.request else []
    errors += [entry.error for entry in seen.topics.values()]
    return ensemble.as_of(), rows, tuple(error for error in errors if error)


def target_of(topic: Topic, partition: int) -> tuple[int, ...]:
    """The replicas of a partition once its move has ended: without those that it removes."""
    removing = topic.removing.get(partition, ())
    return tuple(broker for broker in topic.partitions.get(partition, ()) if broker not in removing)


def moving_partitions(
    ensemble: Ensemble, selection: Sequence[tuple[str, Sequence[int]]]
) -> list[TopicPartition]:
    """The partitions of topics with their numbers; without numbers those that are being moved.

    Raises NotFoundError where of such a topic nothing is.
    """
    rows = list_reassignments(ensemble)[1] if selection else ()
    chosen: list[TopicPartition] = []
    for name, numbers in selection:
        moving = [row.topic_partition for row in rows if row.topic_partition.topic == name]
        if not numbers and not moving:
            raise NotFoundError(
                f"nothing of topic {name!r} is being moved; `zkgroup reassign list` shows what is"
            )
        chosen += [TopicPartition(name, number) for number in numbers] or moving
    return chosen


def nothing_moves(ensemble: Ensemble) -> bool:
    """Returns whether nothing is under way. A request that cannot be read is, as far as anybody knows."""
    _, rows, unreadable = list_reassignments(ensemble)
    return not rows and not any(error.path == Reassignment.path() for error in unreadable)


def wait_for_reassignments(
    ensemble: Ensemble,
    moves: Sequence[Move],
    timeout_s: float,
    on_progress: Callable[[ReassignmentProgress], object],
) -> tuple[AsOf, tuple[ReassignmentStatus, ...]]:
    """Reads until none of the moves is under way, or the time is over; the last read is the result.

    `on_progress` is called after every read.
    """
    tell = progress_of(ensemble, on_progress)

    def read() -> tuple[AsOf, tuple[ReassignmentStatus, ...]]:
        as_of, rows = verify_reassignments(ensemble, moves)
        tell(sum(row.status == DONE for row in rows), len(rows))
        return as_of, rows

    def is_over(found: tuple[AsOf, tuple[ReassignmentStatus, ...]]) -> bool:
        return all(row.status != IN_PROGRESS for row in found[1])

    return ensemble.read_until(read, is_over, timeout_s, POLL_S)


def progress_of(
    ensemble: Ensemble, on_progress: Callable[[ReassignmentProgress], object]
) -> Callable[[int, int], object]:
    """A function of how many moves are done, of how many: it calls `on_progress` with the time since now."""
    began = ensemble.clock.now_ms()
    first: list[int] = []

    def tell(done: int, total: int) -> None:
        first.append(done)
        elapsed = ensemble.clock.now_ms() - began
        on_progress(ReassignmentProgress(done=done, total=total, elapsed_ms=elapsed, done_before=first[0]))

    return tell


def _read(ensemble: Ensemble, topics: Sequence[str], partitions: Sequence[TopicPartition]) -> _Snapshot:
    znode = ensemble.zk.find(Reassignment.path())
    finished = _finished(ensemble)
    return _Snapshot(
        request=decode_or_error(znode, Reassignment.decode) if znode else None,
        finished=finished,
        topics=read_topics(ensemble, topics),
        states=read_states(ensemble, partitions),
        info=read_controller_info(ensemble),
    )


def _finished(ensemble: Ensemble) -> dict[TopicPartition, FinishedReassignment]:
    """The last record of each partition that controllers of zkgroup have left."""
    numbers = ensemble.numbers_below(finished_reassignments_path(), FinishedReassignment.sequence_of)
    found = ensemble.find_each(numbers, FinishedReassignment.path).values()
    records = (value_of(znode, FinishedReassignment.decode) for znode in found)
    return {record.topic_partition: record for record in records if record}


def _status(seen: _Snapshot, tp: TopicPartition, target: tuple[int, ...]) -> ReassignmentStatus:
    def row(status: str, detail: str | None, before: tuple[int, ...] | None = None) -> ReassignmentStatus:
        return ReassignmentStatus(
            topic_partition=tp, before=before, target=target, status=status, detail=detail
        )

    entry = seen.topics.get(tp.topic)
    if entry is not None and entry.error:
        return row(UNKNOWN, str(entry.error))
    topic = entry.value if entry else None
    now = topic.partitions.get(tp.partition) if topic else None
    if tp in seen.targets:
        former = former_replicas(topic, tp.partition, seen.targets[tp]) if topic and now else None
        return row(IN_PROGRESS, _why_still(seen, tp, target, now), former)
    if topic is None or now is None:
        return row(FAILED, f"{Topic.path(tp.topic)}: there is no such partition")
    if tp.partition in topic.moving:
        former = former_replicas(topic, tp.partition, target)
        detail = f"asked for through the brokers' API; now on {list(now)}"
        return row(IN_PROGRESS, detail, former)
    if seen.request is not None and seen.request.error:
        return row(UNKNOWN, str(seen.request.error))
    record = seen.finished.get(tp)
    former = record.before if record and record.target == target else None
    if now == target:
        return row(DONE, _behind(seen, tp, target), former)
    return row(FAILED, _why_not(now, target, record), former)


def _why_still(
    seen: _Snapshot, tp: TopicPartition, target: tuple[int, ...], now: tuple[int, ...] | None
) -> str | None:
    asked = seen.targets[tp]
    reasons = []
    if asked != target:
        reasons.append(f"is being moved to {list(asked)} instead")
    if dead := [broker for broker in asked if broker not in seen.info.brokers]:
        reasons.append(f"broker {', '.join(map(str, dead))} is not registered")
    if seen.info.controller_znode is None:
        reasons.append("there is no active controller")
    if now is None:
        reasons.append(f"{Topic.path(tp.topic)}: there is no such partition")
    return "; ".join(reasons) or None


def _behind(seen: _Snapshot, tp: TopicPartition, target: tuple[int, ...]) -> str | None:
    state = seen.states.get(tp)
    behind = [broker for broker in target if state and broker not in state.isr]
    return f"broker {', '.join(map(str, behind))} is not in sync now" if behind else None


def _why_not(now: tuple[int, ...], target: tuple[int, ...], record: FinishedReassignment | None) -> str:
    detail = f"is on {list(now)} and nothing moves it"
    if record is not None and record.target == target:
        return f"{detail}: {record.outcome} in epoch {record.epoch}, {record.reason}"
    if set(target) < set(now):
        detail += (
            ": the move has not been asked for since, or a controller has dropped it, which leaves old and "
        )
        return f"{detail}new replicas together"
    return detail
