"""Settings as frozen values: Kafka's names in snake case, with unit, default and the reason for it.

Names and defaults: kafka/consumer/ConsumerConfig.scala@0.8.2.2, with the exceptions that
`docs/reference` lists. Each field's metadata has `doc` (what it does), `kafka` (Kafka's name, if it has the
setting) and `why` (the reason for the default); the reference is generated from it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from zkgroup.assignment import DEFAULT_STRATEGY, STRATEGIES
from zkgroup.assignment.strategies import ENTRY_POINTS, find_strategy
from zkgroup.errors import ConfigError
from zkgroup.model.assignors import strategy_names

ASSIGNMENT_STRATEGIES = tuple(STRATEGIES)
"""The strategies of zkgroup itself."""
_STRATEGY_NAMES = " or ".join(", ".join(f"`{name}`" for name in STRATEGIES).rsplit(", ", 1))


def setting(
    default: Any, doc: str, *, kafka: str | None = None, why: str = "", bounds: range | None = None
) -> Any:
    """A field of a settings class.

    `kafka`: its name in Kafka; `why`: the reason for the default; `bounds`: of a number, its values.
    """
    return field(default=default, metadata={"doc": doc, "kafka": kafka, "why": why, "bounds": bounds})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The settings of one member of a group."""

    consumer_id: str | None = setting(
        None,
        "Suffix of the id under `/consumers/<group>/ids`; generated from host, time and a random part "
        "when absent.",
        kafka="consumer.id",
    )
    restart_grace_ms: int | None = setting(
        None,
        "Time after the end of its session in which this member may come back under its `consumer_id` and "
        "get its partitions without a move: no other member claims them. When absent: they move at once.",
    )
    session_timeout_ms: int = setting(
        6000,
        "Requested session timeout of ZooKeeper. The server may grant another, which then applies.",
        kafka="zookeeper.session.timeout.ms",
    )
    connection_timeout_ms: int | None = setting(
        None,
        "Longest wait for the first connection; the session timeout when absent.",
        kafka="zookeeper.connection.timeout.ms",
    )
    partition_assignment_strategy: str = setting(
        DEFAULT_STRATEGY,
        f"Strategies that assign partitions: {_STRATEGY_NAMES}, or the name of an entry point of "
        "`zkgroup.assignors`; several with commas between, the most preferred first. The group uses the one "
        "that most prefer of those that all its members have, else `range`.",
        kafka="partition.assignment.strategy",
    )
    exclude_internal_topics: bool = setting(
        True,
        "Leave `__consumer_offsets` out of white- and blacklists. Must be equal in the whole group.",
        kafka="exclude.internal.topics",
    )
    auto_commit_enable: bool = setting(
        True, "Commit processed positions by timer, at revocation and at close.", kafka="auto.commit.enable"
    )
    auto_commit_interval_ms: int = setting(
        5_000,
        "Period of the auto-commit; the first comes one period after the start.",
        kafka="auto.commit.interval.ms",
    )
    commit_rate_max: int | None = setting(
        None,
        "Most transactions of commits a second of the whole group: each zkgroup member has an equal share, "
        "and commits that wait for it become one transaction. The lowest of the group's members counts. A "
        "commit waits for two session timeouts at most, and not at all where partitions are given up. JVM "
        "members are not limited. When absent: no limit.",
        bounds=range(1, 1_000_001),
    )
    auto_offset_reset: str | None = setting(
        None,
        "Where to start without a committed offset: `earliest`, `latest` or `error` (`smallest` and "
        "`largest` too). When absent, the source decides: `latest` for KafkaSource, `earliest` for the "
        "others.",
        kafka="auto.offset.reset",
    )
    rebalance_backoff_ms: int = setting(
        2000,
        "Longest pause between two reads of a partition that another member owns (the watch comes first).",
        kafka="rebalance.backoff.ms",
    )
    rebalance_max_retries: int | None = setting(
        None,
        "Failed claims in a row after which the member fails; None: never.",
        kafka="rebalance.max.retries",
        why="The partitions of a member that gives up have no owner (KAFKA-4228).",
    )
    consumer_timeout_ms: int = setting(
        -1,
        "An iterating consumer ends after this long without a record; below 0: never.",
        kafka="consumer.timeout.ms",
    )
    client_id: str | None = setting(
        None, "Client id sent to Kafka brokers; the group by default.", kafka="client.id"
    )
    queued_max_message_chunks: int = setting(
        2,
        "Fetches (500 records at most) of a partition that are read ahead of the application.",
        kafka="queued.max.message.chunks",
    )
    fetch_message_max_bytes: int = setting(
        1_048_576,
        "Most bytes of one partition in one answer of a Kafka broker.",
        kafka="fetch.message.max.bytes",
    )
    fetch_min_bytes: int = setting(
        1, "A Kafka broker answers a fetch once it has this many bytes.", kafka="fetch.min.bytes"
    )
    fetch_wait_max_ms: int = setting(
        100, "A Kafka broker answers a fetch after this time at the latest.", kafka="fetch.wait.max.ms"
    )
    socket_timeout_ms: int = setting(
        30_000, "Longest wait for an answer of a Kafka broker.", kafka="socket.timeout.ms"
    )
    socket_receive_buffer_bytes: int = setting(
        65_536, "Receive buffer of connections to Kafka brokers.", kafka="socket.receive.buffer.bytes"
    )
    refresh_leader_backoff_ms: int = setting(
        200,
        "Pause before Kafka brokers are asked again for the leader of a partition.",
        kafka="refresh.leader.backoff.ms",
    )
    settle_ms: int = setting(
        30, "Time without a change of the group before a rebalance, so that a burst of changes causes one."
    )
    settle_max_ms: int = setting(500, "Longest time that a burst of changes can delay a rebalance.")
    initial_rebalance_delay_ms: int = setting(
        300, "Wait of the first member of an empty group, so that members started with it are included."
    )
    revoke_timeout_ms: int = setting(
        3000,
        "Longest time for `on_revoked`; after it the partitions are released in any case.",
        why="Settling and revoking together stay below 0.6 of the 6 s that a JVM member retries.",
    )
    max_poll_interval_ms: int | None = setting(
        None,
        "Longest time between two polls; after it the member releases its partitions until the next poll.",
    )
    lease_fraction: float = setting(
        2 / 3, "Part of the granted session timeout for which an acknowledged write allows delivery."
    )
    server_tick_ms: int = setting(
        2000, "The servers' tickTime, which a client cannot read; half of it is subtracted from the lease."
    )
    ack_mode: str = setting(
        "auto", "`auto`: asking for the next record acknowledges the one before; `explicit`: only `ack` does."
    )
    max_unacked: int = setting(
        10_000, "Delivered but not acknowledged records of a partition at which it pauses."
    )
    on_foreign_commit: str | None = setting(
        None,
        "When another client wrote the offset of an owned partition: `reassert` writes the member's own "
        "offset again, `adopt` continues from the new one. "
        "When absent: `reassert` while a member that is not a zkgroup member is registered, else `adopt`.",
    )
    require_brokers: bool | None = setting(
        None, "Claim no partition before a broker is registered; when absent, the source decides."
    )
    verify_interval_ms: int = setting(
        30_000, "Period of the check that the owned znodes are still there (± 30 %)."
    )
    capacity: int | None = setting(
        None,
        "How much this member can take, beside the others. Where every member of the group has one, shares "
        "of partitions are in proportion. `group describe` shows it.",
        bounds=range(1, 1_000_001),
    )
    client_rack: str | None = setting(
        None,
        "The rack of this member. Where every member of the group has one, `range` and `sticky` give "
        "partitions to members in the rack of a replica, as far as their shares allow.",
        kafka="client.rack",
    )
    rebalance_moves_max: int | None = setting(
        None,
        "Partitions of living members that a `sticky` group moves at a time; the next ones move when these "
        "have arrived. In force while every member of the group sets it; the least counts. None: no limit.",
        bounds=range(1, 1_000_001),
    )
    prepare_timeout_ms: int = setting(
        60_000,
        "Longest time that the present owner of a partition waits for `on_prepare` of its new owner, if that "
        "overrides it.",
    )
    publish_interval_ms: int = setting(5_000, "Shortest time between two publications of the member's view.")
    group_history: bool = setting(
        True,
        "Keep the group's rebalances below `/zkgroup`, for `zkgroup group history`. The setting of the "
        "oldest member counts.",
    )

    commit_history: bool = setting(
        False,
        "Write beside each offset which member has committed it, in the same transaction, for `zkgroup "
        "offsets show --verbose`.",
        why="A commit writes two znodes for each partition, and takes ZooKeeper about twice as long.",
    )

    def __post_init__(self) -> None:
        _check(self)


JVM_ONLY = {
    "group_id": "it is the argument `group`",
    "zookeeper_connect": "it is the argument `address`",
    "num_consumer_fetchers": "a consumer has one fetcher; run more members or threads",
    "offsets_storage": "offsets are kept in ZooKeeper, so members of both kinds continue from each other's",
    "dual_commit_enabled": "offsets are kept in ZooKeeper only",
    "offsets_channel_backoff_ms": "offsets are kept in ZooKeeper only",
    "offsets_channel_socket_timeout_ms": "offsets are kept in ZooKeeper only",
    "offsets_commit_max_retries": "a commit is resolved by reading back, not retried blindly",
    "zookeeper_sync_time_ms": "its one effect on a consumer is the default of rebalance_backoff_ms: set that",
    "mirror_topics_whitelist": "mirroring is no part of zkgroup",
    "mirror_topics_blacklist": "mirroring is no part of zkgroup",
    "mirror_consumer_numthreads": "mirroring is no part of zkgroup",
}
"""Settings of Kafka 0.8.2.2's consumer that have no meaning here, and what to do instead."""


def unknown_setting(name: str) -> ConfigError:
    """Returns the error for a name that `GroupSettings` does not have (Kafka's dots as underscores)."""
    if name in JVM_ONLY:
        return ConfigError(f"setting {name}: not of zkgroup; {JVM_ONLY[name]}")
    for item in fields(GroupSettings):
        if name == str(item.metadata["kafka"]).replace(".", "_"):
            return ConfigError(f"setting {name}: is called {item.name} here")
    return ConfigError(f"unknown setting {name}")


def refuse_unknown_names(kind: type, unknown: Callable[[str], ConfigError]) -> None:
    """Makes the constructor of `kind` raise `unknown(name)` for an unknown name, not a TypeError."""
    known = {item.name for item in fields(kind)}
    plain: Callable[..., None] = getattr(kind, "__init__")  # noqa: B009 - of an instance it would not type-check

    @functools.wraps(plain)
    def checked(self: object, **named: Any) -> None:
        for name in named:
            if name not in known:
                raise unknown(name)
        plain(self, **named)

    setattr(kind, "__init__", checked)  # noqa: B010 - a plain assignment does not type-check


refuse_unknown_names(GroupSettings, unknown_setting)


_KINDS: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "bool": ("True or False", bool),
    "float": ("a number", (int, float)),
    "int": ("a whole number", int),
    "str": ("a text", str),
}
"""Annotated type of a field, to its name in messages and its Python types."""


def check_types(settings: Any) -> None:
    """Raises ConfigError for the first field whose value is not of the type annotated."""
    for item in fields(settings):
        _check_type(item.name, str(item.type), getattr(settings, item.name))


def check_bounds(settings: Any) -> None:
    """Raises ConfigError for the first number that is out of the bounds of its field."""
    for item in fields(settings):
        bounds, value = item.metadata["bounds"], getattr(settings, item.name)
        if bounds is not None and value is not None and value not in bounds:
            raise ConfigError(
                f"setting {item.name}: expected {bounds.start} to {bounds.stop - 1}, found {value!r}"
            )


def _check_type(name: str, annotation: str, value: object) -> None:
    """Raises ConfigError for a value of another type.

    Without this check the text "false" would be true, and a number as text would fail later, on a thread.
    """
    *kinds, none = annotation.split(" | ") if annotation.endswith(" | None") else (annotation, "")
    if isinstance(value, bool):
        fits = "bool" in kinds
    elif value is None:
        fits = bool(none)
    else:
        fits = any(isinstance(value, _KINDS[kind][1]) for kind in kinds)
    if not fits:
        words = " or ".join([_KINDS[kind][0] for kind in kinds] + ([none] if none else []))
        raise ConfigError(f"setting {name}: expected {words}, found {value!r}")


def _check_strategies(text: str) -> None:
    """Raises ConfigError unless every name is that of a strategy, once."""
    names = strategy_names(text)
    unknown = next((name for name in names if find_strategy(name) is None), None)
    if unknown is not None or not names:
        raise ConfigError(
            f"setting partition_assignment_strategy: expected {_STRATEGY_NAMES}, or the name of an entry "
            f"point of {ENTRY_POINTS} that is installed here, found {(unknown or text)!r}"
        )
    if len(set(names)) < len(names):
        raise ConfigError(f"setting partition_assignment_strategy: expected each name once, found {text!r}")


def _check(settings: GroupSettings) -> None:
    def require(condition: bool, name: str, expected: str) -> None:
        if not condition:
            raise ConfigError(f"setting {name}: expected {expected}, found {getattr(settings, name)!r}")

    check_types(settings)
    check_bounds(settings)
    choices = {
        "auto_offset_reset": ("earliest", "latest", "error", "smallest", "largest", None),
        "ack_mode": ("auto", "explicit"),
        "on_foreign_commit": ("reassert", "adopt", None),
    }
    for name, allowed in choices.items():
        require(getattr(settings, name) in allowed, name, " or ".join(str(a) for a in allowed if a))
    for item in fields(settings):
        value = getattr(settings, item.name)
        if item.name.endswith("_ms") and item.name != "consumer_timeout_ms" and value is not None:
            lowest = 0 if item.name in ("settle_ms", "settle_max_ms", "initial_rebalance_delay_ms") else 1
            require(value >= lowest, item.name, f"a whole number of ms, at least {lowest}")
    _check_strategies(settings.partition_assignment_strategy)
    require(0 < settings.lease_fraction < 1, "lease_fraction", "a number above 0 and below 1")
    longest_ms = max(settings.session_timeout_ms, 2 * settings.server_tick_ms)  # servers grant two ticks
    taken_off_ms = min(settings.server_tick_ms / 2, longest_ms / 4)
    require(
        settings.lease_fraction * longest_ms > taken_off_ms,
        "lease_fraction",
        f"more than {taken_off_ms / longest_ms:.3g}, which server_tick_ms={settings.server_tick_ms} "
        f"subtracts from a session of {longest_ms} ms: there would be no lease",
    )
    for name in ("fetch_message_max_bytes", "fetch_min_bytes", "socket_receive_buffer_bytes"):
        require(getattr(settings, name) >= 1, name, "a whole number of bytes, at least 1")
    require(settings.queued_max_message_chunks >= 1, "queued_max_message_chunks", "at least 1")
    require(settings.max_unacked >= 1, "max_unacked", "at least 1")
    require(settings.settle_max_ms >= settings.settle_ms, "settle_max_ms", "at least settle_ms")
    retries = settings.rebalance_max_retries
    require(retries is None or retries >= 1, "rebalance_max_retries", "at least 1, or None for no limit")
    named = settings.restart_grace_ms is None or settings.consumer_id is not None
    require(named, "restart_grace_ms", "a consumer_id as well, under which the member comes back")
    if settings.consumer_id is not None:
        bad = not settings.consumer_id or any(
            c == "/" or ord(c) < 0x20 or 0x7F <= ord(c) <= 0x9F for c in settings.consumer_id
        )
        require(not bad, "consumer_id", "a name without '/' and control characters")
