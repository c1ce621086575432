"""Kafka's znodes below `/consumers`: registrations of members, owners and offsets; and the paths of all.

`ids`, `owners` and `offsets` are Kafka's (kafka/utils/ZkUtils.scala@0.8.2.2); the other children of a group
are zkgroup's (`group_records`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, Self, assert_never

from zkgroup.errors import ConfigError, CorruptZnodeError, UnsupportedRegexError
from zkgroup.java_regex import compile_java, normalise
from zkgroup.model import (
    Blacklist,
    EvaluatedMember,
    StaticSubscription,
    Subscription,
    TopicPartition,
    Whitelist,
)
from zkgroup.model.assignors import Preference, strategy_names
from zkgroup.model.values import quick_init
from zkgroup.znodes.ids import split_thread_id
from zkgroup.znodes.json_fields import (
    INT32_MAX,
    INT64,
    JvmJsonError,
    decimal,
    escape,
    is_integer,
    parse,
    read_text,
    show,
)

_cached = lru_cache(maxsize=1024)
"""Cached paths of parents: a batch has the same few for thousands of partitions."""

OFFSET_MAX = 2**63 - 1
PARTITION_MAX = 2**31 - 1
"""Long and Int, as Kafka reads both; a JVM member fails at an offset that is larger."""


def consumers_path() -> str:
    """Its children are the groups."""
    return "/consumers"


def group_path(group: str) -> str:
    """The parent of all znodes of one group."""
    return f"{consumers_path()}/{group}"


def ids_path(group: str) -> str:
    """Its children are the members; each of them watches it."""
    return f"{group_path(group)}/ids"


def owners_path(group: str) -> str:
    """Its children are the topics with partitions that were owned at some time."""
    return f"{group_path(group)}/owners"


@_cached
def owners_topic_path(group: str, topic: str) -> str:
    """Its children are the owned partitions of a topic."""
    return f"{owners_path(group)}/{topic}"


def owner_path(group: str, topic_partition: TopicPartition) -> str:
    """The owner znode of a partition."""
    return f"{owners_topic_path(group, topic_partition.topic)}/{topic_partition.partition}"


def offsets_path(group: str) -> str:
    """Its children are the topics with committed offsets."""
    return f"{group_path(group)}/offsets"


@_cached
def offsets_topic_path(group: str, topic: str) -> str:
    """Its children are the partitions of a topic that have an offset."""
    return f"{offsets_path(group)}/{topic}"


def offset_path(group: str, topic_partition: TopicPartition) -> str:
    """The offset znode of a partition."""
    return f"{offsets_topic_path(group, topic_partition.topic)}/{topic_partition.partition}"


def resets_path(group: str) -> str:
    """Its children are the reset markers for running owners."""
    return f"{group_path(group)}/resets"


def prepared_path(group: str) -> str:
    """Its children are what members have prepared before they take it over."""
    return f"{group_path(group)}/prepared"


def views_path(group: str) -> str:
    """Its children are the views of the members, for `group verify`."""
    return f"{group_path(group)}/views"


def commits_path(group: str) -> str:
    """Its children say which member wrote each offset."""
    return f"{group_path(group)}/commits"


def static_path(group: str) -> str:
    """Its children are the members that come back within a grace, also while they are away."""
    return f"{group_path(group)}/static"


STATIC: Final = "static"
WHITE_LIST: Final = "white_list"
BLACK_LIST: Final = "black_list"
ZKGROUP_KEY: Final = "zkgroup"
STRATEGY_KEY: Final = "strategy"
EXCLUDE_INTERNAL_KEY: Final = "exclude_internal"
HOST_KEY: Final = "host"
RESTART_GRACE_KEY: Final = "restart_grace_ms"
FEATURES_KEY: Final = "features"
STATIC_MEMBERS: Final = "static"
NEGOTIATION: Final = "strategies"
FREEZE: Final = "freeze"
FEATURES: Final = (STATIC_MEMBERS, NEGOTIATION, FREEZE)
"""The recipes of this version that work only while every member of the group follows them, by name."""
PID_KEY: Final = "pid"
CAPACITY_KEY: Final = "capacity"
RACK_KEY: Final = "rack"
COMMIT_RATE_KEY: Final = "commit_rate_max"
MOVES_MAX_KEY: Final = "moves_max"
PREPARE_KEY: Final = "prepare_ms"

SubscriptionKind = Literal["zkgroup", "jvm", "unknown"]

NUMBER_DIGITS_MAX: Final = 10
"""Digits of a published number: those of an Int."""
_BETWEEN_TOKENS: Final = re.compile(r'("(?:[^"\\]|\\.)*+")|\s++')
_KAFKA_KEYS: Final = ("version", "subscription", "pattern", "timestamp")
_EXPECTED: Final = "a registration"
_ENTRIES_ORDERED_MAX: Final = 4
"""Scala maps of up to 4 entries keep their order; of a wildcard only the first entry counts."""


@dataclass(frozen=True, slots=True)
class Registration:
    """`/consumers/<g>/ids/<member>`: the subscription of a member. Ephemeral.

    Stored by Kafka 0.8.2 as one object without white space, keys in this order:
    `{"version":1,"subscription":{"topic1":2},"pattern":"static","timestamp":"1396019252998"}`.
    Created with its final data, never set again. Every member of the group watches the children of `ids` and
    reads every registration at each rebalance; one that a JVM member cannot parse stops all of them.
    Every version of Kafka ignores unknown keys: zkgroup's are `zkgroup` (its version), `strategy`,
    `exclude_internal`, `features`, `pid`, unless the id contains it `host`, and where they are set
    `capacity`, `rack`, `restart_grace_ms` and `commit_rate_max`, with text values.
    """

    subscription: Mapping[str, int]
    """Topic to thread count; for a wildcard its one entry is the expression as stored, unescaped."""
    pattern: str
    """`static`, `white_list` or `black_list`; any other text counts as static, as for JVM members."""
    timestamp_ms: int | None
    """Epoch milliseconds of the registration; None if it is missing or no number."""
    extensions: Mapping[str, object] = field(default_factory=dict)
    """Unknown top-level keys, in order."""

    @staticmethod
    def path(group: str, member: str) -> str:
        return f"{ids_path(group)}/{member}"

    @classmethod
    def of(
        cls,
        subscription: Subscription,
        timestamp_ms: int | None,
        extensions: Mapping[str, object] | None = None,
    ) -> Self:
        """The registration with this subscription."""
        entries, pattern = _entries(subscription)
        return cls(entries, pattern, timestamp_ms, dict(extensions or {}))

    def wanted(self) -> Subscription:
        """The subscription as a JVM member reads it: the first entry of a wildcard, else static."""
        if self.pattern in (WHITE_LIST, BLACK_LIST) and self.subscription:
            expression, threads = next(iter(self.subscription.items()))
            return (Whitelist if self.pattern == WHITE_LIST else Blacklist)(expression, threads)
        if self.pattern in (WHITE_LIST, BLACK_LIST):
            return StaticSubscription({})
        return StaticSubscription(dict(self.subscription))

    @property
    def is_zkgroup(self) -> bool:
        """True if a zkgroup member wrote it."""
        return ZKGROUP_KEY in self.extensions

    @property
    def strategy(self) -> str | None:
        """The published assignment strategies, with commas between; JVM members publish none."""
        value = self.extensions.get(STRATEGY_KEY)
        return value if isinstance(value, str) else None

    @property
    def preference(self) -> Preference:
        """The published strategies, and whether the member uses what the group agrees on."""
        features = self.extensions.get(FEATURES_KEY)
        return _preference(self.strategy, features if isinstance(features, str) else "")

    def evaluated(self, member: str, threads: Mapping[str, int]) -> EvaluatedMember:
        """The member as assignment strategies see it, with these topics."""
        return EvaluatedMember(member, threads, self.capacity, self.rack, self.preference.negotiates)

    @property
    def rack(self) -> str | None:
        """The published `client_rack`; None where it is not set."""
        return self._text(RACK_KEY)

    @property
    def moves_max(self) -> int | None:
        """The published `rebalance_moves_max`; None where it is not set."""
        return self._number(MOVES_MAX_KEY)

    @property
    def prepare_ms(self) -> int | None:
        """The published bound for the preparation of a partition; None for a member that prepares nothing."""
        return self._number(PREPARE_KEY)

    @property
    def exclude_internal(self) -> bool | None:
        """The published `exclude.internal.topics`; None if it is not published."""
        return {"true": True, "false": False}.get(str(self.extensions.get(EXCLUDE_INTERNAL_KEY)))

    @property
    def features(self) -> frozenset[str]:
        """The published names of `FEATURES`, divided by spaces; JVM members publish none."""
        return frozenset((self._text(FEATURES_KEY) or "").split())

    @property
    def version(self) -> str | None:
        """The version of zkgroup that wrote it; None for other clients."""
        return self._text(ZKGROUP_KEY)

    @property
    def pid(self) -> int | None:
        """The published process id; members before it was published, and JVM members, have none."""
        return self._number(PID_KEY)

    @property
    def capacity(self) -> int | None:
        """The published `capacity`; None where it is not set."""
        return self._number(CAPACITY_KEY)

    @property
    def commit_rate_max(self) -> int | None:
        """The published rate, in commits a second of the whole group; None where it is not set."""
        return self._number(COMMIT_RATE_KEY) if COMMIT_RATE_KEY in self.extensions else None

    def _number(self, key: str) -> int | None:
        """A whole number above 0 as text; None for anything else, which only another program can write."""
        text = self._text(key)
        is_number = text is not None and len(text) <= NUMBER_DIGITS_MAX and text.isascii() and text.isdigit()
        return int(text) or None if text is not None and is_number else None

    def _text(self, key: str) -> str | None:
        value = self.extensions.get(key)
        return value if isinstance(value, str) else None

    @property
    def restart_grace_ms(self) -> int | None:
        """The published grace of a static member; None for others."""
        return decimal(self._text(RESTART_GRACE_KEY) or "", INT64)

    @property
    def host(self) -> str | None:
        """The published host; members whose id contains it publish none."""
        return self._text(HOST_KEY)

    def encode(self) -> bytes:
        """The bytes that Kafka 0.8.2 would write, then the extension keys.

        They are decoded with the JVM's rules first. Raises ConfigError unless that gives this registration
        again, since such data could stop the JVM members of the group.
        """
        self._check_writable()
        data = self.text().encode("utf-8", "replace")
        try:
            again = Registration.decode("registration", data)
        except CorruptZnodeError as error:
            raise ConfigError(f"registration {show(data)} cannot be stored: {error}") from error
        if again != self:
            raise ConfigError(f"registration {show(data)} would be read back as {again}")
        return data

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """The registration; accepts exactly the data that a JVM member of Kafka 0.8.2.2 accepts.

        Raises CorruptZnodeError for data that would fail its rebalance: text that its parser refuses, a
        missing or mistyped `pattern` or `subscription`, a thread count that is not an integer of 1 or more,
        an invalid Java expression.
        """
        fields = _parse_object(path, data)
        pattern = fields.get("pattern")
        if not isinstance(pattern, str):
            raise CorruptZnodeError(path, "text in 'pattern'", _found(fields, "pattern"))
        subscription = _read_subscription(path, fields)
        if pattern in (WHITE_LIST, BLACK_LIST):
            _check_wildcard(path, subscription)
        extensions = {key: value for key, value in fields.items() if key not in _KAFKA_KEYS}
        return cls(subscription, pattern, _read_timestamp(fields.get("timestamp")), extensions)

    def members(self) -> list[str]:
        """The members of the JSON object as Kafka 0.8.2 writes them, then the extensions."""
        # Kafka's encoder escapes nothing; only wildcard expressions are escaped before (TopicCount.scala).
        names = self.subscription if self.pattern == STATIC else map(escape, self.subscription)
        entries = ",".join(
            f'"{name}":{threads}' for name, threads in zip(names, self.subscription.values(), strict=True)
        )
        timestamp = [] if self.timestamp_ms is None else [f'"timestamp":"{self.timestamp_ms}"']
        extensions = [f'"{escape(key)}":"{escape(str(value))}"' for key, value in self.extensions.items()]
        return [
            '"version":1',
            f'"subscription":{{{entries}}}',
            f'"pattern":"{self.pattern}"',
            *timestamp,
            *extensions,
        ]

    def text(self) -> str:
        """The JSON object as text, unchecked; only the result of `encode` may be written."""
        return "{" + ",".join(self.members()) + "}"

    def _check_writable(self) -> None:
        if self.pattern not in (STATIC, WHITE_LIST, BLACK_LIST):
            raise ConfigError(
                f"registration: expected pattern static, white_list or black_list, found {self.pattern!r}"
            )
        if self.pattern != STATIC and len(self.subscription) != 1:
            raise ConfigError(f"registration: expected one expression, found {len(self.subscription)}")
        for key, value in self.extensions.items():
            if key in _KAFKA_KEYS or not isinstance(value, str):
                raise ConfigError(
                    f"registration: expected text in an extension key, found {key!r}: {show(value)}"
                )


@_cached
def _preference(strategy: str | None, features: str) -> Preference:
    return Preference(strategy_names(strategy), NEGOTIATION in features.split())


def subscription_kind(data: bytes | None) -> SubscriptionKind:
    """The kind of client that wrote a registration: `jvm` for exactly the bytes of Kafka 0.8 or 0.9."""
    try:
        registration = Registration.decode("registration", data)
    except CorruptZnodeError:
        return "unknown"
    if registration.is_zkgroup:
        return "zkgroup"
    return (
        "jvm"
        if data is not None and _is_jvm_text(registration, data.decode("utf-8", "replace"))
        else "unknown"
    )


def _is_jvm_text(registration: Registration, text: str) -> bool:
    if registration.extensions or registration.pattern not in (STATIC, WHITE_LIST, BLACK_LIST):
        return False
    if text == registration.text() and registration.timestamp_ms is not None:
        return True
    # Kafka 0.8.0 and 0.8.1 put spaces between the tokens and sorted the keys; 0.8.0 wrote no timestamp
    # (Utils.mergeJsonFields, TopicCount.dbString). The number of spaces differs.
    compact = _BETWEEN_TOKENS.sub(lambda match: match[1] or "", text)
    return text.startswith("{ ") and compact == "{" + ",".join(sorted(registration.members())) + "}"


def _entries(subscription: Subscription) -> tuple[dict[str, int], str]:
    match subscription:
        case StaticSubscription(topics):
            return dict(topics), STATIC
        case Whitelist(expression, threads):
            return {expression: threads}, WHITE_LIST
        case Blacklist(expression, threads):
            return {expression: threads}, BLACK_LIST
        case _:
            assert_never(subscription)


def _parse_object(path: str, data: bytes | None) -> dict[str, object]:
    if not data:
        raise CorruptZnodeError(path, _EXPECTED, "no data" if data is None else "empty data")
    try:
        fields = parse(data)
    except JvmJsonError as error:
        raise CorruptZnodeError(path, _EXPECTED, f"{show(data)}: {error}") from error
    if not isinstance(fields, dict):
        raise CorruptZnodeError(path, _EXPECTED, show(data))
    return fields


def _read_subscription(path: str, fields: Mapping[str, object]) -> dict[str, int]:
    entries = fields.get("subscription")
    if not isinstance(entries, dict):
        raise CorruptZnodeError(path, "an object in 'subscription'", _found(fields, "subscription"))
    for topic, threads in entries.items():
        if not is_integer(threads, range(1, INT32_MAX + 1)):
            raise CorruptZnodeError(path, f"a thread count of at least 1 for {topic!r}", show(threads))
    return entries


def _check_wildcard(path: str, subscription: Mapping[str, int]) -> None:
    if len(subscription) > _ENTRIES_ORDERED_MAX:
        # The one that the JVM takes depends on its hash order.
        raise CorruptZnodeError(path, "one wildcard expression", f"{len(subscription)} of them")
    for expression in itertools.islice(subscription, 1):
        try:
            compile_java(normalise(expression))
        except UnsupportedRegexError:
            pass  # Java accepts it: a readable registration; the evaluation reports it.
        except ConfigError as error:
            raise CorruptZnodeError(path, "a Java regular expression", str(error)) from error


def _read_timestamp(value: object) -> int | None:
    if isinstance(value, str):
        return decimal(value, INT64)
    return value if type(value) is int else None


def _found(fields: Mapping[str, object], key: str) -> str:
    return show(fields[key]) if key in fields else "no such key"


NO_OFFSET: Final = -1
_SURE_DIGITS: Final = 18
"""A number with so many ASCII digits is one of 64 bits."""
_JAVA_LONG: Final = re.compile(r"[+-]?\d{1,1000}")


@dataclass(frozen=True, slots=True)
class Owner:
    """`/consumers/<g>/owners/<t>/<p>`: the member and thread that own a partition. Ephemeral.

    Created by the claim of the member, deleted by its release or the end of its session. The data is the
    thread id: UTF-8, no newline. JVM members never set it, so its data version is 0; zkgroup's claims set it
    once, so it is 1. Members watch it only while it blocks a claim.
    """

    thread_id: str

    @staticmethod
    def path(group: str, topic_partition: TopicPartition) -> str:
        return owner_path(group, topic_partition)

    @property
    def member(self) -> str | None:
        """The member id; None if the data is no thread id."""
        return self._parts[0] if self._parts else None

    @property
    def thread(self) -> int | None:
        return self._parts[1] if self._parts else None

    @property
    def members(self) -> tuple[str, ...]:
        """The ids of the members that can be named: that of the thread id first, then the whole text.

        Consumers of kazoo-go (wvanbergen/kafka) and kafka-node write the id of their registration alone. Such
        an id may end as a thread id does (`host-1`), so several members can be named: of these, the one that
        is registered in the session of the znode is meant.
        """
        return (self.thread_id,) if self.member is None else (self.member, self.thread_id)

    @property
    def _parts(self) -> tuple[str, int] | None:
        try:
            return split_thread_id(self.thread_id)
        except ValueError:
            return None

    def encode(self) -> bytes:
        """Raises ConfigError unless this is a thread id."""
        if self._parts is None:
            raise ConfigError(f"owner {self.thread_id!r}: expected a thread id (<member>-<number>)")
        return self.thread_id.encode("utf-8")

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """The owner. Raises CorruptZnodeError for data that is not a text; any text is accepted."""
        return cls(read_text(path, data, "a thread id"))


@quick_init
@dataclass(frozen=True, slots=True)
class Offset:
    """`/consumers/<g>/offsets/<t>/<p>`: the next offset to consume, as decimal digits.

    Persistent; written by the owner, by operators' tools, and by coordinators for Kafka's clients. A negative
    value means "none": zkgroup's claims write -1 for a partition without an offset, which JVM members and
    tools read as "none" too; Kafka's clients may commit any, as KafkaJS -2 for "earliest".
    """

    value: int

    @staticmethod
    def path(group: str, topic_partition: TopicPartition) -> str:
        return offset_path(group, topic_partition)

    @property
    def position(self) -> int | None:
        """The next offset to consume; None if none was ever committed."""
        return self.value if self.value >= 0 else None

    def encode(self) -> bytes:
        """Raises ConfigError for a value beyond 64 bits."""
        if self.value not in INT64:
            raise ConfigError(f"offset {self.value}: expected a number of 64 bits")
        return str(self.value).encode("ascii")

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """The offset as a JVM member reads it (`Long.parseLong`): also `+5`, `007`, digits of other scripts.

        Raises CorruptZnodeError for anything else, which never means "no offset".
        """
        if data is not None and len(data) <= _SURE_DIGITS and data.isdigit():
            return cls(int(data))  # as nearly all are: readers of whole ensembles have thousands
        text = read_text(path, data, "an offset in decimal digits")
        # Long.parseLong reads UTF-16 units, so digits above U+FFFF are no digits for it.
        if _JAVA_LONG.fullmatch(text) and max(text) <= "\uffff":
            value = int(text)
            if value in INT64:
                return cls(value)
        raise CorruptZnodeError(path, "an offset in decimal digits", show(text))
