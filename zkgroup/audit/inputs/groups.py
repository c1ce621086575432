"""Finds the groups that a history has, and the rows of one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.texts import first_of
from zkgroup.errors import NotFoundError
from zkgroup.zkfiles.log_lists import LeftOutWrites
from zkgroup.znodes.consumers import consumers_path, group_path
from zkgroup.znodes.paths import PathKind, path_kind

_NAMED = 8


def is_of_groups(place: PathKind) -> bool:
    """Returns whether a znode belongs to some group, whose name is then that of the place."""
    return place.kind in ("member", "owner", "offset", "group")


def of_group(events: Iterable[Event], group: str, groups: set[str] | None = None) -> Iterator[Event]:
    """The rows, without those of other groups. The names of all groups that come by are put into `groups`."""
    for event in events:
        place = path_kind(event.path)
        if groups is not None and is_of_groups(place):
            groups.add(place.name)
        if not is_of_groups(place) or place.name == group:
            yield event


def offsets_of_others(group: str | None, chroot: str) -> LeftOutWrites:
    """The writes that a question about one group, or about none, does without: commits of the others.

    They are nine tenths of a log. Facts and the names of groups are those of all rows: only what was applied
    is left out, for a row that stays made the znode above, and what is below `/offsets/`, where no facts are.
    """
    but = None if group is None else f"{chroot}{group_path(group)}/"
    return LeftOutWrites(f"{chroot}{consumers_path()}/", "/offsets/", but)


def require_group(group: str | None, groups: Iterable[str]) -> None:
    """Raises NotFoundError where a group was asked for and is not among those that were."""
    names = sorted(set(groups))
    if group is None or group in names:
        return
    known = first_of(names, _NAMED) or "none"
    raise NotFoundError(f"{group_path(group)}: there was no such group; those that were: {known}")
