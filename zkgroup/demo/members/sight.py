"""The group as ZooKeeper shows it, in the demo's terms, and the acts on it that the demo needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

from zkgroup.admin import group_deletion, groups, topic_creation, topic_deletion, topics
from zkgroup.admin.describe import describe_group
from zkgroup.admin.ensemble import Ensemble
from zkgroup.admin.expectation import expectation
from zkgroup.admin.reading import group_names, read_picture
from zkgroup.admin.verify import group_state
from zkgroup.demo.flights import PARTITIONS, TOPIC
from zkgroup.errors import ConflictError, NotFoundError, ZkGroupError


@dataclass(frozen=True, slots=True)
class GroupSight:
    """One look at the group. Partition number to value; absent where there is none."""

    state: str
    members: frozenset[str]
    owners: Mapping[int, str]
    """Name of the member that owns the partition."""
    tokens: Mapping[int, int]
    offsets: Mapping[int, int]


NOTHING_YET = GroupSight("empty", frozenset(), {}, {}, {})


def look(ensemble: Ensemble, group: str) -> GroupSight:
    """Members, owners, tokens and offsets now; nothing yet where the group does not exist yet."""
    try:
        picture = read_picture(ensemble, group)
    except NotFoundError:
        return NOTHING_YET
    expected = expectation(picture)
    state = group_state(picture, expected, now_ms=ensemble.clock.wall_ms())
    described = describe_group(picture, expected, state)
    ours = [row for row in described.partitions if row.topic_partition.topic == TOPIC]
    return GroupSight(
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
    if not topics.topic_exists(ensemble, TOPIC):
        topic_creation.create_topic(
            ensemble, topic_creation.plan_topic(ensemble, TOPIC, partitions=PARTITIONS)
        )
        return True
    found = {row.topic: row.partitions for row in topics.list_topics(ensemble)[1]}[TOPIC]
    if found != PARTITIONS:
        raise ConflictError(
            f"topic {TOPIC}: expected {PARTITIONS} partitions or no such topic, found {found}; "
            "give the demo a chroot of its own: --zookeeper HOST:PORT/demo"
        )
    return False


def problems(ensemble: Ensemble, group: str, wait_s: float) -> list[str]:
    """What `group verify --wait` finds."""
    verdict = groups.verify(ensemble, group, wait_s=wait_s)
    return [f"{one.kind.value} {one.topic}:{one.partition} {one.detail}".strip() for one in verdict.problems]


def clear(ensemble: Ensemble, group: str, *, topic: bool) -> str | None:
    """Removes the group, and the topic where the demo made it; says what could not be removed."""
    try:
        group_deletion.delete_group(ensemble, group_deletion.plan_deletion(ensemble, group))
        if topic:
            topic_deletion.delete_topic(ensemble, topic_deletion.plan_topic_deletion(ensemble, TOPIC))
    except ZkGroupError as error:
        return str(error)
    return None
