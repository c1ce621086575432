"""Users with SCRAM credentials in `/config/users/<user>`: listed, added, deleted; as `kafka-configs` does it.

A credential lies beside the user's quotas, which stay. The change and its notification are those of any
configuration (`zkgroup.admin.configs`).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from zkgroup.admin.change import AdminChange, as_they_are, undo_record
from zkgroup.admin.cluster.controller import read_controller_info
from zkgroup.admin.configs import ConfigPlan, alter_config, plan_configs
from zkgroup.admin.undo_records import UndoRecord
from zkgroup.errors import ConfigError, NotFoundError
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.snapshot import decode_or_error
from zkgroup.security.scram import HASHES, MIN_ITERATIONS, SALT_BYTES, ScramCredential
from zkgroup.znodes.config import DEFAULT_NAME, ConfigEntity, EntityConfig, entities_path
from zkgroup.znodes.notifications import NotifyFormat

UserChange = AdminChange[ConfigPlan, None, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCredential:
    """One row of `user list`: a user who can log in by one mechanism."""

    user: str
    """The name, decoded."""
    mechanism: str
    """`SCRAM-SHA-256` or `SCRAM-SHA-512`."""
    iterations: int
    """The work of one attempt at the password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialChange:
    """The change of one credential of a user; nothing of the credential but its iterations."""

    mechanism: str
    change: Literal["added", "replaced", "removed"]
    iterations: int | None
    """Those that it has now; None where it is removed, or cannot be read."""


def credentials_of(path: str, config: EntityConfig) -> dict[str, ScramCredential]:
    """The credentials of a user by mechanism, those of other mechanisms left out. Raises ConfigError."""
    return {
        mechanism: ScramCredential.decode(path, mechanism, config.overrides[mechanism])
        for mechanism in HASHES
        if mechanism in config.overrides
    }


def list_users(ensemble: Ensemble) -> tuple[AsOf, tuple[UserCredential, ...], tuple[str, ...]]:
    """Every user with a SCRAM credential, by name and mechanism; and what cannot be read."""
    parent = entities_path("users")
    entities = [ConfigEntity("users", name) for name in ensemble.names_below(parent) if name != DEFAULT_NAME]
    znodes = ensemble.zk.read_many([entity.config_path for entity in entities])
    rows, unreadable = [], []
    for entity in entities:
        path, znode = entity.config_path, znodes[entity.config_path]
        if znode is None:
            continue
        entry = decode_or_error(znode, EntityConfig.decode)
        if entry.value is None:
            unreadable.append(str(entry.error))
            continue
        try:
            found = credentials_of(path, entry.value)
        except ConfigError as error:
            unreadable.append(str(error))
            continue
        user = entity.plain_name or ""
        rows += [
            UserCredential(user=user, mechanism=mechanism, iterations=one.iterations)
            for mechanism, one in found.items()
        ]
    return ensemble.as_of(), tuple(sorted(rows, key=lambda row: (row.user, row.mechanism))), tuple(unreadable)


def plan_user(
    ensemble: Ensemble, user: str, mechanism: str, password: str, iterations: int = MIN_ITERATIONS
) -> ConfigPlan:
    """Plans a credential for a user, in place of the one of this mechanism if there is one.

    Raises ConfigError for a name, a mechanism, a password or iterations that cannot be.
    """
    check_mechanism(mechanism)
    salt = secrets.token_bytes(SALT_BYTES)
    credential = ScramCredential.of_password(mechanism, password, iterations, salt)
    return plan_credentials(ensemble, user, {mechanism: credential.encode()})


def plan_user_deletion(ensemble: Ensemble, user: str, mechanism: str | None = None) -> ConfigPlan:
    """Plans the removal of a user's credentials, all or that of one mechanism; quotas stay.

    Raises NotFoundError for a user without such a credential, ConfigError for an unknown mechanism.
    """
    if mechanism is not None:
        check_mechanism(mechanism)
    entity = _entity(user)
    overrides = overrides_of(ensemble, entity)
    wanted = HASHES if mechanism is None else [mechanism]
    found = [one for one in wanted if one in overrides]
    if not found:
        raise NotFoundError(
            f"{entity.config_path}: user {user!r} has no credential of {mechanism or 'SCRAM'}; "
            "`zkgroup user list` shows those there are"
        )
    return plan_credentials(ensemble, user, dict.fromkeys(found))


def plan_credentials(ensemble: Ensemble, user: str, texts: Mapping[str, str | None]) -> ConfigPlan:
    """Plans the credentials of a user by mechanism, as the znode has them; None removes one.

    Raises ConfigError for a name that cannot be, RefusedError for a cluster that has moved to KRaft.
    """
    set_to = {mechanism: text for mechanism, text in texts.items() if text is not None}
    removed = [mechanism for mechanism, text in texts.items() if text is None]
    ensemble.zk.sync("/")
    info = read_controller_info(ensemble)
    # Where no broker has ever run, the first one may need this user to reach the others.
    known: NotifyFormat | None = None if info.brokers else "v2"
    (plan,) = plan_configs(ensemble, {_entity(user): (set_to, removed)}, info=info, format=known)
    return plan


def overrides_of(ensemble: Ensemble, entity: ConfigEntity) -> Mapping[str, str]:
    """What is set for a user, credentials and quotas. Raises CorruptZnodeError."""
    ensemble.zk.sync("/")
    znode = ensemble.zk.find(entity.config_path)
    return EntityConfig.decode(znode.path, znode.data).overrides if znode else {}


def changes_of(plan: ConfigPlan) -> tuple[CredentialChange, ...]:
    """The credentials that a plan changes, without what they hold."""
    return tuple(
        CredentialChange(
            mechanism=mechanism,
            change="added" if before is None else "removed" if after is None else "replaced",
            iterations=_iterations(plan, mechanism, after),
        )
        for mechanism, before, after in plan.changes
    )


def user_change(ensemble: Ensemble, plan: ConfigPlan, verb: str) -> UserChange:
    """Writes the credentials of a plan, and notifies the brokers.

    `verb` is that of the command. The undo record keeps the former credentials, which nothing prints.
    """
    user = plan.entity.plain_name
    return AdminChange(
        ensemble=ensemble,
        subject=f"user {verb} {user}",
        question=f"Change the credentials of {user}?",
        plan=plan,
        notes=plan.notes,
        is_effective=bool(plan.changes),
        undo=undo_record(
            user=user,
            znodes=as_they_are(plan.znode),
            left=() if plan.is_deleted else ((plan.entity.config_path, plan.after.encode()),),
        ),
        write=lambda by: alter_config(ensemble, plan),
    )


def undo_user_change(ensemble: Ensemble, record: UndoRecord) -> UserChange:
    """Gives a user the credentials of a record again; a znode that the change made is deleted."""
    assert record.user is not None
    entity = _entity(record.user)
    before = {path: EntityConfig.decode(path, data).overrides for path, data in record.znodes}
    was = before.get(entity.config_path, {})
    now = overrides_of(ensemble, entity)
    texts = {one: was.get(one) for one in HASHES if one in was or one in now}
    plan = plan_credentials(ensemble, record.user, texts)
    return user_change(ensemble, plan if record.znodes else plan.deleting(), "undo")


def check_mechanism(mechanism: str) -> None:
    """Raises ConfigError for one of which Kafka stores no credentials."""
    if mechanism not in HASHES:
        raise ConfigError(f"mechanism {mechanism!r}: expected {' or '.join(HASHES)}")


def _entity(user: str) -> ConfigEntity:
    if not user:
        raise ConfigError("user: expected a name, found none")
    return ConfigEntity.user(user)


def _iterations(plan: ConfigPlan, mechanism: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return ScramCredential.decode(plan.entity.config_path, mechanism, text).iterations
    except ConfigError:
        return None
