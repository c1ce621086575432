"""What brokers say of themselves: requests that they obeyed, and lines that they acknowledged.

Records are those of `zkgroup.history.records`; `member` names the broker, `pid` its process.

    control.accepted   broker, incarnation, controller, epoch        a request of a controller was obeyed
    role.taken         broker, topic, partition, leader, leader_epoch, life
    append.ok          topic, partition, offset, lines, life         acknowledged with acks=all
    lines.read         topic, partition, offset, lines, life         given to a consumer
    lines.kept         broker, topic, partition, lines, life         what a leader holds when all is over

`incarnation` is anything that differs between two starts of a broker, `life` anything that differs between
two topics of one name, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from zkgroup.history.cluster_report import ClusterFigures
from zkgroup.history.records import Record
from zkgroup.history.report import Violation
from zkgroup.model import TopicPartition

DECIDED = frozenset({"S11 on the wire", "S12 on the wire"})
LINES = "lines"
"""Name of the rule that a line that was acknowledged or read stands at its offset in the end."""


_DONE = {"append.ok": "acknowledged", "lines.read": "read"}


def check_obedience(records: Sequence[Record]) -> Iterator[Violation]:
    """An epoch is one controller's; a broker obeys no older one, and no leader epoch twice."""
    controllers: dict[int, int] = {}
    epochs: dict[tuple[int, Any], int] = {}
    leaders: dict[tuple[TopicPartition, int, Any], int] = {}
    for record in records:
        fields = record.fields
        if record.kind == "control.accepted":
            epoch, controller = fields["epoch"], fields["controller"]
            if controllers.setdefault(epoch, controller) != controller:
                detail = f"epoch {epoch} was {controllers[epoch]}'s, and broker {fields['broker']} obeyed"
                yield Violation("S11", f"{detail} {controller} in it")
            key = fields["broker"], fields["incarnation"]
            if epoch < epochs.get(key, epoch):
                detail = f"broker {fields['broker']} obeyed epoch {epoch} after {epochs[key]}"
                yield Violation("S11", detail)
            epochs[key] = epoch
        elif record.kind == "role.taken":
            tp, leader_epoch = record.topic_partition, fields["leader_epoch"]
            term = tp, leader_epoch, fields.get("life")
            led_by = leaders.setdefault(term, fields["leader"])
            if led_by != fields["leader"]:
                detail = f"led by {led_by} and by {fields['leader']} in leader epoch {leader_epoch}"
                yield Violation("S12", detail, tp)


def check_lines(records: Sequence[Record], figures: ClusterFigures) -> Iterator[Violation]:
    """Every line that was acknowledged, or read, is at its offset in what the leader holds in the end.

    Partitions of which no leader said in the end what it holds are passed over.
    """
    kept = {_place(record): record.fields["lines"] for record in records if record.kind == "lines.kept"}
    for record in records:
        if record.kind not in _DONE:
            continue
        tp, offset, lines = record.topic_partition, record.fields["offset"], list(record.fields["lines"])
        figures.acknowledged_lines += len(lines) if record.kind == "append.ok" else 0
        if _place(record) not in kept:
            continue
        found = list(kept[_place(record)][offset : offset + len(lines)])
        if found != lines:
            yield Violation(LINES, f"{lines} were {_DONE[record.kind]} at {offset}, found {found}", tp)


def _place(record: Record) -> tuple[TopicPartition, Any]:
    return record.topic_partition, record.fields.get("life")
