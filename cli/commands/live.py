"""The document of the exporter, `/api/snapshot`: its last reading, and what it remembers of those before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from zkgroup.admin.cluster.brokers import Brokers
from zkgroup.admin.coordinator_status import CoordinatorStatus, DoctorFinding
from zkgroup.exporter.health import (
    BrokerDuties,
    PartitionHealth,
    broker_loads,
    ill_partitions,
    moving_partitions,
)
from zkgroup.exporter.history import STEP_MS, MembershipChange, OwnerChange, ReadingHistory, Unknown
from zkgroup.exporter.problems import problems_of
from zkgroup.exporter.reading import EnsembleReading
from zkgroup.groups.as_of import AsOf
from zkgroup.groups.descriptions import GroupDescription, GroupSummary
from zkgroup.zookeeper.four_letter_words import ServerStatus

from ..cluster import TOPIC_PARTITION
from ..groups import GROUP
from ..schema import (
    AS_OF,
    BROKERS,
    COUNT,
    INTEGER,
    Document,
    Inline,
    Json,
    JsonKey,
    Shape,
    given,
    list_of,
    map_of,
    nullable,
    rows_of,
)
from . import cluster as usage  # noqa: F401 - it declares the JSON of servers
from . import status  # noqa: F401 - it declares that of brokers and coordinators

SHOWN_MAX: Final = 200
"""Problems, partitions out of sync and moves that a document has; it counts all."""
CHANGE = Shape(
    MembershipChange, *("time_ms", "since_ms", "group", "moved", "assigned", "released", "joined", "left")
)
"""Without the partitions: they are shown with their group."""
OWNER_CHANGE = Shape(OwnerChange)
WHOLE_CHANGE = Shape(MembershipChange)
UNKNOWN = Shape(Unknown)
BROKER_DUTIES = Shape(
    BrokerDuties,
    *(given("broker", INTEGER), "address", "registered", "leaders", "replicas", "out_of_sync"),
)
PARTITION_HEALTH = Shape(
    PartitionHealth,
    *("topic", Inline("row", TOPIC_PARTITION), "since_ms", given("target", nullable(BROKERS))),
)


class Live(NamedTuple):
    """What `/api/snapshot` shows of a reading, and of those before."""

    as_of: AsOf | None
    time_ms: int
    reached_ms: int | None
    took_s: float
    packets: int | None
    problems: Sequence[DoctorFinding]
    problem_counts: Mapping[str, int]
    groups: Sequence[GroupSummary]
    lags: Mapping[str, list[int | None]]
    changes: Sequence[MembershipChange]
    group: GroupDescription | None
    """The one that the query names."""
    group_changes: Sequence[MembershipChange]
    brokers: Brokers | None
    broker_loads: Sequence[BrokerDuties] | None
    controller: int | None
    topics: int | None
    partitions: int | None
    offline_partitions: int | None
    under_replicated_partitions: int | None
    ill: Sequence[PartitionHealth] | None
    reassignments: int | None
    reassigned: int
    """Partitions whose move has ended since the first of those under way began."""
    reassigning: Sequence[PartitionHealth] | None
    coordinator: CoordinatorStatus | None
    servers: Sequence[ServerStatus]
    unknown: Sequence[Unknown]


LIVE = Document(
    "live",
    Shape(
        Live,
        JsonKey("as_of", nullable(AS_OF.schema), lambda one: AS_OF.json(one.as_of) if one.as_of else None),
        *("time_ms", "reached_ms", "took_s", "packets", "problems", "problem_counts", "groups"),
        JsonKey("lag_step_ms", COUNT, lambda one: STEP_MS),
        given("lags", map_of(list_of(nullable(COUNT)))),
        rows_of("changes", CHANGE, lambda one: one.changes),
        JsonKey(
            "group", nullable(GROUP.schema), lambda one: one.group and GROUP.json(one.group.as_of, one.group)
        ),
        rows_of("group_changes", WHOLE_CHANGE, lambda one: one.group_changes),
        *("brokers", "broker_loads", given("controller", nullable(INTEGER)), "topics", "partitions"),
        *("offline_partitions", "under_replicated_partitions", "ill"),
        *("reassignments", "reassigned", "reassigning", "coordinator", "servers", "unknown"),
    ),
    as_of=None,  # null where ZooKeeper was not reached
)


def live(reading: EnsembleReading, history: ReadingHistory, group: str | None) -> Json:
    """The document of a reading; with the name of one of its groups, all of that one."""
    cluster, problems = reading.cluster, problems_of(reading)
    value = Live(
        as_of=reading.as_of,
        time_ms=reading.time_ms,
        reached_ms=history.reached_ms,
        took_s=reading.took_s,
        packets=reading.packets,
        problems=problems[:SHOWN_MAX],
        problem_counts=Counter(one.severity for one in problems),
        groups=reading.summaries,
        lags=history.lags(),
        changes=history.changes(),
        group=reading.description(group) if group is not None else None,
        group_changes=history.changes(group) if group is not None else (),
        brokers=cluster.brokers if cluster else None,
        broker_loads=broker_loads(cluster) if cluster else None,
        controller=cluster.controller if cluster else None,
        topics=len(cluster.topics) if cluster else None,
        partitions=sum(len(topic.partitions) for topic in cluster.topics) if cluster else None,
        offline_partitions=cluster.offline if cluster else None,
        under_replicated_partitions=cluster.under_replicated if cluster else None,
        ill=list(islice(ill_partitions(cluster), SHOWN_MAX)) if cluster else None,
        reassignments=len(cluster.moving) if cluster else None,
        reassigned=history.moved,
        reassigning=list(islice(moving_partitions(cluster, history), SHOWN_MAX)) if cluster else None,
        coordinator=reading.coordinator,
        servers=reading.servers,
        unknown=history.unknown,
    )
    return LIVE.json(None, value)
