"""Files of real servers are read as ZooKeeper's own TxnLogToolkit and SnapshotFormatter print them.

What those tools print is recorded beside the files; `tests/golden/README.md` says how both were made.
"""

from __future__ import annotations

import base64
import gzip
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.worlds.golden_data import FOLDER
from zkgroup.zkfiles.files import FileBytes, list_files
from zkgroup.zkfiles.logs import LogReader, inspect_log
from zkgroup.zkfiles.records import StoredZnode, Transaction, TransactionType, TreeDigest
from zkgroup.zkfiles.snapshots import inspect_snapshot, open_snapshot

KAFKA, RELEASES = FOLDER / "kafka-0.8.2.2", FOLDER / "zookeeper"
SERVERS = [
    KAFKA / "zookeeper-3.4.6",
    KAFKA / "zookeeper-3.9.4",
    KAFKA / "zookeeper-3.4.6-incidents",
    RELEASES / "3.5.9" / "server-1",
    *(RELEASES / "3.8.4" / f"server-{number}" for number in (1, 2, 3)),
]
LOGS = [each.path for server in SERVERS for each in list_files(server).logs]
SNAPSHOTS = [each.path for server in SERVERS for each in list_files(server).snapshots]
T = TransactionType
NAMES = {
    T.CLOSE_SESSION: "closeSession",
    T.CREATE_SESSION: "createSession",
    T.ERROR: "error",
    T.CREATE: "create",
    T.DELETE: "delete",
    T.SET_DATA: "setData",
    T.SET_ACL: "setACL",
    T.CHECK: "check",
    T.MULTI: "multi",
    T.CREATE2: "create2",
    T.RECONFIG: "reconfig",
    T.CREATE_CONTAINER: "createContainer",
    T.DELETE_CONTAINER: "deleteContainer",
    T.CREATE_TTL: "createTTL",
}
LINE = re.compile(
    r"^(\d+/\d+/\d+, \d+:\d+:\d+ [AP]M UTC) session 0x(\w+) cxid 0x(\w+) zxid 0x(\w+) (\w+) ?", re.MULTILINE
)
STAT = re.compile(
    r"cZxid = 0x(\w+)\n  ctime = (.*)\n  mZxid = 0x(\w+)\n  mtime = (.*)\n  pZxid = 0x(\w+)\n"
    r"  cversion = (-?\d+)\n  dataVersion = (-?\d+)\n  aclVersion = (-?\d+)\n  ephemeralOwner = 0x(\w+)\n"
    r"  data = (.*)\n"
)


def named(path: Path) -> str:
    return f"{path.parent.parent.relative_to(FOLDER)}/{path.name}"


def formatted(path: Path) -> str:
    """What the tool printed for a file."""
    recorded = path.parent.parent / "formatted" / f"{path.with_suffix('').name}.txt.gz"
    return gzip.decompress(recorded.read_bytes()).decode("utf-8", "replace")


class Printed(NamedTuple):
    """One transaction as the tool prints it."""

    seconds: int
    session: int
    cxid: int
    zxid: int
    kind: str
    body: str


def printed(path: Path) -> list[Printed]:
    output = formatted(path)
    found = list(LINE.finditer(output))
    ends = [*(match.start() for match in found[1:]), output.rindex("EOF reached after")]
    return [
        Printed(
            int(datetime.strptime(match[1], "%m/%d/%y, %I:%M:%S %p UTC").replace(tzinfo=UTC).timestamp()),
            *(_signed(match[group], 64 if group != 3 else 32) for group in (2, 3, 4)),
            match[5],
            output[match.end() : end].removesuffix("\n"),
        )
        for match, end in zip(found, ends, strict=True)
    ]


def _signed(digits: str, bits: int) -> int:
    number = int(digits, 16)
    return number - (1 << bits) if number >> bits - 1 else number


def body(transaction: Transaction) -> str:
    """What the tool prints behind the kind, as far as it is unambiguous; a prefix for those with data."""
    kind = transaction.type
    if kind == T.CREATE_SESSION:
        return str(transaction.timeout_ms)
    if kind == T.CLOSE_SESSION:
        paths = transaction.closed_paths
        return "" if paths is None else "v{" + ",".join(f"'{path}" for path in paths) + "}"
    if kind == T.MULTI:
        return ";".join(f"{NAMES[T(each.type)]}:" for each in transaction.operations)
    (operation,) = transaction.operations
    if kind == T.ERROR:
        return str(operation.error)
    if kind in (T.DELETE, T.DELETE_CONTAINER):
        return f"'{operation.path}"
    if kind == T.SET_ACL:
        entries = ",".join(
            f"s{{{each.perms},s{{'{each.scheme},'{each.id}}}}}" for each in operation.acl or ()
        )
        return f"'{operation.path},v{{{entries}}},{operation.version}"
    data = (operation.data or b"").decode("utf-8", "replace")
    if kind in (T.SET_DATA, T.RECONFIG):
        return f"{operation.path},{data},{operation.version}"
    entries = ", ".join(f"{each.perms},s{{'{each.scheme},'{each.id}}}\n" for each in operation.acl or ())
    front = f"{operation.path},{data},[{entries}]"
    if kind == T.CREATE_TTL:
        return f"{front},{operation.parent_cversion},{operation.ttl_ms}"
    if kind == T.CREATE_CONTAINER:
        return f"{front},{operation.parent_cversion}"
    return f"{front},{str(operation.is_ephemeral).lower()},{operation.parent_cversion}"


@pytest.mark.parametrize("path", LOGS, ids=named)
def test_each_transaction_is_what_the_tool_prints(path: Path) -> None:
    """Number, second, session, cxid, zxid, kind, and path, data, versions, ACLs, error, timeout, paths."""
    found, expected = list(LogReader(path)), printed(path)
    assert f"EOF reached after {len(found)} txns." in formatted(path)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        kind = NAMES[T(ours.type)]
        assert (ours.time_ms // 1000, ours.session, ours.cxid, ours.zxid, kind) == theirs[:5]
        if ours.type == T.MULTI:
            # Operations and the codes of errors come as raw bytes, so only their kinds are compared.
            assert _kinds(theirs.body) == _kinds(body(ours))
        elif not _is_lossy(ours):
            assert body(ours) == theirs.body


def _kinds(text: str) -> list[str]:
    return re.findall(r"(create|setData|check|delete|error|setACL):", text)


def _is_lossy(transaction: Transaction) -> bool:
    """Whether data were no text: two decoders need not put the same number of question marks for them."""
    (data,) = [each.data for each in transaction.operations] or [None]
    try:
        (data or b"").decode()
    except UnicodeDecodeError:
        return True
    return False


@pytest.mark.parametrize("path", LOGS, ids=named)
def test_the_logs_are_healthy(path: Path) -> None:
    """Killed servers' logs end with whole records here, and are named by their first one."""
    health = inspect_log(path)
    assert (health.is_healthy, health.is_exact, health.detail) == (True, True, "")
    assert health.good_until_zxid == health.last_zxid
    assert health.first_zxid == _zxid(path)


def _zxid(path: Path) -> int:
    """That of the file's name."""
    return int(path.name.split(".")[1], 16)


@pytest.mark.parametrize("path", SNAPSHOTS, ids=named)
def test_each_znode_is_what_the_tool_prints(path: Path) -> None:
    """Stat and data of every znode but those below /zookeeper, and the sessions with their ephemerals.

    The tool counts the root twice, and shows the creates below a znode where a client sees twice as many.
    """
    output = formatted(path)
    reader = open_snapshot(path)
    znodes = list(reader.znodes())
    assert output.startswith(f"ZNode Details (count={len(znodes) + 1}):")
    shown = {}
    for block in output.split("Session Details")[0].split("----\n")[1:]:
        where, _, rest = block.partition("\n")
        match = STAT.search(rest)
        if match is not None:
            shown[where] = _stat_of(match)
    ours = {each.path: _stat(each) for each in znodes if not each.path.startswith("/zookeeper")}
    assert {path: stat for path, stat in shown.items() if not path.startswith("/zookeeper")} == ours
    owned = Counter(each.stat.ephemeral_owner for each in znodes)
    sessions = {
        _signed(session, 64): (int(timeout), int(count))
        for session, timeout, count in re.findall(r"\n0x(\w+), (\d+), (\d+)", output)
    }
    assert {each: (timeout, owned[each]) for each, timeout in reader.sessions.items()} == sessions


def _stat_of(match: re.Match[str]) -> tuple[object, ...]:
    zxids = [int(match[number], 16) for number in (1, 3, 5)]
    times = [_seconds(match[2]), _seconds(match[4])]
    versions = [int(match[number]) for number in (6, 7, 8)]
    return (*zxids, *times, *versions, _signed(match[9], 64), base64.b64decode(match[10]))


def _seconds(text: str) -> int:
    moment = datetime.strptime(text, "%a %b %d %H:%M:%S UTC %Y").replace(tzinfo=UTC)
    return int(moment.timestamp())


def _stat(znode: StoredZnode) -> tuple[object, ...]:
    stat = znode.stat
    return (
        *(stat.czxid, stat.mzxid, stat.pzxid, stat.ctime // 1000, stat.mtime // 1000),
        *(stat.cversion, stat.version, stat.aversion, stat.ephemeral_owner, znode.data or b""),
    )


@pytest.mark.parametrize("path", SNAPSHOTS, ids=named)
def test_the_end_of_each_snapshot_is_what_the_tool_prints(path: Path) -> None:
    """3.9 writes digest and last zxid, 3.6 the digest; else the tool takes the highest of name and znodes."""
    (last,) = re.findall(r"Last zxid: 0x(\w+)", formatted(path))
    health = inspect_snapshot(path)
    reader = open_snapshot(path)
    stats = [each.stat for each in reader.znodes()]
    highest = max(_zxid(path), *(max(each.czxid, each.mzxid, each.pzxid) for each in stats))
    end = reader.end
    assert health.is_healthy
    if "3.4" in named(path) or "3.5" in named(path):
        assert health.last_zxid == highest == int(last, 16)
        assert (end.digest, reader.end_zxid) == (None, None)
        return
    assert health.last_zxid == max(_zxid(path), end.digest_zxid or 0)
    is_told = bool(end.digest_zxid or not _zxid(path))
    assert reader.end_zxid == (health.last_zxid if is_told else None), "a fresh leader's does not tell"
    assert health.is_exact == (is_told and health.last_zxid == _zxid(path))
    assert end.last_zxid == (end.digest_zxid if "3.9" in named(path) else None)
    assert int(last, 16) == (highest if end.last_zxid is None else end.last_zxid)
    assert end.digest is not None
    assert end.digest.version == 2


def test_a_snapshot_and_a_log_of_3_9_agree_on_the_digest() -> None:
    """The record at the snapshot's last zxid has the digest that stands in the snapshot."""
    files = list_files(SERVERS[1])
    digests = {each.zxid: each.digest for log in files.logs for each in LogReader(log.path)}
    ends = [open_snapshot(each.path).end for each in files.snapshots if each.zxid]
    assert len(ends) == 2
    for end in ends:
        assert end.last_zxid is not None
        assert isinstance(end.digest, TreeDigest)
        assert digests[end.last_zxid] == end.digest


@pytest.mark.parametrize("name", ["snapshot.114.snappy", "snapshot.114-small-blocks.snappy"])
def test_what_the_jvm_library_packed_is_unpacked(name: str) -> None:
    """The stream of snappy-java, not the official framing."""
    (path,) = [each for each in SNAPSHOTS if each.name == "snapshot.114.gz"]
    with FileBytes(FOLDER / "snappy" / name) as file:
        pieces = list(iter(lambda: file.read(500), b""))
        assert file.compression == "snappy"
    assert b"".join(pieces) == gzip.decompress(path.read_bytes())
    assert list(open_snapshot(FOLDER / "snappy" / name, zxid=0x114).znodes()) == list(
        open_snapshot(path).znodes()
    )


def test_all_kinds_of_a_real_server_are_met() -> None:
    """But for a check outside of a multi, which only later ones have; multis failed in three ways."""
    kinds = {each.type for path in LOGS for each in LogReader(path)}
    assert kinds == set(T) - {T.CHECK}
    multis = [each for path in LOGS for each in LogReader(path) if each.type == T.MULTI]
    errors = [[one.error for one in each.operations if one.error is not None] for each in multis]
    assert [each.is_applied for each in multis] == [not codes for codes in errors]
    assert Counter(map(tuple, errors)) == {(): 8, (-101,): 2, (-103,): 2, (-103, -2): 4}
