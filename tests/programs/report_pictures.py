"""Takes screenshots of the report for the docs: `python -m tests.programs.report_pictures`, needs Chromium.

They show the recorded incidents below `tests/golden`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.project import ROOT
from tests.worlds import golden_audits
from tests.worlds.browser import browser, found
from zkgroup.audit.engine import audit
from zkgroup.audit.findings import ALL_RULES
from zkgroup.audit.report.data import About, gather
from zkgroup.audit.report.page import page

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
    source = golden_audits.source(golden_audits.INCIDENTS)
    about = About(inputs=["version-2"])
    html = page(gather(source.rows().events(), audit(source, ALL_RULES), about))
    with tempfile.TemporaryDirectory() as folder, browser(command, Path(folder) / "profile") as tab:
        file = Path(folder) / "report.html"
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
