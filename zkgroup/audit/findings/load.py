"""Findings about the load of ZooKeeper's servers, and about ACLs that are open to all."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from zkgroup.audit.findings.rules import Bounds, Finding, KeyRows, Occurrence, Rule, Severity
from zkgroup.audit.inputs.events import BY_SUBTREE, SET, SET_ACL, Event, Key, Keys
from zkgroup.audit.inputs.facts import Facts, client
from zkgroup.model.text import counted
from zkgroup.zkfiles.records import Acl, epoch_of
from zkgroup.znodes.brokers import broker_ids_path, brokers_path, topics_path
from zkgroup.znodes.consumers import consumers_path, ids_path
from zkgroup.znodes.controller import ControllerRegistration
from zkgroup.znodes.paths import path_kind, subtree_text

if TYPE_CHECKING:
    from zkgroup.audit.findings.tables import ScreenTables

_MINUTE_MS: Final = 60_000
_REFUSED: Final = "refused requests"
_PER_NAME: Final = 4
"""The bytes that a child takes in a reply of getChildren beside its name."""
_CHANGE: Final = 2 | 4 | 8 | 16
"""The permissions to write, create, delete and admin."""
_PROTECTED: Final = (brokers_path(), consumers_path())
_BELOW_PROTECTED: Final = tuple(f"{root}/" for root in _PROTECTED)


def _area(event: Event) -> Key | None:
    """The target of a write: the ids, owners or offsets of a group, else the first two names of the path."""
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
    place = path_kind(event.path)
    if not event.applied or event.op not in ("create", "delete"):
        return None
    if place.kind == "member":
        return ids_path(place.name), place.name
    parent = event.path.rpartition("/")[0]
    if parent in (broker_ids_path(), topics_path()):
        return (parent,)
    return (event.path,) if place.kind == "controller" else None


def _protected(event: Event) -> Key | None:
    if not event.applied or event.op not in ("create", "delete", "setACL"):
        return None
    is_below = f"{event.path}/".startswith(_BELOW_PROTECTED)
    return ("acl",) if is_below or event.op == "setACL" else None


BY_AREA: Final = Keys("area", _area)
"""The rows of writes, and of refused requests; key: the subtree, or one that stands for refused."""
BY_WATCHED: Final = Keys("watched", _watched, frozenset(("member", "broker", "topic", "controller")))
"""Creates and deletes below paths that many clients watch; key: the path, and its group, if it has one."""
ACLS: Final = Keys("acl", _protected)
"""The rows that set an ACL below `/brokers` and `/consumers`; one key."""


@Rule(
    question="Which znodes and lists of children come near to the megabyte that one answer may have, and"
    " which subtrees are large?",
    needs=("tree",),
    act="Beyond `jute.maxbuffer` (1 MB) clients lose their connection when they read it. Delete dead groups"
    " and topics (dead_group); fewer, or shorter, names below one parent.",
    keys=BY_SUBTREE,
    bounds={"data_bytes": 524_288, "list_bytes": 524_288, "znodes": 100_000, "depth": 1},
    is_counted=True,
)
def znode_bloat(tables: ScreenTables, bounds: Bounds) -> Iterator[Finding]:
    """Znodes and lists near the size limit of one reply, and subtrees with very many znodes.

    A subtree has `depth` names; one with `znodes` or more is reported with its largest znode and its
    widest parent.
    """
    import numpy as np

    rows, known = tables.of(BY_SUBTREE), tables.columns.paths
    living, made, written = tables.standing(rows, SET)
    paths, sizes = [known[code] for code in living.tolist()], tables.sizes(rows.rows[written])
    for place in (sizes >= bounds["data_bytes"]).nonzero()[0].tolist():
        at = tables.moment(rows.rows[written[place]])
        detail = f"{paths[place]} holds {sizes[place]} bytes"
        yield Finding("znode_bloat", "warning", from_zxid=at.zxid, from_ms=at.time_ms, detail=detail)
    numbers, lists = Counter[str](), Counter[str]()
    for path in paths:
        parent, _, name = path.rpartition("/")
        numbers[parent] += 1
        lists[parent] += len(name.encode()) + _PER_NAME
    for parent, size in lists.items():
        if parent and size >= bounds["list_bytes"]:  # the names below the root are those of all keys
            detail = f"{parent} has {_children_text(numbers[parent])}, a list of {size} bytes"
            yield Finding("znode_bloat", "warning", detail=detail)
    codes = rows.codes[made]
    for code in (np.bincount(codes) >= bounds["znodes"]).nonzero()[0].tolist():
        of_key = {paths[place]: int(sizes[place]) for place in (codes == code).nonzero()[0].tolist()}
        yield from _large_subtrees(of_key, int(bounds["depth"]), bounds["znodes"])


def _large_subtrees(sizes: Mapping[str, int], depth: int, enough: float) -> Iterator[Finding]:
    children = Counter(path.rpartition("/")[0] for path in sizes)
    subtrees, parents = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for path in sizes:
        subtrees[subtree_text(path, depth)].append(path)
    for parent in filter(None, children):
        parents[subtree_text(parent, depth)].append(parent)
    for subtree, paths in subtrees.items():
        if len(paths) >= enough:
            largest = min(paths, key=lambda path: (-sizes[path], path))
            widest = min(parents[subtree], key=lambda path: (-children[path], path), default=None)
            wide = f"; the widest is {widest} with {_children_text(children[widest])}" if widest else ""
            data = sum(sizes[path] for path in paths)
            detail = (
                f"{subtree}: {counted(len(paths), 'znode')} with {data} bytes of data;"
                f" the largest is {largest} with {sizes[largest]}{wide}"
            )
            yield Finding("znode_bloat", "info", detail=detail)


def _children_text(number: int) -> str:
    return counted(number, "child", "children")


@Rule(
    question="How many clients does one change wake, by what their recipes watch? ZooKeeper does not log"
    " watches.",
    act="Each of them reads at once, and of members each reads every registration. Split large groups, start"
    " members one after another, or use members of zkgroup, which read what changed only.",
    keys=BY_WATCHED,
    bounds={"watchers": 100},
)
def herd_size(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """The number of clients that one change wakes up, estimated."""
    group = key[1] if len(key) > 1 else None
    by_name = facts.brokers if key == (ControllerRegistration.path(),) else facts.members
    known = by_name.values() if group is None else (facts.members.get(group, ()),)
    lives = [life for each in known for life in each]  # the registrations of the clients that watch the path
    begins = sorted(life.from_zxid for life in lives)
    ends = sorted(life.to_zxid for life in lives if life.to_zxid is not None)
    woken: list[tuple[int, Event]] = []
    for event in rows:
        if event.seed:
            continue
        # The clients that were registered before it and still were when it came.
        watchers = bisect_left(begins, event.zxid) - bisect_left(ends, event.zxid)
        if watchers >= bounds["watchers"]:
            woken.append((watchers, event))
    if not woken:
        return
    first, last = woken[0][1], woken[-1][1]
    most, minus_zxid = max((watchers, -event.zxid) for watchers, event in woken)
    wakings = sum(watchers for watchers, _ in woken)
    detail = (
        f"{counted(len(woken), 'change')} of {key[0]} woke"
        f" {counted(wakings, 'watcher')}, at most {most} at once (zxid 0x{-minus_zxid:x})"
    )
    yield Finding.between("herd_size", "warning", first, last, detail, (group, None, None))


@Rule(
    severity="info",
    question="Which subtrees are written most, by whom, and how many requests are refused?",
    act="Every write goes to every server and to its disk. Offsets: commit less often (commit_rate). Owners"
    " and ids: see rebalance_storm. States: see isr_flapping. Refused requests: a client that repeats them.",
    keys=BY_AREA,
    bounds={"per_minute": 600},
    is_counted=True,
)
def write_hot_spot(tables: ScreenTables, bounds: Bounds) -> Iterator[Finding]:
    """The subtrees that get the writes, minute by minute.

    Refused requests, which have no path, are a place of their own, reported with their share of all
    transactions from the first to the last of them in that minute: within an epoch zxids have no gaps.
    """
    from zkgroup.audit.findings.tables import equal_runs, rows_by_key

    columns = tables.columns
    for (area,), rows in rows_by_key(tables.of(BY_AREA)):
        transactions, sizes = equal_runs(columns.zxid[rows])
        more = f"; biggest transaction {sizes.max()}"
        if area == _REFUSED:  # each operation of a failed multi has a row
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
            more = ""
            if epoch_of(first.zxid) == epoch_of(last.zxid):  # if there was no election in that time
                share = len(part) / (last.zxid - first.zxid + 1)
                more = f"; {share:.0%} of all transactions in that time"
        detail = (
            f"{area}: {counted(len(part), 'operation')},"
            f" {counted(int(tables.sizes(part).sum()), 'byte')} in the busiest minute, {most} of them by"
            f" {client(tables.facts, session)}; {counted(hot, 'minute')} like it{more}"
        )
        group = path_kind(area).name if area.startswith(f"{consumers_path()}/") else None
        yield Finding.between(
            "write_hot_spot", "info", first, last, detail, (group, None, None), session or None
        )


@Rule(
    question="May any client change znodes below /brokers and /consumers, and who changed ACLs?",
    needs=("tree",),
    act="Kafka before 0.9 leaves everything open; then the network has to keep others out. Where a part is"
    " closed and a part open, run Kafka's ZkSecurityMigrator, or close what is named.",
    keys=ACLS,
    is_counted=True,
)
def open_acl(tables: ScreenTables, bounds: Bounds) -> Iterator[Finding]:
    """The clients that may change the znodes which groups and brokers need."""
    rows, columns = tables.of(ACLS), tables.columns
    living, _, given = tables.standing(rows, SET_ACL)
    acls = columns.acl[rows.rows[given]].tolist()
    by_acl: dict[int, list[str]] = defaultdict(list)
    for code, acl in zip(living.tolist(), acls, strict=True):
        by_acl[acl].append(columns.paths[code])
    opened, closed, missing = list[str](), list[str](), list[str]()
    for code, paths in by_acl.items():
        acl = columns.acls[code]
        (missing if acl is None else opened if is_open(acl) else closed).extend(paths)
    changers = columns.session[rows.rows[columns.op[rows.rows] == SET_ACL]].tolist()
    # If no ACL at all is known, none was read.
    is_known = bool(opened or closed or changers)
    if not is_known or not (opened or missing or changers):
        return
    severity: Severity = "warning" if missing or (opened and closed) else "info"
    example = f", such as {min(opened)}" if opened and closed else ""
    detail = f"any client may change {len(opened)} of {len(living)} znodes below"
    detail += f" {' and '.join(_PROTECTED)}{example}"
    if missing:
        lacking = f"{len(missing)} have an ACL that the snapshot lacks (ZOOKEEPER-4689)"
        detail += f"; {lacking}, such as {min(missing)}"
    since = Occurrence(tables.facts.end_zxid, tables.facts.end_ms)
    if tables.facts.has_log:
        sessions = counted(len(set(changers)), "session")
        detail += f"; {counted(len(changers), 'change')} of ACLs by {sessions}"
        since = tables.moment(rows.rows[0])
    yield Finding.between("open_acl", severity, since, None, detail)


def is_open(acl: Acl) -> bool:
    """True if any client may change a znode with this ACL."""
    return any((each.scheme, each.id) == ("world", "anyone") and each.perms & _CHANGE for each in acl)
