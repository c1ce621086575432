"""Leaders and connections together: what clients of our brokers stand on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping

from zkgroup.errors import StoreUnavailableError
from zkgroup.lines.leaders import Leader, Leaders, addresses_of, epoch_question
from zkgroup.lines.links import CONNECTIONS_MAX, Links, Reply
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock
from zkgroup.wire.messages import ErrorCode, Request, describe
from zkgroup.wire.metadata import MetadataResponse
from zkgroup.wire.replica_host import FetchLinesResponse
from zkgroup.znodes.brokers import BrokerRegistration

log = logging.getLogger("zkgroup.lines")

ANSWER_TIMEOUT_MS = 5_000
"""For questions that a broker answers at once."""
LOOK_UP_MS = 1_000
"""At least so long between two looks at the registrations."""

Registered = Callable[[], Mapping[int, BrokerRegistration]]
_METADATA = "metadata"


class ClusterLink:
    """For one thread, except `wake`. Gives the replies to its owner's requests; finds leaders meanwhile."""

    def __init__(
        self,
        registered: Registered,
        client_id: str,
        connections_max: int = CONNECTIONS_MAX,
        clock: Clock | None = None,
    ) -> None:
        """Connects to nothing yet.

        Args:
            registered: the brokers in `/brokers/ids` that can be read, by id; asked when it must be known.
            connections_max: to one broker, for the owner's requests.
            clock: in the place of the system's.
        """
        self._registered = registered
        self._links = Links(client_id, connections_max, clock)
        self._leaders = Leaders()
        self._asked_epochs: set[TopicPartition] = set()
        self._looked_up_ms: int | None = None

    @property
    def trouble(self) -> str:
        """Why a leader is not known, for people."""
        return self._leaders.trouble

    def now_ms(self) -> int:
        return self._links.now_ms()

    def leader(self, tp: TopicPartition) -> Leader | None:
        """The leader with its epoch; None until both are known, which `wait` works on."""
        now_ms = self.now_ms()
        self._leaders.want((tp.topic,), now_ms)
        leader = self._leaders.leader(tp)
        if leader is None or leader.epoch is not None:
            return leader
        if tp not in self._asked_epochs:
            self._asked_epochs.add(tp)
            self._links.ask(("epoch", tp), leader.address, epoch_question(tp), ANSWER_TIMEOUT_MS)
        return None

    def look_again(self) -> None:
        """See `Leaders.look_again`."""
        self._leaders.look_again(self.now_ms())

    @property
    def asked(self) -> int:
        """See `Leaders.asked`."""
        return self._leaders.asked

    def is_unknown(self, tp: TopicPartition, asked: int) -> bool:
        """See `Leaders.is_unknown`."""
        return self._leaders.is_unknown(tp, asked)

    def doubt(self, tp: TopicPartition, trouble: str) -> None:
        """The leader does not answer, or not as a leader."""
        log.info("%s; looking for the leader again", trouble)
        self._leaders.doubt(tp, trouble, self.now_ms())

    def told_epoch(self, tp: TopicPartition, epoch: int) -> bool:
        """See `Leaders.told_epoch`."""
        return self._leaders.told_epoch(tp, epoch, self.now_ms())

    def has_room(self, leader: Leader) -> bool:
        """Whether a request to this leader could go at once, within the limit of connections."""
        return self._links.has_room(leader.address)

    def ask(self, tag: Hashable, leader: Leader, request: Request, timeout_ms: int) -> None:
        """See `Links.ask`."""
        self._links.ask(tag, leader.address, request, timeout_ms)

    def wait(self, timeout_ms: int) -> list[Reply]:
        """Replies as soon as there is one, or news of leaders: then possibly none. At most so long.

        Raises StoreUnavailableError where no broker is known and ZooKeeper does not tell one.
        """
        now_ms = self.now_ms()
        due_ms = self._leaders.due_ms()
        if due_ms is not None and due_ms <= now_ms:
            self._look_up(now_ms)
            question = self._leaders.question(now_ms)
            if question is not None:
                self._links.ask(_METADATA, *question, ANSWER_TIMEOUT_MS)
            due_ms = self._leaders.due_ms()
        if due_ms is not None:
            timeout_ms = min(timeout_ms, max(0, due_ms - now_ms))
        return [reply for reply in self._links.wait(timeout_ms) if not self._is_own(reply)]

    def watch(self, file: int) -> None:
        """See `Links.watch`."""
        self._links.watch(file)

    def unwatch(self, file: int) -> None:
        self._links.unwatch(file)

    def wake(self) -> None:
        """Ends a `wait`, or the next one; from any thread."""
        self._links.wake()

    def close(self) -> None:
        """Gives every connection up; again is no matter."""
        self._links.close()

    def _look_up(self, now_ms: int) -> None:
        if not self._leaders.lacks_brokers:
            return
        if self._looked_up_ms is not None and now_ms - self._looked_up_ms < LOOK_UP_MS:
            return
        try:
            self._leaders.register(addresses_of(self._registered()))
        except StoreUnavailableError as error:
            if self._looked_up_ms is None:
                raise
            log.info("who is registered is not known now (%s): brokers known before are asked", error)
        self._looked_up_ms = now_ms

    def _is_own(self, reply: Reply) -> bool:
        """Takes in what this asked itself."""
        now_ms = self.now_ms()
        if reply.tag == _METADATA:
            if isinstance(reply.response, MetadataResponse):
                self._leaders.answered(reply.response, now_ms)
            else:
                self._leaders.unanswered(reply.trouble, now_ms)
            return True
        match reply.tag:
            case ("epoch", TopicPartition() as tp):
                self._asked_epochs.discard(tp)
                self._take_epoch(tp, reply)
                return True
            case _:
                return False

    def _take_epoch(self, tp: TopicPartition, reply: Reply) -> None:
        response = reply.response
        if not isinstance(response, FetchLinesResponse):
            self.doubt(tp, f"{tp}: {reply.trouble}")
        elif response.error != ErrorCode.NONE or response.diverging is None:
            self.doubt(tp, f"{tp}: its leader answers {describe(response.error)}")
        else:
            self.told_epoch(tp, response.diverging.leader_epoch)
