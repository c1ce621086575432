"""Previews the assignment of a group after a change of members, partitions or strategy. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from zkgroup.assignment import agreed_strategy, assign
from zkgroup.errors import ConfigError, NotFoundError
from zkgroup.groups.descriptions import Preview, PreviewRow
from zkgroup.groups.freezes import freeze_text
from zkgroup.groups.snapshot import GroupSnapshot
from zkgroup.groups.verify import evaluate_members, expected_ownership, is_in_foreign_format
from zkgroup.model import EvaluatedMember, TopicPartition
from zkgroup.znodes.brokers import Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """A change to imagine; several parts combine. An empty change shows the plan for the group as it is."""

    members: int | None = None
    """Total number of members: the last ones by name go, or ones like the present are added."""
    add: tuple[tuple[str, Mapping[str, int] | None], ...] = ()
    """Members to add: id (with or without `<group>_`) and threads by topic, None: like the present ones."""
    remove: tuple[str, ...] = ()
    """Ids of members to remove."""
    add_partitions: Mapping[str, int] = field(default_factory=dict)
    """Topic to the number of partitions to add."""
    assignor: str | None = None
    """The assignment strategy to use; None for the one that the group uses."""


def preview_group(snapshot: GroupSnapshot, change: GroupChange) -> Preview:
    """The owners now, and those that the group would reach after the change.

    Raises NotFoundError for a member or topic that is not there, ConfigError for a change that cannot
    be evaluated (no member to copy a subscription from, a strategy that does not apply).
    """
    expected = expected_ownership(snapshot)
    members, notes = _changed_members(snapshot, change)
    topics = sorted({topic for member in members for topic in member.threads})
    unknown = sorted(set(change.add_partitions) - set(snapshot.topic_names))
    if unknown:
        raise NotFoundError(
            f"{Topic.path(unknown[0])}: there is no topic {unknown[0]!r} to add partitions to"
        )
    partitions = {
        topic: _grown(snapshot.partitions(topic), change.add_partitions.get(topic, 0)) for topic in topics
    }
    now = {tp: entry.text for tp, entry in snapshot.owners.items()}
    strategy = change.assignor or _agreed(snapshot, members) or expected.assignor
    then = assign(strategy, members, partitions, now, snapshot.racks(partitions))
    everything = sorted({TopicPartition(t, p) for t, ps in partitions.items() for p in ps} | set(now))
    after = {tp: _in_format(snapshot, tp, thread) for tp, thread in then.owners.items()}
    rows = tuple(PreviewRow(topic_partition=tp, now=now.get(tp), then=after.get(tp)) for tp in everything)
    return Preview(
        as_of=snapshot.as_of,
        group=snapshot.group,
        assignor=strategy,
        partitions=rows,
        moves=sum(row.step == "moves" for row in rows),
        notes=(*_notes_on_group(snapshot, topics), *notes, *then.notes),
    )


def _agreed(snapshot: GroupSnapshot, members: Sequence[EvaluatedMember]) -> str | None:
    """The strategy of the members that stay; None if they publish none, or none stays."""
    entries = (snapshot.registrations.get(member.member) for member in members)
    return agreed_strategy(entry.value.preference for entry in entries if entry and entry.value)


def _in_format(snapshot: GroupSnapshot, tp: TopicPartition, thread: str) -> str:
    """The owner as it writes itself: with its id alone, where it owns the partition now and wrote that."""
    if is_in_foreign_format(snapshot, tp):
        consumer = thread.rpartition("-")[0]
        return consumer if consumer == snapshot.owners[tp].text else thread
    return thread


def _notes_on_group(snapshot: GroupSnapshot, topics: Sequence[str]) -> Iterator[str]:
    """Notes on a new group and on topics that do not exist."""
    if not snapshot.exists:
        yield f"there is no group {snapshot.group!r} yet"
    if snapshot.frozen is not None:
        yield f"{freeze_text(snapshot.frozen)}; nothing moves before the end"
    foreign = [tp for tp in sorted(snapshot.owners) if is_in_foreign_format(snapshot, tp)]
    if foreign:
        yield (
            f"the owner of {foreign[0]} is in the format of another client (a consumer id without a thread), "
            "which may assign partitions by rules of its own"
        )
    missing = [topic for topic in topics if topic not in snapshot.topics]
    if missing:
        named = ", ".join(missing)
        yield f"there is no topic {named}: nothing of it is shared (`zkgroup topic create` makes one)"


def _grown(partitions: tuple[int, ...], more: int) -> tuple[int, ...]:
    first = max(partitions, default=-1) + 1
    return (*partitions, *range(first, first + more))


def _changed_members(snapshot: GroupSnapshot, change: GroupChange) -> tuple[list[EvaluatedMember], list[str]]:
    evaluated, problems = evaluate_members(snapshot)
    if problems:
        raise ConfigError(problems[0].detail)
    members = {one.member: one for one in evaluated}
    for name in change.remove:
        full = _full_id(snapshot.group, name)
        found = full if full in members else name
        if found not in members:
            raise NotFoundError(
                f"group {snapshot.group} has no member {name!r}; "
                f"it has {', '.join(sorted(members)) or 'none'}"
            )
        del members[found]
    for name, threads in change.add:
        full = _full_id(snapshot.group, name)
        if full in members:
            raise ConfigError(f"group {snapshot.group} already has a member {full!r}")
        members[full] = _new_member(
            full, threads if threads is not None else _like_present(snapshot, evaluated), members.values()
        )
    notes = _resize(snapshot, members, evaluated, change.members) if change.members is not None else []
    return [members[name] for name in sorted(members)], notes


def _resize(
    snapshot: GroupSnapshot, members: dict[str, EvaluatedMember], present: list[EvaluatedMember], count: int
) -> list[str]:
    for name in sorted(members)[count:]:
        del members[name]
    missing = count - len(members)
    for number in range(1, missing + 1):
        # "~" sorts behind every generated id, so that the present members keep their places
        name = f"{snapshot.group}_~new-{number}"
        members[name] = _new_member(name, _like_present(snapshot, present), members.values())
    if missing > 0:
        traits = ["capacity"] if all(one.capacity for one in present) else []
        traits += ["rack"] if all(one.rack for one in present) else []
        about = [f"{' and '.join(traits)} of new members decide, too: here they are like the present ones"]
        return [
            *(about if present and traits else []),
            "the ids of new members decide their place in the order: here they come last",
        ]
    return []


def _new_member(name: str, threads: Mapping[str, int], beside: Iterable[EvaluatedMember]) -> EvaluatedMember:
    """A member to add: where all others publish a capacity, with the most usual one; where all publish a
    rack, with the one that has the fewest members."""
    others = list(beside)
    capacities = Counter(one.capacity for one in others if one.capacity is not None)
    racks = Counter(one.rack for one in others if one.rack is not None)
    return EvaluatedMember(
        name,
        threads,
        min(capacities, key=lambda n: (-capacities[n], n)) if capacities.total() == len(others) > 0 else None,
        min(racks, key=lambda rack: (racks[rack], rack)) if racks.total() == len(others) > 0 else None,
        not others or any(one.negotiates for one in others),
    )


def _like_present(snapshot: GroupSnapshot, present: list[EvaluatedMember]) -> Mapping[str, int]:
    """The subscription that all members share. Raises ConfigError where there is none to copy."""
    kinds = {tuple(sorted(one.threads.items())) for one in present}
    if len(kinds) == 1:
        return dict(kinds.pop())
    reason = "has no member" if not kinds else "has members with different subscriptions"
    raise ConfigError(
        f"group {snapshot.group} {reason}: say what a new one subscribes to, as ID:TOPIC:THREADS"
    )


def _full_id(group: str, name: str) -> str:
    return name if name.startswith(f"{group}_") else f"{group}_{name}"
