"""The page in a real browser: it is drawn, fits laptops and phones, and obeys the keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worlds import audit_folders
from tests.worlds.audit_log import AuditLog
from tests.worlds.browser import Page, browser, found
from tests.worlds.made_reports import HOSTILE, busy, data_of, shape_of, spans_of
from zkgroup.audit.report.writing import page, report_of

LAPTOP, PHONE = (1280, 800), (390, 844)
WIDEST = "document.documentElement.scrollWidth"
CANVAS = "document.querySelector('#owners canvas')"
INKS = f"""(() => {{ const c = {CANVAS};
  const all = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
  return new Set(new Uint32Array(all.buffer)).size; }})()"""
READOUT = "document.querySelector('#owners .readout').textContent"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    command = found()
    if command is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    with browser(command, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def shape() -> dict[str, Any]:
    """The data of a thousand partitions."""
    return shape_of(busy(1000, 2))


@pytest.fixture(scope="module")
def thousand(tmp_path_factory: pytest.TempPathFactory, shape: dict[str, Any]) -> Path:
    """The report of a thousand partitions."""
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(page(shape), encoding="utf-8")
    return file


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_thousand_partitions_are_drawn(
    tab: Page, thousand: Path, size: tuple[int, int], dark: bool
) -> None:
    """All sections without an error, nothing wider than the screen, and nothing asked of the network."""
    tab.requests.clear()
    tab.open(thousand, *size, dark=dark, phone=size == PHONE)

    assert tab.ask("document.documentElement.dataset.report") == "drawn"
    assert tab.faults == []
    assert tab.requests == [thousand.as_uri()]
    assert tab.ask(WIDEST) == size[0]
    assert tab.ask(INKS) > 10, "the timeline is empty"
    assert "1,000 partitions" in tab.ask(READOUT)
    assert tab.ask("getComputedStyle(document.body).backgroundColor") == (
        "rgb(15, 17, 20)" if dark else "rgb(246, 247, 249)"
    )


def test_no_table_is_wider_than_its_section(tab: Page, tmp_path: Path) -> None:
    """Of recorded incidents: at the widths of small laptops and tablets, where rows begin to stack.

    On paper each table says how many rows are only on the screen.
    """
    file = tmp_path / "report.html"
    source = audit_folders.source(audit_folders.INCIDENTS)
    file.write_text(page(report_of(source, [audit_folders.folder(audit_folders.INCIDENTS)]).data))
    wide = (
        "[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth).length"
    )

    for width in (1080, 980, 760):
        tab.open(file, width, 900)
        assert (width, tab.ask(WIDEST), tab.ask(wide)) == (width, width, 0)
    tab.call("Emulation.setEmulatedMedia", media="print")
    left = "document.querySelector('#sessions .left')"
    paper = f"[getComputedStyle({left}).display, {left}.dataset.paper]"
    assert tab.ask(paper) == ["inline-block", "7 rows more on the screen"]
    assert tab.ask("getComputedStyle(document.querySelector('#incidents .notes')).display") == "block"
    tab.call("Emulation.setEmulatedMedia", media="")


def test_the_timeline_follows_the_keyboard(tab: Page, thousand: Path, shape: dict[str, Any]) -> None:
    """Arrows tell rows and spans in words, plus and minus zoom, zero shows everything."""
    tab.open(thousand, *LAPTOP)
    length = "shownTime.to - shownTime.from"
    whole = tab.ask(length)
    tab.ask("document.querySelector('#owners .view').focus()")

    tab.press("ArrowDown")
    tab.press("ArrowRight")
    told = tab.ask(READOUT)
    tab.press("+")
    near = tab.ask(length)
    tab.press("0")

    assert told.startswith("billing orders-1: billing_host")
    assert "zxid {4} to {5}session".format(*spans_of(shape, shape["owners"]["rows"][1])[1]) in told
    assert "session 0x" in told
    assert near == pytest.approx(whole / 2)
    assert tab.ask(length) == pytest.approx(whole)


@pytest.fixture(scope="module")
def accidents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of two groups: a stranger sets back g's offset and deletes h's claim."""
    log = AuditLog()
    log.topic("t", 1)
    for group, session in (("g", 1), ("h", 2)):
        log.come(group, "m", session)
        log.claim(group, ("t", 0), "m-0", session)
        log.commit(group, ("t", 0), 500, session)
    log.passes(60_000)
    log.open(9)
    log.commit("g", ("t", 0), 120, 9)
    log.passes(60_000)
    log.release("h", ("t", 0), 2)
    log.claim("h", ("t", 0), "m-0", 2)
    log.passes(200)
    log.release("h", ("t", 0), 9)
    log.passes(1_000)
    file = tmp_path_factory.mktemp("accidents") / "report.html"
    file.write_text(page(data_of(log)), encoding="utf-8")
    return file


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_all_pictures_have_one_time_axis(tab: Page, accidents: Path, size: tuple[int, int]) -> None:
    """The same ticks at the same places of the screen, two or more, and the day beside them."""
    tab.open(accidents, *size, phone=size == PHONE)
    drawn = """(async () => {
      const own = CanvasRenderingContext2D.prototype.fillText, texts = [];
      const owners = document.querySelector('#owners canvas');
      CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        if (this.canvas === owners && y < AXIS) texts.push([text, owners.getBoundingClientRect().left + x]);
        return own.call(this, text, x, y);
      };
      shownTime.whole();
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      CanvasRenderingContext2D.prototype.fillText = own;
      const inSvg = (place) => [...document.querySelectorAll(`${place} svg.plot text.tick`)].map((each) => {
        const box = each.getBoundingClientRect();
        return [each.textContent, (box.left + box.right) / 2];
      });
      return [texts[0][0], texts.slice(1), inSvg('.strip'), inSvg('#offsets'), inSvg('#load')];
    })()"""

    day, owners, *others = tab.ask(drawn)

    assert day == tab.ask("timeOf(report.from).slice(0, 10)")
    assert len(owners) >= 2
    for ticks in others:
        assert [text for text, _ in ticks] == [text for text, _ in owners]
        assert [x for _, x in ticks] == pytest.approx([x for _, x in owners], abs=1)


def test_labels_of_an_axis_stand_apart_at_every_zoom(tab: Page, accidents: Path) -> None:
    """On a phone: two labels or more up to a month, none on the next one."""
    tab.open(accidents, *PHONE, phone=True)
    worst = """(() => {
      const pen = document.createElement('canvas').getContext('2d');
      pen.font = `11.5px ${colour('sans')}`;
      let least = Infinity, fewest = Infinity;
      for (let length = 30; length < 30 * 864e5; length *= 1.3) {
        const { ticks } = ticksOf(report.from, report.from + length, 226);
        fewest = Math.min(fewest, ticks.length);
        ticks.slice(1).forEach((tick, at) => {
          const needed = (pen.measureText(tick.text).width + pen.measureText(ticks[at].text).width) / 2;
          least = Math.min(least, ((tick.ms - ticks[at].ms) / length) * 226 - needed);
        });
      }
      return [least, fewest];
    })()"""

    least, fewest = tab.ask(worst)

    assert least > 0
    assert fewest >= 2


def test_a_deleted_claim_is_crossed_on_a_phone(tab: Page, accidents: Path) -> None:
    """However short the span was; at first the group of the worst incident is chosen."""
    tab.open(accidents, *PHONE, phone=True)
    red = f"""(() => {{ const c = {CANVAS};
      const error = colour('error').match(/\\w\\w/g).map((each) => parseInt(each, 16));
      const all = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
      let count = 0;
      const isRed = (at) => error.every((ink, of) => Math.abs(all[at + of] - ink) < 30);
      for (let at = 0; at < all.length; at += 4) count += isRed(at);
      return count; }})()"""
    chosen = "document.querySelector('#owners select').selectedOptions[0].text"
    first = tab.ask(f"[{chosen}, nameOf(report.incidents.rows[0][3])]")
    tab.ask("filters.ownersGroup(report.names.indexOf('h'))")
    tab.settle()

    assert first == ["g", "g"]
    assert tab.ask(red) > 10


def test_an_incident_is_marked_in_all_pictures(tab: Page, accidents: Path) -> None:
    """Its button sets the time of all of them and the group of the owners; Escape marks nothing again."""
    marked = "document.querySelectorAll('[data-marked]').length"

    tab.open(accidents, *LAPTOP)
    title = tab.ask("document.querySelector('.card h3').textContent")
    inside = tab.ask("document.querySelector('.card summary').textContent")
    code = tab.ask("document.querySelector('.card dd code').textContent")
    bars = tab.ask("document.querySelectorAll('.strip rect.incident').length")
    tab.ask("document.querySelector('.card button.act').click()")
    tab.settle()
    chosen = tab.ask("[selection.from, shownTime.from < selection.from, selection.to < shownTime.to]")
    seen = tab.ask(f"[{marked} > 0, document.querySelectorAll('svg .selected').length > 0]")
    group = tab.ask("document.querySelector('#owners select').selectedOptions[0].textContent")
    tab.press("Escape")
    tab.settle()

    assert title.endswith("session …9 set back g's t-0 without owning it: offset 500 → 120")
    assert inside == "2 findings: 1 offset set back, 1 commit without ownership"
    assert code == "zkgroup session"
    assert tab.ask("document.querySelector('main').textContent.includes('`')") is False
    assert bars >= 1
    assert chosen[1:] == [True, True]
    assert seen == [True, True]
    assert group == "g"
    assert tab.ask(f"[selection.from, {marked}]") == [None, 0]
    assert tab.faults == []


def test_an_address_names_an_incident(tab: Page, accidents: Path) -> None:
    """`#incident-2` shows the card with that number and marks it, a note's too, which is folded before."""
    tab.open(accidents, *LAPTOP)
    tab.ask("document.documentElement.style.scrollBehavior = 'auto'")
    told = """(() => {
      const card = document.getElementById('incident-%s'), { top, bottom } = card.getBoundingClientRect();
      const numbered = card.querySelector('h3').textContent;
      return [numbered.slice(0, 3), top > 0 && bottom <= innerHeight && bottom > top, selection.incident];
    })()"""
    rows = tab.ask("report.incidents.rows.filter((row) => row[4] !== null).map((row) => row.slice(0, 2))")

    for number, severity in (rows[0], rows[-1]):
        tab.ask(f"location.hash = '#incident-{number}'")
        tab.settle()
        assert tab.ask(told % number) == [f"{'✕!i'[severity]}{number}.", True, number]
    assert [rows[0][1], rows[-1][1]] == [0, 2]
    assert tab.faults == []


def test_rows_of_tables_stack_on_a_phone(tab: Page, thousand: Path) -> None:
    """Each cell below the other, with the head of its column before it."""
    tab.open(thousand, *PHONE, phone=True)
    first, second = tab.ask(
        "[...document.querySelector('#rebalances tbody tr').children].slice(0, 2)"
        ".map(cell => [cell.getBoundingClientRect().top, getComputedStyle(cell, '::before').content])"
    )

    assert first[0] < second[0]
    assert [first[1], second[1]] == ['"Began"', '"Group"']


def test_a_filter_narrows_the_timeline_and_its_table(tab: Page, thousand: Path) -> None:
    """The table has the rows that are drawn."""
    tab.open(thousand, *LAPTOP)
    tab.ask(
        "(() => { const f = document.querySelector('#owners input'); f.value = 'orders-77';"
        " f.dispatchEvent(new Event('input')); document.querySelector('#owners details').open = true; })()"
    )
    tab.settle()

    cells = tab.ask(
        "[...document.querySelectorAll('#owners tbody tr')].map(row => row.firstChild.textContent)"
    )

    assert {cell.removeprefix("billing orders-77") for cell in cells} <= {"", *"0123456789"}
    assert "11 of 1,000 partitions" in tab.ask(READOUT)


def test_an_incident_without_a_time_has_its_zxids(tab: Page, thousand: Path) -> None:
    """A digest that is wrong is known by its zxid alone; at the end is what is about the last tree."""
    tab.open(thousand, *LAPTOP)
    card = "cardOf([9, 0, 'title', -1, null, null, {}, '', 0, '', '', []], () => [])"

    def when(zxids: str) -> Any:
        return tab.ask(f"{card.format(zxids)}.querySelector('dd').textContent")

    assert when("'0x5', '0x7'") == "zxid 0x5 to 0x7"
    assert when("null, null") == "at the end"


def test_on_paper_it_is_dark_on_white_and_whole(tab: Page, thousand: Path) -> None:
    """Whatever the screen's colours were: texts, canvas too, and nothing wider than the paper."""
    width = 718  # of A4 without its margins
    tab.open(thousand, width, 1000, dark=True)
    tab.call(
        "Emulation.setEmulatedMedia",
        media="print",
        features=[{"name": "prefers-color-scheme", "value": "dark"}],
    )
    tab.settle()
    darkest = f"""(() => {{ const c = {CANVAS};
      const all = c.getContext('2d').getImageData(0, 0, 100, c.height).data;
      let least = 255;
      for (let at = 0; at < all.length; at += 4) if (all[at + 3] > 200) least = Math.min(least, all[at]);
      return least; }})()"""

    assert tab.ask("getComputedStyle(document.body).color") == "rgb(28, 33, 40)"
    assert tab.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.ask(darkest) < 60, "names beside the timeline are drawn for a dark screen"
    assert tab.ask(WIDEST) == width
    assert tab.ask("document.querySelector('#owners .chart').dataset.paper") == "984 rows more on the screen"
    assert tab.ask("getComputedStyle(document.querySelector('#owners .lead')).breakAfter") == "avoid"
    tab.call("Emulation.setEmulatedMedia", media="", features=[])


def test_hostile_names_stay_text(tab: Page, tmp_path: Path) -> None:
    """Nothing in a name runs, makes an element or changes the title; opened rows show it as it is."""
    log = AuditLog()
    log.topic("t", 1)
    for session in (1, 2):
        log.open(session)
    group = HOSTILE.replace("/", "|")
    log.join(group, "m", 1)
    log.claim(group, ("t", 0), HOSTILE, 1)
    log.commit(group, ("t", 0), 9, 1)
    log.commit(group, ("t", 0), 5, 2)
    file = tmp_path / "report.html"
    file.write_text(page(data_of(log)), encoding="utf-8")

    tab.open(file, *LAPTOP)
    tab.ask("document.querySelectorAll('details').forEach(each => (each.open = true))")
    tab.ask("document.querySelectorAll('button.link').forEach(each => each.click())")
    tab.settle()

    assert tab.faults == []
    assert tab.ask("document.title") == "Audit of a ZooKeeper ensemble"
    assert tab.ask("document.querySelectorAll('main img, main script').length") == 0
    assert "<img src=x onerror=alert(1)>" in tab.ask("document.querySelector('main').textContent")


def test_many_members_and_partitions_of_two_groups(tab: Page, tmp_path: Path) -> None:
    """Forty members look different from each other; a group and a topic can be chosen, on a phone one is."""
    log = AuditLog()
    for group, topic in (("g", "orders"), ("h", "mails")):
        log.topic(topic, 3)
        for number in range(3):
            session = 100 * len(topic) + number
            log.come(group, f"{group}_{number}", session)
            log.claim(group, (topic, number), f"{group}_{number}-0", session)
            log.commit(group, (topic, number), 7, session)
    file = tmp_path / "report.html"
    file.write_text(page(data_of(log.passes(60_000))), encoding="utf-8")
    tab.open(file, *LAPTOP)

    looks = "new Set([...Array(48).keys()].map((n) => JSON.stringify(toneOfMember('new' + n)))).size"
    assert tab.ask(looks) == 48
    chosen = """(() => {
      const select = document.querySelector("#offsets select[aria-label='%s']");
      select.value = [...select.options].find((each) => each.text === '%s').value;
      select.dispatchEvent(new Event('change'));
      const found = document.querySelector("#offsets select[aria-label='Partition']").options;
      return [...found].map((each) => each.text);
    })()"""
    assert tab.ask(chosen % ("Group", "h")) == ["h mails-0", "h mails-1", "h mails-2"]
    assert tab.ask(chosen % ("Topic", "orders")) == []

    tab.open(file, *PHONE, phone=True)
    assert tab.ask("document.querySelector('#owners select').selectedOptions[0].text") == "g"
    assert tab.ask(READOUT).startswith("3 of 6 partitions")
