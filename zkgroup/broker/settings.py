"""Settings of a broker as a frozen value; see `zkgroup.settings` for the style.

Names and defaults: kafka/server/KafkaConfig.scala@0.8.2.2 and, where it came later, @2.8.2.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from zkgroup.broker.quotas.connections import parse_overrides
from zkgroup.errors import ConfigError
from zkgroup.security.listeners import is_one_host
from zkgroup.settings import check_bounds, check_types, refuse_unknown_names, setting

FLUSHES = ("none", "batch")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
WEEK_MS = 7 * 24 * 60 * 60 * 1000
INT16_MAX, INT32_MAX, INT64_MAX = 2**15 - 1, 2**31 - 1, 2**63 - 1


def up_to(highest: int) -> range:
    """The numbers from 1 on."""
    return range(1, highest + 1)


FROM_0, FROM_1 = range(INT32_MAX + 1), up_to(INT32_MAX)
"""Numbers as Kafka's, of 32 bits: 24 days, where they are milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The settings of one broker."""

    session_timeout_ms: int = setting(
        6000,
        "Requested session timeout of ZooKeeper. The server may grant another, which then applies.",
        kafka="zookeeper.session.timeout.ms",
        bounds=FROM_1,
    )
    connection_timeout_ms: int | None = setting(
        None,
        "Longest wait for the first connection; the session timeout when absent.",
        kafka="zookeeper.connection.timeout.ms",
        bounds=FROM_1,
    )
    max_in_flight_requests: int = setting(
        1000,
        "Most ZooKeeper requests in flight; a bulk read of 1,000 znodes is one request.",
        kafka="zookeeper.max.in.flight.requests",
        why="Kafka's 10 is for one znode a request; a server accepts 1,000 before it throttles clients.",
        bounds=up_to(100_000),
    )
    set_acl: bool = setting(
        False,
        "Only the broker's own user may change the znodes that it creates, and where secrets are read them; "
        "it needs credentials for ZooKeeper.",
        kafka="zookeeper.set.acl",
    )
    advertised_host_name: str | None = setting(
        None,
        "Host that the broker registers for its clients; the host it listens on when absent.",
        kafka="advertised.host.name",
    )
    advertised_port: int | None = setting(
        None,
        "Port that the broker registers for its clients; the port it listens on when absent.",
        kafka="advertised.port",
        bounds=up_to(65_535),
    )
    broker_rack: str | None = setting(
        None, "Rack of the broker; replicas are spread over racks.", kafka="broker.rack"
    )
    registration_version: int = setting(
        4,
        "Format of the registration, 1 to 5.",
        why="4 can be read by 0.8.2.2 and by everything from 0.9.0.1 on.",
        bounds=up_to(5),
    )
    reserved_broker_max_id: int = setting(
        1000,
        "Largest broker id to choose; generated ids are above it.",
        kafka="reserved.broker.max.id",
        bounds=FROM_0,
    )
    min_insync_replicas: int = setting(
        1,
        "Records with acks=all are refused while fewer replicas are in sync; a topic's setting precedes it.",
        kafka="min.insync.replicas",
        bounds=FROM_1,
    )
    replica_lag_time_max_ms: int = setting(
        10_000,
        "A follower that has not caught up for this time leaves the ISR; checked every half of this time.",
        kafka="replica.lag.time.max.ms",
        bounds=FROM_1,
    )
    replica_fetch_max_bytes: int = setting(
        1_048_576,
        "Most bytes of one partition in one answer of a leader.",
        kafka="replica.fetch.max.bytes",
        bounds=FROM_1,
    )
    replica_fetch_response_max_bytes: int = setting(
        10_485_760,
        "Most bytes in one answer of a leader.",
        kafka="replica.fetch.response.max.bytes",
        bounds=FROM_1,
    )
    replica_fetch_min_bytes: int = setting(
        1,
        "A leader answers a fetch when it has this many bytes.",
        kafka="replica.fetch.min.bytes",
        bounds=FROM_1,
    )
    replica_fetch_wait_max_ms: int = setting(
        500,
        "A leader answers a fetch that has nothing new after this time.",
        kafka="replica.fetch.wait.max.ms",
        bounds=FROM_1,
    )
    replica_fetch_backoff_ms: int = setting(
        200,
        "Pause after a fetch that failed.",
        kafka="replica.fetch.backoff.ms",
        why="A follower often gets a new leader epoch before the leader; Kafka's 1000 would delay acks=all.",
        bounds=FROM_1,
    )
    replica_socket_timeout_ms: int = setting(
        30_000, "Longest wait for an answer of a leader.", kafka="replica.socket.timeout.ms", bounds=FROM_1
    )
    num_replica_fetchers: int = setting(
        1,
        "Connections to one leader; its partitions are spread over them.",
        kafka="num.replica.fetchers",
        bounds=up_to(1000),
    )
    controlled_shutdown_enable: bool = setting(
        True,
        "The controller elects other leaders for the broker's partitions before the broker stops.",
        kafka="controlled.shutdown.enable",
    )
    controlled_shutdown_max_retries: int = setting(
        3,
        "Most requests for a controlled shutdown; after them the broker stops without one. The last live "
        "broker sends one.",
        kafka="controlled.shutdown.max.retries",
        bounds=FROM_1,
    )
    controlled_shutdown_retry_backoff_ms: int = setting(
        5000, "Pause between two such requests.", kafka="controlled.shutdown.retry.backoff.ms", bounds=FROM_1
    )
    controller_socket_timeout_ms: int = setting(
        30_000,
        "Longest wait for the controller's answer.",
        kafka="controller.socket.timeout.ms",
        bounds=FROM_1,
    )
    unclean_leader_election_enable: bool = setting(
        False,
        "As controller: elect a replica outside the ISR if no member is live; a topic's setting precedes it.",
        kafka="unclean.leader.election.enable",
        why="An unclean election loses acknowledged records. True at 0.8.2.2, false from 0.11 on.",
    )
    num_partitions: int = setting(
        1,
        "Partitions of a topic that is created without a number of them.",
        kafka="num.partitions",
        bounds=up_to(20_000),
    )
    default_replication_factor: int = setting(
        1,
        "Replicas of each partition of a topic that is created without a number of them.",
        kafka="default.replication.factor",
        bounds=up_to(INT16_MAX),
    )
    offsets_topic_num_partitions: int = setting(
        50,
        "Partitions of `__consumer_offsets`, the slots of group coordinators. The first broker that needs "
        "the number writes it to ZooKeeper, where it never changes.",
        kafka="offsets.topic.num.partitions",
        bounds=up_to(10_000),
    )
    offsets_topic_replication_factor: int = setting(
        3,
        "Replicas of each partition of `__consumer_offsets`; as many as there are brokers while there are "
        "fewer.",
        kafka="offsets.topic.replication.factor",
        bounds=up_to(INT16_MAX),
    )
    delete_topic_enable: bool = setting(
        True, "As controller: topics marked for deletion are deleted.", kafka="delete.topic.enable"
    )
    auto_create_topics_enable: bool = setting(
        True,
        "An unknown topic is created when a client asks for its metadata, unless the client forbids it.",
        kafka="auto.create.topics.enable",
    )
    auto_leader_rebalance_enable: bool = setting(
        True,
        "As controller: elect preferred replicas as leaders again at intervals.",
        kafka="auto.leader.rebalance.enable",
    )
    leader_imbalance_check_interval_ms: int = setting(
        300_000,
        "As controller: interval between two checks of the preferred leaders.",
        kafka="leader.imbalance.check.interval.seconds",
        bounds=FROM_1,
    )
    leader_imbalance_per_broker_percentage: int = setting(
        10,
        "As controller: percentage of a broker's preferred partitions led by others that starts elections.",
        kafka="leader.imbalance.per.broker.percentage",
        bounds=range(101),
    )
    controller_takeover_grace_ms: int = setting(
        2000, "As controller: wait before taking over from a live Kafka controller.", bounds=FROM_1
    )
    isr_notice_every_ms: int = setting(
        2500, "Interval of the check whether to notify the controller of changed ISRs.", bounds=FROM_1
    )
    isr_notice_quiet_ms: int = setting(
        5000, "Time without a changed ISR before the notification.", bounds=FROM_1
    )
    isr_notice_waiting_max_ms: int = setting(
        60_000, "Longest time that further changes can delay the notification.", bounds=FROM_1
    )
    max_connections: int = setting(
        1000,
        "Most connections of clients to the port; for a further one another is closed, an idle one if "
        "possible. The controller and followers do not count.",
        kafka="max.connections",
        bounds=FROM_1,
    )
    max_connections_per_ip: int = setting(
        INT32_MAX,
        "Most connections of one address; a further one is closed.",
        kafka="max.connections.per.ip",
        bounds=FROM_0,
    )
    max_connections_per_ip_overrides: str = setting(
        "",
        "The same of some addresses: `<address>:<number>,...`.",
        kafka="max.connections.per.ip.overrides",
    )
    connections_max_idle_ms: int = setting(
        600_000,
        "A connection without a request for this time is closed.",
        kafka="connections.max.idle.ms",
        bounds=FROM_1,
    )
    socket_request_max_bytes: int = setting(
        104_857_600, "Largest request that is read.", kafka="socket.request.max.bytes", bounds=FROM_1
    )
    socket_request_timeout_ms: int = setting(
        60_000,
        "Longest time from the first byte of a request to its last; then the connection is closed.",
        why="Kafka closes it after `connections.max.idle.ms` without a byte.",
        bounds=FROM_1,
    )
    socket_response_timeout_ms: int = setting(
        60_000,
        "Longest time for a client to receive an answer; then the connection is closed.",
        why="Kafka closes it after `connections.max.idle.ms` without a byte.",
        bounds=FROM_1,
    )
    ssl_handshake_timeout_ms: int = setting(
        10_000,
        "Longest time for the TLS handshake of a client; then the connection is closed.",
        why="Kafka closes it after `connections.max.idle.ms`.",
        bounds=FROM_1,
    )
    queued_max_request_bytes: int = setting(
        419_430_400,
        "Most bytes of requests and answers in memory, of all connections; above it the slowest connection "
        "that holds many is closed.",
        kafka="queued.max.request.bytes",
        why="Kafka has no limit by default, does not count answers, and stops reading instead.",
        bounds=up_to(INT64_MAX),
    )
    log_segment_bytes: int = setting(
        1024**3,
        "A log begins a new segment at this size; a topic's `segment.bytes` precedes it.",
        kafka="log.segment.bytes",
        bounds=range(14, INT32_MAX + 1),
    )
    log_roll_ms: int = setting(
        WEEK_MS,
        "A log begins a new segment after this time; a topic's `segment.ms` precedes it.",
        kafka="log.roll.ms",
        bounds=up_to(INT64_MAX),
    )
    log_retention_ms: int = setting(
        WEEK_MS,
        "Segments with older records only are deleted; -1: never. A topic's `retention.ms` precedes it.",
        kafka="log.retention.ms",
        bounds=range(-1, INT64_MAX + 1),
    )
    log_retention_bytes: int = setting(
        -1,
        "The oldest segments of a larger log are deleted; -1: no limit. A topic's `retention.bytes` precedes "
        "it.",
        kafka="log.retention.bytes",
        bounds=range(-1, INT64_MAX + 1),
    )
    log_retention_check_interval_ms: int = setting(
        300_000,
        "Interval of the check whether segments are to be deleted.",
        kafka="log.retention.check.interval.ms",
        bounds=FROM_1,
    )
    log_index_interval_bytes: int = setting(
        4096,
        "Bytes of records between two index entries; a topic's `index.interval.bytes` precedes it.",
        kafka="log.index.interval.bytes",
        bounds=FROM_0,
    )
    log_message_timestamp_type: str = setting(
        "CreateTime",
        "`CreateTime`: records keep their producers' timestamps. `LogAppendTime`: they get the time of the "
        "append at their leader. A topic's `message.timestamp.type` precedes it.",
        kafka="log.message.timestamp.type",
    )
    message_max_bytes: int = setting(
        1_048_588,
        "Largest record batch of a producer, compressed; a topic's `max.message.bytes` precedes it.",
        kafka="message.max.bytes",
        bounds=FROM_0,
    )
    group_min_session_timeout_ms: int = setting(
        6_000,
        "Shortest session timeout of a group's member.",
        kafka="group.min.session.timeout.ms",
        bounds=FROM_1,
    )
    group_max_session_timeout_ms: int = setting(
        1_800_000,
        "Longest session timeout of a group's member.",
        kafka="group.max.session.timeout.ms",
        bounds=FROM_1,
    )
    group_initial_rebalance_delay_ms: int = setting(
        3_000,
        "How long the first rebalance of an empty group waits for members; each one that joins extends it, "
        "at most to the rebalance timeout.",
        kafka="group.initial.rebalance.delay.ms",
        bounds=FROM_0,
    )
    group_max_size: int = setting(
        INT32_MAX, "Most members of a group.", kafka="group.max.size", bounds=FROM_1
    )
    slot_max_groups: int = setting(
        500,
        "Most groups of a partition of `__consumer_offsets`. A further one cannot join (error 81) or commit "
        "(28).",
        bounds=FROM_1,
    )
    slot_max_offsets: int = setting(
        10_000,
        "Most committed offsets of the groups of a partition of `__consumer_offsets`: ZooKeeper keeps them "
        "in memory. A commit of a further partition gets error 28.",
        bounds=FROM_1,
    )
    slot_max_metadata_bytes: int = setting(
        1_048_576,
        "Most bytes of the metadata of these offsets together. A commit with more gets error 28.",
        bounds=FROM_0,
    )
    offset_metadata_max_bytes: int = setting(
        4_096,
        "Longest metadata of a committed offset, in characters.",
        kafka="offset.metadata.max.bytes",
        bounds=FROM_0,
    )
    offsets_retention_minutes: int = setting(
        10_080,
        "An offset is deleted so long after its group became empty, or after its commit where no member "
        "subscribes to its topic. Offsets of ZooKeeper consumers stay.",
        kafka="offsets.retention.minutes",
        bounds=FROM_1,
    )
    offsets_retention_check_interval_ms: int = setting(
        600_000,
        "Interval of the check for such offsets.",
        kafka="offsets.retention.check.interval.ms",
        bounds=FROM_1,
    )
    flush: str = setting(
        "none",
        "`none`: records survive a crash of the broker's process. `batch`: they survive a crash of the "
        "machine too, which costs two fsyncs a batch.",
    )

    def __post_init__(self) -> None:
        check_types(self)
        check_bounds(self)
        parse_overrides(self.max_connections_per_ip_overrides)
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ConfigError(
                f"setting group_min_session_timeout_ms: expected at most group_max_session_timeout_ms, "
                f"{self.group_max_session_timeout_ms}, found {self.group_min_session_timeout_ms}"
            )
        for name, choices in _ONE_OF.items():
            if (value := getattr(self, name)) not in choices:
                raise ConfigError(f"setting {name}: expected {' or '.join(choices)}, found {value!r}")
        if (advertised := self.advertised_host_name) is not None and not is_one_host(advertised):
            raise ConfigError(
                "setting advertised_host_name: expected the name alone under which clients reach the broker "
                f"(no scheme, no port, no wildcard), found {advertised!r}"
            )
        if self.broker_rack is not None and self.registration_version < 3:
            raise ConfigError("setting broker_rack: needs registration_version 3 or later")


_ONE_OF = {"flush": FLUSHES, "log_message_timestamp_type": TIMESTAMP_TYPES}


def unknown_broker_setting(name: str) -> ConfigError:
    """The error for a name that `BrokerSettings` does not have."""
    for item in fields(BrokerSettings):
        if name == str(item.metadata["kafka"]).replace(".", "_"):
            return ConfigError(f"setting {name}: is called {item.name} here")
    return ConfigError(f"unknown setting {name}")


refuse_unknown_names(BrokerSettings, unknown_broker_setting)
