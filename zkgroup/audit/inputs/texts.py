"""The words of findings for sessions, members, counts and durations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zkgroup.audit.inputs.facts import Facts, Life
from zkgroup.znodes.paths import path_kind

_UNSIGNED = 0xFFFF_FFFF_FFFF_FFFF


def session_text(session: int) -> str:
    """A session as ZooKeeper's own tools print it."""
    return f"0x{session & _UNSIGNED:x}"


def session_digits(sessions: Iterable[int]) -> int:
    """The number of last digits, two or more, that differ between all these sessions."""
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
    known = _registered(facts, "members", facts.members).get(session, ())
    return tuple((name, path_kind(path).member) for name, path in known if group in (None, name))


def brokers_of(facts: Facts, session: int) -> tuple[str, ...]:
    """The ids of brokers that a session registered."""
    return tuple(name for name, _ in _registered(facts, "brokers", facts.brokers).get(session, ()))


def _registered(
    facts: Facts, what: str, lives_of: Mapping[str, Sequence[Life]]
) -> dict[int, dict[tuple[str, str], None]]:
    """By session the registrations that it ever made: the name that they are of, and their path."""
    known: dict[int, dict[tuple[str, str], None]] | None = facts.derived.get((what,))
    if known is None:
        known = facts.derived[what,] = {}
        for name, lives in lives_of.items():
            for life in lives:
                known.setdefault(life.session, {})[name, life.path] = None
    return known


def only_group(facts: Facts, session: int) -> str | None:
    """The group that a session's members are in; None where there are several, or none."""
    groups = {group for group, _ in members_of(facts, session)}
    return groups.pop() if len(groups) == 1 else None


def is_member(facts: Facts, group: str, session: int) -> bool:
    """True if a session ever registered in a group."""
    return bool(members_of(facts, session, group))


def who(facts: Facts, session: int, group: str | None = None) -> str:
    """A session by what it registered: its members (of this group where one is named), brokers, number."""
    names = [f"member {member}" for _, member in members_of(facts, session, group)]
    names += [f"broker {name}" for name in brokers_of(facts, session)]
    number = f"session {session_text(session)}"
    return f"{first_of(names)} ({number})" if names else number
