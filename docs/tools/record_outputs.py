"""Records what the examples print: `python -m docs.tools.record_outputs PAGE...`, from the top folder.

Each page's examples run in one shell, as the tests run them (`tests/real/docs/doc_pages.py`), and what each
block prints is written behind it. All outputs of a page are of one run, so that its times, ids and tokens
fit together. A page that is named is always recorded; without names, all pages run, and those are recorded
where more than numbers differs.
"""

from __future__ import annotations

import os
import subprocess
import sys

from docs.tools.generate import DOCS

TESTS = ("tests/real/docs/test_examples.py", "tests/long/docs/test_long_pages.py")


def main(pages: list[str]) -> int:
    """Exit code of pytest: 0 where all examples ran."""
    chosen = " or ".join(f"run[{page}]" for page in pages) or "run["
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", *TESTS, "-k", chosen],
        cwd=DOCS.parent,
        env={**os.environ, "ZKGROUP_DOCS_RECORD": "named" if pages else "changed"},
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
