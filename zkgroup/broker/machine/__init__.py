"""The pure machine of a broker in ZooKeeper: `step(event, now) -> effects`.

* `machine`: the session, and one procedure at a time; `FollowedTopics`, which may be fetched again after a
  session has ended; `ProducerIdClaims`, blocks of ids for idempotent producers
* `registration`: `/brokers/ids/<id>` in every session; before the first one parents, cluster id and broker id
* `isr_manager`: writes the ISRs of the partitions that it leads; `isr`: one of them, and the notifications of
  changes for the controller
* `dynamic_config`: configurations, credentials of users, and the notifications of their changes
* `events`: events, effects, and the context that all components share
"""
