"""Takes screenshots of pages for the docs: `python -m tests.programs.page_pictures`, needs Chromium.

The report shows the recorded incidents below `tests/golden`, the exporter's page an ensemble in memory.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.project import ROOT
from tests.worlds import audit_folders
from tests.worlds.browser import Page, browser, found
from tests.worlds.live_pages import WAIT, an_hour_with_everything
from zkgroup.audit.report.writing import page, report_of

FOLDER = ROOT / "docs" / "pictures"
WIDTH = 1080
PHONE = (390, 844)
TOP = "scrollTo(0, 0)"
OWNERS = """(() => {
  selectIncident(report.incidents.rows[1], false);
  const view = document.querySelector('#owners .view');
  document.querySelector('#owners').scrollIntoView({ behavior: 'instant' });
  view.focus();
})()"""


SHOWN = "scrollTo({ top: %s.offsetTop - 55, behavior: 'instant' })"
GROUP = """openGroup('billing'), new Promise((done) => {
  const look = () => (live.group ? done() : requestAnimationFrame(look));
  look();
})"""


def main() -> None:
    """Writes the screenshots anew."""
    command = found()
    if command is None:
        raise SystemExit("no Chromium on this machine: apt-get install chromium")
    with tempfile.TemporaryDirectory() as place, browser(command, Path(place) / "profile") as tab:
        take_report(tab, Path(place) / "report.html")
        pages = an_hour_with_everything()
        try:
            with pages.served() as url:
                take_exporter(tab, url)
        finally:
            pages.close()


def take_report(tab: Page, file: Path) -> None:
    """The report of an audit: its top, on a phone too, and the owners of an incident."""
    source = audit_folders.source(audit_folders.INCIDENTS)
    report = report_of(source, [audit_folders.folder(audit_folders.INCIDENTS)])
    file.write_text(page({**report.data, "inputs": ["version-2"]}), encoding="utf-8")
    for scheme in ("light", "dark"):
        tab.open(file, WIDTH, 900, dark=scheme == "dark")
        tab.ask(TOP)
        tab.settle()
        tab.picture(FOLDER / f"audit-report-{scheme}.png")
        tab.open(file, *PHONE, dark=scheme == "dark", phone=True)
        tab.settle()
        tab.picture(FOLDER / f"audit-phone-{scheme}.png")
        tab.open(file, WIDTH, 640, dark=scheme == "dark")
        tab.ask(OWNERS)
        tab.settle()
        tab.picture(FOLDER / f"audit-owners-{scheme}.png")


def take_exporter(tab: Page, url: str) -> None:
    """The page of the exporter: its top, a group, and groups on a phone."""
    for scheme in ("light", "dark"):
        for name, size, then in (
            ("page", (WIDTH, 1150), TOP),
            ("group", (WIDTH, 900), SHOWN % "document.getElementById('group')"),
            ("phone", PHONE, SHOWN % "document.getElementById('groups')"),
        ):
            tab.open("about:blank", *size)
            tab.open(url, *size, dark=scheme == "dark", phone=size == PHONE)
            tab.ask(WAIT)
            if name == "group":
                tab.ask(GROUP)
                tab.settle()
            tab.ask(then)
            tab.settle()
            tab.picture(FOLDER / f"exporter-{name}-{scheme}.png")


if __name__ == "__main__":
    main()
