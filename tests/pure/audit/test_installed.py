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


def test_commands_that_need_numpy_say_what_to_install_and_the_others_do_without(tmp_path: Path) -> None:
    """Exports, inspections and histories need the core alone.

    The others end before they read anything, in one line, with the exit code of a wrong installation.
    """
    export, page = tmp_path / "tree.zkexport", tmp_path / "page.html"
    place = ["--input", str(folder(INCIDENTS))]
    able = [["export", str(export), *place], ["inspect", *place], ["inspect", str(export)]]
    others = [
        *(["findings", *place], ["summary", *place], ["owners", *place, "--group", "idle"]),
        *(["offsets", *place], ["sessions", *place], ["tree", *place], ["diff", *place, "1", "2"]),
        ["report", str(page), *place],
    ]
    ended = _without_columns(*(["audit", *words] for words in (*able, *others)), ["demo", "audit"])
    told = (
        "error: the audit needs numpy and pyarrow (No module named 'numpy'): pip install 'zkgroup[audit]'\n"
    )

    assert [code for code, _ in ended[: len(able)]] == [0] * len(able), ended
    assert ended[len(able) :] == [(2, told)] * (len(others) + 1)
    assert list(tmp_path.iterdir()) == [export]
