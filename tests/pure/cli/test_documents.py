"""Documents and events of commands, from values that need no ensemble, against the published schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from zkgroup_cli.audit_rows import LastTransaction
from zkgroup_cli.commands.audit.findings import FINDINGS
from zkgroup_cli.commands.znode import ZNODE_DOCUMENT
from zkgroup_cli.member_events import EventPrinter
from zkgroup_cli.render import Output
from zkgroup_cli.schemas import EVENTS, SCHEMAS

from tests.worlds.processes import violations
from zkgroup.audit.findings.engine import ALL_RULES, Found, Skipped
from zkgroup.audit.findings.rules import Finding
from zkgroup.audit.incidents.attribution import numbered
from zkgroup.audit.incidents.incident import findings_document
from zkgroup.audit.inputs.facts import Facts
from zkgroup.groups.ensemble import AsOf
from zkgroup.model import Znode, ZnodeStat
from zkgroup.sources.port import Record

AS_OF = AsOf(zxid=5, time_ms=1_700_000_000_123)


def _events(capsys: pytest.CaptureFixture[str]) -> list[Mapping[str, Any]]:
    """The events on stdout; each is valid by its schema."""
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [fault for event in events for fault in violations(event, EVENTS[event["event"]])] == []
    return events


@pytest.mark.parametrize(
    ("data", "text", "encoded"),
    [(None, None, None), (b"", "", None), ("é".encode(), "é", None), (b"\xff\x00", None, "/wA=")],
)
def test_data_is_text_or_base64(data: bytes | None, text: str | None, encoded: str | None) -> None:
    """Both are null where the server stores null."""
    found = ZNODE_DOCUMENT.json(AS_OF, Znode("/a", data, ZnodeStat(*range(11))))

    assert (found["data"], found["data_base64"]) == (text, encoded)
    assert found["stat"]["numChildren"] == 9
    assert violations(found, SCHEMAS["zkgroup.znode/1"]) == []


def test_bytes_of_a_record_have_a_key_of_their_own_where_they_are_no_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`key_base64` and `value_base64` are left out else."""
    printer = EventPrinter(Output("ndjson", color=False, width=None), "g_a")
    for key, value in ((None, None), (b"k", b"v"), (b"\xff", b"\xfe")):
        printer.delivered(
            Record(
                topic="orders",
                partition=1,
                offset=9,
                key=key,
                value=value,
                timestamp_ms=None,
                headers=(),
                thread=0,
                token=3,
            )
        )
    first, second, third = _events(capsys)

    assert (first["key"], first["value"], "key_base64" in first) == (None, None, False)
    assert (second["key"], second["value"], "value_base64" in second) == ("k", "v", False)
    assert (third["key"], third["key_base64"], third["value_base64"]) == (None, "/w==", "/g==")


def test_a_record_has_its_headers_and_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    """In their order, also twice the same; what is no text has a key of its own."""
    printer = EventPrinter(Output("ndjson", color=False, width=None), "g_a")
    headers = (("trace", b"1"), ("trace", b"\xff"), ("none", None))
    printer.delivered(Record("orders", 1, 9, None, b"v", 1_767_225_600_123, headers, 0, 3))  # type: ignore[arg-type]
    (event,) = _events(capsys)

    assert event["timestamp"] == "2026-01-01T00:00:00.123Z"
    assert event["headers"] == [
        {"key": "trace", "value": "1"},
        {"key": "trace", "value": None, "value_base64": "/w=="},
        {"key": "none", "value": None},
    ]


def test_a_person_sees_a_record_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """With its key, if it has one."""
    printer = EventPrinter(Output("table", color=False, width=None), "g_a")
    printer.delivered(Record("orders", 1, 9, b"k", b"a\nb\xff", None, (), 0, 3))
    printer.delivered(Record("orders", 1, 10, None, None, None, (), 0, 3))

    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("orders")[2] for line in lines] == ["-1@9  k: a\\nb\\xff", "-1@10  null"]


def test_a_commit_event_names_what_was_committed(capsys: pytest.CaptureFixture[str]) -> None:
    """A refused commit names no offsets: those of its begin; a release without a write is none."""
    printer = EventPrinter(Output("ndjson", color=False, width=None), "g_a")
    row = {"topic": "orders", "partition": 1}
    printer.record("commit.invoke", {"id": 1, "offsets": [{**row, "offset": 9}]})
    printer.record("commit.fail", {"id": 1, "partitions": [row]})
    for step in ("invoke", "ok"):
        released = [{**row, "offset": None}, {**row, "partition": 2, "offset": 7}]
        printer.record(f"release.{step}", {"id": 2, "partitions": released})
        printer.record(f"release.{step}", {"id": 3, "partitions": [{**row, "offset": None}]})
    events = _events(capsys)

    assert [(event["outcome"], event["offsets"]) for event in events] == [
        ("refused", [{"topic": "orders", "partition": 1, "offset": 9}]),
        ("ok", [{"topic": "orders", "partition": 2, "offset": 7}]),
    ]


def test_findings_of_the_command_and_of_the_file_are_one_document() -> None:
    """`zkgroup.audit` writes findings.json by itself; the schema is derived from the same classes."""
    rows = [
        Finding("orphan_owner", "error", "g", "orders", 3, 0x1A, 4, 5, 1_000, 2_000, "why"),
        Finding("digest_mismatch", "info", session=0),
        Finding("offset_regression", "error", "g", "orders", 3, 0x1B, 5, 5, 1_000, 1_000, "9 -> 2 by x"),
    ]
    found = Found(rows, [Skipped(ALL_RULES[0], "no log")], Facts(end_zxid=7, end_ms=1_000))
    written = findings_document(found, numbered(found))
    derived = FINDINGS.json(LastTransaction.of(7, 1_000), numbered(found))

    assert json.dumps(written) == json.dumps(derived)
    assert violations(written, SCHEMAS["zkgroup.audit_findings/1"]) == []
