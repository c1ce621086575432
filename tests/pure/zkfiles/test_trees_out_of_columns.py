"""The tree at a moment is the same out of columns as record by record, with the same account of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds import zkfiles_writer as writer
from tests.worlds.golden_data import FOLDER
from tests.worlds.server_history import ServerHistory
from tests.worlds.zkfiles_tables import needs_kernel
from zkgroup.zkfiles import history, replay, servers
from zkgroup.zkfiles.history import Account, History, PastTree
from zkgroup.zkfiles.tree import Compared, Tree

pytestmark = needs_kernel
SAW = history._Replay.saw
SERVERS = sorted(path.parent for path in FOLDER.glob("zookeeper/**/version-2"))


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The last zxids of records that were applied in columns, of short logs too."""
    made: list[int] = []

    def saw(run: history._Replay, last: int, compared: Compared) -> None:
        if compared.records > 1:
            made.append(last)
        SAW(run, last, compared)

    monkeypatch.setattr(servers, "QUICK_BYTES", 0)
    monkeypatch.setattr(history._Replay, "saw", saw)
    return made


def told(past: PastTree, source: History) -> tuple[Account, dict[int, int], object]:
    return past.account, past.tree.sessions, [server.damages for server in source.ensemble.servers]


def same_both_ways(*folders: Path, zxid: int | None = None, time_ms: int | None = None) -> Tree:
    quick, exact = History(*folders), History(*folders)
    one = quick.tree_at(zxid=zxid, time_ms=time_ms)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay, "can_replay_columns", lambda: False)
        other = exact.tree_at(zxid=zxid, time_ms=time_ms)
    assert told(one, quick) == told(other, exact)
    assert one.tree.first_difference(other.tree, except_below="/none") is None
    assert one.tree.digest == other.tree.digest
    assert (one.tree.zxid, one.tree.time_ms) == (other.tree.zxid, other.tree.time_ms)
    return one.tree


@pytest.mark.parametrize("folder", SERVERS, ids=lambda path: "-".join(path.parts[-2:]))
def test_folders_of_real_servers(folder: Path, taken: list[int]) -> None:
    """At the end, beyond it, and at some zxids and times on the way."""
    records = list(History(folder).transactions())
    for record in records[20 :: max(len(records) // 4, 1)]:
        same_both_ways(folder, zxid=record.zxid)
        same_both_ways(folder, time_ms=record.time_ms)
    same_both_ways(folder)
    same_both_ways(folder, zxid=records[-1].zxid + 5)


def some_records(count: int = 40) -> ServerHistory:
    world = ServerHistory()
    world.create("/n", b"1")
    for number in range(count - 1):
        world.set("/n", str(number).encode())
    return world


@pytest.mark.parametrize("asked", [9, 12, 25, 26, 40, 50])
def test_a_hole(asked: int, tmp_path: Path, taken: list[int]) -> None:
    """It is named as before, wherever the zxid is."""
    world = some_records(25)
    world.skip(5)
    for number in range(10):
        world.set("/n", b"x%d" % number)
    world.log(tmp_path, 1)
    same_both_ways(tmp_path, zxid=asked)
    assert bool(taken) == (asked < 40), "a hole is refused"


@pytest.mark.parametrize("asked", [9, 18, 19, 20, 21, 40])
def test_a_damage(asked: int, tmp_path: Path, taken: list[int]) -> None:
    """What is damaged on the way is noted as before, and nothing that lies behind."""
    world = some_records()
    path = world.log(tmp_path, 1)
    raw = bytearray(path.read_bytes())
    record = writer.record(writer.entry(world.transactions[19]))
    raw[raw.index(record) + 50] ^= 1
    path.write_bytes(raw)
    same_both_ways(tmp_path, zxid=asked)


@pytest.mark.parametrize("copies", [1, 2])
def test_a_record_that_no_server_writes(copies: int, tmp_path: Path, taken: list[int]) -> None:
    """Its checksum is right; it is noted as before, of each server that has it."""
    world = some_records()
    entry = writer.entry(world.transactions[19])
    other = entry[:32] + b"\x7f" + entry[33:]
    folders = [tmp_path / str(number) for number in range(copies)]
    for folder in folders:
        path = world.log(folder, 1)
        path.write_bytes(path.read_bytes().replace(writer.record(entry), writer.record(other)))
    found = same_both_ways(*folders)
    assert found.zxid == 40


def test_a_digest_that_differs(tmp_path: Path, taken: list[int]) -> None:
    """The first one is named."""
    world = some_records()
    wrong = writer.TreeDigest(2, 5)
    world.transactions[29] = world.transactions[29]._replace(digest=wrong)
    world.log(tmp_path, 1)
    same_both_ways(tmp_path, zxid=29)
    assert taken == [29]
    same_both_ways(tmp_path, zxid=35)
    assert History(tmp_path).tree_at(zxid=35).account.first_bad_zxid == 30
    assert taken == [29, 35, 35], "so that the comparison is one"
