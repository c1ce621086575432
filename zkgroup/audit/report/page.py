"""The page of a report as one HTML file."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from string import Template
from typing import Any, Final

_EXACT_MAX: Final = 2**53
_TIMELINES: Final = ("owners", "controllers", "brokers", "replication")


def packed(data: dict[str, Any]) -> dict[str, Any]:
    """Returns what `data.gather` gives, as it is written into the page."""
    start_ms, start_zxid = data["from"], max(_zxid(data["zxids"][0]), 0)
    found = dict(data)
    for section in _TIMELINES:
        rows = [[*row, _spans(spans, start_ms, start_zxid)] for *row, spans in data[section]["rows"]]
        found[section] = {**data[section], "rows": rows}
    curves = [[*row, *_curve(points, start_ms)] for *row, points in data["offsets"]["rows"]]
    found["offsets"] = {**data["offsets"], "rows": curves}
    return found


def _spans(spans: Sequence[Sequence[Any]], start_ms: int, start_zxid: int) -> list[list[Any]]:
    found = []
    for from_ms, to_ms, name, session, from_zxid, to_zxid, ended, together in spans:
        first, last = _zxids(from_zxid, to_zxid, start_zxid)
        lasted = None if to_ms is None else to_ms - from_ms
        span = [from_ms - start_ms, lasted, name, session, first, last, ended]
        found.append(span if together == 1 else [*span, together])
    return found


def _zxids(from_zxid: str, to_zxid: str | None, start_zxid: int) -> tuple[int | str, int | str | None]:
    """The first one from that of the history, the last one from the first one."""
    first = _zxid(from_zxid)
    last = first if to_zxid is None else _zxid(to_zxid)
    if max(abs(first - start_zxid), abs(last - start_zxid), abs(last - first)) >= _EXACT_MAX:
        return from_zxid, to_zxid
    return first - start_zxid, None if to_zxid is None else last - first


def _zxid(text: str) -> int:
    """Of what `keeping.hex_zxid` wrote."""
    return int(text.removeprefix("0x"), 16)


def _curve(points: Sequence[Sequence[Any]], start_ms: int) -> tuple[list[int], list[Any]]:
    times = [ms for ms, _ in points]
    offsets = [offset for _, offset in points]
    since = [ms - before for before, ms in pairwise([start_ms, *times])]
    if any(isinstance(offset, str) for offset in offsets):
        return since, list(map(str, offsets))
    return since, [offset - before for before, offset in pairwise([0, *offsets])]


SCRIPTS: Final = (
    *("base.js", "time_axis.js", "timeline.js", "spans.js", "chart.js"),
    *("incidents.js", "findings.js", "groups.js", "cluster.js", "main.js"),
)
"""In the order in which they stand in the page."""

_HARMLESS: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""JSON has these in strings only, so as escapes they mean the same, and no data ends the script."""


def page(data: dict[str, Any]) -> str:
    """The report as HTML.

    The page's own policy lets only this style and these scripts run, known by their digests, and nothing be
    fetched; names and texts of the data are put in as text.
    """
    style, script = _asset("report.css"), _script()
    return Template(_asset("report.html")).substitute(
        style=style,
        script=script,
        policy=f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)};"
        " img-src data:; base-uri 'none'; form-action 'none'",
        data=json.dumps(packed(data), separators=(",", ":"), allow_nan=False).translate(_HARMLESS),
    )


@cache
def _script() -> str:
    return "\n".join(_asset(name) for name in SCRIPTS)


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
