"""Records written while a group changes, and how many records each change delivers twice."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from kafka.errors import KafkaError

from tests.long.interop.conftest import Scene
from tests.waiting import eventually, joined

PAUSE_S = 0.01
"""Between two records: some hundred a second over all partitions, so that every partition has a tail."""


class Pump:
    """Writes one record after another, partition by partition, in its own thread."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._stop = threading.Event()
        self._error: KafkaError | None = None
        self._thread = threading.Thread(target=self._run, name="pump")
        self.ends: dict[int, int] = dict.fromkeys(range(scene.partitions), 0)
        """Partition -> its log end, as far as acknowledged."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        joined(self._thread)
        if self._error is not None:
            raise self._error

    def further(self) -> dict[int, int]:
        """Extends the log until each partition has a record that was not requested before this call."""
        now = dict(self.ends)

        def grown() -> bool:
            if self._error is not None:
                raise self._error
            return all(self.ends[partition] > end + 1 for partition, end in now.items())

        eventually(grown, what="every partition has two more records")
        return dict(self.ends)

    def _run(self) -> None:
        try:
            with self._scene.broker.producer() as producer:
                for number in itertools.count():
                    partition = number % self._scene.partitions
                    offset = producer.send(self._scene.topic, partition, str(number))
                    self.ends[partition] = offset + 1
                    if self._stop.wait(PAUSE_S):
                        return
        except KafkaError as error:
            self._error = error


@dataclass
class Change:
    """One change of the group under load: the owners before and after, and the repeated deliveries."""

    name: str
    committed: dict[int, int]
    """Partition -> offset in ZooKeeper when the change began."""
    delivered: dict[int, int]
    """Partition -> offset after the last one delivered when the change began."""
    owners_before: dict[int, str]
    owners_after: dict[int, str]
    again: dict[int, list[int]]
    """Partition -> offsets that were delivered once more than before."""

    @property
    def moved(self) -> list[int]:
        return [p for p, owner in self.owners_after.items() if self.owners_before.get(p) != owner]

    def summary(self) -> str:
        """The summary for the record of a run."""
        per_partition = {p: len(offsets) for p, offsets in sorted(self.again.items())}
        return f"{self.name}: {len(self.moved)} of {len(self.owners_after)} moved, again {per_partition}"


def _surplus(counts: Counter[tuple[int, int]]) -> Counter[tuple[int, int]]:
    return Counter({where: count - 1 for where, count in counts.items() if count > 1})


class Recorder:
    """Observes the changes of one scene, one after another."""

    def __init__(self, scene: Scene, pump: Pump) -> None:
        self._scene, self._pump = scene, pump
        self.changes: list[Change] = []

    @contextlib.contextmanager
    def change(self, name: str) -> Iterator[Change]:
        """Make the change inside the block; `owners_after` is set and the change complete after the block.

        Owners are those that were waited for, before and after: a second read might come while a JVM member
        has released all for a moment. The change is complete when each new owner has delivered a record that
        was written after it owned: a JVM member reads its offset before it claims (ZookeeperConsumerConnector
        @0.8.2.2 `rebalance`), so it repeats what the former owner had delivered and then committed.
        """
        scene = self._scene
        before = _surplus(scene.ledger.counts())
        committed = scene.offsets()
        delivered = scene.ledger.delivered()
        before_it = self.changes[-1].owners_after if self.changes else {}
        change = Change(name, committed, delivered, before_it, {}, {})
        yield change
        scene.ledger.wait_all(self._pump.further())  # the new owners have passed what was old
        for partition, offset in sorted((_surplus(scene.ledger.counts()) - before).keys()):
            change.again.setdefault(partition, []).append(offset)
        self.changes.append(change)
