"""ACLs that change while the connection of a broker breaks and its sessions end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.pure.simulation.followed_acls import Schedule, ViolationError
from zkgroup.broker.machine.acl_changes import AclChanges
from zkgroup.broker.machine.change_notifications import NotifiedState
from zkgroup.broker.machine.events import AclsChanged
from zkgroup.runtime.procedures import Procedure

SEEDS, STEPS = (32, 48, 55, *range(20)), 600
"""The first three reach what no other does: a half-read change, a new connection, and a read that fails."""


def run(seeds: Iterable[int] = SEEDS) -> Counter[str]:
    """What has happened in the schedules. Raises ViolationError."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        schedule = Schedule(seed)
        schedule.run(STEPS)
        counts += schedule.counts
    return counts


def test_no_request_is_decided_but_by_the_acls_of_some_moment() -> None:
    """Of one since the last notification that was followed; the schedules reach everything."""
    counts = run()

    assert counts["runs"] == len(SEEDS)
    assert {"emitted", "followed late", "written", "cut", "expired", "away"} <= {
        name for name, count in counts.items() if count >= len(SEEDS) // 2
    }


def _at_once(self: AclChanges) -> Procedure[None]:
    """Emits what was read, also if more was notified of meanwhile."""
    yield from NotifiedState._apply(self)
    changes, self._changes = self._changes, {}
    self._core.emit(AclsChanged(changes))


def _newest(self: AclChanges, paths: list[str]) -> Procedure[Any]:
    return (yield from NotifiedState._named(self, paths[-1:]))


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        ("_apply", _at_once),
        ("_named", _newest),
        ("_changed", lambda self: None),
        ("connected", lambda self: None),
        ("session_over", lambda self: None),
    ],
)
def test_mistakes_are_found(
    monkeypatch: pytest.MonkeyPatch, name: str, mistake: Callable[..., object]
) -> None:
    """A mixture of moments, a change that is passed over, a lost watch, a connection, a session."""
    monkeypatch.setattr(AclChanges, name, mistake)

    with pytest.raises(ViolationError):
        run()
