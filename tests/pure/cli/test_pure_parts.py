"""Tables, units and settings: text in, text out."""

from __future__ import annotations

import json
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zkgroup_cli.member_events import EventPrinter
from zkgroup_cli.params import parse_settings
from zkgroup_cli.render import Cell, Output, TableColumn, render, short_name, shorten
from zkgroup_cli.units import age, parse_duration_ms, parse_iso_duration_ms, parse_time_ms

from zkgroup.errors import ConfigError
from zkgroup.model.text import counted, iso_time
from zkgroup.settings import GroupSettings

COLUMNS = [
    TableColumn("NAME", itemgetter(0), shorten="middle", least=8),
    TableColumn("COUNT", itemgetter(1), right=True),
    TableColumn("NOTE", itemgetter(2), shorten="end", least=6, rank=1),
]


def test_columns_are_as_wide_as_their_longest_cell() -> None:
    """Names left, numbers right, no blanks at the end, missing values as a dash."""
    lines = render(COLUMNS, [["orders", 7, "x"], ["a", None, Cell("", "dim")]])

    assert lines == ["NAME    COUNT  NOTE", "orders      7  x", "a           -"]


def test_the_middle_of_a_name_gives_way_first() -> None:
    """Both ends of an id distinguish it."""
    lines = render(COLUMNS, [["abcdefghijklmnopqrstuvwxyz", 1, "n"]], width=30)

    assert lines == ["NAME               COUNT  NOTE", "abcdefgh…stuvwxyz      1  n"]


def test_a_text_is_below_its_row_where_it_does_not_fit_beside_the_others() -> None:
    """No column is left out for it; with room it is a column like the others."""
    columns = [*COLUMNS, TableColumn("DETAIL", itemgetter(3), shorten="below", least=20)]
    row = ["orders", "7", "x", "one two three four five six"]

    narrow, wide = render(columns, [row], width=24), render(columns, [row], width=60)

    assert narrow == [
        "NAME    COUNT  NOTE",
        "orders      7  x",
        *("    one two three four", "    five six"),
    ]
    assert wide[1:] == ["orders      7  x     one two three four five six"]


def test_a_long_name_is_wrapped_behind_an_underscore() -> None:
    """And a text ends in an ellipsis where its lines are counted."""
    name: TableColumn[str] = TableColumn("N", str, shorten="wrap", least=16)
    short: TableColumn[str] = TableColumn("N", str, shorten="wrap", least=16, lines=2)

    assert render([name], ["owner_session_mismatch"], width=16)[1:] == ["owner_session_", "mismatch"]
    assert render([short], ["one two three four five six seven"], width=14)[-1] == "four five six…"


def test_the_least_important_column_is_left_out_and_named() -> None:
    """What does not fit is said, not lost in silence."""
    lines = render(COLUMNS, [["abcdefghijklmnop", 123456, "something long"]], width=22)

    assert "NOTE" not in lines[0]
    assert lines[-1] == "left out for the width: NOTE"


@given(
    st.lists(
        st.tuples(st.text("abc-_.", max_size=60), st.integers(0, 10**9), st.text("xyz ", max_size=60)),
        max_size=5,
    ),
    st.integers(24, 200),
)
def test_tables_never_exceed_the_width(rows: list[tuple[str, int, str]], width: int) -> None:
    """For any content, down to the width of what may not be cut."""
    lines = render(COLUMNS, rows, width=width)

    table = [line for line in lines if not line.startswith("left out")]
    assert all(len(line) <= width for line in table)


def test_cells_cannot_steer_the_terminal() -> None:
    """A foreign znode may hold escape sequences: a table shows that something is there, no more."""
    lines = render([TableColumn("OWNER", itemgetter(0))], [["a\x1b[31mb\n"], [Cell("c\x07", "bad")]])

    assert lines[1:] == [r"a\x1b[31mb\n", r"c\x07"]


def test_styles_do_not_count_as_width() -> None:
    """Alignment is made before paint."""
    lines = render(COLUMNS, [[Cell("a", "good"), 1, "x"]], paint=lambda text, style: f"<{style}>{text}</>")

    assert lines == ["<header>NAME</>  <header>COUNT</>  <header>NOTE</>", "<good>a</>         1  x"]


@given(st.text(max_size=40), st.integers(0, 50))
def test_shortened_text_fits(text: str, width: int) -> None:
    """At most the width, and unchanged where it fits."""
    for how in ("middle", "end"):
        short = shorten(text, width, how)  # type: ignore[arg-type]

        assert len(short) <= max(width, 0)
        assert short == text or len(text) > width


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("500ms", 500),
        ("30s", 30_000),
        ("1.5s", 1500),
        ("1m30s", 90_000),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
    ],
)
def test_durations_have_units(text: str, ms: int) -> None:
    """Whole and broken numbers, one unit or several."""
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize(
    ("text", "message"),
    [("30", "30s"), ("", "no duration"), ("5x", "no duration"), ("s", "no duration"), ("1s5", "no")],
)
def test_other_durations_are_refused_with_a_hint(text: str, message: str) -> None:
    """A bare number would be a guess."""
    with pytest.raises(ValueError, match=message):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("P1D", 86_400_000),
        ("PT1H30M", 5_400_000),
        ("P7DT1H30M5S", 610_205_000),
        ("-PT5S", -5000),
        ("26h", 93_600_000),
    ],
)
def test_kafkas_durations_are_read(text: str, ms: int) -> None:
    """ISO-8601 periods, and `7d` and the like."""
    assert parse_iso_duration_ms(text) == ms


def test_times_are_utc_with_milliseconds() -> None:
    """Both ways; without a zone a time is UTC."""
    assert iso_time(1_767_225_600_007) == "2026-01-01T00:00:00.007Z"
    assert iso_time(None) is None
    assert parse_time_ms("2026-01-01T00:00:00.007Z") == 1_767_225_600_007
    assert parse_time_ms("2026-01-01T01:00:00+01:00") == parse_time_ms("2026-01-01T00:00:00")
    with pytest.raises(ValueError, match="no time"):
        parse_time_ms("yesterday")


def test_ages_have_one_or_two_units() -> None:
    """Short enough for a column; a clock that is ahead makes no negative age."""
    ages = [age(0, ms) for ms in (0, 59_999, 61_000, 3_600_000, 90_000_000, -5)]

    assert ages == ["0s", "59s", "1m01s", "1h00m", "1d", "0s"]
    assert age(None, 5) is None


def test_counts_agree_with_their_noun() -> None:
    """One member, two members."""
    assert [counted(n, "member") for n in (0, 1, 2)] == ["0 members", "1 member", "2 members"]


def test_settings_are_parsed_by_their_type() -> None:
    """Our names, dashes for underscores, and Kafka's own names; times may carry units."""
    values = parse_settings(
        [
            ("session_timeout_ms", "6s"),
            ("settle-ms", "40"),
            ("auto.commit.enable", "false"),
            ("lease_fraction", "0.5"),
            ("rebalance_max_retries", "none"),
            ("consumer_timeout_ms", "-1"),
            ("partition.assignment.strategy", "sticky"),
        ],
        GroupSettings,
    )

    assert values == {
        "session_timeout_ms": 6000,
        "settle_ms": 40,
        "auto_commit_enable": False,
        "lease_fraction": 0.5,
        "rebalance_max_retries": None,
        "consumer_timeout_ms": -1,
        "partition_assignment_strategy": "sticky",
    }
    assert GroupSettings(**values).session_timeout_ms == 6000


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("session_timeout", "1", "did you mean 'session_timeout_ms'"),
        ("group.idd", "x", "unknown setting"),
        ("session_timeout_ms", "soon", "milliseconds, or a time such as 5s"),
        ("auto_commit_enable", "maybe", "true or false"),
        ("lease_fraction", "half", "a number"),
        ("max_unacked", "many", "a whole number"),
    ],
)
def test_settings_that_cannot_be_are_refused(name: str, value: str, message: str) -> None:
    """The name, what was expected, what was found."""
    with pytest.raises(ConfigError, match=message):
        parse_settings([(name, value)], GroupSettings)


def test_a_setting_given_twice_is_refused() -> None:
    """Which one would count?"""
    with pytest.raises(ConfigError, match="twice"):
        parse_settings([("settle_ms", "1"), ("settle-ms", "2")], GroupSettings)


def test_a_release_of_nothing_read_is_no_commit(capsys: pytest.CaptureFixture[str]) -> None:
    """The -1 that stands in an offset znode before any commit never shows as an offset."""
    printer = EventPrinter(Output("ndjson", color=False, width=None), "g_a")
    rows = [{"topic": "t", "partition": number, "offset": offset} for number, offset in enumerate((-1, 7))]

    printer.record("release.ok", {"id": 1, "offsets": rows[:1]})
    printer.record("release.ok", {"id": 2, "offsets": rows})

    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["offsets"] == rows[1:]


def test_a_name_in_a_headline_is_short_and_moves_no_cursor() -> None:
    """Clients choose the names of protocols: one of 32,767 characters filled the screen."""
    assert short_name("range") == "range"
    assert short_name("a\x1b[2J\n") == r"a\x1b[2J\n"
    assert short_name("p" * 32_767) == "p" * 39 + "\u2026"
