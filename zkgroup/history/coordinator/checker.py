"""The checker of groups that brokers coordinate, and the invariants decided from records. Pure.

    S23  a generation is given once, by one coordinator and with one leader, until its group is removed
    S24  no two members of a generation are assigned the same partition
    S25  a commit is stored only in its own generation, and one of a client outside only without members
    S26  only the broker that set the slot last writes what a coordinator writes
    S27  ZooKeeper consumers and members of a coordinator are never in a group at once
    S28  an offset goes back only by the member that wrote it last, or by a client outside the group
    S29  a commit that was acknowledged is stored, or another one that was collected with it

S25 to S28 are decided at each transaction of the servers' log (`replay`). The records, with `owner` for the
`group.instance.id` or else the member id:

    generation.began   group, generation                               a coordinator has ended a join phase
    join.ok            group, generation, owner, leads                 JoinGroup was answered
    sync.ok            group, generation, owner, partitions            SyncGroup was answered
    commit.sent        group, generation, owner, commit                the commit's metadata are `commit`
    commit.ok          group, commit, partitions                       OffsetCommit was answered
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zkgroup.history.coordinator.replay import CoordinatedGroupsReplay, SentCommit
from zkgroup.history.records import HistoryRecord
from zkgroup.history.report import Violation
from zkgroup.history.transactions import ServerTransaction
from zkgroup.model import TopicPartition

DECIDED: Final = frozenset(f"S{number}" for number in range(23, 30))


@dataclass(frozen=True, slots=True)
class CoordinatorReport:
    """The result of checking the groups of one history."""

    violations: tuple[Violation, ...]
    """Every invariant that did not hold, once for each place."""
    figures: Mapping[str, int]
    """Counts of what happened: a run in which nothing happened proves nothing."""

    @property
    def holds(self) -> bool:
        """Whether there is no violation."""
        return not self.violations


def check_coordinator(
    transactions: Iterable[ServerTransaction], records: Iterable[HistoryRecord]
) -> CoordinatorReport:
    """Decides S23 to S29.

    Args:
        transactions: everything that the server accepted and refused, in any order.
        records: what coordinators and members recorded, in the order of time.
    """
    found = tuple(records)
    figures: Counter[str] = Counter()
    sent = {
        str(each.fields["commit"]): SentCommit(
            each.fields["group"], each.fields["generation"], str(each.fields["owner"])
        )
        for each in found
        if each.kind == "commit.sent"
    }
    replay = CoordinatedGroupsReplay(sent, figures)
    for transaction in sorted(transactions, key=lambda each: each.zxid):
        replay.apply(transaction)
    violations = [
        *check_generations(found, replay.removed, figures),
        *check_assignments(found),
        *replay.violations,
        *check_acknowledgements(found, replay.stored),
    ]
    return CoordinatorReport(tuple(violations), figures)


def check_generations(
    records: Sequence[HistoryRecord], removed: Mapping[str, Sequence[int]], figures: Counter[str]
) -> Iterator[Violation]:
    """S23: every generation begins once, until the group is removed, and its members have one leader."""
    began: dict[tuple[str, int], int] = {}
    """How often the group had been removed when the generation began."""
    leaders: dict[tuple[str, int], str] = {}
    for record in records:
        if record.kind not in ("generation.began", "join.ok"):
            continue
        generation = record.fields["group"], record.fields["generation"]
        if record.kind == "generation.began":
            figures["generations"] += 1
            life = sum(at_ms <= record.ms for at_ms in removed.get(generation[0], ()))
            if began.get(generation) == life:
                yield Violation("S23", f"generation {generation} began again, at {record.member}")
            began[generation] = life
            leaders.pop(generation, None)
            continue
        if generation not in began:
            yield Violation("S23", f"generation {generation} was given, and no coordinator has begun it")
        owner = record.fields["owner"]
        if record.fields["leads"] and leaders.setdefault(generation, owner) != owner:
            yield Violation("S23", f"generation {generation} is led by {leaders[generation]} and {owner}")


def check_assignments(records: Sequence[HistoryRecord]) -> Iterator[Violation]:
    """S24: the assignments of a generation are disjoint."""
    owners: dict[tuple[str, int, TopicPartition], str] = {}
    for record in records:
        if record.kind == "generation.began":
            begun = record.fields["group"], record.fields["generation"]
            owners = {key: owner for key, owner in owners.items() if key[:2] != begun}
        if record.kind != "sync.ok":
            continue
        for topic, number in record.fields["partitions"]:
            tp = TopicPartition(topic, number)
            key = record.fields["group"], record.fields["generation"], tp
            owner = owners.setdefault(key, record.fields["owner"])
            if owner != record.fields["owner"]:
                detail = (
                    f"assigned to {owner} and {record.fields['owner']} in generation {key[1]} of {key[0]}"
                )
                yield Violation("S24", detail, tp)


def check_acknowledgements(
    records: Sequence[HistoryRecord], stored: Mapping[tuple[str, TopicPartition], Sequence[int]]
) -> Iterator[Violation]:
    """S29: while a commit was under way that is acknowledged, one of its partition was stored."""
    sent_ms: dict[str, float] = {}
    for record in records:
        if record.kind == "commit.sent":
            sent_ms[record.fields["commit"]] = record.ms
        elif record.kind == "commit.ok":
            since_ms = sent_ms[record.fields["commit"]]
            for topic, number in record.fields["partitions"]:
                tp = TopicPartition(topic, number)
                times = stored.get((record.fields["group"], tp), ())
                if not any(since_ms <= at_ms <= record.ms for at_ms in times):
                    yield Violation("S29", f"commit {record.fields['commit']} was acknowledged", tp)
