"""The quotas of a broker: how much its clients and its followers may use.

* `levels`: which quota holds for a client, and which for an address
* `rates`: what was used of late, and the wait of who used too much
* `managers`: `QuotaManagers`, all quotas of users, clients and followers; `connections`: those of addresses
* `replication`: the throttle of reassignments

What holds clients to them is `zkgroup.broker.server.throttles`.
"""
