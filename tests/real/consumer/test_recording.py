"""Recording: one line an event, that survives a SIGKILL but for its last line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.worlds.group_history import good_history
from zkgroup.errors import ConfigError
from zkgroup.history import HistoryFile, HistoryRecord, MemoryHistory, parse, read_files
from zkgroup.history.records import parse_line
from zkgroup.testing import FakeClock


def test_a_line_has_the_common_fields_and_those_of_its_kind(tmp_path: Path) -> None:
    """Time in nanoseconds, a sequence number, process, member, session and kind."""
    clock = FakeClock(now_ms=5_000)
    with HistoryFile(tmp_path / "h.jsonl", "g_a", clock) as history:
        history.record("state", {"before": "new", "after": "joining", "reason": "opened"})
        history.record("registered", {"session": 77, "czxid": 3})
        clock.advance(20)
        history.record("own.end", {"topic": "t", "partition": 1, "token": 3, "reason": "lost"})

    first, second, third = map(json.loads, (tmp_path / "h.jsonl").read_text().splitlines())

    assert list(first) == ["ts", "seq", "pid", "member", "session", "kind", "before", "after", "reason"]
    assert (first["ts"], first["seq"], first["pid"], first["member"]) == (
        5_000_000_000,
        1,
        os.getpid(),
        "g_a",
    )
    assert (first["session"], second["session"], third["session"]) == (None, 77, 77)
    assert (third["ts"], third["seq"]) == (5_020_000_000, 3)


def test_the_session_of_another_client_is_not_taken_for_the_members_own(tmp_path: Path) -> None:
    """The session of a stale registration is kept under another name."""
    with HistoryFile(tmp_path / "h.jsonl", "g_a", FakeClock()) as history:
        history.record("stale_registration", {"path": "/x", "session": 5})

    (record,) = read_files([tmp_path / "h.jsonl"]).records

    assert (record.session, record.fields) == (None, {"path": "/x", "other_session": 5})


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """Records in memory, as lines and from the file are the same."""
    clock = FakeClock()
    memory = MemoryHistory("g_a", clock, pid=os.getpid())
    with HistoryFile(tmp_path / "h.jsonl", "g_a", clock) as history:
        for sink in (memory, history):
            sink.record("registered", {"session": 1, "czxid": 2})
            sink.record("claim.ok", {"id": 1, "zxid": 3, "grants": [{"topic": "é\n", "partition": 0}]})

    assert list(read_files([tmp_path / "h.jsonl"]).records) == memory.records
    assert [parse_line(record.line()) for record in memory.records] == memory.records


def test_a_torn_last_line_is_dropped_and_counted() -> None:
    """Only the last line may be torn; anything else that is no record is damage."""
    lines = [record.line().encode() for record in good_history().records]
    whole = b"\n".join(lines) + b"\n"

    torn = parse([whole + lines[0][:20], whole[:-1]])
    damaged = parse([b"\n".join([lines[0], lines[1][5:], b"[]", b'{"ts":"1"}', lines[2]]) + b"\n"])

    assert (len(torn.records), torn.torn, torn.broken) == (2 * len(lines) - 1, 2, ())
    assert (len(damaged.records), damaged.torn, len(damaged.broken)) == (2, 0, 3)


def test_several_threads_may_record_to_one_sink(tmp_path: Path) -> None:
    """No line is mixed with another, and sequence numbers have no gaps."""
    with HistoryFile(tmp_path / "h.jsonl", "g_a", FakeClock()) as history:
        threads = [
            threading.Thread(target=lambda: [history.record("x", {"text": "y" * 500}) for _ in range(200)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    found = read_files([tmp_path / "h.jsonl"])

    assert (found.torn, found.broken) == (0, ())
    assert [record.seq for record in found.records] == list(range(1, 801))


def test_members_may_share_a_file(tmp_path: Path) -> None:
    """Every line is appended where the file ends at that moment."""
    with (
        HistoryFile(tmp_path / "h.jsonl", "g_a", FakeClock()) as first,
        HistoryFile(tmp_path / "h.jsonl", "g_b", FakeClock()) as second,
    ):
        for number in range(3):
            first.record("x", {"n": number})
            second.record("x", {"n": number})

    assert len(read_files([tmp_path / "h.jsonl"]).records) == 6


PROGRAM = """
import sys
from zkgroup.history import HistoryFile
from zkgroup.testing import FakeClock
history = HistoryFile(sys.argv[1], "g_a", FakeClock())
while True:
    history.record("x", {"text": "y" * 300})
    if history._stamp._seq == 1000:
        print("thousand", flush=True)
"""


def test_a_sigkill_loses_no_complete_line(tmp_path: Path) -> None:
    """There is no buffer: what was recorded before the kill is in the file."""
    path = tmp_path / "h.jsonl"
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"thousand\n"
        process.send_signal(signal.SIGKILL)

    found = read_files([path])

    assert len(found.records) >= 1000
    assert found.broken == ()
    assert [record.seq for record in found.records] == list(range(1, len(found.records) + 1))


def test_a_full_disk_ends_the_history_not_the_member(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The loss is logged once and counted; nothing is written behind the hole."""
    with HistoryFile("/dev/full", "g_a", FakeClock()) as history:
        history.record("x", {})
        history.record("x", {})

    assert history.lost == 2
    assert len(caplog.records) == 1
    assert "stops here" in caplog.text


def test_recording_after_close_is_counted(tmp_path: Path) -> None:
    """Late callbacks of an application do not fail."""
    history = HistoryFile(tmp_path / "h.jsonl", "g_a", FakeClock())
    history.close()
    history.close()
    history.record("x", {})

    assert history.lost == 1


def test_members_of_one_list_are_distinguished() -> None:
    """In simulation all members of a run write to one list, in the order of events."""
    records: list[HistoryRecord] = []
    clock = FakeClock()
    a, b = MemoryHistory("g_a", clock, records), MemoryHistory("g_b", clock, records)
    a.record("x", {})
    b.record("x", {})
    a.record("y", {})

    assert [(record.member, record.seq, record.kind) for record in records] == [
        ("g_a", 1, "x"),
        ("g_b", 1, "x"),
        ("g_a", 2, "y"),
    ]


def test_a_history_takes_the_name_of_its_member(tmp_path: Path) -> None:
    """The whole id, as the znodes have it: by hand it would be got wrong, and the checker accuse somebody."""
    clock = FakeClock()
    with HistoryFile(tmp_path / "h.jsonl") as history:
        with pytest.raises(ConfigError, match="no member records here yet"):
            history.record("x", {})
        history.belongs_to("g_a", clock)
        history.belongs_to("g_a", clock)
        history.record("x", {})
        with pytest.raises(ConfigError, match="expected the records of g_a, found the member g_b"):
            history.belongs_to("g_b", clock)

    assert [record.member for record in read_files([tmp_path / "h.jsonl"]).records] == ["g_a"]
    with pytest.raises(ConfigError, match="found the member g_a"):
        MemoryHistory("a", clock).belongs_to("g_a", clock)
    with pytest.raises(ConfigError, match="both a member and its clock"):
        HistoryFile(tmp_path / "other.jsonl", "g_a")
    assert not (tmp_path / "other.jsonl").exists()
