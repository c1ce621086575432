"""The group coordinator: its slots and who leads them, its groups with phase, generation, members and timers.

Slots, generations and stored members come from ZooKeeper, phases and timers from the brokers that lead
the slots.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zkgroup.admin.cluster.brokers import readable, registrations
from zkgroup.clients import coordinators
from zkgroup.clients.leaders import find_brokers
from zkgroup.coordinator.group_ids import slot_of
from zkgroup.errors import BrokerAuthenticationError, ConfigError, NotFoundError, ZkGroupError
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.group_ids import validate_group_id
from zkgroup.groups.membership import (
    DEAD,
    ClientMember,
    ClientMembership,
    LiveGroup,
    LiveMember,
    LiveReader,
    membership,
)
from zkgroup.groups.reader import read_permitted_snapshots
from zkgroup.groups.slots import SlotView, read_slots
from zkgroup.groups.snapshot import CoordinatedGroup
from zkgroup.model import TopicPartition
from zkgroup.model.text import named
from zkgroup.znodes.coordinated_groups import SlotConfig, slot_groups_path

ASK_MS: Final = 2_000
"""Longest wait for each answer of a coordinator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotDescription:
    """A slot: a partition of `__consumer_offsets`, whose leader coordinates the groups of the slot."""

    slot: int
    """The number of the slot, and of the partition."""
    leader: int | None
    """The broker that leads it by ZooKeeper; None for none, or if that cannot be read."""
    leader_epoch: int | None
    """Of the partition; None if it has no readable state."""
    owner: int | None
    """The broker that loaded the slot last; -1 for an operator, None if it was never loaded."""
    owner_epoch: int | None
    """The leader epoch in which that broker loaded it."""
    led: bool
    """True if its leader is a registered broker of zkgroup."""
    groups: tuple[str, ...]
    """The groups of the slot that are stored or that its leader lists, sorted."""
    groups_max: int | None
    """Most groups of the slot, a setting of its leader; it and the next ones: None if it reports none."""
    offsets: int | None
    """Number of committed offsets of these groups."""
    offsets_max: int | None
    """Most offsets, a setting of its leader."""
    metadata_bytes: int | None
    """Bytes of the metadata of these offsets together."""
    metadata_bytes_max: int | None
    """Most such bytes, a setting of its leader."""
    detail: str | None
    """The reason why it is not led, or what cannot be read; None for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatedMember:
    """A member of a coordinator's group."""

    member: str
    """The member id."""
    client_id: str
    """Its `client.id`."""
    host: str
    """The address that it joined from."""
    instance_id: str | None
    """Its `group.instance.id`; None for a dynamic member."""
    topics: tuple[str, ...] | None
    """The topics that it subscribes to; None if they are not known."""
    partitions: tuple[TopicPartition, ...] | None
    """The partitions that are assigned to it; None if they are not known."""
    session_timeout_ms: int | None
    """As the coordinator reports it, else as it was stored; None if neither is known."""
    rebalance_timeout_ms: int | None
    """The longest time that a rebalance waits for it; reported, stored or None as `session_timeout_ms`."""
    session_expires_in_ms: int | None
    """The time until it is removed without a heartbeat; None while a request is parked, or if not known."""
    has_joined: bool | None
    """True if its JoinGroup waits for the end of the join phase; None if not known."""
    is_awaiting_sync: bool | None
    """True if it has not synced in this generation; None if not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatedGroupDescription:
    """A group of the coordinator. What only its broker knows is None where that has not answered."""

    group: str
    """The group."""
    slot: int
    """Its slot."""
    leader: int | None
    """The broker that leads the slot; None for none."""
    state: str | None
    """Kafka's word for its state, as its broker reports it."""
    phase: str | None
    """The state, or a part of it, as `InitialRebalanceDelay`; its broker reports
    it."""
    phase_ends_in_ms: int | None
    """Until the initial delay ends, or members that did not join or sync are removed; None for never."""
    generation: int | None
    """Of its broker; the stored one where that has not answered."""
    stored_generation: int | None
    """The last one that was stored; None if none was."""
    reserved_generation: int | None
    """Generations up to this one may have been given to members."""
    protocol_type: str | None
    """`consumer` for consumers."""
    protocol: str | None
    """The assignment strategy; None if there is none now."""
    group_leader: str | None
    """The id of the member that assigns; None if not known."""
    marked: bool
    """True if the marker keeps ZooKeeper consumers out of the group."""
    pending_members: int | None
    """Member ids that were given out and have not joined; as its broker reports it."""
    members: tuple[CoordinatedMember, ...]
    """Its members by id: those that its broker reports, else those that are stored."""
    detail: str | None
    """The reason why its broker has not answered, or what cannot be read; None for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorDescription:
    """The group coordinator, or one group of it."""

    as_of: AsOf
    """The moment at which ZooKeeper was read."""
    slot_count: int
    """The number of slots."""
    slots: tuple[SlotDescription, ...]
    """Every slot, or that of the group, by number."""
    groups: tuple[CoordinatedGroupDescription, ...]
    """Every group, or the one, by name."""
    unanswered: tuple[str, ...]
    """Everything that no broker has answered, or an access list hides, each with the reason."""


def live_reader(
    ensemble: Ensemble,
    note: Callable[[str], object] = lambda _: None,
    timeout_ms: int = ASK_MS,
    *,
    takes_refusals: bool = False,
) -> LiveReader:
    """Asks coordinators for their groups; `note` is called with a sentence for each reason why some are not
    answered.

    `takes_refusals`: a broker that refuses the login, or is not to be trusted, costs only its own groups, and
    is such a reason; else BrokerAuthenticationError is raised.
    """

    def read(groups: Mapping[str, int]) -> Mapping[str, LiveGroup]:
        try:
            addresses = find_brokers(readable(registrations(ensemble)), ensemble.access)
        except (ConfigError, BrokerAuthenticationError):
            raise
        except ZkGroupError as error:
            note(f"what coordinators report is not known: {error}")
            return {}
        answers = coordinators.describe_groups(
            addresses, groups, timeout_ms, certificates={} if takes_refusals else None
        )
        found, reasons = dict[str, LiveGroup](), dict[str, list[str]]()
        for group, answer in answers.items():
            if isinstance(answer, str):
                reasons.setdefault(answer, []).append(group)
            else:
                found[group] = _live(answer)
        for why, missing in reasons.items():
            note(f"what the coordinator of {named(missing, 1)} reports is not known: {why}")
        return found

    return read


def _live(group: coordinators.ReportedGroup) -> LiveGroup:
    is_ours = bool(group.phase)
    return LiveGroup(
        state=group.state,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        phase=group.phase or None,
        generation=group.generation if is_ours else None,
        leader=(group.leader or None) if is_ours else None,
        pending_members=group.pending_members if is_ours else None,
        phase_ends_in_ms=_reported(group.phase_ends_in_ms),
        members=tuple(
            LiveMember(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                host=member.client_host,
                metadata=member.metadata,
                assignment=member.assignment,
                session_expires_in_ms=_reported(member.session_expires_in_ms),
                session_timeout_ms=_reported(member.session_timeout_ms),
                rebalance_timeout_ms=_reported(member.rebalance_timeout_ms),
                has_joined=member.has_joined if is_ours else None,
                is_awaiting_sync=member.is_awaiting_sync if is_ours else None,
            )
            for member in group.members
        ),
    )


def _reported(ms: int) -> int | None:
    """A time of a DescribeGroups response; None where the broker does not report it."""
    return ms if ms >= 0 else None


def describe_coordinator(
    ensemble: Ensemble, group: str | None = None, *, timeout_ms: int = ASK_MS
) -> CoordinatorDescription:
    """Every slot and group, or the slot of one group with its members.

    Raises NotFoundError where no coordinator has ever started, or neither ZooKeeper nor the coordinator knows
    the group; CorruptZnodeError where the number of slots cannot be read.
    """
    if group is not None:
        validate_group_id(group)
    ensemble.zk.sync("/")
    count = _slot_count(ensemble)
    slots = read_slots(ensemble, range(count) if group is None else [slot_of(group, count)])
    addresses = find_brokers(readable(registrations(ensemble)), ensemble.access)
    leaders = {
        number: slot.leader for number, slot in slots.items() if slot.is_led and slot.leader is not None
    }
    unanswered: list[str] = []
    names = {group} if group is not None else _names(ensemble, slots)
    used: dict[int, coordinators.ReportedSlotUse] = {}
    if group is None:
        for broker, answer in coordinators.list_groups(addresses, set(leaders.values()), timeout_ms).items():
            if isinstance(answer, str):
                unanswered.append(f"the groups of broker {broker} are not known: {answer}")
            else:
                names.update(answer.groups)
                used |= {one.slot: one for one in answer.slots}
    snapshots, denied = read_permitted_snapshots(ensemble, sorted(names))
    unanswered += map(str, denied.values())
    stored = {name: one.coordinated for name, one in snapshots.items() if one and one.coordinated}
    asked = {
        name: leader for name in sorted(names) if (leader := leaders.get(slot_of(name, count))) is not None
    }
    answers = coordinators.describe_groups(addresses, asked, timeout_ms)
    groups = [
        _group(name, slots[slot_of(name, count)], stored.get(name), answers.get(name))
        for name in sorted(names)
    ]
    known = [one for one in groups if one is not None]
    if group is not None and not known:
        raise NotFoundError(
            f"{slot_groups_path(slot_of(group, count))}: no coordinator has a group {group!r}; "
            "`zkgroup coordinator describe` shows those there are"
        )
    unanswered += [f"{one.group}: {one.detail}" for one in known if one.detail and one.leader is not None]
    return CoordinatorDescription(
        as_of=ensemble.as_of(),
        slot_count=count,
        slots=tuple(
            _slot(slot, [one.group for one in known if one.slot == slot.slot], used.get(slot.slot))
            for slot in slots.values()
        ),
        groups=tuple(known),
        unanswered=tuple(unanswered),
    )


def _slot_count(ensemble: Ensemble) -> int:
    znode = ensemble.zk.find(SlotConfig.path())
    if znode is None:
        raise NotFoundError(
            f"{SlotConfig.path()}: no group coordinator has ever started; it does when a client of "
            "Kafka's group protocol asks a broker of zkgroup for one"
        )
    return SlotConfig.decode(znode.path, znode.data).slots


def _names(ensemble: Ensemble, slots: Collection[int]) -> set[str]:
    listed = ensemble.zk.list_many([slot_groups_path(number) for number in slots])
    return {name for names in listed.values() for name in names or ()}


def _slot(
    slot: SlotView, groups: Sequence[str], used: coordinators.ReportedSlotUse | None
) -> SlotDescription:
    state = slot.state.value if slot.state else None
    owner = slot.owner.value if slot.owner else None
    return SlotDescription(
        slot=slot.slot,
        leader=slot.leader,
        leader_epoch=state.leader_epoch if state else None,
        owner=owner.broker if owner else None,
        owner_epoch=owner.leader_epoch if owner else None,
        led=slot.is_led,
        groups=tuple(sorted(groups)),
        groups_max=None if used is None else used.groups_max,
        offsets=None if used is None else used.offsets,
        offsets_max=None if used is None else used.offsets_max,
        metadata_bytes=None if used is None else used.metadata_bytes,
        metadata_bytes_max=None if used is None else used.metadata_bytes_max,
        detail=slot.reason_not_led or (str(slot.error) if slot.error else None),
    )


def _group(
    name: str,
    slot: SlotView,
    stored: CoordinatedGroup | None,
    answer: coordinators.ReportedGroup | str | None,
) -> CoordinatedGroupDescription | None:
    """One group; None where neither ZooKeeper nor its broker has it."""
    live = None if answer is None or isinstance(answer, str) else _live(answer)
    if stored is None and (live is None or live.state == DEAD):
        return None
    group = stored or CoordinatedGroup(slot=slot.slot, marker=None, header=None)
    found = membership(group, live)
    header = group.header.value if group.header else None
    errors = [answer if isinstance(answer, str) else None, str(group.error) if group.error else None]
    return CoordinatedGroupDescription(
        group=name,
        slot=slot.slot,
        leader=slot.leader if slot.is_led else None,
        state=live.state if live else None,
        phase=live.phase if live else None,
        phase_ends_in_ms=live.phase_ends_in_ms if live else None,
        generation=found.generation,
        stored_generation=header.generation if header else None,
        reserved_generation=header.reserved_generation if header else None,
        protocol_type=found.protocol_type,
        protocol=found.protocol,
        group_leader=found.leader,
        marked=group.marker is not None,
        pending_members=live.pending_members if live else None,
        members=_members(found, group, live),
        detail="; ".join(filter(None, errors)) or None,
    )


def _members(
    found: ClientMembership, stored: CoordinatedGroup, live: LiveGroup | None
) -> tuple[CoordinatedMember, ...]:
    known = {member.member_id: member for member in stored.members}
    reported = {member.member_id: member for member in live.members} if live else {}

    def described(member: ClientMember) -> CoordinatedMember:
        timers = reported.get(member.member_id)
        are_reported = timers is not None and timers.session_timeout_ms is not None
        timeouts = timers if are_reported else known.get(member.member_id)
        return CoordinatedMember(
            member=member.member_id,
            client_id=member.client_id,
            host=member.host,
            instance_id=member.instance_id,
            topics=member.topics,
            partitions=member.assigned,
            session_timeout_ms=timeouts.session_timeout_ms if timeouts else None,
            rebalance_timeout_ms=timeouts.rebalance_timeout_ms if timeouts else None,
            session_expires_in_ms=timers.session_expires_in_ms if timers else None,
            has_joined=timers.has_joined if timers else None,
            is_awaiting_sync=timers.is_awaiting_sync if timers else None,
        )

    return tuple(map(described, found.members))
