"""`DiskStorage` and `MemoryStorage` do the same."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from zkgroup.broker.log.disk_storage import DiskStorage
from zkgroup.broker.log.storage import MemoryStorage, Storage, storage_errors
from zkgroup.errors import ReplicaStorageError


@pytest.fixture(params=["disk", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    made: Storage = DiskStorage(tmp_path, 2) if request.param == "disk" else MemoryStorage()
    made.make_folder("t-0")
    yield made
    made.close()


def test_a_file_is_written_and_read_at_positions(storage: Storage) -> None:
    """A read that goes beyond the end gives what there is; a write beyond the end leaves zeros before it."""
    storage.write("t-0/a", 0, b"hello")
    storage.write("t-0/a", 3, bytearray(b"p!"))
    storage.write("t-0/a", 7, memoryview(b"x"))

    assert storage.read("t-0/a", 0, 100) == b"help!\0\0x"
    assert storage.read("t-0/a", 6, 1) == b"\0"
    assert storage.read("t-0/a", 20, 5) == b""
    assert storage.size("t-0/a") == 8
    storage.truncate("t-0/a", 2)
    assert storage.read_all("t-0/a") == b"he"
    storage.flush("t-0/a")
    storage.flush("t-0")


def test_names_and_renames(storage: Storage) -> None:
    """Of files and of folders; what is in a folder goes with it."""
    storage.write("t-0/b", 0, b"b")
    storage.replace("t-0/a", b"a", flush=True)
    storage.replace("top", b"1", flush=False)
    storage.replace("top", b"22", flush=False)

    assert storage.names("") == ["t-0", "top"]
    assert storage.names("t-0") == ["a", "b"]
    assert storage.read_all("top") == b"22"
    storage.rename("t-0/b", "t-0/c")
    storage.rename("t-0", "t-1")
    assert storage.names("t-1") == ["a", "c"]
    assert storage.read("t-1/c", 0, 9) == b"b"
    assert storage.names("t-0") == []
    storage.write("t-1/c", 1, b"c")
    storage.remove("t-1/a")
    assert storage.names("t-1") == ["c"]
    storage.remove("t-1")
    storage.remove("t-1")
    assert storage.names("") == ["top"]


def test_a_file_that_is_missing(storage: Storage) -> None:
    """Its size is None; reading it is an error of the system, which is reported with its name."""
    assert storage.size("t-0/none") is None
    assert storage.read_all("t-0/none") is None
    calls: list[Callable[[], object]] = [
        lambda: storage.read("t-0/none", 0, 1),
        lambda: storage.truncate("t-0/none", 0),
    ]
    for call in calls:
        with pytest.raises(ReplicaStorageError, match="none: No such file"), storage_errors("t-0"):
            call()


def test_few_descriptors_are_open_at_once(tmp_path: Path) -> None:
    """A file that was closed for others is opened again."""
    before = _descriptors()
    storage = DiskStorage(tmp_path, 3)
    for number in range(20):
        storage.write(f"f{number}", 0, b"%d" % number)
    assert _descriptors() - before == 3
    assert [storage.read(f"f{number}", 0, 9) for number in range(20)] == [b"%d" % n for n in range(20)]
    storage.close()
    assert _descriptors() == before


def test_a_file_waits_for_a_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever opens one. First it gives up those that it has; then it says what it waits for, and no error
    of a disk is reported. Past bug: a thousand idle connections ended a leader at its next segment."""
    pauses: list[float] = []
    left = 0

    def scarce(opening: Callable[..., Any]) -> Callable[..., Any]:
        def opened(*arguments: Any, **named: Any) -> Any:
            if len(storage._open) + 1 > left:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), arguments[0])
            return opening(*arguments, **named)

        return opened

    def pause(seconds: float) -> None:
        nonlocal left
        pauses.append(seconds)
        left = 1

    storage = DiskStorage(tmp_path, 2, pause)
    storage.make_folder("t-0")
    calls: list[Callable[[], object]] = [
        lambda: storage.write("t-0/b", 0, b"b"),
        lambda: storage.replace("t-0/c", b"c", flush=True),
        lambda: storage.names("t-0"),
        lambda: storage.read_all("t-0/c"),
        lambda: storage.flush("t-0"),
        lambda: storage.remove("t-0"),
    ]
    for module, name in ((os, "open"), (os, "listdir"), (shutil, "rmtree")):
        monkeypatch.setattr(module, name, scarce(getattr(module, name)))
    for call in calls:
        left = 2
        storage.write("a", 0, b"a")
        left = 1
        call()
        assert not pauses
        storage.close()
        storage.make_folder("t-0")
        left = 0
        with storage_errors("t-0"):
            call()
        assert pauses.pop() > 0
        assert not pauses
    assert caplog.text.count("it is tried again") == len(calls)
    assert storage.read_all("a") == b"a"
    storage.close()


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
