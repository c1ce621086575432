"""How many replicas have to be in sync: which setting holds, and which ISR counts."""

from __future__ import annotations

import pytest

from tests.worlds.broker_requests import ORDERS
from zkgroup.broker.replicas.min_insync import MinInsync
from zkgroup.errors import ConfigError
from zkgroup.znodes.config import ConfigEntity

TOPIC, MINE, ALL = ConfigEntity.topic("orders"), ConfigEntity.broker(1), ConfigEntity.broker(None)


def asked(number: object) -> dict[str, str]:
    return {"min.insync.replicas": str(number)}


def test_the_nearest_setting_wins() -> None:
    """A topic's own, then the broker's, then that of all brokers, then the one it was started with."""
    settings = MinInsync(1, default=1)
    seen = [settings.wanted("orders")]
    for entity, number in ((ALL, 2), (MINE, 3), (TOPIC, 4)):
        settings.configured(entity, asked(number))
        seen.append(settings.wanted("orders"))
    for entity in (TOPIC, MINE, ALL):
        settings.configured(entity, {"retention.ms": "5"})
        seen.append(settings.wanted("orders"))

    assert seen == [1, 2, 3, 4, 3, 2, 1]


def test_settings_of_others_are_not_its_own() -> None:
    """Another broker's, another topic's."""
    settings = MinInsync(1, default=1)
    settings.configured(ConfigEntity.broker(2), asked(3))
    settings.configured(ConfigEntity.topic("other"), asked(3))

    assert settings.wanted("orders") == 1


@pytest.mark.parametrize("text", ["0", "-1", "two", "", "1.5", "\u0663"])
def test_what_is_no_number_is_named_and_the_next_setting_holds(text: str) -> None:
    """A topic is not left with a number that stood before."""
    settings = MinInsync(1, default=2)
    settings.configured(TOPIC, asked(3))

    with pytest.raises(ConfigError, match=r"/config/topics/orders: min\.insync\.replicas: expected a number"):
        settings.configured(TOPIC, asked(text))
    assert settings.wanted("orders") == 2


def test_members_count_that_are_stored_and_waited_for() -> None:
    """A proposed member is not stored; the high watermark does not wait for a member just removed."""
    settings = MinInsync(1, default=2)
    assert not settings.lacks(ORDERS, counted=1)  # not led here
    settings.led(ORDERS, 5, (1,))
    assert settings.lacks(ORDERS, counted=2)
    settings.isr_changed(ORDERS, 5, (1, 2))
    assert not settings.lacks(ORDERS, counted=2)
    assert settings.lacks(ORDERS, counted=1)


def test_the_isr_of_another_term_is_no_news() -> None:
    """The news of a write comes by another way than the controller's word."""
    settings = MinInsync(1, default=2)
    settings.led(ORDERS, 6, (1,))
    settings.isr_changed(ORDERS, 5, (1, 2))
    assert settings.lacks(ORDERS, counted=2)
    settings.led(ORDERS, 0, (1, 2))  # a topic made again
    assert not settings.lacks(ORDERS, counted=2)
    settings.left(ORDERS)
    settings.isr_changed(ORDERS, 0, (1,))
    assert not settings.lacks(ORDERS, counted=1)
