"""The parts of `KafkaSource` that need no broker."""

from __future__ import annotations

import pytest
from kafka import errors

from zkgroup.consumer.sources import kafka as module
from zkgroup.consumer.sources.kafka import address_of, protocol_of
from zkgroup.errors import SourceUnavailableError
from zkgroup.znodes.brokers import BrokerRegistration


@pytest.mark.parametrize(
    ("versions", "protocol"),
    [([1], (0, 8, 2)), ([2], (0, 9)), ([4], None), ([5, 1], (0, 8, 2)), ([], None)],
)
def test_the_oldest_registration_tells_the_protocol(
    versions: list[int], protocol: tuple[int, ...] | None
) -> None:
    """0.8 and 0.9 cannot negotiate it, 0.10 and newer can; in between the oldest decides."""
    brokers = [BrokerRegistration(host="h", port=9092, version=version) for version in versions]

    assert protocol_of(brokers) == protocol


@pytest.mark.parametrize(
    ("broker", "address"),
    [
        (BrokerRegistration(host="h", port=9092), "h:9092"),
        (
            BrokerRegistration(
                host=None, port=-1, version=4, endpoints=("SSL://h:9093", "SASL_SSL://h:9094")
            ),
            "h:9093",
        ),
        (BrokerRegistration(host=None, port=-1, version=4), None),
    ],
)
def test_the_address_is_the_plain_listener_or_the_first(
    broker: BrokerRegistration, address: str | None
) -> None:
    """From version 2 on a broker may have no plain one."""
    assert address_of(broker) == address


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (errors.KafkaTimeoutError("no answer"), SourceUnavailableError),
        (errors.KafkaConnectionError("refused"), SourceUnavailableError),
        (errors.LeaderNotAvailableError("moving"), SourceUnavailableError),
        (errors.OffsetOutOfRangeError({}), errors.OffsetOutOfRangeError),
        (errors.TopicAuthorizationFailedError(["orders"]), errors.TopicAuthorizationFailedError),
    ],
)
def test_what_waiting_may_mend_is_a_pause(error: Exception, told: type[Exception]) -> None:
    """The fetcher asks again after those; the others are for the caller."""

    def asking() -> None:
        raise error

    with pytest.raises(told):
        module._asked(asking)
