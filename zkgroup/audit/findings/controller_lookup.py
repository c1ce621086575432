"""Finds the controller at a zxid, and the requests to it: lookups in the facts of a history."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from zkgroup.audit.findings.partition_views import ChangeStamp, decoded, topic_of
from zkgroup.audit.inputs.facts import DataChange, Facts, Life
from zkgroup.audit.inputs.texts import session_text
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration


class Absence(NamedTuple):
    """A time in which a broker was not registered; `to` is None while it lasts."""

    since: ChangeStamp
    to: ChangeStamp | None


def change_at(changes: Sequence[DataChange], zxid: int) -> DataChange | None:
    """The last change up to a zxid, itself included."""
    at = bisect_right(changes, zxid, key=lambda change: change.zxid)
    return changes[at - 1] if at else None


def life_at(lives: Sequence[Life], zxid: int) -> Life | None:
    """The life that a zxid falls in, its beginning and its end included; of two that meet, the later."""
    at = bisect_right(lives, zxid, key=lambda life: life.from_zxid)
    life = lives[at - 1] if at else None
    return None if life is None or (life.to_zxid is not None and life.to_zxid < zxid) else life


def epoch_at(facts: Facts, zxid: int) -> int | None:
    """The controller epoch; None where there is none, or it cannot be read."""
    change = change_at(facts.controller_epochs, zxid)
    if change is None:
        return None
    epoch = decoded(ControllerEpoch.decode, ControllerEpoch.path(), change.data)
    return None if epoch is None else epoch.epoch


def replicas_at(facts: Facts, topic_partition: TopicPartition, zxid: int) -> tuple[int, ...] | None:
    """The replica list; None where the topic does not name the partition, is gone, or cannot be read."""
    change = change_at(facts.topics.get(topic_partition.topic, ()), zxid)
    if change is None or change.data is None:
        return None
    topic = topic_of(Topic.path(topic_partition.topic), change.data)
    return None if topic is None else topic.partitions.get(topic_partition.partition)


def is_requested(facts: Facts, topic_partition: TopicPartition, zxid: int) -> bool:
    """Returns whether a move of the partition was asked for and not done, once this zxid was applied."""
    return any(
        move.partition == topic_partition.partition
        and move.from_zxid <= zxid
        and (move.to_zxid is None or zxid < move.to_zxid)
        for move in facts.moves.get(topic_partition.topic, ())
    )


def controller_name(life: Life) -> str:
    """Whom a `/controller` names, and whose it is."""
    value = decoded(ControllerRegistration.decode, life.path, life.data)
    broker = "a controller that cannot be read" if value is None else f"broker {value.broker}"
    return f"{broker} (session {session_text(life.session)})"


def absences(facts: Facts, broker: int, since: ChangeStamp, to: ChangeStamp | None) -> Iterator[Absence]:
    """Yields when a broker was not registered, between two moments; None for the end of the history.

    Of a history that does not begin with a whole tree nothing is said of the time before a registration.
    """
    lives = facts.brokers.get(str(broker), ())
    cursor = since
    is_known = facts.is_whole
    for life in lives:
        if life.to_zxid is not None and life.to_zxid <= since.zxid:
            is_known = True
            continue
        if to is not None and life.from_zxid >= to.zxid:
            break
        if life.from_zxid > cursor.zxid and is_known:
            yield Absence(cursor, ChangeStamp(life.from_zxid, life.from_ms, life.session))
        is_known = True
        if life.to_zxid is None:
            return
        cursor = ChangeStamp(life.to_zxid, life.to_ms or 0, life.ended_by or 0)
    if is_known and (to is None or cursor.zxid < to.zxid):
        yield Absence(cursor, to)


def ending_text(facts: Facts, owner: int, zxid: int, session: int) -> str:
    """Returns how an ephemeral ended.

    Args:
        owner: the session whose it was.
        zxid: of its deletion.
        session: the session that the deletion is of.
    """
    life = facts.sessions.get(owner)
    if life is not None and life.to_zxid == zxid:
        return "its session expired" if life.expired else "it closed its session"
    return "deleted by itself" if session == owner else f"deleted by session {session_text(session)}"
