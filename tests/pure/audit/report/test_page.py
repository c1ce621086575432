"""The page: one file that is whole, asks for nothing, and shows hostile names as text."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from tests.worlds import audit_folders
from tests.worlds.audit_log import AuditLog
from tests.worlds.made_reports import GROUP, HOSTILE, busy, data_in, data_of, shape_of
from zkgroup.audit.report.keeping import ReportLimits
from zkgroup.audit.report.writing import page, report_of

SECTIONS = (
    *(
        "incidents",
        "findings",
        "owners",
        "rebalances",
        "offsets",
        "controllers",
        "brokers",
        "replication",
        "sessions",
    ),
    *("load", "files"),
)
VOID = {"meta", "br", "link", "img", "input"}


class Reader(HTMLParser):
    """Elements and texts; what is opened has to be closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        fields = dict(attrs)
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.links += [value for name in ("href", "src", "action") if (value := fields.get(name))]
        self.faults += [f"{tag} {name}" for name in fields if name.startswith("on") or name == "style"]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}>")


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader


@pytest.fixture(scope="module")
def incidents() -> str:
    """The report of the golden incidents."""
    source = audit_folders.source(audit_folders.INCIDENTS)
    return page(report_of(source, [audit_folders.folder(audit_folders.INCIDENTS)]).data)


def test_the_page_is_whole(incidents: str) -> None:
    """Every element is closed in order, ids are unique, every link leads to a section that is there."""
    reader = read(incidents)

    assert (reader.open, reader.faults) == ([], [])
    assert len(reader.ids) == len(set(reader.ids))
    assert set(SECTIONS) <= set(reader.ids)
    assert {link.removeprefix("#") for link in reader.links} <= set(reader.ids)
    assert reader.tags.count("h1") == 1


def test_nothing_comes_from_anywhere_else(incidents: str) -> None:
    """No address outside, and a policy under which only this style and these scripts run."""
    addresses = set(re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s\"']*", incidents))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', incidents)
    (style,) = re.findall(r"<style>(.*?)</style>", incidents, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", incidents, re.DOTALL)

    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert "@import" not in style
    assert "url(" not in style
    for kind, text in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")


def test_every_section_has_its_data(incidents: str) -> None:
    """The incidents have something of everything."""
    data = data_in(incidents)

    for section in (
        "incidents",
        "owners",
        "rebalances",
        "offsets",
        "controllers",
        "brokers",
        "replication",
        "sessions",
        "load",
    ):
        assert data[section]["rows"], section
    assert data["findings"]["rules"]
    assert all(path and healthy for path, _, _, healthy, *_ in data["files"])


def test_incidents_come_first_with_their_findings(incidents: str) -> None:
    """Titles in words; every finding names its incident; a group's times with members bound its gaps."""
    data = data_in(incidents)
    rows = data["incidents"]["rows"]
    names = data["names"]

    assert [row[1] for row in rows] == sorted(row[1] for row in rows)
    assert "00:00:23 session …08 took g's t-0..3 from g_a, which kept committing: offsets 1000 → 21" in {
        row[2] for row in rows
    }
    numbers = [row[0] for row in rows]
    inside = [row[10] for rule in data["findings"]["rules"] for row in rule["rows"]]
    assert set(inside) == set(numbers)
    assert sum(count for row in rows for _, count in row[12]) == len(inside)
    assert {names[group] for group, _ in data["members"]} == {"g", "idle", "adopt", "pause"}
    assert all(to is not None for _, spans in data["members"] for _, to in spans)
    assert (
        incidents.index('id="incidents"') < incidents.index('id="owners"') < incidents.index('id="findings"')
    )


def test_hostile_names_are_text() -> None:
    """Names and data that end scripts, open elements or turn text around stay inside the data."""
    log = AuditLog()
    group = HOSTILE.replace("/", "|")
    log.topic("t", 1)
    for session in (1, 2):
        log.open(session)
    log.join(group, "m", 1)
    log.claim(group, ("t", 0), HOSTILE, 1)
    log.commit(group, ("t", 0), 9, 1)
    log.commit(group, ("t", 0), 5, 2)
    log.create("/brokers/ids/1", HOSTILE, 2, ephemeral=True)
    log.create("/controller", HOSTILE, 2, ephemeral=True)
    calm = AuditLog()
    calm.join(GROUP, "m", 1)

    html, plain = page(data_of(log)), page(data_of(calm))

    assert read(html).tags == read(plain).tags
    assert "<img" not in html
    assert any("</script>" in name for name in data_in(html)["names"])
    assert not any(character in html for character in "\u202e\x00\u2028")


def test_sixteen_thousand_partitions_fit() -> None:
    """A row each, in a file that a browser opens; made of a hundred and sixty, again and again."""
    data = shape_of(busy(160, 2))
    rows = data["owners"]["rows"]
    data["owners"]["rows"] = [
        [group, topic, partition + 160 * times, spans]
        for times in range(100)
        for group, topic, partition, spans in rows
    ]

    assert len(data["owners"]["rows"]) == 16_000 <= ReportLimits().partitions
    assert len(page(data)) < 6_000_000


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_texts_and_bars_contrast_with_the_background(scheme: int) -> None:
    """The contrast of each pair of colours is 4.5 or more, which WCAG 2 asks of texts."""
    style = (files("zkgroup.pages") / "assets" / "look.css").read_text(encoding="utf-8")
    block = re.findall(r":root \{(.*?)\n *\}", style, re.DOTALL)[scheme]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
    pairs = [(f"c{number}", "paper") for number in range(12)]
    pairs += [(tone, ground) for tone in ("error", "warning", "info") for ground in ("paper", f"{tone}-box")]
    pairs += [(text, ground) for text in ("ink", "soft", "accent") for ground in ("paper", "ground", "box")]

    faint = {pair: ratio for pair in pairs if (ratio := _contrast(*(colours[name] for name in pair))) < 4.5}

    assert faint == {}


def _contrast(one: str, other: str) -> float:
    """By WCAG 2.2, relative luminance."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
