"""Groups of Kafka's group protocol in `group list`, `describe`, `verify` and `offsets show`, from znodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.worlds.coordinated_groups import CoordinatedGroups, assignment_bytes, stored_member
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin.coordinator import live_reader
from zkgroup.clients import broker_queries
from zkgroup.clients.addresses import BrokerAddress
from zkgroup.errors import BrokerAuthenticationError, RefusedError
from zkgroup.groups.descriptions import GroupDescription, GroupState, ProblemKind
from zkgroup.groups.membership import LiveGroup, LiveMember, LiveReader
from zkgroup.groups.preview import GroupChange
from zkgroup.groups.reader import read_snapshot
from zkgroup.groups.reads import (
    describe,
    describe_offsets,
    list_groups,
    preview,
    verify,
)
from zkgroup.model import TopicPartition
from zkgroup.wire.groups import DescribedGroup
from zkgroup.znodes.brokers import PartitionState
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC, GroupChunk, GroupHeader, SlotConfig

ORDERS = [TopicPartition("orders", number) for number in range(3)]
ADA, BOB = stored_member("ada", ORDERS[0], ORDERS[1]), stored_member("bob", ORDERS[2])


@pytest.fixture
def groups(world: MemoryGroups) -> CoordinatedGroups:
    """A topic with three partitions, and broker 1, which leads every slot."""
    world.topic("orders", 3)
    made = CoordinatedGroups(world)
    made.broker(1)
    made.lead(1)
    return made


def live(group: LiveGroup | None) -> LiveReader:
    """A coordinator that reports this of every group; None: it does not answer."""

    def read(asked: Mapping[str, int]) -> Mapping[str, LiveGroup]:
        return {} if group is None else dict.fromkeys(asked, group)

    return read


def reported(state: str, *names: str, generation: int | None = 1, phase: str | None = None) -> LiveGroup:
    members = tuple(
        LiveMember(
            member_id=name,
            instance_id=None,
            client_id="client",
            host="/1.2.3.4",
            metadata=b"",
            assignment=b"",
        )
        for name in names
    )
    return LiveGroup(
        state=state,
        protocol_type="consumer",
        protocol="",
        generation=generation,
        phase=phase or state,
        members=members,
    )


def stable() -> LiveGroup:
    """What a coordinator reports of the generation of `ADA` and `BOB`."""
    members = tuple(
        LiveMember(
            member_id=one.member_id,
            instance_id=None,
            client_id=one.client_id,
            host=one.client_host,
            metadata=one.protocols[0][1],
            assignment=one.assignment,
        )
        for one in (ADA, BOB)
    )
    return replace(reported("Stable"), protocol="range", members=members)


def kinds(world: MemoryGroups, reader: LiveReader | None = None) -> list[ProblemKind]:
    return [problem.kind for problem in verify(world.ensemble, "g", live=reader).problems]


def owners(described: GroupDescription) -> dict[TopicPartition, str | None]:
    return {row.topic_partition: row.owner for row in described.partitions}


@pytest.mark.parametrize("reader", [None, live(stable())], ids=["stored", "asked"])
def test_a_group_is_described_with_its_clients(
    world: MemoryGroups, groups: CoordinatedGroups, reader: LiveReader | None
) -> None:
    """Members and owners by the bytes that they sent each other; offsets, lag and state as of every group."""
    groups.store("g", replace(ADA, group_instance_id="a1"), BOB, generation=7)
    world.commit("g", "orders", 0, 40)
    world.topic("letters", 1)
    world.commit("g", "letters", 0, 1)

    found = describe(world.ensemble, "g", lambda tps: dict.fromkeys(tps, 50))
    ada, bob = found.members

    assert (found.state, found.protocol, found.protocol_state) == (GroupState.STABLE, "coordinator", "Stable")
    assert (found.assignor, found.group_generation, found.problems) == ("range", 7, ())
    assert (ada.kind, ada.client_id, ada.instance_id, ada.host) == ("client", "client", "a1", "127.0.0.1")
    assert (ada.session_id, ada.registered_at_ms, ada.threads) == (None, None, {"orders": 1})
    assert bob.instance_id is None
    letters = TopicPartition("letters", 0)
    assert owners(found) == {letters: None, ORDERS[0]: "ada", ORDERS[1]: "ada", ORDERS[2]: "bob"}
    assert {row.topic_partition: row.lag for row in found.partitions if row.lag is not None} == {
        letters: 49,
        ORDERS[0]: 10,
    }


def test_both_kinds_are_in_one_list(world: MemoryGroups, groups: CoordinatedGroups) -> None:
    """A group of the slots alone is listed too; log ends are asked for once for all groups."""
    groups.store("g", ADA, BOB)
    groups.store("empty")
    world.member("zoo", "a", {"orders": 1})
    world.own_as_planned("zoo")
    world.commit("g", "orders", 0, 40)
    asked: list[list[TopicPartition]] = []

    def ends(tps: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        asked.append(tps)
        return dict.fromkeys(tps, 100)

    _, rows, _ = list_groups(world.ensemble, ends, live(stable()))  # type: ignore[arg-type]
    shown = {row.group: (row.state.value, row.protocol, row.protocol_state, row.members) for row in rows}

    assert shown["g"] == ("stable", "coordinator", "Stable", 2)
    assert shown["zoo"] == ("stable", "zookeeper", None, 1)
    assert shown["empty"][1:] == ("coordinator", "Stable", 2)
    g = next(row for row in rows if row.group == "g")
    assert (g.topics, g.partitions, g.unowned, g.lag) == (("orders",), 3, 0, 60)
    assert len(asked) == 1


def test_an_empty_group_is_empty(world: MemoryGroups, groups: CoordinatedGroups) -> None:
    """It has converged: nothing is wrong, whatever kind of members it gets next."""
    groups.store("g", generation=5)
    world.commit("g", "orders", 0, 40)

    found = describe(world.ensemble, "g", live=live(reported("Empty", generation=5)))

    assert (found.state, found.protocol_state, found.group_generation) == (GroupState.EMPTY, "Empty", 5)
    assert found.problems == ()
    assert kinds(world) == []


def test_a_group_carried_on_by_zookeeper_members_is_one_of_theirs(
    world: MemoryGroups, groups: CoordinatedGroups
) -> None:
    """The header of its former kind stays; the members decide."""
    groups.store("g")
    world.member("g", "a", {"orders": 1})
    world.own_as_planned("g")

    found = describe(world.ensemble, "g")

    assert (found.protocol, found.protocol_state, found.group_generation) == ("zookeeper", None, None)
    assert (found.state, [one.kind for one in found.members]) == (GroupState.STABLE, ["zkgroup"])


@pytest.mark.parametrize(
    ("answer", "state", "kind"),
    [
        (stable(), GroupState.STABLE, None),
        (
            reported("PreparingRebalance", "ada", phase="InitialRebalanceDelay"),
            GroupState.REBALANCING,
            ProblemKind.NOT_STABLE,
        ),
        (reported("CompletingRebalance", "ada", "bob"), GroupState.REBALANCING, ProblemKind.NOT_STABLE),
        (None, GroupState.INCONSISTENT, ProblemKind.COORDINATOR_SILENT),
        (reported("Dead"), GroupState.INCONSISTENT, ProblemKind.STORED_GROUP_DIFFERS),
        (replace(stable(), generation=9), GroupState.INCONSISTENT, ProblemKind.STORED_GROUP_DIFFERS),
    ],
)
def test_what_the_coordinator_reports_decides_the_state(
    world: MemoryGroups,
    groups: CoordinatedGroups,
    answer: LiveGroup | None,
    state: GroupState,
    kind: ProblemKind | None,
) -> None:
    """A phase of a rebalance, silence, and a report that is not what is stored."""
    groups.store("g", ADA, BOB)
    world.pass_time(60)

    found = describe(world.ensemble, "g", live=live(answer))

    assert found.state is state
    assert [problem.kind for problem in found.problems][:1] == ([] if kind is None else [kind])
    assert found.protocol_state == (answer.state if answer else None)


def test_a_wrong_group_that_was_just_written_is_rebalancing(
    world: MemoryGroups, groups: CoordinatedGroups
) -> None:
    """As for ZooKeeper members: within ten seconds of the last change."""
    groups.store("g", ADA)

    young = describe(world.ensemble, "g").state
    world.pass_time(11)

    assert (young, describe(world.ensemble, "g").state) == (GroupState.REBALANCING, GroupState.INCONSISTENT)


def _no_leader(world: MemoryGroups, groups: CoordinatedGroups) -> None:
    groups.lead(-1)


def _lost_leader(world: MemoryGroups, groups: CoordinatedGroups) -> None:
    groups.lead(9)


def _no_state(world: MemoryGroups, groups: CoordinatedGroups) -> None:
    tp = TopicPartition(OFFSETS_TOPIC, groups.slot("g"))
    groups.drop(PartitionState.path(tp))


def _unassigned(world: MemoryGroups, groups: CoordinatedGroups) -> None:
    groups.store("g", ADA)


def _twice(world: MemoryGroups, groups: CoordinatedGroups) -> None:
    groups.store("g", ADA, replace(BOB, assignment=assignment_bytes(ORDERS[1:])))


def _unknown(world: MemoryGroups, groups: CoordinatedGroups) -> None:
    groups.store(
        "g", ADA, replace(BOB, assignment=assignment_bytes([ORDERS[2], TopicPartition("orders", 8)]))
    )


def _unsubscribed(world: MemoryGroups, groups: CoordinatedGroups) -> None:
    world.topic("letters", 1)
    letters = TopicPartition("letters", 0)
    groups.store("g", ADA, replace(BOB, assignment=assignment_bytes([ORDERS[2], letters])))


def _unreadable(world: MemoryGroups, groups: CoordinatedGroups) -> None:
    groups.store("g", ADA, replace(BOB, assignment=b"\x00\x00\x7f"))


def _unmarked(world: MemoryGroups, groups: CoordinatedGroups) -> None:
    groups.store("g", ADA, BOB, marked=False)


def _marked(world: MemoryGroups, groups: CoordinatedGroups) -> None:
    groups.store("g", marked=True)


def _both_kinds(world: MemoryGroups, groups: CoordinatedGroups) -> None:
    world.member("g", "jvm", {"orders": 1}, {})


def _restored_member(world: MemoryGroups, groups: CoordinatedGroups) -> None:
    """No consumer is there to be stopped."""
    world.server.put("/consumers/g/ids/g_jvm", b"{}")


def _other_header(world: MemoryGroups, groups: CoordinatedGroups) -> None:
    world.server.put(GroupHeader.path(groups.slot("g"), "g"), b"garbage{")


def _lost_chunk(world: MemoryGroups, groups: CoordinatedGroups) -> None:
    groups.drop(GroupChunk.path(groups.slot("g"), "g", 1, 0))


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (_no_leader, [ProblemKind.SLOT_NOT_LED]),
        (_lost_leader, [ProblemKind.SLOT_NOT_LED]),
        (_no_state, [ProblemKind.SLOT_NOT_LED]),
        (_unassigned, [ProblemKind.UNOWNED]),
        (_twice, [ProblemKind.ASSIGNED_TWICE]),
        (_unknown, [ProblemKind.OWNER_OF_UNKNOWN_PARTITION]),
        (_unsubscribed, [ProblemKind.OWNER_OF_UNSUBSCRIBED_TOPIC]),
        (_unreadable, [ProblemKind.UNREADABLE_MEMBER]),
        (_unmarked, [ProblemKind.MEMBERS_WITHOUT_MARKER]),
        (_marked, [ProblemKind.MARKER_WITHOUT_MEMBERS]),
        (_both_kinds, [ProblemKind.ZOOKEEPER_MEMBER]),
        (_restored_member, [ProblemKind.PERSISTENT_ZNODE]),
        (_other_header, [ProblemKind.UNREADABLE_GROUP, ProblemKind.MARKER_WITHOUT_MEMBERS]),
        (_lost_chunk, [ProblemKind.UNREADABLE_GROUP, ProblemKind.MARKER_WITHOUT_MEMBERS]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_each_problem_is_found(
    world: MemoryGroups, groups: CoordinatedGroups, spoil: object, expected: list[ProblemKind]
) -> None:
    """A group that has converged, and one thing that is wrong."""
    groups.store("g", ADA, BOB)
    assert kinds(world) == []
    if spoil is _unmarked:
        groups.drop("/consumers/g/protocol")

    spoil(world, groups)  # type: ignore[operator]

    assert kinds(world) == expected


def test_what_other_protocols_send_is_opaque(world: MemoryGroups, groups: CoordinatedGroups) -> None:
    """Members are listed; their topics and partitions are not known, and nothing is said to be wrong."""
    worker = replace(ADA, member_id="w", protocols=(("sessioned", b"\1\2\3"),), assignment=b"\7")
    groups.store("g", worker, protocol_type="connect")

    found = describe(world.ensemble, "g")

    assert [(one.member, one.threads) for one in found.members] == [("w", {})]
    assert (found.state, found.assignor, found.partitions) == (GroupState.STABLE, "sessioned", ())


def test_a_group_that_only_commits_is_an_empty_one_of_its_coordinator(
    world: MemoryGroups, groups: CoordinatedGroups
) -> None:
    """As for Kafka's ListGroups: Empty, without a protocol type. Its header has no data."""
    world.server.put(GroupHeader.path(groups.slot("g"), "g"))
    world.commit("g", "orders", 0, 1)
    coordinator = LiveGroup(
        state="Empty", protocol_type="", protocol="", generation=0, phase="Empty", members=()
    )

    for reader in (None, live(coordinator)):
        found = describe(world.ensemble, "g", live=reader)
        _, rows, _ = list_groups(world.ensemble, live=reader)

        (row,) = rows
        assert (row.protocol, row.state, row.protocol_state) == ("coordinator", GroupState.EMPTY, "Empty")
        assert (found.protocol, found.state, found.protocol_state) == (row.protocol, row.state, "Empty")
        assert (found.problems, [each.topic_partition for each in found.partitions]) == ((), ORDERS[:1])


def test_zookeeper_consumers_of_a_group_that_also_committed_are_members(
    world: MemoryGroups, groups: CoordinatedGroups
) -> None:
    """What clients that are no members have committed before does not make it a group of a coordinator."""
    world.server.put(GroupHeader.path(groups.slot("g"), "g"))
    world.member("g", "ada", {"orders": 1})

    assert describe(world.ensemble, "g").protocol == "zookeeper"


def test_without_a_readable_number_of_slots_groups_are_read_as_before(
    world: MemoryGroups, groups: CoordinatedGroups
) -> None:
    """One unreadable znode ends no list."""
    groups.store("g", ADA, BOB)
    world.server.put(SlotConfig.path(), b"garbage")

    _, rows, denied = list_groups(world.ensemble)

    assert [(row.group, row.protocol) for row in rows] == [("g", "zookeeper")]
    assert not denied


def test_offsets_name_the_client_that_has_the_partition(
    world: MemoryGroups, groups: CoordinatedGroups
) -> None:
    """As of the last stored generation."""
    groups.store("g", ADA, BOB)
    world.commit("g", "orders", 2, 5)

    assert [row.owner for row in describe_offsets(read_snapshot(world.ensemble, "g"))] == ["bob"]


def test_nothing_can_be_previewed_for_clients(world: MemoryGroups, groups: CoordinatedGroups) -> None:
    """Their leader assigns. A group without members may go on with ZooKeeper members, whose plan is known."""
    groups.store("g", ADA, BOB)
    with pytest.raises(RefusedError, match="one of its members assigns"):
        preview(world.ensemble, "g", GroupChange())

    groups.drop("/consumers/g/protocol")
    groups.store("g", generation=2)

    assert preview(world.ensemble, "g", GroupChange(add=(("a", {"orders": 1}),))).moves == 0


def test_brokers_that_do_not_answer_cost_their_own_groups_and_each_reason_is_told(
    world: MemoryGroups, groups: CoordinatedGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past bug: only the first reason was told, so that a refusal behind another one was none; and one broker
    that refused the login made the exporter take every coordinator for silent."""

    async def query(broker: BrokerAddress, timeout_ms: int, question: object) -> object:
        if broker.port == 3:
            raise BrokerAuthenticationError("h:3", "PLAIN", "no such user")
        return {"a": DescribedGroup(group="a", state="Empty"), "b": "x: away", "c": "x: not authorized"}

    monkeypatch.setattr(broker_queries, "query", query)
    groups.broker(3, port=3)
    notes: list[str] = []
    asked = dict.fromkeys("abc", 1) | {"d": 3}

    found = live_reader(world.ensemble, notes.append, takes_refusals=True)(asked)

    assert found.keys() == {"a"}
    assert [note.rpartition(": ")[2] for note in notes] == ["away", "not authorized", "no such user"]
    with pytest.raises(BrokerAuthenticationError):
        live_reader(world.ensemble)(asked)
