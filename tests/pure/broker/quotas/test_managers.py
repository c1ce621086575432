"""Who is counted together, what is counted, and how many partitions a client may create."""

from __future__ import annotations

import pytest

from zkgroup.broker.quotas import rates
from zkgroup.broker.quotas.levels import QuotaType
from zkgroup.broker.quotas.managers import QuotaManagers
from zkgroup.znodes.config import ConfigEntity

ALICE, APP, ANY_CLIENT = (
    ConfigEntity.user("alice"),
    ConfigEntity.of_client("app"),
    ConfigEntity.of_client(None),
)


def limited(entity: ConfigEntity, **settings: str) -> QuotaManagers:
    quotas = QuotaManagers(1)
    quotas.configured(entity, settings)
    return quotas


def test_clients_of_a_user_share_its_quota_and_others_lose_nothing() -> None:
    """Ten windows of the bound may come at once; what is above has to be waited for."""
    produce = limited(ALICE, producer_byte_rate="100").produce

    assert produce.record("alice", "one", 1_000, 0) == 0
    assert produce.record("alice", "two", 100, 0) == 1_000
    assert produce.record("bob", "one", 1e9, 0) == 0


def test_each_client_has_the_default_for_itself() -> None:
    """As each user has that of users."""
    produce = limited(ANY_CLIENT, producer_byte_rate="100").produce

    assert produce.record("alice", "one", 2_000, 0) > 0
    assert produce.record("alice", "two", 1_000, 0) == 0
    assert produce.record("bob", "one", 1, 0) > 0


def test_a_quota_that_changes_counts_for_what_was_used_before() -> None:
    """And nobody waits for one that is removed."""
    quotas = limited(APP, consumer_byte_rate="1000")
    assert quotas.fetch.record("alice", "app", 5_000, 0) == 0
    assert quotas.fetch.room("alice", "app", 0) == (5_000, 10_000)

    quotas.configured(APP, {"consumer_byte_rate": "100"})
    assert quotas.fetch.record("alice", "app", 0, 0) == 40_000
    quotas.configured(APP, {})
    assert not quotas.is_limited
    assert quotas.fetch.record("alice", "app", 5_000, 0) == 0
    assert quotas.fetch.room("alice", "app", 0) is None


def test_what_is_taken_back_was_not_used() -> None:
    """A fetch that is beyond its quota has no records."""
    fetch = limited(APP, consumer_byte_rate="100").fetch
    assert fetch.record("alice", "app", 2_000, 0) == 10_000
    fetch.take_back("alice", "app", 2_000, 0)

    assert fetch.record("alice", "app", 1_000, 0) == 0


def test_the_wait_for_request_time_is_a_window_at_most() -> None:
    """Unlike that for bytes, as in Kafka."""
    quotas = limited(APP, request_percentage="1", producer_byte_rate="1")

    assert quotas.request.record("alice", "app", 1_000, 0) == 1_000
    assert quotas.produce.record("alice", "app", 1_000, 0) == 990_000


def test_a_quota_of_nothing_is_kafkas() -> None:
    """Its wait for bytes is infinite, overflows, and is taken as none; that for request time is bounded."""
    quotas = limited(APP, request_percentage="0", producer_byte_rate="0")

    assert quotas.produce.record("alice", "app", 1_000, 0) == 0
    assert quotas.request.record("alice", "app", 1_000, 0) == 1_000


def test_partitions_are_permitted_until_the_tokens_are_used_up() -> None:
    """One request may take more than there are; then strict ones get none, and others wait."""
    mutations = limited(ALICE, controller_mutation_rate="10").controller_mutation
    now_ms = [0]
    strict = mutations.permits("alice", "app", lambda: now_ms[0], is_strict=True)
    assert strict is not None
    assert [strict.take(90), strict.take(90), strict.take(90)] == [True, True, False]
    assert strict.throttle_ms == 7_000
    now_ms[0] = 5_000
    assert strict.throttle_ms == 2_000  # it is told after the request's own wait

    old = mutations.permits("alice", "other", lambda: now_ms[0], is_strict=False)
    assert old is not None
    assert old.take(10)
    assert old.throttle_ms == 3_000
    assert mutations.permits("bob", "app", lambda: 0, is_strict=True) is None


def test_clients_that_used_nothing_of_late_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Client ids are as many as clients like; who has used something is remembered."""
    monkeypatch.setattr(rates, "KEPT", 3)
    produce = limited(ANY_CLIENT, producer_byte_rate="100").produce
    for number in range(3):
        produce.record("alice", f"old{number}", 1, 0)
    produce.record("alice", "busy", 2_000, 20_000)
    for number in range(10):
        produce.record("alice", f"new{number}", 1, 20_000)

    assert {each.client_id for each in produce.usage(20_000)} >= {"busy", "new9"}
    assert "old0" not in {each.client_id for each in produce.usage(20_000)}
    assert produce.record("alice", "busy", 0, 20_000) == 10_000


def test_thousands_of_client_ids_change_nothing_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has to wait still has to, and a new one costs as much as the first; once idle, they are forgotten
    as others come."""
    monkeypatch.setattr(rates, "KEPT", 100)
    looks, is_idle = [0], rates.Rate.is_idle

    def counted(rate: rates.Rate, now_ms: int) -> bool:
        looks[0] += 1
        return is_idle(rate, now_ms)

    monkeypatch.setattr(rates.Rate, "is_idle", counted)
    produce = limited(ANY_CLIENT, producer_byte_rate="100").produce
    produce.record("alice", "held", 2_000, 0)
    for number in range(5_000):
        produce.record("alice", f"flood{number}", 1, 2 * number)
    assert looks[0] <= 10_000
    assert produce.record("alice", "held", 0, 10_000) == 10_000

    for number in range(5_000):
        produce.record("alice", f"later{number}", 1, 22_000)
    known_then = sum(1 for _ in produce.usage(0))
    assert known_then <= 5_000 + rates.KEPT


def test_a_long_client_id_is_remembered_by_its_digest() -> None:
    """A request may have one of 32 kB: ten thousand of them would be 320 MB. Two of them stay two."""
    long = "x" * 32_000
    quotas = limited(ANY_CLIENT, producer_byte_rate="100")
    quotas.configured(ConfigEntity.of_client(long + "1"), {"producer_byte_rate": "10"})

    assert quotas.produce.record("alice", long + "1", 1_000, 0) == 90_000
    assert quotas.produce.record("alice", long + "2", 1_000, 0) == 0
    names = [each.client_id for each in quotas.usage(0)]
    assert len({*names}) == 2
    assert max(map(len, names)) < 400


def test_usage_is_told_by_quota() -> None:
    """For the metrics: bytes a second, and tokens that are left."""
    quotas = limited(ALICE, producer_byte_rate="100", controller_mutation_rate="1")
    quotas.produce.record("alice", "app", 1_000, 0)
    permits = quotas.controller_mutation.permits("alice", "app", lambda: 0, is_strict=True)
    assert permits is not None
    permits.take(5)

    assert list(quotas.usage(0)) == [
        (QuotaType.PRODUCE, "alice", "", 100.0),
        (QuotaType.CONTROLLER_MUTATION, "alice", "", 6.0),
    ]
