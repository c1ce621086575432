"""Where commands connect: options, environment, profiles, credentials."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from zkgroup_cli import context
from zkgroup_cli.app import Shared

from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.errors import ConfigError

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration folder of the test's own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "zkgroup").mkdir()
    file = tmp_path / "zkgroup" / "config.toml"
    file.write_text('[profiles.default]\nzookeeper = "d:1"\n[profiles.prod]\nzookeeper = "p:1"\n')
    return file


def test_the_address_comes_from_option_then_environment_then_profile(config: Path) -> None:
    """The order of the contract."""
    env = {"ZKGROUP_ZOOKEEPER": "e:1"}

    assert context.target(Shared(zookeeper="o:1"), env).zookeeper == "o:1"
    assert context.target(Shared(profile="prod"), env).zookeeper == "e:1"
    assert context.target(Shared(profile="prod"), {}).zookeeper == "p:1"
    assert context.target(Shared(), {}).zookeeper == "d:1"


def test_profiles_that_cannot_be_used_say_why(config: Path) -> None:
    """Unknown names with the nearest, unknown keys, and text that is no TOML."""
    with pytest.raises(click.UsageError, match="did you mean 'prod'"):
        context.target(Shared(profile="prd"), {})
    config.write_text('[profiles.default]\nzokeeper = "d:1"\n')
    with pytest.raises(click.UsageError, match="zokeeper"):
        context.target(Shared(), {})
    config.write_text("=")
    with pytest.raises(click.UsageError, match="not TOML"):
        context.target(Shared(), {})
    for odd in ("profiles = 3", "[profiles]\ndefault = 3", '[profile.default]\nzookeeper = "d:1"'):
        config.write_text(odd)
        with pytest.raises(click.UsageError, match=r"expected .*table.*found (3|profile)$"):
            context.target(Shared(), {})
    config.unlink()
    with pytest.raises(click.UsageError, match="there is no"):
        context.target(Shared(profile="prod"), {})


@pytest.mark.parametrize(
    "broken", [b"=", b"\xff", b"profiles = 3", b'[profiles.default]\nzokeeper = "d:1"\n']
)
def test_a_broken_file_of_profiles_stops_only_what_needs_one(
    config: Path, capsys: pytest.CaptureFixture[str], broken: bytes
) -> None:
    """Past bug: it stopped commands with an address too. A warning says that it is not used."""
    config.write_bytes(broken)
    env = {"ZKGROUP_ZOOKEEPER": "e:1"}

    assert context.target(Shared(zookeeper="o:1"), {}).zookeeper == "o:1"
    assert context.target(Shared(), env).zookeeper == "e:1"
    warnings = capsys.readouterr().err.splitlines()
    assert len(warnings) == 2
    assert all(line.startswith(f"warning: {config}") for line in warnings)
    for options, environment in [(Shared(), {}), (Shared(profile="prod", zookeeper="o:1"), env)]:
        with pytest.raises(click.UsageError, match=re.escape(str(config))):
            context.target(options, environment)


def test_an_address_that_cannot_be_is_named_with_its_place(config: Path) -> None:
    """Option, environment or file; before the command connects, and in its preview."""
    config.write_text('[profiles.default]\nzookeeper = "http://d:1"\n')

    with pytest.raises(ConfigError, match=f"^{config}: ZooKeeper address .*expected no scheme"):
        context.target(Shared(), {})
    with pytest.raises(ConfigError, match=r"^ZKGROUP_ZOOKEEPER: ZooKeeper address .*expected one chroot"):
        context.target(Shared(), {"ZKGROUP_ZOOKEEPER": "e:1/c,f:1/c"})
    with pytest.raises(ConfigError, match=r"^ZooKeeper address 'zookeeper://o:1': expected no scheme"):
        context.target(Shared(zookeeper="zookeeper://o:1"), {})


def test_the_access_list_comes_from_option_then_profile(config: Path) -> None:
    """Open by default; other words of a profile are refused."""
    config.write_text('[profiles.default]\nacl = "creator"\n[profiles.odd]\nacl = "mine"\n')

    assert context.target(Shared(zookeeper="o:1"), {}).acl == "creator"
    assert context.target(Shared(zookeeper="o:1", zk_acl="open"), {}).acl == "open"
    with pytest.raises(click.UsageError, match="key 'acl': expected open or creator, found 'mine'"):
        context.target(Shared(zookeeper="o:1", profile="odd"), {})
    config.unlink()
    assert context.target(Shared(zookeeper="o:1"), {}).acl is None


@pytest.mark.parametrize("key", ["digest_file", "tls_ca", "tls_cert", "tls_key", "sasl_file"])
def test_a_missing_file_is_reported_with_the_option_or_profile_that_names_it(config: Path, key: str) -> None:
    """The error names the option, or the key of the profile."""
    option = f"--zk-{key.replace('_', '-')}"
    config.write_text(f'[profiles.default]\nzookeeper = "d:1"\n{key} = "nowhere"\n')

    with pytest.raises(click.UsageError, match=f"{key} of the profile: there is no file nowhere") as printed:
        context.target(Shared(), {})
    assert option not in printed.value.message
    with pytest.raises(click.UsageError, match=f"{option}: there is no file elsewhere"):
        context.target(Shared(zookeeper="o:1", **{f"zk_{key}": "elsewhere"}), {})


def test_a_file_of_profiles_that_cannot_be_read_is_named(config: Path) -> None:
    """A folder in its place, as one example; no bug of zkgroup."""
    config.unlink()
    config.mkdir()

    with pytest.raises(click.UsageError, match="cannot be read: Is a directory"):
        context.target(Shared(), {})


def test_an_invalid_file_of_profiles_is_reported_once(shell: Shell, groups: ServerGroups) -> None:
    """Also by a command that asks several times where it is."""
    groups.topic("orders", 1)
    groups.parents("billing", "orders")
    groups.offset("billing", "orders", 0, 1)
    folder = shell.home / "config" / "zkgroup"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("=")

    ran = shell.run("offsets", "set", "billing", "orders:0=5", "--execute")

    assert ran.code == 0
    assert ran.err.count("warning: ") == 1


def test_secrets_are_read_from_files_and_never_shown(tmp_path: Path, lone_shell: Shell) -> None:
    """A digest file's password is in the settings and in no representation of them."""
    file = tmp_path / "digest"
    file.write_text("alice:s3cret\n")

    settings = context.client_settings(context.target(Shared(zookeeper="z:1", zk_digest_file=str(file)), {}))
    ran = lone_shell.run(
        "group", "list", "-z", NOWHERE, "--zk-digest-file", str(file), "--connect-timeout", "300ms", "-vv"
    )

    assert settings.auth is not None
    assert "s3cret" not in repr(settings)
    assert "s3cret" not in ran.err + ran.out


def test_files_for_authentication_are_checked(tmp_path: Path) -> None:
    """A file that is not there, one that is wrong, and two ways at once."""
    with pytest.raises(click.UsageError, match="--zk-tls-ca"):
        context.target(Shared(zookeeper="z:1", zk_tls_ca=str(tmp_path / "no")), {})
    file = tmp_path / "file"
    file.write_text("no colon here")
    where = context.target(Shared(zookeeper="z:1", zk_digest_file=str(file)), {})
    with pytest.raises(ConfigError, match="user:password"):
        context.client_settings(where)
    both = context.target(Shared(zookeeper="z:1", zk_digest_file=str(file), zk_sasl_file=str(file)), {})
    with pytest.raises(click.UsageError, match="exclude each other"):
        context.client_settings(both)
    sasl = context.target(Shared(zookeeper="z:1", zk_sasl_file=str(file)), {})
    with pytest.raises(ConfigError, match="TOML"):
        context.client_settings(sasl)


def test_a_client_with_a_digest_works(shell: Shell, tmp_path: Path, groups: ServerGroups) -> None:
    """The whole way: option, file, session."""
    file = tmp_path / "digest"
    file.write_text("alice:s3cret\n")
    groups.parents("billing")

    ran = shell.run("group", "list", "--zk-digest-file", str(file))

    assert ran.code == 0
    assert "s3cret" not in ran.err
