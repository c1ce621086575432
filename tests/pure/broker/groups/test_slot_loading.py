"""Slots are fenced first and read after (recipes 20)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.worlds.stepped_stores import GROUP, P0, SteppedStores, led, member, record
from zkgroup.broker.groups.store_events import SlotLed, SlotResigned, SlotsCounted
from zkgroup.coordinator.events import SlotKept, SlotLoaded, SlotLoading, SlotUnloaded, WriteOutcome
from zkgroup.model.requests import ListChildren, Multi, Request
from zkgroup.testing.memory_zookeeper import ServerStep
from zkgroup.znodes.consumers import ids_path
from zkgroup.znodes.coordinated_groups import (
    GroupChunk,
    GroupHeader,
    ProtocolMarker,
    SlotConfig,
    SlotOwner,
    StoredMember,
)


def test_a_slot_is_fenced_and_its_groups_are_loaded() -> None:
    """The slot's znode is made, set to this broker and epoch, and an empty slot is loaded."""
    world, node = led()

    assert world.owner() == SlotOwner(1, 0)
    assert node.slot_events == ["SlotsCounted", "SlotLoading", "SlotLoaded"]
    assert node.emitted(SlotLoading) == [SlotLoading(0, 0)]
    assert node.emitted(SlotLoaded) == [SlotLoaded(0, 0, ())]


def test_before_the_slots_are_counted_nothing_is_loaded() -> None:
    """`/zkgroup/config` is watched: as soon as it exists, the slots that are led are loaded. A probe tells
    until then which are not."""
    world = SteppedStores(slots=None)
    node = world.node()
    world.lead(node)
    world.run()
    assert node.slot_events == []
    assert node.machine.loading() == [0]

    world.server.put(SlotConfig.path(), SlotConfig(50).encode())
    world.run()

    assert node.machine.loading() == []
    assert node.emitted(SlotsCounted) == [SlotsCounted(50)]
    assert node.slot_events == ["SlotsCounted", "SlotLoading", "SlotLoaded"]


def test_a_number_of_slots_that_cannot_be_read_is_no_number() -> None:
    """A broker never takes its own setting; as soon as the znode is in order, its slots are loaded."""
    world = SteppedStores(slots=None)
    world.server.put(SlotConfig.path(), b"{}")
    node = world.node()
    world.lead(node)
    world.run()
    assert [dict(note.fields)["path"] for note in node.notes("slots.unreadable")] == [SlotConfig.path()]
    assert node.emitted(SlotsCounted) == []

    world.server.put(SlotConfig.path(), SlotConfig(50).encode())
    world.run()

    assert node.emitted(SlotsCounted) == [SlotsCounted(50)]
    assert node.slot_events == ["SlotsCounted", "SlotLoading", "SlotLoaded"]


def test_a_stored_group_is_loaded_by_the_next_leader() -> None:
    """All that the coordinator stores comes back: generation, reserved generations, members."""
    world, first = led()
    stored = record(generation=7, members=[member("a"), member("b", b"x" * 10)])
    world.claim(first)
    world.store(first, stored)
    world.run()
    second = world.node(2)

    world.move(second)
    world.run()

    assert second.loaded == {GROUP: stored}
    assert first.slot_events[-1] == "SlotUnloaded"


def test_a_broker_that_the_state_does_not_name_does_not_fence() -> None:
    """A late LeaderAndIsr: the state names another broker (configuration `no-state-check`)."""
    world = SteppedStores()
    first, second = world.node(1), world.node(2)
    world.lead(second)
    world.run()

    first.loop.post(SlotLed(0, 0))
    world.run()

    assert world.owner() == SlotOwner(2, 0)
    assert first.slot_events == ["SlotsCounted", "SlotLoading", "SlotUnloaded"]


def test_a_change_of_the_state_refuses_the_fence_which_is_tried_again() -> None:
    """A change of the ISR alone, between the read of the state and the fence."""
    world = SteppedStores()
    node = world.node()
    world.lead(node)
    world.until_asks(node, Multi, SlotOwner.path(0))
    world.elect(1, epoch=0)
    refused = world.find(SlotOwner.path(0)).stat.version
    world.run()

    assert world.find(SlotOwner.path(0)).stat.version == refused + 1
    assert node.slot_events[-1] == "SlotLoaded"


def test_a_state_that_names_another_broker_before_the_fence_refuses_it() -> None:
    """The check of the state is in the fence's transaction (`no-state-check`)."""
    world = SteppedStores()
    first = world.node(1)
    world.lead(first)
    world.until_asks(first, Multi, SlotOwner.path(0))
    world.elect(2)
    world.run()

    assert not world.find(SlotOwner.path(0)).data
    assert first.slot_events[-1] == "SlotUnloaded"


def test_a_write_before_the_fence_is_in_what_is_read_after_it() -> None:
    """The former coordinator empties the group just before the fence (`read-before-fence`)."""
    world, first = led()
    world.stable(first)
    second = world.node(2)
    world.lead(second)
    world.until_asks(second, Multi, SlotOwner.path(0))
    emptied = record(generation=2, members=())
    written = world.store(first, emptied)
    first.loop.run_pending()
    world.deliver(ServerStep("request", "n1"))
    world.run()

    assert first.outcome(written) is WriteOutcome.STORED
    assert second.loaded == {GROUP: emptied}


def test_a_new_epoch_keeps_the_groups_where_the_slot_has_its_version() -> None:
    """The same leader again: nothing is loaded, and the coordinator learns of the epoch."""
    world, node = led()
    version = world.find(SlotOwner.path(0)).stat.version
    epoch = world.lead(node)
    world.run()

    assert node.emitted(SlotKept)[-1] == SlotKept(0, epoch)
    assert len(node.emitted(SlotLoaded)) == 1
    assert world.find(SlotOwner.path(0)).stat.version == version


def test_a_new_epoch_loads_where_another_has_set_the_slot() -> None:
    """Told of two epochs at once, after another broker led in between."""
    world, first = led()
    second = world.node(2)
    world.lead(second)
    world.run()

    world.lead(first)
    world.run()

    assert first.slot_events[-2:] == ["SlotLoading", "SlotLoaded"]
    assert world.owner() == SlotOwner(1, 2)


def test_an_operators_fence_makes_the_leader_load_again() -> None:
    """The slot is watched (configuration `slot-not-watched`)."""
    world, node = led()
    world.server.put(SlotOwner.path(0), SlotOwner(-1, 0).encode())
    world.run()

    assert world.owner() == SlotOwner(1, 0)
    assert node.slot_events[-2:] == ["SlotLoading", "SlotLoaded"]


def test_an_operators_fence_between_fence_and_read_makes_the_leader_fence_again() -> None:
    """The watch is armed after the fence; the read that arms it sees the foreign version."""
    world = SteppedStores()
    node = world.node()
    world.lead(node)
    world.until_asks(node, ListChildren)
    world.server.put(SlotOwner.path(0), SlotOwner(-1, 0).encode())
    world.run()

    assert world.owner() == SlotOwner(1, 0)
    assert node.slot_events[-1] == "SlotLoaded"


def test_older_epochs_change_nothing() -> None:
    """Requests of the controller that arrive late."""
    world, node = led()
    epoch = world.lead(node)
    world.run()
    told = list(node.slot_events)

    node.loop.post(SlotLed(0, epoch - 1))
    world.run()

    assert node.slot_events == told


@pytest.mark.parametrize("executed", [True, False])
def test_a_fence_without_an_answer_begins_at_the_state_again(executed: bool) -> None:
    """Whether it was applied or not, the slot is fenced once more and loaded."""
    world = SteppedStores()
    node = world.node()
    world.lead(node)
    world.until_asks(node, Multi, SlotOwner.path(0))
    world.lose(node, "lost_reply" if executed else "lost_request")
    world.run()
    world.advance(1000)

    assert node.slot_events == ["SlotsCounted", "SlotLoading", "SlotLoaded"]
    assert world.owner() == SlotOwner(1, 0)


@pytest.mark.parametrize("step", range(12))
def test_a_connection_that_breaks_at_any_step_of_a_load(step: int) -> None:
    """The load begins again on the next connection, and ends once."""
    world, first = led()
    world.stable(first)
    second = world.node(2)
    world.move(second)
    steps = 0

    def is_there() -> bool:
        nonlocal steps
        steps += 1
        return steps > 5 * step

    world.run(is_there)
    world.server.cut("n2", executed=1)
    world.run()
    world.advance(1000)

    assert second.slot_events.count("SlotLoaded") == 1
    assert GROUP in second.loaded


@pytest.mark.parametrize("step", range(1, 12))
def test_a_session_that_ends_at_any_step_of_a_load(step: int) -> None:
    """The slot is given up and loaded again in the next session."""
    world, first = led()
    world.stable(first)
    second = world.node(2)
    world.move(second)
    steps = 0

    def is_there() -> bool:
        nonlocal steps
        steps += 1
        return steps > 5 * step

    world.run(is_there)
    world.server.expire("n2")
    world.server.cut("n2")
    world.run()
    world.advance(1000)

    assert second.slot_events[-1] == "SlotLoaded"
    assert GROUP in second.loaded


def test_the_end_of_the_session_gives_up_every_slot() -> None:
    """SlotUnloaded without an epoch, and the load in the next session."""
    world, node = led()
    world.server.expire("n1")
    world.server.cut("n1")
    world.run()

    assert node.emitted(SlotUnloaded) == [SlotUnloaded(0)]
    assert node.slot_events[-3:] == ["SlotUnloaded", "SlotLoading", "SlotLoaded"]


def test_a_connection_that_broke_keeps_the_slot_in_the_same_session() -> None:
    """Watches are gone: the slot is read, and watched anew."""
    world, node = led()
    world.server.cut("n1")
    world.run()
    assert node.slot_events[-1] == "SlotKept"

    world.server.put(SlotOwner.path(0), SlotOwner(-1, 0).encode())
    world.run()
    assert node.slot_events[-1] == "SlotLoaded"


def test_a_slot_that_was_set_while_the_connection_was_broken_is_loaded_again() -> None:
    """No watch fires for it: the next connection reads the slot."""
    world, node = led()
    world.server.cut("n1", hold=True)
    world.server.put(SlotOwner.path(0), SlotOwner(-1, 0).encode())
    world.server.resume("n1")
    world.run()

    assert node.slot_events[-2:] == ["SlotLoading", "SlotLoaded"]


def test_the_marker_of_a_group_without_members_is_taken_off_at_load() -> None:
    """Its coordinator has claimed and stopped before an assignment (`marker-stays-at-load`)."""
    world, first = led()
    world.claim(first)
    world.run()
    assert world.has_marker()
    second = world.node(2)

    world.move(second)
    world.run()

    assert not world.has_marker()
    assert second.loaded[GROUP].reserved_generation == 100


def test_the_marker_of_a_group_with_members_stays_at_load() -> None:
    """Its members go on with the next coordinator."""
    world, first = led()
    world.stable(first)
    second = world.node(2)
    world.move(second)
    world.run()

    assert world.has_marker()


def test_chunks_that_no_header_names_are_removed_at_load() -> None:
    """A large group whose header was not written (recipes 21)."""
    world, first = led()
    world.stable(first)
    world.server.put(GroupChunk.path(0, GROUP, 2, 0), b"half")
    world.server.put(f"{GroupHeader.path(0, GROUP)}/meta/t/0", b"{}")
    second = world.node(2)

    world.move(second)
    world.run()

    below = [path for path in world.server.tree() if path.startswith(GroupHeader.path(0, GROUP) + "/")]
    assert GroupChunk.path(0, GROUP, 2, 0) not in below
    assert GroupChunk.path(0, GROUP, 1, 0) in below
    assert f"{GroupHeader.path(0, GROUP)}/meta/t/0" in below


@pytest.mark.parametrize(
    ("data", "generation", "reserved"),
    [
        (b"{", 1, 201),
        (b'{"generation":5,"reserved":300}', 5, 300),
        (b'{"generation":5}', 5, 205),
        (b"[]", 1, 201),
    ],
)
def test_a_group_with_a_corrupt_header_starts_anew(data: bytes, generation: int, reserved: int) -> None:
    """At a generation that is not below any that may have been given; the path is logged, the rest loads."""
    world, first = led()
    world.stable(first)
    world.stable(first, "other")
    world.server.put(GroupHeader.path(0, GROUP), data)
    second = world.node(2)

    world.move(second)
    world.run()

    found = second.loaded[GROUP]
    assert (found.generation, found.reserved_generation, found.members) == (generation, reserved, ())
    assert second.loaded["other"].members
    (note,) = second.notes("group.corrupt")
    assert note.fields["path"] == GroupHeader.path(0, GROUP)
    assert not world.has_marker()


def test_a_group_with_a_corrupt_chunk_starts_anew_above_its_generation() -> None:
    """The header still says which generations may have been given."""
    world, first = led()
    world.stable(first, generation=3)
    world.server.put(GroupChunk.path(0, GROUP, 3, 0), b"other bytes")
    second = world.node(2)
    world.move(second)
    world.run()

    found = second.loaded[GROUP]
    assert (found.generation, found.reserved_generation, found.members) == (3, 100, ())

    stored = world.claim(second, reserved=200)
    world.run()
    assert second.outcome(stored) is WriteOutcome.STORED
    assert world.server.find(GroupChunk.path(0, GROUP, 3, 0)) is not None  # its header still names it


@pytest.mark.parametrize(
    ("protocol", "members"),
    [
        ("rr", [member("a")]),
        (None, [member("a")]),
        ("range", [member("a"), replace(member("b"), protocols=(("rr", b""),))]),
        ("range", [member("a"), member("a")]),
        (
            "range",
            [replace(member("a"), group_instance_id="i"), replace(member("b"), group_instance_id="i")],
        ),
    ],
    ids=["protocol of none", "no protocol", "protocol of one", "member twice", "instance twice"],
)
def test_members_that_contradict_each_other_start_anew(
    protocol: str | None, members: list[StoredMember]
) -> None:
    """A coordinator that had such members would fail at their next rebalance."""
    world, first = led()
    world.store(first, replace(record(generation=3, members=members), protocol=protocol))
    world.run()
    second = world.node(2)

    world.move(second)
    world.run()

    assert (second.loaded[GROUP].generation, second.loaded[GROUP].members) == (3, ())
    assert len(second.notes("group.corrupt")) == 1


def test_a_corrupt_group_can_be_written_again() -> None:
    """Its former chunks go with the first write."""
    world, first = led()
    world.stable(first, generation=3)
    world.server.put(GroupHeader.path(0, GROUP), b"{")
    second = world.node(2)
    world.move(second)
    world.run()

    claimed = world.claim(second, reserved=300)
    world.run()

    assert second.outcome(claimed) is WriteOutcome.STORED
    assert world.header().reserved_generation == 300
    assert world.server.find(GroupChunk.path(0, GROUP, 3, 0)) is None


def test_a_group_that_only_has_offsets_is_loaded_as_an_empty_one() -> None:
    """Its header has no data; generation 0, no protocol type."""
    world, first = led()
    committed = world.commit(first, {P0: 5}, is_member=False)
    world.run()
    assert first.commit_outcomes(committed) == {P0: WriteOutcome.STORED}
    second = world.node(2)
    world.move(second)
    world.run()

    found = second.loaded[GROUP]
    assert (found.generation, found.protocol_type, found.members) == (0, None, ())
    assert second.notes("group.corrupt") == []


def test_a_thousand_groups_are_read_with_few_requests() -> None:
    """Bulk reads: the number of requests does not grow with the number of groups."""
    world, first = led()
    for number in range(100):
        world.claim(first, f"g{number}")
        world.store(first, record(f"g{number}"))
    world.run()
    second = world.node(2)
    world.run()
    asked: list[Request] = []
    submit = second.client.submit

    def counted(request: Request, **options: object) -> None:
        asked.append(request)
        submit(request, **options)  # type: ignore[arg-type]

    second.client.submit = counted  # type: ignore[method-assign]
    world.move(second)
    world.run(lambda: second.emitted(SlotLoaded))

    assert len(second.loaded) == 100
    of_the_load = [each for each in asked if "/ids" not in repr(each)]  # not the watches of `ids`
    assert len(of_the_load) <= 16


def test_members_are_watched_only_after_the_load() -> None:
    """A ZooKeeper consumer of Kafka 0.8 in a group of the coordinator is noticed at once."""
    world, first = led()
    world.stable(first)
    world.server.put(f"{ids_path(GROUP)}/c1", b"{}")
    world.run()

    assert [note.fields["members"] for note in first.notes("group.zookeeper_members")] == [1]
    assert world.has_marker()
    assert ProtocolMarker.path(GROUP)


def test_a_late_resignation_of_a_former_leader_epoch_changes_nothing() -> None:
    """A StopReplica that was overtaken does not give up the slot that the broker leads again."""
    world, node = led()
    epoch = world.lead(node)
    world.run()

    node.loop.post(SlotResigned(0, epoch - 1))
    world.run()

    assert "SlotUnloaded" not in node.slot_events
    world.stable(node)
