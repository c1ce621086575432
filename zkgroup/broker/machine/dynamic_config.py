"""Configurations of topics and brokers, quotas and credentials, which a broker follows by notifications.

Source: formats of notifications (controller.md 1.5), kafka/server/DynamicConfigManager.scala@2.8.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

from zkgroup.broker.machine.change_notifications import ChangeFolder, NotifiedState
from zkgroup.broker.machine.events import BrokerContext, ConfigChanged, CredentialsChanged
from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import Znode
from zkgroup.model.requests import ListChildren, ListChildrenDone, Outcome
from zkgroup.runtime.procedures import (
    ConnectionLossError,
    NoAuthError,
    Procedure,
    Query,
    UnexpectedReplyError,
    Work,
    ask,
    ask_allowed,
    read_allowed,
)
from zkgroup.security.scram import HASHES, ScramCredential
from zkgroup.znodes.config import (
    DEFAULT_NAME,
    ConfigEntity,
    EntityConfig,
    EntityKind,
    config_path,
    entities_path,
)
from zkgroup.znodes.notifications import ConfigChange, config_changes_path

KINDS: Final[tuple[EntityKind, ...]] = ("topics", "brokers")
"""The entities whose configurations a broker must be able to read."""
QUOTA_KINDS: Final[tuple[EntityKind, ...]] = ("clients", "users", "ips")
"""The entities with quotas. A broker that may not list them starts all the same."""


class DynamicConfig(NotifiedState[ConfigEntity]):
    """The configurations that a broker has read and applied."""

    KIND: ClassVar[str] = "config_change"
    FOLDERS: ClassVar[tuple[ChangeFolder, ...]] = (
        ChangeFolder(config_changes_path(), ConfigChange.path, ConfigChange.sequence_of),
    )

    def __init__(self, core: BrokerContext) -> None:
        super().__init__(core)
        self._overrides: dict[ConfigEntity, dict[str, str]] = {}
        self._hosted: dict[ConfigEntity, None] = {}
        """Topics with new leaders or followers here, whose configurations are to be read."""

    def hosted(self, topics: Iterable[str]) -> None:
        """Notes topics that this broker leads or follows now, so that their configurations are read.

        There is no notification of the configuration that a topic is created with, or that is deleted with
        it.
        """
        self._hosted.update((ConfigEntity("topics", topic), None) for topic in topics)

    def next(self) -> Work | None:
        hosted = ("read configurations of topics", self._read_hosted) if self._hosted else None
        return super().next() or hosted

    def _read_hosted(self) -> Procedure[None]:
        hosted, self._hosted = self._hosted, {}
        try:
            yield from self._read(hosted)
        except (ConnectionLossError, NoAuthError, UnexpectedReplyError):
            self._hosted = {**hosted, **self._hosted}
            raise

    def _loaded(self) -> Procedure[list[ConfigEntity]]:
        """Every entity that has a configuration, or had one at the last read."""
        lists = yield from ask(*(Query(ListChildren(entities_path(kind))) for kind in KINDS))
        lists += yield from ask_allowed(*(Query(ListChildren(entities_path(kind))) for kind in QUOTA_KINDS))
        entities = list(self._overrides)
        for kind, outcome in zip((*KINDS, *QUOTA_KINDS), lists, strict=True):
            entities += self._listed(entities_path(kind), kind, outcome)
        users = [each for each in entities if each.kind == "users" and each.client is None]
        return entities + ((yield from self._loaded_clients(users)) if users else [])

    def _loaded_clients(self, users: Sequence[ConfigEntity]) -> Procedure[list[ConfigEntity]]:
        """The clients of these users that have a quota of their own."""
        found = yield from read_allowed([user.config_path for user in users])
        parents = [
            user.entity_path
            for user, znode in zip(users, found, strict=True)
            if isinstance(znode, Znode) and znode.stat.children_count
        ]
        paths = [f"{config_path()}/{parent}/clients" for parent in parents]
        lists = (yield from ask_allowed(*(Query(ListChildren(path)) for path in paths))) if paths else ()
        entities = []
        for parent, path, outcome in zip(parents, paths, lists, strict=True):
            entities += self._listed(path, f"{parent}/clients", outcome)
        return entities

    def _listed(self, path: str, parent: str, outcome: Outcome) -> list[ConfigEntity]:
        """The entities in the list of a folder."""
        if not isinstance(outcome, ListChildrenDone):
            self._core.note("config.unreadable", path=path, detail="an ACL hides it")
            return []
        entities = []
        for name in outcome.children:
            try:
                entities.append(ConfigEntity.parse(path, f"{parent}/{name}"))
            except CorruptZnodeError as error:
                self._core.note("config.unreadable", path=f"{path}/{name}", detail=str(error))
        return entities

    def _decode(self, znode: Znode) -> ConfigEntity:
        return ConfigChange.decode(znode.path, znode.data).entity

    def _read(self, subjects: Iterable[ConfigEntity]) -> Procedure[None]:
        wanted = list(subjects)
        if not wanted:
            return
        found = yield from read_allowed([entity.config_path for entity in wanted])
        for entity, znode in zip(wanted, found, strict=True):
            if znode is not None and not isinstance(znode, Znode):
                self._core.note("config.unreadable", path=entity.config_path, detail=znode.value)
                continue
            try:
                data = None if znode is None else znode.data
                overrides = dict(EntityConfig.decode(entity.config_path, data).overrides)
            except CorruptZnodeError as error:
                self._core.note("config.unreadable", path=entity.config_path, detail=str(error))
                continue
            self._emit(entity, overrides)

    def _emit(self, entity: ConfigEntity, overrides: dict[str, str]) -> None:
        """Emits what has changed. Credentials are told apart, and only where a listener needs them."""
        before = self._overrides.pop(entity, {})
        if overrides:
            self._overrides[entity] = overrides
        if entity.kind == "users":
            (before, secrets_before), (overrides, secrets) = (
                _without_secrets(before),
                _without_secrets(overrides),
            )
            if secrets != secrets_before and self._core.config.follows_users and _has_credentials(entity):
                self._core.emit(CredentialsChanged(entity.plain_name or "", self._decoded(entity, secrets)))
        if overrides != before:
            self._core.emit(ConfigChanged(entity, overrides))

    def _decoded(self, entity: ConfigEntity, texts: Mapping[str, str]) -> dict[str, ScramCredential]:
        """The credentials of a user that can be read, by mechanism."""
        found = {}
        for mechanism, text in texts.items():
            try:
                found[mechanism] = ScramCredential.decode(entity.config_path, mechanism, text)
            except ConfigError as error:
                self._core.note("config.unreadable", path=entity.config_path, detail=str(error))
        return found


def _has_credentials(entity: ConfigEntity) -> bool:
    """Returns whether it is a user, and not the default of users or a client of one."""
    return entity.kind == "users" and entity.client is None and entity.name != DEFAULT_NAME


def _without_secrets(overrides: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The quotas of a user, and its credentials."""
    secrets = {name: value for name, value in overrides.items() if name in HASHES}
    return {name: value for name, value in overrides.items() if name not in secrets}, secrets
