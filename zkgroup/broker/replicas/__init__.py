"""The replicas of a broker: leaders and followers over a `DataDir`.

* `manager`: `ReplicaManager`, all replicas of a broker; `executor`: the one thread that calls it
* `replica`: one replica with its role, its appends, its answers to Fetch; `leader_state`: the progress of a
  leader's followers, and the high watermark
* `delayed_operations`: appends with acks=all and deletions of records, which wait for other replicas
* `actions`: the calls of controller, machine and clients; `min_insync`: `min.insync.replicas`;
  `log_configs`: the settings of topics and brokers that are about logs
"""
