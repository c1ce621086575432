"""Trees in our own form: what was written is read, and nothing else is."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zkgroup.errors import (
    DamagedFileError,
    MissingFileError,
    NotZooKeeperFileError,
    RefusedError,
)
from zkgroup.model.requests import ZnodeStat
from zkgroup.zkfiles.exports import (
    ExportedZnode,
    ExportHeader,
    ExportReader,
    begins_as_export,
    exported,
    write_export,
)
from zkgroup.zkfiles.records import AclEntry, StoredStat, StoredZnode

HEADER = ExportHeader(time_ms=1_700_000_000_123, source="host:2181", zxid_before=7, zxid_after=9)
OPEN = (AclEntry(31, "world", "anyone"),)
ROOT = ExportedZnode("/", b"", OPEN, ZnodeStat(0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 5))
CHILD = ExportedZnode("/grüße", b"\x00\xff", None, ZnodeStat(5, 7, 11, 12, 2, 0, 1, -(2**63), 2, 0, 5))

longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(0, 2**31 - 1)
stats = st.builds(ZnodeStat, longs, longs, longs, longs, ints, ints, ints, longs, ints, ints, longs)
texts = st.text(max_size=4)
acls = st.none() | st.lists(st.builds(AclEntry, ints, texts, texts), max_size=2).map(tuple)
znodes = st.builds(ExportedZnode, texts.map("/{}".format), st.none() | st.binary(max_size=9), acls, stats)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A small export."""
    path = tmp_path / "tree.gz"
    write_export(path, HEADER, [ROOT, CHILD])
    return path


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(found=st.lists(znodes, max_size=3), changed=st.lists(texts, max_size=2).map(tuple))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, found: list[ExportedZnode], changed: tuple[str, ...]
) -> None:
    """Any text, null kept apart from empty, numbers of 64 bits; as often as asked."""
    path = tmp_path_factory.mktemp("any") / "tree.gz"
    header = ExportHeader(time_ms=1, source="", zxid_before=2, zxid_after=3, changed=changed, chroot="/c")
    assert write_export(path, header, found) == (len(found), path.stat().st_size)

    reader = ExportReader(path)

    assert (reader.header, list(reader.exported()), list(reader.exported())) == (header, found, found)
    assert begins_as_export(path)


def test_it_reads_as_a_snapshot_does(written: Path) -> None:
    """With cversion as a count of creates: of two creates and one delete one child is left."""
    reader = ExportReader(written)

    root, child = (each.stored() for each in reader.exported())

    assert root == StoredZnode("/", b"", OPEN, StoredStat(0, 0, 0, 0, 0, 2, 0, 0, 5))
    assert child.stat == StoredStat(5, 7, 11, 12, 2, 0, 1, -(2**63), 5)
    assert [exported(root, 1), exported(child, 0)] == [ROOT, CHILD]


def test_the_form_is_the_documented_one(written: Path) -> None:
    """Other programs read it: gzip, JSON lines, the sum over the lines before the last."""
    lines = gzip.decompress(written.read_bytes()).splitlines(keepends=True)
    header, root, child, last = map(json.loads, lines)

    assert header == {
        "schema": "zkgroup.tree/1",
        "time_ms": 1_700_000_000_123,
        "source": "host:2181",
        "chroot": "",
        "zxid_before": 7,
        "zxid_after": 9,
        "changed": [],
        "unreadable": [],
        "detail": "",
    }
    assert (root["data_base64"], root["acl"]) == ("", [[31, "world", "anyone"]])
    assert (child["path"], child["data_base64"], child["acl"]) == ("/grüße", "AP8=", None)
    assert list(root["stat"])[7:] == ["ephemeralOwner", "dataLength", "numChildren", "pzxid"]
    assert last == {"znodes": 2, "sha256": hashlib.sha256(b"".join(lines[:-1])).hexdigest()}


def test_the_same_tree_gives_the_same_bytes(written: Path, tmp_path: Path) -> None:
    """So that copies can be compared."""
    write_export(tmp_path / "again.gz", HEADER, [ROOT, CHILD])

    assert (tmp_path / "again.gz").read_bytes() == written.read_bytes()


def test_a_failed_export_leaves_nothing(tmp_path: Path) -> None:
    """No file under the name, no temporary one, whatever the reason."""

    def interrupted() -> Iterator[ExportedZnode]:
        yield ROOT
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_export(tmp_path / "tree.gz", HEADER, interrupted())

    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_kept(written: Path) -> None:
    """Unless it is to be written over, and then only by a whole file."""
    before = written.read_bytes()

    with pytest.raises(RefusedError, match="already"):
        write_export(written, HEADER, [ROOT])
    with pytest.raises(ZeroDivisionError):
        write_export(written, HEADER, (ROOT for _ in range(1 // 0)), overwrite=True)
    assert written.read_bytes() == before
    write_export(written, HEADER, [ROOT], overwrite=True)

    assert list(ExportReader(written).exported()) == [ROOT]


def test_a_file_cut_anywhere_is_damaged(written: Path, tmp_path: Path) -> None:
    """Never a shorter tree without a word; before the header is whole it is no export at all."""
    whole = written.read_bytes()
    cut = tmp_path / "cut.gz"
    for size in range(len(whole)):
        cut.write_bytes(whole[:size])
        with pytest.raises((DamagedFileError, NotZooKeeperFileError), match=r"cut\.gz"):
            list(ExportReader(cut).exported())


def test_lines_cut_or_changed_are_damage(written: Path, tmp_path: Path) -> None:
    """Also where gzip has nothing to say: a line left out, repeated, swapped, changed, added."""
    lines = gzip.decompress(written.read_bytes()).splitlines(keepends=True)
    header, root, child, last = lines
    for changed in (
        [header, root, child],
        [header, root, last],
        [header, child, root, last],
        [header, root, root, child, last],
        [header, root, child.replace(b"AP8=", b"AP4="), last],
        [header.replace(b"host", b"most"), root, child, last],
        [header, root, child, last, b"{}\n"],
        [header, root, child, last.rstrip()],
        [header, b"[]\n", child, last],
        [header, b"[" * 100_000 + b"\n", last],
        [header, root.replace(b'"mtime":0', b'"mtime":"0"'), child, last],
        [header, root.replace(b'"mtime":0', b'"mtime":9999999999999999999'), child, last],
        [header, root.replace(b'"path":"/"', b'"path":""'), child, last],
        [header, b'{"path":"/a"}\n', child, last],
        [header, child.replace(b"AP8=", b"AP8"), last],
    ):
        path = tmp_path / "changed.gz"
        path.write_bytes(gzip.compress(b"".join(changed)))
        with pytest.raises(DamagedFileError):
            list(ExportReader(path).exported())


def test_a_bit_flipped_in_any_byte_is_found(written: Path, tmp_path: Path) -> None:
    """Or says nothing of the tree: gzip has a header with a time and a system, and data end within a byte."""
    whole = written.read_bytes()
    flipped = tmp_path / "flipped.gz"
    kept = []
    for place in range(len(whole)):
        content = bytearray(whole)
        content[place] ^= 1 << place % 8
        flipped.write_bytes(content)
        try:
            found = list(ExportReader(flipped).exported())
        except (DamagedFileError, NotZooKeeperFileError):
            continue
        kept.append(place)
        assert found == [ROOT, CHILD]
    assert sum(place >= 10 for place in kept) <= 1


def test_a_line_without_an_end_is_not_read_on_and_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes of gzip can be gigabytes."""
    monkeypatch.setattr("zkgroup.zkfiles.exports.LINE_LIMIT", 1000)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b'{"schema":"zkgroup.tree/1"' + bytes(5000)))

    with pytest.raises(DamagedFileError, match="1000 bytes without an end"):
        ExportReader(path)


@pytest.mark.parametrize("key", ["time_ms", "source", "chroot", "zxid_before", "zxid_after", "changed"])
def test_a_header_without_a_key_is_damage(written: Path, tmp_path: Path, key: str) -> None:
    """Named."""
    header, *rest = gzip.decompress(written.read_bytes()).splitlines(keepends=True)
    fields = {name: value for name, value in json.loads(header).items() if name != key}
    path = tmp_path / "headless.gz"
    path.write_bytes(gzip.compress(json.dumps(fields).encode() + b"\n" + b"".join(rest)))

    with pytest.raises(DamagedFileError, match=key):
        ExportReader(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"ZKSN", gzip.compress(b"ZKSN\n\n"), gzip.compress(b'{"schema":"zkgroup.tree/2"}\n'), b"\x1f\x8b"],
    ids=["empty", "a snapshot", "another packed file", "a later schema", "two bytes"],
)
def test_another_file_is_none(tmp_path: Path, content: bytes) -> None:
    """One typed error; a later version of the form is named."""
    path = tmp_path / "other.gz"
    path.write_bytes(content)

    with pytest.raises((NotZooKeeperFileError, DamagedFileError), match=r"other\.gz"):
        ExportReader(path)


def test_only_exports_are_taken_for_one(written: Path, tmp_path: Path) -> None:
    """By their beginning; a folder or nothing at all is none."""
    (tmp_path / "other.gz").write_bytes(gzip.compress(b"ZKSN"))

    assert begins_as_export(written)
    assert not begins_as_export(tmp_path / "other.gz")
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(NotZooKeeperFileError):
            begins_as_export(path)


def test_a_file_that_may_not_be_read_is_reported(tmp_path: Path) -> None:
    """A folder under that name, or nothing."""
    with pytest.raises(NotZooKeeperFileError, match="expected a file to read, found no regular file"):
        ExportReader(tmp_path)
    with pytest.raises(MissingFileError, match="expected a file, found nothing"):
        ExportReader(tmp_path / "none")
