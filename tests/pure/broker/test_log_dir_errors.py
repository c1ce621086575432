"""`DiskLogDir` with trouble on its disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.worlds.replica_managers import TP, append, end, fetch, in_memory, on_disk, replicate, text_of, view
from zkgroup.broker.log import partition_files
from zkgroup.broker.log.partition_files import Flush, OpenFiles
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.replicas.replica_view import Role
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.replica_host import AppendLinesRequest, EpochEnd, FetchLinesRequest, FetchLinesResponse


def open_files() -> int:
    """Of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_disk_that_fails_ends_the_role_of_that_partition(
    host: ReplicaManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not kept is not answered; with the disk back the replica has what it had before."""
    other = TopicPartition("orders", 1)
    host.become_leader(TP, 0, (1, 2), {1})
    host.become_leader(other, 0, (1, 2), {1})
    append(host, 0, b"a")
    told: list[TopicPartition] = []
    host.listen(told.append)
    pwrite = os.pwrite
    written: list[int] = []

    def half(file: int, data: bytes, position: int) -> int:
        if written:
            raise OSError(28, "No space left on device")
        written.append(pwrite(file, bytes(data)[:2], position))
        return written[0]

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", half)
        assert append(host, 0, b"bbbb").error == ErrorCode.NOT_LEADER_FOR_PARTITION

    assert (view(host).role, told) == (Role.NONE, [TP])
    assert "No space left on device" in (view(host).failure or "")
    assert fetch(host, 0).error == ErrorCode.NOT_LEADER_FOR_PARTITION
    assert host.view(other).role is Role.LEADER  # type: ignore[union-attr]
    assert host.become_leader(TP, 1, (1, 2), {1}) is ErrorCode.NONE
    assert (end(host), text_of(fetch(host, 0))) == (1, b"a\n")


def full(*_: object) -> int:
    raise OSError(28, "No space left on device")


def test_a_follower_whose_disk_was_full_follows_on_once_it_is_opened_anew(
    host: ReplicaManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same term, with what it had; before there is room that changes nothing."""
    leader = in_memory(2)
    leader.become_leader(TP, 0, (1, 2), {2})
    host.become_follower(TP, 0)
    append(leader, 0, b"a")
    assert replicate(leader, host, TP)
    append(leader, 0, b"bbbb")
    assert not host.reopen(TP), "it has not failed"

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        assert not replicate(leader, host, TP)
        assert host.reopen(TP), "its files can be read"
        assert not replicate(leader, host, TP)
    with monkeypatch.context() as patch:
        patch.setattr(os, "truncate", full)
        assert not host.reopen(TP)
    assert view(host).role is Role.NONE
    assert "No space left on device" in (view(host).failure or "")
    assert host.next_fetch(TP, broker_epoch=0, max_bytes=1, max_wait_ms=0) is None

    assert host.reopen(TP)
    assert (view(host).role, view(host).leader_epoch, view(host).failure) == (Role.FOLLOWER, 0, None)
    assert replicate(leader, host, TP)
    assert end(host) == 2


def test_who_leads_tells_that_its_files_have_failed(
    host: ReplicaManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever they are needed for; a follower does not, nor one of whom the controller is answered 56."""
    told: list[tuple[TopicPartition, str]] = []
    host.listen_to_failures(lambda tp, why: told.append((tp, why)))
    appends, counts, reads, follows, begins, again = (TopicPartition("orders", n) for n in range(6))
    for tp in (appends, counts, reads, again):
        host.become_leader(tp, 0, (1, 2), {1, 2})
    for tp in (counts, reads, again):
        assert host.append(AppendLinesRequest(*tp, 0, 1, (b"a",))).error == ErrorCode.NONE
    leader = in_memory(2)
    leader.become_leader(follows, 0, (1, 2), {2})
    leader.append(AppendLinesRequest(*follows, 0, 1, (b"a",)))
    host.become_follower(follows, 0)

    with monkeypatch.context() as patch:
        for name in ("pwrite", "pread"):
            patch.setattr(os, name, full)
        patch.setattr(Path, "rename", full)
        host.append(AppendLinesRequest(*appends, 0, 1, (b"a",)))
        host.set_isr(counts, 0, {1})
        host.fetch(FetchLinesRequest(2, 1, *reads, 0, -1, 0, 1, 0))
        assert not replicate(leader, host, follows)
        assert host.become_leader(begins, 0, (1, 2), {1}) is ErrorCode.KAFKA_STORAGE_ERROR
        assert host.become_leader(again, 0, (1, 2), {1}) is ErrorCode.KAFKA_STORAGE_ERROR

    assert [tp for tp, _ in told] == [appends, counts, reads]
    assert [why.partition(": ")[0].rpartition("/")[2] for _, why in told] == [
        *("0.jsonl", "1.high-watermark", "2.jsonl")
    ]
    for tp in (appends, counts, reads, follows, begins, again):
        seen = host.view(tp)
        assert seen is not None
        assert "No space left on device" in (seen.failure or "")


def test_a_follower_that_was_opened_anew_remembers_what_its_leader_agreed_to(
    host: ReplicaManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a leader that has lost lines could have it cut back within the term."""
    leader = in_memory(2)
    leader.become_leader(TP, 0, (1, 2), {2})
    append(leader, 0, b"a")
    host.become_follower(TP, 0)
    append(leader, 0, b"b")
    assert replicate(leader, host, TP)
    append(leader, 0, b"c")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        assert not replicate(leader, host, TP)
    assert host.reopen(TP)

    request = host.next_fetch(TP, broker_epoch=0, max_bytes=100, max_wait_ms=0)
    assert request is not None
    assert not host.take(request, FetchLinesResponse(0, 1, 1, EpochEnd(0, 1)))
    assert end(host) == 2
    assert "has lost lines" in (view(host).failure or "")


def test_a_leader_is_not_taken_up_again_nor_a_follower_that_was_stopped_or_is_gone(
    host: ReplicaManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that lost lines would give their offsets to others in the same term."""
    stopped, gone = TopicPartition("orders", 1), TopicPartition("orders", 2)
    host.become_leader(TP, 0, (1, 2), {1})
    leader = in_memory(2)
    for tp in (stopped, gone):
        leader.become_leader(tp, 0, (1, 2), {2})
        host.become_follower(tp, 0)
        leader.append(AppendLinesRequest(*tp, 0, 1, (b"a",)))
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        append(host, 0, b"a")
        for tp in (stopped, gone):
            replicate(leader, host, tp)
    host.stop(stopped)
    for path in (tmp_path / "fresh" / "orders").glob("2.*"):
        path.unlink()

    assert [host.reopen(tp) for tp in (TP, stopped, gone, gone)] == [False] * 4
    seen = host.view(gone)
    assert seen is not None
    assert seen.failure == "its files are gone"


def test_a_deletion_that_fails_is_said(host: ReplicaManager, monkeypatch: pytest.MonkeyPatch) -> None:
    """56: the controller asks again, and the rest is removed."""
    host.become_leader(TP, 0, (1,), {1})

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        assert host.delete(TP) is ErrorCode.KAFKA_STORAGE_ERROR

    assert "Operation not permitted" in (view(host).failure or "")
    assert host.delete(TP) is ErrorCode.NONE
    assert host.view(TP) is None


@pytest.mark.parametrize(("flush", "expected_syncs"), [(Flush.NONE, 0), (Flush.BATCH, 2)])
def test_flush_batch_forces_each_batch_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flush: Flush, expected_syncs: int
) -> None:
    """Lines and index, before the answer; by default nothing is forced."""
    host = on_disk(1, tmp_path / "b", flush=flush)
    host.become_leader(TP, 0, (1,), {1})
    synced: list[int] = []
    monkeypatch.setattr(partition_files.os, "fsync", synced.append)

    append(host, 0, b"a")

    assert len(synced) == expected_syncs
    host.close()


def test_whose_folder_it_is_is_forced_to_the_disk_in_any_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, with its name: an empty `meta.json` after the machine has died would keep every line from use."""
    synced: list[int] = []
    monkeypatch.setattr(partition_files.os, "fsync", synced.append)

    for _ in range(2):
        on_disk(1, tmp_path / "b", flush=Flush.NONE).close()

    assert len(synced) == 2


def test_files_of_many_partitions_are_not_all_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was not used for longest gives its files up, and gets them again."""
    monkeypatch.setattr("zkgroup.broker.log.log_dir.OpenFiles", lambda: OpenFiles(maximum=2))
    host = on_disk(1, tmp_path / "b")
    before = open_files()
    partitions = [TopicPartition("many", number) for number in range(5)]
    for tp in partitions:
        host.become_leader(tp, 0, (1, 2), {1, 2})
    for _ in range(2):
        for number in range(5):
            request = AppendLinesRequest("many", number, 0, 1, (b"a",))
            assert host.append(request).error == ErrorCode.NONE

    assert open_files() - before == 2 * 3
    assert [host.log_end_offset(tp) for tp in partitions] == [2] * 5
    host.close()
    assert open_files() == before - 1, "the lock too"
