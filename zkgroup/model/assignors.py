"""What an assignment strategy gets and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from zkgroup.model.values import Assignment, EvaluatedMember, TopicPartition

Racks = Mapping[TopicPartition, Sequence[str]]
"""Partition to the racks of its replicas, without those of brokers that are not registered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorInput:
    """A group at one moment, as every member of it has read it."""

    members: Sequence[EvaluatedMember]
    """Every member with its evaluated subscription. `capacity` and `rack` are None unless every member of the
    group publishes one: members that publish none do not know them, and would compute something else."""
    partitions: Mapping[str, Sequence[int]]
    """The partition numbers of every topic that exists; a topic that is missing has none."""
    previous: Mapping[TopicPartition, str] = field(default_factory=dict)
    """The assignment before, partition to thread id; empty unless the strategy needs it."""
    racks: Racks = field(default_factory=dict)
    """The racks of the replicas of a partition; empty unless the members have racks."""

    @classmethod
    def of(
        cls,
        members: Sequence[EvaluatedMember],
        partitions: Mapping[str, Sequence[int]],
        previous: Mapping[TopicPartition, str] | None = None,
        racks: Racks | None = None,
    ) -> AssignorInput:
        """The input with those traits of members only that all of them have."""
        traits = shared_traits(members)
        if traits or any(member.capacity or member.rack for member in members):
            members = [
                replace(member, capacity=capacity, rack=rack)
                for member in members
                for capacity, rack in [traits.get(member.member, (None, None))]
            ]
        return cls(
            members=members,
            partitions=partitions,
            previous=previous or {},
            racks=(racks or {}) if all_have_racks(members) else {},
        )


class Assignor(Protocol):
    """An assignment strategy: a function that is registered in the entry point group `zkgroup.assignors`.

    Every member computes the whole group's assignment for itself, so the function must be pure: equal inputs
    give equal results in every process, whatever their order. The owners are thread ids, `<member>-<n>` with
    n below the thread count of the member in that topic; a partition may have no owner. The name of the entry
    point is a value of `partition_assignment_strategy`. If it raises `AssignmentError`, members keep what
    they have.
    """

    def __call__(self, group: AssignorInput, /) -> Assignment: ...


def all_have_racks(members: Sequence[EvaluatedMember]) -> bool:
    """Returns whether every member has a rack: only then do racks decide anything."""
    return bool(members) and all(member.rack is not None for member in members)


def shared_traits(members: Sequence[EvaluatedMember]) -> dict[str, tuple[int | None, str | None]]:
    """Member to its capacity and rack, each None unless every member has one; empty if both are."""
    have_capacities = bool(members) and all(member.capacity is not None for member in members)
    have_racks = all_have_racks(members)
    if not have_capacities and not have_racks:
        return {}
    return {
        one.member: (one.capacity if have_capacities else None, one.rack if have_racks else None)
        for one in members
    }


class Preference(NamedTuple):
    """The strategies that a registration publishes."""

    names: tuple[str, ...]
    """In order of preference; empty for a JVM member, which publishes none."""
    negotiates: bool = True
    """False for a member of an earlier version, which has one strategy and uses it whatever the others
    publish, as Kafka does; one that needs the previous assignment only if all publish the same."""


def strategy_names(text: str | None) -> tuple[str, ...]:
    """The names in a setting or a registration: with commas between, the most preferred first."""
    return tuple(name.strip() for name in text.split(",")) if text else ()


def racks_of_replicas(
    topics: Mapping[str, Mapping[int, Sequence[int]]], racks: Mapping[int, str]
) -> dict[TopicPartition, tuple[str, ...]]:
    """Partition to the racks of its replicas; a replica on a broker without a known rack has none.

    `topics` has the replica list of each partition, `racks` the rack of each broker.
    """
    return {
        TopicPartition(topic, number): tuple(
            sorted({racks[broker] for broker in replicas if broker in racks})
        )
        for topic, partitions in topics.items()
        for number, replicas in sorted(partitions.items())
    }
