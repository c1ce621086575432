"""A broker's life.

* `server` listens, a `connection` takes frames in and sends answers, `service` finds the answer: from
  the metadata cache, from the receiver's rules, from the host on its `host_thread`, or `elsewhere`
* `receiver`: how it obeys its controller; `metadata_cache`: what it tells clients
* `isr`: which replicas of a partition it leads are in sync; `isr_notices`: when the controller is told
* `replica_host`: the port behind which the lines of partitions live; `replication` decides what is done with
  them; `memory_host` and `directory` keep them
"""
