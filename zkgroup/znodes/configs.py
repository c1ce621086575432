"""Configurations kept below `/config`: of brokers, clients, users, addresses; topics' are in `topics`."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.znodes.config_entity import ConfigEntity
from zkgroup.znodes.json_object import integer_of, object_of, others, read_object, show, write_object
from zkgroup.znodes.limits import check_size, check_text

_KEYS: Final = ("version", "config")


@dataclass(frozen=True, slots=True)
class EntityConfig:
    """Overrides of one entity: `{"version":1,"config":{"retention.ms":"3600000"}}`. Persistent.

    The same for every kind and every Kafka from 0.8.1 to 3.9 (kafka/admin/AdminUtils.scala@0.8.2.2,
    kafka/zk/ZkData.scala@2.8.2). Settings that we do not know are kept: throttles of a reassignment,
    passwords of SCRAM users, names of later versions.
    """

    overrides: Mapping[str, str] = field(default_factory=dict)
    """Setting to value. Every value is a text: a number fails each broker of 0.8.2.2."""
    extensions: Mapping[str, object] = field(default_factory=dict)
    """Keys beside `version` and `config`, kept by every rewrite."""

    def changed(self, set_to: Mapping[str, str], removed: Collection[str] = ()) -> Self:
        """With some overrides set and some removed; all others stay, known or not."""
        kept = {name: value for name, value in self.overrides.items() if name not in removed}
        return dataclasses.replace(self, overrides={**kept, **set_to})

    def encode(self) -> bytes:
        """Raises ConfigError for a setting without name, text that is no UTF-8, or too much of it."""
        if clash := [key for key in self.extensions if key in _KEYS]:
            raise ConfigError(f"configuration: expected keys that are not Kafka's, found {clash}")
        for name, value in self.overrides.items():
            if not name or not isinstance(value, str):
                raise ConfigError(f"setting {show(name)}: expected a name and a text, found {show(value)}")
            check_text("setting", name)
            check_text(f"setting {name}", value)
        fields = {"version": 1, "config": dict(self.overrides), **self.extensions}
        return check_size(f"configuration of {len(self.overrides)} settings", write_object(fields))

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """Raises CorruptZnodeError where it is not version 1 or a value is no text.

        No data means no overrides, as it does for Kafka: the parent of a user's clients has none.
        """
        if not data:
            return cls()
        fields = read_object(path, data, "a configuration")
        if integer_of(path, fields, "version") != 1:
            raise CorruptZnodeError(path, "version 1 of a configuration", show(fields["version"]))
        overrides = object_of(path, fields, "config")
        texts = {name: value for name, value in overrides.items() if isinstance(value, str)}
        if len(texts) < len(overrides):
            raise CorruptZnodeError(path, "texts in 'config'", show(overrides))
        return cls(texts, others(fields, *_KEYS))


@dataclass(frozen=True, slots=True)
class BrokerConfig(EntityConfig):
    """`/config/brokers/<id>`: settings of one broker, since 0.10.1; throttle rates among them.

    No broker (None): `/config/brokers/<default>`, for all of them.
    """

    @staticmethod
    def path(broker: int | None) -> str:
        return ConfigEntity.broker(broker).config_path


@dataclass(frozen=True, slots=True)
class ClientConfig(EntityConfig):
    """`/config/clients/<client>`: quotas of a client id, since 0.9. No client (None): of all of them."""

    @staticmethod
    def path(client: str | None) -> str:
        return ConfigEntity.of_client(client).config_path


@dataclass(frozen=True, slots=True)
class UserConfig(EntityConfig):
    """`/config/users/<user>`: quotas and SCRAM passwords of a user, since 0.10.1. No user (None): of all."""

    @staticmethod
    def path(user: str | None) -> str:
        return ConfigEntity.user(user).config_path


@dataclass(frozen=True, slots=True)
class UserClientConfig(EntityConfig):
    """`/config/users/<user>/clients/<client>`: quotas of one client id of one user, since 0.10.1."""

    @staticmethod
    def path(user: str | None, client: str | None) -> str:
        return ConfigEntity.user_client(user, client).config_path


@dataclass(frozen=True, slots=True)
class IpConfig(EntityConfig):
    """`/config/ips/<address>`: how fast an address may connect, since 2.8. No address (None): any."""

    @staticmethod
    def path(address: str | None) -> str:
        return ConfigEntity.ip(address).config_path
