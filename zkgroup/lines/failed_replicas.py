"""Which replicas of a broker have failed, and why: as the broker itself tells."""

from __future__ import annotations

from collections.abc import Mapping

from zkgroup.lines.cluster_link import ANSWER_TIMEOUT_MS
from zkgroup.lines.leaders import addresses_of
from zkgroup.lines.links import Links
from zkgroup.model.ports import Clock
from zkgroup.wire.replica_host import FailedReplicaRow, FailedReplicasRequest, FailedReplicasResponse
from zkgroup.znodes.brokers import BrokerRegistration

__all__ = ["FailedReplicaRow", "read_failed_replicas"]


def read_failed_replicas(
    registered: Mapping[int, BrokerRegistration],
    broker: int,
    timeout_ms: int = ANSWER_TIMEOUT_MS,
    clock: Clock | None = None,
) -> tuple[FailedReplicaRow, ...] | None:
    """Asks a broker; None where it does not tell: it is Kafka's, silent, or older than this request.

    `clock`: in the place of the system's.
    """
    address = addresses_of(registered).get(broker)
    if address is None:
        return None
    links = Links("zkgroup-failed-replicas", 1, clock)
    try:
        links.ask(broker, address, FailedReplicasRequest(), timeout_ms)
        replies = links.wait(2 * timeout_ms)
        response = replies[0].response if replies else None
    finally:
        links.close()
    return response.replicas if isinstance(response, FailedReplicasResponse) else None
