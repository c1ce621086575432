"""The settings of a broker that apply to its process."""

from __future__ import annotations

import pytest

from zkgroup.broker.broker import Broker
from zkgroup.broker.hosted_controller import client_settings, controller_settings
from zkgroup.broker.settings import BrokerSettings
from zkgroup.controller.machine.settings import ControllerSettings
from zkgroup.errors import ConfigError
from zkgroup.zookeeper import CREATOR_ACL, ClientSettings, Digest, Secret


def test_a_client_has_the_brokers_times_and_the_callers_credentials() -> None:
    """Of a broker and of a controller that hosts nothing alike."""
    digest = Digest("ada", Secret("lovelace"))
    settings = BrokerSettings(session_timeout_ms=7000, connection_timeout_ms=900, max_in_flight_requests=10)

    made = client_settings(settings, ClientSettings(auth=digest, session_timeout_ms=1))

    expected = ClientSettings(
        auth=digest, session_timeout_ms=7000, connection_timeout_ms=900, max_in_flight=10
    )
    assert made == expected
    assert client_settings(BrokerSettings(), None) == ClientSettings()
    closed = client_settings(BrokerSettings(set_acl=True), ClientSettings(auth=digest))
    assert closed.acl == CREATOR_ACL
    with pytest.raises(ConfigError, match="found no credentials"):
        client_settings(BrokerSettings(set_acl=True), None)


def test_creator_acls_are_set_acl() -> None:
    """DescribeConfigs tells the settings: `--zk-acl creator` and `zookeeper.set.acl` are one."""
    connection = ClientSettings(auth=Digest("ada", Secret("lovelace")), acl=CREATOR_ACL)
    assert Broker("h:1", connection=connection).settings.set_acl
    assert not Broker("h:1").settings.set_acl


def test_a_rule_has_the_brokers_settings() -> None:
    """The same defaults on both sides, and each setting where it belongs."""
    assert controller_settings(BrokerSettings()) == ControllerSettings()
    settings = BrokerSettings(
        unclean_leader_election_enable=True,
        delete_topic_enable=False,
        auto_leader_rebalance_enable=False,
        leader_imbalance_check_interval_ms=1000,
        leader_imbalance_per_broker_percentage=3,
    )
    made = controller_settings(settings)
    assert (made.unclean_election, made.delete_topics, made.auto_rebalance) == (True, False, False)
    assert (made.rebalance_interval_ms, made.rebalance_percentage) == (1000, 3)
