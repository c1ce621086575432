"""The day: a group on three real servers, faults after faults, and a clean end."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final, Self

from tests.programs.on_servers import comes_true, hold
from tests.programs.real_day.cast import Cast
from tests.programs.real_day.faults import End, Fault, Faults
from zkgroup.errors import ZkGroupError
from zkgroup.testing.proxies import PeerLinks
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

CHROOT: Final = "/day"
CONFIG: Final = {"snapCount": "20000"}
"""Several logs and snapshots, as a day has them."""
BETWEEN_S: Final = 30.0
"""Longest wait for an owner of every partition between faults; then the next come all the same."""
WORK_S: Final = 2.0
"""What the group has between faults for its work."""


@dataclass(slots=True)
class Day:
    """The parts of a day that its files do not contain."""

    seed: int
    minutes: float = 0.0
    ahead_ms: float = 0.0
    """Of the servers' clock before the one of the members' records."""
    planted: list[int] = field(default_factory=list)
    """The zxids of the foreign client's writes."""
    expired: list[int] = field(default_factory=list)
    """The sessions that a fault ended before their time."""
    bitten: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def keep(self, home: Path) -> None:
        kept = {each.name: getattr(self, each.name) for each in fields(self)}
        (home / "day.json").write_text(json.dumps(kept, indent=1), encoding="utf-8")

    @classmethod
    def kept(cls, home: Path) -> Self:
        found = json.loads((home / "day.json").read_text("utf-8"))
        return cls(**{**found, "bitten": Counter(found["bitten"])})


def run_day(
    home: Path,
    seed: int,
    schedule: Iterator[tuple[Fault, ...]],
    minutes: float,
    say: Callable[[str], None] = lambda _: None,
) -> Day:
    """Runs a day; leaves the servers' folders, the members' records and `day.json` below `home`."""
    home.mkdir(parents=True, exist_ok=True)
    began_s = time.monotonic()
    day = Day(seed)
    with (
        PeerLinks() as links,
        EmbeddedZooKeeper(
            3, fsync=False, route=links.route, config=CONFIG, data_dir=home / "zookeeper"
        ) as zookeeper,
    ):
        zookeeper.create_chroot(CHROOT)
        with Cast(zookeeper, links, home, CHROOT) as cast:
            cast.make_topics()
            cast.start_all()
            faults = Faults(cast)
            try:
                while time.monotonic() - began_s < minutes * 60:
                    together = next(schedule, None)
                    if together is None:
                        break
                    say(f"{time.monotonic() - began_s:6.0f} s  {' + '.join(f.kind for f in together)}")
                    _strike(cast, faults, together)
                cast.heal()
                for seat in cast.seats:
                    seat.start()
                cast.settle()
                hold(WORK_S)
                cast.leave()
            except (AssertionError, ZkGroupError) as error:
                day.wrong.append(f"{type(error).__name__}: {error}")
            day.planted, day.expired, day.bitten = cast.planted, faults.expired, faults.bitten
            day.wrong += cast.wrong
        day.ahead_ms = time.time() * 1000 - time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1_000_000
    day.minutes = (time.monotonic() - began_s) / 60
    day.keep(home)
    return day


def _strike(cast: Cast, faults: Faults, together: tuple[Fault, ...]) -> None:
    """Begins the faults one after the other, so that they overlap; the shortest ends first."""
    ends: list[tuple[float, End]] = [(fault.hold_s, faults.begin(fault)) for fault in together]
    began_s = time.monotonic()
    for hold_s, end in sorted(ends, key=lambda each: each[0]):
        hold(max(0.0, began_s + hold_s - time.monotonic()))
        end()
    if comes_true(lambda: not cast.unowned(), BETWEEN_S):
        hold(WORK_S)
