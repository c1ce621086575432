"""Configurations of topics, brokers, clients, users and addresses: read, changed, announced to brokers.

The change and its notification are one transaction, conditional on the version that was read. Which of the
three notification formats is written follows from the registered brokers (notification formats, controller.md
1.5): a wrong one is ignored at best, and stops all later changes at some releases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, get_args

from zkgroup.admin.change import AdminChange, ChangePlan, as_they_are, undo_record
from zkgroup.admin.cluster.controller import (
    ControllerInfo,
    note_on_entity,
    notes_on_settings,
    read_controller_info,
    refuse_kraft,
)
from zkgroup.admin.guards import no_topic_error, write
from zkgroup.admin.undo_records import UndoRecord
from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.snapshot import decode_or_error
from zkgroup.model import Znode
from zkgroup.model.requests import Code, Create, Delete, Operation, SetData
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.config import ConfigEntity, EntityConfig, EntityKind, config_path, entities_path
from zkgroup.znodes.config_settings import (
    check_broker_settings,
    check_entity_settings,
    check_topic_settings,
    unknown_to_brokers,
)
from zkgroup.znodes.notifications import ConfigChange, NotifyFormat, config_changes_path, notify_format

HIDDEN = "[hidden]"
_SECRETS: Final = (
    "password",
    "jaas.config",
    "secret",
    "secret.key",
    "master.key",
    "keystore.key",
    "keystore.certificate.chain",
    "truststore.certificates",
)
"""How names end whose values are hidden (`Type.PASSWORD` in KafkaConfig.scala and SslConfigs.java@2.8.2)."""
"""Shown in place of a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDescription:
    """One row of `config describe`."""

    entity: ConfigEntity
    """The topic, client, user, broker or address."""
    configs: Mapping[str, str]
    """Its overrides, name to value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigPlan(ChangePlan):
    """A configuration as it would become. Nothing has been written."""

    entity: ConfigEntity
    """The topic, client, user, broker or address that changes."""
    znode: Znode | None = field(repr=False)
    """As it is; None where the entity has none yet."""
    before: EntityConfig = field(repr=False)
    """The configuration as read."""
    after: EntityConfig = field(repr=False)
    """The configuration as it would become. Both may hold credentials."""
    format: NotifyFormat
    """Of the notification."""
    is_deleted: bool = False
    """The znode goes, as nothing is left in it."""

    def deleting(self) -> ConfigPlan:
        """The plan that deletes the znode, if nothing would be left in it; else this one."""
        return replace(self, is_deleted=self.znode is not None and self.after == EntityConfig())

    @property
    def had_unknown(self) -> bool:
        """Returns whether a broker has settings that Kafka's brokers do not take while they run."""
        return self.entity.kind == "brokers" and any(True for _ in unknown_to_brokers(self.before.overrides))

    @property
    def changes(self) -> tuple[tuple[str, str | None, str | None], ...]:
        """(name, before, after) of what changes, by name; None: not set."""
        old, new = self.before.overrides, self.after.overrides
        names = sorted(set(old) | set(new))
        return tuple((name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name))


def describe_configs(
    ensemble: Ensemble, entities: Sequence[ConfigEntity], kind: EntityKind | None = None
) -> tuple[AsOf, tuple[ConfigDescription, ...], tuple[str, ...]]:
    """These entities, or all of a kind for which something is set; and what cannot be read.

    Of a kind, the clients of users are included. Raises NotFoundError for a topic that does not exist.
    """
    wanted = list(entities)
    if kind is not None:
        wanted = _all_of(ensemble, kind)
    znodes = ensemble.zk.read_many([entity.config_path for entity in wanted])
    for entity in entities:
        if entity.kind == "topics" and znodes[entity.config_path] is None:
            _check_topic(ensemble, entity.name)
    rows, unreadable = [], []
    for entity in wanted:
        znode = znodes[entity.config_path]
        entry = decode_or_error(znode, EntityConfig.decode) if znode else None
        if entry is not None and entry.error:
            unreadable.append(str(entry.error))
            continue
        overrides = entry.value.overrides if entry and entry.value else {}
        if kind is None or overrides:
            rows.append(ConfigDescription(entity=entity, configs=shown(overrides)))
    return ensemble.as_of(), tuple(rows), tuple(unreadable)


def shown(overrides: Mapping[str, str]) -> dict[str, str]:
    """Settings for a reader: passwords and what proves them are hidden."""
    return {name: HIDDEN if is_secret(name) else value for name, value in overrides.items()}


def is_secret(name: str) -> bool:
    """Returns whether the value is a secret, as Kafka's type PASSWORD, or made from one (`SCRAM-SHA-256`).

    With a prefix, too: `listener.name.outside.ssl.keystore.key`.
    """
    return name.startswith("SCRAM-") or name.endswith(_SECRETS)


def plan_config(
    ensemble: Ensemble,
    entity: ConfigEntity,
    set_to: Mapping[str, str],
    removed: Collection[str] = (),
    *,
    format: NotifyFormat | None = None,  # noqa: A002 - the word of the command line
    info: ControllerInfo | None = None,
    allow_unknown: bool = False,
    delete_empty: bool = False,
) -> ConfigPlan:
    """Plans what a change would make of a configuration; settings that are not named stay, known or not.

    Args:
        format: of the notification; by default the one that the registered brokers read.
        info: brokers and controller, where they have been read already.
        allow_unknown: of a broker, set also what Kafka's brokers do not take while they run: a plug-in may.
        delete_empty: delete the znode where nothing is left in it, instead of writing that.

    Raises:
        ConfigError: a setting both set and removed, one removed that is not set, a secret, one that the kind
            of entity does not have, a value that cannot be written or that no broker could read, or an entity
            of which the brokers here know no configuration.
        NotFoundError: a topic that does not exist.
        RefusedError: a cluster that has moved to KRaft.
        CorruptZnodeError: the present configuration cannot be read, so it cannot be preserved either.
    """
    _check_names(set_to, removed)
    _check_values(entity, set_to)
    if entity.kind == "brokers" and not allow_unknown:
        check_broker_settings(set_to)
    ensemble.zk.sync("/")
    if entity.kind == "topics":
        _check_topic(ensemble, entity.name)
    changes = {entity: (set_to, removed)}
    info = info or read_controller_info(ensemble)
    (plan,) = plan_configs(ensemble, changes, format=format, info=info)
    notes = (*note_on_entity(info, entity), *notes_on_settings(info, entity.kind, set_to))
    plan = replace(plan, notes=(*plan.notes, *notes))
    return plan.deleting() if delete_empty else plan


def can_be_set(entity: ConfigEntity, name: str, value: str) -> bool:
    """Returns whether `plan_config` takes this setting; what another program has written need not be one."""
    try:
        _check_names({name: value}, ())
        _check_values(entity, {name: value})
    except ConfigError:
        return False
    return True


def plan_configs(
    ensemble: Ensemble,
    changes: Mapping[ConfigEntity, tuple[Mapping[str, str], Collection[str]]],
    *,
    info: ControllerInfo,
    format: NotifyFormat | None = None,  # noqa: A002 - the word of the command line
) -> tuple[ConfigPlan, ...]:
    """The same of many entities, read together: each to (settings to set, settings to remove)."""
    refuse_kraft(info)
    paths = {entity: entity.config_path for entity in changes}
    znodes = ensemble.zk.read_many([*paths.values(), entities_path("users")])
    if format is None:
        users_known = znodes[entities_path("users")] is not None
        format = notify_format(info.brokers.values(), users_known)  # noqa: A001
    as_of, plans = ensemble.as_of(), []
    for entity, (set_to, removed) in changes.items():
        znode = znodes[paths[entity]]
        before = EntityConfig.decode(znode.path, znode.data) if znode else EntityConfig()
        if missing := sorted(set(removed) - set(before.overrides)):
            raise ConfigError(f"{paths[entity]}: {', '.join(missing)} is not set, so it cannot be removed")
        plan = ConfigPlan(
            as_of=as_of,
            entity=entity,
            znode=znode,
            before=before,
            after=before.changed(set_to, removed),
            format=format,
            notes=tuple(f"{text}: its version is not known" for text in info.unreadable),
        )
        operations_of(plan)  # what cannot be written is refused now
        plans.append(plan)
    return tuple(plans)


def operations_of(plan: ConfigPlan) -> tuple[Operation, Operation]:
    """The writes of a plan, for a transaction: the configuration, then the notification."""
    data = plan.after.encode()
    path = plan.entity.config_path
    change: Operation
    if plan.znode is None:
        change = Create(path, data)
    elif plan.is_deleted:
        change = Delete(path, plan.znode.stat.version)
    else:
        change = SetData(path, data, plan.znode.stat.version)
    notification = ConfigChange(plan.entity, plan.format).encode()
    return change, Create(ConfigChange.prefix(), notification, sequential=True)


def prepare(ensemble: Ensemble, plans: Sequence[ConfigPlan]) -> None:
    """Makes the parents that the writes of these plans need."""
    parents = [config_path(), config_changes_path()]
    for plan in plans:
        parents.append(entities_path(plan.entity.kind))
        if plan.entity.client is not None:
            user = plan.entity.config_path.rpartition("/clients/")[0]
            parents += [user, f"{user}/clients"]
    ensemble.zk.create_missing(*dict.fromkeys(parents))


def alter_config(ensemble: Ensemble, plan: ConfigPlan) -> None:
    """Applies the plan. Raises ConflictError where the configuration has changed since."""
    prepare(ensemble, [plan])
    data = None if plan.is_deleted else plan.after.encode()
    write(ensemble, operations_of(plan), plan.entity.config_path, data)


def _check_names(set_to: Mapping[str, str], removed: Collection[str]) -> None:
    if not set_to and not removed:
        raise ConfigError("expected --set or --delete-config, found neither")
    if both := sorted(set(set_to) & set(removed)):
        raise ConfigError(f"{', '.join(both)}: named both to be set and to be removed")
    if secret := sorted(name for name in {*set_to, *removed} if is_secret(name)):
        raise ConfigError(
            f"{', '.join(secret)}: passwords are stored encoded; `zkgroup user add` sets those of users, "
            "Kafka's own tool others"
        )


def _check_values(entity: ConfigEntity, set_to: Mapping[str, str]) -> None:
    if entity.kind == "topics":
        check_topic_settings(set_to)
    else:
        check_entity_settings(entity.kind, set_to)


def _check_topic(ensemble: Ensemble, name: str | None) -> None:
    if name is not None and ensemble.zk.exists(Topic.path(name)) is None:
        raise no_topic_error(name)


def _all_of(ensemble: Ensemble, kind: EntityKind) -> list[ConfigEntity]:
    parent = entities_path(kind)
    names = sorted(ensemble.names_below(parent))
    found = [ConfigEntity(kind, name) for name in names]
    if kind != "users":
        return found
    folders = {one: f"{one.config_path}/clients" for one in found}
    clients = ensemble.zk.list_many(list(folders.values()))
    of_users = [
        ConfigEntity(kind, one.name, client)
        for one, folder in folders.items()
        for client in sorted(clients[folder] or ())
    ]
    return sorted([*found, *of_users], key=lambda one: one.entity_path)


_KINDS: tuple[EntityKind, ...] = get_args(EntityKind)


def unreadable_configs(ensemble: Ensemble) -> dict[str, str]:
    """Path to what is wrong with it, of every znode below `/config` that brokers have to pass over.

    What an access list hides from this client is not checked: brokers may be allowed to read it. Bulk reads.
    """
    parents = {entities_path(kind): kind for kind in _KINDS}
    listed = ensemble.zk.list_each([*parents, config_changes_path()])
    entities = {
        f"{parent}/{name}": f"{kind}/{name}"
        for parent, kind in parents.items()
        for name in _names(listed[parent])
    }
    folders = [f"{path}/clients" for path, text in entities.items() if text.startswith("users/")]
    clients = ensemble.zk.list_each(folders) if folders else {}
    for folder, names in clients.items():
        user = folder.removesuffix("/clients")
        entities |= {f"{folder}/{name}": f"{entities[user]}/clients/{name}" for name in _names(names)}
    changes = [
        f"{config_changes_path()}/{name}"
        for name in _names(listed[config_changes_path()])
        if ConfigChange.sequence_of(name) is not None
    ]
    paths = [*entities, *changes]
    found = ensemble.zk.read_each(paths) if paths else {}
    unreadable = {}
    for path in paths:
        if isinstance(znode := found[path], Znode) and (error := _error(znode, entities.get(path))):
            unreadable[path] = f"expected {error.expected}, found {error.found}"
    return unreadable


def _names(listed: tuple[str, ...] | Code | None) -> Iterable[str]:
    return sorted(listed) if isinstance(listed, tuple) else ()


def _error(znode: Znode, entity: str | None) -> CorruptZnodeError | None:
    """`entity` as notifications name it; None for a notification."""
    try:
        if entity is None:
            ConfigChange.decode(znode.path, znode.data)
        else:
            ConfigEntity.parse(znode.path, entity)
            EntityConfig.decode(znode.path, znode.data)
    except CorruptZnodeError as error:
        return error
    return None


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
        if name is not None and not (name.isascii() and name.isdigit()):
            raise ConfigError(f"broker {name!r}: expected an id such as 1")
        return ConfigEntity.broker(None if name is None else int(name))
    if kind == "clients":
        return ConfigEntity.of_client(name)
    return ConfigEntity.user(name) if kind == "users" else ConfigEntity.ip(name)


def alter_config_change(ensemble: Ensemble, plan: ConfigPlan) -> AdminChange[ConfigPlan, None, None]:
    """Sets and removes settings of one entity, and notifies the brokers."""
    undo, lost = config_undo(plan)
    return AdminChange(
        ensemble=ensemble,
        subject=f"config alter {plan.entity}",
        question=f"Change {plan.entity}?",
        plan=plan,
        notes=(*plan.notes, *lost),
        is_effective=bool(plan.changes),
        no_undo=undo.no_undo,
        undo=replace(undo, znodes=as_they_are(plan.znode)),
        write=lambda by: alter_config(ensemble, plan),
    )


def config_undo(plan: ConfigPlan) -> tuple[UndoRecord, tuple[str, ...]]:
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
