"""The number of slots of group coordinators, and their topic `__consumer_offsets`.

Groups find their slot by this number, so it is written once, before the topic exists, and never changes.
"""

from __future__ import annotations

from zkgroup.admin.guards import read_back
from zkgroup.errors import ConfigError, OperationRefusedError, OutcomeUnknownError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model.requests import Create, Operation, SetData
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC, SlotConfig
from zkgroup.znodes.paths import zkgroup_path


def read_slots(ensemble: Ensemble) -> int | None:
    """The number of slots; None before it is written. Raises CorruptZnodeError."""
    znode = ensemble.zk.find(SlotConfig.path())
    return None if znode is None else SlotConfig.decode(znode.path, znode.data).slots


def claim_slots(ensemble: Ensemble, slots: int) -> int:
    """The number of slots: the one that is stored, else this one, which is then stored.

    Where the topic exists already, as in a cluster that was Kafka's, its partitions are the slots. It is set
    to the same data then, so that a controller reads both again.

    Raises CorruptZnodeError.
    """
    path = SlotConfig.path()
    ensemble.zk.create_missing(zkgroup_path())
    while (stored := read_slots(ensemble)) is None:
        operations: list[Operation] = [Create(path, SlotConfig(slots).encode())]
        topic = ensemble.zk.find(Topic.path(OFFSETS_TOPIC))
        if topic is not None:
            there = len(Topic.decode(topic.path, topic.data).partitions)
            touch = SetData(topic.path, topic.data or b"", topic.stat.version)
            operations = [touch, Create(path, SlotConfig(there).encode())]
        try:
            ensemble.zk.multi(*operations)
        except OperationRefusedError:
            continue  # another broker was faster, or the topic has changed
        except OutcomeUnknownError as error:
            read_back(error, lambda: ensemble.zk.find(path) is not None)
    return stored


def check_slots(slots: int, partitions: int) -> None:
    """Raises ConfigError unless the topic would have one partition for each slot."""
    if partitions != slots:
        raise ConfigError(
            f"{SlotConfig.path()}: the groups of this cluster are divided among {slots} slots for ever: "
            f"expected {slots} partitions of {OFFSETS_TOPIC}, found {partitions}"
        )
