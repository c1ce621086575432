"""What holds for every command: options anywhere, formats, colour, errors, help, completion."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from zkgroup_cli.app import Group, root
from zkgroup_cli.schemas import EVENTS, SCHEMAS

from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup import Admin
from zkgroup.errors import ConfigError, StoreUnavailableError

NOWHERE = "127.0.0.1:1"


def _commands(
    group: click.Group, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from _commands(command, (*path, name))


ALL = list(_commands(root))


def test_every_command_and_every_option_has_help(lone_shell: Shell) -> None:
    """`--help` works without an ensemble, for the shortest form too."""
    for path, command in ALL:
        ran = lone_shell.run(*path, "-h")

        assert ran.code == 0, path
        assert command.help, path
        options = [option for option in command.params if isinstance(option, click.Option)]
        assert [option.name for option in options if not option.help] == [], path
        _, _, listed = ran.out.partition("\nOptions:\n")
        names = [line for line in listed.splitlines() if line.strip().isupper()]
        assert names == [], path  # arguments are in the usage
        assert "--zookeeper" in ran.out, path


def test_the_commands_are_those_of_the_contract() -> None:
    """Names are what scripts are written against."""
    names = {" ".join(path) for path, command in ALL if not isinstance(command, click.Group)}

    assert names == {
        "demo",
        "status",
        "exporter",
        "session",
        "doctor",
        "zookeeper start",
        "zookeeper create-chroot",
        "zookeeper secure",
        "zookeeper open",
        "acl list",
        "acl add",
        "acl remove",
        "acl zookeeper plan",
        "acl zookeeper apply",
        "consume",
        "produce",
        "group list",
        "group describe",
        "group check",
        "group verify",
        "group preview",
        "group history",
        "group nudge",
        "group freeze",
        "group unfreeze",
        "group delete",
        "group copy",
        "group rename",
        "group prune",
        "offsets show",
        "offsets export",
        "offsets import",
        "offsets set",
        "offsets reset",
        "offsets delete",
        "offsets undo",
        "undo",
        "topic create",
        "topic list",
        "topic describe",
        "topic alter",
        "topic delete",
        "broker run",
        "broker list",
        "broker describe",
        "broker forget",
        "coordinator describe",
        "coordinator release",
        "controller describe",
        "controller history",
        "controller resign",
        "elect preferred",
        "elect unclean",
        "reassign generate",
        "reassign execute",
        "reassign verify",
        "reassign list",
        "reassign cancel",
        "reassign plan decommission",
        "reassign plan replace",
        "reassign plan set-rf",
        "reassign plan balance",
        "plan decommission",
        "plan replace",
        "plan set-rf",
        "plan balance",
        "plan list",
        "plan resume",
        "plan pause",
        "plan cancel",
        "cluster usage",
        "config describe",
        "config alter",
        "config quota",
        "user list",
        "user add",
        "user delete",
        "user hash",
        "audit summary",
        "audit inspect",
        "audit tree",
        "audit diff",
        "audit owners",
        "audit offsets",
        "audit sessions",
        "audit findings",
        "audit report",
        "audit run",
        "audit export",
        "znode get",
        "znode ls",
        "znode tree",
        "completion",
    }


def test_the_short_help_option_does_not_depend_on_the_first_caller() -> None:
    """Past bug: click keeps the help option of the first context, and the docs' one did not know -h."""
    for _path, command in ALL:
        command.get_params(click.Context(command))
        option = command.get_help_option(click.Context(command))
        assert option is not None
        assert option.opts == ["-h", "--help"]


def test_the_short_help_of_the_root_is_that_of_the_commands() -> None:
    """The root's help imports no command; what it says of them must be true."""
    assert isinstance(root, Group)
    ctx = click.Context(root)
    for name in root.list_commands(ctx):
        command = root.get_command(ctx, name)
        assert command is not None
        assert command.help


def test_shared_options_may_stand_before_or_after_the_command(groups: ServerGroups, shell: Shell) -> None:
    """The nearest to the command wins; a group of commands takes them too."""
    address = shell.environment["ZKGROUP_ZOOKEEPER"]
    assert address is not None
    shell.environment["ZKGROUP_ZOOKEEPER"] = None

    for words in (
        ["-z", address, "--format", "json", "group", "list"],
        ["group", "-z", address, "list", "--format", "json"],
        ["--zookeeper", NOWHERE, "group", "list", "-z", address, "--format", "json"],
    ):
        ran = shell.run(*words)
        assert (ran.code, ran.document["groups"]) == (0, [])


def test_without_an_address_the_three_ways_are_named(lone_shell: Shell) -> None:
    """A usage error that says how to give one."""
    ran = lone_shell.run("group", "list")

    assert ran.code == 2
    for way in ("-z HOST:PORT", "ZKGROUP_ZOOKEEPER", "config.toml", "zkgroup zookeeper start"):
        assert way in ran.err.replace("\n", " ")


def test_logs_are_shown_wherever_v_stands(shell: Shell) -> None:
    """Past bug: behind the command it was handled too late for them, and -vv showed tracebacks alone."""
    for words in (["group", "list", "-vv"], ["-vv", "group", "list"], ["-v", "group", "list", "-v"]):
        assert "DEBUG zkgroup.zookeeper: " in shell.run(*words).err, words
    assert "DEBUG" not in shell.run("group", "list", "-v").err


def test_a_traceback_needs_two_v(lone_shell: Shell) -> None:
    """-vv shows where; nothing else does."""
    words = ["group", "list", "-z", NOWHERE, "--connect-timeout", "50ms"]

    assert "Traceback" not in lone_shell.run(*words, "-v").err
    assert "Traceback" in lone_shell.run(*words, "-vv").err


def test_a_missing_chroot_is_a_usage_error(shell: Shell) -> None:
    """A configuration error; nothing is created."""
    address = shell.environment["ZKGROUP_ZOOKEEPER"]

    ran = shell.run("group", "list", "-z", f"{address}/nothing")

    assert ran.code == 2
    assert f"`zkgroup zookeeper create-chroot -z {address}/nothing`" in ran.err
    assert shell.run("znode", "ls", "/").out == ""


def test_a_chroot_is_created_by_the_command_that_the_error_names(shell: Shell) -> None:
    """Level by level, at once, as everything that only adds; tried dry first; again it does nothing."""
    address = f"{shell.environment['ZKGROUP_ZOOKEEPER']}/kafka/east"
    words = ("zookeeper", "create-chroot", "-z", address)

    dry = shell.run(*words, "--dry-run")
    done = shell.json(*words)
    again = shell.run(*words)

    outer = address.partition("/")[2].removesuffix("/kafka/east")
    made = [f"/{outer}/kafka", f"/{outer}/kafka/east"]
    assert (dry.code, dry.out) == (0, f"would create {', '.join(made)}\n")
    assert (done["executed"], done["chroot"], done["znodes"]) == (True, made[1], made)
    assert (again.code, again.out) == (0, f"{made[1]} is there already: nothing to create\n")
    assert "note: this cannot be undone: no zkgroup command deletes a chroot" in dry.err
    assert again.err == ""
    assert shell.json("group", "list", "-z", address)["groups"] == []


def test_a_program_creates_the_chroot_of_its_address(shell: Shell) -> None:
    """`Admin.create_chroot`: previewed, made by a connection above it, and nothing where it exists."""
    address = f"{shell.environment['ZKGROUP_ZOOKEEPER']}/new/er"

    admin = Admin(address, undo_folder=shell.home / "undo")
    preview = admin.create_chroot(dry_run=True)
    with pytest.raises(ConfigError, match="create-chroot"), Admin(address):
        pass
    made = admin.create_chroot()
    with admin:
        again = admin.create_chroot()
        topics = admin.list_topics()

    chroot = "/" + address.partition("/")[2]
    assert (preview.executed, preview.plan.missing) == (False, (chroot.removesuffix("/er"), chroot))
    assert (made.executed, made.plan.chroot, bool(made.no_undo)) == (True, chroot, True)
    assert (again.executed, again.plan.missing) == (False, ())
    assert topics.rows == ()


def test_creating_a_chroot_needs_one(lone_shell: Shell) -> None:
    """An address without a path has none."""
    ran = lone_shell.run("zookeeper", "create-chroot", "-z", "127.0.0.1:1")

    assert ran.code == 2
    assert "HOST:PORT/CHROOT" in ran.err


def test_a_bare_number_is_no_duration(lone_shell: Shell) -> None:
    """The hint shows how to write it."""
    ran = lone_shell.run("group", "verify", "g", "--wait", "--timeout", "30", "-z", NOWHERE)

    assert ran.code == 2
    assert "30s" in ran.err


def test_a_timeout_without_a_wait_is_a_usage_error(lone_shell: Shell) -> None:
    """It would mean nothing."""
    assert lone_shell.run("group", "verify", "g", "--timeout", "30s", "-z", NOWHERE).code == 2


@pytest.mark.parametrize("odd", [["--yes"], ["--execute", "--dry-run"]])
@pytest.mark.parametrize(
    "act",
    [
        ["offsets", "set", "g", "t:0=1"],
        ["undo"],
        ["group", "delete", "g"],
        ["topic", "delete", "t"],
        ["topic", "alter", "t", "--partitions", "2"],
        ["config", "alter", "--topic", "t", "--add-config", "a=1"],
        ["elect", "preferred"],
        ["elect", "unclean", "--topic", "t:0"],
        ["controller", "resign"],
        ["reassign", "cancel"],
    ],
)
def test_contradictory_confirm_options_are_usage_errors_before_anything_is_read(
    lone_shell: Shell, act: list[str], odd: list[str]
) -> None:
    """No ensemble is asked, and no state of a group can hide the mistake."""
    ran = lone_shell.run(*act, *odd, "-z", "127.0.0.1:1")

    assert ran.code == 2
    assert "--execute" in ran.err


def test_settings_are_given_by_set_everywhere() -> None:
    """The old names stay, as aliases behind it."""
    named = {
        " ".join(path): option.opts
        for path, command in ALL
        for option in command.params
        if isinstance(option, click.Option) and {"--set", "--setting", "--config"} & set(option.opts)
    }

    assert named == {
        "consume": ["--set", "--setting"],
        "broker run": ["--set"],
        "topic create": ["--set", "--config"],
        "topic alter": ["--set", "--config"],
        "config alter": ["--set"],
        "audit run": ["--set", "--setting"],
        "audit report": ["--set", "--setting"],
    }


def test_from_is_no_name_of_its_own() -> None:
    """It meant a position, a file and a moment: each has its own option, which `--from` still names."""
    named = {
        " ".join(path): option.opts
        for path, command in ALL
        for option in command.params
        if isinstance(option, click.Option) and {"--from", "--to"} & set(option.opts)
    }
    audit = {name: opts for name, opts in named.items() if name.startswith("audit ")}

    assert named["produce"] == ["--file", "--from"]
    assert named["consume"] == ["--start", "--from"]
    assert named["offsets reset"] == ["--to"]
    assert len(audit) >= 4
    assert {opts[0] for opts in audit.values()} <= {"--since", "--until"}
    assert set(named) == {"produce", "consume", "offsets reset", *audit}


@pytest.mark.parametrize(("typed", "meant"), [("grup", "group"), ("offset", "offsets"), ("znodes", "znode")])
def test_a_mistyped_command_names_the_nearest(lone_shell: Shell, typed: str, meant: str) -> None:
    """Did you mean."""
    ran = lone_shell.run(typed, "list")

    assert ran.code == 2
    assert repr(meant) in ran.err


@pytest.mark.parametrize("module", ["zkgroup_cli.app", "click", "zkgroup.errors", "zkgroup_cli.render"])
def test_interrupting_the_imports_is_exit_130(module: str) -> None:
    """Past bug: Ctrl-C in the first tenths of a second printed a traceback. One that is ignored stays so."""
    program = f"""
import os, signal, sys
signal.signal(signal.SIGINT, getattr(signal, sys.argv.pop(1)))
class Meanwhile:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Meanwhile())
from zkgroup_cli.entry import main
main()
"""

    def run(handling: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, handling, "--version"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    interrupted, ignored = run("default_int_handler"), run("SIG_IGN")

    assert (interrupted.returncode, interrupted.stdout, interrupted.stderr) == (130, "", "interrupted\n")
    assert (ignored.returncode, ignored.stderr) == (0, "")


def test_interrupting_a_one_shot_command_is_exit_130(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C: a word, no traceback, 130."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("zkgroup.groups.reads.list_groups", interrupted)

    ran = shell.run("group", "list")

    assert (ran.code, ran.out) == (130, "")
    assert ran.err.strip() == "interrupted"


def test_a_bug_is_exit_1_without_a_traceback(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug of zkgroup is one line, too."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("zkgroup.groups.reads.list_groups", broken)

    ran = shell.run("group", "list")

    assert ran.code == 1
    assert "ZeroDivisionError: oops" in ran.err
    assert "Traceback" not in ran.err


def test_completion_scripts_are_printed(lone_shell: Shell) -> None:
    """For the three shells."""
    for name in ("bash", "zsh", "fish"):
        assert "_ZKGROUP_COMPLETE" in lone_shell.run("completion", name).out


def test_names_of_groups_are_completed(
    shell: Shell, groups: ServerGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Candidates come from the ensemble; without one there are none, quickly."""
    groups.parents("billing")
    groups.parents("audit")
    words = {
        "_ZKGROUP_COMPLETE": "bash_complete",
        "COMP_WORDS": "zkgroup group describe bi",
        "COMP_CWORD": "3",
    }

    monkeypatch.setattr("zkgroup_cli.params.COMPLETE_TIMEOUT_MS", 60_000)
    ran = shell.run(env=words)
    monkeypatch.setattr("zkgroup_cli.params.COMPLETE_TIMEOUT_MS", 50)
    nothing = shell.run(env={**words, "ZKGROUP_ZOOKEEPER": NOWHERE})

    assert ran.out.split() == ["plain,billing"]
    assert nothing.out.strip() == ""


def test_every_published_schema_is_used_by_a_command() -> None:
    """Schemas are named after their documents; every event has one."""
    assert all(schema["properties"]["schema"]["const"] == name for name, schema in SCHEMAS.items())
    assert set(EVENTS) == {
        *("state", "assigned", "revoked", "lost", "record", "commit", "ready"),
        *("waiting", "registered", "disconnected", "controller", "resigned", "failed"),
        *("leader", "follower", "stopped", "isr", "config", "exported", "read_failed"),
    }


def test_errors_have_the_exit_code_of_their_class() -> None:
    """The hint on the class is what the command line ends with."""
    assert (ConfigError.exit_code, StoreUnavailableError.exit_code) == (2, 7)
