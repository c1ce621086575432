"""Findings about what loads ZooKeeper's servers, and who may change the tree."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from zkgroup.audit.findings.rules import Bounds, Finding, KeyRows, Rule, Severity
from zkgroup.audit.inputs.events import CREATE, SET_ACL, Event
from zkgroup.audit.inputs.facts import Facts, Life
from zkgroup.audit.inputs.keys import BY_SUBTREE, Key, Keys
from zkgroup.audit.inputs.texts import count_text, subtree_text, who
from zkgroup.zkfiles.records import Acl
from zkgroup.zkfiles.zxids import epoch_of
from zkgroup.znodes.brokers import broker_ids_path, brokers_path, topics_path
from zkgroup.znodes.consumers import consumers_path, ids_path
from zkgroup.znodes.controller import ControllerRegistration
from zkgroup.znodes.paths import path_kind

if TYPE_CHECKING:
    from zkgroup.audit.findings.tables import ScreenTables, Selection

_MINUTE_MS: Final = 60_000
_REFUSED: Final = "refused requests"
_PER_NAME: Final = 4
"""Bytes that a child costs in a list answer beside its name."""
_CHANGE: Final = 2 | 4 | 8 | 16
"""write, create, delete, admin"""
_PROTECTED: Final = (brokers_path(), consumers_path())


def _area(event: Event) -> Key | None:
    """Returns what a write is a write to: of a group its ids, owners or offsets, else the first two names."""
    if event.seed or event.op == "check":
        return None
    if not event.applied:
        return (_REFUSED,) if event.op == "error" else None
    if not event.path:
        return None
    names = event.path.split("/")
    depth = 4 if names[1] == "consumers" else 3
    return ("/".join(names[:depth]),)


def _watched(event: Event) -> Key | None:
    """The path whose watches a change fires."""
    if not event.applied or event.op not in ("create", "delete"):
        return None
    place = path_kind(event.path)
    match place.kind:
        case "member":
            return ids_path(place.name), place.name
        case "broker" if event.path.count("/") == 3:
            return (broker_ids_path(),)
        case "topic" if event.path.count("/") == 3:
            return (topics_path(),)
        case "controller":
            return (ControllerRegistration.path(),)
    return None


def _protected(event: Event) -> Key | None:
    if not event.applied or event.op not in ("create", "delete", "setACL"):
        return None
    is_below = any(event.path == root or event.path.startswith(f"{root}/") for root in _PROTECTED)
    return ("acl",) if is_below or event.op == "setACL" else None


BY_AREA: Final = Keys("area", _area)
"""The rows of what was written, and of what was refused; key: the subtree, or that it was refused."""
BY_WATCHED: Final = Keys("watched", _watched, frozenset(("member", "broker", "topic", "controller")))
"""Rows of what comes and goes below paths that many watch; key: the path, and the group, if it is of one."""
ACLS: Final = Keys("acl", _protected)
"""Rows that give or take rights below `/brokers` and `/consumers`, and changes of an ACL; one key."""


class _Children(NamedTuple):
    """Holds what a list of children holds."""

    number: int = 0
    size: int = 0
    """Bytes of the answer."""


def _znode_bloat_screen(tables: ScreenTables, bounds: Bounds) -> Selection:
    """The last rows of what is there at the end, of subtrees with something large, wide or numerous."""
    from zkgroup.audit.findings.tables import TreeTable

    return TreeTable(tables, tables.of(BY_SUBTREE)).of_large_subtrees(bounds)


@partial(
    Rule,
    question="Which znodes and lists of children come near to the megabyte that one answer may have, and"
    " which subtrees are large?",
    needs=("snapshot",),
    act="Beyond `jute.maxbuffer` (1 MB) clients lose their connection when they read it. Delete dead groups"
    " and topics (dead_group); fewer, or shorter, names below one parent.",
    keys=BY_SUBTREE,
    bounds={"data_bytes": 524_288, "list_bytes": 524_288, "znodes": 100_000, "depth": 1},
    screen=_znode_bloat_screen,
)
def znode_bloat(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Znodes and lists that come near to what one answer may hold, and subtrees with very many znodes.

    A subtree has `depth` names; one with `znodes` or more is reported with its largest znode and its
    widest parent.
    """
    # Memory: path and size of each znode, no data.
    sizes: dict[str, int] = {}
    written: dict[str, tuple[int, int]] = {}  # zxid and time of what wrote each znode that is too large
    for event in rows:
        if event.op == "delete":
            sizes.pop(event.path, None)
            written.pop(event.path, None)
        elif event.op == "create" or (event.op == "set" and event.path in sizes):
            sizes[event.path] = len(event.data or b"")
            if sizes[event.path] >= bounds["data_bytes"]:
                written[event.path] = (event.zxid, event.time_ms)
            else:
                written.pop(event.path, None)
    for path, (zxid, time_ms) in sorted(written.items()):
        detail = f"{path} holds {sizes[path]} bytes"
        yield Finding("znode_bloat", "warning", from_zxid=zxid, from_ms=time_ms, detail=detail)
    lists = _lists(sizes)
    for parent, children in sorted(lists.items()):
        if children.size >= bounds["list_bytes"]:
            detail = f"{parent} has {_children_text(children)}, a list of {children.size} bytes"
            yield Finding("znode_bloat", "warning", detail=detail)
    yield from _large_subtrees(sizes, lists, bounds)


def _lists(sizes: Mapping[str, int]) -> dict[str, _Children]:
    """The children of each parent, the root left out: it has the names of all keys."""
    lists: dict[str, _Children] = {}
    for path in sizes:
        parent, _, name = path.rpartition("/")
        if parent:
            known = lists.get(parent, _Children())
            lists[parent] = _Children(known.number + 1, known.size + len(name.encode()) + _PER_NAME)
    return lists


def _large_subtrees(
    sizes: Mapping[str, int], lists: Mapping[str, _Children], bounds: Bounds
) -> Iterator[Finding]:
    depth = int(bounds["depth"])
    znodes, data = Counter[str](), Counter[str]()
    largest: dict[str, str] = {}
    for path, size in sizes.items():
        subtree = subtree_text(path, depth)
        znodes[subtree] += 1
        data[subtree] += size
        known = largest.setdefault(subtree, path)
        if (-size, path) < (-sizes[known], known):
            largest[subtree] = path
    widest: dict[str, str] = {}
    for parent in sorted(lists, key=lambda path: (-lists[path].number, path)):
        widest.setdefault(subtree_text(parent, depth), parent)
    for subtree, count in sorted(znodes.items()):
        if count >= bounds["znodes"]:
            biggest, parent_ = largest[subtree], widest.get(subtree)
            wide = ""
            if parent_ is not None:
                wide = f"; the widest is {parent_} with {_children_text(lists[parent_])}"
            detail = (
                f"{subtree}: {count_text(count, 'znode')} with {data[subtree]} bytes of data;"
                f" the largest is {biggest} with {sizes[biggest]}{wide}"
            )
            yield Finding("znode_bloat", "info", detail=detail)


def _children_text(children: _Children) -> str:
    return count_text(children.number, "child", "children")


@partial(
    Rule,
    question="How many clients does one change wake, by what their recipes watch? ZooKeeper does not log"
    " watches.",
    act="Each of them reads at once, and of members each reads every registration. Split large groups, start"
    " members one after another, or use members of zkgroup, which read what changed only.",
    keys=BY_WATCHED,
    bounds={"watchers": 100},
)
def herd_size(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """How many clients one change wakes up, estimated."""
    lives = _watchers(key, facts)
    begins = sorted(life.from_zxid for life in lives)
    ends = sorted(life.to_zxid for life in lives if life.to_zxid is not None)
    woken: list[tuple[int, Event]] = []
    for event in rows:
        if event.seed:
            continue
        # Those that lived before it and were there when it came.
        watchers = bisect_left(begins, event.zxid) - bisect_left(ends, event.zxid)
        if watchers >= bounds["watchers"]:
            woken.append((watchers, event))
    if not woken:
        return
    first, last = woken[0][1], woken[-1][1]
    most, minus_zxid = max((watchers, -event.zxid) for watchers, event in woken)
    wakings = sum(watchers for watchers, _ in woken)
    detail = (
        f"{count_text(len(woken), 'change')} of {key[0]} woke"
        f" {count_text(wakings, 'watcher')}, at most {most} at once (zxid 0x{-minus_zxid:x})"
    )
    group = key[1] if len(key) > 1 else None
    yield Finding.between("herd_size", "warning", first, last, detail, (group, None, None))


def _watchers(key: Key, facts: Facts) -> Sequence[Life]:
    """Returns who watches a path by the recipes of Kafka's clients."""
    if len(key) > 1:
        return facts.members.get(key[1], ())
    by_name = facts.brokers if key == (ControllerRegistration.path(),) else facts.members
    return [life for lives in by_name.values() for life in lives]


@partial(
    Rule,
    severity="info",
    question="Which subtrees are written most, by whom, and how many requests are refused?",
    act="Every write goes to every server and to its disk. Offsets: commit less often (commit_rate). Owners"
    " and ids: see rebalance_storm. States: see isr_flapping. Refused requests: a client that repeats them.",
    keys=BY_AREA,
    bounds={"per_minute": 600},
    is_counted=True,
)
def write_hot_spot(tables: ScreenTables, bounds: Bounds) -> Iterator[Finding]:
    """Where the writes go, minute by minute.

    Refused requests, which show no path, are a place of their own, reported with their share of all
    transactions from the first to the last of them in that minute: within an epoch zxids have no gaps.
    """
    from zkgroup.audit.findings.tables import equal_runs, rows_by_key

    columns = tables.columns
    for (area,), rows in rows_by_key(tables.of(BY_AREA)):
        transactions, sizes = equal_runs(columns.zxid[rows])
        more = f"; biggest transaction {sizes.max()}"
        if area == _REFUSED:  # of a failed multi each operation has a row
            rows = rows[transactions]
        minutes, counts = equal_runs(columns.time_ms[rows] // _MINUTE_MS)
        hot = int((counts >= bounds["per_minute"]).sum())
        if not hot:
            continue
        busiest = counts.argmax()
        part = rows[minutes[busiest] :][: counts[busiest]]
        first, last = tables.moment(part[0]), tables.moment(part[-1])
        sessions = Counter(columns.session[part].tolist())
        session, most = min(sessions.items(), key=lambda item: (-item[1], item[0]))
        if area == _REFUSED:
            more = _share_text(len(part), first.zxid, last.zxid)
        detail = (
            f"{area}: {count_text(len(part), 'operation')},"
            f" {count_text(int(tables.sizes(part).sum()), 'byte')} in the busiest minute, {most} of them by"
            f" {who(tables.facts, session)}; {count_text(hot, 'minute')} like it{more}"
        )
        group = path_kind(area).name if area.startswith(f"{consumers_path()}/") else None
        yield Finding.between(
            "write_hot_spot", "info", first, last, detail, (group, None, None), session or None
        )


def _share_text(refused: int, from_zxid: int, to_zxid: int) -> str:
    """Returns how many of the transactions of that time were refused; nothing where an election lay in it."""
    if epoch_of(from_zxid) != epoch_of(to_zxid):
        return ""
    return f"; {refused / (to_zxid - from_zxid + 1):.0%} of all transactions in that time"


class _Rights(Enum):
    OPEN = "open"
    CLOSED = "closed"
    MISSING = "missing"


def _open_acl_screen(tables: ScreenTables, bounds: Bounds) -> Selection:
    """All rows of the first path, and of those with changed ACLs; of others the last, if it is a create."""
    from zkgroup.audit.findings.tables import have_rows, is_last_of_path

    rows = tables.of(ACLS)
    columns = tables.columns
    op, paths = columns.op[rows.rows], columns.path[rows.rows]
    matters = is_last_of_path(columns, rows) & (op == CREATE)
    whole = have_rows(columns, rows.where(op == SET_ACL))
    whole[paths[:1]] = True
    matters |= whole[paths]
    return rows.where(matters)


@partial(
    Rule,
    question="May any client change znodes below /brokers and /consumers, and who changed ACLs?",
    needs=("snapshot",),
    act="Kafka before 0.9 leaves everything open; then the network has to keep others out. Where a part is"
    " closed and a part open, run Kafka's ZkSecurityMigrator, or close what is named.",
    keys=ACLS,
    screen=_open_acl_screen,
)
def open_acl(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Who may change what the groups and the brokers stand on."""
    rights: dict[str, _Rights] = {}
    first: Event | None = None
    changers: list[int] = []
    for event in rows:
        first = first or event
        if event.op == "delete":
            rights.pop(event.path, None)
        elif event.op == "create" or event.path in rights:
            rights[event.path] = _rights(event.acl)
        if event.op == "setACL":
            changers.append(event.session)
    counts = Counter(rights.values())
    opened, closed, missing = (counts[each] for each in _Rights)
    # Where no ACL at all is known, they were not read.
    is_known = bool(opened or closed or changers)
    if first is None or not is_known or not (opened or missing or changers):
        return
    severity: Severity = "warning" if missing or (opened and closed) else "info"
    lacking = ""
    if missing:
        example = _example(rights, _Rights.MISSING)
        lacking = f" {missing} have an ACL that the snapshot lacks (ZOOKEEPER-4689){example};"
    changes = (
        f"{count_text(len(changers), 'change')} of ACLs by {count_text(len(set(changers)), 'session')}"
        if facts.has_log
        else "changes of ACLs are in logs only"
    )
    detail = (
        f"any client may change {opened} of {len(rights)} znodes below"
        f" {' and '.join(_PROTECTED)}{_example(rights, _Rights.OPEN) if closed else ''};{lacking} {changes}"
    )
    yield Finding.between("open_acl", severity, first, None, detail)


def _example(rights: Mapping[str, _Rights], wanted: _Rights) -> str:
    first = min((path for path, has in rights.items() if has is wanted), default=None)
    return "" if first is None else f", such as {first}"


def _rights(acl: Acl | None) -> _Rights:
    if acl is None:
        return _Rights.MISSING
    is_open = any((each.scheme, each.id) == ("world", "anyone") and each.perms & _CHANGE for each in acl)
    return _Rights.OPEN if is_open else _Rights.CLOSED
