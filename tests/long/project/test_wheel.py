"""What `pip install .` takes with it, and brings."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.project import ROOT

LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.so")
COMPILED = {"zkgroup/zkfiles/kernel.abi3.so"}


def test_wheel_holds_every_file(tmp_path: Path) -> None:
    """`pip install .` brings each module and each data file, and nothing but our two packages.

    Of the sources in C it brings what was compiled from them, where a compiler is.
    """
    source = tmp_path / "source"
    for name in ("zkgroup", "cli"):
        shutil.copytree(ROOT / name, source / name, ignore=LEFT_OUT)
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    expected = {
        (f"{top}/{file.relative_to(source / folder).as_posix()}")
        for folder, top in (("zkgroup", "zkgroup"), ("cli", "zkgroup_cli"))
        for file in (source / folder).rglob("*")
        if file.is_file() and file.suffix not in (".c", ".h")
    }

    (wheel,) = tmp_path.glob("zkgroup-*.whl")
    found = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    assert expected - found == set()
    assert found - expected in (set(), COMPILED)
    assert {"zkgroup/py.typed", "zkgroup/demo/data/flights.jsonl.gz"} <= found
