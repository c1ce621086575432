"""`zkgroup user add|delete|list|hash`: users with SCRAM credentials, and hashes for a file of PLAIN users."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from zkgroup.admin.change import ChangeResult
from zkgroup.admin.configs import ConfigPlan
from zkgroup.admin.users import (
    CredentialChange,
    UserCredential,
    changes_of,
    list_users,
    plan_user,
    plan_user_deletion,
    user_change,
)
from zkgroup.errors import ConfigError
from zkgroup.security.passwords import SALT_BYTES, hash_password
from zkgroup.security.scram import HASHES, MAX_ITERATIONS, MIN_ITERATIONS
from zkgroup.security.secret import Secret
from zkgroup.security.secret_files import check_secret_file

from ..app import check_read, output
from ..app import group as make_group
from ..confirm import print_result, run_change
from ..context import connected
from ..params import Consent, confirm_options
from ..render import Output, echo_err
from ..schema import STRING, Document, JsonKey, KeyColumn, NamedKeys, Shape, rows_of

user = make_group(
    "user",
    help="""Add, delete and list users who log in by SCRAM; hash passwords.

    \b
    Example:
      zkgroup user list""",
)

USER = Shape(
    UserCredential,
    columns=(KeyColumn("user", shorten="end"), "mechanism", "iterations"),
)
USERS = Document("users", NamedKeys(users=Sequence[UserCredential]), rows="users")
_CHANGE = Shape(CredentialChange, columns=("mechanism", "change", "iterations"))
Alteration = ChangeResult[ConfigPlan, None, None]
USER_ALTERATION = Document(
    "user_alteration",
    Shape(
        Alteration,
        JsonKey("user", STRING, lambda result: result.plan.entity.plain_name),
        *("executed", "undo=undo_id", "notification=plan.format"),
        rows_of("credentials", _CHANGE, lambda result: changes_of(result.plan)),
    ),
    rows="credentials",
)


def mechanism_option(text: str, *, required: bool = False) -> Callable[..., Any]:
    """`--mechanism`, one of those that Kafka stores credentials of."""
    return click.option("--mechanism", type=click.Choice(list(HASHES)), required=required, help=text)


@user.command("list")
def list_all() -> None:
    """Show the users with SCRAM credentials.

    \b
    Example:
      zkgroup user list
    """
    out = output()
    with connected() as ensemble:
        as_of, rows, unreadable = list_users(ensemble)
    if not USERS.print(out, as_of, users=rows):
        USER.table(out, rows)
        if not rows and not unreadable:
            echo_err("no user has a SCRAM credential")
    check_read("listed", unreadable, rows=rows)


@user.command()
@click.argument("name", metavar="NAME")
@mechanism_option("The SCRAM mechanism that the user logs in by.", required=True)
@click.option(
    "--iterations",
    type=click.IntRange(MIN_ITERATIONS, MAX_ITERATIONS),
    default=MIN_ITERATIONS,
    show_default=True,
    metavar="N",
    help="The work of one attempt at the password.",
)
@click.option(
    "--password-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File with the password in its first line.  [default: a line of stdin]",
)
@confirm_options
def add(name: str, mechanism: str, iterations: int, password_file: Path | None, consent: Consent) -> None:
    """Give user NAME a password, or another one.

    The password is read as a line of stdin, or asked for on a terminal; only a credential made from it is
    stored, as `kafka-configs` does. It needs no broker, so it also makes the first user of a cluster's
    brokers. Brokers take it over at once. The user's quotas stay, and so does a password of the other
    mechanism.

    \b
    Example:
      zkgroup user add alice --mechanism SCRAM-SHA-512 --password-file alice.txt --execute
    """
    if password_file is not None:
        check_secret_file(password_file)
    password = _password() if password_file is None else Secret.from_file(password_file).reveal()
    with connected() as ensemble:
        plan = plan_user(ensemble, name, mechanism, password, iterations)
        result = run_change(user_change(ensemble, plan, "add"), show_alteration, consent)
    print_result(USER_ALTERATION, result, show_alteration)


@user.command()
@click.argument("name", metavar="NAME")
@mechanism_option("Only this credential.  [default: all]")
@confirm_options
def delete(name: str, mechanism: str | None, consent: Consent) -> None:
    """Remove the SCRAM credentials of user NAME.

    Quotas stay. Brokers refuse the next login; connections that are open stay until they have to log in again
    (connections.max.reauth.ms).

    \b
    Example:
      zkgroup user delete alice --execute
    """
    with connected() as ensemble:
        plan = plan_user_deletion(ensemble, name, mechanism)
        result = run_change(user_change(ensemble, plan, "delete"), show_alteration, consent)
    print_result(USER_ALTERATION, result, show_alteration)


@user.command("hash")
def hash_line() -> None:
    """Hash a password, for a file of PLAIN users.

    Reads the password as a line of stdin, or asks for it on a terminal. Prints the hash alone: the file in
    sasl.plain.users.file has lines `name:hash`.

    \b
    Example:
      zkgroup user hash
    """
    click.echo(hash_password(_password(), secrets.token_bytes(SALT_BYTES)))


def show_alteration(out: Output, result: Alteration) -> None:
    """Prints the credentials that change, as a table."""
    if changes := changes_of(result.plan):
        _CHANGE.table(out, changes)
    else:
        out.line("the credentials are as they would be: nothing to do")


def _password() -> str:
    """A line of stdin; on a terminal asked for twice, and not shown."""
    if sys.stdin.isatty():
        asked: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return asked
    try:
        line = sys.stdin.buffer.readline().decode()
    except UnicodeDecodeError:
        raise ConfigError("password: expected UTF-8 in a line of stdin, found other bytes") from None
    if not (password := line.rstrip("\r\n")):
        raise ConfigError("password: expected a line on stdin, found none; --password-file names a file")
    return password
