"""The replicas of a broker: what leaders and followers decide, over any `LogDir`.

* `manager`: `ReplicaManager`, all replicas of a broker; `executor`: the one thread that asks it
* `replica`: one replica, its roles and the two requests for lines; what a leader knows of its followers, and
  the high watermark
* `actions`: what controller, machine and clients have the manager do; `min_insync`: `min.insync.replicas`
* `replica_view`: what is known of a replica, as values
"""
