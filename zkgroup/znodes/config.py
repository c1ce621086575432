"""Configurations below `/config`, of topics, brokers, clients, users and addresses."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Self, get_args
from urllib.parse import quote, unquote

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.znodes.ids import validate_topic
from zkgroup.znodes.json_fields import (
    INT32,
    check_number,
    check_size,
    check_text,
    decimal,
    integer_of,
    object_of,
    others,
    read_object,
    show,
    write_object,
)

EntityKind = Literal["topics", "clients", "users", "brokers", "ips"]
"""Kinds of configuration overrides below `/config` (kafka/server/DynamicConfigManager.scala@2.8.0)."""

DEFAULT_NAME: Final = "<default>"
"""The name of the znode that applies to all entities of a kind without their own."""

_NO_ADDRESS: Final = re.compile(r"[^!-~]|[/%]")
_KINDS: Final[tuple[EntityKind, ...]] = get_args(EntityKind)


def config_path() -> str:
    """The parent of the kinds of configuration, and of the notifications of their changes."""
    return "/config"


def entities_path(kind: EntityKind) -> str:
    """Its children are the entities of a kind that have a configuration."""
    return f"{config_path()}/{kind}"


@dataclass(frozen=True, slots=True)
class ConfigEntity:
    """The entity of one configuration, as in notifications: `topics/orders`, `users/alice/clients/<default>`.

    Clients came with 0.9, users and brokers with 0.10.1, addresses (`ips`) with 2.8. Names are as in paths,
    where those of users and clients are percent-encoded; `<default>` is the default of the kind, which is
    never an encoded name (org/apache/kafka/common/utils/Sanitizer.java@2.8.2).
    """

    kind: EntityKind
    """The folder below `/config`: `topics`, `clients`, `users`, `brokers` or `ips`."""
    name: str
    """The name as in the path, or `<default>`."""
    client: str | None = None
    """The client, for a quota of one client of a user."""

    @classmethod
    def topic(cls, topic: str) -> Self:
        """One topic. Raises ConfigError for an invalid name."""
        return cls("topics", validate_topic(topic))

    @classmethod
    def broker(cls, broker: int | None) -> Self:
        """One broker, or (None) the default of all. Raises ConfigError for an invalid broker id."""
        return cls("brokers", DEFAULT_NAME if broker is None else str(check_number("broker id", broker)))

    @classmethod
    def of_client(cls, client: str | None) -> Self:
        """One client id, or the default. Raises ConfigError for a name that is invalid in a path."""
        return cls("clients", _encoded("client", client))

    @classmethod
    def user(cls, user: str | None) -> Self:
        """One user, or the default. Raises ConfigError for a name that is invalid in a path."""
        return cls("users", _encoded("user", user))

    @classmethod
    def user_client(cls, user: str | None, client: str | None) -> Self:
        """One client, or the default one, of one user, or of the default one."""
        return cls("users", _encoded("user", user), _encoded("client", client))

    @classmethod
    def ip(cls, address: str | None) -> Self:
        """One address, or the default. Raises ConfigError for an invalid address."""
        # Kafka does not encode addresses: every address is valid in a path.
        if address is not None and (address in ("", ".", "..") or _NO_ADDRESS.search(address)):
            raise ConfigError(f"address {address!r}: expected an IP address or a host name")
        return cls("ips", DEFAULT_NAME if address is None else address)

    @classmethod
    def parse(cls, path: str, text: str) -> Self:
        """The entity in a notification's text. `path` is the notification's, for the CorruptZnodeError."""
        kind, name, *more = [*text.split("/"), ""]
        if kind == "users" and name and more[:1] == ["clients"] and len(more) == 3 and more[1]:
            return cls("users", name, more[1])
        known = next((each for each in _KINDS if each == kind), None)
        if known is None or not name or more != [""]:
            raise CorruptZnodeError(path, f"one of {', '.join(_KINDS)}, a slash and a name", show(text))
        if known == "topics":
            try:
                validate_topic(name)
            except ConfigError as error:
                raise CorruptZnodeError(path, "a topic's name", show(text)) from error
        if known == "brokers" and name != DEFAULT_NAME and decimal(name, INT32) is None:
            raise CorruptZnodeError(path, "a broker id", show(text))
        return cls(known, name)

    @property
    def plain_name(self) -> str | None:
        """The decoded name; None for the default of the kind."""
        return _plain(self.name)

    @property
    def plain_client(self) -> str | None:
        """The decoded name of the client of a user; None if there is none, and for the default one."""
        return _plain(self.client) if self.client else None

    @property
    def entity_path(self) -> str:
        """The path in notifications and below `/config`."""
        own = f"{self.kind}/{self.name}"
        return own if self.client is None else f"{own}/clients/{self.client}"

    @property
    def config_path(self) -> str:
        """The znode with the configuration."""
        return f"{config_path()}/{self.entity_path}"

    def __str__(self) -> str:
        return self.entity_path


def _encoded(what: str, name: str | None) -> str:
    """The encoded name: letters, digits, `.`, `-` and `_`, and `%XX` for each other byte of its UTF-8."""
    if name is None:
        return DEFAULT_NAME
    encoded = quote(check_text(what, name), safe="").replace("~", "%7E")
    if encoded in ("", ".", ".."):
        raise ConfigError(f"{what} {name!r}: expected a name other than '.' and '..'")
    return encoded


def _plain(name: str) -> str | None:
    # Java's decoder reads a plus as a space; Kafka itself never writes one.
    return None if name == DEFAULT_NAME else unquote(name.replace("+", " "))


_KEYS: Final = ("version", "config")


@dataclass(frozen=True, slots=True)
class EntityConfig:
    """Overrides of one entity: `{"version":1,"config":{"retention.ms":"3600000"}}`. Persistent.

    The same for every kind and every Kafka from 0.8.1 to 3.9 (kafka/admin/AdminUtils.scala@0.8.2.2,
    kafka/zk/ZkData.scala@2.8.2). Rewrites keep unknown settings, such as those of later versions.
    """

    overrides: Mapping[str, str] = field(default_factory=dict)
    """Setting to value. Every value is a text: a number fails each broker of 0.8.2.2."""
    extensions: Mapping[str, object] = field(default_factory=dict)
    """Keys beside `version` and `config`, kept by every rewrite."""

    def changed(self, set_to: Mapping[str, str], removed: Collection[str] = ()) -> Self:
        """The configuration with some overrides set and some removed; all others stay, also unknown ones."""
        kept = {name: value for name, value in self.overrides.items() if name not in removed}
        return dataclasses.replace(self, overrides={**kept, **set_to})

    def encode(self) -> bytes:
        """Raises ConfigError for a setting without a name, text that is not UTF-8, and too much data."""
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
        """The configuration. Raises CorruptZnodeError if it is not version 1 or a value is not a text.

        The error does not quote that of a user or of a broker, which may have secrets in it. No data means no
        overrides, as in Kafka: the parent of a user's clients has none.
        """
        try:
            return cls._decoded(path, data)
        except CorruptZnodeError as error:
            if not path.startswith((entities_path("users"), entities_path("brokers"))):
                raise
            found = "data that may have secrets in it: it is not shown"
            raise CorruptZnodeError(path, error.expected, found) from None

    @classmethod
    def _decoded(cls, path: str, data: bytes | None) -> Self:
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
    """`/config/ips/<address>`: connection rates of an address, since 2.8. No address (None): of all."""

    @staticmethod
    def path(address: str | None) -> str:
        return ConfigEntity.ip(address).config_path


def topic_configs_path() -> str:
    """Its children are the topics with a configuration."""
    return entities_path("topics")


@dataclass(frozen=True, slots=True)
class TopicConfig(EntityConfig):
    """`/config/topics/<t>`: overrides of a topic, created with it even without any. Persistent.

    `{"version":1,"config":{"retention.ms":"3600000"}}`. Kafka's tool also writes it when it adds partitions.
    """

    @staticmethod
    def path(topic: str) -> str:
        return f"{topic_configs_path()}/{topic}"
