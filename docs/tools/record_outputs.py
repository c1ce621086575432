"""Records what the examples print: `python -m docs.tools.record_outputs PAGE...`, from the top folder.

Each page's examples run in one shell, as the tests run them (`tests/worlds/doc_pages.py`), and what each
block prints is written behind it. Numbers that differ from run to run are those of the run that was recorded;
the tests compare the rest.
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
        env={**os.environ, "ZKGROUP_DOCS_RECORD": "1"},
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
