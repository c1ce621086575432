"""Znodes of the whole cluster: its id, generated broker ids, znodes of later versions, and the parents."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.znodes.admin_requests import admin_path, delete_topics_path
from zkgroup.znodes.brokers import broker_ids_path, brokers_path, topics_path
from zkgroup.znodes.config import config_path, entities_path
from zkgroup.znodes.consumers import consumers_path
from zkgroup.znodes.json_fields import (
    check_number,
    integer_of,
    integer_text_of,
    object_of,
    read_object,
    show,
    text_of,
    write_object,
)
from zkgroup.znodes.notifications import config_changes_path, isr_changes_path

RESERVED_BROKER_MAX_ID: Final = 1000
"""The highest broker id that people may choose (`reserved.broker.max.id`); generated ids are higher."""

PRODUCER_ID_BLOCK_SIZE: Final = 1000
PRODUCER_ID_MAX: Final = 2**63 - 1

_CLUSTER_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")


@dataclass(frozen=True, slots=True)
class ClusterId:
    """`/cluster/id`: `{"version":"1","id":"<22 characters>"}`, the version a text. Persistent, never changed.

    Created by the first broker of Kafka from 0.10.1 on (kafka/zk/ZkData.scala@2.8.2), or of zkgroup.
    """

    id: str
    """A UUID in base64url without padding."""

    @staticmethod
    def path() -> str:
        return "/cluster/id"

    @classmethod
    def of(cls, random: bytes) -> Self:
        """The cluster id of 16 random bytes."""
        assert len(random) == 16
        return cls(base64.urlsafe_b64encode(random).decode("ascii").rstrip("="))

    def encode(self) -> bytes:
        """Raises ConfigError unless it is 22 characters of base64url."""
        if not _CLUSTER_ID.fullmatch(self.id):
            raise ConfigError(f"cluster id: expected 22 characters of base64url, found {show(self.id)}")
        return write_object({"version": "1", "id": self.id})

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        return cls(text_of(path, read_object(path, data, "a cluster id"), "id"))


@dataclass(frozen=True, slots=True)
class BrokerSequence:
    """`/brokers/seqid`: the sequence of generated broker ids, since 0.9. Persistent; its version counts.

    A broker that needs an id sets the empty data and takes the version in the reply
    (kafka/zk/KafkaZkClient.scala@2.8.2).
    """

    @staticmethod
    def path() -> str:
        return f"{brokers_path()}/seqid"

    @staticmethod
    def broker(version: int, reserved_max: int = RESERVED_BROKER_MAX_ID) -> int:
        """The broker id of a version: above the reserved ones. Raises ConfigError when they are used up."""
        return check_number("generated broker id", reserved_max + version, reserved_max + 1)

    def encode(self) -> bytes:
        return b""

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        return cls()


@dataclass(frozen=True, slots=True)
class FinalizedFeatures:
    """`/feature`: the feature levels of all brokers of 2.7 or later. Persistent; read, never written.

    Version 1: `{"features":{"f":{"min_version_level":1,"max_version_level":2}},"version":1,"status":1}`; 2
    (3.3) has no minimum (kafka/zk/ZkData.scala@2.8.2 and @3.9.0). No recorded cluster has any feature.
    """

    enabled: bool
    levels: Mapping[str, int]
    """Feature to the highest version level in use."""

    @staticmethod
    def path() -> str:
        return "/feature"

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "finalized features")
        features = object_of(path, fields, "features")
        levels = {
            name: integer_of(path, object_of(path, features, name), "max_version_level") for name in features
        }
        return cls(integer_of(path, fields, "status") == 1, levels)


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """`/latest_producer_id_block`: the last block of producer ids that a broker has claimed. Persistent.

    `{"version":1,"broker":1,"block_start":"0","block_end":"999"}`, since 0.11; no data until the first block.
    A broker claims the next block with a write at the version that it has read
    (kafka/coordinator/transaction/ProducerIdManager.scala@2.8.2).
    """

    broker: int
    """The broker that gives out these ids."""
    first: int
    last: int

    @staticmethod
    def path() -> str:
        return "/latest_producer_id_block"

    @classmethod
    def after(cls, latest: Self | None, broker: int) -> Self:
        """The block of a broker that follows the latest one. Raises ConfigError when the ids are used up."""
        first = 0 if latest is None else latest.last + 1
        last = first + PRODUCER_ID_BLOCK_SIZE - 1
        if last > PRODUCER_ID_MAX:
            raise ConfigError(
                f"producer ids: expected a block up to {PRODUCER_ID_MAX}, found {first}, {last}"
            )
        return cls(broker, first, last)

    def encode(self) -> bytes:
        return write_object(
            {
                "version": 1,
                "broker": self.broker,
                "block_start": str(self.first),
                "block_end": str(self.last),
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "a block of producer ids")
        first, last = (integer_text_of(path, fields, key) for key in ("block_start", "block_end"))
        if last < first:
            raise CorruptZnodeError(path, "a block that ends after its start", f"{first} to {last}")
        return cls(integer_of(path, fields, "broker"), first, last)


def common_parents() -> tuple[str, ...]:
    """The znodes that a broker of 0.8.2.2 creates at its start, parents first; persistent, null data."""
    return (
        consumers_path(),
        brokers_path(),
        broker_ids_path(),
        topics_path(),
        config_path(),
        config_changes_path(),
        entities_path("topics"),
        admin_path(),
        delete_topics_path(),
    )


def later_parents() -> tuple[str, ...]:
    """The parents that tools of 0.9 and later expect and 0.8.2.2 ignores; persistent, null data."""
    return (
        isr_changes_path(),
        BrokerSequence.path(),
        entities_path("clients"),
        entities_path("users"),
        entities_path("brokers"),
        "/cluster",
    )
