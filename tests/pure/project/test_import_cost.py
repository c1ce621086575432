"""Importing the library is cheap and loads nothing that an embedding service has not asked for."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

EVERY_NAME = "import zkgroup\nfor name in zkgroup.__all__: getattr(zkgroup, name)"
MODULES_MAX = {"import zkgroup": 10, EVERY_NAME: 400}
"""Beyond bare Python. Loading everything is kazoo, the standard library's sockets and asyncio, and ours."""
HEAVY = ("pyspark", "pyarrow", "kafka", "click", "rich", "prometheus_client", "testcontainers")


def _loaded(statement: str) -> set[str]:
    """The modules of a fresh process after the statement, beyond those of bare Python."""
    program = f"import sys\nbare = set(sys.modules)\n{statement}\nfound = sorted(set(sys.modules) - bare)"
    command = [sys.executable, "-c", f"{program}\nimport json\nprint(json.dumps(found))"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("statement", MODULES_MAX, ids=["import", "every name"])
def test_import_loads_little_and_nothing_heavy(statement: str) -> None:
    """No work at import time, and no name loads Spark, Kafka clients, click or rich.

    kazoo comes with the first use of a name that needs it. What an import costs follows from what it loads;
    counted, since on a busy machine the same work can take several times as long.
    """
    loaded = _loaded(statement)

    assert [name for name in HEAVY if name in loaded] == []
    assert ("kazoo" in loaded) == (statement == EVERY_NAME)
    assert len(loaded) <= MODULES_MAX[statement]
