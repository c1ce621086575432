"""Notifications of changed ISRs and configurations: `/isr_change_notification`, `/config/changes`. Source:
ISR and config changes (controller.md 5.10)."""

from __future__ import annotations

from zkgroup.controller.machine import event_manager
from zkgroup.controller.machine.feature import Feature
from zkgroup.controller.machine.fenced_writes import Write
from zkgroup.controller.machine.leadership.leader_election import LEADERLESS
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Delete, ListChildren
from zkgroup.runtime.procedures import Procedure, ask, list_done
from zkgroup.znodes.notifications import IsrChange, config_changes_path, isr_changes_path


class Notifications(Feature):
    """Handles the notifications of changed ISRs and configurations."""

    def loaded(self) -> None:
        self._events.enqueue(event_manager.ISR_CHANGES)
        self._events.enqueue(event_manager.CONFIG_CHANGES)

    def on_isr_changes(self) -> Procedure[None]:
        """Reads the states that notifications name, sends them to all brokers, and deletes what was read.

        One that cannot be read is deleted too: it will never say more. Those left over by a former controller
        are found by the first read of this one.
        """
        (outcome,) = yield from ask(
            self._reader.watched(ListChildren(isr_changes_path()), event_manager.ISR_CHANGES)
        )
        numbered = [(IsrChange.sequence_of(name), name) for name in list_done(outcome).children]
        paths = [
            f"{isr_changes_path()}/{name}" for number, name in sorted(numbered, key=str) if number is not None
        ]
        found = yield from self._reader.read_many(paths)
        named: dict[TopicPartition, None] = {}
        for znode in found.values():
            change = self._reader.decoded(znode, IsrChange.decode)
            if change is not None:
                named.update(dict.fromkeys(each for each in change.partitions if each in self._context))
        if named:
            yield from self._states.read_states(named)
            batch = self._requests.batch()
            batch.update_metadata(named)
            self._requests.send(batch)
            if any(each in self._reassignments for each in named):
                self._events.enqueue(event_manager.REASSIGNMENT)
        yield from self._delete_notifications(found)

    def _delete_notifications(self, found: dict[str, Znode]) -> Procedure[None]:
        def write(path: str) -> Write | str:
            return Write(path, (Delete(path, found[path].stat.version),)) if path in found else "it is gone"

        def read_again(paths: list[str]) -> Procedure[None]:
            now = yield from self._reader.read_many(paths)
            for path in paths:
                found.pop(path, None)
            found.update(now)

        every = list(found)
        refused = yield from self._states.write_all(every, write, read_again)
        for path in every:
            if path not in refused:
                self._context.unreadable.pop(path, None)

    def on_config_changes(self) -> Procedure[None]:
        """After each notification partitions without a leader are tried again, if there are any."""
        yield from ask(
            self._reader.watched(ListChildren(config_changes_path()), event_manager.CONFIG_CHANGES)
        )
        if any(True for _ in self._context.partition_phases.unusual(LEADERLESS)):
            self._events.enqueue(event_manager.ELECTIONS)
