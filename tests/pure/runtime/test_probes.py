"""What a supervisor is told: the state of a member as probes see it, and the notices for systemd."""

from __future__ import annotations

import pytest

from zkgroup.consumer.lease import HeldLeases
from zkgroup.consumer.machine.events import MemberState
from zkgroup.consumer.probing import member_probe
from zkgroup.metrics.probes import Probe, ServiceStates, not_healthy, not_ready

NOW_MS = 50_000
VALID, ENDED, NEVER = HeldLeases(NOW_MS + 1), HeldLeases(NOW_MS), HeldLeases()
LATE = "its lease has ended, and no write was acknowledged since"


@pytest.mark.parametrize(
    ("state", "held", "missing", "failure", "ill", "unready"),
    [
        (MemberState.JOINING, NEVER, (), None, None, "joining (why)"),
        (MemberState.STABLE, VALID, (), None, None, None),
        (
            *(MemberState.STABLE, VALID, ("b", "a"), None, None),
            "there is no topic a, b: zkgroup topic create TOPIC --partitions N",
        ),
        (MemberState.REBALANCING, VALID, (), None, None, "rebalancing (why)"),
        # also where the member's thread hangs, so that it cannot say that it is suspended
        (MemberState.STABLE, ENDED, (), None, f"stable (why): {LATE}", None),
        (MemberState.SUSPENDED, ENDED, (), None, f"suspended (why): {LATE}", None),
        (MemberState.JOINING, ENDED, (), None, f"joining (why): {LATE}", None),
        (MemberState.CLOSING, ENDED, (), None, None, "leaves its group"),
        (MemberState.FAILED, NEVER, (), ValueError("x"), "has failed: x", None),
    ],
)
def test_a_member_is_healthy_while_its_lease_is_renewed_and_ready_with_its_share(
    state: MemberState,
    held: HeldLeases,
    missing: tuple[str, ...],
    failure: Exception | None,
    ill: str | None,
    unready: str | None,
) -> None:
    """A member that joins has had no lease, and one that leaves needs none."""
    found = member_probe("m", state, "why", held=held, now_ms=NOW_MS, missing_topics=missing, failure=failure)

    assert (found.unhealthy, found.not_ready) == (ill, unready)


def test_what_is_not_healthy_is_not_ready() -> None:
    """Each reason with the name of its part."""
    found = [
        Probe(part="a", status=""),
        Probe(part="b", status="", not_ready="joins"),
        Probe(part="c", status="", unhealthy="hangs"),
    ]

    assert not_healthy(found) == ("c: hangs",)
    assert not_ready(found) == ("b: joins", "c: hangs")


def test_systemd_learns_each_state_once_and_the_watchdog_only_while_all_are_healthy() -> None:
    """READY when all parts are ready for the first time, STOPPING when all leave or the server closes."""
    states = ServiceStates(watched=True)
    joins = Probe(part="a", status="joins", not_ready="joins")
    works = Probe(part="a", status="works")
    hangs = Probe(part="a", status="works", unhealthy="hangs\nfor good")
    leaves = Probe(part="b", status="leaves", not_ready="leaves", is_leaving=True)

    assert states.news([joins]) == ("STATUS=a: joins", "WATCHDOG=1")
    assert states.news([joins, works]) == ("WATCHDOG=1",)
    assert states.news([works]) == ("READY=1", "STATUS=a: works", "WATCHDOG=1")
    assert states.news([hangs]) == ("STATUS=a: hangs for good",)
    assert states.news([hangs]) == ()
    assert states.news([works, leaves]) == ("STATUS=b: leaves", "WATCHDOG=1")
    assert states.news([leaves]) == ("STOPPING=1", "WATCHDOG=1")
    assert states.news([leaves], is_closing=True) == ("WATCHDOG=1",)
    assert ServiceStates(watched=False).news([]) == ("READY=1",)  # metrics alone: nothing leaves
    assert ServiceStates(watched=False).news([works], is_closing=True) == ("STOPPING=1", "STATUS=a: works")
