"""Changes of topics and configurations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from zkgroup.admin.changes.change import (
    AdminChange,
    as_they_are,
    nothing,
    undo_record,
    zkgroup_text,
)
from zkgroup.admin.cluster.controller import ControllerInfo
from zkgroup.admin.configs import ConfigPlan, alter_config, can_be_set, plan_config
from zkgroup.admin.topics.alteration import AddedPartitions, AlterationPlan, alter_topic, plan_alteration
from zkgroup.admin.topics.creation import (
    LeadersSeen,
    NewTopic,
    check_new,
    create_topic,
    plan_topic,
    wait_for_leaders,
)
from zkgroup.admin.topics.deletion import (
    DeletionSeen,
    TopicDeletionPlan,
    delete_topic,
    plan_topic_deletion,
    refuse_users,
    wait_until_gone,
)
from zkgroup.admin.undo import replica_lists
from zkgroup.admin.undo_records import UndoRecord
from zkgroup.errors import ConfigError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition
from zkgroup.placement import RackMode
from zkgroup.znodes.config import ConfigEntity, EntityKind
from zkgroup.znodes.notifications import NotifyFormat

NO_FEWER_PARTITIONS = "partitions cannot be taken away"
NO_RECORDS = "brokers drop the records"
NO_UNHOSTED = "where brokers are registered, no topic is created without them"
NO_SLOTS_DELETED = "the slots of group coordinators are not deleted"
NO_LEAVING_BROKERS = "a topic that brokers host does not become one without brokers again"


def create_topic_change(
    ensemble: Ensemble,
    topic: str,
    *,
    partitions: int | None = None,
    replication_factor: int = 1,
    replica_assignment: Sequence[Sequence[int]] | None = None,
    configs: Mapping[str, str] | None = None,
    rack_mode: RackMode = "enforced",
    progress: Callable[[int, int], object] = nothing,
) -> AdminChange[NewTopic, int | None, LeadersSeen]:
    """Creates a topic; what is written is the zxid. The wait is for leaders.

    Raises ConflictError where the topic exists, and what `plan_topic` raises.
    """
    new = plan_topic(
        ensemble,
        topic,
        partitions=partitions,
        replication_factor=replication_factor,
        replica_assignment=replica_assignment,
        configs=configs,
        rack_mode=rack_mode,
    )
    check_new(ensemble, topic)
    return AdminChange(
        ensemble=ensemble,
        subject=f"topic create {topic}",
        question=f"Create topic {topic}?",
        plan=new,
        notes=new.notes,
        no_undo=NO_SLOTS_DELETED if new.are_slots else None,
        undo=undo_record(no_undo=NO_SLOTS_DELETED)
        if new.are_slots
        else undo_record(undo_command=("topic", "delete", topic), left=new.znodes),
        undo_is_required=False,
        write=lambda by: create_topic(ensemble, new),
        made_at=lambda zxid: zxid,
        wait=None if new.unhosted else _leaders(ensemble, topic, new.assignment, progress),
    )


def alter_topic_change(
    ensemble: Ensemble,
    topic: str,
    added: AddedPartitions,
    set_to: Mapping[str, str] | None = None,
    removed: Collection[str] = (),
    *,
    format: NotifyFormat | None = None,  # noqa: A002 - the word of the command line
    progress: Callable[[int, int], object] = nothing,
) -> AdminChange[AlterationPlan, None, LeadersSeen]:
    """Gives a topic more partitions or other overrides. Raises what `plan_alteration` raises."""
    plan = plan_alteration(ensemble, topic, added, set_to, removed, format=format)
    no_undo = None
    if plan.added:
        no_undo = NO_LEAVING_BROKERS if plan.gets_brokers else NO_FEWER_PARTITIONS
    undo, notes = undo_record(no_undo=no_undo or NO_FEWER_PARTITIONS), plan.notes
    if plan.config is not None and not plan.added:
        undo, lost = _config_undo(plan.config)
        no_undo, notes = undo.no_undo, (*notes, *lost)
    before = as_they_are(plan.znode, plan.config.znode if plan.config else None)
    can_wait = plan.added and not plan.unhosted
    return AdminChange(
        ensemble=ensemble,
        subject=f"topic alter {topic}",
        question=f"Alter topic {topic}?",
        plan=plan,
        notes=notes,
        is_effective=bool(plan.added or (plan.config and plan.config.changes)),
        no_undo=no_undo,
        undo=_with_znodes(undo, before),
        write=lambda by: alter_topic(ensemble, plan),
        wait=_leaders(ensemble, topic, plan.added, progress) if can_wait else None,
    )


def delete_topic_change(
    ensemble: Ensemble,
    topic: str,
    without: Collection[int] = (),
    *,
    for_client: ControllerInfo | None = None,
    command_text: Callable[[Sequence[str]], str] = zkgroup_text,
    progress: Callable[[str], object] = nothing,
) -> AdminChange[TopicDeletionPlan, None, DeletionSeen]:
    """Deletes a topic, through the active controller where there is one.

    `for_client`: as in `plan_topic_deletion`.

    Raises RefusedError where a group has members on it, and what `plan_topic_deletion` raises.
    """
    plan = plan_topic_deletion(ensemble, topic, without, for_client)
    notes = list(plan.notes)
    if plan.idle_groups:
        names = ", ".join(plan.idle_groups)
        notes.append(f"offsets of {topic} stay in {names}: a new topic of that name would start there")
    how: dict[str, Any] = {}
    no_undo = None
    if plan.controller is not None:
        no_undo = NO_UNHOSTED if plan.unhosted else NO_RECORDS
        how = {"no_undo": _made_anew(plan, command_text)}
    named = f" without broker {', '.join(map(str, plan.without))}" if plan.without else ""
    return AdminChange(
        ensemble=ensemble,
        subject=f"topic delete {topic}",
        question=f"Delete topic {topic}{named}?",
        plan=plan,
        notes=tuple(notes),
        no_undo=no_undo,
        undo=undo_record(znodes=as_they_are(*plan.znodes), **how),
        check=lambda: refuse_users(topic, plan.users, plan.persistent),
        write=lambda by: delete_topic(ensemble, plan, for_client=for_client is not None),
        wait=lambda _, longest_s: wait_until_gone(ensemble, plan, longest_s, progress),
    )


def alter_config_change(
    ensemble: Ensemble,
    entity: ConfigEntity,
    set_to: Mapping[str, str],
    removed: Collection[str] = (),
    *,
    format: NotifyFormat | None = None,  # noqa: A002 - the word of the command line
    allow_unknown: bool = False,
    delete_empty: bool = False,
) -> AdminChange[ConfigPlan, None, None]:
    """Sets and removes settings of one entity, and notifies the brokers. Raises what `plan_config` raises."""
    plan = plan_config(
        ensemble,
        entity,
        set_to,
        removed,
        format=format,
        allow_unknown=allow_unknown,
        delete_empty=delete_empty,
    )
    undo, lost = _config_undo(plan)
    return AdminChange(
        ensemble=ensemble,
        subject=f"config alter {entity}",
        question=f"Change {entity}?",
        plan=plan,
        notes=(*plan.notes, *lost),
        is_effective=bool(plan.changes),
        no_undo=undo.no_undo,
        undo=_with_znodes(undo, as_they_are(plan.znode)),
        write=lambda by: alter_config(ensemble, plan),
    )


def _config_undo(plan: ConfigPlan) -> tuple[UndoRecord, tuple[str, ...]]:
    """The record that brings a configuration back as far as it can be set again; a note on what cannot."""
    words = ["config", "alter", "--entity-type", plan.entity.kind]
    name = plan.entity.plain_name
    words += ["--entity-default"] if name is None else ["--entity-name", name]
    if plan.entity.client is not None:
        client = plan.entity.plain_client
        words += ["--client-default"] if client is None else ["--client", client]
    bare, lost = len(words), []
    for setting, before, _ in plan.changes:
        if before is None:
            words += ["--delete-config", setting]
        elif can_be_set(plan.entity, setting, before):
            words += ["--set", f"{setting}={before}"]
        else:
            lost.append(f"{setting}={before}")
    why = f"{', '.join(lost)} is no value that a broker accepts"
    if len(words) == bare:
        return undo_record(no_undo=why if lost else "nothing was set"), ()
    if plan.znode is None:
        words += ["--delete-empty"]
    if plan.had_unknown:
        words += ["--allow-unknown"]
    left = ((plan.entity.config_path, plan.after.encode()),)
    record = undo_record(undo_command=tuple(words), left=left)
    return record, ((f"{why}: an undo does not set it again",) if lost else ())


def _with_znodes(record: UndoRecord, znodes: tuple[tuple[str, bytes | None], ...]) -> UndoRecord:
    return undo_record(
        znodes=znodes, no_undo=record.no_undo, undo_command=record.undo_command, left=record.left
    )


def _leaders(
    ensemble: Ensemble,
    topic: str,
    replicas: Mapping[int, Collection[int]],
    progress: Callable[[int, int], object],
) -> Callable[[object, float], LeadersSeen]:
    lists = {TopicPartition(topic, number): brokers for number, brokers in replicas.items()}
    return lambda _, longest_s: wait_for_leaders(ensemble, lists, longest_s, progress)


def _made_anew(plan: TopicDeletionPlan, command_text: Callable[[Sequence[str]], str]) -> str:
    """Why the deletion cannot be undone, and how the topic is made again as far as that goes."""
    lists = replica_lists(plan.znodes)
    if lists is None:
        return NO_RECORDS
    if plan.unhosted:
        words = command_text(["topic", "create", plan.topic, "--partitions", str(len(lists.split(",")))])
        return f"{NO_UNHOSTED}; `{words}` creates it again, on brokers"
    words = command_text(["topic", "create", plan.topic, "--replica-assignment", lists])
    return f"{NO_RECORDS}; `{words}` creates it again, empty"


def entity_named(
    kind: EntityKind, name: str | None, client: str | None = None, *, client_default: bool = False
) -> ConfigEntity:
    """The entity of a kind; None is the default of the kind. Raises ConfigError.

    `client` and `client_default` name a client id of a user, or the default of the user's clients.
    """
    if client is not None or client_default:
        if kind != "users":
            raise ConfigError(f"{kind}: only users have settings for a client id")
        return ConfigEntity.user_client(name, client)
    if kind == "topics":
        if name is None:
            raise ConfigError("topics have no default of their own: it is in the brokers' settings")
        return ConfigEntity.topic(name)
    if kind == "brokers":
        if name is not None and not name.isascii():
            raise ConfigError(f"broker {name!r}: expected an id such as 1")
        try:
            return ConfigEntity.broker(None if name is None else int(name))
        except ValueError as error:
            raise ConfigError(f"broker {name!r}: expected an id such as 1") from error
    if kind == "clients":
        return ConfigEntity.of_client(name)
    return ConfigEntity.user(name) if kind == "users" else ConfigEntity.ip(name)
