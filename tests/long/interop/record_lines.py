"""Records as lines of text, as `Records.java` and the `*_client.py` of this folder write and read them."""

from __future__ import annotations

import base64

from tests.worlds.kafka_clients import KafkaRecord


def line_of(record: KafkaRecord) -> str:
    """Timestamp, key, value, then name and value of each header."""
    headers = [_field(one) for name, value in record.headers for one in (name.encode(), value)]
    return " ".join((str(record.timestamp_ms), _field(record.key), _field(record.value), *headers))


def parsed(line: str) -> tuple[int, KafkaRecord]:
    """Offset and record of a line that a client has read."""
    offset, timestamp, key, value, *headers = line.split(" ")
    names = [(_value(name) or b"").decode() for name in headers[::2]]
    pairs = tuple(zip(names, map(_value, headers[1::2]), strict=True))
    return int(offset), KafkaRecord(_value(value), _value(key), pairs, int(timestamp))


def _field(value: bytes | None) -> str:
    return "-" if value is None else f"={base64.b64encode(value).decode()}"


def _value(text: str) -> bytes | None:
    return None if text == "-" else base64.b64decode(text[1:])
