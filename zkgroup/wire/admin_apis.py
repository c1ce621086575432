"""Requests and responses that change a cluster: topics, partitions, configs, leaders, reassignments.

Sources: the messages of these names in clients/src/main/resources/common/message/*.json@2.8.2. `error` is
Kafka's ErrorCode (`ErrorCode` has those that are used here), `error_message` its text for people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from zkgroup.wire.messages import Api, Request, Response
from zkgroup.wire.schema import (
    NO_UUID,
    Boolean,
    ErrorText,
    Int8,
    Int16,
    Int32,
    NullableFrom,
    NullableString,
    String,
    Tag,
    Uuid,
    Versions,
)

DEFAULT_TIMEOUT_MS: Final = 60_000
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
BROKER_LOGGER_RESOURCE: Final = 8
"""Kinds of resources that have configs (org/apache/kafka/common/config/ConfigResource.java)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReplicas:
    """Replicas of one partition of a new topic."""

    partition: Int32
    brokers: tuple[Int32, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewConfig:
    """One config of a new topic."""

    name: String
    value: NullableString


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopic:
    """A topic to be created."""

    topic: String
    partitions: Int32
    """Number of partitions; -1 where `replicas` gives it, or for the broker's default (from version 4 on)."""
    replication_factor: Int16
    """-1 as with `partitions`."""
    replicas: tuple[NewReplicas, ...] = ()
    """Empty: the broker chooses."""
    configs: tuple[NewConfig, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedConfig:
    """One config of the topic that was created."""

    name: String
    value: NullableString
    read_only: Boolean
    source: Int8
    """1 topic, 2 dynamic broker, 3 dynamic default of brokers, 4 broker's file, 5 default; -1 unknown."""
    is_sensitive: Boolean


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """The result for one topic."""

    topic: String
    topic_id: Annotated[Uuid, Versions(7)] = NO_UUID
    error: Int16
    error_message: Annotated[ErrorText, Versions(1)] = None
    config_error: Annotated[Int16, Tag(0), Versions(5)] = 0
    """The reason why `configs` is null."""
    partitions: Annotated[Int32, Versions(5)] = -1
    replication_factor: Annotated[Int16, Versions(5)] = -1
    configs: Annotated[tuple[CreatedConfig, ...] | None, Versions(5)] = ()
    """Empty for a topic that is refused; null only with a `config_error`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsResponse(Response):
    """The result for each topic."""

    VERSIONS: ClassVar[range] = range(8)
    FLEXIBLE_FROM: ClassVar[int | None] = 5

    throttle_ms: Annotated[Int32, Versions(2)] = 0
    topics: tuple[CreatedTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsRequest(Request):
    """Creates topics."""

    API: ClassVar[Api] = Api.CREATE_TOPICS
    RESPONSE: ClassVar[type[Response]] = CreateTopicsResponse
    VERSIONS: ClassVar[range] = range(8)
    FLEXIBLE_FROM: ClassVar[int | None] = 5

    topics: tuple[CreatableTopic, ...]
    timeout_ms: Int32 = DEFAULT_TIMEOUT_MS
    validate_only: Annotated[Boolean, Versions(1)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopic:
    """The result for one topic."""

    topic: Annotated[NullableString, NullableFrom(6)]
    """Null for one that was given by its id, which no topic has."""
    topic_id: Annotated[Uuid, Versions(6)] = NO_UUID
    error: Int16
    error_message: Annotated[ErrorText, Versions(5)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsResponse(Response):
    """The result for each topic."""

    VERSIONS: ClassVar[range] = range(7)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    throttle_ms: Annotated[Int32, Versions(1)] = 0
    topics: tuple[DeletedTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicState:
    """A topic that is to be deleted."""

    topic: NullableString = None
    """Null where the id is given instead."""
    topic_id: Uuid = NO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsRequest(Request):
    """Deletes topics."""

    API: ClassVar[Api] = Api.DELETE_TOPICS
    RESPONSE: ClassVar[type[Response]] = DeleteTopicsResponse
    VERSIONS: ClassVar[range] = range(7)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    topics: Annotated[tuple[DeleteTopicState, ...], Versions(6)] = ()
    topic_names: Annotated[tuple[String, ...], Versions(0, 5)] = ()
    timeout_ms: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedReplicas:
    """Replicas of one new partition."""

    brokers: tuple[Int32, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrownTopic:
    """A topic that is to have more partitions."""

    topic: String
    count: Int32
    """Of all its partitions then."""
    replicas: tuple[AddedReplicas, ...] | None = None
    """Of the new partitions in order; null: the broker chooses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrownTopicResult:
    """The result for one topic."""

    topic: String
    error: Int16
    error_message: ErrorText = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsResponse(Response):
    """The result for each topic."""

    VERSIONS: ClassVar[range] = range(4)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_ms: Int32 = 0
    topics: tuple[GrownTopicResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsRequest(Request):
    """Adds partitions to topics."""

    API: ClassVar[Api] = Api.CREATE_PARTITIONS
    RESPONSE: ClassVar[type[Response]] = CreatePartitionsResponse
    VERSIONS: ClassVar[range] = range(4)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    topics: tuple[GrownTopic, ...]
    timeout_ms: Int32
    validate_only: Boolean = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigResource:
    """A topic or broker whose configs are asked for."""

    kind: Int8
    """2: topic; 4: broker."""
    name: String
    """Topic, or broker id as text; empty for the default of brokers."""
    keys: tuple[String, ...] | None = None
    """Null: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSynonym:
    """A possible source of a value; the one that is in effect is the first."""

    name: String
    value: NullableString
    source: Int8
    """See `CreatedConfig`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConfig:
    """One config."""

    name: String
    value: NullableString
    """Null for a sensitive one."""
    read_only: Boolean
    is_default: Annotated[Boolean, Versions(0, 0)] = False
    """Kafka 2.8.2 says it of no config."""
    source: Annotated[Int8, Versions(1)] = -1
    """See `CreatedConfig`."""
    is_sensitive: Boolean
    synonyms: Annotated[tuple[ConfigSynonym, ...], Versions(1)] = ()
    config_type: Annotated[Int8, Versions(3)] = 0
    """1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password; 0 unknown."""
    documentation: Annotated[NullableString, Versions(3)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedResource:
    """The configs of one resource."""

    error: Int16
    error_message: ErrorText = None
    kind: Int8
    """2: topic; 4: broker."""
    name: String
    configs: tuple[DescribedConfig, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResponse(Response):
    """Configs."""

    VERSIONS: ClassVar[range] = range(5)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    throttle_ms: Int32 = 0
    resources: tuple[DescribedResource, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsRequest(Request):
    """Asks for configs."""

    API: ClassVar[Api] = Api.DESCRIBE_CONFIGS
    RESPONSE: ClassVar[type[Response]] = DescribeConfigsResponse
    VERSIONS: ClassVar[range] = range(5)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    resources: tuple[ConfigResource, ...]
    include_synonyms: Annotated[Boolean, Versions(1)] = False
    include_documentation: Annotated[Boolean, Versions(3)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigValue:
    """A config and its new value."""

    name: String
    value: NullableString


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredResource:
    """A topic or broker, and all configs that it is to have: others go back to their defaults."""

    kind: Int8
    """2: topic; 4: broker."""
    name: String
    configs: tuple[ConfigValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredResourceResult:
    """The result for one resource."""

    error: Int16
    error_message: ErrorText = None
    kind: Int8
    """2: topic; 4: broker."""
    name: String


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResponse(Response):
    """The result for each resource."""

    VERSIONS: ClassVar[range] = range(3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_ms: Int32 = 0
    resources: tuple[AlteredResourceResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsRequest(Request):
    """Replaces all configs of resources."""

    API: ClassVar[Api] = Api.ALTER_CONFIGS
    RESPONSE: ClassVar[type[Response]] = AlterConfigsResponse
    VERSIONS: ClassVar[range] = range(3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    resources: tuple[AlteredResource, ...]
    validate_only: Boolean = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigOperation:
    """A change of one config."""

    name: String
    operation: Int8
    """0 set, 1 delete, 2 append to a list, 3 subtract from a list."""
    value: NullableString


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedResource:
    """A topic or broker, and changes of its configs."""

    kind: Int8
    """2: topic; 4: broker."""
    name: String
    configs: tuple[ConfigOperation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigsResponse(Response):
    """The result for each resource."""

    VERSIONS: ClassVar[range] = range(2)
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    throttle_ms: Int32 = 0
    resources: tuple[AlteredResourceResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigsRequest(Request):
    """Changes single configs of resources (KIP-339)."""

    API: ClassVar[Api] = Api.INCREMENTAL_ALTER_CONFIGS
    RESPONSE: ClassVar[type[Response]] = IncrementalAlterConfigsResponse
    VERSIONS: ClassVar[range] = range(2)
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    resources: tuple[ChangedResource, ...]
    validate_only: Boolean = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """Partitions of a topic."""

    topic: String
    partitions: tuple[Int32, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionResult:
    """The result of the election of one partition."""

    partition: Int32
    error: Int16
    """84: it had that leader already."""
    error_message: ErrorText = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionTopic:
    """The results of the elections of one topic."""

    topic: String
    partitions: tuple[ElectionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersResponse(Response):
    """The result of each election."""

    VERSIONS: ClassVar[range] = range(3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_ms: Int32 = 0
    error: Annotated[Int16, Versions(1)] = 0
    topics: tuple[ElectionTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersRequest(Request):
    """Elects leaders (KIP-183, KIP-460)."""

    API: ClassVar[Api] = Api.ELECT_LEADERS
    RESPONSE: ClassVar[type[Response]] = ElectLeadersResponse
    VERSIONS: ClassVar[range] = range(3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    election_type: Annotated[Int8, Versions(1)] = 0
    """0: the preferred leader; 1: any live replica where none of the ISR lives."""
    topics: tuple[TopicPartitions, ...] | None
    """Null: all."""
    timeout_ms: Int32 = DEFAULT_TIMEOUT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignedPartition:
    """The new replicas of one partition."""

    partition: Int32
    replicas: tuple[Int32, ...] | None
    """Null: its reassignment is cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignedTopic:
    """The new replicas of partitions of a topic."""

    topic: String
    partitions: tuple[ReassignedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignedPartitionResult:
    """The result of the request to reassign one partition."""

    partition: Int32
    error: Int16
    error_message: ErrorText = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignedTopicResult:
    """The results of the requests to reassign partitions of a topic."""

    topic: String
    partitions: tuple[ReassignedPartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsResponse(Response):
    """The results of the requested reassignments; those that were accepted go on behind the answer."""

    VERSIONS: ClassVar[range] = range(1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_ms: Int32 = 0
    error: Int16
    error_message: ErrorText = None
    topics: tuple[ReassignedTopicResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsRequest(Request):
    """Starts and cancels reassignments (KIP-455)."""

    API: ClassVar[Api] = Api.ALTER_PARTITION_REASSIGNMENTS
    RESPONSE: ClassVar[type[Response]] = AlterPartitionReassignmentsResponse
    VERSIONS: ClassVar[range] = range(1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    timeout_ms: Int32 = DEFAULT_TIMEOUT_MS
    topics: tuple[ReassignedTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingReassignment:
    """A partition that is being reassigned."""

    partition: Int32
    replicas: tuple[Int32, ...]
    """All at present."""
    adding: tuple[Int32, ...]
    removing: tuple[Int32, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingTopic:
    """Partitions of a topic that are being reassigned."""

    topic: String
    partitions: tuple[OngoingReassignment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsResponse(Response):
    """Reassignments under way."""

    VERSIONS: ClassVar[range] = range(1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_ms: Int32 = 0
    error: Int16
    error_message: ErrorText = None
    topics: tuple[OngoingTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsRequest(Request):
    """Asks for the reassignments under way (KIP-455)."""

    API: ClassVar[Api] = Api.LIST_PARTITION_REASSIGNMENTS
    RESPONSE: ClassVar[type[Response]] = ListPartitionReassignmentsResponse
    VERSIONS: ClassVar[range] = range(1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    timeout_ms: Int32 = DEFAULT_TIMEOUT_MS
    topics: tuple[TopicPartitions, ...] | None = None
    """Null: all."""
