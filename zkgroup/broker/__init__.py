"""The zkgroup broker, and the controller process without partitions.

* `broker`: `Broker`, for programs; `lifecycle`: its components, from start to close; `settings`, `telemetry`
* `machine`: the broker in ZooKeeper, as a pure machine
* `network`: the event loop with the port (`server`), the replicas (`replicas`, stored in a `log`) and the
  fetches from leaders (`fetcher`, throttled by `quotas`)
* `replica_view`: the state of replicas, and the actions of a controller on them, as values
* `hosted_controller`: the controller in a broker's process; `controller_only`: a process with only that
"""

from zkgroup.exports import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
