"""Settings of brokers, clients, users and addresses, and values of them that every broker can read.

Brokers parse quotas and throttles when they hear of the change: one that is no number ends the thread that
listens at some releases, so that no later change is applied (kafka/server/ConfigHandler.scala@0.9.0.1 to
1.1.1). Kafka's tools check what they write (kafka/server/DynamicConfig.scala@2.8.2): quotas by name and
value; of a broker's settings, of which there are many, the throttles.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from zkgroup.errors import ConfigError
from zkgroup.znodes.config_entity import EntityKind
from zkgroup.znodes.json_object import show
from zkgroup.znodes.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS

_WHOLE: Final = re.compile(r"\+?[0-9]{1,19}")
_FRACTION: Final = re.compile(r"\+?[0-9]{1,19}(\.[0-9]{1,19})?")
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1

_QUOTAS: Final[Mapping[str, int | None]] = {
    "producer_byte_rate": _LONG_MAX,
    "consumer_byte_rate": _LONG_MAX,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
"""Of clients and users: the greatest whole number, or None where a fraction may be given."""

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
"""What brokers take while they run, by `/config/brokers` (kafka/server/DynamicBrokerConfig.scala@3.9.1,
`AllDynamicConfigs`, and the throttles). A plug-in of theirs may have more."""
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
_OF_LISTENER: Final = re.compile(r"listener\.name\.[^.]+\.(.+)")

OBEYED: Final[Mapping[EntityKind, frozenset[str]]] = {
    "brokers": frozenset({LEADER_RATE, FOLLOWER_RATE, MIN_INSYNC_REPLICAS}),
    "topics": frozenset(
        {LEADER_REPLICAS, FOLLOWER_REPLICAS, MIN_INSYNC_REPLICAS, "unclean.leader.election.enable"}
    ),
}
"""What brokers and controllers of zkgroup obey; of the kinds that are not here, nothing."""


def unknown_to_brokers(settings: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    """Those that no broker of Kafka takes while it runs, each with the nearest one that it does take."""
    for name in settings:
        found = _OF_LISTENER.fullmatch(name)
        bare = found[1] if found else name
        if bare not in BROKER_SETTINGS:
            guess = difflib.get_close_matches(bare, BROKER_SETTINGS, n=1, cutoff=0.6)
            yield name, (name.removesuffix(bare) + guess[0]) if guess else None


def check_broker_settings(settings: Iterable[str]) -> None:
    """Raises ConfigError for the first that no broker of Kafka takes while it runs."""
    for name, guess in unknown_to_brokers(settings):
        more = f" (did you mean {guess}?)" if guess else ""
        raise ConfigError(
            f"setting {show(name)}: Kafka's brokers take no such setting while they run{more}; "
            "`--allow-unknown` sets one of a plug-in"
        )


def check_entity_settings(kind: EntityKind, settings: Mapping[str, str]) -> None:
    """Raises ConfigError for the first name that the kind does not have, or value that is no such number.

    Brokers have settings beside the known ones; their values are not looked at, but for that of
    `min.insync.replicas`, which brokers of ours obey: one that they cannot read is as if none were set.
    """
    known = KNOWN.get(kind, {})
    for name, value in settings.items():
        if name not in known and kind != "brokers":
            raise ConfigError(f"setting {show(name)}: {kind} have {', '.join(known)}")
        if name == MIN_INSYNC_REPLICAS and kind == "brokers":
            _check_min_insync(value)
        if name not in known:
            continue
        highest = known[name]
        if highest is None and not _FRACTION.fullmatch(value):
            raise ConfigError(f"setting {name}: expected a number, found {show(value)}")
        if highest is not None and not (_WHOLE.fullmatch(value) and int(value) <= highest):
            raise ConfigError(
                f"setting {name}: expected a whole number from 0 to {highest}, found {show(value)}"
            )


def _check_min_insync(value: str) -> None:
    if not (value.isascii() and value.isdigit() and 1 <= int(value[:11]) <= _INT_MAX):
        told = f"expected a whole number from 1 to {_INT_MAX}, found {show(value)}"
        raise ConfigError(f"setting {MIN_INSYNC_REPLICAS}: {told}")
