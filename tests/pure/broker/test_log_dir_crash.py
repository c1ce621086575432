"""`DiskLogDir`: what it makes of its files after a crash."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.pure.broker.folders import ENDS, FILES, all_lines, expected, path_of
from tests.worlds.replica_managers import TP, append, end, on_disk, replicate, view, watermark
from zkgroup.broker.log.recovery import ENTRY
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode


@pytest.mark.parametrize("ending", ["jsonl", "index"])
def test_cut_at_every_byte_the_files_recover_to_the_last_good_batch(
    written: Path, tmp_path: Path, ending: str
) -> None:
    """Of the lines or of the index; then appending goes on there."""
    size = path_of(written, ending).stat().st_size
    for left in range(size + 1):
        folder = shutil.copytree(written, tmp_path / str(left))
        os.truncate(path_of(folder, ending), left)
        ends = (0, 5, 10, 55) if ending == "jsonl" else (0, 32, 64, 96)
        batches = sum(stop <= left for stop in ends[1:])
        host = on_disk(1, folder)
        try:
            assert (end(host), left) == (ENDS[batches], left)
            assert path_of(folder, "jsonl").read_bytes() == expected(batches)
            assert path_of(folder, "index").stat().st_size == batches * ENTRY.size
            assert path_of(folder, "epochs").read_text() in (
                ("0 0\n3 4\n",) if batches == 3 else ("0 0\n3 4\n", "0 0\n") if batches == 2 else ("0 0\n",)
            )
        finally:
            host.close()


@pytest.mark.parametrize("ending", ["jsonl", "index"])
def test_a_byte_that_is_wrong_anywhere_ends_the_log_before_its_batch(
    written: Path, tmp_path: Path, ending: str
) -> None:
    """What stands before that batch is kept whichever byte it is."""
    starts = (0, 5, 10) if ending == "jsonl" else (0, 32, 64)
    for position in range(path_of(written, ending).stat().st_size):
        folder = shutil.copytree(written, tmp_path / str(position))
        path = path_of(folder, ending)
        data = bytearray(path.read_bytes())
        data[position] ^= 0x15
        path.write_bytes(data)
        batches = sum(start <= position for start in starts) - 1
        host = on_disk(1, folder)
        try:
            assert (end(host), position) == (ENDS[batches], position)
        finally:
            host.close()


def test_lines_behind_the_index_are_cut_off(folder: Path) -> None:
    """A crash between the two writes of an append: nobody was told of those lines."""
    with path_of(folder, "jsonl").open("ab") as lines:
        lines.write(b"half\nof a ba")
    host = on_disk(1, folder)

    assert all_lines(host) == expected(3)
    assert append(host, 9, b"next").base_offset == 7
    host.close()
    assert path_of(folder, "jsonl").read_bytes() == expected(3) + b"next\n"


@pytest.mark.parametrize("left", ["jsonl", "index"])
def test_a_replica_that_lost_acknowledged_lines_does_not_lead(folder: Path, left: str) -> None:
    """It ends below the high watermark that it keeps; as a follower it gets them again, and leads then."""
    os.truncate(path_of(folder, left), 40)
    host = on_disk(1, folder)
    assert host.become_leader(TP, 4, (1, 2), {1, 2}) is ErrorCode.KAFKA_STORAGE_ERROR
    assert "lines are lost: it ends at" in (view(host).failure or "")

    other = on_disk(2, folder.parent / "2")
    other.become_leader(TP, 0, (1, 2), {2})
    append(other, 0, b"a", b"bb")
    append(other, 0, b"", b"ccc")
    other.become_leader(TP, 3, (1, 2), {2})
    append(other, 3, b"d", b"e", b"f" * 40)
    other.become_leader(TP, 5, (1, 2), {2})
    host.become_follower(TP, 5)
    assert replicate(other, host, TP)

    assert (end(host), watermark(host)) == (7, 7)
    assert host.become_leader(TP, 6, (1, 2), {1, 2}) is ErrorCode.NONE
    host.close()
    other.close()


@pytest.mark.parametrize(
    "epochs", [None, b"", b"0 0\n", b"nonsense", b"0 0\n3 4", b"0 0\n3 5\n", b"3 4\n0 0\n", b"0 0\n0 4\n"]
)
def test_epochs_are_found_again_in_the_batches(folder: Path, epochs: bytes | None) -> None:
    """Where their file is missing, damaged or does not fit them."""
    path = path_of(folder, "epochs")
    path.unlink() if epochs is None else path.write_bytes(epochs)
    host = on_disk(1, folder)

    assert end(host) == 7
    assert path.read_text() == "0 0\n3 4\n"
    host.close()


def test_a_term_without_lines_is_known_after_a_restart(folder: Path) -> None:
    """Only the file of the epochs tells of it."""
    host = on_disk(1, folder)
    host.become_leader(TP, 5, (1, 2), {1})
    host.close()

    again = on_disk(1, folder)
    assert again.become_leader(TP, 4, (1, 2), {1}) is ErrorCode.KAFKA_STORAGE_ERROR
    assert view(again).failure == "cannot lead in epoch 4: its lines are from epoch 5"
    again.close()
    assert path_of(folder, "epochs").read_text() == "0 0\n3 4\n5 7\n"


@pytest.mark.parametrize("text", [None, b"", b"0000000000000000007", b"-000000000000000001\n", b"x" * 20])
def test_without_its_high_watermark_a_replica_does_not_lead(folder: Path, text: bytes | None) -> None:
    """Nobody can say then what was acknowledged."""
    path = path_of(folder, "high-watermark")
    path.unlink() if text is None else path.write_bytes(text)
    host = on_disk(1, folder)

    assert (end(host), watermark(host)) == (7, 0)
    assert host.become_leader(TP, 4, (1, 2), {1, 2}) is ErrorCode.KAFKA_STORAGE_ERROR
    host.close()


@pytest.mark.parametrize("made", range(len(FILES)))
def test_a_partition_whose_making_was_cut_short_is_made_again(tmp_path: Path, made: int) -> None:
    """The lines come last, so without them it was not there."""
    on_disk(1, tmp_path / "b").close()
    (tmp_path / "b" / "orders").mkdir()
    for ending, text in [("index", b""), ("epochs", b""), ("high-watermark", b"0" * 19 + b"\n")][:made]:
        path_of(tmp_path / "b", ending).write_bytes(text)
    host = on_disk(1, tmp_path / "b")

    assert host.view(TP) is None
    assert host.become_leader(TP, 0, (1,), {1}) is ErrorCode.NONE
    assert append(host, 0, b"a").error == ErrorCode.NONE
    host.close()


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("steps", range(5))
def test_a_partition_is_made_in_an_order_that_any_crash_leaves_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """Killed after so many writes: the next start makes the rest, and takes no lines for another's."""
    made = 0

    def limited(call: Callable[..., Any], counts: Callable[..., bool]) -> Callable[..., Any]:
        def wrapper(*arguments: Any, **named: Any) -> Any:
            nonlocal made
            if counts(*arguments, **named):
                if made == steps:
                    raise Killed
                made += 1
            return call(*arguments, **named)

        return wrapper

    host = on_disk(1, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", limited(Path.rename, lambda *_: True))
        patch.setattr(Path, "open", limited(Path.open, lambda path, mode="r", **_: mode == "xb"))
        with suppress(Killed):
            host.become_leader(TP, 0, (1,), {1})
    host.close()
    assert made == steps
    host = on_disk(1, tmp_path)

    assert host.become_leader(TP, 0, (1,), {1}) is ErrorCode.NONE
    host.close()


def test_a_partition_whose_lines_are_gone_is_not_a_new_one(folder: Path) -> None:
    """Its other files tell that there were some."""
    path_of(folder, "jsonl").unlink()
    host = on_disk(1, folder)

    assert host.become_leader(TP, 0, (1, 2), {1, 2}) is ErrorCode.KAFKA_STORAGE_ERROR
    assert end(host) == 0
    host.close()


@pytest.mark.parametrize("there", ["0.jsonl", "0.log"])
def test_lines_that_no_broker_wrote_are_not_touched(tmp_path: Path, there: str) -> None:
    """Without an index, or in the other form that a `FileSource` reads."""
    on_disk(1, tmp_path / "b").close()
    (tmp_path / "b" / "orders").mkdir()
    (tmp_path / "b" / "orders" / there).write_bytes(b"mine\n")
    host = on_disk(1, tmp_path / "b")

    assert host.become_leader(TP, 0, (1,), {1}) is ErrorCode.KAFKA_STORAGE_ERROR
    assert host.become_follower(TP, 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert there in (view(host).failure or "")
    assert (tmp_path / "b" / "orders" / there).read_bytes() == b"mine\n"
    host.close()


@pytest.mark.parametrize("removed", [(), ("index",), ("index", "epochs", "high-watermark")])
def test_a_deletion_that_was_cut_short_is_finished(folder: Path, removed: tuple[str, ...]) -> None:
    """From the rename on the partition is gone, whatever else is still there."""
    path_of(folder, "jsonl").rename(path_of(folder, "deleted"))
    for ending in removed:
        path_of(folder, ending).unlink()

    host = on_disk(1, folder)

    assert host.partitions() == ()
    assert host.view(TP) is None
    assert list((folder / "orders").iterdir()) == []
    host.close()


def test_a_deleted_partition_leaves_no_file(folder: Path) -> None:
    """Nor the folder of a topic that has no other; nor what a write that was cut short had begun."""
    for ending in ("epochs", "high-watermark"):
        path_of(folder, f"{ending}.new").write_bytes(b"0")
    host = on_disk(1, folder)
    host.become_follower(TopicPartition("orders", 1), 0)

    assert host.delete(TP) is ErrorCode.NONE
    assert sorted(path.name for path in (folder / "orders").iterdir()) == sorted(f"1.{e}" for e in FILES)
    assert host.delete(TopicPartition("orders", 1)) is ErrorCode.NONE
    assert sorted(path.name for path in folder.iterdir()) == ["lock", "meta.json"]
    host.close()
