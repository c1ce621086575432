"""The fast reader of exports, of which each line that is odd goes to the reader that knows every rule."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zkgroup.errors import DamagedFileError
from zkgroup.model.requests import STAT_NAMES
from zkgroup.zkfiles.exports import ExportReader
from zkgroup.zkfiles.records import StoredZnode
from zkgroup.zkfiles.states import StatesReader

_HEADER = {
    **dict.fromkeys(("time_ms", "zxid_before", "zxid_after"), 9),
    **dict.fromkeys(("source", "chroot", "detail"), ""),
    **dict.fromkeys(("changed", "unreadable"), ()),
}
_ODD = (
    *(None, True, 1.0, 0, -1, 2**63, -(2**63), 2**64, 10**19, "", "/", "//", '/a"b', "/\u00e4\\", "a"),
    *("YQ==", "YR==", "YQ=", "Y Q==", [], [[]], [[31, "world", "anyone"]], [[True, "world", "anyone"]]),
    *([[31, "x", "\u00e4\n"]], [["31", "a", "b"]], [[1, "a"]], {}, {"czxid": 1}, float("nan")),
)


def _odd_line(draw: random.Random, path: str) -> str:
    """A line in which some values, keys or bytes are odd, or none."""
    stat: dict[str, Any] = {name: draw.randrange(99) for name in STAT_NAMES}
    znode: dict[str, Any] = {
        "path": path,
        "data_base64": "YQ==",
        "acl": [[31, "world", "anyone"]],
        "stat": stat,
    }
    for _ in range(draw.choice((0, 0, 1, 1, 2))):
        some = draw.choice((znode, stat))
        name = draw.choice([*some, "more"])
        if draw.random() < 0.2:
            some.pop(name, None)
        elif draw.random() < 0.2:
            some[name] = some.pop(name, 1)
        else:
            some[name] = draw.choice(_ODD)
    line = json.dumps(znode, separators=draw.choice(((",", ":"), (",", ":"), None)))
    if draw.random() < 0.2:
        at = draw.randrange(len(line))
        line = (
            line[:at] + draw.choice(('"', "\\", "0", "-", ",", " ", "{", "\t", "\x7f", ".")) + line[at + 1 :]
        )
    return line.replace('"stat"', '"acl":[],"stat"') if draw.random() < 0.05 else line


def _written(path: Path, lines: list[str]) -> Path:
    text = "".join(f"{line}\n" for line in (json.dumps({"schema": "zkgroup.tree/1", **_HEADER}), *lines))
    end = {"znodes": len(lines), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    path.write_bytes(gzip.compress(f"{text}{json.dumps(end)}\n".encode(), 1))
    return path


def _outcome(read: Callable[[], list[StoredZnode]]) -> object:
    try:
        return {each.path: each for each in read()}
    except DamagedFileError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(40))
def test_odd_lines_are_read_as_by_the_reader_that_knows_every_rule(seed: int, tmp_path: Path) -> None:
    """Several exports on top of each other, of which lines come back: equal znodes, or the same error."""
    draw, reader = random.Random(seed), StatesReader()
    known = [_odd_line(draw, f"/{number}") for number in range(4)]
    for number in range(12):
        lines = [draw.choice((each, _odd_line(draw, f"/{number}"))) for number, each in enumerate(known)]
        path = _written(tmp_path / f"{number}.gz", lines[: draw.randrange(5)])

        found = _outcome(lambda: list(reader.states.znodes(reader.read_export(path)[1])))  # noqa: B023

        assert found == _outcome(lambda: [each.stored() for each in ExportReader(path).exported()])  # noqa: B023
