"""Importing the library is cheap and loads nothing that an embedding service has not asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EVERY_NAME = "import zkgroup\nfor name in zkgroup.__all__: getattr(zkgroup, name)"
MODULES_MAX = {"import zkgroup": 10, "import zkgroup.admin": 10, EVERY_NAME: 612}
"""Modules beyond bare Python, of which 3.13 has more than 3.11. All names load kazoo, asyncio, brokers."""
HEAVY = ("pyspark", "pyarrow", "kafka", "click", "rich", "prometheus_client", "testcontainers")


def _loaded(statement: str) -> set[str]:
    """The modules of a fresh process after the statement, beyond those of bare Python."""
    program = f"import sys\nbare = set(sys.modules)\n{statement}\nfound = sorted(set(sys.modules) - bare)"
    command = [sys.executable, "-c", f"{program}\nimport json\nprint(json.dumps(found))"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("statement", MODULES_MAX, ids=["import", "import of admin", "every name"])
def test_import_loads_little_and_nothing_heavy(statement: str) -> None:
    """An import does little work, and no name loads Spark, Kafka clients, click or rich.

    kazoo is loaded by the first use of a name that needs it. The cost of an import follows from the modules
    that it loads. They are counted, since on a busy machine the same work can take several times as long.
    """
    loaded = _loaded(statement)

    assert [name for name in HEAVY if name in loaded] == []
    assert ("kazoo" in loaded) == (statement == EVERY_NAME)
    assert len(loaded) <= MODULES_MAX[statement]


def test_the_pytest_plugin_loads_nothing_before_its_fixtures_are_used() -> None:
    """Each run of pytest loads it, where zkgroup is installed: no broker, no cluster, no server."""
    loaded = _loaded("import pytest, zkgroup.testing.plugin")

    assert {name for name in loaded if name.startswith("zkgroup")} == {
        "zkgroup",
        "zkgroup.exports",
        "zkgroup.testing",
        "zkgroup.testing.plugin",
        "zkgroup.version",
    }


USERS_TEST = """
import sys
from pathlib import Path

def test_with_a_fixture(memory_zookeeper):
    import zkgroup.consumer.sync
    import zkgroup.testing.conformance.reads
    modules = {name: module for name, module in sys.modules.items() if name.startswith("zkgroup")}
    loaders = {name: type(module.__loader__).__name__ for name, module in modules.items()}
    print("rewritten:", *sorted(name for name in loaders if loaders[name] == "AssertionRewritingHook"))
"""


def test_asserts_of_the_library_are_not_rewritten_in_runs_of_its_users(tmp_path: Path) -> None:
    """pytest would recompile each of our modules, since a plugin cannot be marked without its package.

    Only the modules that load the plugin and the suites that users inherit are rewritten. The distribution is
    in the folder as a wheel installs it: older pytests do not know the modules of an editable one.
    """
    installed = tmp_path / "installed-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: installed\nVersion: 1.0\n")
    (installed / "RECORD").write_text("zkgroup/__init__.py,,\nzkgroup/consumer/sync.py,,\n")
    (installed / "entry_points.txt").write_text("[pytest11]\nzkgroup = zkgroup.testing.plugin\n")
    (tmp_path / "test_of_a_user.py").write_text(USERS_TEST)

    command = [sys.executable, "-m", "pytest", "-s", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("rewritten:")]
    rewritten = set(line.split()[1:])
    loads_the_plugin = {
        "zkgroup",
        "zkgroup.exports",
        "zkgroup.version",
        "zkgroup.testing",
        "zkgroup.testing.plugin",
    }
    assert {name for name in rewritten if "conformance" not in name} <= loads_the_plugin
    assert "zkgroup.testing.conformance.reads" in rewritten


UNUSED_BY_HISTORY = (
    "kazoo",
    "rich",
    "pyarrow",
    "numpy",
    "zkgroup.zookeeper",
    "zkgroup.audit.findings.engine",
)


def test_the_commands_about_owners_and_sessions_load_no_rule_and_no_client() -> None:
    """numpy and pyarrow come when logs are read, kazoo where a live ensemble is asked."""
    loaded = _loaded("import zkgroup_cli.commands.audit.history")

    assert [name for name in UNUSED_BY_HISTORY if name in loaded] == []
    assert "zkgroup.audit.answers.partitions" in loaded
