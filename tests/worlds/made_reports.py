"""Audit reports of generated histories."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import accumulate
from typing import Any

from tests.worlds.audit_log import AuditLog
from tests.worlds.plain_findings import find
from tests.worlds.screened_findings import rows_of_events
from zkgroup.audit.findings.engine import RULES, Found
from zkgroup.audit.incidents.attribution import numbered
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.source import Rows, SeenTree
from zkgroup.audit.report.keeping import ReportLimits
from zkgroup.audit.report.sections import ColumnsDrawing
from zkgroup.audit.report.tables import nowhere
from zkgroup.zkfiles.tree import Tree

GROUP = "billing"
HOSTILE = (
    '</script><script>document.title="broken"</script><img src=x onerror=alert(1)>'
    "&amp;\"'`${x}\u202e\x00\u2028"
)
"""A name that breaks out of its element, wherever a page does not escape it."""


def found_in(log: AuditLog) -> Found:
    """Findings of all rules over rows."""
    return Found(find(RULES, log.events), [], log.facts())


def data_of(log: AuditLog, limits: ReportLimits | None = None) -> dict[str, Any]:
    """The data of a report of a history."""
    return _gathered(log, found_in(log), limits or ReportLimits())


def shape_of(log: AuditLog) -> dict[str, Any]:
    """The report's data without findings, which take most of the time."""
    return _gathered(log, Found([], [], log.facts()), ReportLimits())


def _gathered(log: AuditLog, found: Found, limits: ReportLimits) -> dict[str, Any]:
    with closing(ColumnsDrawing(rows_of(log.events), None, limits, nowhere)) as drawing:
        drawing.finish()
    return drawing.data(found, numbered(found), ["made"])


def rows_of(events: Callable[[], Iterator[Event]]) -> Rows:
    """A history that begins with nothing."""
    return rows_of_events(events, SeenTree(Tree(digests=False), 0, None, True, False, ""))


def data_in(html: str) -> dict[str, Any]:
    """The data in a page."""
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert match is not None
    return dict(json.loads(match[1]))


def spans_of(data: dict[str, Any], row: list[Any]) -> list[list[Any]]:
    """The spans of a row as `base.js` reads them."""
    base, found = int(data["zxids"][0], 16), []
    for since, lasted, name, session, first, last, ended, *together in row[-1]:
        from_ms = data["from"] + since
        zxids = [first, last]
        if isinstance(first, int):
            zxids = [hex(base + first), None if last is None else hex(base + first + last)]
        until = None if lasted is None else from_ms + lasted
        found.append([from_ms, until, name, session, *zxids, ended, *(together or [1])])
    return found


def points_of(data: dict[str, Any], row: list[Any]) -> list[list[Any]]:
    """The points of a curve as `chart.js` reads them."""
    *_, times, offsets = row
    values = offsets if any(isinstance(each, str) for each in offsets) else accumulate(offsets)
    written = accumulate(times, initial=data["from"])
    next(written)
    return [list(point) for point in zip(written, values, strict=True)]


def busy(partitions: int, rounds: int, members: int = 4) -> AuditLog:
    """A group whose members join, leave and commit, with some foreign writes."""
    log = AuditLog()
    log.topic("orders", dict.fromkeys(range(partitions), (1, 2)))
    stranger = 99
    log.open(stranger)
    for number in range(2):
        log.open(50 + number)
        log.create(f"/brokers/ids/{number + 1}", json.dumps(BROKER), 50 + number, ephemeral=True)
    log.create("/controller", json.dumps(CONTROLLER), 50, ephemeral=True)
    log.create("/controller_epoch", "1", 50)
    session, living = 100, {}
    for turn in range(rounds):
        while len(living) < members:
            session += 1
            log.open(session)
            name = f"{GROUP}_host{session % 7}-{session}"
            log.join(GROUP, name, session, {"orders": 1})
            living[name] = session
        names = sorted(living)
        for number in range(partitions):
            owner = names[number * len(names) // partitions]
            log.claim(GROUP, ("orders", number), f"{owner}-0", living[owner])
            log.wait(1)
        for step in range(3):
            log.wait(7_000)
            for number in range(partitions):
                owner = names[number * len(names) // partitions]
                log.commit(GROUP, ("orders", number), turn * 300 + step * 100 + number % 50, living[owner])
        if turn % 3 == 1:
            log.commit(GROUP, ("orders", turn % partitions), 5, stranger)
        gone = names[turn % len(names)]
        for number in range(partitions):
            owner = names[number * len(names) // partitions]
            if owner != gone:
                log.release(GROUP, ("orders", number), living[owner])
        log.wait(4_000)
        log.expire(living.pop(gone))
        log.wait(900)
    return log


BROKER = {"jmx_port": -1, "timestamp": "1", "host": "localhost", "version": 1, "port": 9092}
CONTROLLER = {"version": 1, "brokerid": 1, "timestamp": "1"}
