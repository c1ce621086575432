"""Sends and reads records with kafka-python, the only package that it needs.

    PYTHON kafka_python_client.py send BOOTSTRAP TOPIC PARTITION FILE NAME=VALUE...
    PYTHON kafka_python_client.py read BOOTSTRAP TOPIC PARTITION OFFSET COUNT

As `librdkafka_client.py`, with kafka-python's settings; a value of `true` is True.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer, TopicPartition


def value_of(text: str) -> bytes | None:
    return None if text == "-" else base64.b64decode(text[1:])


def text_of(value: bytes | None) -> str:
    return "-" if value is None else "=" + base64.b64encode(value).decode()


def send(bootstrap: str, topic: str, partition: str, file: str, *settings: str) -> None:
    more = dict(setting.split("=", 1) for setting in settings)
    values = {name: True if value == "true" else value for name, value in more.items()}
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all", linger_ms=1, **values)
    sent = []
    for line in Path(file).read_text("ascii").splitlines():
        timestamp, key, value, *headers = line.split(" ")
        pairs = [
            ((value_of(name) or b"").decode(), value_of(one))
            for name, one in zip(headers[::2], headers[1::2], strict=True)
        ]
        sent.append(
            producer.send(topic, value_of(value), value_of(key), pairs, int(partition), int(timestamp))
        )
    producer.flush()
    for number, one in enumerate(sent):
        print(number, one.get().offset, flush=True)
    producer.close()


def read(bootstrap: str, topic: str, partition: str, offset: str, count: str) -> None:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap.split(","), enable_auto_commit=False)
    consumer.assign([TopicPartition(topic, int(partition))])
    consumer.seek(TopicPartition(topic, int(partition)), int(offset))
    for number, message in enumerate(consumer, 1):
        headers = [one for name, value in message.headers for one in (name.encode(), value)]
        print(message.offset, message.timestamp, *map(text_of, (message.key, message.value, *headers)))
        if number == int(count):
            break
    consumer.close()


if __name__ == "__main__":
    {"send": send, "read": read}[sys.argv[1]](*sys.argv[2:])
