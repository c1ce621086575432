"""The checks at the end of `zkgroup demo coordinator`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from zkgroup.demo.coordinator.stored_group import StoredCommit, StoredHistory
from zkgroup.demo.flight_data import MemberOutput, Reduction
from zkgroup.demo.group.checks import check_committed, check_result
from zkgroup.demo.progress import CheckResult, named
from zkgroup.history import ClusterReport, Report
from zkgroup.history.coordinator import CoordinatorReport

CLUSTER_MIN = {"elections": 1, "leader_changes": 1, "isr_writes": 1, "acknowledged_records": 1}
"""What the servers' log must hold at least, by name of the cluster checker's figures."""
MEMBERS_MIN = {"claims": 1, "commits": 1, "deliveries": 1}
"""What the history of the ZooKeeper consumers must hold at least."""
COORDINATOR_MIN = ("commits of members", "commits of ZooKeeper members", "slots taken", "markers set")
"""Figures of the checker of coordinated groups that may not be 0."""
GENERATIONS_MIN = 4
"""The first, without the killed client, without the paused one, with it again."""


@dataclass(frozen=True, slots=True)
class PartitionRun:
    """What one member read of one partition in one assignment."""

    partition: int
    token: int
    member: str
    first: int
    """Offset of its first record."""


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The group when the clients had left."""

    lines: int
    """Records acknowledged until then."""
    committed: Mapping[int, int | None]
    ends: Mapping[int, int]
    """Partition to the next offset of its log."""


@dataclass(frozen=True, slots=True)
class CoordinatorEvidence:
    """Everything that the checks read."""

    lines: int
    """Records of the input."""
    acknowledged: int
    input_lines: Sequence[Sequence[bytes]]
    """The records of each partition, in the log of its final leader."""
    outputs: Sequence[MemberOutput]
    """Of the clients, then of the ZooKeeper consumers."""
    reduction: Reduction
    stored: StoredHistory
    handed_over: HandedOver
    committed: Mapping[int, int | None]
    """At the end, by partition; None for none."""
    zookeeper_members: Sequence[str]
    """Names of the members that carried on."""
    verify_problems: Sequence[str]
    """Problems that `group verify` found, of each kind of members while they ran."""
    members: Report
    """The history checker's report on the ZooKeeper consumers."""
    cluster: ClusterReport
    """The report on the brokers."""
    coordinator: CoordinatorReport
    """The report on commits, coordinators and kinds of members: S25 to S28."""


def check_group(evidence: CoordinatorEvidence) -> tuple[CheckResult, ...]:
    """All checks, in the order in which the report prints them."""
    return (
        *check_result(evidence.input_lines, evidence.reduction),
        _bounded(evidence),
        _handed_over(evidence.handed_over),
        _one_owner(evidence.stored),
        _commits_of_owners(evidence.stored),
        _one_kind(evidence),
        _carried_on(evidence),
        check_committed(evidence.input_lines, evidence.committed),
        _verified(evidence.verify_problems),
        _checked(evidence),
    )


def runs_of(outputs: Sequence[MemberOutput]) -> list[PartitionRun]:
    """Every run, in the order of the assignments."""
    found: dict[tuple[int, int, str], PartitionRun] = {}
    for output in outputs:
        for record in output.records:
            key = (record.token, record.partition, output.member)
            if key not in found:
                found[key] = PartitionRun(record.partition, record.token, output.member, record.offset)
    return [found[key] for key in sorted(found)]


def _bounded(evidence: CoordinatorEvidence) -> CheckResult:
    """Each run begins at a committed offset, not below what earlier assignments have committed."""
    clients = {one for one in runs_of(evidence.outputs) if one.member not in evidence.zookeeper_members}
    commits = [one for one in evidence.stored.commits if one.client is not None]
    faults = []
    for run in sorted(clients, key=lambda one: (one.token, one.partition)):
        own = [one for one in commits if one.partition == run.partition]
        before = max((one.offset for one in own if 0 < one.token < run.token), default=0)
        if run.first < before:
            faults.append(f"{run.member} began {run.partition} at {run.first}, committed was {before}")
        elif run.first and run.first not in {one.offset for one in own}:
            faults.append(f"{run.member} began {run.partition} at {run.first}, which was not committed")
    repeated = sum(count - 1 for count in evidence.reduction.repeated.values())
    text = f"{repeated:,} twice; {len(clients)} starts, each at the committed offset"
    return CheckResult(
        "nothing twice but what was not committed", bool(clients) and not faults, named(faults) or text
    )


def _handed_over(found: HandedOver) -> CheckResult:
    behind = [
        f"{number} at {found.committed.get(number)} of {end}"
        for number, end in sorted(found.ends.items())
        if found.committed.get(number) != end
    ]
    total = sum(value or 0 for value in found.committed.values())
    text = f"{total:,} of {found.lines:,} records in {len(found.ends)} partitions"
    return CheckResult(
        "the clients committed everything to its end",
        bool(found.ends) and total == found.lines and not behind,
        named(behind) or text,
    )


def _one_owner(stored: StoredHistory) -> CheckResult:
    """No stored generation gives a partition to two members, and no number is given to two assignments."""
    faults = [
        f"generation {one.generation}: {number} belongs to {' and '.join(owners)}"
        for one in stored.generations
        for number, owners in sorted(one.owners.items())
        if len(owners) > 1
    ]
    for before, after in zip(stored.generations, stored.generations[1:], strict=False):
        if after.generation < before.generation:
            faults.append(f"generation {after.generation} after {before.generation}")
        elif after.generation == before.generation and after.owners != before.owners:
            faults.append(f"generation {after.generation} has two assignments")
    numbers = sorted({one.generation for one in stored.generations})
    text = f"{len(numbers)} generations, {numbers[0]} to {numbers[-1]}" if numbers else "no generation"
    if len(numbers) < GENERATIONS_MIN:
        faults.append(f"too little happened: {text}")
    return CheckResult("no two members of a generation own one partition", not faults, named(faults) or text)


def _commits_of_owners(stored: StoredHistory) -> CheckResult:
    """Each stored commit is of the member that owns the partition in the generation stored last."""
    commits = [one for one in stored.commits if one.client is not None]
    faults = [
        f"zxid {one.zxid:#x}: {one.partition}:{one.offset} by {one.client or 'Java'}"
        for one in commits
        if not _is_of_owner(one)
    ]
    text = f"{len(commits):,} commits of clients in ZooKeeper's log, all of owners"
    return CheckResult(
        "no commit of an old generation was accepted", bool(commits) and not faults, named(faults) or text
    )


def _is_of_owner(commit: StoredCommit) -> bool:
    """Java's console consumer, whose client id is `java`, commits without metadata."""
    return (commit.client or "java") in commit.owners


def _one_kind(evidence: CoordinatorEvidence) -> CheckResult:
    stored = evidence.stored
    text = f"{stored.registrations} ZooKeeper consumers, after the last client had left"
    return CheckResult(
        "one kind of members at a time",
        stored.registrations >= len(evidence.zookeeper_members) > 0 and not stored.mixed,
        named(stored.mixed) or text,
    )


def _carried_on(evidence: CoordinatorEvidence) -> CheckResult:
    """The ZooKeeper consumers began where the clients had stopped."""
    first: dict[int, int] = {}
    for output in evidence.outputs:
        if output.member in evidence.zookeeper_members:
            for record in output.records:
                first[record.partition] = min(record.offset, first.get(record.partition, record.offset))
    faults = [
        f"{number} at {offset}, committed was {evidence.handed_over.committed.get(number)}"
        for number, offset in sorted(first.items())
        if offset != evidence.handed_over.committed.get(number)
    ]
    count = sum(
        len(output.records) for output in evidence.outputs if output.member in evidence.zookeeper_members
    )
    text = f"{count:,} records by {' and '.join(evidence.zookeeper_members)}, from the same offsets"
    return CheckResult(
        "ZooKeeper members carried on at the same offsets", bool(first) and not faults, named(faults) or text
    )


def _verified(problems: Sequence[str]) -> CheckResult:
    return CheckResult(
        "group verify is clean", not problems, named(list(problems)) or "clients and ZooKeeper members"
    )


def _checked(evidence: CoordinatorEvidence) -> CheckResult:
    """The history checkers' verdicts over ZooKeeper's log and the members' histories."""
    cluster, members, coordinator = evidence.cluster, evidence.members, evidence.coordinator
    found = (*cluster.violations, *members.violations, *coordinator.violations)
    faults = [str(one) for one in found]
    faults += [*cluster.damage, *members.damage, *_too_little(evidence)]
    text = f"{cluster.figures.transactions:,} transactions, {members.figures.records:,} events, no violation"
    holds = cluster.holds and members.holds and not faults
    return CheckResult("the checker finds nothing", holds, named(faults) or text)


def _too_little(evidence: CoordinatorEvidence) -> Iterator[str]:
    """What happened too seldom to prove anything."""
    figures = evidence.cluster.figures
    for name, least in CLUSTER_MIN.items():
        if getattr(figures, name) < least:
            yield f"{name}: {getattr(figures, name)} of {least}"
    yield from evidence.members.shortfalls(MEMBERS_MIN)
    for name in COORDINATOR_MIN:
        if not evidence.coordinator.figures.get(name):
            yield f"{name}: none"
    if evidence.acknowledged != evidence.lines:
        yield f"acknowledged: {evidence.acknowledged:,} of {evidence.lines:,}"
