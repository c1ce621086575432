"""What came and went between two snapshots, by subtree.

Each snapshot that can be read is compared with the one before it, of whatever server. Changed is what was
written in between, or made anew. A subtree has `depth` names. Snapshots are taken while writes go on, so a
few changes around them may be counted on the other side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from zkgroup.audit.facts import Facts
from zkgroup.audit.rules import Bounds, Finding, WholeRule
from zkgroup.audit.texts import count_text, subtree_text
from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.names import ServerFile
from zkgroup.zkfiles.snapshots import open_snapshot


class _Seen(NamedTuple):
    """One snapshot, as far as it is compared. Memory: path and number for each znode."""

    zxid: int
    latest_ms: int
    """The last write that it shows."""
    mzxids: dict[str, int]
    znodes: Counter[str]
    """By subtree."""
    sizes: Counter[str]
    """Bytes of data, by subtree."""


def _find(history: History, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    depth = int(bounds["depth"])
    before: _Seen | None = None
    for file in _files(history):
        try:
            after = _read(file, depth)
        except (DamagedFileError, NotZooKeeperFileError):
            continue  # reported by `digest_mismatch` and `audit inspect`
        if before is not None:
            yield from _compared(before, after, depth)
        before = after


def _files(history: History) -> list[ServerFile]:
    """Snapshots of all servers by zxid, one of each."""
    files = {each.zxid: each for server in history.ensemble.servers for each in server.files.snapshots}
    return [files[zxid] for zxid in sorted(files)]


def _read(file: ServerFile, depth: int) -> _Seen:
    reader = open_snapshot(file.path, file.zxid)
    seen = _Seen(file.zxid, 0, {}, Counter(), Counter())
    latest = 0
    for znode in reader.znodes():
        subtree = subtree_text(znode.path, depth)
        seen.mzxids[znode.path] = znode.stat.mzxid
        seen.znodes[subtree] += 1
        seen.sizes[subtree] += len(znode.data or b"")
        latest = max(latest, znode.stat.mtime)
    return seen._replace(latest_ms=latest)


def _compared(before: _Seen, after: _Seen, depth: int) -> Iterator[Finding]:
    added: Counter[str] = Counter()
    removed: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    for path, mzxid in after.mzxids.items():
        known = before.mzxids.get(path)
        if known is None:
            added[subtree_text(path, depth)] += 1
        elif known != mzxid:
            changed[subtree_text(path, depth)] += 1
    for path in before.mzxids:
        if path not in after.mzxids:
            removed[subtree_text(path, depth)] += 1
    for subtree in sorted({*added, *removed, *changed}):
        sizes = [count_text(seen.sizes[subtree], "byte") for seen in (before, after)]
        was = f"{count_text(before.znodes[subtree], 'znode')}, {sizes[0]} of data"
        now = f"{after.znodes[subtree]}, {sizes[1]}"
        yield Finding(
            RULE.name,
            RULE.severity,
            from_zxid=before.zxid,
            to_zxid=after.zxid,
            from_ms=before.latest_ms or None,
            to_ms=after.latest_ms or None,
            detail=f"{subtree}: {added[subtree]} added, {removed[subtree]} removed,"
            f" {changed[subtree]} changed; {was} -> {now}",
        )


RULE = WholeRule(
    name="growth",
    severity="info",
    question="How did the tree grow from one snapshot to the next, and where?",
    needs=("snapshot",),
    act="A subtree that only grows will one day be too big: see `znode_bloat` for where, `dead_group` for"
    " groups that can go.",
    find=_find,
    bounds={"depth": 1},
)
