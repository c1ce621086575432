"""The coordinator's lease while many requests are handled in one turn of the broker's loop."""

from __future__ import annotations

from tests.worlds.group_services import FAST, GROUP
from tests.worlds.serving import on_a_loop, until
from zkgroup.broker.groups.service import GroupCoordinatorService
from zkgroup.broker.replica_view import Role
from zkgroup.coordinator.events import Heartbeat
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.memory_zookeeper import MemoryZooKeeper
from zkgroup.wire.groups import HeartbeatResponse
from zkgroup.znodes.brokers import PartitionState
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC, SlotConfig

SESSION_MS = 6_000
LEASE_MS = 3_000


def answer(service: GroupCoordinatorService) -> ErrorCode:
    """The error of a heartbeat, which needs no turn of the loop."""
    beat = Heartbeat(request_id=service.new_id(), group_id=GROUP, generation=1, member_id="stranger")
    later = service.ask(beat)
    assert later.is_given
    assert isinstance(later.value, HeartbeatResponse)
    return later.value.error


@on_a_loop
async def test_the_lease_is_extended_within_a_long_turn_of_the_loop() -> None:
    """Thousands of connections that are ready at once, on a busy core: the turn is longer than the lease.

    Without a connection to ZooKeeper the lease ends within the turn.
    """
    clock = FakeClock()
    zookeeper = MemoryZooKeeper(clock)
    zookeeper.put(SlotConfig.path(), SlotConfig(1).encode())
    state = PartitionState.path(TopicPartition(OFFSETS_TOPIC, 0))
    zookeeper.put(state, PartitionState(1, 0, (1,), 1).encode())
    crashes: list[Exception] = []
    client = zookeeper.client("broker", SESSION_MS)
    service = GroupCoordinatorService(1, client, clock, FAST, on_crash=crashes.append)
    service.start()
    service.on_role(TopicPartition(OFFSETS_TOPIC, 0), Role.LEADER, 0)
    await until(lambda: answer(service) is ErrorCode.UNKNOWN_MEMBER_ID)

    for _ in range(3 * SESSION_MS // 500):
        clock.jump(500)
        assert answer(service) is ErrorCode.UNKNOWN_MEMBER_ID
    zookeeper.suspend("broker")
    clock.jump(LEASE_MS)
    assert answer(service) is ErrorCode.NOT_COORDINATOR

    service.close()
    client.close()
    zookeeper.close()
    assert crashes == []
