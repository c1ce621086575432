"""Explores the model of the history: `python -m tests.programs.model.history --list | --all | NAME...`.

Exit status 1 when an answer is not the expected one.
"""

from __future__ import annotations

import sys

from tests.programs.model.__main__ import main, runner
from tests.programs.model.history.configurations import CONFIGURATIONS, answer

if __name__ == "__main__":
    sys.exit(main("tests.programs.model.history", CONFIGURATIONS, runner(CONFIGURATIONS, answer)))
