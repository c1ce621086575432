"""Requests of old, new and pinned clients get the answers that Kafka 2.8.2 gave them."""

from __future__ import annotations

import dataclasses
import gzip
import json
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.waiting import PATIENCE_S
from tests.worlds import golden_data
from tests.worlds.unhurried import unhurried
from tests.worlds.wire_requests import REQUESTS
from zkgroup.testing import KafkaCluster
from zkgroup.wire.messages import Api, decode_response
from zkgroup.wire.schema import NO_UUID

OF_EACH_CLUSTER = {
    *("host", "port", "broker", "leader", "replicas", "isr", "controller_id", "cluster_id", "producer_id"),
    *("session_id", "error_message", "documentation", "path"),
}
"""Fields that differ from cluster to cluster, and words for people."""
REFUSED = {(Api.PRODUCE, version) for version in range(3)} | {(Api.FETCH, version) for version in range(4)}
"""Without record batches: each partition gets 43."""


class Recorded(NamedTuple):
    """A request, and what Kafka answered."""

    client: str
    key: int
    version: int
    request: bytes
    response: bytes | None
    """None with acks=0."""


def recorded() -> list[Recorded]:
    packed = (golden_data.FOLDER / "client-requests/kafka-2.8.2.jsonl.gz").read_bytes()
    return [
        Recorded(
            row["client"],
            row["key"],
            row["version"],
            bytes.fromhex(row["request"]),
            None if row["response"] is None else bytes.fromhex(row["response"]),
        )
        for row in map(json.loads, gzip.decompress(packed).splitlines())
    ]


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every field of an answer that is the same on each cluster, with where it is."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if field.name not in OF_EACH_CLUSTER:
                yield from leaves(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for name in value._fields:
            if name not in OF_EACH_CLUSTER:
                yield from leaves(getattr(value, name), (*path, name))
    elif isinstance(value, tuple):
        yield (*path, "count"), len(value)
        for number, item in enumerate(value):
            named = [getattr(item, name, None) for name in ("name", "topic", "partition")]
            yield from leaves(item, (*path, str(next((one for one in named if one is not None), number))))
    else:
        yield path, bytes(value) if isinstance(value, memoryview) else value


def answered(one: Recorded, payload: bytes) -> dict[tuple[str, ...], Any]:
    kind = REQUESTS[one.key].RESPONSE
    has_error_35 = one.key == Api.API_VERSIONS and payload[4:6] == b"\0\x23"
    answer = decode_response(kind, payload, version=0 if has_error_35 else one.version)[1]
    return dict(leaves(answer))


def is_exception(one: Recorded, path: tuple[str, ...], kafkas: Any, ours: Any) -> bool:
    """What is meant to differ."""
    match one.key:
        case Api.PRODUCE | Api.FETCH if (one.key, one.version) in REFUSED:
            return path[-1] != "error" or ours == 43
        case Api.API_VERSIONS:  # APIs: see `test_versions_of_kafka`; there are no features
            return path[0] in ("apis", "finalized_features_epoch")
        case Api.CREATE_TOPICS if path[-1] == "topic_id":  # topics have no ids
            return bool(ours == NO_UUID)
        case Api.ALTER_CONFIGS if kafkas == -1:  # a null value, at which Kafka fails
            return bool(ours == 42)
        case (
            Api.CREATE_TOPICS | Api.DESCRIBE_CONFIGS
        ):  # configs that zkgroup has not, and defaults of its own
            is_own = path[-1] in ("count", "value", "source") or "synonyms" in path
            return "configs" in path and (ours is None or is_own)
    return False


def test_recorded_requests_get_the_answers_of_kafka_2_8_2() -> None:
    """The requests of Java 0.11 to 4.0, kafka-python, librdkafka and by hand: errors and all fields."""
    differences, compared = [], 0
    with KafkaCluster(1, settings=unhurried()) as cluster:
        host, _, port = cluster.address(1).rpartition(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
            stream = connection.makefile("rb")
            for one in recorded():
                connection.sendall(one.request)
                if one.response is None:
                    continue
                payload = stream.read(int.from_bytes(stream.read(4), "big"))
                name = f"{one.client} {Api(one.key).name} {one.version}"
                assert payload, f"the connection was closed at {name}"
                kafkas, ours = answered(one, one.response[4:]), answered(one, payload)
                compared += 1
                for path in kafkas.keys() | ours.keys():
                    pair = kafkas.get(path), ours.get(path)
                    if pair[0] != pair[1] and not is_exception(one, path, *pair):
                        differences.append((name, ".".join(path), *pair))
            stream.close()
    assert sorted(differences, key=str) == []
    assert compared >= 560
