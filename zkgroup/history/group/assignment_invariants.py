"""Equal views lead to equal assignments (S10), and owners converge to the assignment (L1 to L4).

The range strategy is implemented here a second time, and shares no code with `zkgroup.assignment`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zkgroup.assignment.strategies import result_digest
from zkgroup.assignment.wildcards import evaluate
from zkgroup.errors import ConfigError
from zkgroup.history.group.replay import GroupEvidence, ReplayedGroup
from zkgroup.history.records import HistoryRecord, partition_of
from zkgroup.history.report import Figures, Violation
from zkgroup.model import TopicPartition


def plain_range(
    members: Mapping[str, Mapping[str, int]], partitions: Mapping[str, Sequence[int]]
) -> dict[tuple[str, int], str]:
    """(topic, partition) to thread id, from each member's thread counts by topic."""
    owners: dict[tuple[str, int], str] = {}
    for topic in {topic for wanted in members.values() for topic in wanted}:
        threads = [f"{name}-{n}" for name, wanted in members.items() for n in range(wanted.get(topic, 0))]
        threads.sort(key=lambda thread: thread.encode("utf-16-be"))
        left = sorted(set(partitions.get(topic, ())), reverse=True)
        while threads and left:
            # The next thread takes its share of what is left, rounded up.
            thread, share = threads[0], -(-len(left) // len(threads))
            del threads[0]
            owners.update({(topic, left.pop()): thread for _ in range(share)})
    return owners


_NO_PLAN = frozenset({"unsupported_subscription", "assignment_refused"})
"""A member that recorded one of these computes no new assignment in this rebalance."""


def check_views(evidence: GroupEvidence, figures: Figures) -> Iterator[Violation]:
    """Compares equal views (S10) over every assignment that a member recorded with its result."""
    views: dict[tuple[str, str], HistoryRecord] = {}
    results: dict[tuple[str, str], HistoryRecord] = {}
    for records in evidence.by_member.values():
        begun: HistoryRecord | None = None
        refused = False
        for record in records:
            if record.kind in _NO_PLAN:
                refused = True
            elif record.kind == "rebalance.begin":
                figures.rebalances += 1
                begun, refused = (None if refused else record), False
                if begun is not None:
                    yield from _same_view(views.setdefault(_key(record), record), record)
            elif record.kind == "rebalance.end" and begun is not None:
                if record.fields["generation"] == begun.fields["generation"]:
                    yield from _same_result(results.setdefault(_key(begun), record), record)
                    yield from _right(begun, record)
                begun = None


def _key(begin: HistoryRecord) -> tuple[str, str]:
    return begin.fields["strategy"], begin.fields["inputs"]


def _same_view(first: HistoryRecord, second: HistoryRecord) -> Iterator[Violation]:
    for name in ("members", "partitions"):
        if _plain(first.fields[name]) != _plain(second.fields[name]):
            detail = f"{first.member} and {second.member} hash different {name} to {first.fields['inputs']}"
            yield Violation("S10", detail)


def _same_result(first: HistoryRecord, second: HistoryRecord) -> Iterator[Violation]:
    if first.fields["result"] != second.fields["result"]:
        detail = (
            f"from the same view {first.member} computed {first.fields['result']},"
            f" {second.member} {second.fields['result']}"
        )
        yield Violation("S10", detail)


def _right(begin: HistoryRecord, end: HistoryRecord) -> Iterator[Violation]:
    """Compares the result, and the member's own share of it, with an independent computation."""
    if begin.fields["strategy"] != "range" or begin.fields.get("traits"):
        return
    computed = plain_range(begin.fields["members"], begin.fields["partitions"])
    expected = {TopicPartition(*key): thread for key, thread in computed.items()}
    if result_digest(expected) != end.fields["result"]:
        yield Violation(
            "S10", f"{end.member} computed {end.fields['result']}, which is not the range assignment"
        )
    for row in end.fields["mine"]:
        owner = expected.get(partition_of(row), "")
        if owner.rpartition("-")[0] != end.member:
            yield Violation("S10", f"{end.member} holds what range gives to {owner!r}", partition_of(row))


def _plain(value: Any) -> Any:
    """A form that does not depend on the order of keys and partitions."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return sorted(value) if isinstance(value, list | tuple) else value


def check_convergence_by_log(evidence: GroupEvidence) -> Iterator[Violation]:
    """L1 to L4 from the znodes: the owners at the deadline, and every change after it."""
    converged_by_ms = evidence.converged_by_ms
    assert converged_by_ms is not None
    replayed = ReplayedGroup(evidence.group)
    checked = False
    for transaction in evidence.transactions:
        if transaction.at_ms > converged_by_ms and not checked:
            checked = True
            yield from _check_owners(replayed)
        for change in transaction.changes if transaction.refusal is None else ():
            place = replayed.place(change.path)
            if (
                checked
                and place is not None
                and place.kind == "owner"
                and change.action in ("create", "delete")
            ):
                late_ms = transaction.at_ms - converged_by_ms
                detail = f"its owner changed {late_ms} ms after the group had converged"
                yield Violation("L4", detail, place.topic_partition, transaction.zxid)
            replayed.apply(transaction, change)
    if not checked:
        yield from _check_owners(replayed)


def check_convergence_by_records(evidence: GroupEvidence) -> Iterator[Violation]:
    """L1 to L4 from the members' records: the last view that any of them used, and what each owns."""
    converged_by_ms = evidence.converged_by_ms
    assert converged_by_ms is not None
    views = [record for record in evidence.records if record.kind == "rebalance.begin"]
    before = [view for view in views if view.ms <= converged_by_ms]
    for view in views[len(before) :]:
        late_ms = view.ms - converged_by_ms
        detail = f"{view.member} computed a new assignment {late_ms:.0f} ms after the group had converged"
        yield Violation("L4", detail)
    if not before:
        return
    last = max(before, key=lambda view: (view.fields["generation"], view.ts)).fields
    owners: dict[TopicPartition, str] = {}
    for holding in evidence.ownerships:
        over = holding.end is not None and holding.end.ms <= converged_by_ms
        if (
            holding.begin.ms <= converged_by_ms
            and not over
            and holding.member not in evidence.options.ended_members
        ):
            owners[holding.topic_partition] = holding.member
    is_plain = last["strategy"] == "range" and not last.get("traits")
    expected = plain_range(last["members"], last["partitions"]) if is_plain else None
    topics = {topic for wanted in last["members"].values() for topic in wanted}
    yield from _compare(
        {TopicPartition(topic, n) for topic in topics for n in last["partitions"].get(topic, ())},
        owners,
        None
        if expected is None
        else {TopicPartition(*key): thread.rpartition("-")[0] for key, thread in expected.items()},
        last["members"],
    )


def _check_owners(replayed: ReplayedGroup) -> Iterator[Violation]:
    registrations = replayed.wanted()
    wanted: dict[str, Mapping[str, int]] = {}
    for member, registration in registrations.items():
        try:
            hidden = registration.exclude_internal is not False
            wanted[member] = evaluate(registration.wanted(), replayed.topics, hidden)
        except ConfigError:
            return  # a wildcard that cannot be evaluated: the assignment is not known
    partitions: Mapping[str, Sequence[int]] = replayed.topics
    published = list(registrations.values())
    plain = {one.strategy or "range" for one in published} <= {"range"} and not (
        all(one.rack for one in published) or all(one.capacity for one in published)
    )
    topics = {topic for threads in wanted.values() for topic in threads}
    yield from _compare(
        {TopicPartition(topic, n) for topic in topics for n in partitions.get(topic, ())},
        {tp: owned.text for tp, owned in replayed.owners.items()},
        {TopicPartition(*key): thread for key, thread in plain_range(wanted, partitions).items()}
        if plain
        else None,
        {owned.text: owned.member in wanted for owned in replayed.owners.values()},
    )


def _compare(
    partitions: set[TopicPartition],
    owners: Mapping[TopicPartition, str],
    expected: Mapping[TopicPartition, str] | None,
    alive: Mapping[str, object],
) -> Iterator[Violation]:
    """`alive` has a true value for owners that are members."""
    for tp in sorted(partitions - owners.keys()):
        yield Violation("L1", "no member owns it", tp)
    for tp, owner in sorted(owners.items()):
        if alive.get(owner) is None or alive[owner] is False:
            yield Violation("L2", f"its owner {owner!r} is no member", tp)
        elif tp not in partitions:
            yield Violation(
                "L2", f"owned by {owner!r}, but no member subscribes to it or it does not exist", tp
            )
        elif expected is not None and expected.get(tp) != owner:
            yield Violation("L3", f"owned by {owner!r}, which should be {expected.get(tp)!r}", tp)
