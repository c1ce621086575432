"""Where counters and gauges go: the no-op default, and adapters beside it (`zkgroup.metrics.prometheus`).

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
| `zkgroup_lines_fetch_total` | counter, of `BrokerSource` | `outcome` |
"""

from zkgroup.metrics.sinks import GuardedMetrics, NoMetrics

__all__ = ["GuardedMetrics", "NoMetrics"]
