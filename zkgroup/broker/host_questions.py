"""What a broker asks its host about all of its replicas. To be called on the host's thread."""

from __future__ import annotations

from typing import Final

from zkgroup.broker.replica_host import ReplicaHost, Role
from zkgroup.model import TopicPartition
from zkgroup.wire.replica_host import FailedReplica, FailedReplicasResponse

REASON_MAX: Final = 1_000
"""Characters of why a replica has failed: a path, and what is wrong with it."""


def without_role(host: ReplicaHost) -> list[TopicPartition]:
    """Partitions that only have lines here. One that has failed may have its place, and has said why."""
    views = {tp: host.view(tp) for tp in host.partitions()}
    return [
        tp
        for tp, view in views.items()
        if view is not None and view.role is Role.NONE and view.failure is None
    ]


def failed(host: ReplicaHost) -> FailedReplicasResponse:
    """Which cannot go on, since when and why."""
    return FailedReplicasResponse(
        tuple(
            FailedReplica(*tp, each.since_ms, each.reason[:REASON_MAX])
            for tp, each in host.failures().items()
        )
    )
