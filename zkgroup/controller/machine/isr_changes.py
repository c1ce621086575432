"""ISRs that leaders have changed: `/isr_change_notification`. Source: controller.md 5.10."""

from __future__ import annotations

from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.fence import Write
from zkgroup.controller.machine.reign import Reign
from zkgroup.controller.machine.states import read_states, write_all
from zkgroup.machinery.procedures import Procedure, ask, list_done
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Delete, ListChildren
from zkgroup.znodes.notifications import IsrChange, isr_changes_path


def look(reign: Reign, subject: str = "") -> Procedure[None]:
    """Reads the states that notifications name, tells all brokers, and deletes what was read.

    One that cannot be read is deleted too: it will never say more. Those left over by a former controller
    are found by the first look of this one.
    """
    (outcome,) = yield from ask(reign.watched(ListChildren(isr_changes_path()), Look.ISR_CHANGES))
    numbered = [(IsrChange.sequence_of(name), name) for name in list_done(outcome).children]
    paths = [
        f"{isr_changes_path()}/{name}" for number, name in sorted(numbered, key=str) if number is not None
    ]
    found = yield from reign.read_many(paths)
    named: dict[TopicPartition, None] = {}
    for znode in found.values():
        change = reign.decoded(znode, IsrChange.decode)
        if change is not None:
            named.update(dict.fromkeys(each for each in change.partitions if each in reign.picture))
    if named:
        yield from read_states(reign, named)
        batch = reign.batch()
        batch.update_metadata(named)
        reign.tell(batch)
        if any(each in reign.moves for each in named):
            reign.look(Look.REASSIGNMENT)
    yield from _delete(reign, found)


def _delete(reign: Reign, found: dict[str, Znode]) -> Procedure[None]:
    def write(path: str) -> Write | str:
        return Write(path, (Delete(path, found[path].stat.version),)) if path in found else "it is gone"

    def read_again(paths: list[str]) -> Procedure[None]:
        now = yield from reign.read_many(paths)
        for path in paths:
            found.pop(path, None)
        found.update(now)

    every = list(found)
    refused = yield from write_all(reign, every, write, read_again)
    for path in every:
        if path not in refused:
            reign.picture.unreadable.pop(path, None)
