"""Clients of zkgroup's and Kafka's brokers, which are found in ZooKeeper: a producer, and log ends.

* `kafka_python`: kafka-python (extra `kafka`): addresses and protocol from registrations, and its errors
* `producer`: `RecordProducer`, a producer that reports the outcome of each record
* `leaders`: the leaders of partitions, by Metadata
* `log_ends`: where the logs of partitions and of each replica start, end and are at a time
"""
