"""Random histories as rows: groups, topics and brokers under any schedule, consistent for the most part.

They have what real logs seldom have together: clocks that step back, holes in the log, znodes that are
written without having been created, refused multis, sessions that end without a record of what went with
them, offsets that are no numbers. What a finding makes of such a history is not the point; two ways to
compute findings must make the same of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from zkgroup.audit.inputs.events import Event
from zkgroup.zkfiles.records import Acl, AclEntry

START_MS: Final = 1_700_000_000_000
SIZES: Final = (15, 40, 120, 400, 1500)
"""Numbers of transactions; a seed decides."""

_OPEN: Final[Acl] = (AclEntry(31, "world", "anyone"),)
_CLOSED: Final[Acl] = (AclEntry(31, "digest", "x:y"),)
_SESSIONS: Final = (0x100, 0x200, 0x300, 0x100000000000001, 5)
_EARLY: Final = (0x900, 0x901)
"""Sessions that do something at the beginning only."""
_STEPS_MS: Final = (5, 200, 3_000, 20_000, 3_600_000, 86_400_000)
_REGISTRATIONS: Final = (
    b'{"version":1,"subscription":{"t":1,"u":2},"pattern":"static","timestamp":"1"}',
    b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}',
    b'{"version":1,"subscription":{".*":1},"pattern":"white_list","timestamp":"1"}',
    b'{"version":1,"subscription":{"t":1},"pattern":"static","zkgroup":"1","strategy":"sticky"}',
    b"junk",
)
_TOPICS: Final = (
    b'{"version":1,"partitions":{"0":[1,2],"1":[2,1]}}',
    b'{"version":1,"partitions":{"0":[1,2]}}',
    b'{"version":1,"partitions":{"0":[1,2],"1":[2,1],"2":[1]}}',
    b"junk",
)
_ODD_OFFSETS: Final = (b"-1", b"", None, b"x", b" 5", b"+7", b"9" * 18, b"9" * 19, b"007", "٣".encode())
_REQUESTS: Final = ("reassign_partitions", "delete_topics/t", "preferred_replica_election")
_THREADS: Final = (b"m1-0", b"m2-0", b"g_host-1-0", b"g_host-1", b"\xff\xfe", None)


def history_of(seed: int) -> list[Event]:
    """The rows of one history, in order; every second one begins with what a snapshot has."""
    draw = random.Random(seed)
    return _History(draw).rows(draw.choice(SIZES))


class _History:
    """Writes rows, and keeps in mind which znodes there are and whose."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._rows: list[Event] = []
        self._zxid = 0
        self._ms = START_MS
        self._is_early = True
        """Whether there still is the group that is given up without ever having had a member."""
        self._owners: dict[str, int] = {}
        """Of each znode, the session it is an ephemeral of; 0 for others."""

    def rows(self, transactions: int) -> list[Event]:
        draw = self._draw
        if draw.random() < 0.5:
            self._begin()
        step_ms = draw.choice(_STEPS_MS)
        for number in range(transactions):
            self._is_early = number < transactions / 3
            self._zxid += 1 if draw.random() < 0.97 else 1 << 32
            if draw.random() < 0.3:
                self._ms += draw.randrange(step_ms)
            elif draw.random() < 0.03:
                self._ms -= draw.randrange(5_000)
            self._transaction(draw.choice((*_SESSIONS, *_EARLY) if self._is_early else _SESSIONS))
        return self._rows

    def _begin(self) -> None:
        draw = self._draw
        for session in sorted(draw.sample(_SESSIONS, 2)):
            self._add(Event(0, -1, 0, session, 0, "createSession", "", timeout_ms=6_000, seed=True))
        zxid = 0
        for path in sorted({self._path() for _ in range(25)}):
            zxid += draw.randrange(2)
            session = draw.choice(_SESSIONS) if self._is_ephemeral(path) and draw.random() < 0.8 else 0
            created_ms, written_ms = (START_MS - draw.randrange(10**6) for _ in range(2))
            self._owners[path] = session
            self._add(
                Event(
                    zxid,
                    -1,
                    created_ms,
                    session,
                    0,
                    "create",
                    path,
                    self._data(path),
                    draw.randrange(3),
                    "session" if session else None,
                    seed=True,
                    acl=draw.choice((_OPEN, _OPEN, _CLOSED, None)),
                    mtime_ms=written_ms,
                )
            )
        self._zxid = zxid

    def _transaction(self, session: int) -> None:
        drawn = self._draw.random()
        if drawn < 0.05:
            row = Event(self._zxid, -1, self._ms, session, self._draw.randrange(9), "createSession", "")
            self._add(row._replace(timeout_ms=6_000))
        elif drawn < 0.10:
            self._close(session)
        elif drawn < 0.18:
            self._refusals(session)
        else:
            self._operations(session)

    def _close(self, session: int) -> None:
        draw, cxid = self._draw, self._draw.choice((0, 3))
        self._add(Event(self._zxid, -1, self._ms, session, cxid, "closeSession", ""))
        for sub, path in enumerate(sorted(path for path, owner in self._owners.items() if owner == session)):
            del self._owners[path]
            gone = Event(self._zxid, sub, self._ms, session, cxid, "delete", path)
            self._add(gone._replace(synthetic=draw.random() < 0.5))

    def _refusals(self, session: int) -> None:
        draw = self._draw
        for _ in range(draw.choice((1, 1, 12))):
            error = draw.choice((-101, -110, -110, -103))
            row = Event(self._zxid, -1, self._ms, session, draw.randrange(9), "error", "")
            self._add(row._replace(error=error, applied=False))
            self._zxid += 1
            self._ms += draw.randrange(100)

    def _operations(self, session: int) -> None:
        draw = self._draw
        size = draw.choice((0, 0, 0, 0, 0, 0, 2, 3))
        is_refused = size > 0 and draw.random() < 0.2
        for number in range(max(size, 1)):
            path = self._path()
            known = sorted(path for path in self._owners if self._is_early or "/dead" not in path)
            if known and draw.random() > 0.75:
                path = draw.choice(known)
            row = Event(self._zxid, number if size else -1, self._ms, session, 5, "error", path)
            self._add(self._refused(row) if is_refused else self._operation(row))

    def _refused(self, row: Event) -> Event:
        draw = self._draw
        return row._replace(
            op=draw.choice(("create", "set", "error", "check")),
            path=row.path if draw.random() < 0.7 else "",
            data=b"1",
            version=0,
            error=-110 if draw.random() < 0.5 else None,
            applied=False,
        )

    def _operation(self, row: Event) -> Event:
        """Writes a znode that is there, else creates it; 5 % of the rows do either, whatever is there."""
        draw, path = self._draw, row.path
        is_there = path in self._owners
        if draw.random() > 0.95:
            is_there = draw.random() < 0.5
        if not is_there:
            is_ephemeral = self._is_ephemeral(path) and draw.random() < 0.9
            self._owners[path] = row.session if is_ephemeral else 0
            return row._replace(
                op="create",
                data=self._data(path),
                version=0,
                ephemeral="session" if is_ephemeral else None,
                acl=draw.choice((_OPEN, _OPEN, _CLOSED)),
            )
        often = "set" if "/offsets/" in path else "delete"
        match draw.choice(("set", "delete", often, "check", "setACL")):
            case "set":
                return row._replace(op="set", data=self._data(path), version=3)
            case "delete":
                self._owners.pop(path, None)
                return row._replace(op="delete")
            case "check":
                return row._replace(op="check", version=3)
        return row._replace(op="setACL", version=1, acl=draw.choice((_OPEN, _CLOSED)))

    def _add(self, row: Event) -> None:
        self._rows.append(row)

    @staticmethod
    def _is_ephemeral(path: str) -> bool:
        return "/ids/" in path or path == "/controller" or ("/owners/" in path and path.count("/") == 5)

    def _path(self) -> str:
        draw = self._draw
        topic, partition = draw.choice("tu"), draw.choice((0, 1, 2))
        living = draw.choice("gh")
        group = draw.choice((living, "dead")) if self._is_early else living
        places: Mapping[float, str] = {
            0.40: f"/consumers/{group}/offsets/{topic}/{partition}",
            0.70: f"/consumers/{group}/owners/{topic}/{partition}",
            0.80: f"/consumers/{living}/ids/{draw.choice(('m1', 'm2', 'g_host-1'))}",
            0.83: f"/brokers/topics/{topic}",
            0.87: f"/brokers/topics/{topic}/partitions/{partition}/state",
            0.89: f"/brokers/ids/{draw.choice((1, 2))}",
            0.91: "/controller",
            0.92: "/controller_epoch",
            0.93: f"/admin/{draw.choice(_REQUESTS)}",
            0.95: f"/consumers/{group}",
            0.96: f"/consumers/{group}/resets/{draw.randrange(3)}",
            0.97: "/other/x",
            0.98: f"/zkgroup/audit/{group}",
        }
        drawn = draw.random()
        return next(
            (path for below, path in places.items() if drawn < below), f"/consumers/{group}/owners/{topic}"
        )

    def _data(self, path: str) -> bytes | None:
        draw = self._draw
        kinds: tuple[tuple[bool, Callable[[], bytes | None]], ...] = (
            ("/offsets/" in path, self._offset),
            ("/owners/" in path, lambda: draw.choice(_THREADS)),
            ("/ids/" in path and "consumers" in path, lambda: draw.choice(_REGISTRATIONS)),
            (path.endswith("state"), self._state),
            (path.count("/") == 3 and path.startswith("/brokers/topics/"), lambda: draw.choice(_TOPICS)),
            (path == "/controller_epoch", lambda: b"%d" % draw.randrange(1, 4)),
            (path == "/controller", lambda: b'{"version":1,"brokerid":%d}' % draw.choice((1, 2))),
            (
                "reassign" in path,
                lambda: b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}',
            ),
        )
        return next((make() for is_it, make in kinds if is_it), b"x")

    def _offset(self) -> bytes | None:
        return self._draw.choice((b"%d" % self._draw.randrange(200),) * 20 + _ODD_OFFSETS)

    def _state(self) -> bytes:
        draw = self._draw
        isr = draw.choice((b"[1]", b"[1,2]", b"[2]", b"[]"))
        fields = (draw.choice((1, 2)), draw.choice((-1, 1, 2)), draw.randrange(4), isr)
        return b'{"controller_epoch":%d,"leader":%d,"version":1,"leader_epoch":%d,"isr":%b}' % fields


def histories(first: int, number: int) -> Iterator[tuple[int, list[Event]]]:
    """So many, each with its seed."""
    for seed in range(first, first + number):
        yield seed, history_of(seed)
