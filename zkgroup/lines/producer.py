"""`LineProducer`: appends lines to partitions of our brokers."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from zkgroup.errors import ConfigError, LinesNotAppendedError, LinesUnknownError
from zkgroup.lines.cluster_link import ClusterLink, Registered
from zkgroup.lines.links import Reply
from zkgroup.lines.producing import Delivery, Outcome, ProducerSettings, Producing
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock
from zkgroup.wire.replica_host import AppendLinesResponse

LOOK_MS = 1_000
"""Longest wait before it looks whether lines are too late."""


class LineProducer:
    """Appends lines, in order within a partition, and tells of each what became of it.

    It has no thread of its own: lines travel while `append`, `work` and `flush` run. One thread uses it.
    At least once: see `zkgroup.lines.producing`. The first lines that fail end it: nothing more is taken.

    ```python
    with LineProducer(cluster.brokers, on_delivery=print) as producer:
        producer.append(TopicPartition("orders", 0), b'{"n": 1}')
        producer.flush()
    ```
    """

    def __init__(
        self,
        registered: Registered,
        settings: ProducerSettings | None = None,
        on_delivery: Callable[[Delivery], None] | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        """Connects to nothing yet.

        Args:
            registered: gives the brokers in `/brokers/ids` that can be read, by id.
            on_delivery: is called for every line exactly once, within the calls named above and `close`.
            clock: in the place of the system's.
        """
        self._settings = settings or ProducerSettings()
        self._on_delivery = on_delivery
        self._link = ClusterLink(registered, self._settings.client_id, clock=clock)
        self._producing = Producing(self._settings)
        self._count = 0
        self._failed: LinesNotAppendedError | None = None
        self._is_closed = False

    def append(self, topic_partition: TopicPartition, line: bytes) -> int:
        """Takes a line, without its newline; waits where too much is held. Returns its number, from 0 on.

        Raises:
            ConfigError: the line has a newline in it, or is longer than a broker takes; it is not taken.
            LinesNotAppendedError: lines before it failed.
            StoreUnavailableError: no broker is known and ZooKeeper does not answer.
        """
        self._check()
        number = self._count
        self._producing.add(topic_partition, number, line, self._link.now_ms())
        self._count += 1
        while self._producing.held_bytes > self._settings.buffered_bytes:
            self._turn(LOOK_MS)
            self._check()
        return number

    def work(self, timeout_s: float = 0.0, readable: int | None = None) -> None:
        """Lets lines travel: sends what can go, and waits so long at most for what comes.

        Ends early with any news, and when the file descriptor `readable` (a pipe, a terminal) can be read.
        Raises as `append`.
        """
        self._check()
        if readable is None:
            self._turn(int(timeout_s * 1000))
        else:
            self._link.watch(readable)
            try:
                self._turn(int(timeout_s * 1000))
            finally:
                self._link.unwatch(readable)
        self._check()

    def flush(self) -> None:
        """Returns when nothing waits any more, every line acknowledged (acks=0: sent). Raises as `append`."""
        self._check()
        while not self._producing.is_idle:
            self._turn(LOOK_MS)
            self._check()

    @property
    def held_bytes(self) -> int:
        """Of lines that wait or are under way, with their newlines."""
        return self._producing.held_bytes

    def close(self) -> None:
        """Ends it; idempotent. Lines on their way have failed then, and are told of: `flush` first."""
        if self._is_closed:
            return
        self._is_closed = True
        self._link.close()
        self._producing.fail_all("the producer was closed")
        self._tell()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Flushes where no error ends the block, and closes."""
        try:
            if error is None:
                self.flush()
        finally:
            self.close()

    # --- turns ------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._is_closed:
            raise ConfigError("the producer is closed")
        if self._failed is not None:
            raise self._failed

    def _turn(self, timeout_ms: int) -> None:
        """Sends what can go and takes in what comes, at the latest after `timeout_ms`."""
        self._send()
        for reply in self._link.wait(timeout_ms):
            self._take(reply)
        self._producing.expire(self._link.now_ms())
        self._tell()

    def _send(self) -> None:
        for tp in list(self._producing.ready()):
            leader = self._link.leader(tp)
            if leader is None or leader.epoch is None:
                self._producing.trouble(tp, self._link.trouble)
            elif self._link.has_room(leader):
                request = self._producing.request(tp, leader.epoch)
                patience_ms = self._producing.patience_ms(tp, self._link.now_ms())
                self._link.ask(tp, leader, request, patience_ms)

    def _take(self, reply: Reply) -> None:
        tp = reply.tag
        assert isinstance(tp, TopicPartition)
        now_ms = self._link.now_ms()
        if isinstance(reply.response, AppendLinesResponse):
            trouble = self._producing.answered(tp, reply.response, now_ms)
        else:
            trouble = f"{tp}: {reply.trouble}"
            self._producing.unanswered(tp, reply.sent, trouble, now_ms)
        if trouble:
            self._link.doubt(tp, trouble)

    def _tell(self) -> None:
        for delivery in self._producing.take_deliveries():
            if delivery.outcome is Outcome.FAILED and self._failed is None:
                kind = LinesUnknownError if delivery.may_be_repeated else LinesNotAppendedError
                self._failed = kind(
                    delivery.topic_partition, len(delivery.numbers), delivery.reason, delivery.may_be_repeated
                )
            if self._on_delivery is not None:
                self._on_delivery(delivery)
