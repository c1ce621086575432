"""Alters a topic: more partitions, other overrides; one conditional transaction for both.

Kafka's tool writes the replica map without a condition and, in 0.8.2.2, the configuration beside it, so two
operators lose each other's work. Here each write carries the version that the preview was made from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zkgroup.admin.brokers import placeable
from zkgroup.admin.configs import ConfigPlan, operations_of, plan_config, prepare, write
from zkgroup.admin.ensemble import AsOf, Ensemble
from zkgroup.admin.picture import held
from zkgroup.admin.ruling import Ruling, notes_on_requests, read_ruling, refuse_kraft
from zkgroup.admin.topics import INTERNAL_TOPICS, PARTITIONS_MAX
from zkgroup.errors import ConfigError, ConflictError, NotFoundError, PlacementError, RefusedError
from zkgroup.model import Znode
from zkgroup.model.requests import Operation, SetData
from zkgroup.placement import Compat, RackMode, grow, grow_by_hand
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.config_changes import NotifyFormat
from zkgroup.znodes.config_entity import ConfigEntity
from zkgroup.znodes.ids import validate_topic
from zkgroup.znodes.topics import TopicDeletion


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How many partitions a topic shall have, and by whose rules."""

    partitions: int | None = None
    replica_assignment: Sequence[Sequence[int]] | None = None
    """Lists of the old and the new partitions, as Kafka's option; those of the old ones are not looked at."""
    compat: Compat = "0.10"
    rack_mode: RackMode = "enforced"

    @property
    def is_wanted(self) -> bool:
        return self.partitions is not None or self.replica_assignment is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterationPlan:
    """What would be written. Nothing has been."""

    as_of: AsOf
    topic: str
    znode: Znode
    before: Topic
    added: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    config: ConfigPlan | None = None
    notes: tuple[str, ...] = ()

    @property
    def after(self) -> Topic:
        """The topic with its new partitions; those that were there stay as they are."""
        return replace(self.before, partitions={**self.before.partitions, **self.added})


def plan_alteration(
    ensemble: Ensemble,
    topic: str,
    growth: Growth,
    set_to: Mapping[str, str] | None = None,
    removed: Collection[str] = (),
    *,
    format: NotifyFormat | None = None,  # noqa: A002 - the word of the command line
) -> AlterationPlan:
    """Reads the topic and decides what would be written.

    Raises:
        ConfigError: nothing to change, or what `plan_config` and `zkgroup.placement` refuse.
        NotFoundError: there is no such topic.
        RefusedError: growing the offsets topic, or one whose partitions are being moved.
        ConflictError: the topic is being deleted.
    """
    validate_topic(topic)
    if not growth.is_wanted and not set_to and not removed:
        raise ConfigError("say what to change: --partitions, --config or --delete-config")
    ensemble.zk.sync("/")
    ruling = read_ruling(ensemble)
    refuse_kraft(ruling)
    paths = [Topic.path(topic), TopicDeletion.path(topic), Reassignment.path()]
    found = ensemble.zk.read_many(paths)
    znode, marker, request = (found[path] for path in paths)
    if znode is None:
        raise NotFoundError(
            f"{Topic.path(topic)}: there is no topic {topic!r}; `zkgroup topic list` shows those there are"
        )
    if marker is not None:
        raise ConflictError(f"{marker.path}: topic {topic!r} is being deleted")
    before = Topic.decode(znode.path, znode.data)
    added: Mapping[int, tuple[int, ...]] = {}
    notes: list[str] = []
    if growth.is_wanted:
        _refuse_growth(topic, before, request)
        added = _new_partitions(before, growth, ruling, notes)
        notes += notes_on_requests(ruling)
    config = None
    if set_to or removed:
        entity = ConfigEntity.topic(topic)
        config = plan_config(ensemble, entity, set_to or {}, removed, format=format, ruling=ruling)
        notes += config.notes
    plan = AlterationPlan(
        as_of=ensemble.as_of(),
        topic=topic,
        znode=znode,
        before=before,
        added=added,
        config=config,
        notes=tuple(dict.fromkeys(notes)),
    )
    plan.after.encode()  # a topic too big for one znode is refused now
    return plan


def alter_topic(ensemble: Ensemble, plan: AlterationPlan) -> None:
    """Carries the plan out. Raises ConflictError where topic or configuration have changed since."""
    operations: list[Operation] = []
    path, data = plan.znode.path, plan.after.encode()
    if plan.added:
        operations.append(SetData(path, data, plan.znode.stat.version))
    if plan.config is not None:
        prepare(ensemble, [plan.config])
        operations += operations_of(plan.config)
        if not plan.added:
            path, data = plan.config.entity.config_path, plan.config.after.encode()
    write(ensemble, operations, path, data)


def _refuse_growth(topic: str, before: Topic, request: Znode | None) -> None:
    if topic in INTERNAL_TOPICS:
        raise RefusedError(
            f"{Topic.path(topic)}: groups and transactions find their partition by its number of "
            "partitions, so it cannot grow"
        )
    running = held(request, Reassignment.decode).value if request else None
    requested = [move.topic_partition for move in running.moves] if running else []
    if before.moving or any(tp.topic == topic for tp in requested):
        raise RefusedError(
            f"{Topic.path(topic)}: its partitions are being moved, and a controller writes the whole map "
            "again at the end of a move: wait (`zkgroup reassign list`), then grow it"
        )


def _new_partitions(
    before: Topic, growth: Growth, ruling: Ruling, notes: list[str]
) -> Mapping[int, tuple[int, ...]]:
    able = placeable(ruling.brokers)
    lists = growth.replica_assignment
    wanted = growth.partitions
    if lists is not None:
        if wanted is not None and wanted != len(lists):
            raise ConfigError(f"--partitions {wanted}, but the replica assignment names {len(lists)}")
        return grow_by_hand(before.partitions, able, [tuple(replicas) for replicas in lists]).replicas
    assert wanted is not None
    if wanted > PARTITIONS_MAX:
        raise ConfigError(f"partitions: expected at most {PARTITIONS_MAX}, found {wanted}")
    if not able and not ruling.brokers and set(before.partitions.values()) == {(0,)}:
        return _placeholders(before, wanted)
    grown = grow(before.partitions, able, wanted, compat=growth.compat, rack_mode=growth.rack_mode)
    notes += grown.notes
    return grown.replicas


def _placeholders(before: Topic, wanted: int) -> dict[int, tuple[int, ...]]:
    """A topic made without brokers goes on as it was made."""
    if wanted <= len(before.partitions):
        raise PlacementError(
            f"the number of partitions can only grow: there are {len(before.partitions)}, "
            f"{wanted} were asked for"
        )
    return dict.fromkeys(range(len(before.partitions), wanted), (0,))
