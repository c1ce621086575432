"""The cost of a replay that compares every digest, beside decoding the same records alone.

CPU time counts, for it is steady on a shared machine; the ratio is that of one run.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.programs.benchmarks.calls import calls_of
from tests.programs.benchmarks.report import Line, Plan, Report, median
from tests.worlds.server_history import ServerHistory
from tests.worlds.zkfiles_tables import digest_verdict
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.logs import LogReader

PARTITIONS = 2000
STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2,3]}'
CRCS = "CPU: two CRCs a change, and the 60 bytes that they are of"


def replay(plan: Plan, report: Report) -> None:
    """A log of a server of 3.6 or later: 72 % offsets, the rest owners that come and go, and states."""
    records = 10_000 if plan.short else 200_000
    with tempfile.TemporaryDirectory(prefix="zkgroup-replay-") as name:
        folder = Path(name)
        path = _written(records).log(folder)
        count = sum(1 for _ in LogReader(path))
        decoding, checking = [], []
        for _ in range(plan.repeats):
            decoding.append(_cpu_s(lambda: sum(1 for _ in LogReader(path))))
            checking.append(_cpu_s(lambda: _verified(folder, count)))
        decoded = calls_of(lambda: sum(1 for _ in LogReader(path)))
        checked = calls_of(lambda: _verified(folder, count))
    for side, costs in (("decoded alone", decoding), ("replayed, every digest compared", checking)):
        report.lines.append(
            Line(
                f"log of {count} records",
                side,
                client_cpu_s=median(costs),
                runs=len(costs),
                note=f"{count / (median(costs) or 1):,.0f} records for a second of CPU",
            )
        )
    what = "replay with every digest compared, for each one of decoding alone"
    report.at_most(what, 2.5, checked / decoded, "calls", CRCS)
    found = (median(decoding) or 0.0) / (median(checking) or 1.0)
    report.at_least("replay with every digest compared, over decoding alone", 0.25, found, CRCS)


def _written(records: int) -> ServerHistory:
    chance, world = Random(1), ServerHistory()
    world.create("/offsets")
    world.create("/owners")
    paths = [f"/offsets/partition-{number:05d}" for number in range(PARTITIONS)]
    for path in paths:
        world.create(path, b"0")
    for number in range(records):
        kind = chance.random()
        if kind < 0.72:
            world.set(chance.choice(paths), b"%d" % number)
        elif kind < 0.86:
            world.create(f"/owners/{number}", b"consumer-1-thread-0")
            world.delete(f"/owners/{number}")
        else:
            world.set(chance.choice(paths), STATE)
    return world


def _verified(folder: Path, count: int) -> None:
    found = History(folder).verify()
    assert (digest_verdict(found), found.digests_checked) == ("clean", count)


def _cpu_s(act: Callable[[], object]) -> float:
    before = time.process_time()
    act()
    return time.process_time() - before
