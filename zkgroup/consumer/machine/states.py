"""The states of a member that a person sees, and the legal changes between them.

    new -> joining -> stable <-> rebalancing
             ^          |            |
             |          v            v
             +------ suspended (the lease ended while the session may live; back with the same tokens)
             |
             +------ lost (the session, or the registration, is gone; nothing is held)

`closing` comes from every living state, `closed` and `failed` end it.
"""

from __future__ import annotations

from zkgroup.consumer.effects import MemberState as S
from zkgroup.errors import IllegalTransitionError

_LIVING = frozenset({S.JOINING, S.STABLE, S.REBALANCING, S.SUSPENDED, S.LOST})

TRANSITIONS: dict[S, frozenset[S]] = {
    S.NEW: frozenset({S.JOINING, S.CLOSING, S.CLOSED, S.FAILED}),
    S.JOINING: frozenset({S.STABLE, S.REBALANCING, S.SUSPENDED, S.LOST, S.CLOSING, S.FAILED}),
    S.STABLE: frozenset({S.JOINING, S.REBALANCING, S.SUSPENDED, S.LOST, S.CLOSING, S.FAILED}),
    S.REBALANCING: frozenset({S.JOINING, S.STABLE, S.SUSPENDED, S.LOST, S.CLOSING, S.FAILED}),
    S.SUSPENDED: frozenset({S.JOINING, S.STABLE, S.REBALANCING, S.LOST, S.CLOSING, S.FAILED}),
    S.LOST: frozenset({S.JOINING, S.CLOSING, S.FAILED}),
    S.CLOSING: frozenset({S.CLOSED, S.FAILED}),
    S.CLOSED: frozenset(),
    S.FAILED: frozenset(),
}
"""From each state, where a member may go. What is not here is a bug of ours."""


def check_transition(before: S, after: S) -> None:
    """Raises `IllegalTransitionError` unless the table allows the change."""
    if after not in TRANSITIONS[before]:
        raise IllegalTransitionError(f"member: {before.value} -> {after.value} is not allowed")


def is_living(state: S) -> bool:
    """The member is in the group or on its way there."""
    return state in _LIVING
