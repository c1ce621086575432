"""Mistakes that one could make in a controller or a broker, each with the rule that notices it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from tests.simulation.cluster import replication
from tests.simulation.cluster.controller import ControllerProcess
from zkgroup.broker.log.leader_epochs import LeaderEpochs
from zkgroup.broker.replicas.replica import Replica
from zkgroup.broker.server.control_requests import ControlRequestHandler
from zkgroup.broker.server.fetch_requests import DelayedFetch
from zkgroup.broker.server.fetch_sessions import FetchSession
from zkgroup.controller.machine import event_manager, fenced_writes, state_writes
from zkgroup.controller.machine.context import LeaderIsrAndControllerEpoch
from zkgroup.controller.machine.controller_election import elector
from zkgroup.controller.machine.controller_election import transactions as election_transactions
from zkgroup.controller.machine.controller_election.elector import ControllerLease, Elector
from zkgroup.controller.machine.leadership import selectors
from zkgroup.controller.machine.leadership.leader_election import LeaderElections
from zkgroup.controller.machine.open_reassignments import Stage
from zkgroup.controller.machine.pending_deletes import PendingDeletes
from zkgroup.controller.machine.reassignment import steps, transactions
from zkgroup.controller.machine.requests.batch import RequestBatch, _View
from zkgroup.controller.machine.requests.sender import RequestSender, SendQueue
from zkgroup.model import Znode
from zkgroup.model.requests import Check, Multi, Read
from zkgroup.runtime.procedures import Procedure, Query, read_done
from zkgroup.wire.records import NO_EPOCH, EpochEnd, FetchRequest
from zkgroup.znodes.brokers import PartitionState, broker_ids_path
from zkgroup.znodes.controller import ControllerEpoch

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Bug:
    """What to break, and by which rules it may be noticed."""

    plant: Callable[[Patch], None]
    noticed_by: tuple[str, ...]
    seed: int = 0
    """Of a schedule that noticed it when this was written: it is tried first."""


def _no_checks(patch: Patch) -> None:
    """Writes without a fence (K3)."""
    patch.setattr(fenced_writes.Fence, "checks", lambda self: ())
    patch.setattr(fenced_writes, "_HEAD", 0)


def _epoch_check_only(patch: Patch) -> None:
    """As Kafka since 2.1: a write passes after `/controller` was deleted."""
    whole = fenced_writes.Fence.checks
    patch.setattr(fenced_writes.Fence, "checks", lambda self: whole(self)[1:])
    patch.setattr(fenced_writes, "_HEAD", 1)


def _no_record(patch: Patch) -> None:
    """An epoch of ours that cannot be told from a real controller's."""
    elect = election_transactions.elect
    patch.setattr(election_transactions, "elect", lambda *args: elect(*args)[:3])


def _leader_epoch_stays(patch: Patch) -> None:
    """A new leader in the old term."""
    decided = LeaderIsrAndControllerEpoch.decided

    def wrong(self: LeaderIsrAndControllerEpoch, *args: Any, **kwargs: Any) -> PartitionState:
        state = decided(self, *args, **kwargs)
        return PartitionState(state.leader, self.leader_epoch, state.isr, state.controller_epoch)

    patch.setattr(LeaderIsrAndControllerEpoch, "decided", wrong)


def _forgets_to_tell(patch: Patch) -> None:
    """What was written is not told (K9)."""
    patch.setattr(RequestSender, "send", lambda self, batch: None)


def _no_wait_for_the_isr(patch: Patch) -> None:
    """Step 7 before the target is in sync."""
    decide = steps.decide

    def hasty(now: steps.Situation) -> steps.Decision:
        if now.stage is Stage.CATCH_UP:
            return decide(now._replace(isr=tuple(dict.fromkeys((*now.isr, *now.target)))))
        return decide(now)

    patch.setattr(steps, "decide", hasty)


def _no_ending(patch: Patch) -> None:
    """The entry goes, and nobody can tell what became of the move."""
    patch.setattr(transactions, "_record", lambda *args: b"{}")


def _drops_dead_targets(patch: Patch) -> None:
    """An entry whose target is down is dropped, and its list stays at the union (K12)."""
    plan = steps._plan

    def impatient(now: steps.Situation) -> steps.Decision:
        if set(now.target) - set(now.live):
            return steps.Decision(steps.Complete("done", "given up"), Stage.PLAN, Stage.PLAN)
        return plan(now)

    patch.setattr(steps, "_plan", impatient)


def _lease_never_ends(patch: Patch) -> None:
    """An expired controller goes on sending."""
    patch.setattr(ControllerLease, "is_valid", property(lambda self: True))
    send = ControllerProcess._send

    def careless(self: ControllerProcess, *args: Any) -> None:
        self._lease_until_ms = 1 << 60
        send(self, *args)

    patch.setattr(ControllerProcess, "_send", careless)


def _no_fence_of_brokers(patch: Patch) -> None:
    """A broker obeys every controller."""
    patch.setattr(ControlRequestHandler, "_is_stale", _remembers)


def _remembers(self: ControlRequestHandler, controller_epoch: int) -> bool:
    self._controller_epoch = controller_epoch
    return False


def _sends_once(patch: Patch) -> None:
    """What was in flight when a connection broke is never sent again."""

    def connected(self: SendQueue) -> Any:
        self._connected = True
        self._flying = None
        return self.next()

    patch.setattr(SendQueue, "connected", connected)


def _deaf_to_the_epoch(patch: Patch) -> None:
    """The watch on `/controller_epoch` tells nothing; the next write is refused all the same."""
    lost = election_transactions.reason_lost

    def hard_of_hearing(
        rule: election_transactions.WonElection, epoch: Znode | None, controller: Znode | None
    ) -> str | None:
        why = lost(rule, epoch, controller)
        return None if why and ControllerEpoch.path() in why else why

    patch.setattr(election_transactions, "reason_lost", hard_of_hearing)


def _no_grace(patch: Patch) -> None:
    """Elected as soon as `/controller` is gone."""
    patch.setattr(
        election_transactions, "needs_grace", lambda predecessor, epoch, record, registration: False
    )


def _reads_the_epoch_after_the_grace(patch: Patch) -> None:
    """Who has ruled meanwhile is not noticed."""
    end_grace = Elector._end_grace

    def end_and_read(self: Elector) -> Procedure[None]:
        yield from end_grace(self)
        (outcome,) = yield from self._asked(Query(Read(ControllerEpoch.path())))
        epoch, number = read_done(outcome), election_transactions.epoch_of(read_done(outcome))
        if epoch is not None and number is not None and self.attempt is not None:
            self.attempt = self.attempt._replace(epoch=number, version=epoch.stat.version)

    patch.setattr(Elector, "_end_grace", end_and_read)


def _no_recovery(patch: Patch) -> None:
    """What a foreign controller has decided stands as it is."""

    def recover(self: LeaderElections, batch: RequestBatch) -> Procedure[None]:
        yield from ()

    patch.setattr(LeaderElections, "take_over_foreign_states", recover)


def _recovers_after_a_real_predecessor_only(patch: Patch) -> None:
    """A winner of ours is taken to have recovered everything."""

    def last_foreign_epoch(asked: object, epoch: int, recorded: Collection[int]) -> Procedure[int]:
        yield from ()
        return 0 if epoch in recorded else max(epoch, 0)

    patch.setattr(elector, "last_foreign_epoch", last_foreign_epoch)


def _unanswered_deletions_hold_nothing(patch: Patch) -> None:
    """As if StopReplica(delete) could not be late."""
    patch.setattr(PendingDeletes, "delete_asked", lambda self, topic_partition, brokers: None)


def _an_answer_to_the_second_copy_is_enough(patch: Patch) -> None:
    """The first may still arrive."""
    answered = SendQueue.answered
    patch.setattr(SendQueue, "answered", lambda self: (done := answered(self)) and done._replace(again=False))


def _takes_every_broker_for_informed(patch: Patch) -> None:
    """Nothing of a predecessor is on its way."""
    patch.setattr(PendingDeletes, "_has_answered", lambda self, cluster, broker: True)


def _held_replicas_are_elected(patch: Patch) -> None:
    """Where nobody in sync lives, whoever does is good enough."""
    offline = selectors.offline
    patch.setattr(selectors, "offline", lambda now, **kwargs: offline(now._replace(deleting=()), **kwargs))


def _held_replicas_are_named(patch: Patch) -> None:
    """They are told nothing themselves; their leader counts on them."""
    patch.setattr(
        _View,
        "replicas",
        lambda view, each, given: given or view.late.get(each) or view.context.replicas(each),
    )


def _fences_the_first_packet_only(patch: Patch) -> None:
    """Of writes that go as several transactions, the later ones check nothing."""
    whole = fenced_writes.pack
    head = (Check(broker_ids_path(), -1), Check(broker_ids_path(), -1))

    def bare(packet: fenced_writes.Packet) -> fenced_writes.Packet:
        return packet._replace(request=Multi((*head, *packet.request.operations[len(head) :])))

    def pack(*args: Any) -> fenced_writes.Packed:
        packed = whole(*args)
        first, later = packed.packets[:1], packed.packets[1:]
        return packed._replace(packets=(*first, *map(bare, later)))

    patch.setattr(state_writes, "pack", pack)


def _writes_states_without_version(patch: Patch) -> None:
    """A decision over a state that somebody has changed since it was read."""
    conditional = state_writes.set_state

    def blind(*args: Any) -> fenced_writes.Write:
        write = conditional(*args)
        return write._replace(
            operations=tuple(dataclasses.replace(each, version=-1) for each in write.operations)
        )

    patch.setattr(state_writes, "set_state", blind)


def _lease_twice_as_long(patch: Patch) -> None:
    """It lasts for the whole session timeout."""
    span_ms = ControllerLease._span_ms
    patch.setattr(ControllerLease, "_span_ms", lambda self: 2 * span_ms(self))


def _consumers_read_to_the_end(patch: Patch) -> None:
    """Beyond the high watermark."""
    read = Replica._read

    def further(self: Replica, offset: int, end: int, limit: Any) -> bytes:
        return read(self, offset, self.end_offset, limit)

    patch.setattr(Replica, "_read", further)


def _epoch_ends_a_record_later(patch: Patch) -> None:
    """A follower keeps a record that its leader never had."""
    end_of = LeaderEpochs.end_of

    def later(self: LeaderEpochs, leader_epoch: int, log_end_offset: int) -> EpochEnd:
        found = end_of(self, leader_epoch, log_end_offset)
        if found.leader_epoch == NO_EPOCH:
            return found
        return dataclasses.replace(found, end_offset=found.end_offset + 1)

    patch.setattr(LeaderEpochs, "end_of", later)


def _epoch_ends_a_record_earlier(patch: Patch) -> None:
    """A follower truncates a record that it rightly has, and never catches up with its leader."""
    end_of = LeaderEpochs.end_of

    def earlier(self: LeaderEpochs, leader_epoch: int, log_end_offset: int) -> EpochEnd:
        found = end_of(self, leader_epoch, log_end_offset)
        return dataclasses.replace(found, end_offset=max(0, found.end_offset - 1))

    patch.setattr(LeaderEpochs, "end_of", earlier)


def _second_fetches_are_not_read(patch: Patch) -> None:
    """A follower of an idle partition never fetches it a second time, as its leader sees it."""
    begin = FetchSession.begin

    def forgetful(self: FetchSession, request: FetchRequest) -> DelayedFetch:
        self._due = {}
        return begin(self, request)

    patch.setattr(FetchSession, "begin", forgetful)
    patch.setattr(replication, "SWEEP_MS", 1 << 40)


def _followers_keep_what_the_leader_has_deleted(patch: Patch) -> None:
    """A follower below its leader's log start offset goes on where it is."""
    patch.setattr(Replica, "_start_anew", lambda self, log_start_offset: False)


def _tries_again_without_a_pause(patch: Patch) -> None:
    """What is refused, a move or anything else."""
    patch.setattr(event_manager, "BACKOFF_MS", 0)
    patch.setattr(event_manager.Backoffs, "before_ms", lambda self, work, now_ms: 0)


BUGS = {
    "no checks": Bug(_no_checks, ("S11",), seed=16),
    "epoch check only": Bug(_epoch_check_only, ("S11",), seed=23),
    "no record of the epoch": Bug(_no_record, ("S11",), seed=2),
    "leader epoch stays": Bug(_leader_epoch_stays, ("S12",), seed=2),
    "forgets to tell": Bug(_forgets_to_tell, ("L7",)),
    "does not wait for the isr": Bug(_no_wait_for_the_isr, ("S14", "S16"), seed=4),
    "no record of the end": Bug(_no_ending, ("S14",)),
    "drops dead targets": Bug(_drops_dead_targets, ("S14",), seed=4),
    "fences the first packet only": Bug(_fences_the_first_packet_only, ("S11",), seed=23),
    "writes states without version": Bug(_writes_states_without_version, ("S12",), seed=3),
    "lease twice as long": Bug(_lease_twice_as_long, ("S18",), seed=3),
    "consumers read to the end": Bug(_consumers_read_to_the_end, ("records",), seed=18),
    "epoch ends a record later": Bug(_epoch_ends_a_record_later, ("records",), seed=79),
    "second fetches are not read": Bug(_second_fetches_are_not_read, ("L7",)),
    "followers keep what the leader has deleted": Bug(
        _followers_keep_what_the_leader_has_deleted, ("L7", "records"), seed=26
    ),
    "tries again without a pause": Bug(_tries_again_without_a_pause, ("pace",), seed=8),
    "epoch ends a record earlier": Bug(_epoch_ends_a_record_earlier, ("records", "L7")),
}
"""Noticed in drawn schedules."""


class Rare(NamedTuple):
    """A mistake that matters in schedules that have to be played just so."""

    plant: Callable[[Patch], None]
    rule: str
    """What it leaves out."""
    scenarios: Mapping[str, str]
    """Each that notices it, and what it says then."""


RARE_BUGS = {
    "deaf to the epoch": Rare(
        _deaf_to_the_epoch,
        "recipes 13: any change of /controller_epoch that is not ours ends the rule",
        {"test_a_real_candidate_that_bumps_late_is_given_way_to": "stays active in an epoch"},
    ),
    "no grace": Rare(
        _no_grace,
        "recipes 13: a real controller that lives has the grace to notice",
        {"test_a_living_real_controller_has_time_to_notice": "S11 .* are controllers at once"},
    ),
    "reads the epoch after the grace": Rare(
        _reads_the_epoch_after_the_grace,
        "recipes 13: the election rests on the epoch's version as it was before the grace",
        {"test_a_candidate_that_sleeps_over_its_own_grace_begins_anew": "S11 .* are controllers at once"},
    ),
    "no recovery": Rare(
        _no_recovery,
        "recipes 13: recovery always, as a real controller can pause over the grace, or go on with a "
        "batch in a new session",
        {
            "test_a_real_controller_that_sleeps_over_the_grace_is_repaired": "has decided",
            "test_a_kafka_controller_that_continues_in_a_new_session_is_repaired": "has decided",
        },
    ),
    "recovers after a real predecessor only": Rare(
        _recovers_after_a_real_predecessor_only,
        "recipes 13: recovery derives from ZooKeeper alone, so a successor finishes it",
        {
            "test_a_winner_that_dies_before_it_recovers_is_followed_by_one_that_does": "has decided",
            "test_a_successor_finishes_the_recovery": "is left in the foreign epoch",
        },
    ),
    "lease never ends": Rare(
        _lease_never_ends,
        "recipes 13: no request is sent after the own lease has ended",
        {"test_no_request_is_sent_after_the_own_lease": "S18 .* goes out"},
    ),
    "unanswered deletions hold nothing": Rare(
        _unanswered_deletions_hold_nothing,
        "recipes 17: a replica is held while its deletion is unanswered, on any connection",
        {"test_a_replica_with_an_unanswered_deletion_is_held": "S13 .* deletes its records"},
    ),
    "an answer to the second copy is enough": Rare(
        _an_answer_to_the_second_copy_is_enough,
        "recipes 17: a deletion that was sent twice is over in a new epoch only",
        {"test_a_replica_with_an_unanswered_deletion_is_held": "S13 .* deletes its records"},
    ),
    "brokers obey everybody": Rare(
        _no_fence_of_brokers,
        "controller.md 7.5: a broker obeys no older controller epoch",
        {"test_a_replica_with_an_unanswered_deletion_is_held": "S13 .* deletes its records"},
    ),
    "sends once": Rare(
        _sends_once,
        "controller.md 7.4: what was in flight on a connection that broke is sent again",
        {"test_a_replica_with_an_unanswered_deletion_is_held": "it never came back"},
    ),
    "takes every broker for informed": Rare(
        _takes_every_broker_for_informed,
        "recipes 17: while a move is open, who is not in sync is held until his broker has answered a "
        "request of this epoch",
        {
            "test_a_replica_is_held_until_its_broker_has_answered_the_successor": "S13 .* its records",
            "test_a_held_replica_is_not_named_to_its_leader": "S13 .* deletes its records",
        },
    ),
    "held replicas are elected": Rare(
        _held_replicas_are_elected,
        "recipes 17: held replicas get no LeaderAndIsr, so none of them is elected",
        {"test_a_held_replica_is_not_elected": "S13 .* deletes its records"},
    ),
    "held replicas are named": Rare(
        _held_replicas_are_named,
        "recipes 17: held replicas are left out of every replica list, also to the leader",
        {"test_a_held_replica_is_not_named_to_its_leader": "S13 .* deletes its records"},
    ),
}
"""Each rule that exhaustive search has found necessary (recipes part II, [M]), with the scenarios in which it
matters; and what else only a scenario notices."""
