"""The exporter's page in a browser: it follows the readings, fits any screen, and obeys the keyboard."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.worlds.browser import Page, browser, found
from tests.worlds.live_pages import DRAWN, WAIT, Document, LivePages, an_hour_with_everything
from tests.worlds.made_reports import HOSTILE

LAPTOP, PHONE = (1280, 800), (390, 844)
WIDEST = "document.documentElement.scrollWidth"
GROUPS = "[...document.querySelectorAll('#groups tbody tr')].map((row) => row.firstChild.textContent)"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    command = found()
    if command is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    with browser(command, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def hour() -> Iterator[LivePages]:
    pages = an_hour_with_everything()
    yield pages
    pages.close()


@pytest.fixture
def pages() -> Iterator[LivePages]:
    made = LivePages()
    yield made
    made.close()


def show(tab: Page, url: str, size: tuple[int, int] = LAPTOP, **options: Any) -> None:
    """Opens the page, and waits until its first document is drawn."""
    tab.faults.clear()
    tab.requests.clear()
    tab.open(url, *size, phone=size == PHONE, **options)
    tab.ask(WAIT)
    tab.settle()


def text(tab: Page, place: str) -> str:
    return str(tab.ask(f"document.querySelector({json.dumps(place)}).textContent"))


def wide(document: Document) -> Document:
    """The same with its groups a hundred and twenty-five times: 500 groups of 100 partitions."""
    made = {**document, "groups": [], "lags": {}}
    for times in range(125):
        for group in document["groups"]:
            name = f"{group['group']}-{times}"
            made["groups"].append({**group, "group": name, "partitions": 100})
            made["lags"][name] = document["lags"][group["group"]]
    if document["group"] is not None:
        made["group"] = group = copy.deepcopy(document["group"])
        rows = group["partitions"]
        group["partitions"] = [{**rows[n % len(rows)], "partition": n} for n in range(100)]
    return made


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_everything_is_drawn(tab: Page, hour: LivePages, size: tuple[int, int], dark: bool) -> None:
    """Problems first, with commands; nothing wider than the screen, no request to another server."""
    with hour.served() as url:
        show(tab, url, size, dark=dark)
        tab.ask("openGroup('billing')")
        tab.ask("poll()")
        tab.settle()

        assert tab.ask(DRAWN) == "drawn"
        assert tab.faults == []
        assert {request.partition("?")[0] for request in tab.requests} <= {url, f"{url}api/snapshot"}
        assert tab.ask(WIDEST) == size[0]
    assert tab.ask("document.querySelector('main > section').id") == "problems"
    assert text(tab, "#problems .card h3").startswith("✕group mails: stop")
    assert text(tab, "#problems .card code") == "zkgroup group describe mails"
    assert tab.ask(GROUPS) == ["mails", "shipping", "billing", "search-index"]
    assert tab.ask("document.querySelectorAll('#groups svg.spark path[d]').length") == 4
    assert "billing_host-3 left" in text(tab, "#changes tbody")
    assert "0 of 2 moves ended" in text(tab, "#brokers .body p")
    assert tab.ask("document.querySelectorAll('#lag svg path.curve').length") == 1
    assert tab.ask("getComputedStyle(document.body).backgroundColor") == (
        "rgb(15, 17, 20)" if dark else "rgb(246, 247, 249)"
    )


def test_the_page_follows_the_readings(tab: Page, pages: LivePages) -> None:
    """A change shows at the next poll. Where ZooKeeper is away it says what is unknown and since when, where
    the exporter is, that all of it is old; the group that is open and the filter stay."""
    pages.group("g", "t", 2, ("m0", "m1"))
    pages.group("h", "u", 1, ("m2",))
    pages.read()
    with pages.served() as url:
        show(tab, url, (1280, 1600))
        assert text(tab, "nav [aria-current]") == "Problems"
        show(tab, f"{url}?#group=g")
        owner = "document.querySelector('#group .rows tbody tr:last-child').children[1].textContent"
        assert (text(tab, "#group-title"), tab.ask(owner)) == ("g", "g_m1-0")
        tab.ask("document.getElementById('filter').value = 'g'")
        pages.world.leave("g", "m1")
        pages.read()
        tab.ask("poll()")
        assert tab.ask("document.querySelector('#group .rows tbody tr').children[1].textContent") == "none"
        assert text(tab, "#changes tbody tr td:nth-child(5)") == "1"
        assert tab.ask(GROUPS) == ["g"]
        reached = tab.ask("live.time")
        pages.lose("no server answers")
        first = tab.ask("poll().then(() => live.time)")
        pages.lose("no server answers")
        tab.ask("poll()")
        told = text(tab, "#unknown")
        assert f"It answered last at {reached[:19].replace('T', ' ')}." in told
        assert f"Not known since {first[:19].replace('T', ' ')}: no server answers" in told
        assert text(tab, "#groups .body") == text(tab, "#brokers .body") == "Not known."
        assert text(tab, "#group .body") == "Not known."
        assert tab.ask("document.getElementById('filter-partitions').getClientRects().length") == 0
        pages.read()
        tab.ask("poll()")
        assert (text(tab, "#unknown"), tab.ask(GROUPS)) == ("", ["g"])
        assert tab.ask(DRAWN) == "drawn"
        assert [
            fault for fault in tab.faults if "404" not in fault
        ] == []  # of the group, while nothing is known
    tab.ask("poll()")
    assert text(tab, "#unknown").startswith("✕ The exporter does not answer since")
    assert tab.ask("document.documentElement.className") == "stale"


def test_five_hundred_groups_are_found_by_the_keyboard(tab: Page, hour: LivePages) -> None:
    """The data of all is small, that of one group is asked for when it is opened; a poll leaves the focus."""
    hour.shape = wide
    try:
        assert len(json.dumps(hour.document(), separators=(",", ":"))) < 400_000
        with hour.served() as url:
            show(tab, url)
            assert "500 groups" in text(tab, "#groups caption")
            assert tab.ask("document.querySelectorAll('#groups tbody tr').length") == 25
            tab.ask("document.querySelector('#groups button.left').click()")
            assert tab.ask("document.querySelectorAll('#groups tbody tr').length") == 125
            focus = "document.activeElement.textContent"
            tab.ask("document.querySelector('#groups tbody tr:nth-child(60) button').focus()")
            name = tab.ask(focus)
            tab.ask("poll()")
            assert tab.ask(focus) == name
            assert tab.ask("document.querySelectorAll('#groups tbody tr').length") == 125
            took = tab.ask(
                "(() => { const began = performance.now(); draw(); return performance.now() - began; })()"
            )
            assert took < 1000
            tab.ask(
                "(() => { const f = document.getElementById('filter'); f.value = 'parc ship';"
                " f.dispatchEvent(new Event('input')); })()"
            )
            assert "125 groups" in text(tab, "#groups caption")
    finally:
        hour.shape = lambda document: document


def test_a_group_is_opened_and_closed_by_the_keyboard(tab: Page, hour: LivePages) -> None:
    """Its title has the focus then; Escape closes it, and the focus is at its row again."""
    focus = "document.activeElement.textContent"
    with hour.served() as url:
        show(tab, url)
        tab.ask("document.querySelector('#groups tbody tr:nth-child(3) button').focus()")
        tab.ask("document.activeElement.click()")
        tab.ask("poll()")
        assert tab.ask(f"[{focus}, document.activeElement.id, location.hash]") == [
            *("billing", "group-title", "#group=billing"),
        ]
        assert "12 partitions" in text(tab, "#group .rows caption")
        tab.press("Escape")
        tab.settle()
        assert tab.ask(f"[{focus}, document.activeElement.tagName, location.hash]") == [
            *("billing", "BUTTON", "#groups"),
        ]
        assert tab.ask("document.getElementById('group').hidden") is True
        assert tab.faults == []


def test_hostile_names_stay_text(tab: Page, pages: LivePages) -> None:
    """Of groups, members, owners and reasons: nothing in one runs, makes an element or changes a command."""
    group = HOSTILE.replace("/", "|")
    pages.cluster.topic("t", (1, 2))
    pages.world.member(group, "m", {"t": 1})
    pages.world.own(group, "t", 0, f"{group}_m-0")
    pages.world.commit(group, "t", 0, 5)
    pages.cluster.state("t", 0, -1, (2,))
    pages.read()
    shape = pages.shape

    def with_reason(document: Document) -> Document:
        return {**shape(document), "unknown": [{"reason": HOSTILE, "since": document["time"]}]}

    pages.shape = with_reason
    with pages.served() as url:
        show(tab, url)
        tab.ask(f"openGroup({json.dumps(group)})")
        tab.ask("poll()")
        tab.settle()

        assert (tab.ask(DRAWN), tab.faults) == ("drawn", [])
        assert tab.ask("document.querySelectorAll('main img, main script, header img').length") == 0
        assert text(tab, "#group-title") == tab.ask("live.groups[0].group") == group
        assert "<img src=x onerror=alert(1)>" in text(tab, "#unknown")
        assert text(tab, "#group code").startswith("zkgroup group describe '")
