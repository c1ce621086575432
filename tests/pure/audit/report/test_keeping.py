"""What keeps reports small and their texts harmless."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from tests.worlds.made_reports import HOSTILE
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.report.keeping import Names, ReportLimits, number, shown, weightiest
from zkgroup.audit.report.timelines import Span, timeline_of


def test_what_cannot_be_seen_is_spelled() -> None:
    """Characters that turn text around, or end lines, stand as their numbers."""
    assert shown("a\u202eb\x00c\u2028") == "a\\u{202e}b\\u{0}c\\u{2028}"
    assert shown("größe 名前") == "größe 名前"
    assert "\u202e" not in shown(HOSTILE)


def test_long_texts_are_cut() -> None:
    """One znode cannot fill the page."""
    assert shown("x" * 50, 10) == "xxxxxxxxx…"
    assert len(shown("\x00" * 1_000_000, 10)) == 10


def test_names_come_once() -> None:
    """Each text has one number; no text has none."""
    names = Names()

    assert [names.of(text) for text in ("a", "b", "a", None)] == [0, 1, 0, -1]
    assert names.texts == ["a", "b"]


def test_numbers_that_a_browser_would_round_are_text() -> None:
    """Beyond 2**53 digits come as digits."""
    assert (number(7), number(2**63 - 1), number(None)) == (7, "9223372036854775807", None)


def test_the_weightiest_are_kept_in_their_order() -> None:
    """Of equal ones the first."""
    assert weightiest([5, 1, 9, 2, 7], 3, float) == [5, 9, 7]
    assert weightiest("abc", 2, lambda _: 0) == ["a", "b"]


def _timeline(count: int, facts: Facts) -> dict[str, Any]:
    """The data of a row of spans of 8 ms each, one every 10 ms."""
    spans: list[tuple[tuple[str], Span]] = [
        (("row",), (at, at, at * 10, at * 10 + 8, 0, 1, False, "abc"[at % 3], "open")) for at in range(count)
    ]
    return timeline_of(spans, facts, replace(ReportLimits(), spans=100)).data("partition", Names())


def test_too_many_spans_come_together() -> None:
    """A long row shrinks below its bound, tells how many spans each stands for, and loses none."""
    data = _timeline(10_000, Facts(has_log=True, end_ms=100_000))

    ((_, spans),) = data["rows"]

    assert len(spans) <= 100
    assert sum((*span, 1)[7] for span in spans) == 10_000
    assert (spans[0][0], spans[-1][0] + spans[-1][1]) == (0, 99_998)
    assert all(one[0] + one[1] <= two[0] for one, two in pairwise(spans))
    assert "drawn as one" in data["notes"][0]


def test_few_spans_stay_as_they_are() -> None:
    """Nothing is brought together without need."""
    data = _timeline(50, Facts(has_log=True, end_ms=100_000))

    assert [len(span) for span in data["rows"][0][1]] == [7] * 50
    assert data["notes"] == []


def test_rows_beyond_the_bound_are_counted() -> None:
    """Each once, however many spans it had."""
    spans: list[tuple[tuple[str], Span]] = [
        ((row,), (0, 1, 0, 1, 1, 1, False, "a", "open")) for row in "abcb"
    ]
    names = Names()

    data = timeline_of(spans, Facts(), replace(ReportLimits(), partitions=1)).data("partition", names)

    assert [names.texts[row[0]] for row in data["rows"]] == ["a"]
    assert data["notes"] == ["2 partitions more did not fit and are not drawn."]
