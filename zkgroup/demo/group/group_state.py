"""The demo group's state in ZooKeeper: reads it, and creates and removes its topic and its group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

from zkgroup.admin import groups
from zkgroup.admin.topics import creation, deletion, listing
from zkgroup.demo.flight_data import PARTITIONS, TOPIC
from zkgroup.errors import ConflictError, NotFoundError, ZkGroupError
from zkgroup.groups import reads
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.reader import group_names, read_snapshot
from zkgroup.groups.reads import describe_group
from zkgroup.groups.verify import expected_ownership, group_state


@dataclass(frozen=True, slots=True)
class DemoGroupState:
    """The group as one read found it. Mappings: partition number to value, where there is one."""

    state: str
    members: frozenset[str]
    owners: Mapping[int, str]
    """Name of the member that owns the partition."""
    tokens: Mapping[int, int]
    offsets: Mapping[int, int]


EMPTY_GROUP = DemoGroupState("empty", frozenset(), {}, {}, {})


def read_group(ensemble: Ensemble, group: str) -> DemoGroupState:
    """Reads members, owners, tokens and offsets; an empty state where the group does not exist."""
    try:
        snapshot = read_snapshot(ensemble, group)
    except NotFoundError:
        return EMPTY_GROUP
    expected = expected_ownership(snapshot)
    state = group_state(snapshot, expected, now_ms=ensemble.clock.wall_ms())
    described = describe_group(snapshot, expected, state)
    rows = [row for row in described.partitions if row.topic_partition.topic == TOPIC]
    return DemoGroupState(
        state=state.value,
        members=frozenset(name_of(group, row.member) for row in described.members),
        owners={r.topic_partition.partition: name_of(group, r.member) for r in rows if r.member is not None},
        tokens={r.topic_partition.partition: r.token for r in rows if r.token is not None},
        offsets={r.topic_partition.partition: r.offset for r in rows if r.offset is not None},
    )


def name_of(group: str, member: str) -> str:
    """The consumer id in a member id (`<group>_<consumer id>`)."""
    return member.removeprefix(f"{group}_")


def free_name(ensemble: Ensemble, wanted: str) -> str:
    """The wanted name, or one with a number appended where such a group, with old offsets, exists."""
    taken = set(group_names(ensemble))
    names = (wanted if number == 1 else f"{wanted}-{number}" for number in count(1))
    return next(name for name in names if name not in taken)


def make_topic(ensemble: Ensemble) -> bool:
    """Creates the topic; False when it is there already with the right number of partitions.

    Raises ConflictError when it is there with another number.
    """
    if not listing.topic_exists(ensemble, TOPIC):
        creation.create_topic(ensemble, creation.plan_topic(ensemble, TOPIC, partitions=PARTITIONS))
        return True
    found = {row.topic: row.partitions for row in listing.list_topics(ensemble)[1]}[TOPIC]
    if found != PARTITIONS:
        raise ConflictError(
            f"topic {TOPIC}: expected {PARTITIONS} partitions or no such topic, found {found}; "
            "give the demo a chroot of its own: --zookeeper HOST:PORT/demo"
        )
    return False


def problems(ensemble: Ensemble, group: str, wait_s: float) -> list[str]:
    """The problems that `group verify --wait` finds."""
    verdict = reads.verify(ensemble, group, wait_s=wait_s)
    return [f"{one.kind.value} {one.topic}:{one.partition} {one.detail}".strip() for one in verdict.problems]


def clear(ensemble: Ensemble, group: str, *, topic: bool) -> str | None:
    """Removes the group, and the topic if `topic`; returns the error where one could not be removed."""
    try:
        groups.delete_group(ensemble, groups.plan_deletion(ensemble, group))
        if topic:
            deletion.delete_topic(ensemble, deletion.plan_topic_deletion(ensemble, TOPIC))
    except ZkGroupError as error:
        return str(error)
    return None
