"""What is packed for a page can be taken apart again, as the page's scripts do."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from tests.worlds.made_reports import busy, shape_of
from zkgroup.audit.report.page import packed

BASE_MS = 1_700_000_000_000


def data_with(spans: list[list[Any]], points: list[list[Any]]) -> dict[str, Any]:
    row, nothing = [0, 0, 0], {"rows": []}
    return {
        "from": BASE_MS,
        "zxids": ["0x100000001", "0x200000000"],
        "owners": {"notes": ["n"], "rows": [[*row, spans]]},
        "offsets": {"rows": [[*row, 9, points]]},
        **dict.fromkeys(("controllers", "brokers", "replication"), nothing),
    }


def spans_of(data: dict[str, Any], row: list[Any]) -> list[list[Any]]:
    """The spans of a packed row as `base.js` reads them."""
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
    """The points of a packed curve as `chart.js` reads them."""
    *_, times, offsets = row
    values = offsets if any(isinstance(each, str) for each in offsets) else accumulate(offsets)
    written = accumulate(times, initial=data["from"])
    next(written)
    return [list(point) for point in zip(written, values, strict=True)]


def test_spans_and_curves_of_a_history_come_back() -> None:
    """All of them, and nothing else is changed."""
    data = shape_of(busy(20, 5))
    small = packed(data)

    for section in ("owners", "controllers", "brokers"):
        assert data[section]["rows"]
        assert [spans_of(small, row) for row in small[section]["rows"]] == [
            row[-1] for row in data[section]["rows"]
        ]
    assert [points_of(small, row) for row in small["offsets"]["rows"]] == [
        row[4] for row in data["offsets"]["rows"]
    ]
    assert small["rebalances"] == data["rebalances"]


def test_what_a_browser_would_round_stays_text() -> None:
    """Zxids that are far from the first one, and offsets above 2^53 together with small ones."""
    far, big = hex(2**62), str(2**60)
    spans = [
        [BASE_MS - 5, None, 1, -1, "0x5", None, 2, 1],
        [BASE_MS, BASE_MS + 7, 1, 3, far, hex(2**62 + 1), 2, 4],
    ]
    points = [[BASE_MS + 1, 7], [BASE_MS + 9, big]]

    small = packed(data_with(spans, points))

    (row,) = small["owners"]["rows"]
    assert spans_of(small, row) == spans
    assert row[-1][1][4] == far
    (curve,) = small["offsets"]["rows"]
    assert points_of(small, curve) == [[BASE_MS + 1, "7"], [BASE_MS + 9, big]]
