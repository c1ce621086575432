"""A broker, and a controller that hosts nothing.

* `broker`: `Broker`, as a program has it; `lifecycle`: its parts, from start to close; `settings`, `listener`
* `machine`: what the broker does in ZooKeeper, as a pure machine
* `network`: the event loop with the port (`server`), the replicas (`replicas`, kept in a `log`) and the
  fetches
  from leaders (`fetcher`, slowed down by `quota`)
* `hosted_controller`: the controller in a broker's process; `controller_only`: a process with nothing else
"""
