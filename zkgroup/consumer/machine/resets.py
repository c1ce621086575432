"""Operators' resets: the child watch that every member holds on `resets` (recipes.md 6).

A tool writes the offset and deletes and creates the marker in one multi, so the watch fires even where a
marker was there before. An owner that is idle looks at the marked partitions it holds and obeys.
"""

from __future__ import annotations

from zkgroup.consumer.machine.commit import Commits
from zkgroup.consumer.machine.core import Core
from zkgroup.consumer.machine.paths import Paths
from zkgroup.machinery.procedures import Procedure, Query, ask, list_done
from zkgroup.machinery.watch import Watch
from zkgroup.model.requests import ListChildren
from zkgroup.znodes.consumers import Reset


class Resets:
    """The watch on `resets`."""

    def __init__(self, core: Core, paths: Paths, commits: Commits) -> None:
        self._core = core
        self._paths = paths
        self._commits = commits
        self._watch: Watch | None = None

    @property
    def is_due(self) -> bool:
        return self._watch is None or self._watch.fired

    def forget_watches(self) -> None:
        self._watch = None

    def look(self) -> Procedure[None]:
        """Arms the watch, then puts what is marked and held under review."""
        watch = Watch(lambda: None)
        (outcome,) = yield from ask(Query(ListChildren(self._paths.resets, watch=True), watch))
        self._watch = watch
        marked = {Reset.partition_of(name) for name in list_done(outcome).children}
        self._commits.review.update(tp for tp in marked if tp is not None and tp in self._core.owned.held)
