"""The defects of Kafka's own ZooKeeper controllers, and what ours do instead.

Source: apache/kafka from 0.8.2.2 to 2.8.2, and the issues named; what was seen on real brokers says so.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Extent = Literal["cured", "partly", "left"]


class Defect(NamedTuple):
    """One defect: what happened, in which releases, and what a controller of ours does."""

    what: str
    where: str
    extent: Extent
    instead: str


DEFECTS: Final[dict[int, Defect]] = {
    1: Defect(
        "An ousted leader does not resign when `/controller` changes to another id.",
        "0.8.2.2",
        "cured",
        "A data watch on `/controller` and `/controller_epoch`: any change that is not its own ends the rule.",
    ),
    2: Defect(
        "Who resigns deletes `/controller` whoever owns it; one unreadable registration made 341 elections in 4 s.",
        "0.8.2.2 to 2.0",
        "cured",
        "It deletes only what is of its session, with the version; a failure makes it stand back; what cannot be read is reported and passed over.",
    ),
    3: Defect(
        "A stale controller can still write states and assignments (KAFKA-6082).",
        "to 2.0",
        "cured",
        "Each write checks the versions of `/controller` and `/controller_epoch` in its transaction.",
    ),
    4: Defect(
        "Version 1 of `/controller_epoch` is remembered after its creation, where ZooKeeper has 0.",
        "0.8.2.2 to 2.0",
        "cured",
        "The version is taken from the reply; the first election sets version 0.",
    ),
    5: Defect(
        "After an expiry a broker is elected before its own registration exists.",
        "0.8.2.2 to 0.11",
        "cured",
        "A candidate stands only once its host is registered in the same session.",
    ),
    6: Defect(
        "A new session is opened while events of the old one are still being handled.",
        "to 1.0",
        "cured",
        "The loss of a session jumps the queue: what is under way stops, and the rule ends, before anything of the next session.",
    ),
    7: Defect(
        "A bounce faster than the watch is not seen: the broker never gets its LeaderAndIsr (KAFKA-1120).",
        "to 2.1",
        "cured",
        "Incarnations are told apart by the `czxid` of the registration; a bounced broker is gone, then new.",
    ),
    8: Defect(
        "Late requests that were meant for a former incarnation are obeyed.",
        "to 2.1",
        "partly",
        "The queue belongs to an incarnation and goes with it; wire version 0 has no broker epoch, so what is on the way already cannot be called back.",
    ),
    9: Defect(
        "A leader is stuck for ever with an outdated version of its `state` (KAFKA-2729).",
        "0.8 to 1.0",
        "cured",
        "Brokers of ours read the state again; for real ones it is never written without a higher leader epoch and a LeaderAndIsr.",
    ),
    10: Defect(
        "A batch that failed poisons the state machine: every later one fails too.",
        "0.8.2.2",
        "cured",
        "Each decision has a batch of its own; a duty that fails ends the rule.",
    ),
    11: Defect(
        "Events are lost, or handled with an old list of children.",
        "to 0.11",
        "cured",
        "An event only says that something is to be looked at; the list is read when its turn comes, after the watch was armed again.",
    ),
    12: Defect(
        "The entry of a move is dropped when a target is down, and the replica list stays at the union.",
        "0.8.2.2 to 0.9",
        "cured",
        "The entry stays and waits, before the first write and after a failover.",
    ),
    13: Defect(
        "The union of replicas has no defined order: the preferred leader is random during a move.",
        "to 2.3",
        "cured",
        "The target first, then the others in their order.",
    ),
    14: Defect(
        "A move under way cannot be cancelled or changed (KIP-455).",
        "to 2.3",
        "partly",
        "A conditional edit of the request is obeyed, a target equal to the old replicas cancels; over a real controller it is refused.",
    ),
    15: Defect(
        "The request of a reassignment is deleted too early at a failover (KAFKA-6193).",
        "to 1.0",
        "cured",
        "All entries are read before any is touched; the request shrinks by a conditional write that names what is left.",
    ),
    16: Defect(
        "Old replicas count as deleted without an answer: stray logs stay.",
        "all",
        "cured",
        "They are held until the broker has answered; where it could not delete them it is asked again, also by the next controller.",
    ),
    17: Defect(
        "A request with an empty list of partitions stays for ever.", "0.8.2.2", "cured", "It is removed."
    ),
    18: Defect(
        "The request for preferred leaders stays for ever when it names an unknown partition.",
        "to 2.1",
        "cured",
        "Unknown partitions are passed over, and the request is removed whatever came of it.",
    ),
    19: Defect(
        "Deletion disabled, and yet marked topics vanish from metadata after a failover (KAFKA-3175).",
        "0.8.2.2 to 0.10",
        "cured",
        "The marker is removed; the topic is never queued.",
    ),
    20: Defect(
        "One dead broker blocks a deletion.",
        "all",
        "cured",
        "It waits and says for whom: finishing early would leave logs that come back with their broker. "
        "An empty broker with that id is enough; or an operator says that the broker is lost "
        "(`zkgroup topic delete --without-broker`), and what it has is deleted before it is made a replica again.",
    ),
    21: Defect(
        "A topic made again during its deletion loses its configuration, or is deleted once more.",
        "all",
        "cured",
        "Topic, configuration and marker go in one transaction.",
    ),
    22: Defect(
        "Creating a topic is not atomic: who loses the race has overwritten the configuration of the other.",
        "all",
        "cured",
        "Configuration and topic are made in one transaction.",
    ),
    23: Defect(
        "Growth of a topic that is being deleted wedges the deletion (KAFKA-6612).",
        "to 1.1",
        "cured",
        "The replica lists are written back as they were.",
    ),
    24: Defect(
        "A replica without `state` cannot go offline, so its deletion is stuck (KAFKA-6650).",
        "to 1.1",
        "cured",
        "It goes offline without a write.",
    ),
    25: Defect(
        "An election repeats its whole batch for one conflict, and elects again what was elected.",
        "1.1 to 2.3",
        "cured",
        "After a conflict each is decided anew and sent singly; only conflicting ones are repeated.",
    ),
    26: Defect(
        "The LeaderAndIsr of a controlled shutdown does not reach the departing broker (KAFKA-7482).",
        "1.1 to 2.0",
        "cured",
        "Brokers that are shutting down are among those who are told.",
    ),
    27: Defect(
        "Brokers are not told who joined or left where no leader changed.",
        "0.8.2.2",
        "cured",
        "Every change of the live brokers is told to all.",
    ),
    28: Defect(
        "StopReplica has no leader epoch: a late one undoes a newer LeaderAndIsr.",
        "to 2.5",
        "partly",
        "One that waits is dropped for what a newer LeaderAndIsr names; replicas that a deletion may still reach are held.",
    ),
    29: Defect(
        "UpdateMetadata has no order but the controller epoch.",
        "all",
        "cured",
        "Brokers of ours pass over an older leader epoch.",
    ),
    30: Defect(
        "The controller's cache differs from ZooKeeper between an ISR change and its notification.",
        "all",
        "partly",
        "A decision is written with the version that it rests on; what is refused on an old reading is read again first.",
    ),
    31: Defect(
        "Brokers that reach ZooKeeper and not the controller serve stale roles.",
        "all",
        "partly",
        "What waits for such a broker names it in the status; nothing can be told through a channel that is down.",
    ),
    32: Defect(
        "A failover reads everything.", "all", "left", "It does so in bulk: packets by the hundred znodes."
    ),
    33: Defect(
        "A request or a list of children beyond 1 MiB closes the connection.",
        "all",
        "partly",
        "What is written is measured first: divided where it can be, refused with its size where not.",
    ),
    34: Defect(
        "Text in JSON is not escaped; a number of 64 bits or a fraction kills the reader.",
        "0.8.2.2",
        "cured",
        "Written escaped, and such numbers are refused.",
    ),
    35: Defect(
        "One malformed notification of a changed configuration blocks all later ones.",
        "0.9 to 1.1",
        "cured",
        "It is passed over.",
    ),
    36: Defect(
        "A controlled shutdown hangs while ZooKeeper is down (KAFKA-9189).",
        "to 2.8",
        "cured",
        "The broker asks the controller that it knows, a bounded number of times, and then stops.",
    ),
    37: Defect(
        "A registration left over from the own expired session stops the broker (KAFKA-1387, KAFKA-7165).",
        "to 2.1",
        "cured",
        "It is told from a stranger's by its session, and taken off or waited for.",
    ),
    38: Defect(
        "Threads share state: deadlocks and races (KAFKA-5027, KAFKA-5028).",
        "to 0.10",
        "cured",
        "One procedure at a time, in one thread; the same events give the same effects.",
    ),
    39: Defect(
        "Leader -1 with an empty ISR is written while unclean election is on.",
        "0.8.2.2",
        "cured",
        "The last member stays in the ISR.",
    ),
    40: Defect(
        "An extra empty StopReplica goes to each broker with each batch.",
        "1.1 to 2.2",
        "cured",
        "Stops are gathered for each broker and none is empty; brokers of ours accept an empty one.",
    ),
}
