"""Findings in bounded memory: longer histories go to the disk by bucket, and the same is found."""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.programs.benchmarks.group_days import write_logs
from tests.worlds.audit_folders import INCIDENTS, folder
from tests.worlds.bounded_findings import TIGHT, assert_same, rows_of
from tests.worlds.plain_findings import find
from tests.worlds.screened_findings import bounds_for, events_in
from zkgroup.audit.findings import buckets
from zkgroup.audit.findings.buckets import AuditedRows, RowLimits
from zkgroup.audit.findings.engine import RULES, bounds_of
from zkgroup.audit.findings.rules import Bounds
from zkgroup.audit.inputs.facts import facts_of
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.inputs.rows import columns_of
from zkgroup.errors import ConfigError

BOUNDS: Mapping[str, Bounds] = bounds_of(RULES, {})


def test_random_histories_have_the_findings_of_all_rows(tmp_path: Path) -> None:
    """In buckets, with parts of some forty rows; tests/long/audit/test_bounded_rows.py has more histories."""
    found: Counter[str] = Counter()
    for seed in range(300, 305):
        found += assert_same(rows_of(tmp_path, seed), bounds_for(seed), f"history {seed}")

    assert len(found) > 20


def test_findings_of_one_group_are_those_of_its_rows(tmp_path: Path) -> None:
    """Rows of other groups are left out part by part; all names are known."""
    source = open_source([write_logs(tmp_path / "day", 12_000, 2, groups=3)])
    with closing(AuditedRows(source.rows(), "group-1")) as whole:
        expected = Counter(whole.find(RULES, BOUNDS))
    with closing(AuditedRows(source.rows(), "group-1", TIGHT._replace(rows_per_part=4_000))) as bounded:
        assert bounded.written
        assert bounded.groups == whole.groups == {"group-0", "group-1", "group-2"}
        assert Counter(bounded.find(RULES, BOUNDS)) == expected
    assert expected


def test_a_damage_behind_rows_that_were_written(tmp_path: Path) -> None:
    """What is behind it counts."""
    day = write_logs(tmp_path / "day", 6_000, 3, groups=1)
    log = sorted(day.glob("log.*"), key=lambda path: int(path.suffix[1:], 16))[-1]
    whole = log.read_bytes()
    place = random.Random(1).randrange(len(whole) // 2, len(whole) - 100)
    log.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    rows = open_source([day]).rows()
    with closing(AuditedRows(rows, None, TIGHT._replace(rows_per_part=1_000))) as bounded:
        assert bounded.written
        assert bounded.facts == facts_of(events_in(rows))
        assert Counter(bounded.find(RULES, BOUNDS)) == Counter(find(RULES, lambda: events_in(rows)))


def test_a_short_history_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the bound no file is made, and the same is found."""
    rows = rows_of(tmp_path / "files", 7)
    logged = sum(not event.seed for event in events_in(rows))
    expected = assert_same(rows, BOUNDS, "history 7")
    monkeypatch.setattr(buckets, "TemporaryFile", None)

    with closing(AuditedRows(rows, None, RowLimits(logged, 40, 3))) as bounded:
        assert bounded.written == 0
        assert Counter(one.finding for one in bounded.find(RULES, BOUNDS)) == expected
    with pytest.raises(TypeError):
        AuditedRows(rows, None, RowLimits(logged - 1, 40, 3))


def test_what_is_written_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So no end of the process leaves it behind, whichever signal; its space is given back by `close`."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    bounded = AuditedRows(rows_of(tmp_path / "files", 7), None, TIGHT)
    assert bounded.written
    assert [name.endswith("(deleted)") for name in open_below(place)] == [True]
    assert list(place.iterdir()) == []

    bounded.close()
    assert open_below(place) == []


def open_below(folder: Path) -> list[str]:
    """The files of a folder that this process has open, as the kernel names them."""
    names = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the list itself
            names.append(str(each.readlink()))
    return [name for name in names if name.startswith(str(folder))]


def test_a_full_disk_is_told_with_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the way out."""

    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setattr(buckets, "TemporaryFile", lambda prefix: Path("/dev/full").open("r+b"))  # noqa: SIM115
    with pytest.raises(ConfigError, match=f"{place}: .*No space left on device; TMPDIR names another"):
        AuditedRows(rows_of(tmp_path / "files", 7), None, TIGHT)


def test_rows_that_are_gone_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that someone cut has nothing more to read: that is an error, not a loop."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with closing(buckets.TemporaryBuckets(2)) as kept:
        kept.add_rows(columns_of(events_in(open_source([folder(INCIDENTS)]).rows())))
        os.truncate(kept._file.fileno(), 1)

        with pytest.raises(ConfigError, match="kept there are gone"):
            kept.columns(kept.names[0])
