"""Which commands of the audit need numpy and pyarrow, and what the others do without."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.worlds.audit_folders import INCIDENTS, folder

_PROGRAM = """
import contextlib, io, json, sys
from pathlib import Path

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numpy", "pyarrow"):
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Without())
from zkgroup_cli.entry import main
from zkgroup.history.transactions import read_transactions
ended, folder = [], sys.argv[2]
for arguments in json.loads(sys.argv[1]):
    sys.argv[1:] = arguments
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main()
        except SystemExit as end:
            code = end.code
    ended.append((code or 0, err.getvalue()))
assert read_transactions([Path(folder)])
print(json.dumps(ended))
"""


def _without_columns(*commands: list[str]) -> list[tuple[int, str]]:
    """Exit code and stderr of commands in a process that has neither numpy nor pyarrow."""
    program = [sys.executable, "-c", _PROGRAM, json.dumps(commands), str(folder(INCIDENTS))]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    ended: list[Any] = json.loads(done.stdout)
    return [(code, err) for code, err in ended]


def test_exports_inspections_and_histories_need_neither_numpy_nor_pyarrow(tmp_path: Path) -> None:
    """With the core alone one can look at the files of a server, and check what its members did."""
    export, place = str(tmp_path / "tree.zkexport"), str(folder(INCIDENTS))
    ended = _without_columns(
        ["audit", "export", export, "--input", place],
        ["audit", "inspect", place],
        ["audit", "inspect", export],
    )

    assert [code for code, _ in ended] == [0, 0, 0], ended


def test_other_commands_say_in_one_line_what_to_install(tmp_path: Path) -> None:
    """Before they read anything, and with the exit code of a wrong installation."""
    place = ["--input", str(folder(INCIDENTS))]
    commands = [
        ["audit", "findings", *place],
        ["audit", "summary", *place],
        ["audit", "owners", *place, "--group", "idle"],
        ["audit", "offsets", *place],
        ["audit", "sessions", *place],
        ["audit", "tree", *place],
        ["audit", "diff", *place, "1", "2"],
        ["audit", "report", str(tmp_path / "page.html"), *place],
        ["demo", "audit"],
    ]
    told = (
        "error: the audit needs numpy and pyarrow (No module named 'numpy'): pip install 'zkgroup[audit]'\n"
    )

    assert _without_columns(*commands) == [(2, told)] * len(commands)
    assert not list(tmp_path.iterdir())
