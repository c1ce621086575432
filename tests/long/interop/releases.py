"""The releases of Kafka that take part, and their abilities."""

from __future__ import annotations

import os

EVERYTHING = os.environ.get("ZKGROUP_INTEROP_RELEASES") == "all"
"""Every release instead of those that CI has time for; `python -m tests.long.interop.matrix` says so."""

OLDEST = "0.8.2.2"
NEWEST = "3.9.1"


def taking_part(*, without: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The releases, oldest first."""
    some = (OLDEST, "1.1.1", "2.8.2", NEWEST) if EVERYTHING else (OLDEST, "2.8.2")
    return tuple(release for release in some if release not in without)


def is_old(release: str) -> bool:
    """Whether it precedes ConfigCommand, throttles, notifications with an entity, and exit codes of tools."""
    return release == OLDEST


def has_zookeeper_tools(release: str) -> bool:
    """Whether its tools but ConfigCommand have `--zookeeper`, which 3.0 removed."""
    return release != NEWEST


def rows_of(text: str) -> list[tuple[int, int, list[int], list[int]]]:
    """Partition, leader (-1: none), replicas and ISR, sorted, as a TopicCommand describes them."""
    found = []
    for line in text.splitlines():
        fields = [part.partition(": ") for part in line.strip().split("\t")]
        row = {name: value.strip() for name, _, value in fields}
        if "Partition" in row and "Isr" in row:
            leader = -1 if row["Leader"] == "none" else int(row["Leader"])
            isr = sorted(_numbers(row["Isr"]))
            found.append((int(row["Partition"]), leader, _numbers(row["Replicas"]), isr))
    return found


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]
