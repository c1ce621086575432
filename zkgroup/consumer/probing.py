"""What a member answers to a probe: whether it owns its share, and whether its lease can be renewed."""

from __future__ import annotations

from collections.abc import Collection

from zkgroup.consumer.lease import HeldLeases
from zkgroup.consumer.machine.events import MemberState
from zkgroup.metrics.probes import Probe
from zkgroup.model.text import counted, named

NAMED_MAX = 3
"""Topics that a reason names."""


def member_probe(
    part: str,
    state: MemberState,
    reason: str,
    *,
    held: HeldLeases,
    now_ms: int,
    missing_topics: Collection[str] = (),
    failure: BaseException | None = None,
) -> Probe:
    """The answer of a member.

    It is ready while it owns every partition that the newest assignment gives it, perhaps none, and every
    topic that it names exists. It is healthy until it fails, and as long as its lease is renewed: a process
    that hangs, one whose application no longer polls, and one without ZooKeeper renew none.

    Args:
        part: its name.
        state: its state, with the `reason` of the machine.
        held: its leases. A member that has not registered yet has had none, and is healthy.
        now_ms: the time on the clock of the leases.
        missing_topics: those that do not exist.
        failure: the error with which it ended.
    """
    is_leaving = state in (MemberState.CLOSING, MemberState.CLOSED)
    where = f"{state.value} ({reason})" if reason else state.value
    unhealthy = not_ready = None
    if failure is not None:
        unhealthy = f"has failed: {failure}"
    elif is_leaving:
        not_ready = "leaves its group"
    elif held.until_ms and now_ms >= held.until_ms:
        unhealthy = f"{where}: its lease has ended, and no write was acknowledged since"
    elif state is not MemberState.STABLE:
        not_ready = where
    elif missing_topics:
        names = named(sorted(missing_topics), NAMED_MAX)
        not_ready = f"there is no topic {names}: zkgroup topic create TOPIC --partitions N"
    status = f"{state.value}, owns {counted(len(held.grants), 'partition')}"
    return Probe(part=part, status=status, unhealthy=unhealthy, not_ready=not_ready, is_leaving=is_leaving)
