"""The requests of a controller to brokers, and ControlledShutdown of a stopping broker to its controller.

Version 0 of LeaderAndIsr, StopReplica, UpdateMetadata and ControlledShutdown, which Kafka 0.8.2.2 speaks
(kafka/api/*Request.scala and *Response.scala at that tag), UpdateMetadata up to version 3 and
ControlledShutdown up to version 2 (clients/src/main/resources/common/message/*.json@2.8.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple, Protocol

from zkgroup.model import TopicPartition
from zkgroup.model.values import PLAINTEXT, PROTOCOLS
from zkgroup.wire.messages import Api, Request, Response
from zkgroup.wire.schema import Boolean, Int16, Int32, Int64, Layout, NullableString, String, Versions

NO_LEADER = -1
"""Leader of a partition that has none."""
LEADER_DURING_DELETE = -2
"""Leader, in UpdateMetadata, of a partition that is being deleted: receivers forget it."""

NamedPartition = Annotated[TopicPartition, Layout((("topic", String), ("partition", Int32)))]


def controller_client_id(broker: int, host: str, port: int) -> str:
    """Returns the name of 0.8.2.2 in LeaderAndIsr and UpdateMetadata (in StopReplica it is an empty text).

    Host and port are the controller's `host.name` and `port`, not the advertised ones.
    """
    return f"id_{broker}-host_{host}-port_{port}"


class LeaderAndIsr(Protocol):
    """Leader, ISR and their epochs, as the `state` znode of a partition holds them."""

    @property
    def leader(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def isr(self) -> tuple[int, ...]: ...
    @property
    def controller_epoch(self) -> int: ...


class PartitionStateInfo(NamedTuple):
    """Leader, ISR and replicas of one partition.

    A tuple rather than a dataclass: a controller that takes over makes a hundred thousand at once.
    """

    topic: String
    partition: Int32
    controller_epoch: Int32
    """Of the controller that decided, which need not be the sender."""
    leader: Int32
    """Broker id; -1 none, -2 being deleted."""
    leader_epoch: Int32
    isr: tuple[Int32, ...]
    zk_version: Int32
    """Version of the `state` znode that holds this."""
    replicas: tuple[Int32, ...]
    """0.8.2.2 does not keep the order of the replica list here."""

    @classmethod
    def of(
        cls, topic_partition: tuple[str, int], state: LeaderAndIsr, version: int, replicas: tuple[int, ...]
    ) -> PartitionStateInfo:
        """Returns the part of a request about a partition whose `state` znode has this version."""
        return cls(
            *topic_partition,
            state.controller_epoch,
            state.leader,
            state.leader_epoch,
            state.isr,
            version,
            replicas,
        )

    @classmethod
    def during_delete(
        cls,
        topic_partition: tuple[str, int],
        controller_epoch: int,
        isr: tuple[int, ...],
        replicas: tuple[int, ...],
    ) -> PartitionStateInfo:
        """A partition of a topic that is being deleted, for UpdateMetadata: receivers forget it."""
        return cls(*topic_partition, controller_epoch, LEADER_DURING_DELETE, 0, isr, 0, replicas)

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class BrokerEndPoint:
    """The address of a broker."""

    broker: Int32
    """Its id."""
    host: String
    port: Int32
    rack: Annotated[NullableString, Versions(1)] = None
    """Only in Metadata, from version 1 on."""


PROTOCOL_IDS = {protocol: number for number, protocol in enumerate(PROTOCOLS)}
"""Numbers of security protocols (org.apache.kafka.common.security.auth.SecurityProtocol)."""
_PROTOCOLS = dict(enumerate(PROTOCOLS))


@dataclass(frozen=True, slots=True)
class UpdateMetadataEndpoint:
    """The address of one listener of a broker, in UpdateMetadata from version 1 on."""

    port: Int32
    host: String
    listener: Annotated[String, Versions(3, absent="")]
    """Its name; before version 3 that of its protocol."""
    protocol: Int16
    """See `PROTOCOL_IDS`."""


@dataclass(frozen=True, slots=True)
class UpdateMetadataBroker:
    """The addresses of a live broker in UpdateMetadata."""

    broker: Int32
    """Its id."""
    host: Annotated[String, Versions(0, 0, absent="")] = ""
    """In version 0: of its plain listener, the only one."""
    port: Annotated[Int32, Versions(0, 0, absent=-1)] = -1
    endpoints: Annotated[tuple[UpdateMetadataEndpoint, ...], Versions(1)] = ()
    rack: Annotated[NullableString, Versions(2)] = None

    @property
    def listeners(self) -> Mapping[str, tuple[str, int]]:
        """Host and port of each listener by its name, in every version."""
        if not self.endpoints:
            return {PLAINTEXT: (self.host, self.port)}
        return {
            each.listener or _PROTOCOLS.get(each.protocol, ""): (each.host, each.port)
            for each in self.endpoints
        }


class PartitionError(NamedTuple):
    """The result for one partition."""

    topic: String
    partition: Int32
    error: Int16
    """See `ErrorCode`."""

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class LeaderAndIsrResponse(Response):
    """The broker's result for each partition; one that it does not replicate is not named."""

    error: Int16
    """Of the request as a whole: 11 for an older controller epoch than the broker knows."""
    partitions: tuple[PartitionError, ...] = ()


@dataclass(frozen=True, slots=True)
class LeaderAndIsrRequest(Request):
    """Makes the broker leader or follower of each partition named."""

    API: ClassVar[Api] = Api.LEADER_AND_ISR
    RESPONSE: ClassVar[type[Response]] = LeaderAndIsrResponse

    controller_id: Int32
    controller_epoch: Int32
    partitions: tuple[PartitionStateInfo, ...]
    leaders: tuple[BrokerEndPoint, ...]
    """Of those partitions. A follower of 0.8.2.2 whose leader is missing does not fetch, and answers 0."""


@dataclass(frozen=True, slots=True)
class StopReplicaResponse(Response):
    """The broker's result for each partition; 0 also for one that it did not have."""

    error: Int16
    """Of the request as a whole: 11 for an older controller epoch than the broker knows."""
    partitions: tuple[PartitionError, ...] = ()


@dataclass(frozen=True, slots=True)
class StopReplicaRequest(Request):
    """Makes the broker stop fetching each partition named, and delete it if `delete`. May name none."""

    API: ClassVar[Api] = Api.STOP_REPLICA
    RESPONSE: ClassVar[type[Response]] = StopReplicaResponse

    controller_id: Int32
    controller_epoch: Int32
    delete: Boolean
    partitions: tuple[NamedPartition, ...]


@dataclass(frozen=True, slots=True)
class UpdateMetadataResponse(Response):
    """The broker has taken it in."""

    VERSIONS: ClassVar[range] = range(4)

    error: Int16
    """To an older controller epoch we answer 11; 0.8.2.2 answers -1, through a mistake of its own."""


@dataclass(frozen=True, slots=True)
class UpdateMetadataRequest(Request):
    """The metadata that the broker is to answer clients with: all live brokers, and the partitions that
    changed.
    """

    API: ClassVar[Api] = Api.UPDATE_METADATA
    RESPONSE: ClassVar[type[Response]] = UpdateMetadataResponse
    VERSIONS: ClassVar[range] = range(4)

    controller_id: Int32
    controller_epoch: Int32
    partitions: tuple[PartitionStateInfo, ...]
    brokers: tuple[UpdateMetadataBroker, ...]
    """All that are live or shutting down; they replace those known before."""


@dataclass(frozen=True, slots=True)
class ControlledShutdownResponse(Response):
    """The partitions that still stand in the way."""

    VERSIONS: ClassVar[range] = range(3)

    error: Int16
    """11 where the answering broker is not the controller, 8 for an unknown broker (0.8.2.2: -1 for both), 77
    for another epoch than that of the broker's registration."""
    remaining: tuple[NamedPartition, ...] = ()
    """Partitions with more than one replica that the broker still leads."""


@dataclass(frozen=True, slots=True)
class ControlledShutdownRequest(Request):
    """A broker asks the controller to take its leaderships away before it stops."""

    API: ClassVar[Api] = Api.CONTROLLED_SHUTDOWN
    RESPONSE: ClassVar[type[Response]] = ControlledShutdownResponse
    VERSIONS: ClassVar[range] = range(3)

    broker: Int32
    """The one that stops."""
    broker_epoch: Annotated[Int64, Versions(2)] = -1
    """czxid of its registration."""

    @classmethod
    def header_version(cls, version: int) -> int:
        """Version 0 alone has no client id."""
        return 0 if version == 0 else 1
