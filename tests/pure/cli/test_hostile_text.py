"""What others have named or written reaches neither the terminal nor a spreadsheet as an instruction."""

from __future__ import annotations

import csv
import io
import json
import logging
import re
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zkgroup_cli.app import _LogLine, root
from zkgroup_cli.commands.znode import _pretty
from zkgroup_cli.render import Output, TableColumn, echo_err

from zkgroup.errors import ZkGroupError
from zkgroup.model.text import csv_cell, csv_text, typed

HOSTILE = "\x1b[31m\x1b]0;owned\x07\u009b31m\u202eevil\r\nerror: forged\ud800\u2028\U000e0041"
UNPRINTABLE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0041]"
)


@pytest.mark.parametrize("output_format", ["table", "json", "csv", "ndjson"])
@pytest.mark.parametrize("color", [False, True])
def test_every_format_escapes_what_is_not_printable(
    capsys: pytest.CaptureFixture[str], output_format: str, color: bool
) -> None:
    """Lines, tables and documents; JSON keeps its values, and a row of csv is one line."""
    out = Output(output_format, color=color, width=None)
    document = {"rows": [{"name": HOSTILE, "more": {HOSTILE: [HOSTILE, -1]}}]}

    if not out.document(document, "rows"):
        out.line(f"{HOSTILE} {out.paint(HOSTILE, 'bad')}")
        out.table([TableColumn("NAME", itemgetter("name"))], document["rows"])
    printed = capsys.readouterr().out

    ours = re.compile("\x1b\\[(31|1|0)m") if color else re.compile("$^")
    assert UNPRINTABLE.findall(ours.sub("", printed) if output_format == "table" else printed) == []
    assert "\x1b[31mevil" not in printed
    assert "\nerror: forged" not in printed
    if output_format == "json":
        assert json.loads(printed) == document
    if output_format == "ndjson":
        assert json.loads(printed) == document["rows"][0]
    if output_format == "csv":
        header, row = csv.reader(io.StringIO(printed))
        assert (header, json.loads(row[1])) == (["name", "more"], document["rows"][0]["more"])


def test_an_error_and_a_hint_are_escaped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Further lines are indented: none of them looks like a message of its own."""

    def fail(*_: object) -> None:
        echo_err(f"note: {HOSTILE}")
        raise ZkGroupError(HOSTILE)

    monkeypatch.setattr("click.Group.invoke", fail)
    with pytest.raises(SystemExit):
        root.main(["completion", "bash"])
    record = logging.makeLogRecord({"msg": HOSTILE, "levelname": "ERROR", "name": "zkgroup"})
    shown = capsys.readouterr().err + _LogLine(tracebacks=True).format(record)

    assert UNPRINTABLE.findall(shown) == []
    assert "\nerror: forged" not in shown
    assert shown.count("evil") == 3


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("a b", "zkgroup group verify 'a b' --wait"),
        ("-w", "zkgroup group verify --wait -- -w"),
    ],
)
def test_a_command_to_type_takes_any_name(name: str, command: str) -> None:
    """Past bug: a group whose name begins with a dash was an option in the command that helps it."""
    assert typed("group verify", name, options="--wait") == command


@pytest.mark.parametrize("text", ["=1+1", "+1", "@x", "-flag", "-1+1", "'=x", "''-1", "\uff1d1"])
def test_a_spreadsheet_takes_no_cell_for_a_formula(text: str) -> None:
    """OWASP's apostrophe, which `offsets import` takes away."""
    assert (csv_cell(text), csv_text(csv_cell(text))) == (f"'{text}", text)


@pytest.mark.parametrize("text", ["-1", "-1.5", "a=1", "it's", "'", "", "1"])
def test_other_cells_stay(text: str) -> None:
    """Negative numbers too."""
    assert (csv_cell(text), csv_text(text)) == (text, text)


@given(st.text("'=+-@1a", max_size=6))
def test_cells_come_back_as_they_were(text: str) -> None:
    """Whatever apostrophes a name has."""
    assert csv_text(csv_cell(text)) == text


@pytest.mark.parametrize(
    "data", [b"[" * 200_000, b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b"9" * 5000]
)
def test_json_beyond_the_limits_of_python_is_shown_as_text(data: bytes) -> None:
    """Of nesting and of digits."""
    assert _pretty(data) == data.decode()
