"""Topics that are to be deleted and are still there, and what that waits for (controller.md 5.5)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from zkgroup.admin.brokers import readable, registrations
from zkgroup.admin.ensemble import Ensemble
from zkgroup.admin.picture import held
from zkgroup.admin.ruling_status import read_ruling_status
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.topics import TopicDeletion, delete_topics_path


@dataclass(frozen=True, slots=True)
class PendingDeletion:
    """One topic's."""

    asked_ms: int
    """Epoch milliseconds of the request, by the servers' clock."""
    detail: str | None
    """What it waits for, as a controller of ours says, else as far as the znodes show; None where nothing is
    known to be in its way."""
    without_brokers: tuple[int, ...] = ()
    """Brokers that an operator has said not to wait for (K20)."""


def read_pending_deletions(ensemble: Ensemble, topics: Mapping[str, Topic]) -> dict[str, PendingDeletion]:
    """Those of the topics that are to be deleted. One request where none is."""
    listed = ensemble.zk.list_many([delete_topics_path()])[delete_topics_path()] or ()
    found = ensemble.zk.read_many([TopicDeletion.path(name) for name in sorted(topics.keys() & set(listed))])
    markers = {path.rpartition("/")[2]: znode for path, znode in found.items() if znode is not None}
    if not markers:
        return {}
    ruling = read_ruling_status(ensemble)
    live = readable(registrations(ensemble)).keys()
    request = ensemble.zk.find(Reassignment.path())
    asked = held(request, Reassignment.decode).value if request else None
    moving = {each.topic for each in asked.targets} if asked else set()
    pending = {}
    for name, marker in markers.items():
        detail = ruling.waiting.get(f"deletion of {name}")
        if ruling.kind is None:
            detail = "waits for a controller: none lives"
        elif ruling.kind == "kafka":
            detail = "; ".join(_in_the_way(topics[name], live, is_asked=name in moving)) or None
        deletion = held(marker, TopicDeletion.decode).value
        without = deletion.without_brokers if deletion else ()
        pending[name] = PendingDeletion(marker.stat.ctime, detail, without)
    return pending


def _in_the_way(topic: Topic, live: Collection[int], *, is_asked: bool) -> Iterator[str]:
    """What every controller waits for before it deletes a topic."""
    replicas = {broker for brokers in topic.partitions.values() for broker in brokers}
    if dead := sorted(replicas - set(live)):
        named = ", ".join(map(str, dead))
        yield f"waits for {'broker' if len(dead) == 1 else 'brokers'} {named} to be back"
    if is_asked or topic.moving:
        yield "waits for the reassignment of its partitions"
