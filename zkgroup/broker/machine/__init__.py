"""What a broker does in ZooKeeper, as a pure machine: `step(event, now) -> effects`.

* `machine`: the session, and one procedure at a time
* `preparing`: parents, cluster id, who else is there, the own id
* `registration`: `/brokers/ids/<id>`, in every session anew
* `leading`: the ISRs of the partitions that it leads, and when the controller is told of changes
* `configuration`: configurations, and the notifications that they changed
* `effects`, `events`, `core`: what goes out, what comes in, what all parts share
"""
