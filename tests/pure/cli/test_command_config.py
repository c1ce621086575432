"""`--command-config` and `--bootstrap-server`: how a command reaches brokers."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from zkgroup_cli.app import root, shared
from zkgroup_cli.context import broker_access

from zkgroup.errors import ConfigError
from zkgroup.security.client import PLAIN_ACCESS, BrokerAccess, ClientSecurity
from zkgroup.security.secret import Secret

FILE = """\
bootstrap.servers=a:1,[::1]:2
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="alice" password="canary";
client.id=me
"""
ALICE = ClientSecurity(
    protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="alice", password=Secret("canary")
)
ASKING = (
    "exporter", "produce", "consume", "group list", "group describe", "group check", "group verify",
    "group delete", "group freeze", "group prune", "group rename",
    "reassign execute", "reassign list", "reassign verify",
    "offsets show", "offsets reset", "topic describe", "broker describe", "coordinator describe", "status",
    "doctor",
)  # fmt: skip


def access_of(file: Path | None, bootstrap: str | None) -> BrokerAccess:
    with click.Context(root) as ctx:
        shared(ctx).command_config = None if file is None else str(file)
        shared(ctx).bootstrap_server = bootstrap
        return broker_access()


def test_addresses_come_from_the_option_or_the_file(tmp_path: Path) -> None:
    """Without both the registrations have them."""
    file = tmp_path / "client.properties"
    file.write_text(FILE)
    assert access_of(None, None) is PLAIN_ACCESS
    assert access_of(None, "b") == BrokerAccess(bootstrap=(("b", 9092),))
    assert access_of(file, None) == BrokerAccess(security=ALICE, bootstrap=(("a", 1), ("::1", 2)))
    assert access_of(file, "b:3") == BrokerAccess(security=ALICE, bootstrap=(("b", 3),))


@pytest.mark.parametrize(
    ("text", "bootstrap", "expected"),
    [
        (FILE, "PLAINTEXT://b:1", "--bootstrap-server: expected no scheme"),
        (FILE.replace("a:1", "a:x"), None, "client.properties: bootstrap.servers: 'a:x' is not HOST:PORT"),
        (
            FILE.replace("PLAIN\n", "GSSAPI\n"),
            None,
            "client.properties: sasl.mechanism: expected one of",
        ),
        (FILE.replace('";', '"'), None, "client.properties: sasl.jaas.config: expected ';' at the end"),
        (None, None, "client.properties: No such file"),
    ],
)
def test_what_cannot_be_is_named(
    text: str | None, bootstrap: str | None, expected: str, tmp_path: Path
) -> None:
    """With the file, and without a secret of it."""
    file = tmp_path / "client.properties"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=expected) as wrong:
        access_of(file, bootstrap)
    assert "canary" not in str(wrong.value)


def test_the_commands_that_ask_brokers_take_them() -> None:
    """And no others: an option that has no effect would be believed to have one."""

    def having(group: click.Group, ctx: click.Context, words: str) -> list[str]:
        found = []
        for name in group.list_commands(ctx):
            command = group.get_command(ctx, name)
            assert command is not None
            if isinstance(command, click.Group):
                found += having(command, ctx, f"{words}{name} ")
            elif {"command_config", "bootstrap_server"} <= {one.name for one in command.params}:
                found.append(f"{words}{name}")
        return found

    with click.Context(root) as ctx:
        assert sorted(having(root, ctx, "")) == sorted(ASKING)
