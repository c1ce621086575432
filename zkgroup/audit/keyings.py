"""How rows are brought together: by group, by partition of a group, by topic, by session."""

from __future__ import annotations

from zkgroup.audit.events import Event
from zkgroup.audit.rules import Key, Keying


def _group(event: Event) -> Key | None:
    parts = event.path.split("/", 3)
    return (parts[2],) if len(parts) > 2 and parts[1] == "consumers" and event.applied else None


def _group_partition(event: Event) -> Key | None:
    parts = event.path.split("/")
    if len(parts) != 6 or parts[1] != "consumers" or not event.applied or not parts[5].isdecimal():
        return None
    return (parts[2], parts[4], parts[5]) if parts[3] in ("owners", "offsets") else None


def _topic(event: Event) -> Key | None:
    parts = event.path.split("/", 4)
    is_topic = len(parts) > 3 and parts[1] == "brokers" and parts[2] == "topics" and event.applied
    return (parts[3],) if is_topic else None


def _session(event: Event) -> Key | None:
    return (str(event.session),) if event.session else None


def _subtree(event: Event) -> Key | None:
    return (event.path.split("/", 2)[1],) if event.path and event.applied else None


def _controller(event: Event) -> Key | None:
    is_controller = event.path in ("/controller", "/controller_epoch") and event.applied
    return ("controller",) if is_controller else None


def _admin(event: Event) -> Key | None:
    return ("admin",) if event.path.startswith("/admin/") and event.applied else None


BY_GROUP = Keying("group", _group)
"""All applied rows below `/consumers/<group>`; key: the group."""
BY_GROUP_PARTITION = Keying("group_partition", _group_partition)
"""Owner and offset rows; key: group, topic, partition in decimal."""
BY_TOPIC = Keying("topic", _topic)
"""Applied rows at and below `/brokers/topics/<topic>`; key: the topic."""
BY_SESSION = Keying("session", _session)
"""All rows of a session, failed ones too; key: the session in decimal."""
BY_SUBTREE = Keying("subtree", _subtree)
"""All applied rows; key: the first name of the path."""
CONTROLLER = Keying("controller", _controller)
"""`/controller` and `/controller_epoch`; one key."""
ADMIN = Keying("admin", _admin)
"""Below `/admin`; one key."""
