"""The program that fuzzes the kernel finds a kernel that differs from plain Python."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs.kernel_fuzz import ROOT, SOURCES, build

RIGHT, WRONG = "row->ints[column] = value;", "row->ints[column] = value + 1;"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_a_planted_difference_is_found(tmp_path: Path) -> None:
    """One round without sanitizers: versions are one too high."""
    for source in SOURCES.glob("*.[ch]"):
        (tmp_path / source.name).write_text(source.read_text().replace(RIGHT, WRONG))
    assert WRONG in (tmp_path / "kernel.c").read_text()
    build(tmp_path, tmp_path, ["-O0"])
    command = [sys.executable, "-m", "tests.programs.kernel_fuzz", "--built", str(tmp_path), "--seconds", "0"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 1
    assert "in is_decoded_alike" in ended.stderr
    assert "AssertionError" in ended.stderr
