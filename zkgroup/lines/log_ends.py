"""How far each replica is: its log end offset and high watermark, as its own broker tells them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zkgroup.lines.cluster_link import ANSWER_TIMEOUT_MS
from zkgroup.lines.leaders import Address, addresses_of
from zkgroup.lines.links import Links, Reply
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock
from zkgroup.wire.messages import ErrorCode, describe
from zkgroup.wire.replica_host import (
    NO_BROKER_EPOCH,
    NO_EPOCH,
    OBSERVER,
    FetchLinesRequest,
    FetchLinesResponse,
)
from zkgroup.znodes.brokers import BrokerRegistration

CONNECTIONS = 4
"""To one broker: what it is asked it answers at once."""

Replica = tuple[TopicPartition, int]
"""A partition on a broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """How far one replica is. Offsets are None where they are not known."""

    broker: int
    log_end_offset: int | None = None
    """Of its next line."""
    high_watermark: int | None = None
    """What it knows to be committed; a follower learns it after its leader."""
    reason: str | None = None
    """Why they are not known."""


LogEnds = Mapping[Replica, LogEnd]
"""How far replicas are."""


def read_log_ends(
    registered: Mapping[int, BrokerRegistration],
    replicas: Iterable[Replica],
    timeout_ms: int = ANSWER_TIMEOUT_MS,
    clock: Clock | None = None,
) -> dict[Replica, LogEnd]:
    """Asks the brokers of these replicas, all at the same time; raises nothing.

    A broker that does not answer is given up at its first silence, of at most `timeout_ms`.
    `clock`: in the place of the system's.
    """
    addresses = addresses_of(registered)
    found: dict[Replica, LogEnd] = {}
    waiting: dict[int, deque[TopicPartition]] = {}
    for tp, broker in replicas:
        if broker in addresses:
            waiting.setdefault(broker, deque()).append(tp)
        else:
            why = "its broker is Kafka's" if broker in registered else "its broker is not registered"
            found[tp, broker] = LogEnd(broker=broker, reason=why)
    links = Links("zkgroup-log-ends", CONNECTIONS, clock)
    try:
        under_way = _ask(links, addresses, waiting, timeout_ms)
        while under_way:
            for reply in links.wait(timeout_ms):
                under_way -= 1
                tp, broker = reply.tag  # type: ignore[misc]
                found[tp, broker] = _told(broker, reply)
                if reply.response is None:
                    silent = waiting.pop(broker, deque())
                    found |= {(each, broker): _told(broker, reply) for each in silent}
            under_way += _ask(links, addresses, waiting, timeout_ms)
    finally:
        links.close()
    return found


def _ask(
    links: Links,
    addresses: Mapping[int, Address],
    waiting: Mapping[int, deque[TopicPartition]],
    timeout_ms: int,
) -> int:
    """Asks as much as there is room for; the number of questions."""
    asked = 0
    for broker, partitions in waiting.items():
        while partitions and links.has_room(addresses[broker]):
            tp = partitions.popleft()
            links.ask((tp, broker), addresses[broker], log_end_question(tp), timeout_ms)
            asked += 1
    return asked


def _told(broker: int, reply: Reply) -> LogEnd:
    response = reply.response
    if not isinstance(response, FetchLinesResponse):
        return LogEnd(broker=broker, reason=reply.trouble)
    if response.error != ErrorCode.NONE:
        return LogEnd(broker=broker, reason=f"its broker answers {describe(response.error)}")
    return LogEnd(
        broker=broker,
        log_end_offset=response.log_end_offset,
        high_watermark=response.high_watermark,
    )


def log_end_question(tp: TopicPartition) -> FetchLinesRequest:
    """Asks any replica how far it is, and for no line."""
    return FetchLinesRequest(
        replica_id=OBSERVER,
        broker_epoch=NO_BROKER_EPOCH,
        topic=tp.topic,
        partition=tp.partition,
        leader_epoch=NO_EPOCH,
        last_fetched_epoch=NO_EPOCH,
        offset=0,
        max_bytes=0,
        max_wait_ms=0,
    )
