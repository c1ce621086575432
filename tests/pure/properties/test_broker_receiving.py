"""Properties of a broker's handling of control requests, in any content and any order."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import example, given
from hypothesis import strategies as st

from tests.worlds.broker_requests import brokers, handled, live_brokers, state
from tests.worlds.wire_requests import encode_response
from zkgroup.broker.machine.isr import Isr
from zkgroup.broker.replica_view import BecomeFollower, BecomeLeader, Follower
from zkgroup.broker.server.control_requests import ControlRequestHandler
from zkgroup.broker.server.metadata_cache import MetadataCache
from zkgroup.model import TopicPartition, Znode, ZnodeStat
from zkgroup.model.requests import (
    Code,
    MultiDone,
    MultiRefused,
    NotSent,
    Outcome,
    ReadDone,
    Unanswered,
)
from zkgroup.wire.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from zkgroup.wire.messages import decode_response
from zkgroup.wire.metadata import MetadataResponse

ME = 1
PARTITIONS = [TopicPartition(topic, number) for topic in "ab" for number in (0, 1)]
Sent = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest

ids = st.lists(st.integers(1, 3), max_size=3, unique=True).map(tuple)
states = st.builds(
    lambda tp, leader, epoch, isr, replicas, decided: state(
        tp, leader, epoch=epoch, isr=isr, replicas=replicas, decided=decided
    ),
    st.sampled_from(PARTITIONS),
    st.integers(-2, 3),
    st.integers(0, 4),
    ids,
    ids,
    st.integers(1, 3),
)
lists = st.lists(states, max_size=4).map(tuple)
named = st.lists(st.sampled_from(PARTITIONS), max_size=4).map(tuple)
places = ids.map(lambda found: brokers(*found))
live = ids.map(lambda found: live_brokers(*found))
epochs = st.integers(1, 3)
sent: st.SearchStrategy[Sent] = (
    st.builds(LeaderAndIsrRequest, st.just(9), epochs, lists, places)
    | st.builds(StopReplicaRequest, st.just(9), epochs, st.booleans(), named)
    | st.builds(UpdateMetadataRequest, st.just(9), epochs, lists, live)
)


@given(st.lists(sent, max_size=12))
@example([LeaderAndIsrRequest(9, 1, (state(PARTITIONS[0], 2, isr=(2,), replicas=(1, 2)),), ())] * 2)
def test_a_fence_never_goes_back(requests: list[Sent]) -> None:
    """The controller epoch never falls; a leader epoch only with a deletion.

    A refused request changes nothing, and every answer names each requested partition once and no other. A
    follower whose request lacked the leader's address accepts the same epoch again.
    """
    receiver = ControlRequestHandler(ME, MetadataCache())
    for request in requests:
        known, before = receiver.controller_epoch, dict(receiver.replicas)
        stale = known is not None and request.controller_epoch < known
        if isinstance(request, UpdateMetadataRequest):
            assert receiver.update_metadata(request, 0).error == (11 if stale else 0)
            assert receiver.replicas == before
        else:
            deletes = isinstance(request, StopReplicaRequest) and request.delete
            actions, response = handled(
                receiver.stop_replica(request)
                if isinstance(request, StopReplicaRequest)
                else receiver.leader_and_isr(request)
            )
            assert response.error == (11 if stale else 0)
            answered = [entry.topic_partition for entry in response.partitions]
            assert len(set(answered)) == len(answered)
            assert not stale or (actions, answered, receiver.replicas) == ([], [], before)
            for tp, replica in before.items():
                if not deletes:
                    assert receiver.replicas[tp].state.leader_epoch >= replica.state.leader_epoch
            for action in actions:
                if isinstance(action, BecomeLeader | BecomeFollower):
                    was = before.get(action.topic_partition)
                    allowed = -1 if was is None else was.state.leader_epoch + (not was.awaits_leader)
                    assert action.state.leader_epoch >= allowed
        assert receiver.controller_epoch == max(request.controller_epoch, known or 0)


@given(st.lists(st.builds(UpdateMetadataRequest, st.just(9), epochs, lists, live), max_size=8))
def test_every_answer_can_be_sent_and_names_live_brokers_only(requests: list[UpdateMetadataRequest]) -> None:
    """The answer of a metadata cache equals that of a new cache, so nothing of an old answer is left."""
    cache = MetadataCache()
    for number, request in enumerate(requests, 1):
        cache.update(request, 0)
        answer = cache.metadata([])
        unasked = MetadataCache()
        for earlier in requests[:number]:
            unasked.update(earlier, 0)
        assert answer == unasked.metadata([])
        live = {broker.broker for broker in answer.brokers}
        for topic in answer.topics:
            for one in topic.partitions:
                assert {one.leader, *one.replicas, *one.isr} <= live | {-1}
                assert (one.leader == -1) == (one.error == 5)
        assert decode_response(MetadataResponse, encode_response(answer, 7)[4:]) == (7, answer)
        assert all(topic.partitions for topic in answer.topics)


class StateZnode:
    """The `state` of one partition, with writes whose answers are lost and which are applied late."""

    def __init__(self, isr: tuple[int, ...]) -> None:
        self.data = b""
        self.version = 0
        self.isr = isr
        self.late: list[tuple[bytes, tuple[int, ...], int]] = []

    def write(self, data: bytes, isr: tuple[int, ...], version: int) -> bool:
        if version != self.version:
            return False
        self.data, self.isr, self.version = data, isr, version + 1
        return True

    def apply_late(self) -> None:
        for write in self.late:
            self.write(*write)
        self.late.clear()

    def stat(self) -> ZnodeStat:
        return ZnodeStat(1, 1, 0, 0, self.version, 0, 0, 0, 0, 0, 1)

    def read(self) -> ReadDone:
        return ReadDone(Znode("", self.data, self.stat()))


steps = st.lists(
    st.tuples(
        st.sets(st.integers(2, 4)),
        st.sets(st.integers(2, 4)),
        st.sampled_from(["done", "lost", "lost late", "not sent"]),
        st.booleans(),
    ),
    max_size=12,
)


def progress(able: Iterable[int], lost: Iterable[int]) -> dict[int, Follower]:
    return {one: Follower(5, one in able, one in lost) for one in (2, 3, 4)}


@given(steps)
def test_a_stored_replica_is_counted_whatever_becomes_of_the_writes(
    script: list[tuple[set[int], set[int], str, bool]],
) -> None:
    """The maximal ISR has every stored replica, also when a lost write is applied late.

    The leader is always in the ISR, and is never stuck: once answers come again, the wanted ISR is stored.
    """
    decision = state(leader=ME, epoch=2, isr=(1, 2), replicas=(1, 2, 3, 4))
    isr, znode = Isr(ME, decision, 0), StateZnode((1, 2))
    znode.data = state_data(isr)
    now = 0
    for able, lost, fate, late_now in [*script, ({2, 3}, {4}, "done", True), ({2, 3}, {4}, "done", True)]:
        now += 1
        for follower in able:
            isr.fetched(follower, 5, 5, now)
        if (write := isr.propose(progress(able, lost), now, 100)) is not None:
            outcome: Outcome
            data, asked = write.state.encode(), write.state.isr
            assert ME in asked
            if fate == "done":
                applied = znode.write(data, asked, write.version)
                outcome = MultiDone((znode.stat(),), 1) if applied else MultiRefused(0, Code.BAD_VERSION)
            elif fate == "not sent":
                outcome = NotSent("suspended")
            else:
                if fate == "lost":
                    znode.write(data, asked, write.version)
                else:
                    znode.late.append((data, asked, write.version))
                outcome = Unanswered("lost")
            isr.written(outcome)
            if isinstance(outcome, Unanswered | MultiRefused):
                isr.read_back(znode.read())
        if late_now:
            znode.apply_late()
        assert set(znode.isr) <= isr.maximal_isr
        assert ME in isr.maximal_isr

    now += 1
    for _ in range(3):
        if (write := isr.propose(progress({2, 3}, {4}), now, 100)) is not None:
            applied = znode.write(write.state.encode(), write.state.isr, write.version)
            isr.written(MultiDone((znode.stat(),), 1) if applied else MultiRefused(0, Code.BAD_VERSION))
            if not applied:
                isr.read_back(znode.read())
    assert set(znode.isr) == isr.maximal_isr == {1, 2, 3}


def state_data(isr: Isr) -> bytes:
    write = isr.propose({}, 10**9, 1)
    assert write is not None
    isr.written(NotSent("only to see its form"))
    return write.state.encode().replace(b'"isr":[1]', b'"isr":[1,2]')
