"""The order rules of `zkgroup.consumer.effects`, judged on every effect of a simulated member."""

from __future__ import annotations

from zkgroup.consumer import effects as ef
from zkgroup.consumer import events as ev
from zkgroup.machinery.effects import Ask
from zkgroup.machinery.events import Answered
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, Multi, MultiDone, Operation, SetData


class OrderError(AssertionError):
    """The machine has ordered something too early or too late."""


class OrderRules:
    """Follows one member's events and effects; raises `OrderError` at the one that breaks a rule."""

    def __init__(self, group: str) -> None:
        self._owners = f"/consumers/{group}/owners/"
        self._offsets = f"/consumers/{group}/offsets/"
        self._ids = f"/consumers/{group}/ids/"
        self._delivering: set[TopicPartition] = set()
        self._called: dict[int, set[TopicPartition]] = {}
        """What each open `Revoke` is about: the application may still commit it."""
        self._given_up: set[TopicPartition] = set()
        """Revoked by a rebalance and not released yet."""
        self._claimed: set[TopicPartition] = set()
        """Claims asked for and not told to the application yet."""
        self._held: set[TopicPartition] = set()
        self._tokens: dict[TopicPartition, int] = {}
        """The last one that the application was given."""
        self._writes: set[int] = set()
        """Transactions under way."""
        self._is_acknowledged = False
        """One was accepted since the lease was extended."""

    def event(self, event: ev.Event) -> None:
        """Before the step that takes it."""
        if isinstance(event, Answered) and event.request_id in self._writes:
            self._writes.remove(event.request_id)
            self._is_acknowledged |= isinstance(event.outcome, MultiDone)
        elif isinstance(event, ev.Revoked):
            self._called.pop(event.call_id, None)

    def effect(self, effect: ef.Effect) -> None:
        """Before it is carried out."""
        match effect:
            case Ask(request_id, Multi(operations)):
                self._writes.add(request_id)
                self._write(operations)
            case ef.Assign(grants):
                gained = {grant.topic_partition for grant in grants}
                self._demand(gained <= self._claimed, f"assigned without a claim: {gained - self._claimed}")
                self._claimed -= gained
                for grant in grants:
                    last = self._tokens.get(grant.topic_partition, 0)
                    self._demand(last < grant.token, f"{grant}: token {last} was given before")
                    self._tokens[grant.topic_partition] = grant.token
                self._held |= gained
                self._delivering |= gained
            case ef.Revoke(call_id, partitions, _, reason):
                self._delivering.difference_update(partitions)
                self._called[call_id] = set(partitions)
                if reason == "rebalance":
                    self._given_up.update(partitions)
            case ef.EndOverdue(call_id, _):
                self._called.pop(call_id, None)
            case ef.EndLease(partitions) | ef.Lose(partitions, _):
                for over in (self._delivering, self._given_up, self._held, *self._called.values()):
                    over.difference_update(partitions)
            case ef.ExtendLease():
                self._demand(self._is_acknowledged, "lease extended without an acknowledged write")
                self._is_acknowledged = False
            case _:
                pass

    def _write(self, operations: tuple[Operation, ...]) -> None:
        created = self._partitions(operations, Create, self._owners)
        deleted = self._partitions(operations, Delete, self._owners)
        written = self._partitions(operations, SetData, self._offsets)
        early = deleted & self._delivering.union(*self._called.values())
        self._demand(not early, f"released before the application let go: {early}")
        registers = any(isinstance(o, Create) and o.path.startswith(self._ids) for o in operations)
        replaces = any(isinstance(o, Delete) and o.path.startswith(self._ids) for o in operations)
        self._demand(replaces or not (registers and self._held), f"registers anew and holds {self._held}")
        gained, waits_for = created - deleted, self._given_up
        self._demand(not (gained and waits_for), f"claims {gained} before the release of {waits_for}")
        lost = written - created - self._held - self._claimed
        self._demand(not lost, f"commits what it has lost: {lost}")
        self._claimed |= created

    @staticmethod
    def _partitions(
        operations: tuple[Operation, ...], kind: type[Operation], prefix: str
    ) -> set[TopicPartition]:
        found = set()
        for operation in operations:
            if isinstance(operation, kind) and operation.path.startswith(prefix):
                topic, slash, number = operation.path.removeprefix(prefix).partition("/")
                if slash:
                    found.add(TopicPartition(topic, int(number)))
        return found

    @staticmethod
    def _demand(holds: bool, what: str) -> None:
        if not holds:
            raise OrderError(what)
