"""Alters a topic: more partitions, other overrides; one conditional transaction for both.

Kafka's tool writes the replica map without a condition and, in 0.8.2.2, the configuration beside it, so two
operators lose each other's work. Here each write carries the version that the preview was made from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zkgroup.admin.change import AdminChange, ChangePlan, as_they_are, nothing, undo_record
from zkgroup.admin.cluster.brokers import placeable, unhosted_topics
from zkgroup.admin.cluster.controller import (
    ControllerInfo,
    controller_to_ask,
    notes_on_requests,
)
from zkgroup.admin.configs import ConfigPlan, config_undo, operations_of, plan_config, prepare
from zkgroup.admin.guards import no_topic_error, write
from zkgroup.admin.topics.creation import PARTITIONS_MAX, LeadersSeen, given_lists, until_led
from zkgroup.admin.topics.listing import INTERNAL_TOPICS
from zkgroup.errors import ConfigError, ConflictError, PlacementError, RefusedError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.snapshot import value_of
from zkgroup.model import Znode
from zkgroup.model.requests import Create, Delete, Operation, SetData
from zkgroup.placement import Compat, RackMode, grow, grow_by_hand
from zkgroup.placement.model import brokers_named
from zkgroup.znodes.admin_requests import Reassignment, TopicDeletion
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.config import ConfigEntity
from zkgroup.znodes.ids import validate_topic
from zkgroup.znodes.notifications import NotifyFormat
from zkgroup.znodes.paths import zkgroup_path
from zkgroup.znodes.stray_replicas import PLACEHOLDER, UnhostedTopic, unhosted_topics_path


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedPartitions:
    """The number of partitions that a topic shall have, and how they are placed."""

    partitions: int | None = None
    replica_assignment: Sequence[Sequence[int]] | None = None
    """Lists of the old and the new partitions, as Kafka's option; those of the old ones are ignored,
    but in a topic that no broker hosts: there they are where its partitions begin."""
    compat: Compat = "0.10"
    rack_mode: RackMode = "enforced"

    @property
    def is_wanted(self) -> bool:
        return self.partitions is not None or self.replica_assignment is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterationPlan(ChangePlan):
    """The plan of a change: nothing has been written yet."""

    topic: str
    """The topic that changes."""
    znode: Znode
    """The topic's znode as read; the write is conditional on its version."""
    before: Topic
    """The partitions of the topic as read."""
    added: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """New partitions; of a topic that gets its first brokers, all of them."""
    config: ConfigPlan | None = None
    """The change of the overrides; None if they do not change."""
    gets_brokers: bool = False
    """No broker has hosted the topic; those that are named do from now on."""
    unhosted: bool = False
    """No broker hosts the topic, nor will one after this."""
    mark: Znode | None = None
    """The mark of a topic that no broker hosts; None also for a topic of an older tree."""

    @property
    def after(self) -> Topic:
        """The topic with its new partitions; those that were there stay as they are."""
        return replace(self.before, partitions={**self.before.partitions, **self.added})


def plan_alteration(
    ensemble: Ensemble,
    topic: str,
    growth: AddedPartitions,
    set_to: Mapping[str, str] | None = None,
    removed: Collection[str] = (),
    *,
    format: NotifyFormat | None = None,  # noqa: A002 - the word of the command line
) -> AlterationPlan:
    """Reads the topic and decides what would be written.

    Raises:
        ConfigError: nothing to change, or what `plan_config` and `zkgroup.placement` refuse.
        NotFoundError: there is no such topic.
        RefusedError: growing the offsets topic, or one whose partitions are being moved; the first brokers of
            a topic where a controller of Kafka is active.
        ConflictError: the topic is being deleted.
    """
    validate_topic(topic)
    if not growth.is_wanted and not set_to and not removed:
        raise ConfigError("expected --partitions, --set or --delete-config, found none")
    info = controller_to_ask(ensemble)
    znode, request, mark = _read(ensemble, topic)
    before = Topic.decode(znode.path, znode.data)
    added: Mapping[int, tuple[int, ...]] = {}
    notes: list[str] = []
    unhosted = False
    if growth.is_wanted:
        _refuse_growth(topic, before, request)
        unhosted = bool(unhosted_topics(ensemble, {topic: before}))
        if unhosted and growth.replica_assignment is not None:
            added = _first_brokers(topic, before, growth, info, notes)
        elif unhosted:
            added = _placeholders(topic, before, growth.partitions or 0, info, notes)
        else:
            added = _new_partitions(before, growth, info, notes)
        notes += notes_on_requests(info)
    config = None
    if set_to or removed:
        entity = ConfigEntity.topic(topic)
        config = plan_config(ensemble, entity, set_to or {}, removed, format=format, info=info)
        notes += config.notes
    plan = AlterationPlan(
        as_of=ensemble.as_of(),
        topic=topic,
        znode=znode,
        before=before,
        added=added,
        config=config,
        notes=tuple(dict.fromkeys(notes)),
        gets_brokers=unhosted and growth.replica_assignment is not None,
        unhosted=unhosted and growth.replica_assignment is None,
        mark=mark,
    )
    plan.after.encode()  # a topic too big for one znode is refused now
    return plan


def _read(ensemble: Ensemble, topic: str) -> tuple[Znode, Znode | None, Znode | None]:
    """The topic, a request to move partitions, and the mark of a topic without brokers."""
    paths = [Topic.path(topic), TopicDeletion.path(topic), Reassignment.path(), UnhostedTopic.path(topic)]
    found = ensemble.zk.read_many(paths)
    znode, marker, request, mark = (found[path] for path in paths)
    if znode is None:
        raise no_topic_error(topic)
    if marker is not None:
        raise ConflictError(f"{marker.path}: topic {topic!r} is being deleted")
    return znode, request, mark


def alter_topic(ensemble: Ensemble, plan: AlterationPlan) -> None:
    """Applies the plan. Raises ConflictError where topic or configuration have changed since."""
    operations: list[Operation] = []
    path, data, above = plan.znode.path, plan.after.encode(), -1
    if plan.added:
        above = plan.znode.stat.version
        operations.append(SetData(path, data, above))
        operations += _marks(ensemble, plan)
    if plan.config is not None:
        prepare(ensemble, [plan.config])
        operations += operations_of(plan.config)
        if not plan.added:
            path, data = plan.config.entity.config_path, plan.config.after.encode()
    write(ensemble, operations, path, data, above)


def _marks(ensemble: Ensemble, plan: AlterationPlan) -> list[Operation]:
    """The mark goes when a topic gets brokers; a topic of an older tree that grows without gets one."""
    if not (plan.gets_brokers or plan.unhosted):
        return []
    ensemble.zk.create_missing(zkgroup_path(), unhosted_topics_path())
    mark = plan.mark
    if plan.unhosted and mark is not None and mark.stat.czxid >= plan.znode.stat.czxid:
        return []
    operations: list[Operation] = [] if mark is None else [Delete(mark.path, mark.stat.version)]
    if plan.unhosted:
        operations.append(Create(UnhostedTopic.path(plan.topic), UnhostedTopic().encode()))
    return operations


def _refuse_growth(topic: str, before: Topic, request: Znode | None) -> None:
    if topic in INTERNAL_TOPICS:
        raise RefusedError(
            f"{Topic.path(topic)}: groups and transactions find their partition by its number of "
            "partitions, so it cannot grow"
        )
    running = value_of(request, Reassignment.decode)
    requested = [move.topic_partition for move in running.moves] if running else []
    if before.moving or any(tp.topic == topic for tp in requested):
        raise RefusedError(
            f"{Topic.path(topic)}: its partitions are being moved, and a controller writes the whole map "
            "again at the end of a move: wait (`zkgroup reassign list`), then grow it"
        )


def _new_partitions(
    before: Topic, growth: AddedPartitions, info: ControllerInfo, notes: list[str]
) -> Mapping[int, tuple[int, ...]]:
    able = placeable(info.brokers)
    lists = growth.replica_assignment
    wanted = growth.partitions
    if lists is not None:
        if wanted is not None and wanted != len(lists):
            raise ConfigError(f"--partitions {wanted}, but the replica assignment names {len(lists)}")
        return grow_by_hand(before.partitions, able, [tuple(replicas) for replicas in lists]).replicas
    assert wanted is not None
    if wanted > PARTITIONS_MAX:
        raise ConfigError(f"partitions: expected at most {PARTITIONS_MAX}, found {wanted}")
    grown = grow(before.partitions, able, wanted, compat=growth.compat, rack_mode=growth.rack_mode)
    notes += grown.notes
    return grown.replicas


def _first_brokers(
    topic: str, before: Topic, growth: AddedPartitions, info: ControllerInfo, notes: list[str]
) -> dict[int, tuple[int, ...]]:
    """A topic that was made without brokers gets them: there is nothing to be moved."""
    assert growth.replica_assignment is not None
    if info.kind == "kafka":
        raise RefusedError(
            f"{Topic.path(topic)}: no broker hosts {topic}, and a Kafka controller does not read new "
            "replica lists of partitions that it knows; delete it and create it again with brokers"
        )
    lists = given_lists(growth.replica_assignment, growth.partitions)
    if missing := sorted(set(before.partitions) - set(lists)):
        raise PlacementError(f"partition {missing[0]}: expected brokers for it as well, found none")
    known = {broker.id for broker in placeable(info.brokers)}
    if unknown := sorted({broker for replicas in lists.values() for broker in replicas} - known):
        raise PlacementError(f"{brokers_named(unknown, 'is', 'are')} not registered, or hosting nothing")
    notes.append(f"{topic} was made without brokers: the named brokers host it from now on, with empty logs")
    return lists


def _placeholders(
    topic: str, before: Topic, wanted: int, info: ControllerInfo, notes: list[str]
) -> dict[int, tuple[int, ...]]:
    """A topic made without brokers goes on as it was made."""
    if wanted > PARTITIONS_MAX:
        raise ConfigError(f"partitions: expected at most {PARTITIONS_MAX}, found {wanted}")
    if wanted <= len(before.partitions):
        raise PlacementError(
            f"the number of partitions can only grow: there are {len(before.partitions)}, "
            f"{wanted} were asked for"
        )
    if info.brokers:
        notes.append(f"no broker hosts {topic}, nor its new partitions: --replica-assignment names some")
    return dict.fromkeys(range(len(before.partitions), wanted), PLACEHOLDER)


NO_FEWER_PARTITIONS = "partitions cannot be taken away"
NO_LEAVING_BROKERS = "a topic that brokers host does not become one without brokers again"


def alter_topic_change(
    ensemble: Ensemble,
    plan: AlterationPlan,
    progress: Callable[[int, int], object] = nothing,
) -> AdminChange[AlterationPlan, None, LeadersSeen]:
    """Gives a topic more partitions or other overrides."""
    no_undo = None
    if plan.added:
        no_undo = NO_LEAVING_BROKERS if plan.gets_brokers else NO_FEWER_PARTITIONS
    undo, notes = undo_record(no_undo=no_undo or NO_FEWER_PARTITIONS), plan.notes
    if plan.config is not None and not plan.added:
        undo, lost = config_undo(plan.config)
        no_undo, notes = undo.no_undo, (*notes, *lost)
    before = as_they_are(plan.znode, plan.config.znode if plan.config else None)
    can_wait = plan.added and not plan.unhosted
    return AdminChange(
        ensemble=ensemble,
        subject=f"topic alter {plan.topic}",
        question=f"Alter topic {plan.topic}?",
        plan=plan,
        notes=notes,
        is_effective=bool(plan.added or (plan.config and plan.config.changes)),
        no_undo=no_undo,
        undo=replace(undo, znodes=before),
        write=lambda by: alter_topic(ensemble, plan),
        wait=until_led(ensemble, plan.topic, plan.added, progress) if can_wait else None,
    )
