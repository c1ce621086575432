"""What coordinators are asked, and what commands make of their answers and of silence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.coordinated_groups import (
    Answers,
    CoordinatedGroups,
    coordinating_broker,
    stored_member,
)
from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.shell import Shell
from zkgroup.admin import coordinator as coordinator_admin
from zkgroup.admin.coordinated_groups import delete_stored_group
from zkgroup.admin.coordinator import describe_coordinator
from zkgroup.errors import ConflictError, NotFoundError, OutcomeUnknownError, RefusedError
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.wire.groups import (
    DeletedGroup,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from zkgroup.wire.messages import Request, Response

ORDERS_0 = TopicPartition("orders", 0)
SHORT_MS = 300
"""Until a coordinator that never answers is given up."""
PATIENT_MS = 60_000
"""Until one that answers is."""
MEMBER = DescribedMember(
    member_id="ada",
    client_id="client",
    client_host="/127.0.0.1",
    metadata=b"",
    assignment=b"",
    session_expires_in_ms=9_000,
    has_joined=True,
)
JOINING = DescribedGroup(
    error=0,
    group="g",
    state="PreparingRebalance",
    protocol_type="consumer",
    protocol="",
    members=(MEMBER,),
    phase="InitialRebalanceDelay",
    generation=6,
    leader="ada",
    pending_members=2,
    phase_ends_in_ms=2_900,
)


@pytest.fixture
def groups() -> Iterator[CoordinatedGroups]:
    """A topic, and group `g` with one stored member; broker 1 leads every slot and is not registered yet."""
    world = MemoryGroups()
    world.topic("orders", 1)
    made = CoordinatedGroups(world)
    made.lead(1)
    made.store("g", stored_member("ada", ORDERS_0), generation=5)
    yield made
    for client in list(world.server.clients.values()):
        client.close()


def described(*known: DescribedGroup) -> Callable[[Request], Response]:
    """Describes the groups that it is given; others are Dead, as in Kafka."""

    def answer(request: Request) -> Response:
        assert isinstance(request, DescribeGroupsRequest)
        assert request.include_timers
        by_name = {one.group: one for one in known}
        dead = [
            DescribedGroup(error=0, group=name, state="Dead", protocol_type="", protocol="", phase="Dead")
            for name in request.groups
            if name not in by_name
        ]
        return DescribeGroupsResponse(
            groups=(*(by_name[name] for name in request.groups if name in by_name), *dead)
        )

    return answer


def listed(*names: str) -> Callable[[Request], Response]:
    def answer(_: Request) -> Response:
        return ListGroupsResponse(
            error=0, groups=tuple(ListedGroup(group=n, protocol_type="") for n in names)
        )

    return answer


def silent(_: Request) -> None:
    """No answer ever comes."""


def answers(*known: DescribedGroup) -> Answers:
    return {
        DescribeGroupsRequest: described(*known),
        ListGroupsRequest: listed(*(one.group for one in known)),
    }


SILENT: Answers = {DescribeGroupsRequest: silent, ListGroupsRequest: silent, DeleteGroupsRequest: silent}


@pytest.fixture
def shell(groups: CoordinatedGroups, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    """A shell whose commands run on the groups, and wait briefly for coordinators."""

    @contextmanager
    def connected(**_: object) -> Iterator[Any]:
        yield groups.world.ensemble

    for command in ("group", "offsets", "coordinator"):
        monkeypatch.setattr(f"zkgroup_cli.commands.{command}.connected", connected)
    wait(monkeypatch, PATIENT_MS)
    return Shell(tmp_path, "zk:2181")


def wait(monkeypatch: pytest.MonkeyPatch, timeout_ms: int) -> None:
    """How long commands wait for a coordinator."""
    monkeypatch.setattr(coordinator_admin.describe_coordinator, "__kwdefaults__", {"timeout_ms": timeout_ms})
    monkeypatch.setattr(coordinator_admin.live_reader, "__defaults__", (lambda _: None, timeout_ms))
    monkeypatch.setattr("zkgroup.admin.coordinated_groups.ASK_MS", timeout_ms)


def test_timers_and_phase_come_from_the_leader_of_the_slot(groups: CoordinatedGroups) -> None:
    """The stored generation stays visible; the members are those that the coordinator reports."""
    with coordinating_broker(answers(JOINING)) as (port, received):
        groups.broker(1, port)
        found = describe_coordinator(groups.world.ensemble, "g", timeout_ms=PATIENT_MS)

    (group,), (slot,) = found.groups, found.slots
    (member,) = group.members
    assert (group.phase, group.phase_ends_in_ms, group.pending_members) == ("InitialRebalanceDelay", 2_900, 2)
    assert (group.generation, group.stored_generation, group.reserved_generation) == (6, 5, 100)
    assert (group.group_leader, group.marked, group.detail) == ("ada", True, None)
    assert (member.session_expires_in_ms, member.has_joined, member.is_awaiting_sync) == (9_000, True, False)
    assert (member.topics, member.session_timeout_ms) == (("orders",), 10_000)
    assert (slot.leader, slot.leader_epoch, slot.owner, slot.owner_epoch, slot.led) == (1, 1, 1, 1, True)
    assert found.unanswered == ()
    assert [type(request) for request in received][1:] == [DescribeGroupsRequest]


def test_groups_that_are_not_stored_yet_are_listed(groups: CoordinatedGroups) -> None:
    """Their first members join at this moment, with timeouts that only the coordinator knows; a group that
    neither knows is an error."""
    eve = replace(MEMBER, member_id="eve", session_timeout_ms=10_000, rebalance_timeout_ms=60_000)
    new = replace(JOINING, group="new", members=(eve,))
    with coordinating_broker(answers(JOINING, new)) as (port, _):
        groups.broker(1, port)
        found = describe_coordinator(groups.world.ensemble, timeout_ms=PATIENT_MS)
        with pytest.raises(NotFoundError, match="no coordinator has a group 'nothing'"):
            describe_coordinator(groups.world.ensemble, "nothing", timeout_ms=PATIENT_MS)

    assert [(one.group, one.state, one.stored_generation) for one in found.groups] == [
        ("g", "PreparingRebalance", 5),
        ("new", "PreparingRebalance", None),
    ]
    (member,) = found.groups[1].members
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10_000, 60_000)
    assert len(found.slots) == groups.slots


def test_a_coordinator_that_does_not_report_timers_is_a_kafka_broker(groups: CoordinatedGroups) -> None:
    """Without the tagged fields, phase and timers are unknown; the stored generation is shown."""
    plain = DescribedGroup(
        error=0, group="g", state="Stable", protocol_type="consumer", protocol="range", members=()
    )
    with coordinating_broker(answers(plain)) as (port, _):
        groups.broker(1, port)
        (group,) = describe_coordinator(groups.world.ensemble, "g", timeout_ms=PATIENT_MS).groups

    assert (group.state, group.phase, group.generation, group.pending_members) == ("Stable", None, 5, None)


def test_describe_prints_what_is_known_if_a_broker_is_silent(
    groups: CoordinatedGroups, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The static part is printed, the live part is null; exit code 4, with the reason."""
    wait(monkeypatch, SHORT_MS)
    with coordinating_broker(SILENT) as (port, _):
        groups.broker(1, port)
        whole = shell.run("coordinator", "describe", "--format", "json")
        one = shell.run("coordinator", "describe", "g")

    document = whole.document
    assert (whole.code, one.code) == (4, 4)
    assert f"no answer within {SHORT_MS} ms" in whole.err
    assert (document["slot_count"], len(document["slots"])) == (4, 4)
    assert [(g["state"], g["phase"], g["stored_generation"]) for g in document["groups"]] == [(None, None, 5)]
    assert document["groups"][0]["members"][0]["session_expires_in_ms"] is None
    assert "no answer" in one.lines[0]
    assert "ada" in one.out


def test_the_table_of_a_group_shows_phase_and_timers(groups: CoordinatedGroups, shell: Shell) -> None:
    """One line of the group, one of each member; csv has a row for each member, or for each slot."""
    with coordinating_broker(answers(JOINING)) as (port, _):
        groups.broker(1, port)
        table = shell.run("coordinator", "describe", "g")
        rows = shell.run("coordinator", "describe", "g", "--format", "csv")
        slots = shell.run("coordinator", "describe", "--format", "csv")
        everything = shell.run("coordinator", "describe")

    assert table.code == 0
    slot = groups.slot("g")
    assert table.lines[0] == (
        f"g  slot {slot}  broker 1, leader epoch 1  InitialRebalanceDelay  ends in 2.9 s  generation 6  "
        "1 member  2 pending  marked"
    )
    assert table.lines[3].split() == [
        *("ada", "client", "127.0.0.1", "-", "yes", "the", "others", "0", "10.0", "s", "9.0", "s")
    ]
    assert rows.lines[0].startswith("member,client_id,host")
    assert len(rows.lines) == 2
    assert len(slots.lines) == 1 + groups.slots
    assert everything.lines[0].startswith("4 slots  1 group  zxid")
    assert everything.lines[2:4] == ["BROKER  SLOTS  GROUPS  MEMBERS", "     1      4       1        1"]


def test_groups_of_both_kinds_are_listed_with_notes(
    groups: CoordinatedGroups, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent coordinator is a note; its group is listed from what is stored."""
    groups.world.member("zoo", "a", {"orders": 1})
    with coordinating_broker(answers(JOINING)) as (port, _):
        groups.broker(1, port)
        heard = shell.json("group", "list", "--source", "none")
    wait(monkeypatch, SHORT_MS)
    with coordinating_broker(SILENT) as (port, _):
        groups.broker(1, port)
        unheard = shell.run("group", "describe", "g", "--source", "none", "--format", "json")
        table = shell.run("group", "list", "--source", "none")

    assert [(g["group"], g["state"], g["protocol"], g["protocol_state"]) for g in heard["groups"]] == [
        ("g", "rebalancing", "coordinator", "PreparingRebalance"),
        ("zoo", "rebalancing", "zookeeper", None),
    ]
    assert unheard.code == 0
    assert "note: what the coordinator of g reports is not known: 127.0.0.1:" in unheard.err
    assert (unheard.document["protocol_state"], unheard.document["group_generation"]) == (None, 5)
    assert [m["kind"] for m in unheard.document["members"]] == ["client"]
    assert unheard.document["members"][0]["session"] is None
    assert table.lines[0].split()[:3] == ["GROUP", "STATE", "PROTOCOL"]


def test_a_release_is_previewed_and_made(groups: CoordinatedGroups, shell: Shell) -> None:
    """Only with --execute; it cannot be undone."""
    preview = shell.run("coordinator", "release", "g")
    marked = groups.is_marked("g")
    done = shell.json("coordinator", "release", "g", "--execute")

    slot = groups.slot("g")
    assert (preview.code, preview.out) == (0, f"would release group g of slot {slot}: 1 stored member\n")
    assert "this cannot be undone" in preview.err
    assert marked
    assert (done["executed"], done["members"], done["leader"]) == (True, ["ada"], 1)
    assert not groups.is_marked("g")


def deletion(error: ErrorCode) -> Answers:
    return {
        DeleteGroupsRequest: lambda _: DeleteGroupsResponse(groups=(DeletedGroup(group="g", error=error),))
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (deletion(ErrorCode.NONE), None),
        (deletion(ErrorCode.GROUP_ID_NOT_FOUND), None),
        (deletion(ErrorCode.NON_EMPTY_GROUP), RefusedError),
        (deletion(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), ConflictError),
        ({DeleteGroupsRequest: silent}, OutcomeUnknownError),
    ],
    ids=["deleted", "unknown", "with members", "loading", "silent"],
)
def test_the_leader_of_the_slot_deletes_a_group(
    groups: CoordinatedGroups,
    monkeypatch: pytest.MonkeyPatch,
    given: Answers,
    expected: type[Exception] | None,
) -> None:
    """Its answers, and silence: then the group may be deleted, or not."""
    wait(monkeypatch, SHORT_MS if expected is OutcomeUnknownError else PATIENT_MS)
    groups.store("g", generation=6, marked=False)
    groups.drop("/consumers/g/protocol")
    with coordinating_broker(given) as (port, received):
        groups.broker(1, port)
        if expected is None:
            assert delete_stored_group(groups.world.ensemble, "g") > 0
        else:
            with pytest.raises(expected):
                delete_stored_group(groups.world.ensemble, "g")

    assert [type(request) for request in received][1:] == [DeleteGroupsRequest]
