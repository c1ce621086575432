"""Reassignments asked of the controller: checked, shown, throttled, submitted.

The request is one znode, `/admin/reassign_partitions`. Commands only ever create it: later releases do not
read one that changes (the command, controller.md 4.1). A broker also adds to one that runs (KIP-455), under a
zkgroup controller, which reads it. Throttles go with it in one transaction, so a refusal leaves nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from zkgroup.admin.change import ChangePlan
from zkgroup.admin.cluster.brokers import is_controller_only, read_states, unhosted_topics
from zkgroup.admin.cluster.controller import (
    ZKGROUP_VERSION,
    ControllerInfo,
    check_dead_targets,
    check_throttle,
    controller_to_ask,
    notes_on_requests,
)
from zkgroup.admin.configs import ConfigPlan, operations_of, prepare
from zkgroup.admin.guards import no_partitions_error, write
from zkgroup.admin.reassign.throttles import plan_throttle
from zkgroup.errors import ConfigError, ConflictError, RefusedError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.snapshot import decode_or_error, value_of
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Check, Create, Operation, SetData
from zkgroup.model.text import named
from zkgroup.placement import PlannedMove
from zkgroup.znodes.admin_requests import Move, Reassignment, admin_path, delete_topics_path
from zkgroup.znodes.brokers import Topic, broker_ids_path
from zkgroup.znodes.controller import ControllerRegistration
from zkgroup.znodes.json_fields import DATA_BYTES_MAX
from zkgroup.znodes.notifications import NotifyFormat
from zkgroup.znodes.stray_replicas import PLACEHOLDER

OVERHEAD_BYTES = 300
"""Room for a configuration's path and its notification in the transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentPlan(ChangePlan):
    """The plan of a change: nothing has been asked for yet."""

    rows: tuple[PlannedMove, ...]
    """Every partition of the file, in order; those with nothing to do are not asked for."""
    throttle: int | None = None
    """Bytes a second for each broker."""
    configs: tuple[ConfigPlan, ...] = ()
    """The configurations that set the throttle; empty without a throttle."""
    running: Reassignment | None = None
    """The request that the moves are added to; None for one of their own."""
    version: int = -1
    """Data version of that request; the write is conditional on it."""

    @property
    def before(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        """Partition to its replica list now."""
        return {row.topic_partition: row.before for row in self.rows}

    @property
    def after(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        """Partition to its replica list as planned."""
        return {row.topic_partition: row.after for row in self.rows}

    @property
    def effective(self) -> tuple[PlannedMove, ...]:
        """The partitions that change, or that now move to other replicas than these."""
        running = self.running.targets if self.running else {}
        return tuple(
            row
            for row in self.rows
            if running.get(row.topic_partition, row.before) != row.after or row.unhosted
        )

    @property
    def moves(self) -> int:
        """Replicas that are copied."""
        return sum(len(row.added) for row in self.effective)

    @property
    def request(self) -> Reassignment:
        """Returns what the controller is given."""
        targets = dict(self.running.targets) if self.running else {}
        targets |= {row.topic_partition: row.after for row in self.effective}
        return Reassignment(tuple(Move(tp, after) for tp, after in targets.items()))

    @property
    def rollback(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        """The lists as they were, of what changes and had brokers before."""
        return {row.topic_partition: row.before for row in self.effective if not row.unhosted}


def plan_reassignment(
    ensemble: Ensemble,
    moves: Sequence[Move],
    *,
    throttle: int | None = None,
    force: bool = False,
    beside_running: bool = False,
    format: NotifyFormat | None = None,  # noqa: A002 - the word of the command line
) -> ReassignmentPlan:
    """Checks a reassignment against the cluster.

    Args:
        moves: as `files.parse_reassignment` gives them: each partition and broker once.
        throttle: bytes a second for each broker, or None for no limit.
        force: also to brokers that are not registered now; the controller waits for them.
        beside_running: add the moves to a request that runs, in place of its moves of the same partitions.

    Raises:
        ConflictError: one runs already; the message names what is running. With `beside_running`: it cannot
            be read, or no zkgroup controller is active.
        NotFoundError: a topic or partition that does not exist.
        ConfigError: brokers that are not registered, or that host nothing; more than one request holds.
        RefusedError: what the versions here would ignore or drop; a migrated cluster; topics that no broker
            hosts, where a controller of Kafka is active.
    """
    info = controller_to_ask(ensemble)
    znode = ensemble.zk.find(Reassignment.path()) if beside_running and info.is_zkgroup else None
    running = value_of(znode, Reassignment.decode)
    if running is None:
        refuse_second(ensemble)
    names = sorted({move.topic_partition.topic for move in moves})
    topics = topics_named(ensemble, names)
    _check_partitions(moves, topics)
    asked = running.targets if running else {}
    _refuse_moving([move for move in moves if move.topic_partition not in asked], topics)
    notes = [*notes_on_requests(info), *_check_targets(moves, info, force=force)]
    marked = ensemble.names_below(delete_topics_path())
    notes += [f"topic {name} is being deleted: its moves will be dropped" for name in names if name in marked]
    unhosted = unhosted_topics(ensemble, topics)
    notes += _notes_on_unhosted(topics, unhosted, moves, info)
    rows = _rows(ensemble, moves, topics, unhosted)
    notes += _notes_on_sources(rows, info)
    configs: tuple[ConfigPlan, ...] = ()
    if throttle is not None:
        notes += filter(None, [check_throttle(info)])
        lists = {row.topic_partition: (row.before, row.after) for row in rows if not row.unhosted}
        configs = plan_throttle(ensemble, lists, throttle, info, format)
    plan = ReassignmentPlan(
        as_of=ensemble.as_of(),
        rows=tuple(rows),
        throttle=throttle,
        configs=configs,
        notes=tuple(dict.fromkeys(notes)),
        running=running,
        version=znode.stat.version if znode else -1,
    )
    _check_size(plan)
    return plan


def _rows(
    ensemble: Ensemble, moves: Sequence[Move], topics: Mapping[str, Topic], unhosted: Collection[str]
) -> list[PlannedMove]:
    """Returns what the moves change, by partition."""
    states = read_states(ensemble, [move.topic_partition for move in moves])
    rows = []
    for move in sorted(moves, key=lambda one: one.topic_partition):
        tp = move.topic_partition
        state = states[tp]
        before = topics[tp.topic].partitions[tp.partition]
        in_sync = state.isr if state else None
        rows.append(
            PlannedMove(
                topic_partition=tp,
                before=before,
                after=move.replicas,
                in_sync=in_sync,
                unhosted=tp.topic in unhosted,
            )
        )
    return rows


def submit(ensemble: Ensemble, plan: ReassignmentPlan, beside: Sequence[Operation] = ()) -> None:
    """Creates the request, with the throttles and what belongs `beside` it, in one transaction.

    A plan beside a request that runs changes that one, while a zkgroup controller is active.

    Raises ConflictError where another one has come up, or a configuration or the request that runs has
    changed, since the plan.
    """
    prepare(ensemble, plan.configs)
    data, path = plan.request.encode(), Reassignment.path()
    operations: list[Operation] = [one for config in plan.configs for one in operations_of(config)]
    operations += beside
    if plan.running is not None:
        operations += [
            Check(ControllerRegistration.path(), ZKGROUP_VERSION),
            SetData(path, data, plan.version),
        ]
        return write(ensemble, operations, path, data)
    ensemble.zk.create_missing(admin_path())
    refuse_second(ensemble)
    operations.append(Create(path, data))
    try:
        return write(ensemble, operations, path, data)
    except ConflictError:
        refuse_second(ensemble)
        raise


def refuse_second(ensemble: Ensemble) -> None:
    """Raises ConflictError where a reassignment is running; names the partitions."""
    znode = ensemble.zk.find(Reassignment.path())
    if znode is None:
        return
    request = decode_or_error(znode, Reassignment.decode)
    if request.value is None:
        raise ConflictError(
            f"{request.error}; no other reassignment can be asked for while it is there: `zkgroup reassign "
            "cancel` removes it"
        )
    found = named(move.topic_partition for move in request.value.moves) or "an empty one"
    raise ConflictError(
        f"{Reassignment.path()}: a reassignment runs already: {found}; `zkgroup reassign list` shows it"
    )


def former_replicas(topic: Topic, partition: int, target: Sequence[int]) -> tuple[int, ...] | None:
    """Returns where a partition was before its move began, as far as the topic shows; None where it does not.

    From 2.4 on the topic names what a move adds. Before, a list with all of the target in it may be old and
    new together, and which of the target were there before is lost. The order is lost with the beginning of a
    move: the list is then the target followed by who leaves (`order_is_known`).
    """
    now = topic.partitions[partition]
    adding = topic.adding.get(partition, ())
    if adding or topic.removing.get(partition):
        return tuple(broker for broker in now if broker not in adding)
    return None if set(target) <= set(now) else now


def order_is_known(topic: Topic, partition: int, former: Sequence[int]) -> bool:
    """True if `former_replicas` are in the order that they had: the move has not begun, or there is one."""
    return partition not in topic.moving or len(former) < 2


def topics_named(ensemble: Ensemble, names: Sequence[str]) -> dict[str, Topic]:
    """Topics by name; one that does not exist is left out. Raises CorruptZnodeError."""
    found = ensemble.find_each(names, Topic.path)
    return {name: Topic.decode(znode.path, znode.data) for name, znode in found.items()}


def _check_partitions(moves: Sequence[Move], topics: Mapping[str, Topic]) -> None:
    missing = sorted(
        tp
        for tp in (move.topic_partition for move in moves)
        if tp.topic not in topics or tp.partition not in topics[tp.topic].partitions
    )
    if missing:
        raise no_partitions_error(missing)


def _refuse_moving(moves: Sequence[Move], topics: Mapping[str, Topic]) -> None:
    moving = sorted(
        move.topic_partition
        for move in moves
        if move.topic_partition.partition in topics[move.topic_partition.topic].moving
    )
    if moving:
        raise ConflictError(
            f"{Topic.path(moving[0].topic)}: {named(moving)} is being moved already, by the brokers' own "
            "API; `zkgroup reassign list` shows it"
        )


def _check_targets(moves: Sequence[Move], info: ControllerInfo, *, force: bool) -> Iterator[str]:
    wanted = {broker for move in moves for broker in move.replicas}
    empty = {number for number, one in info.brokers.items() if is_controller_only(one)}
    if wanted & empty:
        raise ConfigError(f"broker {_numbers(wanted & empty)} is a controller that hosts nothing")
    dead = wanted - set(info.brokers)
    if not dead:
        return
    if not force:
        first = min(move.topic_partition for move in moves if dead & set(move.replicas))
        raise ConfigError(
            f"{broker_ids_path()}: broker {_numbers(dead)} is not registered, and {first} would move there; "
            "start it, or ask for the move all the same with --force"
        )
    check_dead_targets(info, dead)
    yield f"broker {_numbers(dead)} is not registered: the move waits for it"


def _notes_on_sources(rows: Sequence[PlannedMove], info: ControllerInfo) -> Iterator[str]:
    lost = [
        row.topic_partition
        for row in rows
        if row.changes and row.in_sync is not None and not set(row.in_sync) & set(info.brokers)
    ]
    if lost:
        yield f"{named(lost)}: no replica in sync is alive to copy from, so the move waits"


def _notes_on_unhosted(
    topics: Mapping[str, Topic], unhosted: Collection[str], moves: Sequence[Move], info: ControllerInfo
) -> Iterator[str]:
    """Says what a reassignment makes of topics that no broker hosts.

    Raises RefusedError where a controller of Kafka is active: it moves no partition that has no state.
    """
    asked = {move.topic_partition for move in moves}
    for name in sorted(unhosted):
        if info.kind == "kafka":
            raise RefusedError(
                f"{Topic.path(name)}: no broker hosts {name}, and a controller of Kafka moves nothing that "
                "has no state; delete it and create it again with brokers"
            )
        yield f"{name} was made without brokers: the named brokers host it from now on, with empty logs"
        every = [TopicPartition(name, number) for number in topics[name].numbers]
        if left := [tp for tp in every if tp not in asked]:
            yield f"not named, and so waiting for broker {PLACEHOLDER[0]}: {named(left)}"


def _check_size(plan: ReassignmentPlan) -> None:
    """Refuses what one transaction cannot carry, before anything is written (the limit of a packet, K33)."""
    if not plan.effective:
        return
    data = len(plan.request.encode())
    configs = sum(len(config.after.encode()) + OVERHEAD_BYTES for config in plan.configs)
    if data + configs > DATA_BYTES_MAX:
        raise ConfigError(
            f"reassignment of {len(plan.effective)} partitions with its throttles: expected at most "
            f"{DATA_BYTES_MAX} bytes, found {data + configs}; split the file"
        )


def _numbers(brokers: Collection[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))
