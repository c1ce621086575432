"""Closes the znodes of a cluster for everyone but one user, and opens them again; reads which holds.

The twin of Kafka's zookeeper-security-migration (kafka/admin/ZkSecurityMigrator.scala@2.8.2). Whatever ends
it, a second run does the rest: each run reads what is left to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

from zkgroup.admin.change import AdminChange, ChangePlan, nothing, undo_record
from zkgroup.admin.coordinator_status import DoctorFinding
from zkgroup.admin.znodes import join
from zkgroup.errors import AccessDeniedError, ConfigError, PartlyDoneError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model.requests import AclChange, AclEntry, Code, ZnodeAcl, ZnodeStat
from zkgroup.model.text import counted, named
from zkgroup.model.values import PLAINTEXT
from zkgroup.znodes.access import CLOSED_ROOTS, is_open
from zkgroup.znodes.brokers import BrokerRegistration, broker_ids_path
from zkgroup.zookeeper.acls import acl_at
from zkgroup.zookeeper.settings import CREATOR_ACL, NO_CREDENTIALS, OPEN_ACL

Target = Literal["closed", "open"]

PATHS_AT_ONCE: Final = 1000
ROUNDS_MAX: Final = 5
"""Most passes over the tree: each closes what others have created open since the one before."""
NAMED_MAX: Final = 8
DOCTOR_MAX: Final = 3000
"""Most znodes at which `doctor` looks; `zookeeper secure` looks at all."""

OPEN: Final = tuple(entry.entry for entry in OPEN_ACL)
"""Kafka's open ACL, as servers return it."""

Progress = Callable[[int, int], object]
"""Is called with the number of znodes that are done, and of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtreeAccess:
    """A znode and everything below it; of `/` the znode alone."""

    path: str
    """The path of the znode."""
    znodes: int
    """Number of znodes that were looked at."""
    open: tuple[str, ...]
    """Paths that everyone may change, or read though they have secrets; parents first."""
    other: tuple[str, ...]
    """Paths with other ACLs that are not Kafka's open one; those that may not be read are among them."""
    hidden: tuple[str, ...] = ()
    """Paths whose ACL this user may not read; what is below them was not looked at."""

    def to_change(self, target: Target) -> tuple[str, ...]:
        """Paths that get another ACL. Hidden ones are tried: who cannot look may not call them closed."""
        return (*self.open, *self.hidden) if target == "closed" else self.other


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """Who may change the znodes of a cluster."""

    subtrees: tuple[SubtreeAccess, ...]
    """`/` and Kafka's roots that exist, and zkgroup's."""
    is_whole: bool = True
    """False where not every znode was looked at."""

    @property
    def open(self) -> tuple[str, ...]:
        """The open paths."""
        return tuple(path for one in self.subtrees for path in one.open)

    @property
    def other(self) -> tuple[str, ...]:
        """The paths that are not."""
        return tuple(path for one in self.subtrees for path in one.other)

    @property
    def holds(self) -> Literal["open", "closed", "partly"]:
        """`closed` where no path is open, `open` where all have the open ACL."""
        return "closed" if not self.open else "partly" if self.other else "open"


def read_access(
    ensemble: Ensemble, limit: int | None = None, progress: Callable[[int], object] = nothing
) -> ClusterAccess:
    """Reads the ACLs of at most `limit` znodes, those nearest to the root first; an ACL takes a packet."""
    found: dict[str, tuple[list[str], list[str], list[str]]] = {
        root: ([], [], []) for root in ("/", *CLOSED_ROOTS)
    }
    counts, looked = dict.fromkeys(found, 0), 0
    for path, acl in islice(acls_below(ensemble, list(found)), limit):
        looked += 1
        root = "/" + path.split("/")[1]
        counts[root] += 1
        if isinstance(acl, ZnodeAcl) and is_open(path, acl.acl):
            found[root][0].append(path)
        if not isinstance(acl, ZnodeAcl) or acl.acl != OPEN:
            found[root][1].append(path)
        if not isinstance(acl, ZnodeAcl):
            found[root][2].append(path)
        if looked % PATHS_AT_ONCE == 0:
            progress(looked)
    subtrees = tuple(
        SubtreeAccess(
            path=root, znodes=counts[root], open=tuple(own), other=tuple(other), hidden=tuple(hidden)
        )
        for root, (own, other, hidden) in found.items()
        if counts[root]
    )
    return ClusterAccess(subtrees=subtrees, is_whole=looked != limit)


def acls_below(ensemble: Ensemble, roots: Sequence[str]) -> Iterator[tuple[str, ZnodeAcl | Code]]:
    """The ACLs of these znodes and of all below them, level by level; of `/` alone, and of what exists.

    A Code in place of an ACL that may not be read.
    """
    level = list(roots)
    while level:
        parents = []
        for part in parts(level):
            for path, acl in ensemble.zk.acl_each(part).items():
                if acl is not None:
                    yield path, acl
                if isinstance(acl, ZnodeAcl) and acl.stat.children_count and path != "/":
                    parents.append(path)
        level = []
        for part in parts(parents):
            for parent, names in ensemble.zk.list_each(part).items():
                if isinstance(names, tuple):
                    level += [join(parent, name) for name in sorted(names)]


def closed_parent(ensemble: Ensemble, path: str) -> str | None:
    """The parent of a znode, where not everyone may change it; None where everyone may. It takes a packet."""
    parent = path.rpartition("/")[0] or "/"
    acl = ensemble.zk.acl_each([parent])[parent]
    return parent if isinstance(acl, ZnodeAcl) and not is_open(parent, acl.acl) else None


def parts(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """The paths in portions, each for one request."""
    return (paths[start : start + PATHS_AT_ONCE] for start in range(0, len(paths), PATHS_AT_ONCE))


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessPlan(ChangePlan):
    """The znodes that get another ACL. Nothing has been changed."""

    target: Target
    """What the cluster is to be."""
    access: ClusterAccess
    """What holds now."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths that get another ACL, parents first within a subtree."""
        return _to_change(self.access, self.target)


def _to_change(access: ClusterAccess, target: Target) -> tuple[str, ...]:
    return tuple(path for one in access.subtrees for path in one.to_change(target))


def plan_access(
    ensemble: Ensemble, target: Target, progress: Callable[[int], object] = nothing
) -> AccessPlan:
    """Reads all ACLs: which would have to change."""
    ensemble.zk.sync("/")
    access = read_access(ensemble, progress=progress)
    return AccessPlan(
        as_of=ensemble.as_of(), target=target, access=access, notes=tuple(_notes(access, target))
    )


def _notes(access: ClusterAccess, target: Target) -> Iterator[str]:
    registrations = [path for path in access.open if path.rpartition("/")[0] == broker_ids_path()]
    if target == "closed" and registrations:
        yield (
            f"{named(registrations, NAMED_MAX)}: created open, so these brokers run without "
            "zookeeper.set.acl; those without credentials for ZooKeeper can write nothing once it is closed, "
            "as Kafka 0.8.2.2. Restart them with both first"
        )


def change_access(ensemble: Ensemble, plan: AccessPlan, progress: Progress = nothing) -> int:
    """Sets the ACLs, and reads again until nothing is left; returns how many were set.

    Raises as `set_acls`.
    """
    acl = CREATOR_ACL if plan.target == "closed" else OPEN_ACL
    return set_acls(
        ensemble,
        plan.paths,
        lambda path: tuple(entry.entry for entry in acl_at(path, acl)),
        lambda: _to_change(read_access(ensemble), plan.target),
        "give every broker the same zookeeper.set.acl, every command the same --zk-acl",
        progress,
    )


def _invalid(acl: tuple[AclEntry, ...]) -> str:
    """Why servers refuse an ACL: some schemes only servers have that are set up for them."""
    schemes = sorted({entry.scheme for entry in acl} - {"auth", "world", "digest", "ip"})
    if not schemes:
        return NO_CREDENTIALS
    return f"expected schemes that the servers have, found {', '.join(schemes)}; or else, {NO_CREDENTIALS}"


def set_acls(
    ensemble: Ensemble,
    paths: Sequence[str],
    acl_of: Callable[[str], tuple[AclEntry, ...]],
    look_again: Callable[[], Sequence[str]],
    advice: str,
    progress: Progress = nothing,
) -> int:
    """Sets the ACLs of these paths, and of those that `look_again` then finds; returns how many were set.

    Raises ConfigError without credentials, AccessDeniedError where none may be changed, and PartlyDoneError
    that names what may not be changed, or, with the advice, what other processes create all the time.
    """
    done, refused = 0, set()
    for _ in range(ROUNDS_MAX):
        total = done + len(paths)
        for part in parts(paths):
            stats = ensemble.zk.set_acls(*(AclChange(path, acl_of(path)) for path in part))
            if Code.INVALID_ACL in stats:
                raise ConfigError(_invalid(acl_of(part[stats.index(Code.INVALID_ACL)])))
            refused |= {path for path, stat in zip(part, stats, strict=True) if isinstance(stat, Code)}
            done += sum(isinstance(stat, ZnodeStat) for stat in stats)
            progress(done, total)
        paths = [path for path in look_again() if path not in refused]
        if not paths:
            break
    if refused:
        names = named(sorted(refused), NAMED_MAX)
        count = counted(len(refused), "znode")
        kind = PartlyDoneError if done else AccessDeniedError
        raise kind(
            f"{counted(done, 'znode')} set; {count} may not be changed by this user: {names}; "
            "connect as a user who has the right to, and run it again"
        )
    if paths:
        raise PartlyDoneError(
            f"{counted(done, 'znode')} set, but a process still creates others: {named(paths, NAMED_MAX)}; "
            f"{advice}, and run it again"
        )
    return done


def access_change(
    ensemble: Ensemble, plan: AccessPlan, progress: Progress = nothing
) -> AdminChange[AccessPlan, int, None]:
    """Closes or opens the znodes of a cluster; what is written is how many ACLs were set."""
    word, back = ("secure", "open") if plan.target == "closed" else ("open", "secure")
    was_whole = plan.access.holds == ("open" if plan.target == "closed" else "closed")
    return AdminChange(
        ensemble=ensemble,
        subject=f"zookeeper {word}",
        question=f"{'Close' if plan.target == 'closed' else 'Open'} {counted(len(plan.paths), 'znode')}?",
        plan=plan,
        notes=plan.notes,
        is_effective=bool(plan.paths),
        no_undo=None if was_whole else f"some are {plan.target} already; the way back would change them",
        undo=undo_record(undo_command=("zookeeper", back)) if was_whole else None,
        undo_is_required=False,
        write=lambda by: change_access(ensemble, plan, progress),
    )


def diagnose_ports(
    registrations: Mapping[int, BrokerRegistration], access: ClusterAccess
) -> tuple[DoctorFinding, ...]:
    """Ports of brokers that take anybody, in a cluster that is meant to be closed: one with listeners of TLS
    or SASL, or with closed znodes. Whether a port of TLS demands a certificate is not registered.
    """
    endpoints = [one for broker in registrations.values() for one in broker.listeners]
    is_meant = any(one.protocol != PLAINTEXT for one in endpoints)
    ports = sorted(one.text for one in endpoints if one.protocol == PLAINTEXT)
    if not ports or not (is_meant or access.holds != "open"):
        return ()
    detail = f"open: whoever reaches {named(ports, NAMED_MAX)} may read, write and delete everything"
    return (DoctorFinding("warning" if is_meant else "info", "ports", detail),)


def diagnose_access(access: ClusterAccess) -> DoctorFinding:
    """What holds, as a finding: a warning where a cluster is closed in part."""
    looked = "" if access.is_whole else f" (of the {DOCTOR_MAX} nearest to the root)"
    if access.holds == "partly":
        paths = named(access.open, NAMED_MAX)
        return DoctorFinding(
            "warning",
            "access",
            f"closed in part{looked}: everyone may change, or read though it has secrets: {paths}",
            "zkgroup zookeeper secure",
        )
    text = {
        "open": f"open{looked}: whoever reaches ZooKeeper may change every znode",
        "closed": f"closed{looked}: only the users in the ACLs may change znodes",
    }
    return DoctorFinding("info", "access", text[access.holds])
