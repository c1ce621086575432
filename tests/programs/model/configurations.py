"""The configurations: the recipes as they are, cases outside their guarantees, and recipes without a rule."""

from __future__ import annotations

from typing import Any

from tests.programs.model.values import FAULTS, Configuration


def _of(*, joined: tuple[int, ...] = (), late: tuple[int, ...] = (), **entry: Any) -> Configuration:
    """A configuration. Names of faults are budgets; every other name is a field of `DynamicConfig`."""
    faults = {name: entry.pop(name) for name in FAULTS if name in entry}
    for name in ("jvm", "static", "old", "without"):
        entry[name] = frozenset(entry.get(name, ()))
    return Configuration(joined=joined, late=frozenset(late), faults=faults, **entry)


def _broken(*rules: str, **entry: Any) -> Configuration:
    """A recipe that lacks these rules: the walk must find a violation."""
    return _of(without=rules, expect="violated", **entry)


def _beside_jvm(**entry: Any) -> Configuration:
    """A group with a JVM member. Safety only: a JVM member gives up after four attempts by design."""
    return _of(liveness=False, **entry)


_TAKEOVER: dict[str, Any] = {"joined": (1,), "late": (0,)}
"""m1 owns; m0, which the plan prefers, is started at any moment."""
_TWO: dict[str, Any] = {"joined": (0, 1)}
"""Both are in when the faults begin."""

_STATIC: dict[str, Any] = {"partitions": 2, "static": (0,)}
"""One of two members, which comes back within its grace, or not."""
_OLD: dict[str, Any] = {"members": 3, "late": (2,), "old": (2,), "partitions": 2, "static": (0,)}
"""Two static members, and one that does not know static members joins at any moment."""

AS_WRITTEN: dict[str, Configuration] = {
    "join": _of(expire=1, leave=1, lost=1, commit=1),
    "expiry": _of(**_TWO, expire=2, commit=2, lost=1),
    "takeover": _of(**_TAKEOVER, expire=1, commit=2, leave=1, lost=1),
    "foreign-writes": _of(**_TAKEOVER, commit=2, lost=1, steal=1, write=1),
    "foreign-writes-expiry": _of(**_TAKEOVER, commit=1, expire=1, steal=1, write=1),
    "two-steals": _of(**_TAKEOVER, commit=2, steal=2, write=1, lost=1),
    "reassert": _of(**_TAKEOVER, policy="reassert", commit=2, steal=1, write=1),
    "reset": _of(**_TAKEOVER, commit=2, lost=1, steal=1, reset=1),
    "reset-then-stranger": _of(**_TWO, commit=3, reset=1, write=1, lost=1),
    "reset-then-stranger-reassert": _of(**_TAKEOVER, policy="reassert", commit=3, reset=1, write=1, steal=1),
    "shared-client": _of(**_TAKEOVER, clients=(0, 0), expire=1, commit=1, leave=1, steal=1),
    "shared-client-lost": _of(**_TWO, clients=(0, 0), expire=1, commit=1, leave=1, lost=1),
    "abandon": _of(**_TAKEOVER, expire=1, abandon=1, commit=1, lost=1),
    "abandon-shared": _of(**_TAKEOVER, clients=(0, 0), abandon=1, commit=1, steal=1),
    "resubscribe": _of(**_TWO, expire=1, commit=1, resubscribe=2, lost=1),
    "group-deletion": _of(**_TAKEOVER, expire=1, leave=1, commit=1, guard=1),
    "two-by-two": _of(**_TWO, partitions=2, expire=1, commit=1, leave=1, lost=1),
    "two-by-two-steal": _of(**_TAKEOVER, partitions=2, commit=1, steal=1),
    "two-by-two-reset": _of(**_TAKEOVER, partitions=2, commit=2, reset=1, lost=1),
    "three": _of(members=3, joined=(1, 2), late=(0,), expire=1, commit=1, steal=1),
    "three-by-two": _of(members=3, joined=(1, 2), late=(0,), partitions=2, expire=1),
    "sticky": _of(**_TWO, partitions=2, sticky=True, expire=2),
    "sticky-lost": _of(**_TWO, partitions=2, sticky=True, expire=1, lost=1, steal=1),
    "sticky-three": _of(members=3, joined=(0, 1), late=(2,), partitions=2, sticky=True, expire=1),
    "sticky-lagging": _of(**_TAKEOVER, partitions=2, sticky=True, lagging=True, expire=1),
    "freeze": _of(**_TAKEOVER, expire=1, freeze=1, unfreeze=1),
    "freeze-leave": _of(**_TAKEOVER, leave=1, lost=1, freeze=1),
    "freeze-twice": _of(**_TAKEOVER, freeze=2, unfreeze=1, early=2),
    "freeze-takeover": _of(**_TAKEOVER, expire=1, takeover=1, unfreeze=1),
    "freeze-two-by-two": _of(**_TAKEOVER, partitions=2, expire=1, freeze=1),
    "freeze-sticky": _of(**_TAKEOVER, partitions=2, sticky=True, expire=1, takeover=1),
    "freeze-lagging": _of(**_TAKEOVER, lagging=True, freeze=1, unfreeze=1),
    "handover": _of(**_TAKEOVER, expire=1, handover=1, write=1, lost=1),
    "handover-steal": _of(**_TAKEOVER, handover=1, commit=1, steal=1, lost=1),
    "handover-reset": _of(**_TAKEOVER, handover=1, commit=1, reset=1, lost=1),
    "handover-shared": _of(**_TAKEOVER, clients=(0, 0), handover=1, steal=1, write=1, lost=1),
    "handover-frozen": _of(**_TAKEOVER, handover=1, write=1, freeze=1, lost=1),
    "handover-sticky": _of(**_TAKEOVER, sticky=True, handover=1, expire=1, freeze=1),
    "lagging": _of(**_TAKEOVER, lagging=True, commit=1, expire=1),
    "lagging-steal": _of(**_TAKEOVER, lagging=True, commit=1, steal=1),
    "lagging-lost": _of(**_TAKEOVER, lagging=True, commit=1, steal=1, lost=1),
    "lagging-reset": _of(**_TAKEOVER, lagging=True, commit=1, steal=1, reset=1),
    "static": _of(**_TWO, **_STATIC, crash=1, expire=1),
    "static-lost": _of(**_TWO, partitions=1, static=(0,), crash=1, expire=1, lost=1),
    "static-leave": _of(**_TWO, **_STATIC, crash=1, leave=1, resubscribe=1),
    "static-three": _of(members=3, joined=(0, 1, 2), partitions=1, static=(0,), crash=2),
    "static-sticky": _of(**_TWO, **_STATIC, sticky=True, crash=2),
    "static-shared": _of(**_TWO, **_STATIC, clients=(0, 0), expire=1, leave=1, lost=1),
    "static-old": _of(joined=(0, 1), **_OLD, crash=1),
    "jvm-gains": _beside_jvm(**_TAKEOVER, jvm=(0,), commit=1, jvm_commit=1, expire=1, lost=1),
    "jvm-loses": _beside_jvm(**_TAKEOVER, jvm=(1,), commit=2, jvm_commit=1, expire=1, lost=1),
    "jvm-reassert": _beside_jvm(**_TAKEOVER, jvm=(1,), policy="reassert", commit=2, jvm_commit=2, expire=1),
    "jvm-and-two": _beside_jvm(
        members=3, partitions=2, jvm=(1,), joined=(1, 2), late=(0,), commit=1, jvm_commit=1
    ),
    "jvm-strangers": _beside_jvm(**_TAKEOVER, jvm=(0,), commit=2, jvm_commit=2, steal=1, write=1, expire=1),
    "jvm-reset": _beside_jvm(**_TAKEOVER, jvm=(1,), commit=2, jvm_commit=1, reset=1, lost=1),
}

BROKEN: dict[str, Configuration] = {
    "marker-by-equality": _broken(
        "marker by equality", **_TWO, policy="reassert", commit=3, reset=1, write=1
    ),
    "adopt-owner-first": _broken("adopt offset first", late=(0,), commit=1, steal=1, lost=1),
    "retry-unregistered": _broken("lost on refusal", **_TAKEOVER, expire=1, steal=1),
    "deaf": _broken("deaf", **_TAKEOVER, abandon=1, commit=1),
    "no-bump": _broken("bump", **_TAKEOVER, commit=1, steal=1),
    "no-owner-check": _broken("owner check", **_TWO, commit=1, steal=1),
    "owner-first": _broken("offset first", **_TAKEOVER, steal=1, write=1),
    "no-create-offset": _broken("create offset", **_TAKEOVER, commit=1, steal=1),
    "session-only": _broken("text", **_TAKEOVER, clients=(0, 0), commit=1),
    "names-only": _broken("cversion", **_TWO, resubscribe=1),
    "sticky-no-plan": _broken("plan znode", **_TWO, partitions=2, sticky=True, expire=2),
    "plan-by-strangers": _broken("plan by members", **_TWO, partitions=2, sticky=True, expire=2),
    "no-ids-check": _broken("ids check", **_TAKEOVER, expire=1, lost=1, commit=1),
    "release-by-path": _broken("release check", **_TAKEOVER, steal=1),
    "obey-without-owner": _broken("obey owner", **_TAKEOVER, commit=1, steal=1, reset=1),
    "freeze-unchecked-claim": _broken("freeze claim", **_TAKEOVER, freeze=1, expire=1),
    "freeze-unchecked-release": _broken("freeze release", **_TAKEOVER, freeze=1),
    "freeze-marker-first": _broken("freeze order", **_TAKEOVER, freeze=1),
    "freeze-uncounted": _broken("freeze bump", **_TAKEOVER, freeze=1),
    "freeze-ended-by-version": _broken("freeze end", **_TAKEOVER, freeze=2, unfreeze=1, early=2),
    "freeze-in-transit": _broken("freeze transit", **_TAKEOVER, freeze=1),
    "freeze-unnoticed": _broken("freeze wake", **_TAKEOVER, freeze=1),
    "handover-released": _broken("handover as read", **_TAKEOVER, handover=1, write=1, freeze=1),
    "session-from-client": _broken("session read", expire=1, leave=1),
    "away-not-counted": _broken("count away", **_TWO, **_STATIC, crash=1),
    "away-ends-in-silence": _broken("touch ids", **_TWO, **_STATIC, crash=1),
    "registration-first": _broken("entry first", **_TWO, **_STATIC, crash=1, expire=1),
    "entry-deleted": _broken("empty entry", members=3, joined=(0, 1, 2), partitions=1, static=(2,), crash=2),
}
"""Each rule is left out once."""

OUTSIDE: dict[str, Configuration] = {
    "offset-deleted": _broken(**_TAKEOVER, commit=1, wipe=1, steal=1),
}
"""Outside the guarantees (recipes 6): foreign clients that delete offsets under a living group."""

CONFIGURATIONS: dict[str, Configuration] = {**AS_WRITTEN, **BROKEN, **OUTSIDE}
