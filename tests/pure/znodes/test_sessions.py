"""Znodes of sessions are told from others by their paths."""

from __future__ import annotations

from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import BrokerRegistration, Topic, broker_ids_path
from zkgroup.znodes.consumers import Offset, Owner, Registration, ids_path, owners_topic_path
from zkgroup.znodes.controller import (
    ControllerEpoch,
    ControllerRecord,
    ControllerRegistration,
    ControllerStatus,
    ResignRequest,
    StandbyController,
)
from zkgroup.znodes.coordinated_groups import ProtocolMarker
from zkgroup.znodes.group_records import Reset, StoredAssignment, View
from zkgroup.znodes.sessions import lacks_session

TP = TopicPartition("orders", 3)
OF_SESSIONS = [
    ControllerRegistration.path(),
    ControllerStatus.path(),
    StandbyController.path(7),
    BrokerRegistration.path(1),
    Registration.path("g", "g_a"),
    Owner.path("g", TP),
    View.path("g", "g_a"),
]
"""All that zkgroup and Kafka create as ephemeral znodes."""
OTHERS = [
    ControllerEpoch.path(),
    ControllerRecord.path(4),
    ResignRequest.path(),
    Topic.path("orders"),
    broker_ids_path(),
    f"{BrokerRegistration.path(1)}/below",
    f"{broker_ids_path()}/none",
    ids_path("g"),
    owners_topic_path("g", "orders"),
    f"{owners_topic_path('g', 'orders')}/none",
    Offset.path("g", TP),
    ProtocolMarker.path("g"),
    Reset.path("g", TP),
    StoredAssignment.path("g"),
]


def test_a_persistent_znode_where_a_session_belongs_is_recognised() -> None:
    """By path and `ephemeralOwner`; other znodes are persistent, and those of a session are not."""
    assert [path for path in [*OF_SESSIONS, *OTHERS] if lacks_session(path, 0, b"")] == OF_SESSIONS
    assert not [path for path in [*OF_SESSIONS, *OTHERS] if lacks_session(path, 0x10007, b"")]


def test_the_controller_of_a_migration_to_kraft_is_persistent_by_right() -> None:
    """Brokers that may migrate write its epoch too, as -1, while one of them is the controller."""
    data = b'{"version":2,"brokerid":1,"timestamp":"1","kraftControllerEpoch":%d}'

    assert not lacks_session(ControllerRegistration.path(), 0, data % 3)
    assert lacks_session(ControllerRegistration.path(), 0, data % -1)
