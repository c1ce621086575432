"""`LineReader`: reads lines from the leaders of their partitions."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping

from zkgroup.errors import OffsetOutOfRangeError, SourceUnavailableError
from zkgroup.lines.cluster_link import ANSWER_TIMEOUT_MS, ClusterLink, Registered
from zkgroup.lines.fetching import FetchedLine, Fetching, Verdict
from zkgroup.lines.leaders import epoch_question
from zkgroup.lines.links import CONNECTIONS_MAX, Reply
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock
from zkgroup.wire.messages import ErrorCode, describe
from zkgroup.wire.replica_host import FetchLinesRequest, FetchLinesResponse

log = logging.getLogger("zkgroup.lines")

LONG_POLL_MS = 5_000
"""How long a leader may wait for a line, where its partitions have a connection each."""
TURN_MS = 500
"""Within so long every partition of a leader is asked for, where they share connections."""


class LineReader:
    """Reads partitions of our brokers up to the high watermark. For one thread, except `wake`.

    Questions stay with the leaders between two calls of `read`, so nothing is lost by asking for little.
    """

    def __init__(
        self,
        registered: Registered,
        *,
        client_id: str = "zkgroup-consumer",
        max_bytes: int = 1024 * 1024,
        request_timeout_ms: int = 30_000,
        connections_max: int = CONNECTIONS_MAX,
        count: Callable[[str], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Connects to nothing yet.

        Args:
            registered: gives the brokers in `/brokers/ids` that can be read, by id.
            max_bytes: of lines in one answer; at least one batch comes, however large.
            request_timeout_ms: for an answer, beyond the time that it may wait for lines.
            connections_max: to one broker.
            count: is called for each answer: `lines`, `none`, `doubt`, `out_of_range`, `unanswered`.
            clock: in the place of the system's.
        """
        self._link = ClusterLink(registered, client_id, connections_max, clock)
        self._fetching = Fetching(max_bytes)
        self._request_timeout_ms = request_timeout_ms
        self._connections_max = connections_max
        self._count = count or (lambda outcome: None)
        self._woken = False
        self._ends: dict[TopicPartition, int] = {}
        self._out_of_range: list[OffsetOutOfRangeError] = []

    def read(
        self, positions: Mapping[TopicPartition, int], max_lines: int, timeout_s: float
    ) -> list[FetchedLine]:
        """Lines of these partitions from these offsets on, in order, up to so many of each.

        Waits so long for the first one; `wake` ends that.

        Raises:
            OffsetOutOfRangeError: a log no longer has what stood before the offset, or ends before it.
            SourceUnavailableError: no leader of any of them answers.
            StoreUnavailableError: no broker is known and ZooKeeper does not answer.
        """
        until_ms = self._link.now_ms() + int(timeout_s * 1000)
        self._fetching.want(positions)
        while True:
            self._raise_out_of_range(positions)
            lines = self._fetching.take(max_lines)
            self._send(positions)
            left_ms = until_ms - self._link.now_ms()
            if lines or self._woken or left_ms <= 0:
                break
            for reply in self._link.wait(left_ms):
                self._take(reply)
        self._woken = False
        if not lines and positions and not self._fetching.under_way and left_ms <= 0:
            raise SourceUnavailableError(self._link.trouble)
        return lines

    def _raise_out_of_range(self, positions: Mapping[TopicPartition, int]) -> None:
        """For the first that still stands there."""
        while self._out_of_range:
            error = self._out_of_range.pop(0)
            if positions.get(error.topic_partition) == error.offset:
                self._fetching.forget(error.topic_partition)
                raise error

    def ends(
        self, partitions: Collection[TopicPartition], timeout_s: float, *, await_unknown: bool = True
    ) -> dict[TopicPartition, int]:
        """High watermarks: the offset that the next line to be read will have. Those not told are absent.

        `await_unknown`: also for partitions that a broker says it does not know; one that was just made is
        not known yet.

        Raises StoreUnavailableError where no broker is known and ZooKeeper does not answer.
        """
        self._ends = {}
        left = set(partitions)
        asked: set[TopicPartition] = set()
        questions = self._link.asked
        until_ms = self._link.now_ms() + int(timeout_s * 1000)
        if not await_unknown and any(self._link.leader(tp) is None for tp in partitions):
            self._link.look_again()
        while left and (left_ms := until_ms - self._link.now_ms()) > 0:
            for tp in sorted(left - asked):
                leader = self._link.leader(tp)
                if leader is not None and self._link.has_room(leader):
                    asked.add(tp)
                    self._link.ask(("end", tp), leader, epoch_question(tp), ANSWER_TIMEOUT_MS)
            for reply in self._link.wait(left_ms):
                answered = self._take(reply)
                asked.discard(answered)
            left -= self._ends.keys()
            if not await_unknown:
                left -= {tp for tp in left if self._link.is_unknown(tp, questions)}
        return dict(self._ends)

    @property
    def trouble(self) -> str:
        """Why a leader is not known, for people."""
        return self._link.trouble

    def wake(self) -> None:
        """Ends a `read` that waits, or the next one; from any thread."""
        self._woken = True
        self._link.wake()

    def close(self) -> None:
        """Gives every connection up; again is no matter."""
        self._link.close()

    # --- questions and answers --------------------------------------------------------------------

    def _send(self, positions: Mapping[TopicPartition, int]) -> None:
        ready = self._fetching.ready()
        if not ready:
            return
        leaders = {tp: leader for tp in positions if (leader := self._link.leader(tp)) is not None}
        sharing = Counter(leader.address for leader in leaders.values())
        for tp in ready:
            leader = leaders.get(tp)
            if leader is not None and leader.epoch is not None and self._link.has_room(leader):
                wait_ms = self._wait_ms(sharing[leader.address])
                request = self._fetching.request(tp, leader.epoch, wait_ms)
                self._link.ask(("lines", tp), leader, request, wait_ms + self._request_timeout_ms)

    def _wait_ms(self, sharing: int) -> int:
        if sharing <= self._connections_max:
            return LONG_POLL_MS
        return max(1, TURN_MS * self._connections_max // sharing)

    def _take(self, reply: Reply) -> TopicPartition:
        match reply.tag:
            case ("lines", TopicPartition() as tp):
                self._take_lines(tp, reply)
                return tp
            case ("end", TopicPartition() as tp):
                self._take_end(tp, reply)
                return tp
            case _:
                raise AssertionError(reply.tag)

    def _take_lines(self, tp: TopicPartition, reply: Reply) -> None:
        if not isinstance(reply.response, FetchLinesResponse):
            self._count("unanswered")
            self._fetching.unanswered(tp)
            self._link.doubt(tp, f"{tp}: {reply.trouble}")
            return
        verdict = self._fetching.answered(tp, reply.response)
        self._count(verdict.value)
        if verdict is Verdict.DOUBT:
            self._link.doubt(tp, self._fetching.trouble(tp))
        elif verdict is Verdict.OUT_OF_RANGE:
            assert isinstance(reply.request, FetchLinesRequest)
            self._out_of_range.append(OffsetOutOfRangeError(tp, reply.request.offset))

    def _take_end(self, tp: TopicPartition, reply: Reply) -> None:
        response = reply.response
        if not isinstance(response, FetchLinesResponse):
            self._link.doubt(tp, f"{tp}: {reply.trouble}")
        elif response.error != ErrorCode.NONE:
            self._link.doubt(tp, f"{tp}: its leader answers {describe(response.error)}")
        else:
            self._ends[tp] = response.high_watermark
