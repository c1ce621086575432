"""The production machine's procedures and the model's member, step by step in the same situation.

The machine leads: each request of a procedure is compared with the model's next step, executed in both
worlds, and answered. Other clients may act between two requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from tests.programs.model import recipes
from tests.programs.model.member import member_steps
from tests.programs.model.model_and_server import GROUP, TOPIC, ModelAndServer, member_id, tp
from tests.programs.model.values import Configuration, Freeze, Held, Member, Node, Op, Pc, State, put
from zkgroup.consumer.machine import machine_context
from zkgroup.consumer.machine.machine_context import MemberConfig
from zkgroup.consumer.machine.scheduler import Components
from zkgroup.model import StaticSubscription
from zkgroup.model.requests import Multi, Outcome, ReadMany, Request, Session, Unanswered
from zkgroup.runtime.procedures import ConnectionLossError, GuardRefusedError, Procedure, Query
from zkgroup.settings import GroupSettings

Loss = Literal["none", "applied", "not applied"]
"""What becomes of the first write: answered, or not, and then applied or not."""
LOST_NOTES = {"applied": " [applied, reply lost]", "not applied": " [not applied, no reply]"}
FAULTS = {"commit": 9, "lost": 9, "handover": 9}
WIPE = "a foreign client deletes the offset"
ME = 0
P = 0
"""The situations are about partition 0 and member 0."""


class Act(NamedTuple):
    """The write of another client: before which request of the machine, and in which session."""

    before: int
    name: str
    ops: Sequence[Op]
    client: int | None


class Pruned(Exception):  # noqa: N818 - not an error
    """This situation equals another one, or is outside the guarantees."""


class Pair:
    """One member, twice: as parts of the production machine and as a member of the model."""

    def __init__(self, worlds: ModelAndServer) -> None:
        self.worlds = worlds
        settings = GroupSettings(
            on_foreign_commit=worlds.cfg.policy,
            partition_assignment_strategy="sticky",
            settle_ms=0,
            initial_rebalance_delay_ms=0,
        )
        subscription = StaticSubscription({TOPIC: 1})
        config = MemberConfig(
            group=GROUP,
            member_id=member_id(ME),
            subscription=subscription,
            settings=settings,
            owns_client=False,
        )
        self.components = Components(config)
        session = Session(1, worlds.session_id(worlds.cfg.client[ME]), 6000)
        self.components.context.connected_to(session)
        self.acts: Sequence[Act] = ()
        self.acted = 0
        """How many of them were done."""
        self.loss: Loss = "none"
        self.wish = ""
        """The beginning of the label of the step that an idle member of the model takes next."""
        self.requests = 0
        self.sent: list[list[Op]] = []
        """Transactions so far."""
        self.offset_read: Node | None = None
        """By the last read-back of a commit."""

    def hold(self, held: Held) -> None:
        """Makes the member believe in this claim, in both worlds."""
        zxids = self.worlds.zxids
        self.believe(held=(held, *self.me.held[1:]))
        real = machine_context.OwnedPartition(
            tp(P), 0, zxids[held.token], held.value, held.fence, zxids[held.life], zxids[held.last]
        )
        self.components.context.owned.partitions[tp(P)] = real

    def believe(self, **changes: object) -> None:
        self.worlds.s = put(self.worlds.s, ME, **changes)

    @property
    def me(self) -> Member:
        return self.worlds.s.members[ME]

    def follow(self, procedure: Procedure[object], *then: Procedure[object]) -> None:
        """Runs the procedure to its end; where an answer is missing, the next procedure takes over."""
        for one in (procedure, *then):
            try:
                self._drive(one)
            except ConnectionLossError:
                continue
            except GuardRefusedError:
                assert self.me.pc in (Pc.UNREGISTERED, Pc.GONE)
                self.components.context.owned.clear()
            return

    def _drive(self, procedure: Procedure[object]) -> None:
        outcomes: tuple[Outcome, ...] | None = None
        while True:
            try:
                queries: Sequence[Query] = next(procedure) if outcomes is None else procedure.send(outcomes)
            except StopIteration:
                return
            outcomes = tuple(self._answer(query.request) for query in queries)

    def _answer(self, request: Request) -> Outcome:
        while self.acts[self.acted :] and self.acts[self.acted].before == self.requests:
            self.let_act()
        self.requests += 1
        return self._write(request) if isinstance(request, Multi) else self._read(request)

    def _write(self, request: Multi) -> Outcome:
        ops = [self.worlds.op(operation) for operation in request.operations]
        assert ops == self.expected_ops(), self.me.pc
        self.sent.append(ops)
        loss = self.loss if len(self.sent) == 1 else "none"
        after = self._step(LOST_NOTES.get(loss, ""))
        outcome = self.execute(request) if loss != "not applied" else None
        self.worlds.moved(after)
        self.worlds.assert_same_trees()
        return outcome if outcome is not None and loss == "none" else Unanswered("no answer in time")

    def _read(self, request: Request) -> Outcome:
        if isinstance(request, ReadMany) and self._is_a_step(request):
            self.worlds.moved(self._step())
            if self.me.pc == Pc.COMMIT_READS_OWNERS:
                self.offset_read = self.me.reads[P]
        return self.execute(request)

    def _is_a_step(self, request: ReadMany) -> bool:
        """Whether it is a request about offsets or owners; the model has no others."""
        places = [self.worlds.places.get(path) for path in request.paths]
        return ("offset", P) in places or ("owner", P) in places

    def execute(self, request: Request) -> Outcome:
        """Executes a request at the server, in the member's session."""
        outcomes: list[Outcome] = []
        client = self.worlds.clients[self.worlds.cfg.client[ME]]
        client.submit(request, incarnation=1, on_outcome=outcomes.append)
        return outcomes[0]

    def let_act(self) -> None:
        """Executes the next act of the others; raises Pruned where it is refused and so changes nothing."""
        act = self.acts[self.acted]
        if not self.worlds.act(act.ops, act.client):
            raise Pruned
        self.acted += 1

    def _steps(self) -> Iterator[tuple[str, object]]:
        for label, _, after, violation in member_steps(self.worlds.s, self.worlds.cfg, ME):
            if self.me.pc != Pc.IDLE or label.startswith(self.wish):
                yield label, (after, violation)

    def _step(self, note: str = "") -> State:
        """The one next step with this loss."""
        lost = tuple(LOST_NOTES.values())
        fitting = [
            found
            for label, found in self._steps()
            if (label.endswith(note) if note else not label.endswith(lost))
        ]
        if note == LOST_NOTES["applied"] and not fitting:
            raise Pruned  # it is refused: that no reply comes is the other loss
        ((after, violation),) = fitting
        if violation:
            # Not promised where an offset was deleted; the configuration `offset-deleted` shows it.
            assert WIPE in {act.name for act in self.acts[: self.acted]}, violation
            raise Pruned
        return after

    def expected_ops(self) -> list[Op]:
        """The transaction that the model's member sends now."""
        cfg, me, p = self.worlds.cfg, self.me, P
        unfrozen = recipes.unfrozen_ops(cfg, me, p)
        match me.pc:
            case Pc.CLAIM:
                return recipes.claim_ops(cfg, ME, me.todo, me.reads, me.plan, me.freeze.fence)
            case Pc.COMMIT_AGAIN:
                return recipes.commit_ops(cfg, ME, me.todo, me.held)
            case Pc.RELEASE_WITHOUT_COMMIT:
                return recipes.release_without_commit_ops(ME, p, me.reads[p], unfrozen)
            case Pc.RELEASE_AGAIN:
                return recipes.release_ops(cfg, ME, p, me.held[p], unfrozen)
            case Pc.IDLE | Pc.HANDOVER_AGAIN if self.wish == "hands over":
                return recipes.handover_ops(cfg, ME, p, me.held[p])
            case Pc.IDLE if self.wish == "commits":
                return recipes.commit_ops(cfg, ME, ((p, me.held[p].value + 1),), me.held)
            case Pc.IDLE if self.wish == "releases":
                return recipes.release_ops(cfg, ME, p, me.held[p], unfrozen)
        raise AssertionError(f"the model writes nothing: {me.pc}, {self.wish!r}")

    def assert_same_beliefs(self, *, unsure_value: int | None = None) -> None:
        """`unsure_value`: the machine may take this for written, where the model keeps the older value."""
        held, real = self.me.held[P], self.components.context.owned.partitions.get(tp(P))
        assert (held is None) == (real is None), (held, real)
        if held is None or real is None:
            return
        zxids: Mapping[int, int] = self.worlds.zxids
        assert real.value in {held.value, unsure_value if unsure_value is not None else held.value}
        expected = (held.fence, zxids[held.token], zxids[held.life], zxids[held.last])
        assert (real.fence, real.token, real.offset_czxid, real.last_mzxid) == expected


def registered(policy: str = "adopt", **cfg: object) -> Pair:
    """Two registered members; the first one exists as the machine too."""
    worlds = ModelAndServer(Configuration(policy=policy, faults=FAULTS, **cfg))
    for m, client in enumerate(worlds.cfg.client):
        assert worlds.act(recipes.register_ops(m), client)
    pair = Pair(worlds)
    pair.believe(pc=Pc.IDLE, gen=worlds.s.tree.pzxid, freeze=Freeze(0))
    pair.components.snapshot.freeze._fence = 0
    pair.components.membership.is_registered = True
    registration = worlds.server.find(worlds.paths["ids", ME])
    assert registration is not None
    pair.components.context.registered_zxid = registration.stat.czxid
    return pair
