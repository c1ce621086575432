"""Replica placement: pure functions from a snapshot of a cluster to replica lists and plans.

Two kinds of answer:

- **Kafka's own**, for new partitions. `spread` places the replicas of a new topic, `grow` those of new
  partitions, `generate` those of whole topics anew; all three exactly as Kafka does, racks included. The
  start, which Kafka draws at random, is an argument, so the same call gives the same answer.
- **Plans**, for what exists. `decommission` empties brokers, `replace` puts one in the place of another,
  `set_rf` changes the number of replicas, `balance` evens out replicas and leaders, by count or by size. A
  plan moves what it must and nothing else, keeps each partition in as many racks as its replicas allow, and
  says of every partition why it changes. `validate` does the same for lists from elsewhere, and refuses what
  would make things worse. `phases` cuts a plan into parts with a limit of copies at the same time.

A *move* is one replica that is copied to a broker that has none; a change of order or of leader copies
nothing. Planning the result of a plan again gives no changes.

    >>> from zkgroup.model import TopicPartition
    >>> from zkgroup.placement import Broker, ClusterSnapshot, balance
    >>> lists = {TopicPartition("t", n): (1, 2) for n in range(3)}
    >>> plan = balance(ClusterSnapshot(replicas=lists, brokers=(Broker(1), Broker(2), Broker(3))))
    >>> plan.moves, plan.least_moves, plan.after.replica_spread, plan.after.leader_spread
    (2, 2, 0, 0)
"""

from zkgroup.placement.model import Broker, ClusterSnapshot, Load, Plan, RackMode
from zkgroup.placement.model import Phase as Phase
from zkgroup.placement.model import PlannedMove as PlannedMove
from zkgroup.placement.model import Replicas as Replicas
from zkgroup.placement.model import Skew as Skew
from zkgroup.placement.model import Spread as Spread
from zkgroup.placement.model import Start as Start
from zkgroup.placement.phases import phases
from zkgroup.placement.plans import balance, decommission, replace, set_rf
from zkgroup.placement.spread import Compat as Compat
from zkgroup.placement.spread import generate, grow, spread
from zkgroup.placement.spread import grow_by_hand as grow_by_hand
from zkgroup.placement.spread import rack_alternated as rack_alternated
from zkgroup.placement.validation import PlanViolation as PlanViolation
from zkgroup.placement.validation import validate

__all__ = [
    "Broker",
    "ClusterSnapshot",
    "Load",
    "Plan",
    "RackMode",
    "balance",
    "decommission",
    "generate",
    "grow",
    "phases",
    "replace",
    "set_rf",
    "spread",
    "validate",
]
