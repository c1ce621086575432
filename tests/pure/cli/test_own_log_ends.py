"""Log ends without --source: those that cannot be read stay unknown, with a note, and end no command."""

from __future__ import annotations

import pytest
from zkgroup_cli.sources import own_log_ends

from tests.worlds.acls import UNREADABLE
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, broker_ids_path

TP = TopicPartition("orders", 0)


@pytest.fixture
def world() -> MemoryGroups:
    """A zkgroup broker at an address without a listener leads `TP`."""
    world = MemoryGroups()
    ours = BrokerRegistration("127.0.0.1", 1, timestamp_ms=1, extensions={"zkgroup": {"role": "data"}})
    world.server.put(BrokerRegistration.path(1), ours.encode())
    world.topic("orders", 1)
    state = PartitionState(leader=1, leader_epoch=0, isr=(1,), controller_epoch=1)
    world.server.put(PartitionState.path(TP), state.encode())
    return world


@pytest.mark.parametrize(
    ("hidden", "note"),
    [
        (broker_ids_path(), "note: the ends of logs are not known: "),
        (BrokerRegistration.path(1), "note: the ends of logs are not known: "),
        (PartitionState.path(TP), f"note: the end of {TP} is not known: "),
    ],
)
def test_what_an_access_list_hides_is_a_note(
    world: MemoryGroups, capsys: pytest.CaptureFixture[str], hidden: str, note: str
) -> None:
    """Past bug: it ended `group describe`, which had asked for no log end."""
    world.server.set_acl(hidden, UNREADABLE)

    with own_log_ends(None, world.ensemble) as ends:
        found = ends([TP]) if ends else {}

    message = capsys.readouterr().err
    assert found == {}
    assert message.startswith(note)
    assert hidden in message
