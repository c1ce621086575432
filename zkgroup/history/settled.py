"""L1-L4: once faults and changes have ended and the group had time to settle, it is whole and at rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from zkgroup.assignment.wildcards import evaluate
from zkgroup.errors import ConfigError
from zkgroup.history.evidence import Evidence
from zkgroup.history.plain_range import plain_range
from zkgroup.history.replay import Picture
from zkgroup.history.report import Violation
from zkgroup.model import TopicPartition


def from_server_log(evidence: Evidence) -> Iterator[Violation]:
    """Decides by the znodes: the picture at the deadline, and every change after it."""
    settled_at_ms = evidence.settled_at_ms
    assert settled_at_ms is not None
    picture = Picture(evidence.group)
    looked = False
    for transaction in evidence.transactions:
        if transaction.at_ms > settled_at_ms and not looked:
            looked = True
            yield from _whole(picture)
        for change in transaction.changes if transaction.refusal is None else ():
            place = picture.place(change.path)
            if (
                looked
                and place is not None
                and place.kind == "owner"
                and change.action in ("create", "delete")
            ):
                detail = (
                    f"its owner changed {transaction.at_ms - settled_at_ms} ms after the group had settled"
                )
                yield Violation("L4", detail, place.topic_partition, transaction.zxid)
            picture.apply(transaction, change)
    if not looked:
        yield from _whole(picture)


def from_records(evidence: Evidence) -> Iterator[Violation]:
    """Decides by what the members say: the last view that any of them planned from, and what each holds."""
    settled_at_ms = evidence.settled_at_ms
    assert settled_at_ms is not None
    views = [record for record in evidence.records if record.kind == "rebalance.begin"]
    before = [view for view in views if view.ms <= settled_at_ms]
    for view in views[len(before) :]:
        detail = f"{view.member} planned anew {view.ms - settled_at_ms:.0f} ms after the group had settled"
        yield Violation("L4", detail)
    if not before:
        return
    last = max(before, key=lambda view: (view.fields["generation"], view.ts)).fields
    owners: dict[TopicPartition, str] = {}
    for holding in evidence.holdings:
        over = holding.end is not None and holding.end.ms <= settled_at_ms
        if (
            holding.begin.ms <= settled_at_ms
            and not over
            and holding.member not in evidence.options.ended_members
        ):
            owners[holding.topic_partition] = holding.member
    expected = plain_range(last["members"], last["partitions"]) if last["strategy"] == "range" else None
    topics = {topic for wanted in last["members"].values() for topic in wanted}
    yield from _compare(
        {TopicPartition(topic, n) for topic in topics for n in last["partitions"].get(topic, ())},
        owners,
        None
        if expected is None
        else {TopicPartition(*key): thread.rpartition("-")[0] for key, thread in expected.items()},
        last["members"],
    )


def _whole(picture: Picture) -> Iterator[Violation]:
    registrations = picture.wanted()
    wanted: dict[str, Mapping[str, int]] = {}
    for member, registration in registrations.items():
        try:
            hidden = registration.exclude_internal is not False
            wanted[member] = evaluate(registration.wanted(), picture.topics, hidden)
        except ConfigError:
            return  # a wildcard that cannot be evaluated: nobody can say who should own what
    partitions: Mapping[str, Sequence[int]] = picture.topics
    plain = {registration.strategy or "range" for registration in registrations.values()} <= {"range"}
    topics = {topic for threads in wanted.values() for topic in threads}
    yield from _compare(
        {TopicPartition(topic, n) for topic in topics for n in partitions.get(topic, ())},
        {tp: owned.text for tp, owned in picture.owners.items()},
        {TopicPartition(*key): thread for key, thread in plain_range(wanted, partitions).items()}
        if plain
        else None,
        {owned.text: owned.member in wanted for owned in picture.owners.values()},
    )


def _compare(
    partitions: set[TopicPartition],
    owners: Mapping[TopicPartition, str],
    expected: Mapping[TopicPartition, str] | None,
    alive: Mapping[str, object],
) -> Iterator[Violation]:
    """`alive` has a true value, or any mapping, for owners that are members."""
    for tp in sorted(partitions - owners.keys()):
        yield Violation("L1", "nobody owns it", tp)
    for tp, owner in sorted(owners.items()):
        if alive.get(owner) is None or alive[owner] is False:
            yield Violation("L2", f"its owner {owner!r} is no member", tp)
        elif tp not in partitions:
            yield Violation("L2", f"owned by {owner!r}, but nobody wants it or it does not exist", tp)
        elif expected is not None and expected.get(tp) != owner:
            yield Violation("L3", f"owned by {owner!r}, which should be {expected.get(tp)!r}", tp)
