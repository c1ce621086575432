"""The active controller: `/controller` and `/controller_epoch`, and zkgroup's znodes about controllers.

zkgroup's controllers keep below `/zkgroup/controller` a history, a status, the standby controllers and a
request to resign.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.znodes.json_fields import (
    INT32,
    INT64,
    check_number,
    check_text,
    decimal,
    integer_of,
    integer_text_of,
    is_integer,
    object_of,
    others,
    read_json,
    read_object,
    read_text,
    show,
    text_of,
    write_object,
)
from zkgroup.znodes.paths import zkgroup_path

BARE: Final = 0
"""The version of a `/controller` that is nothing but the id."""

_KRAFT_EPOCH: Final = "kraftControllerEpoch"
_KEYS: Final = ("version", "brokerid", "timestamp")


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    """`/controller`: the broker that won the election. Ephemeral.

    `{"version":1,"brokerid":1,"timestamp":"<ms>"}` from 0.8 on; 3.4 and later write version 2 with
    `kraftControllerEpoch`; before 0.8 it was the bare id (kafka/controller/KafkaController.scala@0.8.2.2).
    Its znode version shows whose it is: zkgroup's controllers set it once, which leaves 1; Kafka's leave 0
    (election of controllers: recipes 13).
    """

    broker: int
    timestamp_ms: int | None
    """Epoch milliseconds of the election; None if it is missing or no text of digits."""
    version: int = 1
    """Version of the format; 0 for the bare id, which is only read."""
    extensions: Mapping[str, object] = field(default_factory=dict)
    """Keys of later versions, unchanged."""

    @staticmethod
    def path() -> str:
        return "/controller"

    @property
    def kraft_epoch(self) -> int | None:
        """The epoch of the KRaft controller that took over for a migration; None if none did."""
        epoch = self.extensions.get(_KRAFT_EPOCH)
        return epoch if isinstance(epoch, int) and is_integer(epoch, range(INT32[-1] + 1)) else None

    def encode(self) -> bytes:
        """Raises ConfigError for an invalid broker id, a missing time, and the version of the bare id."""
        check_number("controller version", self.version, 1)
        check_number("controller", self.broker)
        if self.timestamp_ms is None:
            raise ConfigError("controller: expected a time of election, found none")
        if clash := [key for key in self.extensions if key in _KEYS]:
            raise ConfigError(f"controller: expected keys that are not Kafka's, found {clash}")
        return write_object(
            {
                "version": self.version,
                "brokerid": self.broker,
                "timestamp": str(self.timestamp_ms),
                **self.extensions,
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """The controller. Raises CorruptZnodeError if it names no broker."""
        fields = read_json(path, data, "a controller")
        if isinstance(fields, int) and is_integer(fields):
            return cls(fields, None, BARE)
        if not isinstance(fields, dict):
            raise CorruptZnodeError(path, "a controller", show(fields))
        timestamp = fields.get("timestamp")
        return cls(
            broker=integer_of(path, fields, "brokerid"),
            timestamp_ms=decimal(timestamp, INT64) if isinstance(timestamp, str) else None,
            version=integer_of(path, fields, "version") if "version" in fields else 1,
            extensions=others(fields, *_KEYS),
        )


@dataclass(frozen=True, slots=True)
class ControllerEpoch:
    """`/controller_epoch`: the number of controllers so far, as decimal digits. Persistent.

    The first controller's is 1; from 2.1 on the znode is created with 0 before the first election.
    """

    epoch: int

    @staticmethod
    def path() -> str:
        return "/controller_epoch"

    def encode(self) -> bytes:
        """Raises ConfigError for an invalid epoch."""
        return str(check_number("controller epoch", self.epoch)).encode("ascii")

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        text = read_text(path, data, "a controller epoch")
        epoch = decimal(text, INT32)
        if epoch is None:
            raise CorruptZnodeError(path, "a controller epoch in decimal digits", show(text))
        return cls(epoch)


HISTORY_KEPT: Final = 100
"""Most records, the newest ones; each has what readers need of the epochs before it."""

STATUS_ENTRIES_MAX: Final = 100
"""Most entries of each list in a status."""
STATUS_TEXT_MAX: Final = 500
"""Most characters of a name or reason in a status."""

_RECORD_KEYS: Final = frozenset(
    {"version", "broker", "session", "reason", "from", "until", "load_ms", "ended", "foreign_epoch"}
)


def controller_state_path() -> str:
    """The parent of the history, the status and the request to resign."""
    return f"{zkgroup_path()}/controller"


def controller_history_path() -> str:
    """Its children are the last epochs in which zkgroup's controllers were active, `HISTORY_KEPT` of them."""
    return f"{controller_state_path()}/history"


def standby_controllers_path() -> str:
    """Its children are zkgroup's controllers without partitions that wait for an election."""
    return f"{zkgroup_path()}/controllers"


@dataclass(frozen=True, slots=True)
class ControllerRecord:
    """`/zkgroup/controller/history/<epoch>`: a zkgroup controller of this epoch. Persistent.

    Created in the transaction of the election. An epoch without one was a controller's of Kafka, or is older
    than the last hundred: `foreign_epoch` has the last epoch of Kafka's among those. It is set again when the
    cluster is loaded and at the end.
    """

    broker: int
    """Broker id of the controller."""
    session: int
    """The ZooKeeper session that won."""
    reason: str
    """The reason for the election, or for the new epoch."""
    from_ms: int
    """Epoch milliseconds of the election."""
    until_ms: int | None = None
    """Epoch milliseconds of the end; None while it is active, and if it could not write its end."""
    load_ms: int | None = None
    """Milliseconds from the election to the first metadata sent."""
    ended: str | None = None
    """The reason for its end."""
    foreign_epoch: int | None = None
    """The last epoch before this one that a controller of Kafka had; 0 for none, None if unknown."""
    extensions: Mapping[str, object] = field(default_factory=dict)
    """Keys of later zkgroup versions, kept by every rewrite."""

    @staticmethod
    def path(epoch: int) -> str:
        """The path of the record of an epoch."""
        return f"{controller_history_path()}/{epoch}"

    @staticmethod
    def epoch_of(name: str) -> int | None:
        """The epoch in the name of a child; None for another name."""
        return decimal(name, range(INT32[-1] + 1))

    def after(self, foreign_epoch: int) -> Self:
        """The record with the last epoch of a controller of Kafka."""
        return dataclasses.replace(self, foreign_epoch=foreign_epoch)

    def loaded(self, load_ms: int) -> Self:
        """The record with the duration of loading."""
        return dataclasses.replace(self, load_ms=load_ms)

    def over(self, until_ms: int, why: str) -> Self:
        """The record with its end."""
        return dataclasses.replace(self, until_ms=until_ms, ended=why)

    def encode(self) -> bytes:
        """Raises ConfigError for an invalid broker id and for text that is not UTF-8."""
        known: dict[str, object] = {
            "version": 1,
            "broker": check_number("controller", self.broker),
            "session": str(self.session),
            "reason": check_text("reason", self.reason),
            "from": str(self.from_ms),
        }
        later = {
            "until": None if self.until_ms is None else str(self.until_ms),
            "load_ms": None if self.load_ms is None else str(self.load_ms),
            "ended": None if self.ended is None else check_text("end", self.ended),
            "foreign_epoch": None
            if self.foreign_epoch is None
            else str(check_number("foreign epoch", self.foreign_epoch)),
        }
        known.update((key, value) for key, value in later.items() if value is not None)
        return write_object({**known, **self.extensions})

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """The record. Raises CorruptZnodeError."""
        fields = read_object(path, data, "a controller's record")
        return cls(
            broker=integer_of(path, fields, "broker"),
            session=integer_text_of(path, fields, "session"),
            reason=text_of(path, fields, "reason"),
            from_ms=integer_text_of(path, fields, "from"),
            until_ms=integer_text_of(path, fields, "until") if "until" in fields else None,
            load_ms=integer_text_of(path, fields, "load_ms") if "load_ms" in fields else None,
            ended=text_of(path, fields, "ended") if "ended" in fields else None,
            foreign_epoch=integer_text_of(path, fields, "foreign_epoch", range(INT32[-1] + 1))
            if "foreign_epoch" in fields
            else None,
            extensions=others(fields, *_RECORD_KEYS),
        )


@dataclass(frozen=True, slots=True)
class ControllerStatus:
    """`/zkgroup/controller/status`: the progress of the active controller, if it is zkgroup's. Ephemeral.

    Written at most every 5 s and only if changed; a `zxid` that stays behind the server's shows that the
    controller does not make progress (what others see: recipes 18).
    """

    broker: int
    epoch: int
    zxid: int
    """The zxid of the last change that was processed."""
    time_ms: int
    """Epoch milliseconds of the write."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Path of each unreadable znode to the problem."""
    omitted_partitions: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Broker to the partitions (`orders-0`) that are missing in its first LeaderAndIsr: it may fetch them
    again. The key in the JSON is `unnamed`."""
    waiting: Mapping[str, str] = field(default_factory=dict)
    """Blocked work, such as `leader of orders-0`, to what it waits for."""
    left_off: int = 0
    """Number of entries of these three that are left out beyond `STATUS_ENTRIES_MAX` of each."""

    @staticmethod
    def path() -> str:
        return f"{controller_state_path()}/status"

    def encode(self) -> bytes:
        """Raises ConfigError for an invalid broker id or epoch."""
        return write_object(
            {
                "version": 1,
                "broker": check_number("controller", self.broker),
                "epoch": check_number("controller epoch", self.epoch),
                "zxid": str(self.zxid),
                "time": str(self.time_ms),
                **self._lists(),
            }
        )

    def _lists(self) -> dict[str, object]:
        """The lists that are not empty, cut to their limits; their values are texts for people."""
        omitted = {str(broker): ", ".join(_first(names)) for broker, names in self.omitted_partitions.items()}
        lists = {"unreadable": self.unreadable, "unnamed": omitted, "waiting": self.waiting}
        shown = {
            key: {_clean(name): _clean(texts[name]) for name in _first(list(texts))}
            for key, texts in lists.items()
            if texts
        }
        left_off = self.left_off + sum(
            max(0, len(each) - STATUS_ENTRIES_MAX)
            for each in (*lists.values(), *self.omitted_partitions.values())
        )
        return {**shown, **({"left_off": str(left_off)} if left_off else {})}

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "a controller's status")
        omitted: dict[int, tuple[str, ...]] = {}
        for text, names in _texts_of(path, fields, "unnamed").items():
            broker = decimal(text, range(INT32[-1] + 1))
            if broker is None:
                raise CorruptZnodeError(path, "broker ids as keys of 'unnamed'", show(text))
            omitted[broker] = tuple(names.split(", "))
        return cls(
            broker=integer_of(path, fields, "broker"),
            epoch=integer_of(path, fields, "epoch"),
            zxid=integer_text_of(path, fields, "zxid"),
            time_ms=integer_text_of(path, fields, "time"),
            unreadable=_texts_of(path, fields, "unreadable"),
            omitted_partitions=omitted,
            waiting=_texts_of(path, fields, "waiting"),
            left_off=integer_text_of(path, fields, "left_off") if "left_off" in fields else 0,
        )


@dataclass(frozen=True, slots=True)
class ResignRequest:
    """`/zkgroup/controller/resign`: an operator's request that the active controller resigns. Persistent.

    Decimal digits. A zkgroup controller whose `/controller` has another `czxid` deletes the request.
    """

    czxid: int
    """The czxid of the `/controller` that is to be deleted."""

    @staticmethod
    def path() -> str:
        return f"{controller_state_path()}/resign"

    def encode(self) -> bytes:
        """Raises ConfigError for an invalid zxid."""
        return str(check_number("czxid", self.czxid, 1, INT64[-1])).encode("ascii")

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        text = read_text(path, data, "a czxid in decimal digits")
        czxid = decimal(text, INT64)
        if czxid is None:
            raise CorruptZnodeError(path, "a czxid in decimal digits", show(text))
        return cls(czxid)


@dataclass(frozen=True, slots=True)
class StandbyController:
    """`/zkgroup/controllers/<id>`: a controller without partitions that waits to be elected. Ephemeral.

    It is registered in `/brokers/ids` only while it is the active controller: else Kafka's tools would place
    replicas on it (controllers without replicas: recipes 14).
    """

    host: str
    port: int
    time_ms: int
    """Epoch milliseconds of the start of its wait."""

    @staticmethod
    def path(broker: int) -> str:
        return f"{standby_controllers_path()}/{broker}"

    def encode(self) -> bytes:
        """Raises ConfigError for an invalid port and for a host that is not UTF-8."""
        return write_object(
            {
                "version": 1,
                "host": check_text("host", self.host),
                "port": check_number("port", self.port, 1, 65535),
                "time": str(self.time_ms),
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "a waiting controller")
        return cls(
            text_of(path, fields, "host"),
            integer_of(path, fields, "port"),
            integer_text_of(path, fields, "time"),
        )


def _first(names: Sequence[str]) -> Sequence[str]:
    return names[:STATUS_ENTRIES_MAX]


def _clean(text: str) -> str:
    """The text without characters that UTF-8 does not have, cut to `STATUS_TEXT_MAX` characters."""
    return text.encode("utf-8", "replace").decode("utf-8")[:STATUS_TEXT_MAX]


def _texts_of(path: str, fields: Mapping[str, object], key: str) -> dict[str, str]:
    """An object of texts; empty if the key is missing."""
    texts = object_of(path, fields, key) if key in fields else {}
    return {name: text_of(path, texts, name) for name in texts}
