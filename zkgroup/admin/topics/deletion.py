"""Deletes a topic: through the active controller or, without one, by its znodes; waits until it is gone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zkgroup.admin.change import AdminChange, ChangePlan, as_they_are, nothing, undo_record, zkgroup_text
from zkgroup.admin.cluster.brokers import registrations, unhosted_topics
from zkgroup.admin.cluster.controller import (
    ControllerInfo,
    has_controller,
    note_on_deletion,
    read_controller_info,
    refuse_kraft,
)
from zkgroup.admin.guards import Guard, changed_error, idle_guard, no_topic_error, to_stop, write
from zkgroup.admin.topics.listing import INTERNAL_TOPICS, NOT_REPORTED, read_pending_deletions
from zkgroup.errors import ConflictError, OperationRefusedError, PartlyDoneError, RefusedError, ZkGroupError
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.membership import stored_membership
from zkgroup.groups.reader import group_names, read_snapshots
from zkgroup.groups.snapshot import decode_or_error, value_of
from zkgroup.groups.verify import evaluate_members
from zkgroup.model import Znode
from zkgroup.model import text as naming
from zkgroup.model.requests import Code, Create, Delete, Operation
from zkgroup.znodes.admin_requests import Reassignment, TopicDeletion, delete_topics_path
from zkgroup.znodes.brokers import BrokerRegistration, Topic, topics_path
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.controller import ControllerRegistration
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC, SlotConfig
from zkgroup.znodes.ids import validate_topic
from zkgroup.znodes.sessions import is_leftover
from zkgroup.znodes.stray_replicas import UnhostedTopic

DELETES_AT_ONCE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeletionPlan(ChangePlan):
    """The plan of a deletion: nothing has been done."""

    topic: str
    """The topic."""
    controller: int | None
    """Broker that would be asked; None: there is no active controller, and the znodes are removed here."""
    users: tuple[tuple[str, str], ...]
    """(group, member) for every member that subscribes to the topic: with any, it is refused."""
    idle_groups: tuple[str, ...]
    """Groups without members that keep owners or offsets of it; they must stay without."""
    znodes: tuple[Znode, ...]
    """These would be removed without a controller, parents first; also what the undo file keeps."""
    unhosted: bool = False
    """It was made without brokers, and the controller that would be asked knows it as such."""
    leftover: bool = False
    """There is no topic any more, only what a deletion in part has left: no controller asks for that."""
    persistent: tuple[str, ...] = ()
    """Paths of registrations of `users` that no session holds."""
    without: tuple[int, ...] = ()
    """Brokers that the controller does not wait for, those named in an earlier request included."""
    request: Znode | None = None
    """A request that waits, and that is made again so that it names them."""

    @property
    def was_asked(self) -> bool:
        """The controller has been asked already, and nothing is to be added to that."""
        path = TopicDeletion.path(self.topic)
        return (
            self.controller is not None and not self.without and path in {each.path for each in self.znodes}
        )


def plan_topic_deletion(
    ensemble: Ensemble, topic: str, without: Collection[int] = (), for_client: ControllerInfo | None = None
) -> TopicDeletionPlan:
    """Reads who uses the topic and what there is of it, or what is left of it.

    `for_client`: what was just read of controller and brokers, for a request of a client of Kafka. As in
    Kafka it deletes whoever uses the topic, so no group is read.

    `without` are brokers that are lost: the request names them, and the controller does not wait for them
    (blocked deletions, K20). Refused unless a zkgroup controller is active, and each is not registered and
    has a replica of the topic.

    Raises NotFoundError where there is nothing, ConflictError where a controller is at the rest,
    RefusedError for a topic that brokers keep for themselves, and on a cluster that has moved to KRaft.
    """
    validate_topic(topic)
    if for_client is None:
        ensemble.zk.sync("/")
    info = for_client or read_controller_info(ensemble)
    refuse_kraft(info)
    controller = info.controller_znode
    found = ensemble.zk.find(Topic.path(topic))
    request, named = None, tuple(sorted(set(without)))
    if named:
        _check_lost(ensemble, topic, found, info, named)
        request = ensemble.zk.find(TopicDeletion.path(topic))
        named = _with_earlier(topic, request, named)
    if found is None:
        return _plan_leftover(ensemble, topic, has_controller=controller is not None)
    _refuse_internal(ensemble, topic, info)
    users, idle, persistent = ((), (), ()) if for_client else _groups_of(ensemble, topic)
    known = value_of(found, Topic.decode)
    unhosted = info.is_zkgroup and known is not None and bool(unhosted_topics(ensemble, {topic: known}))
    return TopicDeletionPlan(
        topic=topic,
        as_of=ensemble.as_of(),
        controller=ControllerRegistration.decode(controller.path, controller.data).broker
        if controller
        else None,
        users=users,
        persistent=persistent,
        idle_groups=idle,
        znodes=_tree(ensemble, topic),
        notes=tuple(_notes(ensemble, topic, known, info, named, unhosted=unhosted)) if controller else (),
        unhosted=unhosted,
        without=named,
        request=request,
    )


def _groups_of(
    ensemble: Ensemble, topic: str
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...], tuple[str, ...]]:
    """Users, idle groups and persistent registrations, as in the plan; ZooKeeper consumers come first."""
    users: list[tuple[str, str]] = []
    clients: list[tuple[str, str]] = []
    idle: list[str] = []
    persistent: list[str] = []
    for snapshot in read_snapshots(ensemble, group_names(ensemble)).values():
        if snapshot is None:
            continue
        group, coordinated = snapshot.group, snapshot.coordinated
        mine = [one.member for one in evaluate_members(snapshot)[0] if topic in one.threads]
        users += [(group, member) for member in mine]
        registrations = [snapshot.registrations[member].znode for member in mine]
        persistent += [znode.path for znode in registrations if is_leftover(znode)]
        has_clients = False
        if coordinated is not None:
            members = stored_membership(coordinated).members
            clients += [(group, one.member_id) for one in members if topic in (one.topics or ())]
            has_clients = coordinated.has_members
        has_state = any(tp.topic == topic for tp in (*snapshot.owners, *snapshot.offsets))
        if has_state and not snapshot.registrations and not has_clients:
            idle.append(group)
    return (*users, *clients), tuple(idle), tuple(persistent)


def _check_lost(
    ensemble: Ensemble, topic: str, found: Znode | None, info: ControllerInfo, named: Sequence[int]
) -> None:
    """Raises RefusedError where a deletion cannot, or need not, go on without these brokers."""
    if info.kind is None:
        raise RefusedError(
            f"{ControllerRegistration.path()}: expected a zkgroup controller, found none: no broker "
            "is waited for, leave --without-broker out"
        )
    if not info.is_zkgroup:
        raise RefusedError(
            f"{ControllerRegistration.path()}: expected a zkgroup controller, found one of Kafka, which "
            f"waits for every broker: start broker {', '.join(map(str, named))}, or an empty one with that id"
        )
    known = value_of(found, Topic.decode)
    if known is None:
        raise RefusedError(f"{Topic.path(topic)}: expected the replicas of a topic, found none to read")
    replicas = {broker for brokers in known.partitions.values() for broker in brokers}
    registered = registrations(ensemble)
    for broker in named:
        if broker not in replicas:
            raise RefusedError(
                f"{Topic.path(topic)}: expected a replica on broker {broker}, found them on "
                f"{', '.join(map(str, sorted(replicas)))}"
            )
        if broker in registered:
            raise RefusedError(
                f"{BrokerRegistration.path(broker)}: expected a broker that is lost, found it registered: "
                "it is asked like the others"
            )


def _with_earlier(topic: str, request: Znode | None, named: tuple[int, ...]) -> tuple[int, ...]:
    """The brokers together with those of the request that waits. Raises ConflictError where it names all."""
    asked = value_of(request, TopicDeletion.decode)
    earlier = asked.without_brokers if asked else ()
    if request is not None and set(named) <= set(earlier):
        brokers = ", ".join(map(str, named))
        raise ConflictError(
            f"{request.path}: the controller has been asked already not to wait for broker {brokers}; "
            f"`{naming.typed('topic describe', topic)}` says what it waits for"
        )
    return tuple(sorted({*earlier, *named}))


def _refuse_internal(ensemble: Ensemble, topic: str, info: ControllerInfo) -> None:
    """Kafka's tools refuse it as well: committed offsets and open transactions would be lost.

    The slots of group coordinators are never deleted: a controller of zkgroup drops such a request.
    """
    if topic == OFFSETS_TOPIC and ensemble.zk.exists(SlotConfig.path()) is not None:
        raise RefusedError(
            f"{Topic.path(topic)}: its partitions are the slots of group coordinators ({SlotConfig.path()}): "
            "it is not deleted"
        )
    if topic in INTERNAL_TOPICS and any(not one.is_zkgroup for one in info.brokers.values()):
        raise RefusedError(f"{Topic.path(topic)}: the brokers keep {topic} for themselves: it is not deleted")


def _notes(
    ensemble: Ensemble,
    name: str,
    topic: Topic | None,
    info: ControllerInfo,
    without: Collection[int],
    *,
    unhosted: bool,
) -> Iterator[str]:
    """Says what the controller makes of a request, said before it is asked."""
    yield from (f"{text}: it is ignored" for text in info.unreadable)
    if note := note_on_deletion(info):
        yield note
    if topic is None:
        yield f"{Topic.path(name)} cannot be read: the controller ignores it, and the deletion waits"
        return
    asked = value_of(ensemble.zk.find(Reassignment.path()), Reassignment.decode)
    if topic.moving or (asked and any(tp.topic == name for tp in asked.targets)):
        yield f"partitions of {name} are being moved: the deletion begins when that has ended"
    replicas = {broker for brokers in topic.partitions.values() for broker in brokers if not unhosted}
    if dead := sorted(replicas - set(info.brokers) - set(without)):
        named = ", ".join(map(str, dead))
        lost = "; if it is lost, name it: --without-broker" if info.is_zkgroup else ""
        yield (
            f"broker {named} is not registered and has replicas of {name}: clients no longer see the topic, "
            f"but the deletion ends only when it, or an empty broker with its id, is there{lost}"
        )
    if without:
        named = ", ".join(map(str, sorted(without)))
        yield (
            f"broker {named} is not waited for: its replicas of {name} stay on its disk until it returns "
            "and a zkgroup controller deletes them"
        )
        yield (
            f"be sure that the process of broker {named} has ended: one of Kafka that is only paused, or cut "
            "off from ZooKeeper, continues as a replica of the deleted topic and can corrupt a new topic "
            f"{name}"
        )
        yield (
            f"a Kafka controller does not delete them: if one may be active when broker {named} returns, "
            f"remove its folders of {name} first, or a new topic of that name may take old records from them"
        )


def _plan_leftover(ensemble: Ensemble, topic: str, *, has_controller: bool) -> TopicDeletionPlan:
    """Kafka's controller ignores a request for a topic that is gone, so its configuration would stay."""
    znodes = _tree(ensemble, topic)
    if not znodes:
        raise no_topic_error(topic)
    if has_controller and any(znode.path == TopicDeletion.path(topic) for znode in znodes):
        raise ConflictError(
            f"{TopicDeletion.path(topic)}: the controller is deleting the rest; wait until this is gone"
        )
    return TopicDeletionPlan(
        topic=topic,
        as_of=ensemble.as_of(),
        controller=None,
        users=(),
        idle_groups=(),
        znodes=znodes,
        leftover=True,
    )


def delete_topic(ensemble: Ensemble, plan: TopicDeletionPlan, *, for_client: bool = False) -> None:
    """Applies the plan.

    Unless it is for a client of Kafka, groups are read again here: one may have joined since the plan. The
    transaction itself is refused where a group that has owners or offsets of the topic has a member again.
    ZooKeeper cannot check in it that no new group has come: that is open since the groups were read.

    Raises RefusedError where a group has members on the topic, ConflictError where something changed
    since the plan, PartlyDoneError when it did after the first of several transactions.
    """
    refuse_users(plan.topic, plan.users, plan.persistent)
    if not plan.leftover and not for_client:
        users, idle, persistent = _groups_of(ensemble, plan.topic)
        refuse_users(plan.topic, users, persistent)
        plan = replace(plan, idle_groups=tuple(sorted({*plan.idle_groups, *idle})))
    guards = [idle_guard(ensemble, group) for group in plan.idle_groups]
    if plan.controller is None:
        _remove_znodes(ensemble, plan, guards)
    else:
        _ask(ensemble, plan, guards)


def refuse_users(topic: str, users: Sequence[tuple[str, str]], persistent: Sequence[str]) -> None:
    """Raises RefusedError where members subscribe to the topic; `persistent` as in `TopicDeletionPlan`."""
    if users:
        found = naming.named(f"{member} of {group}" for group, member in users)
        raise RefusedError(
            f"{Topic.path(topic)}: expected no member on it, found {found}; {to_stop(persistent)}"
        )


def _ask(ensemble: Ensemble, plan: TopicDeletionPlan, guards: Sequence[Guard]) -> None:
    """A request that waits is taken away and made again: controllers watch the list of them, not the data."""
    path, data = TopicDeletion.path(plan.topic), TopicDeletion(plan.without).encode()
    ensemble.zk.create_missing(delete_topics_path().rpartition("/")[0], delete_topics_path())
    before = [Delete(path, plan.request.stat.version)] if plan.request is not None else []
    _multi(ensemble, guards, [*before, Create(path, data)], path, data)


def _remove_znodes(ensemble: Ensemble, plan: TopicDeletionPlan, guards: Sequence[Guard]) -> None:
    """Leaves first; what has the topic's name goes together in the last transaction."""
    head = _heads(plan.topic)
    below = [znode for znode in reversed(plan.znodes) if znode.path not in head]
    last = [znode for znode in reversed(plan.znodes) if znode.path in head]
    batches = [below[start : start + DELETES_AT_ONCE] for start in range(0, len(below), DELETES_AT_ONCE)]
    if batches and len(batches[-1]) + len(last) <= DELETES_AT_ONCE:
        last = batches.pop() + last
    done = 0
    for batch in [*batches, last]:
        if not plan.leftover and has_controller(ensemble):
            error: Exception = ConflictError(
                f"{ControllerRegistration.path()}: a controller is active now; run the command again"
            )
            raise _partly(plan, done, error) if done else error
        deletes: list[Operation] = [Delete(znode.path, znode.stat.version) for znode in batch]
        try:
            _multi(ensemble, guards, deletes, batch[-1].path, None)
        except ZkGroupError as refused:
            if not done:
                raise
            raise _partly(plan, done, refused) from refused
        done += len(batch)
        guards = [idle_guard(ensemble, group) for group in plan.idle_groups]


def _partly(plan: TopicDeletionPlan, done: int, error: Exception) -> PartlyDoneError:
    return PartlyDoneError(
        f"{Topic.path(plan.topic)}: {done} of {len(plan.znodes)} znodes are removed, then: {error}; "
        f"run `{naming.typed('topic delete', plan.topic, options='--execute')}` again for the rest"
    )


def _multi(
    ensemble: Ensemble,
    guards: Sequence[Guard],
    operations: Sequence[Operation],
    path: str,
    data: bytes | None,
) -> None:
    """One transaction behind the guards; `path` and `data` as in `write`."""

    def refusal(error: OperationRefusedError) -> Exception:
        if any(guard.refused_by(error) for guard in guards):
            return RefusedError(f"{error.path}: a member has joined ({error.code}); stop it first")
        if error.path == path and error.code == Code.NODE_EXISTS.value:
            return ConflictError(
                f"{error.path}: the controller has been asked already, wait for it; "
                f"`{naming.typed('topic describe', error.path.rpartition('/')[2])}` says what it waits for"
            )
        return changed_error(error)

    guarded = [operation for guard in guards for operation in guard.operations]
    write(ensemble, [*guarded, *operations], path, data, refusal=refusal)


def _heads(topic: str) -> tuple[str, ...]:
    """Znodes with the name of a topic: itself, its configuration, a request, that no broker hosts it."""
    paths = Topic.path(topic), TopicConfig.path(topic), TopicDeletion.path(topic)
    return (*paths, UnhostedTopic.path(topic))


def _tree(ensemble: Ensemble, topic: str) -> tuple[Znode, ...]:
    """The topic's znodes, parents first: those of its name, and its partitions."""
    found = ensemble.zk.read_many(_heads(topic))
    znodes = [znode for znode in found.values() if znode is not None]
    level = [Topic.path(topic)]
    while level:
        listed = ensemble.zk.list_many(level)
        paths = [f"{parent}/{name}" for parent in level for name in sorted(listed[parent] or ())]
        read = ensemble.zk.read_many(paths)
        znodes += [znode for znode in read.values() if znode is not None]
        level = paths
    return tuple(znodes)


POLL_S = 0.5
"""Seconds between two reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionSeen:
    """Holds what the last read found."""

    as_of: AsOf
    """The moment at which the topic was last read."""
    gone: bool
    """True if the topic and the request to delete it are both gone."""
    detail: str | None
    """The reason why it waits, or will not end; None where nothing is known to block it."""
    is_over: bool
    """True if the topic is gone, or the controller has dropped the request."""


def wait_until_gone(
    ensemble: Ensemble, plan: TopicDeletionPlan, timeout_s: float, on_change: Callable[[str], object]
) -> DeletionSeen:
    """Waits until nothing is left of the topic, or the controller has dropped the request.

    `on_change` is called with what the deletion waits for, each time that is something else.
    """
    last: str | None = None

    def read() -> DeletionSeen:
        nonlocal last
        seen = _read_deletion(ensemble, plan)
        if not seen.is_over and seen.detail not in (None, NOT_REPORTED, last):
            on_change(seen.detail)
        last = seen.detail
        return seen

    return ensemble.read_until(read, lambda seen: seen.is_over, timeout_s, POLL_S)


def _read_deletion(ensemble: Ensemble, plan: TopicDeletionPlan) -> DeletionSeen:
    """Reads what is left of the topic.

    The request is read first: every controller takes it away after the topic, so that a topic which is read
    after the request was gone stays.
    """
    ensemble.zk.sync("/")
    path = Topic.path(plan.topic)
    request = ensemble.zk.find(TopicDeletion.path(plan.topic))
    found = ensemble.zk.read_many([path, TopicConfig.path(plan.topic)])
    topic, config = found.values()
    former = next((znode.stat.czxid for znode in plan.znodes if znode.path == path), None)
    made_again = topic is not None and topic.stat.czxid != former
    gone = made_again or (topic is None and config is None and request is None)
    detail = None
    if topic is not None and not gone:
        known = decode_or_error(topic, Topic.decode)
        if request is None:
            detail = "the controller has dropped the request and kept the topic (delete.topic.enable is off?)"
        elif known.error:
            detail = str(known.error)
        elif known.value and (pending := read_pending_deletions(ensemble, {plan.topic: known.value})):
            detail = pending[plan.topic].detail
    elif config is not None and request is None and not gone:
        delete = naming.typed("topic delete", plan.topic, options="--execute")
        detail = f"{config.path} is left; `{delete}` removes it"
    return DeletionSeen(as_of=ensemble.as_of(), gone=gone, detail=detail, is_over=gone or request is None)


NO_RECORDS = "brokers drop the records"
NO_UNHOSTED = "where brokers are registered, no topic is created without them"


def delete_topic_change(
    ensemble: Ensemble,
    plan: TopicDeletionPlan,
    *,
    for_client: bool = False,
    command_text: Callable[[Sequence[str]], str] = zkgroup_text,
    progress: Callable[[str], object] = nothing,
) -> AdminChange[TopicDeletionPlan, None, DeletionSeen]:
    """Deletes a topic, through the active controller where there is one.

    Raises RefusedError where a group has members on it.
    """
    topic = plan.topic
    notes = list(plan.notes)
    if plan.idle_groups:
        names = ", ".join(plan.idle_groups)
        notes.append(f"offsets of {topic} stay in {names}: a new topic of that name would start there")
    how: dict[str, Any] = {}
    no_undo = None
    if plan.controller is not None:
        no_undo = NO_UNHOSTED if plan.unhosted else NO_RECORDS
        how = {"no_undo": _made_anew(plan, command_text)}
    named = f" without broker {', '.join(map(str, plan.without))}" if plan.without else ""
    return AdminChange(
        ensemble=ensemble,
        subject=f"topic delete {topic}",
        question=f"Delete topic {topic}{named}?",
        plan=plan,
        notes=tuple(notes),
        no_undo=no_undo,
        undo=undo_record(znodes=as_they_are(*plan.znodes), **how),
        check=lambda: refuse_users(topic, plan.users, plan.persistent),
        write=lambda by: delete_topic(ensemble, plan, for_client=for_client),
        wait=lambda _, longest_s: wait_until_gone(ensemble, plan, longest_s, progress),
    )


def _made_anew(plan: TopicDeletionPlan, command_text: Callable[[Sequence[str]], str]) -> str:
    """The reason why the deletion cannot be undone, and how the topic is made again as far as that goes."""
    lists = replica_lists(plan.znodes)
    if lists is None:
        return NO_RECORDS
    if plan.unhosted:
        words = command_text(["topic", "create", plan.topic, "--partitions", str(len(lists.split(",")))])
        return f"{NO_UNHOSTED}; `{words}` creates it again, on brokers"
    words = command_text(["topic", "create", plan.topic, "--replica-assignment", lists])
    return f"{NO_RECORDS}; `{words}` creates it again, empty"


def replica_lists(znodes: Iterable[Znode]) -> str | None:
    """Returns where the topic's partitions among these znodes were, as `--replica-assignment` takes it."""
    for znode in znodes:
        if znode.path.rpartition("/")[0] == topics_path():
            topic = decode_or_error(znode, Topic.decode).value
            return texts_of_lists(topic) if topic else None
    return None


def texts_of_lists(topic: Topic) -> str:
    """`1:2,2:3`: the replica lists of the partitions, in their order."""
    return ",".join(":".join(map(str, topic.partitions[number])) for number in sorted(topic.partitions))
