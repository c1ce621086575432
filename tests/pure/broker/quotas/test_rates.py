"""How long a client has to wait that has used too much."""

from __future__ import annotations

import pytest

from tests.worlds.golden_data import lines
from zkgroup.broker.quotas.rates import EVER, SPAN_MS, Rate, TokenBucket


def waits(of: str, bound: float, uses: list[tuple[int, float, int]]) -> list[int]:
    """The waits after uses at these times."""
    rate, bucket, found = Rate(), TokenBucket(), []
    for now_ms, value, _ in uses:
        if of == "Rate":
            rate.record(value, now_ms)
            found.append(rate.throttle_ms(bound, now_ms))
        else:
            bucket.record(value, bound, now_ms)
            found.append(bucket.throttle_ms(bound, now_ms))
    return found


def test_waits_are_those_of_kafka() -> None:
    """Of 40 random series of uses, at each of four bounds."""
    for row in lines("quotas/rates.jsonl"):
        found = waits(row["of"], row["bound"], row["uses"])
        expected = [wait for _, _, wait in row["uses"]]
        assert all(abs(one - other) <= 1 for one, other in zip(found, expected, strict=True)), row


def test_who_waits_as_told_uses_as_much_as_may_be() -> None:
    """Over whole windows: of bursts five times the bound, each after the wait of the one before."""
    rate, now_ms, used = Rate(), 0, 0.0
    while now_ms < 330_000:
        rate.record(5_000, now_ms)
        used += 5_000
        now_ms += max(1, rate.throttle_ms(1_000, now_ms))

    assert 0.9 <= used / now_ms <= 1.1  # bytes a millisecond, of a bound of one


def test_what_is_idle_is_as_if_new() -> None:
    """So it may be forgotten."""
    rate, bucket = Rate(), TokenBucket()
    assert rate.is_idle(0)
    rate.record(1e9, 0)
    bucket.record(1, 1, 0)
    assert not rate.is_idle(SPAN_MS)
    assert not bucket.is_idle(SPAN_MS)
    assert rate.is_idle(SPAN_MS + 1_000)
    assert bucket.is_idle(SPAN_MS + 1_000)
    assert rate.throttle_ms(1, SPAN_MS + 1_000) == 0

    bucket.record(100, 1, SPAN_MS + 1_000)
    assert not bucket.is_idle(60_000)


def test_a_clock_that_stood_still_or_leaps_harms_nobody() -> None:
    """A process is stopped for a minute or for months. Nobody waits for what is long past, or gets more than
    ten windows at once."""
    for leap_ms in (60_000, 2**33, 2**53):
        rate, bucket = Rate(), TokenBucket()
        rate.record(30_000, 0)
        bucket.record(300, 10, 0)
        assert rate.throttle_ms(1_000, leap_ms) == 0
        assert rate.room(1_000, leap_ms) <= SPAN_MS + 1_000
        assert bucket.throttle_ms(10, leap_ms) == 0
        assert bucket.measure(10, leap_ms) == 110
        rate.record(11_000, leap_ms)
        assert 0 < rate.throttle_ms(1_000, leap_ms) <= 1_000
    for _ in range(3):
        rate.record(10_000, leap_ms)  # no time passes
    assert rate.throttle_ms(1_000, leap_ms) == 31_000


def test_a_bound_of_nothing_allows_nothing() -> None:
    """Of a bucket one use."""
    rate, bucket = Rate(), TokenBucket()
    rate.record(5, 0)
    bucket.record(5, 0, 0)

    assert (rate.throttle_ms(0, 0), bucket.throttle_ms(0, 0)) == (EVER, 0)
    assert bucket.measure(0, 10_000) < 0


@pytest.mark.parametrize("bound", [1e-9, 5e-324])
def test_a_tiny_bound_is_waited_for_as_long_as_an_answer_can_say(bound: float) -> None:
    """A wait that fits no answer would close the connection after the topic was created."""
    rate, bucket = Rate(), TokenBucket()
    rate.record(50, 0)
    bucket.record(10, bound, 0)

    assert (rate.throttle_ms(bound, 0), bucket.throttle_ms(bound, 0)) == (EVER, EVER)
