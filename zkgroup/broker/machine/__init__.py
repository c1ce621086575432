"""What a broker does in ZooKeeper, as a pure machine: `step(event, now) -> effects`.

* `machine`: the session, and one procedure at a time
* `registration`: `/brokers/ids/<id>` in every session, and before it parents, cluster id and the own id
* `isr_manager`: writes the ISRs of the partitions that it leads; `isr`: one of them, and when the controller
  is
  notified of changes
* `followed_topics`: what may be fetched again after a session has ended
* `dynamic_config`: configurations, and the notifications that they changed
* `events`: what comes in and what goes out; `context`: what all parts share
"""
