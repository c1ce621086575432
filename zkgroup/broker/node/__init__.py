"""The running broker: what performs the orders of `zkgroup.broker.machine`, and joins all parts.

* `broker`: `Broker`, which composes them; `listener` says what it tells
* `network`: the event loop in its thread, with the port, the host and the fetchers
* `fetching`: a follower's fetches from the leaders; `link`: a connection to another broker
* `stopping`: how a stopping broker asks its controller to take its leaderships
* `gate`: the store as the controller beside it sees it, registered or not at all
"""
