"""The defects of Kafka's ZooKeeper controllers, and what a zkgroup controller does instead.

Source: apache/kafka from 0.8.2.2 to 2.8.2, and the issues named; what was seen on Kafka brokers says so.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Extent = Literal["cured", "partly", "left"]


class Defect(NamedTuple):
    """One defect: what happened, in which releases, and what a zkgroup controller does."""

    what: str
    where: str
    extent: Extent
    instead: str


DEFECTS: Final[dict[int, Defect]] = {
    1: Defect(
        "A controller that was replaced does not resign when `/controller` changes to another id.",
        "0.8.2.2",
        "cured",
        "A data watch on `/controller` and `/controller_epoch`: at any change that is not its own the controller resigns.",
    ),
    2: Defect(
        "A controller that resigns deletes `/controller`, whoever owns it; one unreadable registration caused 341 elections in 4 s.",
        "0.8.2.2 to 2.0",
        "cured",
        "It deletes only the znode of its own session, with its version; after a failure it waits before it takes part in an election; what cannot be read is reported and skipped.",
    ),
    3: Defect(
        "A stale controller can still write states and assignments (KAFKA-6082).",
        "to 2.0",
        "cured",
        "Each write checks the versions of `/controller` and `/controller_epoch` in its transaction.",
    ),
    4: Defect(
        "After `/controller_epoch` is created, the controller assumes its version is 1, where ZooKeeper has 0.",
        "0.8.2.2 to 2.0",
        "cured",
        "The version is taken from the reply; the first election sets version 0.",
    ),
    5: Defect(
        "After an expiry a broker is elected before its own registration exists.",
        "0.8.2.2 to 0.11",
        "cured",
        "The election begins only once the broker is registered in the same session.",
    ),
    6: Defect(
        "A new session is opened while events of the old one are still being handled.",
        "to 1.0",
        "cured",
        "The loss of a session is handled first: work in progress stops and the controller resigns before anything happens in the next session.",
    ),
    7: Defect(
        "A restart that is faster than the watch is not noticed: the broker never gets its LeaderAndIsr (KAFKA-1120).",
        "to 2.1",
        "cured",
        "Incarnations are distinguished by the `czxid` of the registration; a restarted broker is handled as lost, then as new.",
    ),
    8: Defect(
        "Late requests that were meant for a former incarnation are obeyed.",
        "to 2.1",
        "partly",
        "The send queue belongs to an incarnation and is dropped with it; wire version 0 has no broker epoch, so a request that is already sent cannot be recalled.",
    ),
    9: Defect(
        "A leader is stuck for ever with an outdated version of its `state` (KAFKA-2729).",
        "0.8 to 1.0",
        "cured",
        "zkgroup brokers read the state again; for Kafka brokers it is never written without a higher leader epoch and a LeaderAndIsr.",
    ),
    10: Defect(
        "After one failed batch, every later batch of the state machine fails too.",
        "0.8.2.2",
        "cured",
        "Each decision has a batch of its own; if a handler fails, the controller resigns.",
    ),
    11: Defect(
        "Events are lost, or handled with an old list of children.",
        "to 0.11",
        "cured",
        "An event only says what to read; the list is read when the event is handled, after the watch was set again.",
    ),
    12: Defect(
        "The request of a move is dropped when a target is down, and the replica list keeps old and new replicas.",
        "0.8.2.2 to 0.9",
        "cured",
        "The request stays and waits, before the first write and after a failover.",
    ),
    13: Defect(
        "The union of replicas has no defined order: the preferred leader is random during a move.",
        "to 2.3",
        "cured",
        "The target's replicas first, then the others in their order.",
    ),
    14: Defect(
        "A move under way cannot be cancelled or changed (KIP-455).",
        "to 2.3",
        "partly",
        "The controller follows a conditional edit of the request; a target equal to the old replicas cancels the move. With a Kafka controller the command is refused.",
    ),
    15: Defect(
        "The request of a reassignment is deleted too early at a failover (KAFKA-6193).",
        "to 1.0",
        "cured",
        "All entries are read before any is changed; a conditional write removes the finished ones from the request.",
    ),
    16: Defect(
        "Old replicas count as deleted without an answer, so their logs stay on disk.",
        "all",
        "cured",
        "They count as not deleted until the broker has answered; a broker that could not delete them is asked again, also by the next controller.",
    ),
    17: Defect(
        "A request with an empty list of partitions stays for ever.", "0.8.2.2", "cured", "It is removed."
    ),
    18: Defect(
        "The request for preferred leaders stays for ever when it names an unknown partition.",
        "to 2.1",
        "cured",
        "Unknown partitions are skipped, and the request is removed whatever the outcome.",
    ),
    19: Defect(
        "Deletion is disabled, and topics marked for deletion still vanish from metadata after a failover (KAFKA-3175).",
        "0.8.2.2 to 0.10",
        "cured",
        "The marker is removed; the topic is never queued.",
    ),
    20: Defect(
        "One dead broker blocks a deletion.",
        "all",
        "cured",
        "It waits and names the broker, because otherwise the old logs would come back with it. "
        "An empty broker with that id is enough; or an operator declares that the broker is lost "
        "(`zkgroup topic delete --without-broker`), and its replicas are deleted before it becomes a replica again.",
    ),
    21: Defect(
        "A topic that is created again during its deletion loses its configuration, or is deleted again.",
        "all",
        "cured",
        "Topic, configuration and marker are deleted in one transaction.",
    ),
    22: Defect(
        "Creating a topic is not atomic: the loser of a race has overwritten the configuration of the winner.",
        "all",
        "cured",
        "Configuration and topic are created in one transaction.",
    ),
    23: Defect(
        "Adding partitions to a topic that is being deleted blocks the deletion (KAFKA-6612).",
        "to 1.1",
        "cured",
        "The replica lists are written back as they were.",
    ),
    24: Defect(
        "A replica without `state` cannot go offline, so its deletion never ends (KAFKA-6650).",
        "to 1.1",
        "cured",
        "It goes offline without a write.",
    ),
    25: Defect(
        "An election repeats its whole batch after one conflict, and repeats elections that had succeeded.",
        "1.1 to 2.3",
        "cured",
        "After a conflict each partition is decided again and written alone; only those with a conflict are repeated.",
    ),
    26: Defect(
        "The LeaderAndIsr of a controlled shutdown does not reach the departing broker (KAFKA-7482).",
        "1.1 to 2.0",
        "cured",
        "Brokers that are shutting down get the request too.",
    ),
    27: Defect(
        "Brokers are not notified of brokers that joined or left where no leader changed.",
        "0.8.2.2",
        "cured",
        "Every change of the live brokers is sent to all brokers.",
    ),
    28: Defect(
        "StopReplica has no leader epoch: a late one undoes a newer LeaderAndIsr.",
        "to 2.5",
        "partly",
        "A queued StopReplica is dropped for partitions that a newer LeaderAndIsr names; replicas that may still be deleted get no role.",
    ),
    29: Defect(
        "UpdateMetadata has no order but the controller epoch.",
        "all",
        "cured",
        "zkgroup brokers ignore an older leader epoch.",
    ),
    30: Defect(
        "The controller's cache differs from ZooKeeper between an ISR change and its notification.",
        "all",
        "partly",
        "A decision is written with the version that it is based on; after a refusal the state is read again first.",
    ),
    31: Defect(
        "Brokers that reach ZooKeeper and not the controller serve stale roles.",
        "all",
        "partly",
        "The status names the broker that something waits for; no request can be sent on a connection that is down.",
    ),
    32: Defect(
        "A failover reads everything.", "all", "left", "It reads in bulk: some hundred znodes in a packet."
    ),
    33: Defect(
        "A request or a list of children beyond 1 MiB closes the connection.",
        "all",
        "partly",
        "Each write is measured first: it is divided where possible, and else refused with its size.",
    ),
    34: Defect(
        "Text in JSON is not escaped; a number of 64 bits or a fraction kills the reader.",
        "0.8.2.2",
        "cured",
        "Text is escaped, and such numbers are refused.",
    ),
    35: Defect(
        "One malformed notification of a changed configuration blocks all later ones.",
        "0.9 to 1.1",
        "cured",
        "It is skipped.",
    ),
    36: Defect(
        "A controlled shutdown hangs while ZooKeeper is down (KAFKA-9189).",
        "to 2.8",
        "cured",
        "The broker asks the last controller it knew, a limited number of times, and then stops.",
    ),
    37: Defect(
        "A registration left over from the broker's own expired session stops the broker (KAFKA-1387, KAFKA-7165).",
        "to 2.1",
        "cured",
        "Its session distinguishes it from a foreign one; it is deleted or waited for.",
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
        "The last replica stays in the ISR.",
    ),
    40: Defect(
        "An extra empty StopReplica goes to each broker with each batch.",
        "1.1 to 2.2",
        "cured",
        "StopReplica requests are collected for each broker and never empty; zkgroup brokers accept an empty one.",
    ),
}
