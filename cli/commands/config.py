"""`zkgroup config`: configurations of topics, brokers, clients, users, addresses; the quotas of a client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_address
from typing import Any, NamedTuple

import click

from zkgroup.admin import ConfigEntity, EntityKind, NotifyFormat
from zkgroup.admin.change import ChangeResult
from zkgroup.admin.configs import (
    ConfigDescription,
    ConfigPlan,
    alter_config_change,
    describe_configs,
    entity_named,
    plan_config,
)
from zkgroup.broker.quotas.levels import CONNECTION_RATE, AddressQuotas, ClientQuotas, QuotaType
from zkgroup.errors import ConfigError
from zkgroup.groups.as_of import AsOf

from ..app import check_read, output
from ..app import group as make_group
from ..cluster import SETTING_CHANGE, setting_changes
from ..confirm import print_result, run_change
from ..context import connected
from ..param_types import Parsed
from ..params import Consent, confirm_options, set_option
from ..render import Output, echo_err
from ..schema import STRING, Document, JsonKey, KeyColumn, NamedKeys, Shape, given, nullable, rows_of


def notify_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--notify-format`, for clusters whose brokers are not all registered now."""
    return click.option(
        "--notify-format",
        type=click.Choice(["bare", "v1", "v2"]),
        help="Format of the notification: bare for Kafka 0.8, v1 for 0.9 and 0.10.0, v2 for later ones; a "
        "wrong one can stop brokers from applying any change.  [default: by the registered brokers]",
    )(function)


def _settings(text: str) -> tuple[tuple[str, str], ...]:
    """`a=1,b=[x,y]`: Kafka's way to write several settings; brackets hold a value with commas."""
    pairs = []
    for part in split_settings(text):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{text!r}: expected NAME=VALUE, for example retention.ms=1000")
        bracketed = value.startswith("[") and value.endswith("]")
        pairs.append((name.strip(), value[1:-1] if bracketed else value))
    return tuple(pairs)


def split_settings(text: str) -> Iterator[str]:
    """The parts between commas that stand outside of brackets."""
    depth, begin = 0, 0
    for position, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            yield text[begin:position]
            begin = position + 1
    yield text[begin:]


config = make_group(
    "config",
    help="""Show and change configurations.

    \b
    Example:
      zkgroup config describe --entity-type topics""",
)

_KINDS = ("topics", "brokers", "clients", "users", "ips")


def _entity_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Kafka's options for the owner of a configuration, and `--topic` and `--broker` for short."""
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


def entity_name(row: ConfigDescription | ConfigPlan) -> str:
    """The owner of a configuration as below its kind: `orders`, `alice/clients/<default>`."""
    return row.entity.entity_path.partition("/")[2]


class SettingValue(NamedTuple):
    """A setting that differs from the default."""

    setting: str
    value: str


_SETTING = Shape(SettingValue, columns=("setting", KeyColumn("value", shorten="end")))
CONFIG = Shape(
    ConfigDescription,
    JsonKey("entity_type", STRING, lambda row: row.entity.kind),
    JsonKey("entity", STRING, entity_name),
    "configs",
)
CONFIGS = Document("configs", NamedKeys(configs=Sequence[ConfigDescription]), rows="configs")
Alteration = ChangeResult[ConfigPlan, None, None]
CONFIG_ALTERATION = Document(
    "config_alteration",
    Shape(
        Alteration,
        given("entity_type", STRING, "plan.entity.kind"),
        JsonKey("entity", STRING, lambda result: entity_name(result.plan)),
        *("executed", "undo=undo_id", "notification=plan.format"),
        rows_of("configs", SETTING_CHANGE, lambda result: setting_changes(result.plan)),
    ),
    rows="configs",
)


@config.command()
@_entity_options
def describe(**owner: Any) -> None:
    """Show settings that differ from the default. Passwords are hidden.

    Of one entity, or of all of a kind.

    \b
    Example:
      zkgroup config describe --topic orders
    """
    kind, entity = _entity_of(**owner)
    out = output()
    with connected() as ensemble:
        as_of, rows, unreadable = describe_configs(ensemble, [entity] if entity else [], kind)
    if not CONFIGS.print(out, as_of, configs=rows):
        for number, row in enumerate(rows):
            if number:
                out.line()
            title = f"{row.entity.kind} {entity_name(row)}"
            if not row.configs:
                out.line(f"{out.paint(title, 'bold')}  nothing is set")
                continue
            out.line(out.paint(title, "bold"))
            _SETTING.table(out, [SettingValue(*one) for one in sorted(row.configs.items())])
        if not rows and not unreadable:
            echo_err("no configuration of that kind differs from its default")
    check_read("described", unreadable, rows=rows or entity is None)


class QuotaInEffect(NamedTuple):
    """The quota of one kind that a client gets."""

    quota: str
    """The setting, as `producer_byte_rate`."""
    value: float | None
    """None where there is none."""
    entity: ConfigEntity | None
    """The owner of the configuration that gives the value."""

    @property
    def level(self) -> str | None:
        """The words for the kind of owner, as `user and default client`."""
        entity = self.entity
        if entity is None:
            return None
        word = {"users": "user", "clients": "client", "ips": "address"}[entity.kind]
        own = f"default {word}" if entity.plain_name is None else word
        if entity.client is None:
            return own
        return f"{own} and {'default ' if entity.plain_client is None else ''}client"


_QUOTA = Shape(
    QuotaInEffect,
    "quota",
    JsonKey("value", nullable({"type": "number"}), lambda row: _plain_number(row.value)),
    JsonKey("level", nullable(STRING), lambda row: row.level),
    JsonKey("znode", nullable(STRING), lambda row: row.entity and row.entity.config_path),
    columns=("quota", "value", "level", KeyColumn("znode", shorten="end")),
)
CLIENT_QUOTAS = Document(
    "client_quotas",
    NamedKeys(user=str | None, client=str | None, ip=str | None, quotas=Sequence[QuotaInEffect]),
    rows="quotas",
)
NO_USER = "ANONYMOUS"
"""The user of those who have not logged in."""


def _plain_number(value: float | None) -> float | None:
    return int(value) if value is not None and float(value).is_integer() else value


@config.command("quota")
@click.option("--user", metavar="NAME", help=f"The user who has logged in.  [default: nobody: {NO_USER}]")
@click.option("--client", metavar="ID", help="The client id.  [default: a client without one]")
@click.option("--ip", metavar="ADDRESS", help="Instead: the address that connections come from.")
def show_quotas(user: str | None, client: str | None, ip: str | None) -> None:
    """Show which quotas a client gets, and why.

    Of the configurations that fit, the most specific one gives the value: of user and client id before that
    of the user, that before the client id's, a name before a default. A default counts for each by itself.

    \b
    Example:
      zkgroup config quota --user alice --client app
    """
    if ip is not None and (user is not None or client is not None):
        raise click.UsageError("--ip stands alone: addresses have no users and no clients")
    out = output()
    if ip is None:
        user = NO_USER if user is None else user
        as_of, rows, unreadable = _quotas_of_client(user, client or "")
    else:
        as_of, rows, unreadable = _quota_of_address(ip)
    if not CLIENT_QUOTAS.print(out, as_of, user=user, client=client, ip=ip, quotas=rows):
        _QUOTA.table(out, rows)
    check_read("read", unreadable, rows=rows)


_Found = tuple[AsOf, list[QuotaInEffect], list[str]]


def _quotas_of_client(user: str, client: str) -> _Found:
    owners = [ConfigEntity.user(user), ConfigEntity.user(None)]
    if client:
        owners += [ConfigEntity.user_client(of, one) for of in (user, None) for one in (client, None)]
        owners += [ConfigEntity.of_client(client), ConfigEntity.of_client(None)]
    with connected() as ensemble:
        as_of, configs, unreadable = describe_configs(ensemble, owners)
    quotas = ClientQuotas()
    problems = [*unreadable, *_problems(quotas.configured, configs)]
    found = [(kind.value, quotas.resolve(kind, user, client)) for kind in QuotaType]
    rows = [QuotaInEffect(kind, *(quota[:2] if quota else (None, None))) for kind, quota in found]
    return as_of, rows, problems


def _quota_of_address(address: str) -> _Found:
    try:
        ip_address(address)
    except ValueError as error:
        raise click.UsageError(f"--ip: expected an address such as 10.0.0.1, found {address!r}") from error
    with connected() as ensemble:
        as_of, configs, unreadable = describe_configs(ensemble, [], "ips")
    quotas = AddressQuotas()
    problems = [*unreadable, *_problems(quotas.configured, configs)]
    return as_of, [QuotaInEffect(CONNECTION_RATE, *(quotas.resolve(address) or (None, None)))], problems


def _problems(configured: Callable[..., None], configs: Sequence[ConfigDescription]) -> Iterator[str]:
    for one in configs:
        try:
            configured(one.entity, one.configs)
        except ConfigError as error:
            yield str(error)


@config.command()
@_entity_options
@click.option(
    "--add-config",
    "added",
    type=Parsed("name=value[,...]", _settings),
    multiple=True,
    metavar="NAME=VALUE[,...]",
    hidden=True,
    help="Kafka's form of --set: several at once, a value with commas in brackets: a=[x,y].",
)
@set_option("exact", "Set one, the value as it stands, commas and brackets included")
@click.option(
    "--delete-config",
    "removed",
    multiple=True,
    metavar="NAME[,...]",
    help="Remove settings; may be repeated.",
)
@click.option(
    "--allow-unknown",
    is_flag=True,
    help="Also set broker settings that Kafka does not have, as those of a plug-in.",
)
@click.option("--delete-empty", is_flag=True, hidden=True, help="For undo: delete an empty configuration.")
@notify_option
@confirm_options
def alter(
    added: Sequence[tuple[tuple[str, str], ...]],
    exact: Sequence[tuple[str, str]],
    removed: Sequence[str],
    notify_format: NotifyFormat | None,
    allow_unknown: bool,
    delete_empty: bool,
    consent: Consent,
    **owner: Any,
) -> None:
    """Set and remove settings of one entity, and notify the brokers.

    Settings that are not named stay. Brokers apply a change without an answer, so there is no --wait: nothing
    shows when they have.

    \b
    Example:
      zkgroup config alter --topic orders --set retention.ms=86400000 --execute
    """
    _, entity = _entity_of(**owner)
    if entity is None:
        raise click.UsageError("expected one of --topic, --broker and --entity-type, found none")
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
        result = run_change(alter_config_change(ensemble, plan), _show_alteration, consent)
    print_result(CONFIG_ALTERATION, result, _show_alteration)


def _show_alteration(out: Output, result: Alteration) -> None:
    if result.plan.changes:
        SETTING_CHANGE.table(out, setting_changes(result.plan))
    else:
        out.line(f"{result.plan.entity} has these settings already: nothing to do")


def _entity_of(
    topic: str | None,
    broker: str | None,
    entity_type: EntityKind | None,
    entity_name: str | None,
    entity_default: bool,
    client: str | None,
    client_default: bool,
) -> tuple[EntityKind | None, ConfigEntity | None]:
    """The kind, and the entity unless all of the kind are meant."""
    given = [topic is not None, broker is not None, entity_type is not None]
    if sum(given) != 1:
        raise click.UsageError("give exactly one of --topic, --broker and --entity-type")
    kind = "topics" if topic is not None else "brokers" if broker is not None else entity_type
    assert kind is not None
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
            raise click.UsageError(
                "expected --entity-name USER or --entity-default with a client, found none"
            )
        return kind, None
    try:
        return None, entity_named(kind, name, client, client_default=client_default)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
