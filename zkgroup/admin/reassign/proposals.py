"""`reassign generate` and `plan`: the cluster as `zkgroup.placement` needs it, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced

from zkgroup.admin.change import ChangePlan
from zkgroup.admin.cluster.brokers import (
    held_topics,
    notes_on_unreadable,
    partitions_of,
    placeable,
    states_of,
    unhosted_topics,
)
from zkgroup.admin.cluster.controller import controller_to_ask, read_controller_info
from zkgroup.admin.reassign.submission import ReassignmentPlan, refuse_second, topics_named
from zkgroup.errors import ConfigError, ConflictError, CorruptZnodeError, NotFoundError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition
from zkgroup.model.text import named
from zkgroup.placement import (
    ClusterSnapshot,
    Compat,
    Phase,
    Plan,
    PlannedMove,
    PlanViolation,
    RackMode,
    balance,
    decommission,
    generate,
    phases,
    replace,
    set_rf,
)
from zkgroup.placement.model import brokers_named
from zkgroup.znodes.admin_requests import delete_topics_path
from zkgroup.znodes.brokers import Topic, broker_ids_path, topics_path
from zkgroup.znodes.ids import validate_topic

Sizes = Mapping[TopicPartition, int]
"""Partition to the bytes of one of its replicas."""
Planner = Callable[[ClusterSnapshot, Collection[PlanViolation]], Plan]
"""Makes a plan of a snapshot, given what it may make worse."""

NO_LIMIT = 2**31 - 1

HOST_IT = "`zkgroup topic alter {} --replica-assignment ... --execute` gives it brokers"
"""The command to type for a topic that was made without brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """The wishes for a plan."""

    topics: Collection[str] = ()
    """The plan is about these alone; empty where it is about all."""
    rack_mode: RackMode = "enforced"
    """`enforced` needs a rack of every broker or of none; `disabled` ignores racks; `safe` uses racks if
    every broker has one."""
    allow: Collection[PlanViolation] = ()
    """Violations of the checks of a plan that are accepted."""
    sizes: Sizes | None = None
    """Bytes of one replica of each partition, or None to count replicas."""
    sizes_file: str = "sizes"
    """Their source, for errors."""
    max_moves: int | None = None
    """Copies that run at the same time; None for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasedPlan(ChangePlan):
    """A plan, and the requests that carry it out one after the other."""

    plan: Plan
    """The changes and their costs."""
    phases: tuple[Phase, ...]
    """The phases in the order in which they are submitted."""
    unreadable: tuple[CorruptZnodeError, ...] = ()
    """Topics that cannot be read: the plan leaves them where they are, whatever brokers that is."""


def propose(
    ensemble: Ensemble,
    topics: Sequence[str],
    brokers: Sequence[int],
    *,
    compat: Compat = "0.10",
    rack_mode: RackMode = "enforced",
) -> ReassignmentPlan:
    """Deals whole topics anew over these brokers, as Kafka's `--generate` does. Writes nothing.

    Raises:
        NotFoundError: a topic that does not exist.
        ConfigError: a broker that is not registered or named twice, too few brokers, racks on some only.
    """
    for name in topics:
        validate_topic(name)
    ensemble.zk.sync("/")
    able = {one.id: one for one in placeable(read_controller_info(ensemble).brokers)}
    if unknown := sorted(set(brokers) - set(able)):
        raise ConfigError(
            f"{broker_ids_path()}: {brokers_named(unknown)}: not registered, or hosting nothing; there are "
            f"{', '.join(map(str, sorted(able))) or 'none'}"
        )
    found = topics_named(ensemble, topics)
    if missing := [name for name in topics if name not in found]:
        raise NotFoundError(
            f"{Topic.path(missing[0])}: there is no topic {', '.join(missing)}; "
            "`zkgroup topic list` shows those there are"
        )
    lists = {name: topic.partitions for name, topic in found.items()}
    chosen = [able[broker] for broker in brokers]
    proposed, notes = generate(lists, chosen, compat=compat, rack_mode=rack_mode)
    rows = (
        PlannedMove(topic_partition=tp, before=lists[tp.topic][tp.partition], after=after)
        for tp, after in proposed.items()
    )
    return ReassignmentPlan(as_of=ensemble.as_of(), rows=tuple(rows), notes=notes)


def read_cluster_snapshot(
    ensemble: Ensemble, request: PlanRequest
) -> tuple[ClusterSnapshot, tuple[str, ...], tuple[CorruptZnodeError, ...]]:
    """Every partition with its replicas and ISR, and the brokers that can be given replicas; and notes.

    Last, what is wrong with each topic that cannot be read and is not in the snapshot.

    Topics that are being deleted are left out: a controller drops their moves. So are those that no broker
    hosts: it was made without brokers.

    Raises ConflictError while partitions are being moved: the lists of those are not what they will be.
    ConfigError for sizes that lack a partition, and for a topic that `request` names and no broker hosts.
    CorruptZnodeError for one that `request` names.
    """
    info = controller_to_ask(ensemble)
    refuse_second(ensemble)
    topics, broken = held_topics(ensemble)
    states = states_of(ensemble, partitions_of(topics))
    if asked := sorted(broken.keys() & set(request.topics)):
        raise broken[asked[0]]
    if moving := sorted(TopicPartition(name, n) for name, topic in topics.items() for n in topic.moving):
        raise ConflictError(
            f"{Topic.path(moving[0].topic)}: {moving[0]} is being moved; `zkgroup reassign list` shows it"
        )
    marked = set(ensemble.names_below(delete_topics_path()))
    going = sorted(marked & set(topics))
    unhosted = unhosted_topics(ensemble, topics, states)
    if asked := sorted(unhosted & set(request.topics)):
        raise ConfigError(f"{Topic.path(asked[0])}: no broker hosts {asked[0]}; {HOST_IT.format(asked[0])}")
    left_out = {*going, *unhosted}
    replicas = {
        TopicPartition(name, number): lists
        for name, topic in topics.items()
        for number, lists in topic.partitions.items()
        if name not in left_out
    }
    sizes = request.sizes
    snapshot = ClusterSnapshot(
        replicas=replicas,
        brokers=placeable(info.brokers),
        sizes=None if sizes is None else {tp: size for tp, size in sizes.items() if tp.topic not in left_out},
        in_sync={
            tp: entry.value.isr if entry and entry.value else replicas[tp]
            for tp, entry in states.items()
            if tp in replicas
        },
        rack_mode=request.rack_mode,
    )
    if snapshot.sizes is not None and (unsized := sorted(replicas.keys() - snapshot.sizes.keys())):
        raise ConfigError(
            f"{request.sizes_file}: expected TOPIC,PARTITION,BYTES of every partition, found none of "
            f"{named(unsized)}"
        )
    notes = [f"topic {name} is being deleted: it is left out" for name in going]
    notes += notes_on_unreadable(states[tp] for tp in replicas)
    return snapshot, tuple(notes), () if request.topics else tuple(broken.values())


def make_plan(ensemble: Ensemble, planner: Planner, request: PlanRequest) -> PhasedPlan:
    """Reads the cluster, plans, and cuts the plan into requests.

    Raises PlanRefusedError where the plan would make something worse that `request.allow` does not name, and
    what `read_snapshot` and the planner raise.
    """
    snapshot, notes, unreadable = read_cluster_snapshot(ensemble, request)
    plan = planner(snapshot, request.allow)
    limit = NO_LIMIT if request.max_moves is None else request.max_moves
    return PhasedPlan(
        as_of=ensemble.as_of(),
        plan=plan,
        phases=phases(plan, snapshot, max_moves=limit),
        notes=(*notes, *plan.notes),
        unreadable=unreadable,
    )


def planner_decommission(brokers: Collection[int]) -> Planner:
    """Empties these brokers."""
    return _planned_text(
        broker_ids_path(), "broker list", lambda snapshot, allow: decommission(snapshot, brokers, allow=allow)
    )


def planner_replace(pairs: Mapping[int, int]) -> Planner:
    """Puts brokers in the place of others."""
    return _planned_text(
        broker_ids_path(), "broker list", lambda snapshot, allow: replace(snapshot, pairs, allow=allow)
    )


def planner_set_rf(factor: int, topics: Collection[str] | None) -> Planner:
    """Another number of replicas, of all topics or of some."""
    return _planned_text(
        topics_path(),
        "topic list",
        lambda snapshot, allow: set_rf(snapshot, factor, topics=topics, allow=allow),
    )


def planner_balance(*, leaders_only: bool, tolerance: float | None) -> Planner:
    """Even loads."""
    if tolerance is None:
        return lambda snapshot, allow: balance(snapshot, leaders_only=leaders_only, allow=allow)
    return lambda snapshot, allow: balance(
        snapshot, leaders_only=leaders_only, tolerance=tolerance, allow=allow
    )


def for_topics(planner: Planner, topics: Collection[str]) -> Planner:
    """The planner over these topics alone; over all where none is named. Loads are those of the topics."""
    if not topics:
        return planner

    def plan(snapshot: ClusterSnapshot, allow: Collection[PlanViolation]) -> Plan:
        if unknown := sorted(set(topics) - {tp.topic for tp in snapshot.replicas}):
            raise NotFoundError(
                f"{topics_path()}: there is no topic {', '.join(unknown)} whose replicas could move"
            )
        part = replaced(
            snapshot,
            replicas={tp: brokers for tp, brokers in snapshot.replicas.items() if tp.topic in topics},
            sizes=snapshot.sizes and {tp: size for tp, size in snapshot.sizes.items() if tp.topic in topics},
        )
        return planner(part, allow)

    return plan


def _planned_text(path: str, command: str, planner: Planner) -> Planner:
    """Planners know no znodes: adds the path to what they do not find, and the command that shows it."""

    def plan(snapshot: ClusterSnapshot, allow: Collection[PlanViolation]) -> Plan:
        try:
            return planner(snapshot, allow)
        except NotFoundError as error:
            raise NotFoundError(f"{path}: {error}; `zkgroup {command}` shows those there are") from error

    return plan
