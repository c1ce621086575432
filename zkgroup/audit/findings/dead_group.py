"""A group that has offsets, but has had no member for long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from zkgroup.audit.columns.codes import CHECK
from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_GROUP, Key
from zkgroup.audit.rules import Bounds, Finding, Rule, Screened, folded
from zkgroup.audit.texts import count_text, duration_text
from zkgroup.znodes.consumers import offsets_path

if TYPE_CHECKING:
    from zkgroup.audit.columns.tables import Tables


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._group = key[0]
        self._end_ms = facts.end_ms
        self._idle_ms = bounds["idle_ms"]
        self._lives = facts.members.get(self._group, ())
        self._has_members = any(life.to_zxid is None for life in self._lives)
        self._offsets = f"{offsets_path(self._group)}/"
        self._znodes: set[str] = set()
        self._last: tuple[int, int] = (0, 0)
        """Zxid and time of the last write."""

    def see(self, event: Event) -> Iterable[Finding]:
        # A living group's znodes are not worth the memory.
        if not self._has_members and event.op != "check":
            if event.op == "delete":
                self._znodes.discard(event.path)
            else:
                self._znodes.add(event.path)
            written_ms = max(event.time_ms, event.mtime_ms or 0)
            self._last = max(self._last, (event.zxid, written_ms), key=lambda moment: moment[::-1])
        return ()

    def end(self) -> Iterator[Finding]:
        offsets = sum(path.startswith(self._offsets) and path.count("/") == 5 for path in self._znodes)
        zxid, last_ms = self._last
        if not offsets or self._end_ms - last_ms <= self._idle_ms:
            return
        seen = count_text(len(self._lives), "registration") if self._lives else "none"
        yield Finding(
            RULE.name,
            RULE.severity,
            group=self._group,
            from_zxid=zxid,
            from_ms=last_ms,
            detail=f"no member ({seen} in this history) and no write for"
            f" {duration_text(self._end_ms - last_ms)}; {count_text(len(self._znodes), 'znode')}, {offsets}"
            " of them offsets",
        )


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """Groups without a member whose last write is long ago."""
    groups, facts = tables.groups, tables.facts
    is_write = tables.columns.op[groups.rows] != CHECK
    recent = tables.written_ms(groups.rows) >= facts.end_ms - bounds["idle_ms"]
    dead = ~groups.keys_with(is_write & recent)
    for code, (group,) in enumerate(groups.keys):
        dead[code] &= not any(life.to_zxid is None for life in facts.members.get(group, ()))
    return Screened(groups.of_keys(dead))


RULE = Rule(
    name="dead_group",
    severity="info",
    question="Which groups have offsets, but no member and no write for days?",
    needs=("snapshot",),
    act="If no member will come back, save the offsets by `zkgroup offsets export`, and delete the group by"
    " `zkgroup group delete`.",
    keys=BY_GROUP,
    find=folded(_Fold),
    bounds={"idle_ms": 7 * 86_400_000},
    screen=_screen,
)
