"""What the coordinator of a broker logs and counts."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.worlds.group_services import GROUP, GroupServer, group_server
from tests.worlds.serving import on_a_loop, until
from zkgroup.broker.groups.store_events import ZooKeeperMembersNoticed
from zkgroup.broker.server.connection_choice import Peer
from zkgroup.broker.server.handlers import Answer, Later, RequestContext
from zkgroup.broker.settings import BrokerSettings
from zkgroup.broker.telemetry import BrokerTelemetry, GroupTelemetry
from zkgroup.coordinator.events import WriteOutcome
from zkgroup.runtime.events import LogEvent
from zkgroup.wire import groups as wire
from zkgroup.wire.groups import SlotUse
from zkgroup.wire.messages import RequestHeader

SETTINGS = BrokerSettings(
    group_initial_rebalance_delay_ms=100, group_min_session_timeout_ms=10, offsets_retention_minutes=1
)


class Metered:
    """The metrics of the events of a broker."""

    def __init__(self, broker: GroupServer) -> None:
        self.values: dict[tuple[str, str], float] = {}
        """By name and label."""
        self.observed: dict[str, list[float]] = {}
        telemetry = GroupTelemetry(self)
        for event in broker.logged:
            telemetry.note(event)
        telemetry.report(broker.service.coordinator.groups())

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        key = (name, "".join(labels.values()))
        self.values[key] = self.values.get(key, 0) + amount

    def observe(self, name: str, value: float) -> None:
        self.observed.setdefault(name, []).append(value)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        self.values[name, "".join(labels.values())] = value

    def of(self, name: str) -> dict[str, float]:
        """The values of a metric by label, without zeros."""
        return {label: value for (each, label), value in self.values.items() if each == name and value}


async def joined(client: Any, broker: GroupServer, ms: int, **fields: Any) -> str:
    """The id of a member that joins, when the join phase has ended after so many milliseconds."""
    client.send_join(**fields)
    await until(lambda: broker.service.coordinator.next_deadline_ms)
    broker.advance(ms)
    response = await client.receive(wire.JoinGroupResponse, version=3)
    assert isinstance(response, wire.JoinGroupResponse)
    return response.member_id


@on_a_loop
async def test_rebalances_are_counted_by_reason_and_members_by_what_they_did_not_do() -> None:
    """The reasons name members; the labels do not."""
    async with group_server(SETTINGS) as broker:
        client = await broker.client()
        member = await joined(client, broker, 100)
        await client.sync(member, 1, {member: b""})
        assert (await client.join(member)).generation == 2
        broker.advance(10_000)
        assert (await client.describe()).state == "Empty"
        member = await joined(client, broker, 100, session_ms=600_000, rebalance_ms=50)
        broker.advance(50)
        assert (await client.describe()).state == "Empty"

        metered = Metered(broker)

        assert metered.of("group_rebalances_total") == {"join": 2, "rejoin": 1, "session": 1, "sync": 1}
        assert metered.of("group_members_removed_total") == {"session": 1, "sync": 1}
        assert metered.of("group_count") == {"Empty": 1}
        assert metered.observed["group_join_seconds"] == [0.1, 0, 0, 0.1, 0]  # with those that end empty
        await client.close()


@on_a_loop
async def test_the_sync_phase_is_measured_to_the_stored_assignment() -> None:
    """From the generation; a phase that ends without an assignment is not counted."""
    async with group_server(SETTINGS) as broker:
        client = await broker.client()
        member = await joined(client, broker, 100)
        broker.advance(70)
        await client.sync(member, 1, {member: b""})
        await client.join(member)

        assert Metered(broker).observed["group_sync_seconds"] == [0.07]
        await client.close()


@on_a_loop
async def test_commits_are_counted_by_outcome() -> None:
    """Partitions, not requests."""
    async with group_server(SETTINGS) as broker:
        client = await broker.client()
        await client.commit()
        broker.store.outcome = WriteOutcome.NOT_OWNER
        await client.commit()
        await client.commit()

        assert Metered(broker).of("group_commits_total") == {"stored": 1, "not owner": 2}
        await client.close()


@on_a_loop
async def test_loads_and_expired_offsets_are_counted() -> None:
    """Of the store's log events."""
    async with group_server(SETTINGS) as broker:
        broker.logged += [
            LogEvent("slot.loaded", {"slot": 1, "leader_epoch": 0, "groups": 3, "ms": 250}),
            LogEvent("offsets_expired", {"group": "g", "count": 7}),
        ]

        metered = Metered(broker)

    assert metered.observed["group_load_seconds"] == [0.25]
    assert metered.of("group_offsets_expired_total") == {"": 7}


def test_an_instance_id_that_is_taken_again_and_again_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Two living processes have it; a restart is a change of the group's state."""
    caplog.set_level(logging.DEBUG, "zkgroup")
    telemetry = GroupTelemetry(None)
    for is_repeated in (False, True):
        fields = {"group": GROUP, "instance": "i", "is_repeated": is_repeated}
        telemetry.note(LogEvent("static_member_replaced", fields))

    assert [(one.name, one.levelname) for one in caplog.records] == [
        ("zkgroup.state_change", "INFO"),
        ("zkgroup.broker", "WARNING"),
    ]


@on_a_loop
async def test_the_log_says_who_keeps_a_group_from_its_clients(caplog: pytest.LogCaptureFixture) -> None:
    """A warning names the ZooKeeper consumers; states go to the state-change log."""
    caplog.set_level(logging.DEBUG, "zkgroup")
    async with group_server(SETTINGS) as broker:
        client = await broker.client()
        await client.commit()
        broker.store.effects_before.append(ZooKeeperMembersNoticed(GROUP, ("g_a", "g_b")))
        broker.release()
        broker.store.effects_before.append(ZooKeeperMembersNoticed(GROUP, ()))
        broker.release()
        member = await joined(client, broker, 100)
        broker.store.effects_before.append(ZooKeeperMembersNoticed(GROUP, ("g_a", "g_b")))
        broker.release()
        telemetry = GroupTelemetry(None)
        for event in broker.logged:
            telemetry.note(event)

    found = [(one.name, one.levelname, one.getMessage()) for one in caplog.records if GROUP in one.message]
    said = "zookeeper_members group=g members=g_a,g_b detail=clients get error 23: stop one kind"
    assert ("zkgroup.broker", "WARNING", said) in found
    both = said.replace("clients get error 23: stop one kind", "both kinds of members consume: stop one")
    assert ("zkgroup.broker", "WARNING", both) in found
    assert ("zkgroup.broker", "DEBUG", "zookeeper_members_left group=g members=") in found
    changes = [text for name, level, text in found if name == "zkgroup.state_change"]
    assert changes[0].startswith("group_state group=g before=Empty after=PreparingRebalance")
    assert changes[0].endswith(f"reason=member {member} joins")
    await client.close()


@on_a_loop
async def test_an_answer_that_is_given_later_is_counted_as_it_is_given() -> None:
    """The connection gets it as the handler returned it: metrics add no coroutine."""
    counted: list[str] = []

    class Sink:
        def count(self, name: str, labels: Mapping[str, str], amount: float = 1.0) -> None:
            counted.append(labels["request"])

        def observe(self, name: str, labels: Mapping[str, str], value: float) -> None: ...

        def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None: ...

    answer = Later[Answer]()
    respond = BrokerTelemetry(Sink()).metered(lambda context, request: answer)
    beat = wire.HeartbeatRequest(group=GROUP, generation=1, member_id="m")

    assert respond(RequestContext(RequestHeader(12, 3, 1, ""), Peer("", 0)), beat) is answer
    assert counted == []
    answer.give(wire.HeartbeatResponse(error=0))
    assert counted == ["Heartbeat"]


def test_the_use_of_slots_is_measured() -> None:
    """The ratio is that of the fullest slot, by the bound that it is nearest to."""
    empty = SlotUse(
        slot=0,
        groups=0,
        groups_max=10,
        offsets=0,
        offsets_max=10,
        metadata_bytes=0,
        metadata_bytes_max=0,
    )
    values: dict[str, float] = {}

    class Gauges:
        def count(self, name: str, amount: float = 1.0, **labels: str) -> None: ...

        def observe(self, name: str, value: float) -> None: ...

        def gauge(self, name: str, value: float, **labels: str) -> None:
            values[name] = value

    used = replace(empty, slot=1, groups=2, offsets=5, metadata_bytes=40, metadata_bytes_max=100)
    GroupTelemetry(Gauges()).report((), (empty, used))
    assert values["group_offset_count"] == 5
    assert values["group_offset_metadata_bytes"] == 40
    assert values["group_slot_used_ratio_max"] == 0.5
