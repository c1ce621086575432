"""`zkgroup demo group`: three members share partitions, one is killed, another joins."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

from rich.console import Group, RenderableType
from rich.text import Text

from zkgroup.demo.checks import CheckResult
from zkgroup.demo.flight_data import PARTITIONS, TOPIC, listed, write_topic
from zkgroup.demo.processes import Child
from zkgroup.demo.run import DemoRun
from zkgroup.demo.screen import COLORS, Row, bar, beside, frame, state, table
from zkgroup.errors import ConflictError, ZkGroupError
from zkgroup.groups.reader import group_names

NAMES = ("ada", "ben", "cleo", "dan")  # three start, the second is killed, the last joins afterwards
SESSION_MS = 4_000
RECORDS_PER_S = 550  # each member's speed: the records last for about half a minute
EVENTS_MIN = {"claims": PARTITIONS, "ownership_changes": 1, "commits": PARTITIONS, "deliveries": 1}
"""Least contents of the recorded history: with less it proves nothing."""
EVENT_LINES_MIN = 8  # with room for fewer events, the partitions are drawn in two columns
BAR = 30


@dataclass(kw_only=True)
class GroupRun(DemoRun):
    """The steps of the scenario, and their result."""

    command: ClassVar[str] = "zkgroup demo"

    lines: Sequence[Sequence[bytes]] = ()
    """The records of each partition."""
    made_topic: bool = False
    takeover_s: float = 0.0
    """From the SIGKILL until running members owned every partition again."""

    def play(self) -> None:
        """Runs the scenario until all members have left, and removes what it has created elsewhere."""
        self._prepare()
        try:
            self._share()
            self._leave()
        finally:
            self.close()
            if not self.options.keep and self.options.zookeeper is not None:
                self._clear()

    def _prepare(self) -> None:
        """Creates the topic and the files with its records. Raises ConflictError for another topic."""
        self.lines = write_topic(self.folder / "records")
        topics = {row.topic: row.partitions for row in self.admin.list_topics()}
        self.made_topic = TOPIC not in topics
        if self.made_topic:
            self.admin.create_topic(TOPIC, PARTITIONS)
        elif topics[TOPIC] != PARTITIONS:
            raise ConflictError(
                f"topic {TOPIC}: expected {PARTITIONS} partitions or no such topic, found {topics[TOPIC]}; "
                "give the demo a chroot of its own: --zookeeper HOST:PORT/demo"
            )
        taken = set(group_names(self.ensemble))  # with old offsets
        names = ("demo" if number == 1 else f"demo-{number}" for number in count(1))
        self.group = next(name for name in names if name not in taken)
        self.log(f"ZooKeeper is up; topic {TOPIC}: {PARTITIONS} partitions, {self.total:,} records")

    def _clear(self) -> None:
        try:
            self.admin.delete_group(self.group)
            if self.made_topic:
                self.admin.delete_topic(TOPIC)
        except ZkGroupError as error:
            self.log(f"could not clean up: {error}", "bad")

    def _share(self) -> None:
        self.headline = "three members share twelve partitions"
        for name in NAMES[:3]:
            self._start(name)
        self.until("the first three members share all partitions", lambda: self.is_shared_by(NAMES[:3]))
        self.log("every partition has an owner", "good")
        self.interlude()
        self.until("a third of the records is committed", lambda: self.owned.committed > self.total / 3)
        self._kill(self.members[1])
        self.headline = "a new member joins"
        self._start(NAMES[3])
        before = self.owned.tokens
        heirs = (NAMES[0], NAMES[2], NAMES[3])
        self.until("the new member has its share", lambda: self.is_shared_by(heirs))
        stayed = sorted(n for n, token in self.owned.tokens.items() if before.get(n) == token)
        self.log(f"{NAMES[3]} has its share; not touched: {listed(stayed)} (same token as before)", "good")

    def interlude(self) -> None:
        """A hook for the audit demo, while the first three members share all partitions."""

    @property
    def total(self) -> int:
        return sum(map(len, self.lines))

    def _start(self, name: str) -> None:
        member = self.start_member(name, str(self.folder / "records"), RECORDS_PER_S, SESSION_MS)
        self.log(f"{name} starts (process {member.pid})")

    def _kill(self, victim: Child) -> None:
        text = f"SIGKILL to {victim.name}, owner of partitions {listed(self.owned.of(victim.name))}"
        killed_s = self.kill(victim, text, SESSION_MS)
        alive = [one.name for one in self.members if not one.killed]
        self.until("the survivors own everything", lambda: self.is_shared_by(alive))
        self.takeover_s = time.monotonic() - killed_s
        self.log(f"taken over by {' and '.join(alive)} after {self.takeover_s:.1f} s", "good")

    def _leave(self) -> None:
        self.headline = "draining to the end"
        self.until("every record is committed", lambda: self.owned.committed >= self.total)
        self.log("every record is committed; running group verify", "good")
        self.verify()
        self.headline = "leaving"
        self.stop_members()
        self.headline = "the end"
        self.log("all members have left; reading what they wrote")

    def on_child_event(self, child: Child, event: dict[str, Any]) -> None:
        """Prints what a member gets and gives."""
        verb = {"assigned": "gets", "revoked": "hands over", "lost": "loses"}.get(event["event"])
        if verb:
            text = f"{child.name} {verb} {listed(event['partitions'])}"
            self.log(text, "bad" if verb == "loses" else "plain")

    def judge(self) -> Iterable[CheckResult]:
        return self.check_members(self.lines, EVENTS_MIN)

    def draw(self, width: int = 100, height: int = 40) -> RenderableType:
        """Members and partitions; a low terminal shows the partitions in two columns."""
        colors = {one.name: COLORS[i % len(COLORS)] for i, one in enumerate(self.members)}
        lines = 2 + len(self.members)
        tall = height - lines - len(self.lines) - 5 >= EVENT_LINES_MIN
        rows = len(self.lines) + 2 if tall else (len(self.lines) + 1) // 2 + 2
        shown = [self._row(one, colors[one.name]) for one in self.members]
        members = table("member,>pid,state,>records,partitions", shown)
        drawn = self._partitions(colors, width, tall=tall)
        return frame(self, [members, Text(), drawn], lines + rows, width, height)

    def _row(self, one: Child, color: str) -> Row:
        faded = "dim" if one.ended else ""
        process: Row = [(one.name, faded or color), (one.pid, faded), state(one.state)]
        return [*process, (f"{one.processed:,}", faded), (listed(self.owned.of(one.name), " "), color)]

    def _partitions(self, colors: Mapping[str, str], width: int, *, tall: bool) -> RenderableType:
        size = BAR if tall else max(0, min(BAR, width // 2 - 36))
        rows = [self._partition(number, colors, size) for number in range(len(self.lines))]
        done, total = self.owned.committed, self.total
        if tall:
            rows.append(["", "", "", f"{done:,}", f"{total - done:,}", bar(done, total, BAR)])
            return table(">partition,owner,>token,>offset,>lag,", rows)
        rows = [[*row[:2], *row[3:]] for row in rows]
        half = (len(rows) + 1) // 2
        tables = [table(">partition,owner,>offset,>lag,", some) for some in (rows[:half], rows[half:])]
        return Group(beside(tables), beside([f"{done:,} of {total:,} committed", bar(done, total, BAR)]))

    def _partition(self, number: int, colors: Mapping[str, str], size: int) -> Row:
        """Number, owner, token, offset, lag and progress of a partition."""
        name, missing = self.owned.owners.get(number), any(not one.ended for one in self.members)
        owner = (name, colors.get(name, "")) if name else ("none", "bold red" if missing else "dim")
        end, offset = len(self.lines[number]), max(self.owned.offsets.get(number, 0), 0)
        lag = (f"{end - offset:,}", "" if end > offset else "dim")
        token = (self.owned.tokens.get(number, ""), "dim")
        return [number, owner, token, f"{offset:,}", lag, bar(offset, end, size)]
