"""Finds what stood at a moment, from the rows before it: the seeds of a range that begins later."""

from __future__ import annotations

from zkgroup.audit.inputs.events import SINGLE, Event

Key = str | int
"""A path, or a session."""


def key_of(event: Event) -> Key | None:
    """Returns what a row says something about; None for a row that leaves everything as it is."""
    if event.op in ("createSession", "closeSession"):
        return event.session
    is_change = event.applied and event.op in ("create", "set", "setACL", "delete")
    return event.path if is_change and event.path not in ("", "/") else None


def after(before: Event | None, event: Event) -> Event | None:
    """The seed of a key behind a row of it; None where nothing stands."""
    match event.op:
        case "createSession":
            return Event(
                0, SINGLE, 0, event.session, 0, "createSession", "", timeout_ms=event.timeout_ms, seed=True
            )
        case "create":
            return event._replace(
                sub=SINGLE,
                session=event.session if event.ephemeral == "session" else 0,
                cxid=0,
                seed=True,
                mtime_ms=event.time_ms if event.mtime_ms is None else event.mtime_ms,
            )
        case "set" if before is not None:
            return before._replace(data=event.data, version=event.version, mtime_ms=event.time_ms)
        case "setACL" if before is not None:
            return before._replace(acl=event.acl)
    return None


class StateBuilder:
    """Takes rows in order. Memory: one row a znode and session."""

    def __init__(self) -> None:
        self._seeds: dict[Key, Event] = {}

    def see(self, event: Event) -> None:
        key = key_of(event)
        if key is None:
            return
        seed = after(self._seeds.get(key), event)
        if seed is None:
            self._seeds.pop(key, None)
        else:
            self._seeds[key] = seed

    def seeds(self) -> list[Event]:
        """As a history begins with them: sessions by number, then znodes by zxid and path."""
        return sorted(self._seeds.values(), key=lambda seed: (seed.zxid, seed.path, seed.session))
