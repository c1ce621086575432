"""What all parts of the machine share, beside the books of every machine: what is held, what a person sees.

Nothing here decides. The parts (`registration`, `snapshot`, `claim`, ...) hold the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zkgroup.consumer.effects import Assign, ChangeState, Effect, Lose, MemberState
from zkgroup.consumer.machine.config import MemberConfig
from zkgroup.consumer.machine.ownership import Held, Ownership
from zkgroup.consumer.machine.states import check_transition
from zkgroup.machinery.books import Books
from zkgroup.model import TopicPartition

PACKET_BYTES_MIN = 4096
"""Some partitions fit into it, whatever they are called; one that does not stands alone."""
PACKETS_GROW_MS = 60_000


class Core(Books[Effect]):
    """The books of one member."""

    def __init__(self, config: MemberConfig) -> None:
        super().__init__(config.jitter)
        self.config = config
        self.owned = Ownership()
        self.state = MemberState.NEW
        self.reason = "new"
        self.registered_zxid: int | None = None
        """What the reply to the present registration told: its czxid, or the zxid of a write of somebody
        else just after it; every claim of this registration is younger. None where there is none."""
        self.finished = False
        self._packet_bytes = config.request_bytes_max
        self._packets_cut_ms = 0

    @property
    def request_bytes_max(self) -> int:
        """Of a transaction that may be cut into several; grows again some time after it was too much."""
        while self._packet_bytes < self.config.request_bytes_max:
            if self.now.ms - self._packets_cut_ms < PACKETS_GROW_MS:
                break
            self._packet_bytes = min(2 * self._packet_bytes, self.config.request_bytes_max)
            self._packets_cut_ms += PACKETS_GROW_MS
        return self._packet_bytes

    def cut_packets(self) -> bool:
        """A request was too big. False where smaller packets would be no help."""
        smaller = self.request_bytes_max // 2
        self._packets_cut_ms = self.now.ms
        if smaller < PACKET_BYTES_MIN:
            return False
        self._packet_bytes = smaller
        return True

    def change_state(self, after: MemberState, reason: str) -> None:
        """Tells the change, once; a new reason for the same state is only remembered."""
        self.reason = reason
        if after is self.state:
            return
        check_transition(self.state, after)
        before, self.state = self.state, after
        self.emit(ChangeState(before, after, reason))

    def lose(self, partitions: Iterable[TopicPartition], reason: str) -> None:
        """Ends these leases without notice: they are not ours any more. Those not held are passed over."""
        gone = tuple(sorted(tp for tp in partitions if tp in self.owned.held))
        if not gone:
            return
        # First the order to stop, then the record: no delivery may be recorded after the end.
        self.emit(Lose(gone, reason))
        for tp in gone:
            held = self.owned.drop(tp)
            if held.ended is None:
                self.note("own.end", topic=tp.topic, partition=tp.partition, token=held.token, reason=reason)

    def own(self, claimed: Iterable[Held]) -> None:
        """Accepted claims. One that the plan has given up meanwhile goes back before anybody saw it."""
        wanted = []
        move_id = self.next_id()
        for held in claimed:
            tp = held.topic_partition
            self.owned.add(held)
            fields = tp_fields(tp)
            self.note("own.begin", **fields, token=held.token, offset=held.value, version=held.fence)
            if self.owned.target.get(tp) == held.thread:
                held.moved = move_id
                wanted.append(held.grant())
            else:
                held.ended = "not_wanted"
                self.owned.releasing[tp] = None
                self.note("own.end", **fields, token=held.token, reason=held.ended)
        if wanted:
            self.emit(Assign(tuple(wanted), move_id))


def tp_fields(tp: TopicPartition) -> Mapping[str, object]:
    """A partition as the history writes it."""
    return {"topic": tp.topic, "partition": tp.partition}
