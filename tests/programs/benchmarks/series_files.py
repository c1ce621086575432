"""Series of tree snapshots as `audit export` and servers write them, of groups whose offsets move.

    python -m tests.programs.benchmarks.series_files exports|snapshots FOLDER COUNT ZNODES CHANGED

writes COUNT files of ZNODES znodes; in each a share CHANGED of the offsets is another than before. Equal
arguments give equal znodes.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.worlds.zkfiles_writer import snapshot
from zkgroup.zkfiles.exports import ExportHeader, exported, write_export
from zkgroup.zkfiles.jute import OPEN_ACL
from zkgroup.zkfiles.records import StoredStat, StoredZnode

HOUR_MS = 3_600_000
FIRST_MS = 1_700_000_000_000
_PARTITIONS = 100


def trees(
    count: int, znodes: int, changed: float, seed: int = 1
) -> Iterator[tuple[int, int, list[StoredZnode]]]:
    """Zxid, time and znodes of each snapshot, a parent before its children."""
    pick = random.Random(seed)
    tree = [_znode(path, zxid) for zxid, path in enumerate(_paths(znodes), 1)]
    offsets = [place for place, znode in enumerate(tree) if znode.path.count("/") == 5]
    zxid = len(tree)
    for number in range(count):
        time_ms = FIRST_MS + number * HOUR_MS
        for place in pick.sample(offsets, min(round(changed * znodes), len(offsets))):
            zxid += 1
            old = tree[place]
            stat = old.stat._replace(mzxid=zxid, mtime=time_ms, version=old.stat.version + 1)
            tree[place] = StoredZnode(old.path, b"%d" % zxid, old.acl, stat)
        zxid += 1
        yield zxid, time_ms, tree


def _paths(znodes: int) -> Iterator[str]:
    paths = ["/", "/consumers"]
    for group in range(znodes):
        for topic in range(4):
            above = f"/consumers/group-{group}/offsets/topic-{topic}"
            if not topic:
                paths += [f"/consumers/group-{group}", f"/consumers/group-{group}/offsets"]
            paths += [above, *(f"{above}/{number}" for number in range(_PARTITIONS))]
        if len(paths) >= znodes:
            break
    yield from paths[:znodes]


def _znode(path: str, zxid: int) -> StoredZnode:
    data = b"%d" % zxid if path.count("/") == 5 else None
    return StoredZnode(path, data, OPEN_ACL, StoredStat(zxid, zxid, FIRST_MS, FIRST_MS, 0, 0, 0, 0, zxid))


def write_series(kind: str, folder: Path, count: int, znodes: int, changed: float) -> Sequence[Path]:
    """The files in their order."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for zxid, time_ms, tree in trees(count, znodes, changed):
        if kind == "snapshots":
            written.append(folder / f"snapshot.{zxid:x}")
            written[-1].write_bytes(snapshot(tree, last_zxid=zxid))
            continue
        written.append(folder / f"{zxid:016x}.zkexport")
        header = ExportHeader(time_ms=time_ms, source="", zxid_before=zxid, zxid_after=zxid)
        write_export(written[-1], header, (exported(each, 0) for each in tree), overwrite=True)
    return written


if __name__ == "__main__":
    kind, place, *numbers = sys.argv[1:]
    write_series(kind, Path(place), int(numbers[0]), int(numbers[1]), float(numbers[2]))
