"""The quotas of a broker: how much its clients and its followers may use.

* `levels`: which quota holds for a client, and which for an address
* `replication`: the throttle of reassignments
"""
