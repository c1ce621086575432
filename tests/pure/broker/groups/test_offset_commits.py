"""Commits: many in one transaction of their slot, refusals by partition or group (recipes 23)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.acls import READ_ONLY
from tests.worlds.stepped_stores import GROUP, P0, SteppedStores, StoreNode, led, record
from zkgroup.broker.groups.offset_batch import Key, OffsetBatch
from zkgroup.broker.groups.slot_usage import SlotBounds
from zkgroup.broker.groups.store_events import (
    LegacyOffsetsRead,
    LegacyOffsetsWritten,
    ReadLegacyOffsets,
    WriteLegacyOffsets,
    ZooKeeperMembersNoticed,
)
from zkgroup.coordinator.effects import ReadOffsets, WriteOffsets
from zkgroup.coordinator.events import OffsetsWritten, WriteOutcome
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.model.requests import Code, Multi, ReadMany, Refused, Request
from zkgroup.testing.memory_zookeeper import Fault
from zkgroup.znodes.consumers import ids_path, offset_path
from zkgroup.znodes.coordinated_groups import OffsetAndMetadata, ProtocolMarker, SlotOwner

P1, P2 = TopicPartition("t", 1), TopicPartition("t", 2)
STORED, NOT_OWNER, UNKNOWN = WriteOutcome.STORED, WriteOutcome.NOT_OWNER, WriteOutcome.UNKNOWN


def warm(world: SteppedStores, node: StoreNode, *partitions: TopicPartition, group: str = GROUP) -> None:
    """The group has committed these partitions once."""
    committed = world.commit(node, dict.fromkeys(partitions or (P0,), 0), group)
    world.run()
    assert set((node.commit_outcomes(committed) or {}).values()) == {STORED}


def transactions(world: SteppedStores) -> int:
    return len(world.server.log)


def test_a_commit_is_stored_beside_its_metadata() -> None:
    """The offset in Kafka's znode as decimal text, the rest below the group's header."""
    world, node = led()
    committed = world.commit(node, {P0: 5}, metadata="why", leader_epoch=3, commit_timestamp_ms=77)
    world.run()

    assert node.commit_outcomes(committed) == {P0: STORED}
    assert world.offset() == b"5"
    path = OffsetAndMetadata.path(0, GROUP, P0)
    assert OffsetAndMetadata.decode(path, world.find(path).data) == OffsetAndMetadata(
        offset=5, leader_epoch=3, metadata="why", commit_timestamp_ms=77
    )


def test_a_commit_is_read_back_with_everything() -> None:
    """Offset, metadata, leader epoch and times; by name and among all offsets."""
    world, node = led()
    offset = OffsetAndMetadata(
        offset=5, metadata="why", leader_epoch=3, commit_timestamp_ms=77, expire_timestamp_ms=99
    )
    world.commit(
        node, {P0: 5}, metadata="why", leader_epoch=3, commit_timestamp_ms=77, expire_timestamp_ms=99
    )
    world.run()

    assert world.fetch(node).offsets == {P0: offset}
    assert world.fetch(node, None).offsets == {P0: offset}


def test_offsets_of_many_groups_share_a_transaction() -> None:
    """While one is under way, those that come are collected: 50 commits are two transactions."""
    world, node = led()
    groups = [f"g{number}" for number in range(50)]
    for group in groups:
        warm(world, node, group=group)
    before = transactions(world)
    written = [world.commit(node, {P0: 7}, group) for group in groups]
    world.run()

    assert transactions(world) == before + 2
    assert all(node.commit_outcomes(each) == {P0: STORED} for each in written)
    assert all(world.offset(group=group) == b"7" for group in groups)


def test_fifty_members_cost_few_packets() -> None:
    """Packets to ZooKeeper a commit: below 0.2 (issue's table), in a closed loop of 50 members.

    What the first commit has created is known: nothing is read again.
    """
    world, node = led()
    partitions = [TopicPartition("t", number) for number in range(50)]
    warm(world, node, *partitions)
    sent: list[object] = []
    submit = node.client.submit

    def counted(request: object, **options: object) -> None:
        sent.append(request)
        submit(request, **options)  # type: ignore[arg-type]

    node.client.submit = counted  # type: ignore[method-assign]
    for round_number in range(10):
        for partition in partitions:
            world.commit(node, {partition: round_number})
        world.run()

    assert sum(len(each.outcomes) for each in node.emitted(OffsetsWritten)) == 501
    assert len(sent) / 500 < 0.2
    assert not [each for each in sent if isinstance(each, ReadMany)]


def test_the_next_commits_are_sent_before_the_former_ones_are_answered() -> None:
    """ZooKeeper executes them while the broker answers."""
    world, node = led()
    warm(world, node)
    order: list[str] = []
    submit = node.client.submit

    class Effects(list[Any]):
        def append(self, effect: object) -> None:
            order.append(type(effect).__name__)

    def noted(request: object, **options: object) -> None:
        order.append(type(request).__name__)
        submit(request, **options)  # type: ignore[arg-type]

    node.effects = Effects()
    node.client.submit = noted  # type: ignore[method-assign]
    for offset in (1, 2):
        world.commit(node, {P0: offset})
    world.run()

    assert order == ["Multi", "Multi", "OffsetsWritten", "OffsetsWritten"]


def test_a_batch_looks_at_each_commit_once() -> None:
    """A thousand members that commit at once do not cost a million looks."""
    partitions = [TopicPartition("t", number) for number in range(1000)]
    batch = OffsetBatch(
        WriteOffsets(
            write_id=number,
            group_id=GROUP,
            offsets={partition: OffsetAndMetadata(offset=1)},
            refuse_zookeeper_members=False,
        )
        for number, partition in enumerate(partitions)
    )
    looks: list[object] = []

    class Writers(dict[Key, list[WriteOffsets]]):
        """The commits of each partition, with every look at one."""

        def pop(self, key: Key, default: Any = ()) -> Any:
            writers = super().pop(key, default)
            looks.extend(writers)
            return writers

    batch._open = Writers(batch._open)
    batch.settle_all(STORED)

    assert batch.is_done
    assert len(looks) == len(partitions)
    assert batch.outcomes[7] == {partitions[7]: STORED}


def test_the_last_commit_of_a_partition_wins() -> None:
    """Two commits of one batch for the same partition, in their order."""
    world, node = led()
    warm(world, node)
    writes = [world.commit(node, {P0: offset}) for offset in (1, 3, 2)]
    world.run()

    assert all(node.commit_outcomes(each) == {P0: STORED} for each in writes)
    assert world.offset() == b"2"


def test_a_large_commit_is_several_transactions() -> None:
    """Each is below ZooKeeper's limit."""
    world, node = led()
    offsets = {TopicPartition("a" * 200, number): number for number in range(2000)}
    committed = world.commit(node, offsets, metadata="m" * 500)
    world.run()

    assert set((node.commit_outcomes(committed) or {}).values()) == {STORED}
    assert len(world.fetch(node, None).offsets) == 2000


def test_a_negative_offset_is_stored_and_read_as_it_was_committed() -> None:
    """As in Kafka: KafkaJS commits -2 for "earliest". Without metadata it is a ZooKeeper member's "none"."""
    world, node = led()
    committed = world.commit(node, {P0: -(2**63), P1: -2}, metadata="m")
    world.run()

    assert node.commit_outcomes(committed) == {P0: STORED, P1: STORED}
    assert (world.offset(P0), world.offset(P1)) == (b"-9223372036854775808", b"-2")
    read = world.fetch(node, None).offsets
    assert {each: (found.offset, found.metadata) for each, found in read.items()} == {
        P0: (-(2**63), "m"),
        P1: (-2, "m"),
    }
    world.server.put(offset_path(GROUP, P1), b"-1")
    assert world.fetch(node, None).offsets.keys() == {P0}


def test_metadata_that_zookeeper_does_not_accept_is_too_large_for_its_partition() -> None:
    """The others of the commit are stored."""
    world, node = led(bounds=SlotBounds(metadata_bytes_max=2_000_000))
    warm(world, node, P0, P1)
    first = world.commit(node, {P1: 5})
    too_large = world.commit(node, {P0: 5}, metadata="m" * 1_100_000)
    fits = world.commit(node, {P1: 6})
    world.run()

    assert node.commit_outcomes(first) == node.commit_outcomes(fits) == {P1: STORED}
    assert node.commit_outcomes(too_large) == {P0: WriteOutcome.TOO_LARGE}
    assert (world.offset(P0), world.offset(P1)) == (b"0", b"6")


def test_an_offset_that_somebody_deleted_is_created_again() -> None:
    """What is known of the znodes is wrong: they are read, and the batch is sent again."""
    world, node = led()
    warm(world, node, P0, P1)
    world.server.remove(offset_path(GROUP, P0))
    committed = world.commit(node, {P0: 5, P1: 6})
    world.run()

    assert node.commit_outcomes(committed) == {P0: STORED, P1: STORED}
    assert (world.offset(P0), world.offset(P1)) == (b"5", b"6")


def test_an_offset_that_a_zookeeper_consumer_creates_meanwhile_is_set() -> None:
    """The create is refused; the znode is read, and the last commit wins."""
    world, node = led()
    committed = world.commit(node, {P0: 5})
    world.until_asks(node, Multi, offset_path(GROUP, P0))
    world.server.put(offset_path(GROUP, P0), b"3")
    world.run()

    assert node.commit_outcomes(committed) == {P0: STORED}
    assert world.offset() == b"5"


def test_a_partition_that_may_not_be_written_hits_itself_alone() -> None:
    """An ACL: the rest of the batch is stored, also of the same commit."""
    world, node = led()
    warm(world, node, P0, P1)
    warm(world, node, group="other")
    world.server.set_acl(offset_path(GROUP, P0), READ_ONLY)
    waits = world.commit(node, {P1: 1})
    committed = world.commit(node, {P0: 5, P1: 6})
    other = world.commit(node, {P0: 7}, "other")
    world.run()

    assert node.commit_outcomes(waits) == {P1: STORED}
    assert node.commit_outcomes(committed) == {P0: WriteOutcome.CONFLICT, P1: STORED}
    assert node.commit_outcomes(other) == {P0: STORED}
    assert [note.fields["path"] for note in node.notes("offset.refused")] == [offset_path(GROUP, P0)]


def test_a_client_that_is_no_member_is_refused_while_zookeeper_consumers_are() -> None:
    """Only its group: the guard is in the transaction, and says who they are."""
    world, node = led()
    warm(world, node)
    warm(world, node, group="other")
    world.zookeeper_member()
    waits = world.commit(node, {P0: 1}, "other")
    refused = world.commit(node, {P0: 5}, is_member=False)
    other = world.commit(node, {P0: 7}, "other", is_member=False)
    world.run()

    assert node.commit_outcomes(waits) == node.commit_outcomes(other) == {P0: STORED}
    assert node.commit_outcomes(refused) == {P0: WriteOutcome.ZOOKEEPER_MEMBERS}
    assert world.offset() == b"0"
    assert ZooKeeperMembersNoticed(GROUP, ("c1",)) in node.effects


def test_a_commit_of_a_client_that_is_no_member_is_stored_without_zookeeper_consumers() -> None:
    """The first one creates `ids`, the second deletes and creates it."""
    world, node = led()
    committed = world.commit(node, {P0: 5}, is_member=False)
    world.run()
    again = world.commit(node, {P0: 6}, is_member=False)
    world.run()

    assert node.commit_outcomes(committed) == node.commit_outcomes(again) == {P0: STORED}
    assert world.server.find(ids_path(GROUP)) is not None


def test_a_refusal_at_the_slot_ends_all_commits_of_the_slot() -> None:
    """Those in flight and those that wait; then the slot is given up."""
    world, node = led()
    warm(world, node)
    writes = [world.commit(node, {P0: offset}) for offset in (5, 6)]
    node.loop.run_pending()
    world.elect(2)
    world.server.put(SlotOwner.path(0), SlotOwner(2, 9).encode())
    world.run()

    assert [node.commit_outcomes(each) for each in writes] == [{P0: NOT_OWNER}] * 2
    assert world.offset() == b"0"
    assert node.slot_events[-1] == "SlotUnloaded"


def test_a_stale_commit_is_refused_although_its_successor_committed() -> None:
    """The slot's check is in the commit's transaction (`no-slot-check-of-commits`)."""
    world, first = led()
    warm(world, first)
    second = world.node(2)
    world.lead(second)
    world.run(lambda: second.slot_events[-1:] == ["SlotLoaded"])
    stale = world.commit(first, {P0: 3})
    fresh = world.commit(second, {P0: 9})
    world.run()

    assert second.commit_outcomes(fresh) == {P0: STORED}
    assert first.commit_outcomes(stale) == {P0: NOT_OWNER}
    assert world.offset() == b"9"


def test_a_refusal_that_no_recipe_expects_ends_one_batch() -> None:
    """The server refuses to read: the commits that wait meanwhile are sent."""
    world, node = led()
    submit = node.client.submit

    def refuses(request: Request, **options: Any) -> None:
        if isinstance(request, ReadMany) and offset_path(GROUP, P0) in request.paths:
            options["on_outcome"](Refused(Code.OTHER, request.paths[0]))
        else:
            submit(request, **options)

    node.client.submit = refuses  # type: ignore[method-assign]
    refused = world.commit(node, {P0: 5})
    waits = world.commit(node, {P1: 6})
    world.run()

    assert node.commit_outcomes(refused) == {P0: WriteOutcome.CONFLICT}
    assert node.commit_outcomes(waits) == {P1: STORED}


@pytest.mark.parametrize("fault", ["lost_reply", "lost_request", "late"])
def test_a_commit_without_an_answer_is_unknown_and_never_sent_again(fault: Fault) -> None:
    """Whether it was applied or not; the log of transactions has it at most once."""
    world, node = led()
    warm(world, node, P0, P1)
    committed = world.commit(node, {P0: 5, P1: 6})
    world.until_asks(node, Multi, offset_path(GROUP, P0))
    before = transactions(world)
    world.lose(node, fault)
    world.run()
    assert node.commit_outcomes(committed) == {P0: UNKNOWN, P1: UNKNOWN}

    world.advance(2000)
    of_the_commit = [entry for entry in world.server.log[before:] if offset_path(GROUP, P0) in repr(entry)]
    assert len(of_the_commit) == (0 if fault == "lost_request" else 1)
    assert len(node.emitted(OffsetsWritten)) == 2


@pytest.mark.parametrize("fault", ["lost_reply", "lost_request"])
def test_the_first_commit_of_a_group_without_an_answer(fault: Fault) -> None:
    """Whether the group's header exists now is read before the next commit, and before a claim."""
    world, node = led()
    committed = world.commit(node, {P0: 5}, is_member=False)
    world.until_asks(node, Multi, offset_path(GROUP, P0))
    world.lose(node, fault)
    claimed = world.claim(node)
    again = world.commit(node, {P0: 6})
    world.run()
    world.advance(2000)

    assert node.commit_outcomes(committed) == {P0: UNKNOWN}
    assert node.outcome(claimed) is STORED
    assert node.commit_outcomes(again) == {P0: STORED}
    assert node.slot_events.count("SlotLoaded") == 1


def test_a_commit_that_was_never_sent_is_sent_on_the_next_connection() -> None:
    """Nothing of it can be stored, so it waits."""
    world, node = led()
    warm(world, node)
    world.server.cut("n1", hold=True)
    committed = world.commit(node, {P0: 5})
    world.run()
    assert node.commit_outcomes(committed) is None

    world.server.resume("n1")
    world.run()
    world.advance(1000)
    assert node.commit_outcomes(committed) == {P0: STORED}


@pytest.mark.parametrize("executed", [0, 1])
def test_a_session_that_ends_with_a_commit_in_flight(executed: int) -> None:
    """Unknown what was sent; not stored what waited."""
    world, node = led()
    warm(world, node)
    sent = world.commit(node, {P0: 5})
    waits = world.commit(node, {P0: 6})
    node.loop.run_pending()
    world.server.cut("n1", executed=executed)
    world.server.expire("n1")
    world.run()
    world.advance(2000)

    assert node.commit_outcomes(sent) == {P0: UNKNOWN}
    assert node.commit_outcomes(waits) in ({P0: NOT_OWNER}, {P0: UNKNOWN})
    assert world.offset() == (b"5" if executed else b"0")
    after = world.commit(node, {P0: 8})
    world.run()
    assert node.commit_outcomes(after) == {P0: STORED}


def test_a_large_commit_without_an_answer_in_the_middle() -> None:
    """What was stored is stored, what was under way is unknown, the rest goes on."""
    world, node = led()
    offsets = {TopicPartition("a" * 200, number): number for number in range(2000)}
    committed = world.commit(node, offsets, metadata="m" * 500)
    world.until_asks(node, Multi)
    world.deliver(world.server.pending()[0])
    world.until_asks(node, Multi)
    world.lose(node, "lost_request")
    world.run()
    world.advance(1000)

    found = list((node.commit_outcomes(committed) or {}).values())
    assert len(found) == 2000
    assert set(found) == {STORED, UNKNOWN}


def test_an_offset_of_a_zookeeper_consumer_has_no_metadata() -> None:
    """The metadata records another offset (group-coordinator 7.2)."""
    world, node = led()
    world.commit(node, {P0: 5}, metadata="why", leader_epoch=3)
    world.run()
    world.server.put(offset_path(GROUP, P0), b"8")

    assert world.fetch(node).offsets == {P0: OffsetAndMetadata(offset=8)}


def test_offsets_of_a_group_without_a_header_are_read() -> None:
    """Of ZooKeeper consumers; a negative one means none."""
    world, node = led()
    world.server.put(offset_path("old", P0), b"4")
    world.server.put(offset_path("old", P1), b"-1")
    world.server.catch_up("n1")

    assert world.fetch(node, (P0, P1, P2), "old").offsets == {P0: OffsetAndMetadata(offset=4)}
    assert world.fetch(node, None, "old").offsets == {P0: OffsetAndMetadata(offset=4)}
    assert world.fetch(node, None, "nobody").offsets == {}


def test_an_unreadable_offset_is_an_error_of_its_partition() -> None:
    """It never means "no offset": a client would start elsewhere."""
    world, node = led()
    world.server.put(offset_path(GROUP, P0), b"x")
    world.server.put(offset_path(GROUP, P1), b"4")
    world.server.catch_up("n1")
    found = world.fetch(node, (P0, P1))

    assert found.offsets == {P1: OffsetAndMetadata(offset=4)}
    assert found.partition_errors == {P0: ErrorCode.UNKNOWN}


def test_a_partition_with_a_commit_in_flight_is_unstable() -> None:
    """It has an error of its own and no offset (KIP-447)."""
    world, node = led()
    warm(world, node, P0, P1)
    node.loop.post(
        ReadOffsets(request_id=9000, group_id=GROUP, partitions=(P0, P1), unstable=frozenset({P0}))
    )
    world.run()
    found = node.effects[-1]

    assert getattr(found, "partition_errors") == {P0: ErrorCode.UNSTABLE_OFFSET_COMMIT}  # noqa: B009
    assert getattr(found, "offsets") == {P1: OffsetAndMetadata(offset=0, commit_timestamp_ms=-1)}  # noqa: B009


def test_a_read_without_an_answer_is_made_again() -> None:
    """A read changes nothing, so it can be repeated."""
    world, node = led()
    warm(world, node)
    node.loop.post(ReadOffsets(request_id=9000, group_id=GROUP, partitions=(P0,), unstable=frozenset()))
    world.until_asks(node, ReadMany, offset_path(GROUP, P0))
    world.lose(node, "lost_reply")
    world.run()
    world.advance(1000)

    assert getattr(node.effects[-1], "offsets") == {P0: OffsetAndMetadata(offset=0, commit_timestamp_ms=-1)}  # noqa: B009


def test_a_read_of_a_slot_that_is_given_up_is_refused() -> None:
    """The client finds the next coordinator."""
    world, node = led()
    world.server.cut("n1", hold=True)
    node.loop.post(ReadOffsets(request_id=9000, group_id=GROUP, partitions=(P0,), unstable=frozenset()))
    node.loop.run_pending()
    world.server.expire("n1")
    world.server.resume("n1")
    world.run()

    (found,) = [each for each in node.effects if getattr(each, "request_id", None) == 9000]
    assert getattr(found, "error") is ErrorCode.NOT_COORDINATOR  # noqa: B009


def legacy(world: SteppedStores, node: StoreNode, offsets: dict[TopicPartition, int]) -> object:
    node.loop.post(WriteLegacyOffsets(9001, GROUP, offsets))
    world.run()
    found = node.emitted(LegacyOffsetsWritten)[-1]
    assert found.request_id == 9001
    return found.outcomes


def test_version_0_writes_and_reads_kafkas_znodes_on_any_broker() -> None:
    """Without a slot, without metadata, as Kafka 0.8.2.2."""
    world = SteppedStores()
    node = world.node()
    world.run()
    assert legacy(world, node, {P0: 5, P1: 6}) == {P0: STORED, P1: STORED}
    assert legacy(world, node, {P0: 7}) == {P0: STORED}
    node.loop.post(ReadLegacyOffsets(9002, GROUP, (P0, P1, P2)))
    world.run()

    assert node.emitted(LegacyOffsetsRead) == [LegacyOffsetsRead(9002, ErrorCode.NONE, {P0: 7, P1: 6})]
    assert world.server.find(ProtocolMarker.path(GROUP)) is None


def test_version_0_tells_an_unreadable_offset_from_none() -> None:
    """As Kafka 0.8.2.2, where the number's exception is -1: a client would begin anew at error 3."""
    world = SteppedStores()
    node = world.node()
    world.run()
    assert legacy(world, node, {P0: 5}) == {P0: STORED}
    world.server.put(offset_path(GROUP, P1), b"none")
    node.loop.post(ReadLegacyOffsets(9002, GROUP, (P0, P1, P2)))
    world.run()

    (read,) = node.emitted(LegacyOffsetsRead)
    assert (read.offsets, read.unreadable) == ({P0: 5}, {P1})


def test_version_0_is_refused_while_the_group_has_members() -> None:
    """Of ZooKeeper by `ids`, of the coordinator by the marker."""
    world, node = led()
    world.stable(node)
    assert legacy(world, node, {P0: 5}) == {P0: WriteOutcome.CONFLICT}
    world.store(node, record(generation=2, members=()))
    world.run()
    world.zookeeper_member()
    assert legacy(world, node, {P0: 5}) == {P0: WriteOutcome.ZOOKEEPER_MEMBERS}
    assert world.offset() is None
    assert world.server.find(f"{ids_path(GROUP)}/c1") is not None


@pytest.mark.parametrize("fault", ["lost_reply", "lost_request"])
def test_version_0_without_an_answer_is_unknown(fault: Fault) -> None:
    """It is not sent again."""
    world, node = led()
    node.loop.post(WriteLegacyOffsets(9001, GROUP, {P0: 5}))
    world.until_asks(node, Multi, offset_path(GROUP, P0))
    world.lose(node, fault)
    world.run()
    world.advance(1000)

    assert node.emitted(LegacyOffsetsWritten) == [LegacyOffsetsWritten(9001, {P0: UNKNOWN})]
