"""The slots of group coordinators: the partitions of `__consumer_offsets` (coordinator slots, recipes 20).

Their logs are empty, so any live replica may lead, and another replica costs nothing: the
replica lists grow as brokers register, up to `offsets.topic.replication.factor`. The topic is often created
when the first broker of a cluster has started.

More replicas are requested as an operator would request them, by `/admin/reassign_partitions`: a reassignment
respects brokers that may still delete a former replica, survives a new controller, and can be seen and
cancelled. The request waits while another one is carried out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from zkgroup.controller.machine import event_manager
from zkgroup.controller.machine.context import Brokers
from zkgroup.controller.machine.feature import Feature
from zkgroup.controller.machine.fenced_writes import Write
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, CreateMissing
from zkgroup.runtime.procedures import Procedure, Query, ask
from zkgroup.znodes.admin_requests import Move, Reassignment, admin_path
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC, SlotConfig


class Slots(Feature):
    """Finds out whether `__consumer_offsets` is the topic of slots, and adds replicas to them."""

    def loaded(self) -> None:
        self._events.enqueue(event_manager.SLOT_REPLICAS)

    def find(self) -> Procedure[None]:
        """Reads the number of slots, if their topic exists and the number is not known.

        It is written before the topic is created. In a cluster that was Kafka's it is written later, together
        with the topic, whose watch fires.
        """
        context = self._context
        if context.slots is not None or OFFSETS_TOPIC not in context.topics:
            return
        path = SlotConfig.path()
        found = yield from self._reader.read_many([path])
        config = self._reader.decoded(found.get(path), SlotConfig.decode)
        if config is not None:
            context.slots = config.slots
            self._core.note("slots.found", slots=config.slots)
            self._events.enqueue(event_manager.ELECTIONS)
            self._events.enqueue(event_manager.SLOT_REPLICAS)

    def add_replicas(self) -> Procedure[None]:
        """Requests more replicas for the slots that have too few, unless something is being moved."""
        targets = self._targets()
        if not targets or self._reassignments.request is not None or self._reassignments:
            return
        request = Reassignment(tuple(Move(each, brokers) for each, brokers in targets.items()))
        yield from ask(Query(CreateMissing((admin_path(),))))
        write = Write(OFFSETS_TOPIC, (Create(Reassignment.path(), request.encode()),))
        refusal = yield from self._states.commit(write)
        if refusal is None:
            self._core.note("slots.replicas_added", partitions=len(targets))
        elif not refusal.is_conflict:
            self._events.back_off(str(refusal))
            return
        self._events.enqueue(event_manager.REASSIGNMENT)

    def _targets(self) -> dict[TopicPartition, Brokers]:
        context = self._context
        if not context.is_slots(OFFSETS_TOPIC) or OFFSETS_TOPIC in context.unhosted:
            return {}
        racks = {
            id_: context.brokers[id_].registration.rack
            for id_ in sorted(context.live)
            if context.brokers[id_].registration.is_zkgroup
        }
        lists = {each: context.replicas(each) for each in context.partitions(OFFSETS_TOPIC)}
        return more_replicas(lists, racks, self._settings.slot_replicas)


def more_replicas(
    lists: Mapping[TopicPartition, Brokers], racks: Mapping[int, str | None], factor: int
) -> dict[TopicPartition, Brokers]:
    """Longer replica lists for the partitions that have fewer replicas than `factor`, or than brokers.

    A broker is added that has few replicas of these partitions, in a rack that the list does not have yet.
    The first replica, which is preferred as leader, becomes one that is first in few lists. A list that grows
    loses its brokers that are not live: a move would wait for them, and there is no log that they could have.
    A list without a live broker has nobody to lead the move, and is left.

    Args:
        racks: the brokers that can host replicas, with their racks.
    """
    wanted = min(factor, len(racks))
    hosted = Counter(broker for replicas in lists.values() for broker in replicas)
    preferred = Counter(replicas[0] for replicas in lists.values() if replicas)
    changed: dict[TopicPartition, Brokers] = {}
    for partition, before in sorted(lists.items()):
        replicas = [each for each in before if each in racks]
        if not replicas or len(before) >= wanted:
            continue
        while len(replicas) < wanted:
            used = {racks[each] for each in replicas}
            others = [(racks[each] in used, hosted[each], each) for each in racks if each not in replicas]
            added = min(others)[-1]
            replicas.append(added)
            hosted[added] += 1
        preferred[before[0]] -= 1
        first = min((preferred[each], each) for each in replicas)[-1]
        preferred[first] += 1
        changed[partition] = (first, *(each for each in replicas if each != first))
    return changed
