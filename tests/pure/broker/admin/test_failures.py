"""The texts of refusals, as clients of Kafka get them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import zkgroup
from tests.pure.broker.admin.conftest import BY
from tests.worlds.memory_cluster import MemoryCluster
from zkgroup.broker.admin.configs import alter
from zkgroup.broker.admin.failures import Failure, text_for_clients
from zkgroup.broker.admin.known_configs import known_configs
from zkgroup.broker.admin.topics import delete_topics
from zkgroup.broker.settings import BrokerSettings
from zkgroup.wire.admin_apis import BROKER_RESOURCE, AlteredResource, ConfigValue


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/a: there is no topic; `zkgroup topic list` shows those there are", "/a: there is no topic"),
        ("wait (`zkgroup reassign list`), then grow it", "wait, then grow it"),
        (
            "broker 1 (of 2) is away; start it; --force moves it",
            "broker 1 (of 2) is away; start it",
        ),
        ("the brokers cancel it: `kafka-reassign-partitions --cancel`", "the brokers cancel it"),
        (
            "changed since it was read; run the command again",
            "changed since it was read; send the request again",
        ),
        ("a-b -- c: expected 1, found -1", "a-b -- c: expected 1, found -1"),
        ("--set is missing", "--set is missing"),
    ],
)
def test_a_client_is_not_shown_commands(text: str, expected: str) -> None:
    """What names a command or an option is left out, and nothing else."""
    assert text_for_clients(text) == expected


def _texts() -> Iterator[str]:
    """The texts of errors in the packages behind the requests; an `X` for each value."""
    package = Path(zkgroup.__file__).parent
    for folder in ("admin", "groups", "znodes", "placement", "broker/admin"):
        for file in sorted((package / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "").endswith("Error"):
                    yield from filter(None, map(_text, node.args))


def _text(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
    return None


def test_no_text_that_names_a_command_reaches_a_client() -> None:
    """Each keeps its reason."""
    named = [text for text in _texts() if "`zkgroup " in text]

    assert len(named) > 20
    for text in named:
        assert "zkgroup " not in text_for_clients(text)
        assert text_for_clients(text)


def test_refusals_of_requests_name_no_option(cluster: MemoryCluster) -> None:
    """A config that brokers read at their start, and a topic that is not there."""
    resource = AlteredResource(
        kind=BROKER_RESOURCE, name="1", configs=(ConfigValue(name="num.partitions", value="1"),)
    )
    known = known_configs(1, BrokerSettings())

    refused = alter(cluster.world.ensemble, resource, known, BY, validate_only=False)
    absent = delete_topics(cluster.world.ensemble, ["absent"], BY)["absent"]

    assert refused.error_message == "Cannot update these configs dynamically: num.partitions"
    assert isinstance(absent, Failure)
    assert absent.message == "/brokers/topics/absent: there is no topic 'absent'"
