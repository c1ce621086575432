"""Taking over: everything is read, what nobody leads is elected, and all brokers hear of it.

Source: controller.md 2.3; recipes.md 13 (recovery), 15, 16. The same happens in small on a new connection of
the same session, where all watches are gone, and after a missing answer: what was read is then compared with
the picture, and what is new is told.
"""

from __future__ import annotations

from collections.abc import Iterable

from zkgroup.controller.machine import abandoned, brokers, first_terms, topics, unhosted
from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.first_reading import FirstReading
from zkgroup.controller.machine.leading import elect_leaderless, end_terms, recover
from zkgroup.controller.machine.records import Records
from zkgroup.controller.machine.reign import Reign
from zkgroup.controller.machine.states import read_states
from zkgroup.machinery.procedures import Procedure, Query, Step, ask, carry_on, list_done, read_done
from zkgroup.model import TopicPartition
from zkgroup.model.requests import ListChildren, Outcome, Read, Sync
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import BrokerRegistration, topics_path
from zkgroup.znodes.topics import delete_topics_path

AFTER: tuple[Look, ...] = (
    Look.ISR_CHANGES,
    Look.CONFIG_CHANGES,
    Look.REASSIGNMENT,
    Look.PREFERRED_ELECTION,
    Look.UNCLEAN_ELECTION,
    Look.DELETIONS,
    Look.PLANS,
    Look.STRAYS,
    Look.ABANDONED,
    Look.STRAY_RECORDS,
    Look.STATUS,
)
"""What is looked at once everything is loaded; each arms its own watches."""


def load(reign: Reign, subject: str = "") -> Procedure[None]:
    """Reads everything; the watches are armed before what they watch is read.

    `subject` is not used. Raises NoAnswerError, after which it is done again.
    """
    yield from ask(Query(Sync("/")))
    if reign.was_loaded:
        yield from _load_again(reign)
    else:
        yield from _load_first(reign)
    reign.is_loaded = reign.was_loaded = True
    for look in AFTER:
        reign.look(look)


def _load_first(reign: Reign) -> Procedure[None]:
    picture = reign.picture
    found = yield from brokers.registered(reign)
    for gone in picture.set_brokers(found).gone:  # since a first attempt
        reign.channels.close(gone)
    brokers.open_channels(reign, picture.reachable)
    # At once, whatever there is to lead: from its first request on a broker obeys no older controller.
    first = reign.batch()
    first.update_metadata()
    reign.tell(first)
    yield from _name_predecessor(reign)
    names = yield from _list_topics(reign)
    requests: list[Outcome] = []
    yield from carry_on([*FirstReading(reign, names).steps(), *_ask_for_requests(requests)])
    _take_requests_in(reign, *requests)
    yield from abandoned.read(reign)
    yield from unhosted.judge(reign, picture.topics)
    topics.enter_all(reign)
    batch = reign.batch()
    unheard = first_terms.unheard(reign)
    yield from elect_leaderless(reign, batch, put_off=unheard)
    yield from recover(reign, batch)
    yield from end_terms(reign, batch, put_off=unheard)
    if unheard:
        first_terms.tell(reign, unheard)
        yield from elect_leaderless(reign, batch)
        yield from end_terms(reign, batch)
    # The first LeaderAndIsr to each broker names all that it has (recipes 15).
    batch.leader_and_isr_of_all()
    batch.update_metadata_of_all()
    reign.tell(batch)
    load_ms = reign.core.now.ms - reign.began_ms
    reign.core.note("controller.loaded", epoch=reign.epoch, partitions=picture.size, load_ms=load_ms)
    if reign.settings.auto_rebalance:
        reign.later(Look.BALANCE, reign.settings.rebalance_first_ms)
    yield from Records(reign.election).loaded(load_ms)


def _name_predecessor(reign: Reign) -> Procedure[None]:
    """A real controller that saw `/controller` change, and not go, rules on for all it knows (K1).

    What it still makes is made ours as it is found; only its restart ends it (recipes 13).
    """
    former = reign.election.former
    if former is None or not former.is_real or former.broker is None:
        return
    path = BrokerRegistration.path(former.broker)
    found = yield from reign.read_many([path])
    if path in found and found[path].stat.ephemeral_owner == former.session:
        why = "was the controller, and may not have noticed that it is no more: restart it"
        reign.wait(f"broker {former.broker}", why)


def _load_again(reign: Reign) -> Procedure[None]:
    """What has changed since the picture was right: told, and elected where it needs to be."""
    picture = reign.picture
    found = yield from brokers.registered(reign)
    yield from abandoned.read(reign)
    names = yield from _list_topics(reign)
    fresh = yield from topics.read_topics(reign, names)
    before = {each: picture.standing(each) for each in picture.partitions()}
    yield from read_states(reign, before)
    yield from unhosted.judge(reign, picture.topics)
    changed = [each for each, standing in before.items() if picture.standing(each) != standing]
    # Without a state: seen, perhaps, by a look that got no further, and never begun.
    unborn = [each for each in before if picture.standing(each) is None]
    entered = {*changed, *fresh, *unborn}
    topics.enter(reign, [each for each in before if each in entered and not picture.is_going(each)])
    batch = reign.batch()
    batch.update_metadata(changed)
    reign.tell(batch)
    yield from brokers.follow(reign, found)
    reign.look(Look.ELECTIONS)


def _list_topics(reign: Reign) -> Procedure[list[str]]:
    """The names of all topics; the others are forgotten."""
    (outcome,) = yield from ask(reign.watched(ListChildren(topics_path()), Look.TOPICS))
    names = list_done(outcome).children
    reign.only(topics_path(), names)
    topics.forget_missing(reign, set(names))
    return sorted(names)


def _ask_for_requests(found: list[Outcome]) -> Iterable[Step]:
    """Steps that read which topics are to be deleted, and the request to move partitions, into the list."""

    def keep(outcome: Outcome) -> Iterable[Step]:
        found.append(outcome)
        return ()

    return [
        Step(Query(each), keep) for each in (ListChildren(delete_topics_path()), Read(Reassignment.path()))
    ]


def _take_requests_in(reign: Reign, listed: Outcome, asked: Outcome) -> None:
    """Which topics are being deleted and which partitions moved: they take no part in what follows.

    Nothing is decided about them yet; their duties read them again, with their watches. A topic that is both
    is not deleted before its moves have been looked at.
    """
    picture = reign.picture
    if reign.settings.delete_topics:
        picture.deletions.update(name for name in list_done(listed).children if name in picture.topics)
    request = reign.decoded(read_done(asked), Reassignment.decode)
    targets: Iterable[TopicPartition] = request.targets if request else ()
    picture.moves.update(each for each in targets if each in picture)
    for name in picture.topics:
        if (seen := picture.topic(name)) is not None:
            picture.moves.update(TopicPartition(name, number) for number in seen.topic.moving)
