"""What is stored: one frozen dataclass per znode, with its path, `encode` and `decode`. Pure.

Strict on write: what is encoded is read back by the strictest reader there is before it is handed out.
Tolerant on read of unknown keys, never of missing or mistyped ones: those raise `CorruptZnodeError`
with the path, what was expected and what was found.

* `ids`: names of groups, topics, members and threads
* `consumers`: everything below `/consumers`
* `brokers`: broker registrations, topics, partition states
* `topics`: per-topic configuration and deletion requests
* `configs`, `config_entity`, `throttles`: the other configurations, whom they are for, keys of a reassignment
* `config_changes`, `notifications`: what brokers are told, and what they tell
* `admin_requests`: reassignments and preferred elections asked for
* `controller`: `/controller` and its epoch
* `cluster`: cluster id, generated broker ids, features, producer ids; the parents that a broker makes
* `controller_records`, `reassignment_records`, `audit`: ours, below `/zkgroup`
* `limits`: what may be written
* `jvm_json`: JSON as Kafka 0.8's Scala parser reads it
"""
