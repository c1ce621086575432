"""The page of a series: marks where snapshots are, and nothing is drawn that they do not prove."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.worlds.cut_histories import cuts_of, history_of, write_fuzzy, write_series
from tests.worlds.server_history import ServerHistory
from zkgroup.audit.answers.snapshots import OfPartitions, offsets_in, owners_in
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.report.writing import report_of

SEEDS: Final = range(8)
Place = tuple[str, str, int]


def _data(*paths: Path) -> dict[str, Any]:
    return report_of(open_source(paths), paths).data


def _owners(data: dict[str, Any]) -> Iterator[tuple[Place, str, int, int]]:
    """Each bar: the partition, the owner, and its ends."""
    names = data["names"]
    for group, topic, partition, spans in data["owners"]["rows"]:
        for since, lasted, name, *_ in spans:
            begin = data["from"] + since
            end = max(data["logged"][1], begin) if lasted is None else begin + lasted
            yield (names[group], names[topic], partition), names[name], begin, end


def _curves(data: dict[str, Any]) -> Iterator[tuple[Place, int, int, int]]:
    """Each level piece of a curve: the partition, the offset, and its ends."""
    for group, topic, partition, _, times, offsets, *rest in data["offsets"]["rows"]:
        place = data["names"][group], data["names"][topic], partition
        ms, offset, points = data["from"], 0, []
        for since, by in zip(times, offsets, strict=True):
            ms, offset = ms + since, offset + by
            points.append((ms, offset))
        ends = [begin for begin, _ in points[1:]] + [data["logged"][1]]
        for at, (begin, offset) in enumerate(points):
            stood = rest[0][at] if rest else None
            log = max(data["logged"][1], begin)
            yield place, offset, begin, min(ends[at], log) if stood is None else begin + stood


def _check(world: ServerHistory, data: dict[str, Any], folder: Path) -> None:
    """Each bar and each piece of a curve is true of the history from its beginning to its end."""
    world.log(folder)
    log = open_source([folder])
    lives: dict[Place, list[tuple[str, int, float]]] = {}
    for (group, at), life in owners_in(log, OfPartitions())[1]:
        end = float("inf") if life.to_ms is None else life.to_ms
        lives.setdefault((group, at.topic, at.partition), []).append((life.thread, life.from_ms, end))
    for place, owner, begin, end in _owners(data):
        assert any(owner == name and since <= begin <= end <= to for name, since, to in lives[place])
    writes: dict[Place, list[tuple[int, int | None]]] = {}
    for (group, at), row in offsets_in(log, OfPartitions())[1]:
        writes.setdefault((group, at.topic, at.partition), []).append((row.time_ms, row.offset))
    for place, offset, begin, end in _curves(data):
        assert (begin, offset) in writes[place]
        between = [written for ms, written in writes[place] if begin < ms < end]
        assert set(between) <= ({None} if data["has_log"] else set())  # a log's curve marks deletions


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_drawn_that_is_not_known(seed: int, tmp_path: Path) -> None:
    """Of a series, a fuzzy one, and one around a log; each ownership that a snapshot met is there."""
    world, draw = history_of(seed), random.Random(seed)
    cuts = cuts_of(seed, world)
    first, last = cuts[0] + 3, max(cuts[-1] - 3, cuts[0] + 4)
    series, fuzzy, server = (tmp_path / name for name in ("series", "fuzzy", "server"))
    write_series(series, world, cuts, draw)
    fuzzy.mkdir()
    for zxid in cuts:
        write_fuzzy(fuzzy, world, zxid, draw)
    world.snapshot(server, first - 1)
    world.log(server, first, last)

    whole, mixed = _data(series), _data(server, series)

    for number, data in enumerate((whole, mixed, _data(fuzzy))):
        _check(world, data, tmp_path / f"log-{number}")
    times = [each.time_ms for each in open_source([series]).series[0].snapshots]
    assert (whole["from"], whole["to"], whole["snapshots"]) == (times[0], times[-1], times)
    assert len(mixed["snapshots"]) == sum(not first - 1 <= zxid <= last for zxid in cuts)
    met = {(place, owner) for place, owner, *_ in _owners(whole)}
    assert met == {
        ((group, at.topic, at.partition), life.thread)
        for (group, at), life in owners_in(open_source([series]), OfPartitions())[1]
    }
