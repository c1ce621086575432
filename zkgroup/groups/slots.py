"""The slots of the group coordinator: how many there are, and which broker leads each of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from zkgroup.errors import AccessDeniedError, CorruptZnodeError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.snapshot import DecodedZnode, decode_ephemeral, decode_or_error, value_of
from zkgroup.model import TopicPartition, Znode
from zkgroup.znodes.brokers import NO_LEADER, BrokerRegistration, PartitionState
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC, SlotConfig, SlotOwner


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotView:
    """A slot: the state of its partition, and who fenced it last."""

    slot: int
    state: DecodedZnode[PartitionState] | None
    """None where the partition does not exist, or has no state yet."""
    owner: DecodedZnode[SlotOwner] | None
    """None where it was never fenced."""
    is_led: bool
    """True if its leader is a registered broker of zkgroup."""

    @property
    def leader(self) -> int | None:
        """The broker that leads it by ZooKeeper; None for none, or if that cannot be read."""
        state = self.state.value if self.state else None
        return None if state is None or state.leader == NO_LEADER else state.leader

    @property
    def error(self) -> CorruptZnodeError | None:
        """The reason why a znode of the slot cannot be read."""
        return (self.state and self.state.error) or (self.owner and self.owner.error) or None

    @property
    def reason_not_led(self) -> str | None:
        """The reason why no broker coordinates its groups, for people; None where one does."""
        if self.is_led:
            return None
        path = PartitionState.path(TopicPartition(OFFSETS_TOPIC, self.slot))
        if self.state is None:
            return f"{path}: there is no such partition yet"
        if self.state.error is not None:
            return str(self.state.error)
        if self.leader is None:
            return f"{path}: no broker leads the slot"
        return f"{path}: its leader, broker {self.leader}, is not registered as a broker of zkgroup"


def read_slot_count(ensemble: Ensemble) -> int | None:
    """The number of slots. None where no coordinator has ever started, and where the number cannot be read or
    an access list hides it: groups are then read as without a coordinator."""
    try:
        znode = ensemble.zk.find(SlotConfig.path())
    except AccessDeniedError:
        return None
    config = value_of(znode, SlotConfig.decode)
    return config.slots if config else None


def read_slots(ensemble: Ensemble, numbers: Collection[int]) -> dict[int, SlotView]:
    """These slots, with their leaders."""
    partitions = {number: TopicPartition(OFFSETS_TOPIC, number) for number in sorted(numbers)}
    found = ensemble.zk.read_many(
        [*map(PartitionState.path, partitions.values()), *map(SlotOwner.path, partitions)]
    )
    states = {
        number: decode_or_error(znode, PartitionState.decode)
        for number, tp in partitions.items()
        if (znode := found[PartitionState.path(tp)])
    }
    leaders = {state.value.leader for state in states.values() if state.value} - {NO_LEADER}
    brokers = ensemble.zk.read_many([BrokerRegistration.path(leader) for leader in sorted(leaders)])
    live = {leader for leader in leaders if _is_zkgroup(brokers[BrokerRegistration.path(leader)])}
    return {
        number: SlotView(
            slot=number,
            state=(state := states.get(number)),
            owner=decode_or_error(owner, SlotOwner.decode)
            if (owner := found[SlotOwner.path(number)])
            else None,
            is_led=state is not None and state.value is not None and state.value.leader in live,
        )
        for number in partitions
    }


def _is_zkgroup(znode: Znode | None) -> bool:
    registration = decode_ephemeral(znode, BrokerRegistration.decode).value if znode else None
    return registration is not None and registration.is_zkgroup
