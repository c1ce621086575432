"""The running process: a broker, or a controller that hosts nothing. It performs the machines' orders.

* `broker`: `Broker`, which composes all parts by its `life`; `listener` says what it tells
* `network`: the event loop in its thread, with the port, the host and the fetchers
* `fetching`: a follower's fetches from the leaders; `link`: a connection to another broker; `throttling`: how
  fast replicas may be fetched and given
* `stopping`: how a stopping broker asks its controller to take its leaderships
* `controlling`: the controller in the process; `gate`: the store as it sees it, registered or not at all
* `controller_only`: `ControllerOnly`, a process with nothing but a controller; `controller_port`: its port
"""
