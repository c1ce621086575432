"""The time that the doubles wait for threads, processes and servers at work, in real time.

Long, so that a busy machine is no failure; where nothing is wrong it costs nothing. One number for all of
them, which `ZKGROUP_TEST_PATIENCE_S` in the environment replaces.
"""

from __future__ import annotations

import os
from typing import Final

PATIENCE_S: Final = float(os.environ.get("ZKGROUP_TEST_PATIENCE_S", "120"))
