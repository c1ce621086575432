"""ISRs that leaders have changed: `/isr_change_notification`. Source: controller.md 5.10."""

from __future__ import annotations

from zkgroup.controller.machine.active import ActiveController
from zkgroup.controller.machine.event_queue import EventKind
from zkgroup.controller.machine.fenced_writes import Write
from zkgroup.controller.machine.leadership.leader_election import LEADERLESS
from zkgroup.controller.machine.state_writes import read_states, write_all
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Delete, ListChildren
from zkgroup.runtime.procedures import Procedure, ask, list_done
from zkgroup.znodes.notifications import IsrChange, config_changes_path, isr_changes_path


def on_isr_changes(active: ActiveController, subject: str = "") -> Procedure[None]:
    """Reads the states that notifications name, tells all brokers, and deletes what was read.

    One that cannot be read is deleted too: it will never say more. Those left over by a former controller
    are found by the first look of this one.
    """
    (outcome,) = yield from ask(active.watched(ListChildren(isr_changes_path()), EventKind.ISR_CHANGES))
    numbered = [(IsrChange.sequence_of(name), name) for name in list_done(outcome).children]
    paths = [
        f"{isr_changes_path()}/{name}" for number, name in sorted(numbered, key=str) if number is not None
    ]
    found = yield from active.read_many(paths)
    named: dict[TopicPartition, None] = {}
    for znode in found.values():
        change = active.decoded(znode, IsrChange.decode)
        if change is not None:
            named.update(dict.fromkeys(each for each in change.partitions if each in active.context))
    if named:
        yield from read_states(active, named)
        batch = active.requests.batch()
        batch.update_metadata(named)
        active.requests.send(batch)
        if any(each in active.reassignments for each in named):
            active.enqueue(EventKind.REASSIGNMENT)
    yield from _delete_notifications(active, found)


def _delete_notifications(active: ActiveController, found: dict[str, Znode]) -> Procedure[None]:
    def write(path: str) -> Write | str:
        return Write(path, (Delete(path, found[path].stat.version),)) if path in found else "it is gone"

    def read_again(paths: list[str]) -> Procedure[None]:
        now = yield from active.read_many(paths)
        for path in paths:
            found.pop(path, None)
        found.update(now)

    every = list(found)
    refused = yield from write_all(active, every, write, read_again)
    for path in every:
        if path not in refused:
            active.context.unreadable.pop(path, None)


def on_config_changes(active: ActiveController, subject: str = "") -> Procedure[None]:
    """After each notification partitions without a leader are tried again, if there are any."""
    yield from ask(active.watched(ListChildren(config_changes_path()), EventKind.CONFIG_CHANGES))
    if any(True for _ in active.context.partition_phases.unusual(LEADERLESS)):
        active.enqueue(EventKind.ELECTIONS)
