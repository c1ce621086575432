"""Undo files: there before anything changes, whole or not at all, found again by id and time."""

from __future__ import annotations

import errno
import io
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zkgroup.admin.undo_records import UndoFolder, UndoRecord
from zkgroup.errors import (
    AccessDeniedError,
    ConfigError,
    ConflictError,
    NotFoundError,
    OperationRefusedError,
    OutcomeUnknownError,
    PartlyDoneError,
    RefusedError,
    StoreUnavailableError,
)
from zkgroup.model import TopicPartition

TP = TopicPartition("orders", 0)


def _record(undo_id: str = "20260101-000000-abcd", **fields: object) -> UndoRecord:
    return UndoRecord(
        undo_id=undo_id,
        time_ms=1,
        command="zkgroup offsets set g orders:0=42 --execute",
        zookeeper="host:2181",
        **fields,  # type: ignore[arg-type]
    )


class FullDisk(io.FileIO):
    """A stream whose write fails when half of the data is in the file."""

    def __init__(self, descriptor: int, mode: str, seen: list[int]) -> None:
        super().__init__(descriptor, mode)
        self._seen = seen

    def write(self, data: Any) -> int:
        written = super().write(bytes(data)[: len(data) // 2])
        self._seen.append(written)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_record_reads_back_as_it_was_saved(tmp_path: Path) -> None:
    """Offsets, null data and bytes that are no text survive; the file is the owner's alone."""
    record = _record(
        group="g",
        offsets={TP: (-1, 42)},
        created=frozenset({TP}),
        parents=("/consumers/g/offsets/orders",),
        znodes=(("/a", None), ("/a/b", b"\xff\x00"), ("/a/c", b"")),
        left=(("/a", b""), ("/b", None)),
        undo_command=("config", "alter", "--set", "a=b c"),
        made_at=2**40,
        when="once it has ended",
        no_undo="why not",
    )
    folder = UndoFolder(tmp_path / "undo")

    file = folder.save(record)

    assert folder.load(record.undo_id) == record
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("fields", "summary"),
    [
        ({"group": "g", "offsets": {TP: (1, 2)}}, "1 offset of g"),
        ({"znodes": (("/a", None), ("/b", None))}, "2 znodes from /a"),
        ({}, "0 znodes"),
        ({"undo_command": ("config", "alter", "--set", "a=b c")}, "zkgroup config alter --set 'a=b c'"),
        ({"undo_command": ("group", "rename", "-b", "a")}, "zkgroup group rename -- -b a"),
        ({"undo_command": ("x",), "no_undo": "brokers drop the records"}, "brokers drop the records"),
    ],
)
def test_a_record_says_what_going_back_does(fields: dict[str, object], summary: str) -> None:
    """In a few words, for the list; or why there is no way."""
    assert _record(**fields).summary == summary


def test_a_name_that_begins_with_a_dash_stands_behind_the_options() -> None:
    """Click takes it for an option else, and the change cannot be undone."""
    record = _record(undo_command=("topic", "delete", "-t"))

    assert record.typed_undo_command("--execute") == ["topic", "delete", "--execute", "--", "-t"]
    rights = ("--member", "world:anyone")
    record = _record(undo_command=("acl", "zookeeper", "apply", "-g", *rights))
    typed = ["acl", "zookeeper", "apply", *rights, "--execute", "--", "-g"]
    assert record.typed_undo_command("--execute") == typed


@pytest.mark.parametrize(
    ("error", "stays"),
    [
        (ConflictError("x"), False),
        (OperationRefusedError("BadVersion", "/x"), False),
        (RefusedError("x"), False),
        (NotFoundError("x"), False),
        (ConfigError("x"), False),
        (AccessDeniedError("x"), False),
        (PartlyDoneError("x"), True),
        (OutcomeUnknownError("x"), True),
        (StoreUnavailableError("x"), True),
        (KeyboardInterrupt(), True),
        (None, True),
    ],
)
def test_a_record_is_kept_of_what_may_have_happened(
    tmp_path: Path, error: BaseException | None, stays: bool
) -> None:
    """Past bug: a refusal left a record, and the next undo reverted a change that had not been made."""
    rollback = tmp_path / "rollback.json"
    rollback.write_text("{}")
    folder, record = UndoFolder(tmp_path / "undo"), _record(rollback_file=str(rollback))

    folder.save(record)
    with suppress(type(error) if error else ()), folder.removed_if_refused(record):
        assert folder.ids() == [record.undo_id]
        if error:
            raise error

    assert (bool(folder.ids()), rollback.exists()) == (stays, stays)


def test_a_record_is_amended_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk it stays as it was."""
    folder, record = UndoFolder(tmp_path), _record()
    file = folder.save(record)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", _full)
        with pytest.raises(ConfigError, match="No space left"):
            folder.amend(record.undo_id, made_at=7)
    assert (folder.load(record.undo_id), list(tmp_path.iterdir())) == (record, [file])

    folder.amend(record.undo_id, made_at=7)

    assert folder.load(record.undo_id) == replace(record, made_at=7)


def _full(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_ids_sort_by_time_and_are_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past bug: two changes of one second got the same id, once in 65,536, and the second was refused."""
    folder, ends = UndoFolder(tmp_path), iter(["ffff", "ffff", "ffff", "0000"])
    monkeypatch.setattr(secrets, "token_hex", lambda size: next(ends))
    ids = []
    for wall_ms in (1_767_225_599_000, 1_767_225_600_000, 1_767_225_600_999):
        ids.append(folder.new_id(wall_ms))
        folder.save(_record(ids[-1]))

    assert ids == ["20251231-235959-ffff", "20260101-000000-ffff", "20260101-000000-0000"]


def test_the_newest_suitable_record_is_found(tmp_path: Path) -> None:
    """Records of other ensembles are passed over."""
    folder = UndoFolder(tmp_path)
    folder.save(_record("20260101-000000-aaaa"))
    folder.save(_record("20260102-000000-bbbb"))

    assert folder.newest(lambda record: record.undo_id.endswith("aaaa")).undo_id == "20260101-000000-aaaa"
    with pytest.raises(NotFoundError):
        folder.newest(lambda record: False)


def test_records_of_one_second_are_ordered_by_their_time(tmp_path: Path) -> None:
    """Past bug: the random end of the ids decided, and an undo right after an act went back further."""
    folder = UndoFolder(tmp_path)
    for number, end in enumerate(("cccc", "aaaa", "bbbb")):
        record = _record(f"20260101-000000-{end}")
        folder.save(replace(record, time_ms=1_767_225_600_000 + number))

    assert folder.newest(lambda record: True).undo_id == "20260101-000000-bbbb"
    assert folder.newest(lambda record: "bbbb" not in record.undo_id).undo_id == "20260101-000000-aaaa"


@pytest.mark.parametrize("undo_id", ["nothing", "../secret", "a/b", ""])
def test_an_unknown_id_is_not_found(tmp_path: Path, undo_id: str) -> None:
    """An id is a name, never a path."""
    (tmp_path / "secret.json").write_text("{}")

    with pytest.raises(NotFoundError):
        UndoFolder(tmp_path / "undo").load(undo_id)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema":"other/1"}', '{"schema":"zkgroup.undo/1"}'])
def test_a_file_that_is_no_record_says_so(tmp_path: Path, text: str) -> None:
    """A broken file is named, and nothing is taken from it."""
    (tmp_path / "20260101-000000-abcd.json").write_text(text)

    with pytest.raises(ConfigError, match="20260101-000000-abcd"):
        UndoFolder(tmp_path).load("20260101-000000-abcd")


def test_a_folder_that_cannot_be_written_stops_the_act(tmp_path: Path) -> None:
    """No undo file, no change."""
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match="nothing was changed"):
        UndoFolder(tmp_path / "file").save(_record())


@pytest.mark.parametrize("failing", ["write", "fsync"])
def test_nothing_half_written_is_left_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """Past bug: a truncated record stayed, and each `undo` without an ID failed at it from then on."""
    rollback = tmp_path / "rollback.json"
    rollback.write_text("{}")
    folder, before = UndoFolder(tmp_path / "undo"), _record("20260101-000000-aaaa")
    folder.save(before)
    record = _record("20260101-000001-bbbb", rollback_file=str(rollback))
    seen: list[int] = []

    def full(descriptor: int) -> None:
        seen.append(os.fstat(descriptor).st_size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        if failing == "fsync":
            patched.setattr(os, "fsync", full)
        else:
            patched.setattr(os, "fdopen", lambda descriptor, mode: FullDisk(descriptor, mode, seen))
        with pytest.raises(ConfigError, match="No space left"):
            folder.save(record)

    assert seen[0] > 0, "nothing had been written when the disk was full"
    assert folder.newest(lambda record: True) == before
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == [f"{before.undo_id}.json"]


def test_a_record_of_the_same_id_is_never_overwritten(tmp_path: Path) -> None:
    """Ids end in random digits; if two are equal, the second change is not made."""
    folder = UndoFolder(tmp_path)
    folder.save(_record(undo_command=("first",)))

    with pytest.raises(ConfigError, match="nothing was changed"):
        folder.save(_record(undo_command=("second",)))

    assert folder.load(_record().undo_id).undo_command == ("first",)
