"""What docs/audit-on-spark.md asks DuckDB about the output of `audit run`; it is installed beside zkgroup."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.long.docs.test_deployment import installed
from tests.project import ROOT
from tests.worlds.cut_histories import cuts_of, history_of, write_tree
from tests.worlds.history_files import PlayedSpark
from zkgroup.audit.spark.job import run
from zkgroup.zkfiles.tree import Tree

PAGE = (ROOT / "docs" / "audit-on-spark.md").read_text(encoding="utf-8")
OF_SERIES, OF_LOGS = re.findall(
    r"^```text\n(import json\n.*?^import duckdb\n.*?)^```$", PAGE, re.DOTALL | re.MULTILINE
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return installed(tmp_path_factory.mktemp("packages"), "duckdb")


def answers(code: str, place: Path, environment: dict[str, str]) -> list[Any]:
    """The rows of each query of a block."""
    code = code.replace("duckdb.sql(", "answers.append(duckdb.sql(").replace(").show()", ").fetchall())")
    code = f"answers = []\n{code}\nprint(json.dumps(answers, default=bytes.decode))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=place, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def convert(files: Path, output: Path) -> None:
    run(PlayedSpark(), [f"east={files}"], str(output))  # type: ignore[arg-type]


def test_a_tree_and_an_offset_over_time(tmp_path: Path, environment: dict[str, str]) -> None:
    """From a series of exports, which two jobs converted."""
    world, path = history_of(7), "/consumers/g/offsets/t/0"
    cuts = cuts_of(7, world, most=12)
    for some in (cuts[:2], cuts[2:]):
        for zxid in some:
            write_tree(tmp_path / "east" / f"{zxid}.zkexport", world.at(zxid))
        convert(tmp_path / "east", tmp_path / "audited")
    code = OF_SERIES.replace("/consumers/billing/offsets/orders/0", path).replace("4294967330", str(cuts[-1]))
    tree, rows = answers(code, tmp_path, environment)

    assert tree == [[name, text_in(world.at(cuts[-1]), name)] for name in world.at(cuts[-1]).paths()]
    values = [text_in(world.at(zxid), path) for zxid in cuts]
    shown = {zxid: offset for zxid, _, _, offset in rows}
    assert shown == {zxid: value for zxid, value in zip(cuts, values, strict=True) if zxid in shown}
    changed = [
        zxid for zxid, old, new in zip(cuts, [None, *values], values, strict=False) if new not in (None, old)
    ]
    assert len(changed) > 1
    assert {*changed} <= {*shown}


def test_the_last_offset_of_each_partition(tmp_path: Path, environment: dict[str, str]) -> None:
    """From logs."""
    world = history_of(7)
    world.log(tmp_path / "east")
    convert(tmp_path / "east", tmp_path / "audited")
    (rows,) = answers(OF_LOGS.replace("/consumers/billing/", "/consumers/g/"), tmp_path, environment)

    shown = {f"/consumers/g/offsets/{topic}/{partition}": offset for topic, partition, offset in rows}
    there = {
        path: text_in(world.tree, path)
        for path in world.tree.paths("/consumers/g/offsets")
        if path.count("/") == 5
    }
    assert len(there) > 1
    assert {path: offset for path, offset in shown.items() if path in world.tree} == there


def text_in(tree: Tree, path: str) -> str | None:
    znode = tree.stored(path)
    return None if znode is None or znode.data is None else znode.data.decode()
