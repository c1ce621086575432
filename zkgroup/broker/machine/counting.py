"""What the thread of the replicas does for a broker's machine, on the host of the replicas."""

from __future__ import annotations

from zkgroup.broker.machine.effects import CountIsrs
from zkgroup.broker.replica_host import ReplicaHost
from zkgroup.model import TopicPartition


def count(host: ReplicaHost, order: CountIsrs) -> frozenset[TopicPartition]:
    """Carries `CountIsrs` out.

    Returns the partitions of which somebody who is to join lacks lines below the high watermark, as it stands
    now that it waits for him: it may have risen since his fetch (Kafka decides and counts under one lock).
    """
    behind = set()
    for one in order.isrs:
        host.set_isr(one.topic_partition, one.leader_epoch, one.isr)
        view = host.view(one.topic_partition) if one.joining else None
        if view is None:
            continue
        for broker in one.joining:
            follower = view.followers.get(broker)
            end = None if follower is None else follower.log_end_offset
            if end is None or end < view.high_watermark:
                behind.add(one.topic_partition)
    return frozenset(behind)
