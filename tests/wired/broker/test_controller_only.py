"""The port of a controller without partitions, on a ZooKeeper in memory."""

from __future__ import annotations

import pytest

from tests.waiting import eventually
from tests.worlds.acls import NO_CREATES
from tests.worlds.led_brokers import ask
from zkgroup.broker.controller_only import ControllerOnly
from zkgroup.broker.security_settings import SecuritySettings
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import AccessDeniedError, ConfigError
from zkgroup.testing import MemoryZooKeeper
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse
from zkgroup.znodes.cluster import ClusterId
from zkgroup.znodes.controller import standby_controllers_path
from zkgroup.znodes.paths import zkgroup_path
from zkgroup.zookeeper.client import SystemClock


def test_clients_get_a_cluster_id_that_is_created_later() -> None:
    """The first broker of a cluster creates it, after a controller has connected; and it may be replaced."""
    server = MemoryZooKeeper(SystemClock())
    settings = BrokerSettings(controller_takeover_grace_ms=1)
    with ControllerOnly(client=server.client(), broker=100, settings=settings) as controller:
        first = eventually(lambda: _metadata(controller), what="it is active")
        assert first is not None
        assert first.cluster_id is None
        for one in ("LAKGEDWOQC6vMVe8_FqstQ", "Another-QC6vMVe8_FqstQ"):
            server.put(ClusterId.path(), ClusterId(one).encode())
            eventually(lambda: _cluster_id(controller), one.__eq__, what="the port has the new cluster id")


def _cluster_id(controller: ControllerOnly) -> str | None:
    answer = _metadata(controller)
    return answer and answer.cluster_id


def _metadata(controller: ControllerOnly) -> MetadataResponse | None:
    assert controller.serving is not None
    return ask(controller.serving, MetadataRequest(()), MetadataResponse, 11)


def test_a_controller_alone_has_no_logins_and_no_authorizer() -> None:
    """It follows neither users nor ACLs, so it would let in nobody, or anybody."""
    properties = {
        "listeners": "IN://127.0.0.1:0,OUT://127.0.0.1:0",
        "listener.security.protocol.map": "IN:PLAINTEXT,OUT:SASL_PLAINTEXT",
        "inter.broker.listener.name": "IN",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }

    with pytest.raises(ConfigError, match="listener OUT: a controller alone has no logins"):
        ControllerOnly("127.0.0.1:1", broker=9, security=SecuritySettings.of(properties))
    plain = {"listeners": "PLAINTEXT://127.0.0.1:0", "authorizer.class.name": "zkgroup"}
    with pytest.raises(ConfigError, match=r"authorizer\.class\.name: a controller alone has no authorizer"):
        ControllerOnly("127.0.0.1:1", broker=9, security=SecuritySettings.of(plain))


@pytest.mark.parametrize("closed", [zkgroup_path(), standby_controllers_path()])
def test_a_controller_that_an_acl_refuses_ends(closed: str) -> None:
    """Past bug: without the credentials of the cluster's user it repeated its refusal for ever."""
    server = MemoryZooKeeper(SystemClock())
    server.put(closed)
    server.set_acl(closed, NO_CREATES)
    with ControllerOnly(client=server.client(), broker=100) as controller:
        eventually(lambda: controller._failure)
        with pytest.raises(
            AccessDeniedError,
            match=f"{closed}.*: expected the permission for what a controller does at its start",
        ):
            controller.check()
