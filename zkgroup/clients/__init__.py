"""Clients of brokers, zkgroup's and Kafka's: kafka-python found its brokers in ZooKeeper, and log ends.

* `kafka_python`: kafka-python (extra `kafka`): addresses and protocol from registrations, and its errors
* `producer`: `RecordProducer`, a producer that reports the outcome of each record
* `log_ends`: log ends of partitions and of each replica, by requests of our own
"""
