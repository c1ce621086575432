"""The words of findings for sessions, members, counts and durations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zkgroup.audit.inputs.facts import Facts
from zkgroup.znodes.paths import path_kind

_UNSIGNED = 0xFFFF_FFFF_FFFF_FFFF


def session_text(session: int) -> str:
    """A session as ZooKeeper's own tools print it."""
    return f"0x{session & _UNSIGNED:x}"


def session_digits(sessions: Iterable[int]) -> int:
    """Returns how many last digits, two or more, differ between all these sessions."""
    texts = {session_text(session) for session in sessions}
    return next((n for n in range(2, 17) if len({text[-n:] for text in texts}) == len(texts)), 16)


def count_text(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: `1 commit`, `2 commits`."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def first_of(texts: Sequence[str], most: int = 3) -> str:
    """The first of these, with commas, and how many more there are."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return f"{', '.join(texts[:most])}{more}"


def subtree_text(path: str, depth: int) -> str:
    """The first names of a path: `/consumers/g` of `/consumers/g/ids` at depth 2."""
    return "/".join(path.split("/")[: depth + 1]) or "/"


def duration_text(ms: int) -> str:
    """A duration in the unit that leaves one to three digits; below 0, after a step of the clock, is 0."""
    ms = max(ms, 0)
    if ms < 1_000:
        return f"{ms} ms"
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min")):
        if ms >= 2 * size:
            return f"{ms / size:.1f} {unit}"
    return f"{ms / 1_000:.1f} s"


def members_of(facts: Facts, session: int, group: str | None = None) -> tuple[tuple[str, str], ...]:
    """Group and member id of what a session ever registered, there or anywhere, in order, each once."""
    groups = facts.members if group is None else (group,)
    return tuple(
        dict.fromkeys(
            (name, path_kind(life.path).member)
            for name in groups
            for life in facts.members.get(name, ())
            if life.session == session
        )
    )


def only_group(facts: Facts, session: int) -> str | None:
    """The group that a session's members are in; None where there are several, or none."""
    groups = {group for group, _ in members_of(facts, session)}
    return groups.pop() if len(groups) == 1 else None


def is_member(facts: Facts, group: str, session: int) -> bool:
    """Returns whether a session ever registered in a group."""
    return any(life.session == session for life in facts.members.get(group, ()))


def who(facts: Facts, session: int, group: str | None = None) -> str:
    """A session by what it registered: its members (of this group where one is named), brokers, number."""
    members = [member for _, member in members_of(facts, session, group)]
    brokers = [
        name for name, lives in facts.brokers.items() if any(life.session == session for life in lives)
    ]
    names = [*(f"member {name}" for name in members), *(f"broker {name}" for name in brokers)]
    if not names:
        return f"session {session_text(session)}"
    return f"{first_of(names)} (session {session_text(session)})"
