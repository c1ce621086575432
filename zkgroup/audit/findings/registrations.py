"""Findings about znodes that belong to sessions: those that none holds, and other clients' formats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zkgroup.audit.findings.group_rebalances import replayed_group
from zkgroup.audit.findings.rules import Bounds, Finding, KeyRows, Rule
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.keys import BY_MEMBERSHIP, Key, Keys
from zkgroup.audit.inputs.texts import count_text
from zkgroup.znodes.consumers import consumers_path
from zkgroup.znodes.paths import Kind, path_kind
from zkgroup.znodes.sessions import effect_without_session, lacks_session

_KINDS: Final[frozenset[Kind]] = frozenset(("member", "owner", "group", "broker", "controller", "other"))


def _of_session(event: Event) -> Key | None:
    if not event.applied or event.op not in ("create", "delete") or path_kind(event.path).kind not in _KINDS:
        return None
    return None if effect_without_session(event.path) is None else (event.path,)


BY_SESSION_ZNODE: Final = Keys("session_znode", _of_session, _KINDS)
"""Creates and deletes of each znode that belongs to a session; key: its path."""


@Rule(
    severity="error",
    question="Is there a persistent znode where sessions belong?",
    needs=("snapshot",),
    act="Every client takes what it says for alive, and it never ends by itself: it came with a backup that"
    " was restored, or another tool wrote it. `zkgroup doctor --fix` shows what it would remove, and"
    " with `--execute` removes exactly such znodes; live brokers and members then make their own.",
    keys=BY_SESSION_ZNODE,
    screen=lambda tables, bounds: tables.made_persistent(BY_SESSION_ZNODE),
)
def persistent_znode(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A znode that belongs to a session, and is persistent: its `ephemeralOwner` is 0.

    So are `/controller`, `/brokers/ids/<id>`, registrations, owners and views of a group, and what zkgroup's
    controllers register, in a tree that was restored from a backup. A row for each such znode, from its
    create to its delete. `/controller` of a migration to KRaft is persistent by right, and one that is
    deleted in the transaction of its create is none: `group nudge` and `broker forget` make such.
    """
    made: Event | None = None
    for event in rows:
        if made is not None and made.zxid != event.zxid:
            yield _persistent(made, event)
        is_one = event.op == "create" and event.ephemeral != "session"
        made = event if is_one and lacks_session(event.path, 0, event.data) else None
    if made is not None:
        yield _persistent(made, None)


def _persistent(made: Event, end: Event | None) -> Finding:
    place = path_kind(made.path)
    is_owner = place.kind == "owner"
    where = (
        place.name if made.path.startswith(f"{consumers_path()}/") else None,
        place.topic if is_owner else None,
        place.partition if is_owner else None,
    )
    detail = f"{made.path} is persistent, so it ends with no session: {effect_without_session(made.path)}"
    return Finding.between("persistent_znode", "error", made, end, detail, where)


@Rule(
    severity="info",
    question="Which groups are owned by another client's consumers?",
    needs=("snapshot",),
    act="Nothing: consumers of kazoo-go (wvanbergen/kafka) and kafka-node write owners so. How they share"
    " partitions is not known here, so `skew` and `never_owned` do not say what each should own. Members"
    " of Kafka and zkgroup cannot share a group with them.",
    keys=BY_MEMBERSHIP,
)
def foreign_owner_format(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Owners in another client's format, at the end of the history: a consumer id alone, without a thread.

    The session that claimed has the registration of that id, so nothing is wrong with them. A row a group.
    """
    (replay,) = rows.once(replayed_group, key, facts)
    foreign = replay.foreign_claims()
    if foreign:
        yield Finding(
            "foreign_owner_format",
            "info",
            key[0],
            from_zxid=min(claim.from_zxid for claim in foreign),
            from_ms=min(claim.from_ms for claim in foreign),
            detail=f"{count_text(len(foreign), 'owner is', 'owners are')} the id of a consumer alone, without"
            " a thread: the format of another client (kazoo-go, kafka-node)",
        )
