"""Who may change what the groups and the brokers stand on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING

from zkgroup.audit.columns.codes import CREATE, SET_ACL
from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import Key, Keys
from zkgroup.audit.rules import Bounds, Finding, Rule, Screened, Severity, folded
from zkgroup.audit.texts import count_text
from zkgroup.zkfiles.records import Acl
from zkgroup.znodes.brokers import brokers_path
from zkgroup.znodes.consumers import consumers_path

if TYPE_CHECKING:
    from zkgroup.audit.columns.tables import Tables

_CHANGE = 2 | 4 | 8 | 16
"""write, create, delete, admin"""
_SUBTREES = (brokers_path(), consumers_path())


def _protected(event: Event) -> Key | None:
    if not event.applied or event.op not in ("create", "delete", "setACL"):
        return None
    is_below = any(event.path == root or event.path.startswith(f"{root}/") for root in _SUBTREES)
    return ("acl",) if is_below or event.op == "setACL" else None


ACLS = Keys("acl", _protected)
"""What gives or takes rights below `/brokers` and `/consumers`, and every change of an ACL; one key."""


class _Rights(Enum):
    OPEN = "open"
    CLOSED = "closed"
    MISSING = "missing"


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._rights: dict[str, _Rights] = {}
        self._changes = 0
        self._changers: set[int] = set()
        self._first: Event | None = None

    def see(self, event: Event) -> Iterable[Finding]:
        self._first = self._first or event
        if event.op == "delete":
            self._rights.pop(event.path, None)
        elif event.op == "create" or event.path in self._rights:
            self._rights[event.path] = _rights(event.acl)
        if event.op == "setACL":
            self._changes += 1
            self._changers.add(event.session)
        return ()

    def end(self) -> Iterator[Finding]:
        counts = dict.fromkeys(_Rights, 0)
        for rights in self._rights.values():
            counts[rights] += 1
        opened, closed, missing = (counts[each] for each in _Rights)
        # Where no ACL at all is known, they were not read.
        is_known = bool(opened or closed or self._changes)
        if self._first is None or not is_known or not (opened or missing or self._changes):
            return
        severity: Severity = "warning" if missing or (opened and closed) else "info"
        lacking = (
            f" {missing} have an ACL that the snapshot lacks (ZOOKEEPER-4689)"
            f"{self._example(_Rights.MISSING)};"
            if missing
            else ""
        )
        yield Finding(
            RULE.name,
            severity,
            from_zxid=self._first.zxid,
            from_ms=self._first.time_ms,
            detail=f"any client may change {opened} of {len(self._rights)} znodes below"
            f" {' and '.join(_SUBTREES)}{self._example(_Rights.OPEN) if closed else ''};{lacking}"
            f" {count_text(self._changes, 'change')} of ACLs by {count_text(len(self._changers), 'session')}",
        )

    def _example(self, wanted: _Rights) -> str:
        first = min((path for path, rights in self._rights.items() if rights is wanted), default=None)
        return "" if first is None else f", such as {first}"


def _rights(acl: Acl | None) -> _Rights:
    if acl is None:
        return _Rights.MISSING
    is_open = any((each.scheme, each.id) == ("world", "anyone") and each.perms & _CHANGE for each in acl)
    return _Rights.OPEN if is_open else _Rights.CLOSED


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """All rows of the first path, and of those with changed ACLs; of others the last, if it is a create."""
    from zkgroup.audit.columns.tree import have_rows, is_last_of_path

    rows = tables.of(ACLS)
    columns = tables.columns
    op, paths = columns.op[rows.rows], columns.path[rows.rows]
    matters = is_last_of_path(columns, rows) & (op == CREATE)
    whole = have_rows(columns, rows.where(op == SET_ACL))
    whole[paths[:1]] = True
    matters |= whole[paths]
    return Screened(rows.where(matters))


RULE = Rule(
    name="open_acl",
    severity="warning",
    question="May any client change znodes below /brokers and /consumers, and who changed ACLs?",
    needs=("snapshot",),
    act="Kafka before 0.9 leaves everything open; then the network has to keep others out. Where a part is"
    " closed and a part open, run Kafka's ZkSecurityMigrator, or close what is named.",
    keys=ACLS,
    find=folded(_Fold),
    screen=_screen,
)
