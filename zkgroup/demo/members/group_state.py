"""The state of the group as the demo shows it, read from ZooKeeper, and changes to it."""

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
class GroupState:
    """One look at the group. Partition number to value; absent where there is none."""

    state: str
    members: frozenset[str]
    owners: Mapping[int, str]
    """Name of the member that owns the partition."""
    tokens: Mapping[int, int]
    offsets: Mapping[int, int]


EMPTY_GROUP = GroupState("empty", frozenset(), {}, {}, {})


def read_group(ensemble: Ensemble, group: str) -> GroupState:
    """Members, owners, tokens and offsets now; nothing yet where the group does not exist yet."""
    try:
        picture = read_snapshot(ensemble, group)
    except NotFoundError:
        return EMPTY_GROUP
    expected = expected_ownership(picture)
    state = group_state(picture, expected, now_ms=ensemble.clock.wall_ms())
    described = describe_group(picture, expected, state)
    ours = [row for row in described.partitions if row.topic_partition.topic == TOPIC]
    return GroupState(
        state=state.value,
        members=frozenset(name_of(group, row.member) for row in described.members),
        owners={r.topic_partition.partition: name_of(group, r.member) for r in ours if r.member is not None},
        tokens={r.topic_partition.partition: r.token for r in ours if r.token is not None},
        offsets={r.topic_partition.partition: r.offset for r in ours if r.offset is not None},
    )


def name_of(group: str, member: str) -> str:
    """The consumer id that the demo gave, out of a member id (`<group>_<consumer id>`)."""
    return member.removeprefix(f"{group}_")


def free_name(ensemble: Ensemble, wanted: str) -> str:
    """The name, or with a number behind it when there is such a group: old offsets would be in the way."""
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
    """What `group verify --wait` finds."""
    verdict = reads.verify(ensemble, group, wait_s=wait_s)
    return [f"{one.kind.value} {one.topic}:{one.partition} {one.detail}".strip() for one in verdict.problems]


def clear(ensemble: Ensemble, group: str, *, topic: bool) -> str | None:
    """Removes the group, and the topic where the demo made it; says what could not be removed."""
    try:
        groups.delete_group(ensemble, groups.plan_deletion(ensemble, group))
        if topic:
            deletion.delete_topic(ensemble, deletion.plan_topic_deletion(ensemble, TOPIC))
    except ZkGroupError as error:
        return str(error)
    return None
