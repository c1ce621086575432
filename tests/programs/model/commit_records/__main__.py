"""Explores the records of commits: `python -m tests.programs.model.commit_records --list | --all | NAME...`.

Exit status 1 when an answer is not the expected one.
"""

from __future__ import annotations

import sys

from tests.programs.model.__main__ import main, runner
from tests.programs.model.commit_records.configurations import CONFIGURATIONS, answer

if __name__ == "__main__":
    sys.exit(main("tests.programs.model.commit_records", CONFIGURATIONS, runner(CONFIGURATIONS, answer)))
