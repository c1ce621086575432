"""What keeps reports small and their texts harmless."""

from __future__ import annotations

from itertools import pairwise

from tests.worlds.made_reports import HOSTILE
from zkgroup.audit.report.keeping import Kept, Names, number, shown
from zkgroup.audit.report.timelines import Span, Timeline


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
    """What is left out is counted."""
    kept: Kept[int] = Kept(3, weight=float)
    for value in (5, 1, 9, 2, 7):
        kept.add(value)

    assert (kept.items(), kept.left_out) == ([5, 9, 7], 2)


def test_too_many_spans_come_together() -> None:
    """A long row shrinks below its bound, tells how many spans each stands for, and loses none."""
    timeline: Timeline[str] = Timeline(spans=100, rows=5, start_ms=0, length_ms=100_000)
    for at in range(10_000):
        timeline.add("row", Span(at * 10, at * 10 + 8, "abc"[at % 3], 0, at, at, "open"))

    ((_, spans),) = timeline.rows()

    assert len(spans) <= 101
    assert sum(span.together for span in spans) == 10_000
    assert (spans[0].from_ms, spans[-1].to_ms) == (0, 99_998)
    assert all(one.to_ms is not None and one.to_ms <= two.from_ms for one, two in pairwise(spans))
    assert any("drawn as one" in note for note in timeline.notes("partition"))


def test_few_spans_stay_as_they_are() -> None:
    """Nothing is brought together without need."""
    timeline: Timeline[str] = Timeline(spans=100, rows=5, start_ms=0, length_ms=100_000)
    for at in range(50):
        timeline.add("row", Span(at * 10, at * 10 + 8, "a", 0, at, at, "open"))

    assert [span.together for span in timeline.rows()[0][1]] == [1] * 50
    assert timeline.notes("partition") == []


def test_rows_beyond_the_bound_are_counted() -> None:
    """Each once, however many spans it had."""
    timeline: Timeline[str] = Timeline(spans=100, rows=1, start_ms=0, length_ms=10)
    for row in ("a", "b", "c", "b"):
        timeline.add(row, Span(0, 1, "a", 0, 1, 1, "open"))

    assert [row for row, _ in timeline.rows()] == ["a"]
    assert timeline.notes("partition") == ["2 partitions more did not fit and are not drawn."]
