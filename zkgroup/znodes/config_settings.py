"""The settings that topics, brokers, clients, users and addresses can have, and checks of their values.

They include the throttles of a reassignment, of tools and brokers from 0.10.1 on (rates: controller.md 4.6).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from zkgroup.errors import ConfigError
from zkgroup.znodes.config import EntityKind
from zkgroup.znodes.json_fields import INT32, show

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
RATES: Final = (LEADER_RATE, FOLLOWER_RATE)
"""In `/config/brokers/<id>`: bytes a second, of every broker in an old or new replica list."""

LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
REPLICAS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
"""In `/config/topics/<t>`: the replicas before the reassignment, and those that it adds."""

EVERY_REPLICA: Final = "*"

_ITEM: Final = re.compile(r"([0-9]{1,10}):([0-9]{1,10})")


def throttled_replicas(replicas: Iterable[tuple[int, int]]) -> str:
    """The value of a throttle: `<partition>:<broker>` items joined by commas, ascending: `0:1,0:2,1:3`."""
    return ",".join(f"{partition}:{broker}" for partition, broker in sorted(set(replicas)))


def parse_throttled_replicas(text: str) -> frozenset[tuple[int, int]] | None:
    """The (partition, broker) pairs, or None for `*`, every replica of the topic. Raises ConfigError."""
    if text.strip() == EVERY_REPLICA:
        return None
    pairs = set()
    for item in filter(None, (part.strip() for part in text.split(","))):
        match = _ITEM.fullmatch(item)
        if match is None or int(match[1]) not in INT32 or int(match[2]) not in INT32:
            raise ConfigError(f"throttled replicas: expected <partition>:<broker>, found {show(item)}")
        pairs.add((int(match[1]), int(match[2])))
    return frozenset(pairs)


_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_INT_END, _LONG_END = 2**31, 2**63

_NUMBERS: Final[Mapping[str, range]] = {
    "delete.retention.ms": range(_LONG_END),
    "file.delete.delay.ms": range(_LONG_END),
    "flush.messages": range(_LONG_END),
    "flush.ms": range(_LONG_END),
    "index.interval.bytes": range(_INT_END),
    "max.compaction.lag.ms": range(1, _LONG_END),
    "max.message.bytes": range(_INT_END),
    "message.timestamp.difference.max.ms": range(_LONG_END),
    "min.compaction.lag.ms": range(_LONG_END),
    "min.insync.replicas": range(1, _INT_END),
    "retention.bytes": range(-_LONG_END, _LONG_END),
    "retention.ms": range(-1, _LONG_END),
    "segment.bytes": range(14, _INT_END),
    "segment.index.bytes": range(_INT_END),
    "segment.jitter.ms": range(_LONG_END),
    "segment.ms": range(1, _LONG_END),
}
"""As kafka/log/LogConfig.scala@2.8.2."""
_WORDS: Final[Mapping[str, Collection[str]]] = {
    "cleanup.policy": ("compact", "delete"),
    "compression.type": ("uncompressed", "gzip", "lz4", "snappy", "zstd", "producer"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
}
"""The words that a value may have; `cleanup.policy` is a list of them, which may be empty."""
_BOOLEANS: Final = frozenset(
    {"message.downconversion.enable", "preallocate", "unclean.leader.election.enable"}
)


class Since(NamedTuple):
    """The first release that has a setting."""

    registration: int
    """Version of the registrations of its brokers; brokers with a lower one do not know the setting."""
    release: str


SETTINGS: Final[Mapping[str, Since]] = {
    **dict.fromkeys(
        (
            "cleanup.policy",
            "delete.retention.ms",
            "file.delete.delay.ms",
            "flush.messages",
            "flush.ms",
            "index.interval.bytes",
            "max.message.bytes",
            "min.cleanable.dirty.ratio",
            "min.insync.replicas",
            "retention.bytes",
            "retention.ms",
            "segment.bytes",
            "segment.index.bytes",
            "segment.jitter.ms",
            "segment.ms",
            "unclean.leader.election.enable",
        ),
        Since(1, "0.8.2"),
    ),
    **dict.fromkeys(("compression.type", "preallocate"), Since(2, "0.9")),
    **dict.fromkeys(
        ("message.format.version", "message.timestamp.difference.max.ms", "message.timestamp.type"),
        Since(3, "0.10.0"),
    ),
    **dict.fromkeys(("min.compaction.lag.ms", LEADER_REPLICAS, FOLLOWER_REPLICAS), Since(3, "0.10.1")),
    "message.downconversion.enable": Since(4, "2.0"),
    "max.compaction.lag.ms": Since(4, "2.3"),
    **dict.fromkeys(
        (
            "compression.gzip.level",
            "compression.lz4.level",
            "compression.zstd.level",
            "local.retention.bytes",
            "local.retention.ms",
            "message.timestamp.after.max.ms",
            "message.timestamp.before.max.ms",
            "remote.log.copy.disable",
            "remote.log.delete.on.disable",
            "remote.storage.enable",
        ),
        Since(5, "3"),
    ),
}
"""Every setting of a topic in Kafka 0.8.2.2 to 3.9.1."""


def unknown_to(settings: Iterable[str], oldest: int | None) -> Iterator[tuple[str, str]]:
    """The settings that the oldest registered broker does not know, with the first release that has each.

    `oldest` is the version of its registration; None if no broker of Kafka is registered.
    """
    for name in settings:
        since = SETTINGS.get(name)
        if oldest is not None and since is not None and oldest < since.registration:
            yield name, since.release


def check_topic_settings(settings: Mapping[str, str]) -> None:
    """Raises ConfigError for the first unknown setting of a topic, or invalid value."""
    for name, value in settings.items():
        if name not in SETTINGS:
            guess = difflib.get_close_matches(name, SETTINGS, n=1, cutoff=0.6)
            more = f"; did you mean {guess[0]!r}?" if guess else ""
            raise ConfigError(f"setting {show(name)}: expected a setting that topics have in Kafka{more}")
        if name in _BOOLEANS and value.lower() not in ("true", "false"):
            raise ConfigError(f"setting {name}: expected true or false, found {show(value)}")
        if name in REPLICAS:
            parse_throttled_replicas(value)
        words = _WORDS.get(name)
        found = cleanup_policies(value) if name == CLEANUP_POLICY else {value.strip()}
        if words and not found.issubset(words):
            raise ConfigError(f"setting {name}: expected {' or '.join(words)}, found {show(value)}")
        if (numbers := _NUMBERS.get(name)) is None:
            continue
        if not _INTEGER.fullmatch(value) or int(value) not in numbers:
            raise ConfigError(
                f"setting {name}: expected a whole number from {numbers.start} to {numbers.stop - 1}, "
                f"found {show(value)}"
            )


_WHOLE: Final = re.compile(r"\+?[0-9]{1,19}")
_FRACTION: Final = re.compile(r"\+?([0-9]{1,19}\.?[0-9]{0,19}|\.[0-9]{1,19})([eE][+-]?[0-9]{1,3})?")
"""Kafka writes 20,000,000 as `2.0E7`."""
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1

_QUOTAS: Final[Mapping[str, int | None]] = {
    "producer_byte_rate": _LONG_MAX,
    "consumer_byte_rate": _LONG_MAX,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
"""Quotas of clients and users to the highest whole number; None if a fraction is allowed."""

KNOWN: Final[Mapping[EntityKind, Mapping[str, int | None]]] = {
    "brokers": dict.fromkeys(
        (LEADER_RATE, FOLLOWER_RATE, "replica.alter.log.dirs.io.max.bytes.per.second"), _LONG_MAX
    ),
    "clients": _QUOTAS,
    "users": _QUOTAS,
    "ips": {"connection_creation_rate": _INT_MAX},
}


BROKER_SETTINGS: Final = frozenset(
    [
        "advertised.listeners",
        "auto.include.jmx.reporter",
        "background.threads",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "listener.security.protocol.map",
        "listeners",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleaner.threads",
        "log.cleanup.policy",
        "log.flush.interval.messages",
        "log.flush.interval.ms",
        "log.index.interval.bytes",
        "log.index.size.max.bytes",
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "log.message.downconversion.enable",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.difference.max.ms",
        "log.message.timestamp.type",
        "log.preallocate",
        "log.retention.bytes",
        "log.retention.hours",
        "log.retention.minutes",
        "log.retention.ms",
        "log.roll.hours",
        "log.roll.jitter.hours",
        "log.roll.jitter.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "log.segment.delete.delay.ms",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "message.max.bytes",
        "metric.reporters",
        "min.insync.replicas",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "principal.builder.class",
        "producer.id.expiration.ms",
        "remote.fetch.max.wait.ms",
        "remote.list.offsets.request.timeout.ms",
        "remote.log.index.file.cache.total.size.bytes",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.copy.max.bytes.per.second",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.fetch.max.bytes.per.second",
        "remote.log.reader.threads",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.mechanism.inter.broker.protocol",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.key.password",
        "ssl.keymanager.algorithm",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
        "transaction.partition.verification.enable",
        "unclean.leader.election.enable",
    ]
)
"""The dynamic settings of Kafka's brokers in `/config/brokers` (kafka/server/DynamicBrokerConfig.scala@3.9.1,
`AllDynamicConfigs`, and the throttles). A plug-in may have more."""
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
MAX_CONNECTIONS_PER_IP: Final = "max.connections.per.ip"
MAX_CONNECTIONS_PER_IP_OVERRIDES: Final = "max.connections.per.ip.overrides"
_OF_LISTENER: Final = re.compile(r"listener\.name\.[^.]+\.(.+)")

CLEANUP_POLICY: Final = "cleanup.policy"
CLEANUP_POLICIES: Final = (CLEANUP_POLICY, "log.cleanup.policy")
"""Of topics and of brokers."""

LOG_SETTINGS: Final[Mapping[EntityKind, Mapping[str, str]]] = {
    "topics": {
        name: name
        for name in (
            CLEANUP_POLICY,
            "index.interval.bytes",
            "max.message.bytes",
            "message.timestamp.type",
            "retention.bytes",
            "retention.ms",
            "segment.bytes",
            "segment.ms",
        )
    },
    "brokers": {
        "log.cleanup.policy": CLEANUP_POLICY,
        "log.index.interval.bytes": "index.interval.bytes",
        "log.message.timestamp.type": "message.timestamp.type",
        "log.retention.bytes": "retention.bytes",
        "log.retention.ms": "retention.ms",
        "log.roll.ms": "segment.ms",
        "log.segment.bytes": "segment.bytes",
        "message.max.bytes": "max.message.bytes",
    },
}
"""The settings of logs that zkgroup's brokers apply, to the name that a topic has for each."""

OBEYED: Final[Mapping[EntityKind, frozenset[str]]] = {
    "brokers": frozenset(
        {
            LEADER_RATE,
            FOLLOWER_RATE,
            MAX_CONNECTIONS_PER_IP,
            MAX_CONNECTIONS_PER_IP_OVERRIDES,
            MIN_INSYNC_REPLICAS,
            *LOG_SETTINGS["brokers"],
        }
    ),
    "clients": frozenset(KNOWN["clients"]),
    "users": frozenset(KNOWN["users"]),
    "ips": frozenset(KNOWN["ips"]),
    "topics": frozenset(
        {
            LEADER_REPLICAS,
            FOLLOWER_REPLICAS,
            MIN_INSYNC_REPLICAS,
            "unclean.leader.election.enable",
            *LOG_SETTINGS["topics"],
        }
    ),
}
"""The settings that brokers and controllers of zkgroup apply."""


def cleanup_policies(text: str) -> frozenset[str]:
    """The items of a `cleanup.policy`; none where it is empty: nothing is deleted, and nothing compacted."""
    return frozenset(each.strip() for each in text.split(",")) if text.strip() else frozenset()


def without_compaction(settings: Mapping[str, str]) -> str | None:
    """Returns a text about a setting that asks for compaction, which brokers do not do; else None."""
    for name in CLEANUP_POLICIES:
        policies = cleanup_policies(settings.get(name, ""))
        if "compact" in policies:
            kept = "delete by time and size only" if "delete" in policies else "keep every record"
            return f"{name}={settings[name]}: brokers of zkgroup do not compact, they {kept}"
    return None


def without_listener(name: str) -> str:
    """The name of a broker's setting without the prefix of a listener."""
    found = _OF_LISTENER.fullmatch(name)
    return found[1] if found else name


def unknown_to_brokers(settings: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    """The settings that are not dynamic in any broker of Kafka, each with the most similar one that is."""
    for name in settings:
        bare = without_listener(name)
        if bare not in BROKER_SETTINGS:
            guess = difflib.get_close_matches(bare, BROKER_SETTINGS, n=1, cutoff=0.6)
            yield name, (name.removesuffix(bare) + guess[0]) if guess else None


def check_broker_settings(settings: Iterable[str]) -> None:
    """Raises ConfigError for the first setting that is not dynamic in any broker of Kafka."""
    for name, guess in unknown_to_brokers(settings):
        more = f" (did you mean {guess}?)" if guess else ""
        raise ConfigError(
            f"setting {show(name)}: Kafka's brokers have no such dynamic setting{more}; "
            "`--allow-unknown` sets one of a plug-in"
        )


def check_entity_settings(kind: EntityKind, settings: Mapping[str, str]) -> None:
    """Raises ConfigError for the first setting that the kind does not have, or invalid number.

    Values of broker settings are checked where zkgroup's brokers apply them, as these ignore an invalid one.
    """
    known = KNOWN.get(kind, {})
    of_logs = LOG_SETTINGS["brokers"] if kind == "brokers" else {}
    for name, value in settings.items():
        if name not in known and kind != "brokers":
            raise ConfigError(f"setting {show(name)}: {kind} have {', '.join(known)}")
        if name == MIN_INSYNC_REPLICAS and kind == "brokers":
            _check_min_insync(value)
        if (of_topic := of_logs.get(name)) is not None:
            _check_of_topic(name, of_topic, value)
        if name not in known:
            continue
        highest = known[name]
        if highest is None and not _FRACTION.fullmatch(value):
            raise ConfigError(f"setting {name}: expected a number, found {show(value)}")
        if highest is not None and not (_WHOLE.fullmatch(value) and int(value) <= highest):
            raise ConfigError(
                f"setting {name}: expected a whole number from 0 to {highest}, found {show(value)}"
            )


def _check_of_topic(name: str, of_topic: str, value: str) -> None:
    try:
        check_topic_settings({of_topic: value})
    except ConfigError as error:
        raise ConfigError(str(error).replace(of_topic, name, 1)) from error


def _check_min_insync(value: str) -> None:
    if not (value.isascii() and value.isdigit() and 1 <= int(value[:11]) <= _INT_MAX):
        problem = f"expected a whole number from 1 to {_INT_MAX}, found {show(value)}"
        raise ConfigError(f"setting {MIN_INSYNC_REPLICAS}: {problem}")
