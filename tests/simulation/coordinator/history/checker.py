"""The checker of groups that brokers coordinate, and the invariants decided from records. Pure.

    S23  a generation is given once, by one coordinator and with one leader, until its group is removed
    S24  no two members of a generation own the same partition, whether assigned in it or kept since before
    S25  a commit is stored only since its generation began, and until a later one is stored; one of a client
         outside only without members
    S26  only the broker that set the slot last writes what a coordinator writes
    S27  ZooKeeper consumers and members of a coordinator are never in a group at once
    S28  an offset goes back only by the member that wrote it last, a client outside the group, an operator,
         or where a cooperative member has missed a generation and kept what that one gave to another member
    S29  a commit that was acknowledged is stored, or another one that was collected with it
    S30  a group is removed only without members, leaves nothing, and gets no commit of a former member
    S31  offsets are deleted only where no member of either kind needs them
    S32  an operator changes offsets only without members, and no commit that is older is stored over it
    S33  a static member that an administrator has removed stores no commit
    S34  no client gets an offset that was committed before the topic was created again

S25 to S28, and what S30 to S33 say of ZooKeeper, are decided at each transaction of the servers' log
(`replay`). The records, with `owner` for the `group.instance.id` or else the member id:

    generation.began   group, generation                               a coordinator has ended a join phase
    join.ok            group, generation, owner, leads, kept, member_id, since_ms
                                                                       JoinGroup was answered; `kept`: owned
    sync.ok            group, generation, owner, partitions            SyncGroup was answered
    commit.sent        group, generation, owner, commit, member_id     the commit's metadata are `commit`
    commit.ok          group, commit, partitions                       OffsetCommit was answered
    fetch.ok           group, since_ms, offsets                        OffsetFetch was answered; with metadata
    group.deleted      group, since_ms                                 DeleteGroups was answered
    offsets.deleted    group, since_ms, partitions                     OffsetDelete was answered
    static.removing    group, owner, request                           LeaveGroup was sent for another member
    static.removed     group, owner, request                           that was answered

`since_ms` is when the request was sent. `kept`, `member_id` and the records of administration may be missing:
then less is decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.simulation.coordinator.history.administration import check_deletions, removed_members
from tests.simulation.coordinator.history.replay import CoordinatedGroupsReplay, SentCommit
from zkgroup.history.records import HistoryRecord
from zkgroup.history.report import Violation
from zkgroup.history.transactions import ServerTransaction
from zkgroup.model import TopicPartition

DECIDED: Final = frozenset(f"S{number}" for number in range(23, 35))


@dataclass(frozen=True, slots=True)
class CoordinatorReport:
    """The result of checking the groups of one history."""

    violations: tuple[Violation, ...]
    """Every invariant that did not hold, once for each place."""
    figures: Mapping[str, int]
    """Counts of what happened: a run in which nothing happened proves nothing."""

    @property
    def holds(self) -> bool:
        """True if there is no violation."""
        return not self.violations


def check_coordinator(
    transactions: Iterable[ServerTransaction], records: Iterable[HistoryRecord]
) -> CoordinatorReport:
    """Decides the invariants of coordinated groups (S23 to S34).

    Args:
        transactions: everything that the server accepted and refused, in any order.
        records: what coordinators and members recorded, in the order of time.
    """
    found = tuple(records)
    figures: Counter[str] = Counter()
    kept = {
        _membership(each): frozenset(TopicPartition(*place) for place in each.fields.get("kept", ()))
        for each in found
        if each.kind == "join.ok"
    }
    sent = {
        str(each.fields["commit"]): SentCommit(
            group=each.fields["group"],
            generation=each.fields["generation"],
            owner=str(each.fields["owner"]),
            member_id=each.fields.get("member_id", ""),
            sent_ms=each.ms,
            kept=kept.get(_membership(each), frozenset()),
        )
        for each in found
        if each.kind == "commit.sent"
    }
    begun: dict[tuple[str, int], float] = {}
    for each in found:
        if each.kind == "generation.began":
            begun.setdefault((each.fields["group"], each.fields["generation"]), each.ms)
    replay = CoordinatedGroupsReplay(sent, figures, removed_members(found), begun)
    for transaction in sorted(transactions, key=lambda each: each.zxid):
        replay.apply(transaction)
    violations = [
        *check_generations(found, replay.removed, figures),
        *check_assignments(found, figures),
        *replay.violations,
        *check_acknowledgements(found, replay.stored),
        *check_deletions(found, replay.absences),
        *check_fetches(found, replay, figures),
    ]
    return CoordinatorReport(tuple(violations), figures)


def _membership(record: HistoryRecord) -> tuple[str, int, str]:
    """Group, generation and owner."""
    return record.fields["group"], record.fields["generation"], str(record.fields["owner"])


def check_generations(
    records: Sequence[HistoryRecord], removed: Mapping[str, Sequence[int]], figures: Counter[str]
) -> Iterator[Violation]:
    """Every generation begins once, until the group is removed, and its members have one leader (S23).

    A client that asked before the removal may be answered for the group that was removed.
    """

    def life(group: str, at_ms: float) -> int:
        return sum(each <= at_ms for each in removed.get(group, ()))

    began: dict[tuple[str, int], int] = {}
    """Number of times that the group had been removed when the generation began."""
    leaders: dict[tuple[str, int], str] = {}
    for record in records:
        if record.kind not in ("generation.began", "join.ok"):
            continue
        generation = record.fields["group"], record.fields["generation"]
        if record.kind == "generation.began":
            figures["generations"] += 1
            present = life(generation[0], record.ms)
            if began.get(generation) == present:
                yield Violation("S23", f"generation {generation} began again, at {record.member}")
            began[generation] = present
            leaders.pop(generation, None)
            continue
        if generation not in began:
            yield Violation("S23", f"generation {generation} was given, and no coordinator has begun it")
        elif life(generation[0], record.fields.get("since_ms", record.ms)) < began[generation]:
            continue
        owner = record.fields["owner"]
        if record.fields["leads"] and leaders.setdefault(generation, owner) != owner:
            yield Violation("S23", f"generation {generation} is led by {leaders[generation]} and {owner}")


def check_assignments(records: Sequence[HistoryRecord], figures: Counter[str]) -> Iterator[Violation]:
    """No two members of a generation own the same partition (S24).

    A cooperative member owns what it kept when it joined, until its assignment says otherwise; but no
    longer what a generation that it was not in has given to another member.
    """
    owners: dict[tuple[str, int, TopicPartition], str] = {}
    assigned: dict[tuple[str, TopicPartition], tuple[int, str]] = {}
    """The last generation that assigned a partition, and to whom."""
    for record in records:
        if record.kind == "generation.began":
            group, generation = record.fields["group"], record.fields["generation"]
            owners = {key: each for key, each in owners.items() if key[0] != group or key[1] < generation}
            assigned = {
                key: each for key, each in assigned.items() if key[0] != group or each[0] < generation
            }
            continue
        if record.kind not in ("join.ok", "sync.ok"):
            continue
        group, generation, member = (record.fields[each] for each in ("group", "generation", "owner"))
        is_assigned = record.kind == "sync.ok"
        for topic, number in record.fields["partitions"] if is_assigned else record.fields.get("kept", ()):
            tp = TopicPartition(topic, number)
            if is_assigned:
                assigned[group, tp] = max(assigned.get((group, tp), (0, "")), (generation, member))
            elif assigned.get((group, tp), (0, member))[1] != member:
                continue
            else:
                figures["partitions kept"] += 1
            owner = owners.setdefault((group, generation, tp), member)
            if owner != member:
                detail = f"owned by {owner} and {member} in generation {generation} of {group}"
                yield Violation("S24", detail, tp)


def check_acknowledgements(
    records: Sequence[HistoryRecord], stored: Mapping[tuple[str, TopicPartition], Sequence[int]]
) -> Iterator[Violation]:
    """While a commit was under way that is acknowledged, one of its partition was stored (S29)."""
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


def check_fetches(
    records: Sequence[HistoryRecord], replay: CoordinatedGroupsReplay, figures: Counter[str]
) -> Iterator[Violation]:
    """No fetch gets an offset that was committed before the topic was created again (S34)."""
    for record in records:
        if record.kind != "fetch.ok":
            continue
        group, since_ms = record.fields["group"], record.fields["since_ms"]
        for topic, number, commit in record.fields["offsets"]:
            tp = TopicPartition(topic, number)
            zxid = replay.commit_zxids.get((group, tp, commit))
            figures["commits fetched"] += zxid is not None
            if zxid is None:
                continue
            for created_zxid, created_ms in replay.topic_created(topic):
                if zxid < created_zxid and created_ms < since_ms:
                    yield Violation("S34", f"{group} got commit {commit} of a former topic", tp, zxid=zxid)
