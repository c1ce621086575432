"""Names of exports in a folder that is filled again and again: their order, what is old, when one is due."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zkgroup.testing import FakeClock
from zkgroup.zkfiles.exports import export_name, named_export, next_due_ms, outdated, same_zxid

DAY_MS = 86_400_000
zxids = st.integers(0, 2**63 - 1)
times = st.integers(0, 4_000_000_000).map(lambda second: 1000 * second)


@given(one=zxids, other=zxids, time_ms=times, later_ms=times)
def test_names_sort_by_zxid_and_are_read_back(one: int, other: int, time_ms: int, later_ms: int) -> None:
    """Whatever their times are."""
    first, second = export_name(one, time_ms), export_name(other, later_ms)

    assert one == other or (first < second) == (one < other)
    found = named_export(first)
    assert found is not None
    assert (found.zxid, found.time_ms, found.is_whole) == (one, time_ms, True)


def test_the_form_is_the_documented_one() -> None:
    """The time in UTC to the second; none where the files did not tell it."""
    assert export_name(0x100000019, 1_769_868_185_999) == "export-0000000100000019-20260131T140305Z.gz"
    assert export_name(0x100000019, None) == "export-0000000100000019.gz"


def test_an_export_of_the_same_zxid_is_found_by_its_name() -> None:
    """A half-written one is none, and so is a file with another name."""
    foreign = f"export-{10:016x}-mine.gz"
    names = [export_name(7, None), export_name(8, 0), f".{export_name(9, 0)}.x1y2z3.tmp", foreign]

    assert [same_zxid(names, zxid) for zxid in (7, 8, 9, 10)] == [names[0], names[1], None, None]


OTHERS = [
    "tree.gz",
    "export-0000000000000001-20200101T000000Z.gz.bak",
    "export-1-20200101T000000Z.gz",
    "export-0000000000000001-20201301T000000Z.gz",
    "export-0000000000000001.gz",
    "snapshot.1",
    ".export-0000000000000001-20200101T000000Z.gz",
    "export-0000000000000001-20200101T000000Z.gz\n",
]


@given(ages=st.lists(st.integers(-1, 9), unique=True), keep_days=st.integers(1, 8))
def test_only_old_files_of_our_names_go_and_never_the_newest(ages: list[int], keep_days: int) -> None:
    """Also what was left of a half-written one; files of other names stay however old they are."""
    now_ms = FakeClock().wall_ms()
    names = {age: export_name(100 + age, now_ms - age * DAY_MS) for age in ages}
    halves = {age: f".{names[age]}.a1b2_c3d.tmp" for age in ages}

    gone = outdated([*OTHERS, *names.values(), *halves.values()], now_ms, keep_days * DAY_MS)

    old = {age for age in ages if age > keep_days}
    assert sorted(gone) == sorted(
        [names[age] for age in old - {min(ages, default=0)}] + [halves[age] for age in old]
    )
    assert outdated(OTHERS, now_ms, 1) == []


def test_the_next_export_is_due_at_the_next_multiple() -> None:
    """However long one took: missed times are left out, so the rate is bounded."""
    clock = FakeClock()
    begun_ms = clock.now_ms()
    due = []
    for took_ms in (0, 3_599_999, 1, 9_000_000):
        clock.advance(took_ms)
        due.append(next_due_ms(begun_ms, 3_600_000, clock.now_ms()) - begun_ms)

    assert due == [3_600_000, 3_600_000, 7_200_000, 14_400_000]
