"""What the ruling controller shows of itself, and whether it still keeps up (recipes 13, 15, 18)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from zkgroup.admin.brokers import registrations
from zkgroup.admin.ensemble import Ensemble
from zkgroup.admin.picture import held
from zkgroup.admin.ruling import OURS_VERSION
from zkgroup.model import Znode
from zkgroup.znodes.brokers import Topic, topics_path
from zkgroup.znodes.controller import Controller, ControllerEpoch
from zkgroup.znodes.controller_records import ControllerStatus
from zkgroup.znodes.ids import number_of

HUNG_AFTER_MS = 60_000
"""A change of topics or brokers that is older than this, and that the controller has not processed, hangs."""

WHOLE_TOPICS = ("deletion",)
"""What waits for a topic as a whole: `deletion of orders-2` is of the topic `orders-2`."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RulingStatus:
    """The controller, as `status` tells it."""

    controller: int | None
    """None where nobody rules, or its znode cannot be read."""
    epoch: int | None
    kind: str | None
    """`zkgroup` or `kafka`; None where nobody rules."""
    last_processed_zxid: int | None = None
    """None for a real controller, which does not tell."""
    hung: bool | None = None
    """It has left a change of a topic or broker alone for a minute; None where nothing tells."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Path to what is wrong with it."""
    refetching: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Broker to partitions that it may fetch again from their beginning (recipes 15)."""
    waiting: Mapping[str, str] = field(default_factory=dict)
    """What waits, and for what."""
    restart: Mapping[int, str] = field(default_factory=dict)
    """Broker that should be restarted, and why: a real controller that may not know that it is none."""
    left_off: int = 0
    """Entries of these that are not shown."""


def read_ruling_status(ensemble: Ensemble) -> RulingStatus:
    """Reads who rules and what it says. What cannot be read is None, and its path is in `unreadable`."""
    paths = [Controller.path(), ControllerEpoch.path(), ControllerStatus.path()]
    found = ensemble.zk.read_many(paths)
    znode, epoch_znode, status_znode = (found[path] for path in paths)
    broken: dict[str, str] = {}
    ruler = _value(znode, Controller.decode, broken)
    epoch = _value(epoch_znode, ControllerEpoch.decode, broken)
    status = _value(status_znode, ControllerStatus.decode, broken)
    number = epoch.epoch if epoch else None
    is_ours = znode is not None and znode.stat.version == OURS_VERSION
    if status is None or not is_ours or status.epoch != number:
        kind = None if znode is None else "zkgroup" if is_ours else "kafka"
        return RulingStatus(
            controller=ruler.broker if ruler else None,
            epoch=number,
            kind=kind,
            unreadable=_without_paths(broken),
        )
    return RulingStatus(
        controller=ruler.broker if ruler else None,
        epoch=number,
        kind="zkgroup",
        last_processed_zxid=status.zxid,
        hung=is_hung(status.zxid, _changes(ensemble), ensemble.clock.wall_ms()),
        unreadable=_without_paths({**status.unreadable, **broken}),
        refetching=status.unnamed,
        waiting={what: why for what, why in status.waiting.items() if _broker(what) is None},
        restart={
            broker: why for what, why in status.waiting.items() if (broker := _broker(what)) is not None
        },
        left_off=status.left_off,
    )


def is_hung(processed_zxid: int, changes: Iterable[tuple[int, int]], now_ms: int) -> bool:
    """Whether a change (zxid, time in ms) is older than `HUNG_AFTER_MS` and not processed."""
    return any(zxid > processed_zxid and now_ms - time_ms > HUNG_AFTER_MS for zxid, time_ms in changes)


def waiting_by_topic(waiting: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What waits, and for what, with the partitions of a topic in one entry: `leader of orders: 0-2, 7`."""
    partitions: dict[tuple[str, str], dict[int, str]] = {}
    found: dict[tuple[str, str] | str, str] = {}
    for what, why in waiting.items():
        head, of, place = what.rpartition(" of ")
        topic, _, text = place.rpartition("-")
        number = number_of(text)
        if not of or not topic or number is None or head in WHOLE_TOPICS:
            found[what] = why
            continue
        found.setdefault((head, topic), "")
        partitions.setdefault((head, topic), {})[number] = why
    rows = []
    for key, why in found.items():
        if isinstance(key, str):
            rows.append((key, why))
            continue
        head, topic = key
        whys = partitions[key]
        if len(whys) == 1:
            ((number, only),) = whys.items()
            rows.append((f"{head} of {topic}-{number}", only))
            continue
        by_why: dict[str, list[int]] = {}
        for number in sorted(whys):
            by_why.setdefault(whys[number], []).append(number)
        told = "; ".join(
            f"{_ranges(numbers)}: {reason}" if len(by_why) > 1 else reason
            for reason, numbers in by_why.items()
        )
        rows.append((f"{head} of {len(whys)} partitions of {topic} ({_ranges(sorted(whys))})", told))
    return tuple(rows)


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers, with those that follow each other as `first-last`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _broker(what: str) -> int | None:
    """The broker, where it is a whole broker that something is said of: `broker 3`."""
    word, _, number = what.partition(" ")
    return number_of(number) if word == "broker" else None


def _changes(ensemble: Ensemble) -> list[tuple[int, int]]:
    """What every controller looks at at once: topics that were written, brokers that have started."""
    names = ensemble.zk.list_many([topics_path()])[topics_path()] or ()
    topics = ensemble.zk.read_many([Topic.path(name) for name in names])
    return [
        *((znode.stat.mzxid, znode.stat.mtime) for znode in topics.values() if znode),
        *((entry.stat.czxid, entry.stat.ctime) for entry in registrations(ensemble).values()),
    ]


def _value(znode: Znode | None, decode: Callable[[str, bytes | None], T], broken: dict[str, str]) -> T | None:
    if znode is None:
        return None
    entry = held(znode, decode)
    if entry.error:
        broken[znode.path] = f"expected {entry.error.expected}, found {entry.error.found}"
    return entry.value


def _without_paths(unreadable: Mapping[str, str]) -> dict[str, str]:
    """Errors of znodes begin with the path; it is told once."""
    return {path: why.removeprefix(f"{path}: ") for path, why in unreadable.items()}
