"""The columns of a log hold what its transactions do: in plain Python and by the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pure.zkfiles.test_golden_files import LOGS
from tests.worlds import zkfiles_writer as writer
from tests.worlds.zkfiles_tables import IS_BUILT, everything, log_rows, rows_of, single
from zkgroup.zkfiles import columns
from zkgroup.zkfiles.arrow import LOG
from zkgroup.zkfiles.columns import Taken, Wanted, log_columns
from zkgroup.zkfiles.jute import LogChunk
from zkgroup.zkfiles.logs import LogReader
from zkgroup.zkfiles.records import TransactionType

T = TransactionType
OPEN = writer.OPEN_ACL


@pytest.fixture
def was_taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the kernel took a piece of a chunk, or left it over, for each time it was asked."""
    if not IS_BUILT:
        pytest.skip("the kernel was not built, or is switched off")
    answers: list[bool] = []
    decode = columns.take_by_kernel

    def take(chunk: LogChunk, first: int, wanted: Wanted) -> Taken | None:
        taken: Taken | None = decode(chunk, first, wanted)
        answers.append(taken is not None)
        return taken

    monkeypatch.setattr(columns, "take_by_kernel", take)
    return answers


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return writer.write_log(tmp_path, everything(), padding=5000)


def test_logs_of_real_servers(way: str) -> None:
    """All columns of all rows equal what the plain reader says."""
    for path in LOGS:
        assert rows_of(log_columns(path)) == list(log_rows(LogReader(path), path)), path


def test_what_real_servers_write_is_not_left_to_plain_python(was_taken: list[bool]) -> None:
    """Only the pieces with paths beyond ASCII are left over: each of these files is one piece."""
    for path in LOGS:
        rows = rows_of(log_columns(path))
        assert rows
        assert was_taken.pop() == all((row["path"] or "").isascii() for row in rows)
        assert not was_taken


def test_every_kind(log: Path, way: str) -> None:
    """All rows as the plain values say, each value of Python's own type."""
    found = rows_of(log_columns(log))
    assert found == list(log_rows(LogReader(log), log))
    assert {row["op"] for row in found} == {
        "create", "delete", "set", "setACL", "check", "createSession", "closeSession", "error",
    }  # fmt: skip
    for column in LOG:
        kinds = {type(row[column.name]) for row in found} - ({type(None)} if column.nullable else set())
        assert kinds <= {int, str, bytes, bool, tuple}, column.name
        assert type(None) not in kinds, column.name


def test_no_kind_is_left_to_plain_python(log: Path, was_taken: list[bool]) -> None:
    """Nothing of what servers write is left over, beyond ASCII aside."""
    assert rows_of(log_columns(log))
    assert was_taken == [True]


ODD = {
    "a create from before 3.4": single(T.CREATE, 9, path="/a", data=b"", acl=OPEN),
    "a path beyond ascii": single(T.DELETE, 9, path="/é"),
    "a path of two surrogates": single(T.DELETE, 9, path="/\U0001f600"),
    "no path": single(T.DELETE, 9, path=""),
    "a path without a slash": single(T.DELETE, 9, path="a"),
    "a path that does not begin with one": single(T.DELETE, 9, path="a/b"),
    "an acl that is null": single(T.CREATE, 9, path="/a", data=b"", acl=None, parent_cversion=1),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_left_to_plain_python(name: str, tmp_path: Path, way: str) -> None:
    """One odd record among others: all of them are there."""
    log = writer.write_log(tmp_path, [*everything()[:40], ODD[name], *everything()[41:]])
    assert rows_of(log_columns(log)) == list(log_rows(LogReader(log), log))


def test_an_unknown_type(tmp_path: Path, way: str) -> None:
    """It is there by its number; the rest goes on."""
    unknown = writer.record(writer.entry(single(T.DELETE, 9, path="/a"))[:28] + b"\0\0\0\x63" + b"body")
    log = tmp_path / "log.1"
    log.write_bytes(writer.LOG_HEADER + unknown + writer.log(everything())[len(writer.LOG_HEADER) :])
    rows = rows_of(log_columns(log))
    assert (rows[0]["type"], rows[0]["op"], rows[0]["path"]) == (99, None, None)
    assert len(rows) == 1 + len(list(log_rows(everything(), log)))
