"""`zkgroup config quota`: which quota a client or an address gets, and from where."""

from __future__ import annotations

from typing import Any

from tests.worlds.other_clients import kazoo_on
from tests.worlds.shell import Shell

ALTER = ("config", "alter", "--execute", "--notify-format", "v2", "--entity-type")


def test_each_quota_has_its_value_level_and_znode(shell: Shell) -> None:
    """Of eight levels the most specific one counts; an address and a client without login have their own."""
    user, client = ("users", "--entity-name", "alice"), ("clients", "--entity-name", "app")
    for owner, setting in (
        (user, "producer_byte_rate=1048576"),
        ((*user, "--client-default"), "consumer_byte_rate=2048"),
        (("users", "--entity-default"), "request_percentage=1e2"),
        (client, "consumer_byte_rate=7"),
        (client, "controller_mutation_rate=0.5"),
        (("ips", "--entity-default"), "connection_creation_rate=5"),
    ):
        assert shell.run(*ALTER, *owner, "--set", setting).code == 0

    shown = shell.run("config", "quota", "--user", "alice", "--client", "app")
    assert [line.split()[1:] for line in shown.lines[1:]] == [
        ["1048576", "user", "/config/users/alice"],
        ["2048", "user", "and", "default", "client", "/config/users/alice/clients/<default>"],
        ["100", "default", "user", "/config/users/<default>"],
        ["0.5", "client", "/config/clients/app"],
    ]
    document = shell.json("config", "quota", "--client", "app")
    address = shell.json("config", "quota", "--ip", "10.0.0.1")["quotas"]

    assert (document["user"], document["client"], document["ip"]) == ("ANONYMOUS", "app", None)
    assert [(row["quota"], row["value"], row["level"]) for row in document["quotas"]] == [
        ("producer_byte_rate", None, None),
        ("consumer_byte_rate", 7, "client"),
        ("request_percentage", 100, "default user"),
        ("controller_mutation_rate", 0.5, "client"),
    ]
    assert document["quotas"][2]["znode"] == "/config/users/<default>"
    assert [list(row.values()) for row in address] == [
        ["connection_creation_rate", 5, "default address", "/config/ips/<default>"]
    ]


def test_a_value_that_is_no_number_is_a_problem_beside_the_others(shell: Shell, zk_server: Any) -> None:
    """As for a broker, it is as if absent; the exit code says that something could not be read."""
    with kazoo_on(zk_server.address) as client:
        path = "/config/users/alice"
        data = b'{"version":1,"config":{"producer_byte_rate":"much","consumer_byte_rate":"7"}}'
        client.create(path, data, makepath=True)

    shown = shell.run("config", "quota", "--user", "alice")

    assert shown.code == 4
    assert f"{path}: producer_byte_rate: expected a whole number, found 'much'" in shown.err
    assert [line.split() for line in shown.lines[1:3]] == [
        ["producer_byte_rate", "-", "-", "-"],
        ["consumer_byte_rate", "7", "user", path],
    ]
    for wrong in (("--ip", "::1", "--user", "alice"), ("--ip", "localhost")):
        assert shell.run("config", "quota", *wrong).code == 2
