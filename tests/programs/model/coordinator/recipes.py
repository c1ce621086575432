"""The recipes of the coordinator, one ZooKeeper request a step, in every order."""

from __future__ import annotations

from collections.abc import Iterator

from tests.programs.model.coordinator.world import (
    BLOCK,
    BROKERS,
    Broker,
    Configuration,
    Header,
    World,
    Write,
    first,
    header_set,
    offset_set,
    slot_set,
    state_changed,
    with_broker,
)

Step = tuple[str, bool, World, str | None]
"""What happens, whether it is a fault, the state after it, and what it violates."""


class Model:
    """The steps from a state, for `tests.programs.model.controller.tree.explore`."""

    def __init__(self, cfg: Configuration) -> None:
        self.cfg = cfg

    def has(self, rule: str) -> bool:
        return rule not in self.cfg.without

    def init(self) -> World:
        return first(self.cfg)

    def goal(self, world: World) -> bool:
        """Whether a client can join at the leader, or what else the configuration wants."""
        if self.cfg.goal == "zookeeper":
            return world.member
        if self.cfg.goal == "no offset":
            return not (world.topic in "-n" and world.offset == "k")
        broker = world.brokers[world.leader]
        if world.frozen == "f":
            return True
        return (
            world.frozen == ""
            and not broker.is_frozen
            and broker.alive
            and broker.phase == "O"
            and broker.is_slot_mine
            and not broker.queue
            and broker.status in "ES"
            and broker.header == 0
            and (broker.is_marked or not (world.marker or world.member))
        )

    def succ(self, world: World) -> Iterator[Step]:
        for label, is_fault, after, violation in self._steps(world):
            yield label, is_fault, after, violation or self._both_kinds(after)

    def _both_kinds(self, world: World) -> str | None:
        """Where another program may delete the marker, both kinds are there until the coordinator notices."""
        owner = next((each for each in world.brokers if each.is_slot_mine and each.phase == "O"), None)
        has_members = owner is not None and owner.status in "CYS"
        if self.cfg.unmarks:
            both = world.member and has_members and not world.marker and not world.notice
        else:
            both = world.member and (has_members or world.header.client >= 0)
        return "both kinds of members at once" if both else None

    def _steps(self, world: World) -> Iterator[Step]:
        for number in range(2):
            broker = world.brokers[number]
            if broker.alive:
                yield from self._loading(world, number)
                yield from self._serving(world, number)
                yield from self._writes(world, number)
                yield from self._notices(world, number)
                yield from self._checks(world, number)
                yield from self._fetches(world, number)
                yield from self._freeze_ends(world, number)
        yield from self._freezes(world)
        yield from self._topic(world)
        yield from self._controller(world)
        yield from self._members(world)
        yield from self._operator(world)

    def _controller(self, world: World) -> Iterator[Step]:
        left = world.left
        if left.moves:
            for leader in range(2):
                if world.brokers[leader].alive:
                    after = state_changed(world, leader, world.epoch + 1)
                    told = {(0, after.epoch, leader == 0), (1, after.epoch, leader == 1)}
                    after = after._replace(told=world.told | told, left=left._replace(moves=left.moves - 1))
                    yield f"{BROKERS[leader]} becomes leader, epoch {after.epoch}", True, after, None
        if left.isr:
            after = state_changed(world, world.leader, world.epoch)
            yield "the ISR changes", True, after._replace(left=left._replace(isr=left.isr - 1)), None
        for request in world.told:
            number, epoch, leads = request
            broker = world.brokers[number]
            after = world._replace(told=world.told - {request})
            if broker.alive and epoch > broker.epoch:
                yield (
                    f"{BROKERS[number]} learns that it {'leads' if leads else 'does not lead'} epoch {epoch}",
                    False,
                    with_broker(after, number, self._told(broker, epoch, leads)),
                    None,
                )
            else:
                yield f"{BROKERS[number]} misses epoch {epoch}", False, after, None
        for number in range(2):
            broker = world.brokers[number]
            if not broker.alive:
                after = with_broker(world, number, Broker())
                told = {(number, world.epoch, world.leader == number)}
                yield f"{BROKERS[number]} starts", False, after._replace(told=world.told | told), None
            elif left.crashes:
                after = with_broker(world, number, Broker(alive=False))
                left_after = left._replace(crashes=left.crashes - 1)
                yield f"{BROKERS[number]} is killed", True, after._replace(left=left_after), None

    def _told(self, broker: Broker, epoch: int, leads: bool) -> Broker:
        if not leads:
            return Broker(epoch=epoch, queue=broker.queue)
        keeps = broker.is_slot_mine or not self.has("look at the slot at a new epoch")
        if broker.phase == "O" and keeps:
            return broker._replace(epoch=epoch)
        return Broker(phase="N", epoch=epoch, queue=broker.queue)

    def _loading(self, world: World, number: int) -> Iterator[Step]:
        broker, name = world.brokers[number], BROKERS[number]
        if broker.phase == "N":
            if world.leader == number:
                early = None if self.has("fence first") else (*world.header, world.marker)
                read = broker._replace(phase="V", state=0, epoch=world.epoch, early=early)
                yield f"{name} reads the state: it leads", False, with_broker(world, number, read), None
            else:
                idle = Broker(epoch=broker.epoch, queue=broker.queue)
                yield (
                    f"{name} reads the state: it does not lead",
                    False,
                    with_broker(world, number, idle),
                    None,
                )
        elif broker.phase == "V" and not broker.queue:
            if broker.state == 0 or not self.has("state check"):
                after = slot_set(world, number)
                fenced = after.brokers[number]._replace(phase="L", state=0)
                bad = None if world.leader == number else "a broker that does not lead takes the slot"
                yield f"{name} fences the slot", False, with_broker(after, number, fenced), bad
            else:
                again = broker._replace(phase="N", state=0)
                yield f"{name} is refused at the state", False, with_broker(world, number, again), None
        elif broker.phase == "L" and not broker.queue:
            loaded = with_broker(world, number, self._loaded(world, broker))
            noticing = loaded._replace(notice=bool(self.cfg.unmarks))
            yield f"{name} reads the group, and the registrations then", False, noticing, None
        if broker.phase in "LO" and not broker.is_slot_mine and self.has("watch of the slot"):
            again = Broker(phase="N", epoch=broker.epoch, queue=broker.queue)
            yield f"{name} sees that its slot was set", False, with_broker(world, number, again), None
        if broker.phase == "U":
            phase = "L" if broker.is_slot_mine else "N"
            after = with_broker(world, number, broker._replace(phase=phase))
            yield f"{name} reads the slot back", False, after, None

    def _loaded(self, world: World, broker: Broker) -> Broker:
        generation, reserved, client, marker = broker.early or (*world.header, world.marker)
        loaded = broker._replace(
            phase="O",
            header=0,
            generation=generation,
            skipped=reserved if self.has("skip the block") else 0,
            reserved=reserved,
            is_marked=client >= 0,
            is_frozen=bool(world.frozen) and client >= 0 and self.has("load reads the freeze"),
            status="S" if client >= 0 else "E",
            client=client,
            early=None,
        )
        if marker and client < 0 and self.has("load takes the marker off"):
            return _sent(loaded, Write("unmark", broker.is_slot_mine))
        return loaded

    def _serving(self, world: World, number: int) -> Iterator[Step]:
        broker, name, left = world.brokers[number], BROKERS[number], world.left
        if not broker.can_send:
            return
        if broker.status == "C":
            write = Write(
                "sync",
                broker.is_slot_mine,
                broker.header,
                broker.generation,
                max(broker.reserved, broker.generation),
                broker.client,
            )
            yield (
                f"{name} writes generation {broker.generation}",
                False,
                with_broker(world, number, _sent(broker._replace(status="Y"), write)),
                None,
            )
        is_kept = broker.is_frozen and broker.status == "S"
        if is_kept and broker.client >= 0:
            left_alone = broker._replace(client=-1)
            yield f"{name} loses a frozen member", False, with_broker(world, number, left_alone), None
        elif broker.status in "JCYS" and broker.client >= 0:
            yield f"{name} loses its member", False, with_broker(world, number, self._emptied(broker)), None
        for client in range(2):
            if left.joins and broker.status != "J" and not is_kept:
                after = world._replace(left=left._replace(joins=left.joins - 1))
                yield from self._joined(after, number, client)
            believed = world.clients[client]
            if left.commits and believed is not None and believed[0] == number and broker.status == "S":
                generation = believed[1]
                is_member = broker.client == client and generation == broker.generation
                if is_member or not self.has("generation check"):
                    write = Write("commit", broker.is_slot_mine, 0, generation, broker.generation, client)
                    after = world._replace(left=left._replace(commits=left.commits - 1))
                    yield (
                        f"{name} takes a commit of generation {generation}",
                        False,
                        with_broker(after, number, _sent(broker, write)),
                        None,
                    )
        if left.deletes and broker.status == "E" and world.offset == "k":
            write = Write("delete", broker.is_slot_mine, 0)
            after = world._replace(left=left._replace(deletes=left.deletes - 1))
            yield f"{name} deletes the offset", False, with_broker(after, number, _sent(broker, write)), None

    def _emptied(self, broker: Broker) -> Broker:
        generation = broker.next_generation
        reserved = max(broker.reserved, generation)
        write = Write("empty", broker.is_slot_mine, broker.header, generation, reserved)
        empty = broker._replace(generation=generation, status="E", client=-1, is_marked=False)
        return _sent(empty, write)

    def _joined(self, world: World, number: int, client: int) -> Iterator[Step]:
        broker, name = world.brokers[number], BROKERS[number]
        needs_marker = not broker.is_marked
        if broker.next_generation <= broker.reserved and not (needs_marker and self.has("marker first")):
            if needs_marker:
                write = Write(
                    "claim", broker.is_slot_mine, broker.header, reserved=broker.reserved, marks=True
                )
                broker = _sent(broker._replace(is_marked=True), write)
            after, violation = _given(with_broker(world, number, broker), number, client)
            yield f"client {client} joins at {name}", False, after, violation
            return
        reserved = broker.reserved
        if broker.next_generation > reserved:
            reserved = broker.next_generation - 1 + BLOCK
        write = Write("claim", broker.is_slot_mine, broker.header, 0, reserved, client, needs_marker)
        waiting = _sent(broker._replace(status="J", client=client), write)
        yield (
            f"client {client} joins at {name}, which reserves",
            False,
            with_broker(world, number, waiting),
            None,
        )

    def _freezes(self, world: World) -> Iterator[Step]:
        """Operators who freeze a stored group with members, and end that, and the time that it has."""
        left = world.left
        sets = self.has("freeze sets the slot")
        if not world.frozen and left.freezes and world.header.client >= 0:
            after = world._replace(frozen="f", left=left._replace(freezes=left.freezes - 1))
            yield "an operator freezes the group", True, slot_set(after, None) if sets else after, None
        elif world.frozen:
            after = world._replace(frozen="")
            yield "an operator ends the freeze", True, slot_set(after, None) if sets else after, None
        if world.frozen == "f":
            yield "the time of the freeze is over", True, world._replace(frozen="o"), None

    def _freeze_ends(self, world: World, number: int) -> Iterator[Step]:
        """The coordinator writes the marker, which tells the time, and then deletes it."""
        broker, name = world.brokers[number], BROKERS[number]
        if not (broker.is_frozen and broker.can_send and not broker.queue):
            return
        if not broker.is_ending:
            if world.frozen == "o" and broker.is_slot_mine:
                after = with_broker(world, number, broker._replace(is_ending=True))
                yield f"{name} writes the marker of the freeze", False, after, None
        elif broker.is_slot_mine or not self.has("end checks the slot"):
            again = Broker(phase="N", epoch=broker.epoch) if self.has("end loads again") else broker
            after = with_broker(world, number, again)._replace(frozen="")
            bad = "a freeze ends before its time" if world.frozen == "f" else None
            yield f"{name} deletes the marker of the freeze", False, after, bad
        else:
            again = Broker(phase="N", epoch=broker.epoch)
            yield f"{name} is refused at the slot", False, with_broker(world, number, again), None

    def _notices(self, world: World, number: int) -> Iterator[Step]:
        """The watch of the registrations, and the read of the marker where there are any."""
        broker = world.brokers[number]
        if not (world.notice and broker.phase == "O" and broker.is_slot_mine and not broker.queue):
            return
        after = world._replace(notice=False)
        is_lost = world.member and not world.marker and broker.status in "CYS"
        if is_lost and self.has("watch of the members"):
            after = with_broker(after, number, self._emptied(broker))
        yield f"{BROKERS[number]} reads the registrations and the marker", False, after, None

    def _topic(self, world: World) -> Iterator[Step]:
        left = world.left
        match world.topic:
            case "t" if left.topics:
                after = world._replace(topic="d", left=left._replace(topics=left.topics - 1))
                yield "the topic is to be deleted", True, after, None
            case "d":
                yield "the topic is gone", False, world._replace(topic="-"), None
            case "-":
                yield "the topic is created again", False, world._replace(topic="n"), None

    def _checks(self, world: World, number: int) -> Iterator[Step]:
        """A check reads the offset, then the topic, and then deletes the offset.

        It comes at any time: after a load, after the controller's notice, when the request to delete the
        topic is gone, at intervals.
        """
        broker, name = world.brokers[number], BROKERS[number]
        is_able = broker.can_send and not broker.queue and self.has("check of topics")
        if not (self.cfg.topics and is_able):
            return
        if broker.checked is None:
            if world.offset in ("k", "n"):
                after = with_broker(world, number, broker._replace(checked=(0, world.offset)))
                yield f"{name} reads the offset", False, after, None
            return
        version, by = broker.checked
        broker = broker._replace(checked=None)
        is_former = world.topic == "n" and (by == "k" or not self.has("check compares"))
        if world.topic == "-" or is_former:
            broker = _sent(broker, Write("drop", broker.is_slot_mine, version))
        yield f"{name} reads the topic", False, with_broker(world, number, broker), None

    def _fetches(self, world: World, number: int) -> Iterator[Step]:
        """A client reads the offset: the coordinator reads it, and then the topic."""
        broker, name = world.brokers[number], BROKERS[number]
        if not (self.cfg.topics and broker.can_send and not broker.queue):
            return
        is_last = self.has("topic read last")
        first, then = (world.offset, "the topic") if is_last else (world.topic, "the offset")
        if not broker.fetched:
            if world.offset in ("k", "n") and first:
                after = with_broker(world, number, broker._replace(fetched=first))
                yield f"{name} begins a fetch", False, after, None
            return
        offset, topic = (broker.fetched, world.topic) if is_last else (world.offset, broker.fetched)
        is_refused = topic == "n" and offset == "k" and self.has("fetch compares")
        bad = None
        if offset == "k" and world.topic == "n" and not is_refused:
            bad = "an offset of a deleted topic is served for the new one"
        after = with_broker(world, number, broker._replace(fetched=""))
        yield f"{name} reads {then}, and answers the fetch", False, after, bad

    def _writes(self, world: World, number: int) -> Iterator[Step]:
        broker, name, left = world.brokers[number], BROKERS[number], world.left
        if not broker.queue:
            return
        write = broker.queue[0]
        popped = with_broker(world, number, broker._replace(queue=broker.queue[1:]))
        applied, refusal, violation = self._applied(popped, number, write)
        said = refusal or "stored"
        yield (
            f"{name}: {write.kind} is {said}",
            False,
            *self._answered(applied, number, write, refusal, violation),
        )
        if left.losses:
            lost = left._replace(losses=left.losses - 1)
            for label, tree in ((f"{said}, the answer is lost", applied), ("lost", popped)):
                after = with_broker(
                    tree, number, tree.brokers[number]._replace(phase=_unknown(broker), queue=())
                )
                bad = violation if tree is applied else None
                yield f"{name}: {write.kind} is {label}", True, after._replace(left=lost), bad

    def _applied(self, world: World, number: int, write: Write) -> tuple[World, str, str | None]:
        """The tree after a transaction, why it was refused, and what it violates."""
        is_commit = write.kind == "commit"
        rule = "slot check of commits" if is_commit else "slot check"
        if not write.is_slot_mine and self.has(rule):
            return world, "refused at the slot", None
        if write.kind in ("claim", "sync", "empty") and write.header != 0:
            return world, "refused at the header", None
        match write.kind:
            case "claim":
                if write.marks and world.marker:
                    return world, "refused at the marker", None
                if write.marks and world.member and self.has("guard of the marker"):
                    return world, "refused at the members", None
                header = world.header._replace(reserved=write.reserved)
                return header_set(world, header)._replace(marker=world.marker or write.marks), "", None
            case "sync":
                if not world.marker and self.cfg.unmarks:
                    if world.member:
                        return world, "refused at the members", None
                    world = world._replace(marker=True)
                bad = "a frozen group begins a generation" if world.frozen == "f" else None
                return header_set(world, Header(write.generation, write.reserved, write.client)), "", bad
            case "empty":
                marker = world.marker and not self.has("empty takes the marker off")
                after = header_set(world, Header(write.generation, write.reserved, -1))
                return after._replace(marker=marker), "", None
            case "unmark":
                return world._replace(marker=False), "", None
            case "delete" | "drop":
                if not world.offset or (write.header != 0 and self.has("version of deletes")):
                    return world, "refused at the offset", None
                if world.member and self.has("guard of deletes"):
                    return world, "refused at the members", None
                bad = "the offset of a ZooKeeper member is deleted" if world.member else None
                if write.kind == "drop" and world.offset == "n" and world.topic == "n":
                    bad = "the offset of a new topic is deleted"
                return offset_set(world, ""), "", bad
            case _:
                by = "n" if world.topic == "n" else "k"
                return offset_set(world, by), "", _commit_violation(world, number, write)

    def _answered(
        self, world: World, number: int, write: Write, refusal: str, violation: str | None
    ) -> tuple[World, str | None]:
        """What the broker makes of the outcome of a write."""
        broker = world.brokers[number]
        if broker.phase != "O":
            return world, violation
        if refusal == "refused at the slot":
            phase = "N" if self.has("load again when refused") else "-"
            return with_broker(
                world, number, Broker(phase=phase, epoch=broker.epoch, queue=broker.queue)
            ), violation
        if refusal in ("refused at the header", "refused at the marker"):
            return with_broker(world, number, broker._replace(phase="L", status="E", client=-1)), violation
        if write.kind == "claim" and write.client >= 0 and broker.status == "J":
            if refusal:
                refused = broker._replace(status="E", client=-1, header=_before(broker.header))
                return with_broker(world, number, refused), violation
            taken = broker._replace(reserved=write.reserved, is_marked=True)
            after, bad = _given(with_broker(world, number, taken), number, write.client)
            return after, violation or bad
        if write.kind == "sync" and refusal == "refused at the members":
            queue = tuple(each._replace(header=_before(each.header)) for each in broker.queue)
            broker = broker._replace(header=_before(broker.header), queue=queue)
            if broker.status == "Y" and broker.generation == write.generation:
                broker = self._emptied(broker)
            return with_broker(world, number, broker), violation
        if write.kind == "sync" and broker.status == "Y" and broker.generation == write.generation:
            broker = broker._replace(status="S")
        if write.kind in ("claim", "sync", "empty") and not refusal:
            broker = broker._replace(reserved=max(broker.reserved, write.reserved))
        return with_broker(world, number, broker), violation

    def _members(self, world: World) -> Iterator[Step]:
        if not self.cfg.members:
            return
        if not world.member:
            if not world.marker or self.cfg.jvm or not self.has("member asks for the marker"):
                after = world._replace(member=True, notice=bool(self.cfg.unmarks))
                yield "a ZooKeeper member registers", False, after, None
        else:
            yield "the ZooKeeper member leaves", False, world._replace(member=False), None
            if world.offset != "z":
                yield "the ZooKeeper member commits", False, offset_set(world, "z"), None

    def _operator(self, world: World) -> Iterator[Step]:
        left = world.left
        if world.operator is not None:
            state, header = world.operator
            after = world._replace(operator=None)
            if state == 0 and header == 0:
                if self.has("operator fences"):
                    after = slot_set(after, None)
                after = header_set(after, world.header._replace(client=-1))._replace(marker=False)
                yield "an operator takes the marker off", False, after, None
            else:
                yield "the operator is refused", False, after, None
        if left.unmarks and world.marker:
            after = world._replace(marker=False, left=left._replace(unmarks=left.unmarks - 1))
            yield "another program deletes the marker", True, after, None
        if (
            world.operator is None
            and left.operators
            and world.marker
            and not world.brokers[world.leader].alive
        ):
            after = world._replace(operator=(0, 0), left=left._replace(operators=left.operators - 1))
            yield "an operator reads that no broker leads", False, after, None


def _before(header: int) -> int:
    """The version that is expected once a write before it was refused."""
    return max(header - 1, 0)


def _unknown(broker: Broker) -> str:
    return "U" if broker.phase == "O" else broker.phase


def _sent(broker: Broker, write: Write) -> Broker:
    """The broker with one more write in flight; the next write of the header expects the version after it."""
    changes_header = write.kind in ("claim", "sync", "empty")
    return broker._replace(queue=(*broker.queue, write), header=broker.header + changes_header)


def _given(world: World, number: int, client: int) -> tuple[World, str | None]:
    """A client gets the next generation of a broker."""
    broker = world.brokers[number]
    generation = broker.next_generation
    clients = list(world.clients)
    clients[client] = (number, generation)
    bad = None
    if any(each == generation for each, _ in world.given):
        bad = "a generation is given twice"
    broker = broker._replace(generation=generation, status="C", client=client)
    after = with_broker(world, number, broker)._replace(
        clients=tuple(clients), given=tuple(sorted({*world.given, (generation, number)}))
    )
    return after, bad


def _commit_violation(world: World, number: int, write: Write) -> str | None:
    if write.generation != write.reserved:  # the broker's generation when it took the commit
        return "a commit of an old generation is accepted"
    if any(generation > write.generation and by != number for generation, by in world.given):
        return "a commit of a deposed coordinator is accepted"
    return None
