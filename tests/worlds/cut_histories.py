"""Random histories of groups, and series of tree snapshots that are cut out of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tests.worlds.server_history import ServerHistory
from tests.worlds.zkfiles_writer import snapshot
from zkgroup.zkfiles.exports import ExportHeader, exported, write_export
from zkgroup.zkfiles.records import TreeDigest
from zkgroup.zkfiles.tree import Tree

GROUPS: Final = ("g", "h")
_PARTITIONS: Final = ("t/0", "t/1", "u/0")
_FIXED: Final = (
    *("/consumers", "/brokers", "/brokers/ids", "/brokers/topics", "/admin"),
    *(f"/consumers/{group}{below}" for group in GROUPS for below in ("", "/ids", "/owners", "/offsets")),
    *(
        f"/consumers/{group}/{kind}/{topic}"
        for group in GROUPS
        for kind in ("owners", "offsets")
        for topic in "tu"
    ),
)


def history_of(seed: int, transactions: int = 120) -> ServerHistory:
    """A history of members that come and go, claim and release, commit, fall back and delete offsets."""
    draw = random.Random(seed)
    world = ServerHistory(digests=False)
    for path in _FIXED:
        world.create(path, None)
    world.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1],"1":[1]}}')
    world.create("/brokers/topics/u", b'{"version":1,"partitions":{"0":[1]}}')
    sessions: list[int] = []
    while len(world.transactions) < transactions:
        if len(sessions) < 2 or draw.random() < 0.08:
            sessions.append(0x1000 + len(world.transactions))
            world.open(sessions[-1])
        _step(draw, world, sessions)
    return world


def _step(draw: random.Random, world: ServerHistory, sessions: list[int]) -> None:
    session, group, place = draw.choice(sessions), draw.choice(GROUPS), draw.choice(_PARTITIONS)
    offset, owner = f"/consumers/{group}/offsets/{place}", f"/consumers/{group}/owners/{place}"
    member = f"/consumers/{group}/ids/{group}_host-{session:x}"
    value = b"%d" % draw.randrange(1000)
    drawn = draw.random()
    if drawn < 0.06:
        sessions.remove(session)
        world.close(session, expired=draw.random() < 0.5)
    elif drawn < 0.2 and member not in world.tree:
        world.create(member, b"{}", session, ephemeral=True)
    elif drawn < 0.4:
        if owner in world.tree:
            world.delete(owner, session)
        else:
            thread = b"%s_host-%x-0" % (group.encode(), session)
            world.create(owner, thread, session, ephemeral=draw.random() < 0.9)
    elif offset not in world.tree:
        world.create(offset, value, session)
    elif drawn < 0.45:
        world.delete(offset, session)
    else:
        world.set(offset, value, session)


def cuts_of(seed: int, world: ServerHistory, most: int = 8) -> list[int]:
    """Some zxids of a history, in order."""
    draw = random.Random(f"cuts {seed}")
    zxids = [each.zxid for each in world.transactions[len(_FIXED) :]]
    return sorted(draw.sample(zxids, draw.randrange(2, most)))


def write_tree(
    path: Path, tree: Tree, *, chroot: str = "", changed: Sequence[str] = (), until: Tree | None = None
) -> Path:
    """An export of a tree; the paths that changed are as `until` has them."""
    znodes = []
    for name in sorted({*tree.paths(), *(until or tree).paths()}, key=lambda name: name.split("/")):
        of = until if until is not None and name in changed else tree
        stored, seen = of.stored(name), of.znode(name)
        if stored is not None and seen is not None:
            znodes.append(exported(stored, seen.stat.children_count))
    header = ExportHeader(
        time_ms=tree.time_ms,
        source="",
        chroot=chroot,
        zxid_before=tree.zxid,
        zxid_after=tree.zxid if until is None else until.zxid,
        changed=tuple(changed),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_export(path, header, znodes)
    return path


def write_series(folder: Path, world: ServerHistory, cuts: Sequence[int], draw: random.Random) -> Path:
    """A snapshot at each zxid: an export with any name, or one that a server wrote."""
    for zxid in cuts:
        if draw.random() < 0.5:
            world.snapshot(folder, zxid)
        else:
            write_tree(folder / f"{draw.randrange(1 << 32)}.zkexport", world.at(zxid))
    return folder


def write_fuzzy(folder: Path, world: ServerHistory, zxid: int, draw: random.Random) -> Path:
    """A snapshot that a server wrote while it went on: each znode is of some moment of its window."""
    end = min(zxid + draw.randrange(12), world.zxid)
    trees = [world.at(each) for each in range(zxid, end + 1)]
    paths = sorted({path for tree in trees for path in tree.paths()}, key=lambda path: path.split("/"))
    znodes = [znode for path in paths if (znode := draw.choice(trees).stored(path)) is not None]
    digest = end, TreeDigest(2, trees[-1].digest)
    path = folder / f"snapshot.{zxid:x}"
    path.write_bytes(snapshot(znodes, sessions=trees[0].sessions, digest=digest))
    return path


def write_mixture(seed: int, place: Path) -> tuple[list[Path], list[Path]]:
    """Logs of a stretch, with the tree before them and perhaps later ones, and exports and snapshots of
    before, meanwhile and behind; the files of a server, and the others."""
    world, draw = history_of(seed), random.Random(f"mixture {seed}")
    cuts, server = cuts_of(seed, world, most=14), place / "server"
    zxids = [each.zxid for each in world.transactions]
    first, middle, last = sorted(draw.sample(zxids[2:], 3))
    world.snapshot(server, first - 1)
    world.log(server, first, middle)
    world.log(server, middle + 1, last)
    for zxid in draw.sample(zxids, draw.randrange(3)):
        (world.snapshot if draw.random() < 0.7 else partial(write_fuzzy, world=world, draw=draw))(
            server, zxid=zxid
        )
    base, *logs = [
        server / f"snapshot.{first - 1:x}",
        *(server / f"log.{each:x}" for each in (first, middle + 1)),
    ]
    rest = sorted({*server.iterdir()} - {base, *logs})
    return [base, *logs, *rest], sorted(write_series(place / "series", world, cuts, draw).iterdir())
