"""Takes screenshots of the report for the docs: `python -m tests.programs.report_pictures`, needs Chromium.

They show the recorded incidents below `tests/golden`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.project import ROOT
from tests.real.audit.browser import browser, found
from tests.worlds import audit_folders
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


def main() -> None:
    """Writes the screenshots anew."""
    command = found()
    if command is None:
        raise SystemExit("no Chromium on this machine: apt-get install chromium")
    source = audit_folders.source(audit_folders.INCIDENTS)
    report = report_of(source, [audit_folders.folder(audit_folders.INCIDENTS)])
    html = page({**report.data, "inputs": ["version-2"]})
    with tempfile.TemporaryDirectory() as place, browser(command, Path(place) / "profile") as tab:
        file = Path(place) / "report.html"
        file.write_text(html, encoding="utf-8")
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


if __name__ == "__main__":
    main()
