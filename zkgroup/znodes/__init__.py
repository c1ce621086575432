"""What is stored: one frozen dataclass per znode, with its path, `encode` and `decode`. Pure.

Strict on write: what is encoded is read back by the strictest reader there is before it is handed out.
Tolerant on read of unknown keys, never of missing or mistyped ones: those raise `CorruptZnodeError`
with the path, what was expected and what was found.

* `ids`: names of groups, topics, members and threads
* `consumers`: everything below `/consumers`
* `brokers`: broker registrations, topics, partition states
* `controller`: `/controller` and its epoch
* `topics`: per-topic configuration and deletion requests
* `jvm_json`: JSON as Kafka 0.8's Scala parser reads it
"""
