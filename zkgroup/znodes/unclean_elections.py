"""An operator's request for an unclean election, and what came of it (recipes 15).

Kafka has no request for it in ZooKeeper: before 2.4 only the setting, after that an RPC. Below `/zkgroup`,
where nobody else looks, and every number is stored as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Self, get_args

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.controller_records import controller_state_path
from zkgroup.znodes.ids import validate_topic
from zkgroup.znodes.json_object import (
    INT32,
    INT64,
    decimal,
    integer_text_of,
    read_object,
    show,
    text_of,
    write_object,
)
from zkgroup.znodes.limits import check_number, check_size, check_text
from zkgroup.znodes.partition_entries import check_once

PARTITIONS_MAX: Final = 1000
"""Of one request, so that what came of each fits into one record."""
REASON_MAX: Final = 200
"""Characters of the reason for one partition; a longer one is cut when it is written."""
ELECTIONS_KEPT: Final = 100
"""So many records stay."""

Verdict = Literal["unclean", "elected", "not_needed", "refused"]

_VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)
_NUMBERS: Final = range(INT32[-1] + 1)


def unclean_elections_path() -> str:
    """Its children are the last requests that ended, `ELECTIONS_KEPT` of them."""
    return f"{controller_state_path()}/elected"


@dataclass(frozen=True, slots=True)
class UncleanElection:
    """`/zkgroup/controller/elect`: a live replica shall lead these partitions, in sync or not. Persistent.

    `{"version":"1","type":"unclean","partitions":[{"topic":"orders","partition":"0"}],"time":"<ms>","by":"me"}`,
    made by a tool where `/controller` is one of ours (its znode version is 1): a real controller would never
    look. The controller removes it in the transaction that makes `UncleanElectionDone`, whatever came of it.
    """

    partitions: tuple[TopicPartition, ...]
    time_ms: int
    """Epoch milliseconds when it was asked for."""
    by: str
    """Who asked, for people."""

    @staticmethod
    def path() -> str:
        return f"{controller_state_path()}/elect"

    def encode(self) -> bytes:
        """Raises ConfigError for no partition, one named twice, more than `PARTITIONS_MAX`, and bad names."""
        check_once("unclean election", self.partitions)
        if len(self.partitions) > PARTITIONS_MAX:
            found = len(self.partitions)
            raise ConfigError(
                f"unclean election: expected at most {PARTITIONS_MAX} partitions, found {found}"
            )
        fields = {
            "version": "1",
            "type": "unclean",
            "partitions": [_entry(each) for each in self.partitions],
            "time": str(self.time_ms),
            "by": check_text("by", self.by),
        }
        return check_size("unclean election", write_object(fields))

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """Raises CorruptZnodeError, for another type of election too: it is not for us to guess."""
        fields = read_object(path, data, "an unclean election")
        if text_of(path, fields, "type") != "unclean":
            raise CorruptZnodeError(path, "'unclean' in 'type'", show(fields["type"]))
        return cls(
            tuple(topic_partition for topic_partition, _ in _entries(path, fields)),
            integer_text_of(path, fields, "time"),
            text_of(path, fields, "by"),
        )


@dataclass(frozen=True, slots=True)
class PartitionVerdict:
    """What an unclean election has come to for one partition."""

    topic_partition: TopicPartition
    verdict: Verdict
    """`unclean`: a replica out of sync leads, acknowledged records may be lost; `elected`: one in sync was
    found; `not_needed`: it has a live leader; `refused`: see the reason."""
    leader: int | None
    """Who leads now; None where nobody does."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class UncleanElectionDone:
    """`/zkgroup/controller/elected/<czxid>`: how the request with this czxid ended. Persistent; all texts.

    The tool that made a request waits for this znode.
    """

    partitions: tuple[PartitionVerdict, ...]
    """As the request named them; none where it could not be read."""
    epoch: int
    """Of the controller that carried it out."""
    time_ms: int
    """Epoch milliseconds of the end."""
    reason: str = ""
    """Why nothing was tried."""

    @staticmethod
    def path(czxid: int) -> str:
        return f"{unclean_elections_path()}/{czxid}"

    @staticmethod
    def czxid_of(name: str) -> int | None:
        """The czxid of the request of a child, or None for a foreign name."""
        return decimal(name, range(INT64[-1] + 1))

    def encode(self) -> bytes:
        """Raises ConfigError for a verdict that there is not and text that is no UTF-8."""
        fields = {
            "version": "1",
            "epoch": str(check_number("controller epoch", self.epoch)),
            "time": str(self.time_ms),
            "reason": check_text("reason", self.reason),
            "partitions": [_verdict_entry(each) for each in self.partitions],
        }
        return check_size("outcome of an unclean election", write_object(fields))

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "the outcome of an unclean election")
        return cls(
            tuple(_verdict(path, *entry) for entry in _entries(path, fields)),
            integer_text_of(path, fields, "epoch", INT32),
            integer_text_of(path, fields, "time"),
            text_of(path, fields, "reason"),
        )


def _entry(topic_partition: TopicPartition) -> dict[str, object]:
    partition = check_number(f"partition of {topic_partition.topic}", topic_partition.partition)
    return {"topic": validate_topic(topic_partition.topic), "partition": str(partition)}


def _entries(path: str, fields: Mapping[str, object]) -> list[tuple[TopicPartition, Mapping[str, object]]]:
    entries = fields.get("partitions")
    if not isinstance(entries, list):
        raise CorruptZnodeError(path, "a list in 'partitions'", show(entries))
    found: list[tuple[TopicPartition, Mapping[str, object]]] = []
    for entry in entries:
        if not isinstance(entry, dict):
            raise CorruptZnodeError(path, "objects in 'partitions'", show(entry))
        topic, partition = text_of(path, entry, "topic"), integer_text_of(path, entry, "partition", _NUMBERS)
        found.append((TopicPartition(topic, partition), entry))
    return found


def _verdict_entry(each: PartitionVerdict) -> dict[str, object]:
    if each.verdict not in _VERDICTS:
        raise ConfigError(f"verdict {each.verdict!r}: expected one of {', '.join(_VERDICTS)}")
    leader = "" if each.leader is None else str(check_number("leader", each.leader))
    return {
        "topic": check_text("topic", each.topic_partition.topic),
        "partition": str(each.topic_partition.partition),
        "verdict": each.verdict,
        "leader": leader,
        "reason": check_text("reason", each.reason[:REASON_MAX]),
    }


def _verdict(path: str, topic_partition: TopicPartition, entry: Mapping[str, object]) -> PartitionVerdict:
    text = text_of(path, entry, "verdict")
    verdict = next((each for each in _VERDICTS if each == text), None)
    if verdict is None:
        raise CorruptZnodeError(path, f"one of {', '.join(_VERDICTS)} in 'verdict'", show(text))
    leader = integer_text_of(path, entry, "leader", _NUMBERS) if text_of(path, entry, "leader") else None
    return PartitionVerdict(topic_partition, verdict, leader, text_of(path, entry, "reason"))
