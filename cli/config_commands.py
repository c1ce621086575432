"""`zkgroup config`: describe and alter configurations of topics, brokers, clients, users, addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from zkgroup.admin.configs import alter_config, describe_configs, plan_config
from zkgroup.admin.words import ConfigEntity, EntityKind, NotifyFormat
from zkgroup.errors import PartlyDoneError, ZkGroupError

from . import cluster_documents, topic_tables
from .config_changes import Settings, config_way_back, notify_option
from .connection import connected
from .consent import as_they_are, is_wanted, recorded
from .frame import group as make_group
from .frame import output
from .options import consent_options
from .output import say
from .parameters import Assignment
from .tables import Column
from .units import is_whole

config = make_group("config", help="Look at configurations and change them.")

_KINDS = ("topics", "brokers", "clients", "users", "ips")
_KEYS = ("entity_type", "entity", "configs")


def _entity_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Kafka's options for whom a configuration is for, and `--topic` and `--broker` for short."""
    for option in (
        click.option("--client-default", is_flag=True, help="With users: the user's default for clients."),
        click.option("--client", metavar="ID", help="With users: the quota of this client id of the user."),
        click.option("--entity-default", is_flag=True, help="The default of the kind."),
        click.option("--entity-name", metavar="NAME", help="Topic, broker id, client id, user or address."),
        click.option("--entity-type", type=click.Choice(_KINDS), help="The kind of what is configured."),
        click.option("--broker", metavar="ID", help="As --entity-type brokers --entity-name ID."),
        click.option("--topic", metavar="TOPIC", help="As --entity-type topics --entity-name TOPIC."),
    ):
        function = option(function)
    return function


@config.command()
@_entity_options
def describe(**whom: Any) -> None:
    """Settings that differ from the default: of one entity, or of all of a kind. Passwords are hidden."""
    kind, entity = _whom(**whom)
    out = output()
    with connected() as ensemble:
        as_of, rows, unreadable = describe_configs(ensemble, [entity] if entity else [], kind)
    if not out.document(cluster_documents.configs(as_of, rows), "configs", _KEYS):
        for number, row in enumerate(rows):
            if number:
                out.line()
            title = f"{row.entity.kind} {cluster_documents.entity_name(row)}"
            if not row.configs:
                out.line(f"{out.paint(title, 'bold')}  nothing is set")
                continue
            out.line(out.paint(title, "bold"))
            columns = [Column(header="SETTING"), Column(header="VALUE", shorten="end")]
            out.table(columns, sorted([name, value] for name, value in row.configs.items()))
        if not rows and not unreadable:
            say("nothing of that kind has a configuration of its own")
    if unreadable:
        raise (
            PartlyDoneError(f"not described: {'; '.join(unreadable)}")
            if rows or entity is None
            else ZkGroupError("; ".join(unreadable))
        )


@config.command()
@_entity_options
@click.option(
    "--add-config",
    "added",
    type=Settings(),
    multiple=True,
    metavar="NAME=VALUE[,...]",
    help="Set these; a value with commas in brackets: a=[x,y]. May be repeated.",
)
@click.option(
    "--set",
    "exact",
    type=Assignment("NAME", "VALUE"),
    multiple=True,
    metavar="NAME=VALUE",
    help="Set one, the value as it stands, commas and brackets included. May be repeated.",
)
@click.option(
    "--delete-config",
    "removed",
    multiple=True,
    metavar="NAME[,...]",
    help="Remove these; may be repeated.",
)
@click.option(
    "--allow-unknown",
    is_flag=True,
    help="Of a broker, set also what Kafka's brokers do not know: a plug-in may.",
)
@click.option("--delete-empty", is_flag=True, hidden=True, help="For undo: an empty configuration goes.")
@notify_option
@consent_options
def alter(
    added: Sequence[tuple[tuple[str, str], ...]],
    exact: Sequence[tuple[str, str]],
    removed: Sequence[str],
    notify_format: NotifyFormat | None,
    allow_unknown: bool,
    delete_empty: bool,
    execute: bool,
    yes: bool,
    **whom: Any,
) -> None:
    """Set and remove settings of one entity, and tell the brokers. Settings that are not named stay.

    Brokers apply what they are told without a word, so there is no --wait: nothing shows when they have.
    """
    out = output()
    _, entity = _whom(**whom)
    if entity is None:
        raise click.UsageError("say whose: --topic, --broker, or --entity-type with --entity-name")
    set_to = dict([*(pair for pairs in added for pair in pairs), *exact])
    names = [name.strip() for text in removed for name in text.split(",")]
    with connected() as ensemble:
        plan = plan_config(
            ensemble,
            entity,
            set_to,
            names,
            format=notify_format,
            allow_unknown=allow_unknown,
            delete_empty=delete_empty,
        )
        for note in plan.notes:
            say(f"note: {note}")
        act, back = None, config_way_back(plan)
        if plan.changes and is_wanted(
            execute, yes, f"Change {entity}?", lambda aside: topic_tables.setting_changes(aside, plan)
        ):
            with recorded(ensemble, znodes=as_they_are(plan.znode), **back) as act:
                alter_config(ensemble, plan)
    document = cluster_documents.config_alteration(
        plan, executed=act is not None, undo=act.undo_id if act else None
    )
    if not out.document(document, "configs", ("name", "before", "after")):
        if plan.changes:
            topic_tables.setting_changes(out, plan)
        else:
            out.line(f"{entity} is so already: nothing to do")


def _whom(
    topic: str | None,
    broker: str | None,
    entity_type: EntityKind | None,
    entity_name: str | None,
    entity_default: bool,
    client: str | None,
    client_default: bool,
) -> tuple[EntityKind | None, ConfigEntity | None]:
    """The kind where all of it are meant, else the one entity."""
    given = [topic is not None, broker is not None, entity_type is not None]
    if sum(given) != 1:
        raise click.UsageError("give exactly one of --topic, --broker and --entity-type")
    kind: EntityKind = (
        "topics" if topic is not None else "brokers" if broker is not None else _kind(entity_type)
    )
    name = topic if topic is not None else broker if broker is not None else entity_name
    if entity_type is None and (entity_name is not None or entity_default):
        raise click.UsageError("--entity-name and --entity-default are for --entity-type")
    if entity_name is not None and entity_default:
        raise click.UsageError("--entity-name and --entity-default contradict each other")
    wants_client = client is not None or client_default
    if wants_client and kind != "users":
        raise click.UsageError("--client and --client-default are for --entity-type users")
    if client is not None and client_default:
        raise click.UsageError("--client and --client-default contradict each other")
    if name is None and not entity_default:
        if wants_client:
            raise click.UsageError("say whose client: --entity-name USER or --entity-default")
        return kind, None
    if wants_client:
        return None, ConfigEntity.user_client(name, client)
    return None, _entity(kind, name)


def _kind(text: EntityKind | None) -> EntityKind:
    assert text is not None
    return text


def _entity(kind: EntityKind, name: str | None) -> ConfigEntity:
    if kind == "topics":
        if name is None:
            raise click.UsageError("topics have no default of their own: it is in the brokers' settings")
        return ConfigEntity.topic(name)
    if kind == "brokers":
        if name is not None and not is_whole(name):
            raise click.UsageError(f"broker {name!r}: expected an id such as 1")
        return ConfigEntity.broker(None if name is None else int(name))
    if kind == "clients":
        return ConfigEntity.of_client(name)
    return ConfigEntity.user(name) if kind == "users" else ConfigEntity.ip(name)
