"""What a broker's settings say of its process: the controller in it, its client, the limits of its port."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from zkgroup.broker.connection import Limits
from zkgroup.broker.node.listener import BrokerListener
from zkgroup.broker.settings import BrokerSettings
from zkgroup.controller.channel import ChannelSettings
from zkgroup.controller.controller import Controller, Loaded, News
from zkgroup.controller.machine.candidate import Candidate
from zkgroup.controller.machine.core import CandidateConfig, ControllerOnly
from zkgroup.controller.machine.effects import Resigned
from zkgroup.controller.machine.rule_books import ControllerSettings
from zkgroup.model.ports import Clock, MetricsSink, Store
from zkgroup.wire.control import controller_client_id
from zkgroup.zookeeper import ClientSettings


def open_controller(
    broker: int,
    host: str,
    port: int,
    store: Store,
    clock: Clock,
    *,
    settings: BrokerSettings,
    listener: BrokerListener,
    alone: bool = False,
    metrics: MetricsSink | None = None,
    on_failure: Callable[[BaseException], None] = lambda error: None,
) -> Controller:
    """A controller that is not started yet.

    Args:
        broker: its id.
        host: where it listens, as others reach it; with `port`.
        store: tells of a session once the broker may stand for election in it.
        alone: it hosts nothing and is registered only while it rules (`--controller-only`).
        on_failure: see `Controller`.
    """
    config = CandidateConfig(
        broker=broker,
        controller_only=ControllerOnly(host, port) if alone else None,
        takeover_grace_ms=settings.controller_takeover_grace_ms,
        jitter=random.random,
    )
    return Controller(
        Candidate(config, rules(settings)),
        store,
        clock,
        broker=broker,
        client_id=controller_client_id(broker, host, port),
        on_news=lambda news: _tell(listener, news),
        on_failure=on_failure,
        metrics=metrics,
        channels=ChannelSettings(socket_timeout_ms=settings.controller_socket_timeout_ms),
    )


def rules(settings: BrokerSettings) -> ControllerSettings:
    """What a broker's settings say of it as controller."""
    return ControllerSettings(
        unclean_election=settings.unclean_leader_election_enable,
        delete_topics=settings.delete_topic_enable,
        auto_rebalance=settings.auto_leader_rebalance_enable,
        rebalance_interval_ms=settings.leader_imbalance_check_interval_ms,
        rebalance_percentage=settings.leader_imbalance_per_broker_percentage,
    )


def client_settings(settings: BrokerSettings, connection: ClientSettings | None) -> ClientSettings:
    """How the process connects: credentials and TLS of `connection`, all else from the broker's settings."""
    return replace(
        connection or ClientSettings(),
        session_timeout_ms=settings.session_timeout_ms,
        connection_timeout_ms=settings.connection_timeout_ms,
        max_in_flight=settings.max_in_flight_requests,
    )


def limits_of(settings: BrokerSettings) -> Limits:
    """What clients may take of the port."""
    return Limits(
        connections_max=settings.max_connections,
        request_bytes_max=settings.socket_request_max_bytes,
        buffered_bytes_max=4 * settings.socket_request_max_bytes,
        idle_ms=settings.connections_max_idle_ms,
    )


def _tell(listener: BrokerListener, news: News) -> None:
    match news:
        case Loaded(epoch, partitions, load_ms):
            listener.on_controller(epoch, partitions, load_ms)
        case Resigned(_, reason):
            listener.on_resigned(reason)
