"""Sends and reads records with confluent-kafka, the only package that it needs.

    PYTHON librdkafka_client.py send BOOTSTRAP TOPIC PARTITION FILE NAME=VALUE...
    PYTHON librdkafka_client.py read BOOTSTRAP TOPIC PARTITION OFFSET COUNT

`send` prints number and offset of each record that is acknowledged, `read` offset and record. A record is a
line, as in `Records.java`. Both wait without a limit: the test has one.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition


def value_of(text: str) -> bytes | None:
    return None if text == "-" else base64.b64decode(text[1:])


def text_of(value: bytes | None) -> str:
    return "-" if value is None else "=" + base64.b64encode(value).decode()


def send(bootstrap: str, topic: str, partition: str, file: str, *settings: str) -> None:
    more = dict(setting.split("=", 1) for setting in settings)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 1, **more})

    def delivered(number, error, message):
        if error is not None:
            raise KafkaException(error)
        print(number, message.offset(), flush=True)

    for number, line in enumerate(Path(file).read_text("ascii").splitlines()):
        timestamp, key, value, *headers = line.split(" ")
        producer.produce(
            topic,
            value_of(value),
            value_of(key),
            int(partition),
            on_delivery=lambda error, message, number=number: delivered(number, error, message),
            timestamp=int(timestamp),
            headers=[
                ((value_of(name) or b"").decode(), value_of(one))
                for name, one in zip(headers[::2], headers[1::2], strict=True)
            ],
        )
        producer.poll(0)
    producer.flush()


def read(bootstrap: str, topic: str, partition: str, offset: str, count: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, int(partition), int(offset))])
    for _ in range(int(count)):
        message = consumer.poll()
        if message.error() is not None:
            sys.exit(f"not read: {message.error()}")
        headers = [one for name, value in message.headers() or () for one in (name.encode(), value)]
        words = (message.key(), message.value(), *headers)
        print(message.offset(), message.timestamp()[1], *map(text_of, words))
    consumer.close()


if __name__ == "__main__":
    {"send": send, "read": read}[sys.argv[1]](*sys.argv[2:])
