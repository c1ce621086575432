"""The replicas of a broker: the decisions of leaders and followers, over a `DataDir`.

* `manager`: `ReplicaManager`, all replicas of a broker; `executor`: the one thread that calls it
* `replica`: one replica, its roles and the two requests for lines; the followers of a leader, and the high
  watermark
* `actions`: the calls of controller, machine and clients; `min_insync`: `min.insync.replicas`
* `replica_view`: the state of a replica as values
"""
