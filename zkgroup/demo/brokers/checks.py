"""The checks at the end of `zkgroup demo brokers`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from zkgroup.demo.progress import CheckResult, named
from zkgroup.history import ClusterOptions, ClusterReport, HistoryRecord, ServerTransaction
from zkgroup.history.cluster.replay import ReplayedCluster, finished_reassignments
from zkgroup.model import TopicPartition
from zkgroup.znodes.controller import ControllerRecord

MUST_DECIDE = frozenset({"S11", "S12", "S13", "S14", "S15", "S16", "S17", "L6", "L7", "records"})
"""The invariants without which a verdict proves nothing."""
EVENTS_MIN = {
    "elections": 3,
    "leader_changes": 1,
    "moves_ended": 1,
    "isr_writes": 1,
    "acknowledged_records": 1,
}
"""What the servers' log must hold at least, by name of the checker's figures."""
REST_MS = 60_000
"""How long the end of a demo may take. A session of 4 s may expire meanwhile on a slow machine, and another
broker is controller then: that is no fault.
"""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """One record that a leader acknowledged: every in-sync replica has it."""

    number: int
    """Of its line in the input."""
    partition: int
    offset: int
    value: bytes
    may_be_repeated: bool = False


@dataclass(frozen=True, slots=True)
class ControllerTerm:
    """One epoch with its controller, from the record in ZooKeeper or as the broker reported it."""

    epoch: int
    broker: int


@dataclass(frozen=True, slots=True)
class CompletedReassignment:
    """The end of one partition's reassignment, and the epoch of the controller that ended it."""

    topic_partition: TopicPartition
    outcome: str
    epoch: int


@dataclass(frozen=True, slots=True)
class LogSummary:
    """What the ensemble's transaction log holds about the run."""

    controller_epochs: tuple[ControllerTerm, ...]
    completed: tuple[CompletedReassignment, ...]
    least_replicas: Mapping[int, int]
    """The shortest replica list that each partition of the topic ever had, each broker counted once."""


@dataclass(frozen=True, slots=True)
class InterruptedReassignment:
    """The reassignment during which the controller was killed."""

    asked: int
    """Partitions."""
    open_at_the_kill: int
    """Of these, the entries of the request just after the controller had died."""
    epoch: int
    """Of that controller."""


@dataclass(frozen=True, slots=True)
class ClusterEvidence:
    """Everything that the checks of the cluster read."""

    lines: int
    """In the input."""
    acknowledged: Sequence[Acknowledged]
    kept: Mapping[int, Sequence[bytes]]
    """Partition to the values of the records in the log of its final leader."""
    replication: int
    log: LogSummary
    reported_epochs: Sequence[ControllerTerm]
    """What the brokers' processes reported."""
    verdict: ClusterReport
    interrupted: InterruptedReassignment
    verified: Sequence[tuple[str, str]]
    """Each partition of each move, and what `reassign verify` said of it."""
    stuck: Sequence[str]
    """What was left undone at the end."""


def at_rest_from(quiet_from_ms: int) -> ClusterOptions:
    """The checker's options for a demo whose last step was done at this time."""
    return ClusterOptions(quiet_from_ms=quiet_from_ms, takeover_ms=REST_MS, recovery_ms=REST_MS)


def summarise(transactions: Iterable[ServerTransaction], topic: str) -> LogSummary:
    """Summarises an ensemble's log in one pass."""
    replayed = ReplayedCluster()
    controller_epochs: list[ControllerTerm] = []
    ended: list[CompletedReassignment] = []
    least: dict[int, int] = {}
    for transaction in transactions:
        if transaction.refusal is not None:
            continue
        for change in transaction.changes:
            replayed.apply(transaction, change)
            place = replayed.place(change.path)
            if place is None or change.action == "delete":
                continue
            if place.kind == "history" and change.action == "create":
                record = ControllerRecord.decode(change.path, change.data)
                controller_epochs.append(ControllerTerm(place.number, record.broker))
            elif place.kind == "topic" and place.topic == topic:
                lists = replayed.topics.get(topic)
                for number, replicas in (lists.partitions if lists else {}).items():
                    size = len(set(replicas))
                    least[number] = min(size, least.get(number, size))
        ended += [
            CompletedReassignment(one.topic_partition, one.outcome, one.epoch)
            for one in finished_reassignments(transaction)
        ]
    return LogSummary(tuple(controller_epochs), tuple(ended), least)


def records_of(
    topic: str,
    acknowledged: Iterable[Acknowledged],
    kept: Mapping[int, Sequence[bytes]],
    leaders: Mapping[int, int],
    terms: Iterable[tuple[int, TopicPartition, int]],
) -> tuple[HistoryRecord, ...]:
    """The records of the history checker: what was acknowledged and kept, and the leader of each epoch.

    Args:
        leaders: partition to the broker that leads it in the end.
        terms: broker, partition and leader epoch of each leadership, as the brokers reported them: of all
            topics, as clients create further ones.
    """
    made: list[HistoryRecord] = []

    def add(kind: str, tp: TopicPartition, fields: Mapping[str, object]) -> None:
        number = len(made) + 1
        place = {"topic": tp.topic, "partition": tp.partition}
        made.append(HistoryRecord(number, number, 0, "demo", None, kind, {**place, **fields}))

    for broker, tp, epoch in terms:
        add("role.taken", tp, {"broker": broker, "leader": broker, "leader_epoch": epoch})
    for one in acknowledged:
        tp = TopicPartition(topic, one.partition)
        add("append.ok", tp, {"offset": one.offset, "records": [_text(one.value)]})
    for partition, values in kept.items():
        tp = TopicPartition(topic, partition)
        add("records.kept", tp, {"broker": leaders[partition], "records": [*map(_text, values)]})
    return tuple(made)


def check_brokers(evidence: ClusterEvidence) -> tuple[CheckResult, ...]:
    """All checks, in the order in which the report prints them."""
    return (
        _all_acknowledged(evidence),
        _all_there(evidence),
        _one_controller(evidence),
        _never_fewer_replicas(evidence),
        _finished_by_successor(evidence),
        _verified(evidence),
        _not_stuck(evidence),
        _checked(evidence),
    )


def _all_acknowledged(evidence: ClusterEvidence) -> CheckResult:
    numbers = [one.number for one in evidence.acknowledged]
    missing = sorted(set(range(evidence.lines)) - set(numbers))
    text = f"{len(set(numbers)):,} of {evidence.lines:,}"
    if missing:
        text += f"; not that of line {named([str(number + 1) for number in missing])}"
    if twice := len(numbers) - len(set(numbers)):
        text += f"; {twice:,} of them twice"
    return CheckResult("every record was acknowledged once", not missing and not twice, text)


def _all_there(evidence: ClusterEvidence) -> CheckResult:
    """Compares every acknowledged record, byte for byte, with the log of the final leader."""
    lost = [
        f"{one.partition}:{one.offset}"
        for one in evidence.acknowledged
        if _at(evidence.kept.get(one.partition, ()), one.offset) != one.value
    ]
    held = sum(map(len, evidence.kept.values()))
    text = f"{len(evidence.acknowledged) - len(lost):,} in {len(evidence.kept)} logs of {held:,} records"
    if lost:
        text += f"; not at {named(lost)}"
    holds = not lost and bool(evidence.acknowledged)
    return CheckResult("every acknowledged record is at its offset in the final leader's log", holds, text)


def _one_controller(evidence: ClusterEvidence) -> CheckResult:
    """Compares ZooKeeper's records with the brokers' reports; epochs must follow each other without a gap."""
    controllers: dict[int, set[int]] = {}
    for one in (*evidence.log.controller_epochs, *evidence.reported_epochs):
        controllers.setdefault(one.epoch, set()).add(one.broker)
    times = [one.epoch for one in evidence.log.controller_epochs]
    faults = [
        f"epoch {epoch}: brokers {_list(who)}" for epoch, who in sorted(controllers.items()) if len(who) > 1
    ]
    faults += [f"epoch {epoch} was won {times.count(epoch)} times" for epoch in _repeated(times)]
    unrecorded = sorted(set(controllers) - set(times))
    faults += [f"epoch {epoch} has no record" for epoch in unrecorded]
    gaps = sorted(set(range(1, max(controllers, default=0) + 1)) - set(controllers))
    faults += [f"epoch {epoch} belongs to no broker" for epoch in gaps]
    brokers = ", ".join(f"{epoch}: broker {_list(who)}" for epoch, who in sorted(controllers.items()))
    text = f"{len(controllers)} epochs ({brokers})" if not faults else named(faults)
    return CheckResult("one controller an epoch", bool(controllers) and not faults, text)


def _never_fewer_replicas(evidence: ClusterEvidence) -> CheckResult:
    short = [
        f"{number} had {size}"
        for number, size in sorted(evidence.log.least_replicas.items())
        if size < evidence.replication
    ]
    count = len(evidence.log.least_replicas)
    text = f"never fewer than {evidence.replication} in {count} partitions"
    if short:
        text = f"fewer than {evidence.replication}: partition {named(short)}"
    return CheckResult("no partition had fewer replicas than it should", bool(count) and not short, text)


def _finished_by_successor(evidence: ClusterEvidence) -> CheckResult:
    """Some reassignments were open when the controller died, and a later controller ended them."""
    move = evidence.interrupted
    later = [one for one in evidence.log.completed if one.epoch > move.epoch]
    broken = [
        f"{one.topic_partition} {one.outcome}" for one in evidence.log.completed if one.outcome != "done"
    ]
    text = f"{move.open_at_the_kill} of {move.asked} were open when it died; all done"
    if broken:
        text = f"not done: {named(broken)}"
    elif not move.open_at_the_kill:
        text = "nothing was open any more when it died"
    elif len(later) < move.open_at_the_kill:
        text = f"{move.open_at_the_kill} were open when it died, {len(later)} have ended since"
    holds = not broken and 0 < move.open_at_the_kill <= len(later)
    return CheckResult("the next controller finished the move", holds, text)


def _verified(evidence: ClusterEvidence) -> CheckResult:
    wrong = [f"{partition} {status}" for partition, status in evidence.verified if status != "done"]
    text = f"{len(evidence.verified) - len(wrong)} of {len(evidence.verified)} moves done"
    if wrong:
        text += f"; {named(wrong)}"
    return CheckResult("reassign verify: every replica is where the plan puts it", not wrong, text)


def _not_stuck(evidence: ClusterEvidence) -> CheckResult:
    return CheckResult(
        "nothing is stuck", not evidence.stuck, named(evidence.stuck) or "all led, all in sync, no move open"
    )


def _checked(evidence: ClusterEvidence) -> CheckResult:
    """The history checker's verdict over the ensemble's log. A log with too few events proves nothing."""
    report, figures = evidence.verdict, evidence.verdict.figures
    text = f"{figures.transactions:,} transactions, {len(report.violations)} violations"
    if report.violations:
        text += f": {named([str(one) for one in report.violations])}"
    if report.damage:
        text += f"; damaged: {named(report.damage)}"
    undecided = sorted(MUST_DECIDE - report.decided)
    if undecided:
        text += f"; not decided: {named(undecided)}"
    short = [
        f"{name}: {getattr(figures, name)} of {least}"
        for name, least in EVENTS_MIN.items()
        if getattr(figures, name) < least
    ]
    if short:
        text += f"; too little happened: {named(short)}"
    holds = report.holds and not undecided and not short
    return CheckResult("the checker finds nothing (S11 to S17, L6, L7)", holds, text)


def _at(values: Sequence[bytes], offset: int) -> bytes | None:
    return values[offset] if 0 <= offset < len(values) else None


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _repeated(numbers: Sequence[int]) -> list[int]:
    return sorted({number for number in numbers if numbers.count(number) > 1})


def _list(brokers: Iterable[int]) -> str:
    return " and ".join(map(str, sorted(brokers)))
