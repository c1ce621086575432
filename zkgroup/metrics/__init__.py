"""Metrics: the names, and adapters for monitoring systems (`zkgroup.metrics.prometheus`).

The port is `zkgroup.model.ports.MetricsSink`. The names:

| name | kind | labels |
|---|---|---|
| `zkgroup_rebalance_total` | counter | `group`, `reason` |
| `zkgroup_rebalance_seconds` | histogram | `group` |
| `zkgroup_partitions_owned` | gauge | `group`, `member` |
| `zkgroup_commit_total` | counter | `outcome` (`ok`, `refused`, `unknown`) |
| `zkgroup_lease_remaining_seconds` | gauge | `group`, `member` |
| `zkgroup_watch_gap_total` | counter | `group`, `member` |
| `zkgroup_session_state` | gauge, 1 for the present state | `group`, `member`, `state` |
| `zkgroup_callback_overdue_total` | counter | `group`, `member`, `callback` |
| `zkgroup_ack_ignored_total` | counter | `group`, `member` |
| `zkgroup_history_lost_total` | counter | `group`, `member` |
| `zkgroup_controller_active_controller_count` | gauge, 1 while it is the controller | `broker` |
| `zkgroup_controller_global_topic_count` | gauge | `broker` |
| `zkgroup_controller_global_partition_count` | gauge | `broker` |
| `zkgroup_controller_offline_partitions_count` | gauge | `broker` |
| `zkgroup_controller_preferred_replica_imbalance_count` | gauge | `broker` |
| `zkgroup_controller_event_queue_size` | gauge | `broker` |
| `zkgroup_controller_event_queue_oldest_seconds` | gauge | `broker` |
| `zkgroup_controller_leader_election_seconds` | histogram | `broker` |
| `zkgroup_controller_unclean_leader_elections_total` | counter | `broker` |
| `zkgroup_broker_partition_count` | gauge | `broker` |
| `zkgroup_broker_leader_count` | gauge | `broker` |
| `zkgroup_broker_under_replicated_partitions` | gauge | `broker` |
| `zkgroup_broker_isr_shrinks_total` | counter | `broker` |
| `zkgroup_broker_isr_expands_total` | counter | `broker` |
| `zkgroup_broker_connection_count` | gauge | `broker` |
| `zkgroup_broker_requests_total` | counter | `broker`, `request` |
| `zkgroup_broker_request_seconds` | histogram | `broker`, `request` |
| `zkgroup_broker_bytes_in_total` | counter | `broker` |
| `zkgroup_broker_bytes_out_total` | counter | `broker` |
| `zkgroup_broker_connections_refused_total` | counter | `broker`, `setting` |
| `zkgroup_broker_quota_usage` | gauge; NaN once nothing is used | `broker`, `quota`, `user`, `client_id` |
| `zkgroup_broker_throttle_seconds_total` | counter | `broker`, `quota` |
| `zkgroup_broker_log_end_offset` | gauge; NaN once the replica is gone | `broker`, `topic`, `partition` |
| `zkgroup_broker_group_count` | gauge | `broker`, `state` |
| `zkgroup_broker_group_member_count` | gauge | `broker` |
| `zkgroup_broker_group_rebalances_total` | counter | `broker`, `reason` |
| `zkgroup_broker_group_join_seconds` | histogram | `broker` |
| `zkgroup_broker_group_sync_seconds` | histogram | `broker` |
| `zkgroup_broker_group_members_removed_total` | counter | `broker`, `reason` |
| `zkgroup_broker_group_commits_total` | counter: partitions of commits | `broker`, `outcome` |
| `zkgroup_broker_group_offset_count` | gauge | `broker` |
| `zkgroup_broker_group_offset_metadata_bytes` | gauge | `broker` |
| `zkgroup_broker_group_slot_used_ratio_max` | gauge | `broker` |
| `zkgroup_broker_group_offsets_expired_total` | counter | `broker` |
| `zkgroup_broker_group_load_seconds` | histogram | `broker` |
"""

from zkgroup.exports import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
