"""Which groups a history has, and the rows of one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zkgroup.audit.events import Event
from zkgroup.errors import NotFoundError
from zkgroup.znodes.consumers import group_path
from zkgroup.znodes.paths import PathKind, path_kind

_NAMED = 8


def is_of_groups(place: PathKind) -> bool:
    """Whether a znode belongs to some group, whose name is then that of the place."""
    return place.kind in ("member", "owner", "offset", "group")


def of_group(events: Iterable[Event], group: str, groups: set[str] | None = None) -> Iterator[Event]:
    """The rows, without those of other groups. The names of all groups that come by are put into `groups`."""
    for event in events:
        place = path_kind(event.path)
        if groups is not None and is_of_groups(place):
            groups.add(place.name)
        if not is_of_groups(place) or place.name == group:
            yield event


def groups_of(events: Iterable[Event]) -> set[str]:
    """The names of all groups that were."""
    return {place.name for event in events if is_of_groups(place := path_kind(event.path))}


def require_group(group: str | None, groups: Iterable[str]) -> None:
    """Raises NotFoundError where a group was asked for and is not among those that were."""
    names = sorted(set(groups))
    if group is None or group in names:
        return
    known = ", ".join(names[:_NAMED]) or "none"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    raise NotFoundError(f"{group_path(group)}: there was no such group; those that were: {known}{more}")
