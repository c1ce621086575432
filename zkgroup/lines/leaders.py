"""Who leads which partition, as far as a client knows. Pure.

Any zkgroup broker tells the leaders of a topic's partitions (Metadata version 0), out of what a controller
told it last, so it may be behind. Leader epochs are not in that answer: the leader itself tells its own
(`epoch_question`). An epoch lower than one that was seen before is that of a leader that has been replaced
and does not know it yet: another broker is asked then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse, PartitionMetadata
from zkgroup.wire.replica_host import CONSUMER, NO_BROKER_EPOCH, NO_EPOCH, FetchLinesRequest
from zkgroup.znodes.brokers import BrokerRegistration

BACKOFF_MS = 100
"""Between two questions for leaders (Kafka's `retry.backoff.ms`)."""
BACKOFF_MAX_MS = 1_000
NO_EPOCH_IS_THIS_HIGH = 2**31 - 1


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of a partition."""

    broker: int
    address: Address
    epoch: int | None = None
    """None until it has told it."""


def addresses_of(registrations: Mapping[int, BrokerRegistration]) -> dict[int, Address]:
    """Where zkgroup brokers listen, by id; Kafka's are left out: they keep no lines."""
    return {
        broker: Address(one.host, one.port)
        for broker, one in registrations.items()
        if one.is_zkgroup and one.host is not None and one.port > 0
    }


def epoch_question(tp: TopicPartition) -> FetchLinesRequest:
    """Asks a leader for its epoch, high watermark and log end offset, and for no line.

    It pretends to a line of an epoch that cannot be: the answer is `diverging`, with the leader's own epoch
    and its log end offset (KIP-320 has a request of its own for that).
    """
    return FetchLinesRequest(
        replica_id=CONSUMER,
        broker_epoch=NO_BROKER_EPOCH,
        topic=tp.topic,
        partition=tp.partition,
        leader_epoch=NO_EPOCH,
        last_fetched_epoch=NO_EPOCH_IS_THIS_HIGH,
        offset=NO_EPOCH_IS_THIS_HIGH,
        max_bytes=0,
        max_wait_ms=0,
    )


class Leaders:
    """What a client knows of leaders, and when it has to ask again. Times in ms of any steady clock."""

    def __init__(self) -> None:
        self._registered: dict[int, Address] = {}
        self._named: dict[int, Address] = {}
        """Brokers that the last answer named."""
        self._topics: set[str] = set()
        """Those that are asked for."""
        self._leaders: dict[TopicPartition, Leader] = {}
        self._floors: dict[TopicPartition, int] = {}
        """Highest epoch seen."""
        self._told: dict[str, tuple[int, frozenset[int]]] = {}
        """Topic to the question that was last answered with its partitions, and to their numbers."""
        self._due_ms: int | None = None
        self._under_way = False
        self._turn = 0
        self._failures = 0
        """Questions in a row without an answer, or without the leaders wanted."""
        self.trouble = "no zkgroup broker is registered in /brokers/ids"
        """Why something is not known, for people."""

    # --- brokers ----------------------------------------------------------------------------------

    def register(self, brokers: Mapping[int, Address]) -> None:
        """The brokers that are registered now: those that can be asked."""
        self._registered = dict(brokers)

    @property
    def lacks_brokers(self) -> bool:
        """Whether to look again who is registered: nobody is known, or all have been asked in vain."""
        return not self._registered or self._failures >= len(self._registered)

    # --- topics -----------------------------------------------------------------------------------

    def want(self, topics: Iterable[str], now_ms: int) -> None:
        """Asks for these from now on, besides those asked for already."""
        new = set(topics) - self._topics
        if new:
            self._topics |= new
            self._due_ms = now_ms if self._due_ms is None else min(now_ms, self._due_ms)

    def leader(self, tp: TopicPartition) -> Leader | None:
        """None while it is not known."""
        return self._leaders.get(tp)

    def look_again(self, now_ms: int) -> None:
        """Asks at once, whatever is known and however often nobody knew it."""
        if self._topics:
            self._due_ms = now_ms

    @property
    def asked(self) -> int:
        """How many questions there were."""
        return self._turn

    def is_unknown(self, tp: TopicPartition, asked: int) -> bool:
        """Whether a broker has said that it knows no such partition, to a question after so many."""
        told, numbers = self._told.get(tp.topic, (-1, frozenset()))
        return told > asked and tp.partition not in numbers

    def doubt(self, tp: TopicPartition, trouble: str, now_ms: int) -> None:
        """Its leader does not answer, or not as a leader: brokers are asked anew."""
        self._leaders.pop(tp, None)
        self.trouble = trouble
        self._ask_again(now_ms)

    def told_epoch(self, tp: TopicPartition, epoch: int, now_ms: int) -> bool:
        """The leader has told its epoch. False: it is a leader of former times, and doubted."""
        leader = self._leaders.get(tp)
        floor = self._floors.get(tp, NO_EPOCH)
        if epoch < floor:
            self.doubt(tp, f"{tp}: the leader found is of epoch {epoch}, before epoch {floor}", now_ms)
            return False
        self._floors[tp] = epoch
        if leader is not None:
            self._leaders[tp] = replace(leader, epoch=epoch)
        return True

    # --- asking for leaders -----------------------------------------------------------------------

    def due_ms(self) -> int | None:
        """When the next question may go; None: nothing is to be asked, or an answer is awaited."""
        return None if self._under_way else self._due_ms

    def question(self, now_ms: int) -> tuple[Address, MetadataRequest] | None:
        """Whom to ask what, if it is time; its end must be told. Brokers take turns."""
        due_ms = self.due_ms()
        if due_ms is None or due_ms > now_ms or not self._topics:
            return None
        known = sorted({*self._registered.values(), *self._named.values()})
        if not known:
            self._put_off(now_ms)
            return None
        self._under_way, self._due_ms = True, None
        self._turn += 1
        return known[self._turn % len(known)], MetadataRequest.of(*sorted(self._topics))

    def answered(self, response: MetadataResponse, now_ms: int) -> None:
        """The answer to a question. What it does not know, or names no leader of, is asked for again."""
        self._under_way = False
        self._named = {one.broker: Address(one.host, one.port) for one in response.brokers}
        for topic in response.topics:
            if topic.error in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                self._told[topic.topic] = self._turn, frozenset(one.partition for one in topic.partitions)
        missing = [self._take(topic.topic, topic.error, topic.partitions) for topic in response.topics]
        if any(missing):
            self.trouble = next(filter(None, missing))
            self._put_off(now_ms)
        else:
            self._failures = 0

    def unanswered(self, trouble: str, now_ms: int) -> None:
        """The question found no answer."""
        self._under_way = False
        self.trouble = trouble
        self._put_off(now_ms)

    def _take(self, topic: str, error: int, partitions: tuple[PartitionMetadata, ...]) -> str:
        """Why a leader of the topic is not known; empty where all are."""
        if error == ErrorCode.INVALID_TOPIC:
            return f"topic {topic}: brokers refuse the name"
        if error != ErrorCode.NONE or not partitions:
            for tp in [tp for tp in (*self._leaders, *self._floors) if tp.topic == topic]:
                self._leaders.pop(tp, None)
                self._floors.pop(tp, None)  # it may be made again, from epoch 0 on
            return f"topic {topic}: brokers do not know it"
        trouble = ""
        for one in partitions:
            tp = TopicPartition(topic, one.partition)
            address = self._named.get(one.leader)
            known = self._leaders.get(tp)
            if address is None:
                self._leaders.pop(tp, None)
                trouble = f"{tp}: it has no leader"
            elif known is None or (known.broker, known.address) != (one.leader, address):
                self._leaders[tp] = Leader(one.leader, address)
        return trouble

    def _put_off(self, now_ms: int) -> None:
        self._failures += 1
        pause_ms = BACKOFF_MS << min(self._failures // (len(self._registered) or 1), 8)
        self._due_ms = now_ms + min(BACKOFF_MAX_MS, pause_ms)

    def _ask_again(self, now_ms: int) -> None:
        due_ms = now_ms + BACKOFF_MS
        self._due_ms = due_ms if self._due_ms is None else min(self._due_ms, due_ms)
