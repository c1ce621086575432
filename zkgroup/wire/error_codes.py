"""The numbers by which brokers say what is wrong."""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """Those that we send or act upon; a response may hold any other int16.

    Kafka 0.8.2.2's (kafka/common/ErrorMapping.scala), from 56 on those of later clients
    (org/apache/kafka/common/protocol/Errors.java).
    """

    UNKNOWN = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_FOR_PARTITION = 6
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    STALE_CONTROLLER_EPOCH = 11
    STALE_LEADER_EPOCH = 13
    """To Kafka's later clients 13 means a network exception."""
    COORDINATOR_NOT_AVAILABLE = 15
    INVALID_TOPIC = 17
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    KAFKA_STORAGE_ERROR = 56
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    STALE_BROKER_EPOCH = 77
    INVALID_RECORD = 87


def describe(code: int) -> str:
    """`11 (stale controller epoch)`; the number alone where it is not in this table."""
    try:
        return f"{code} ({ErrorCode(code).name.lower().replace('_', ' ')})"
    except ValueError:
        return str(code)
