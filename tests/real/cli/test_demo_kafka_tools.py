"""Kafka's tools in `zkgroup demo brokers`: what is there, and how its processes end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.waiting import eventually, joined
from zkgroup.demo import kafka_tools
from zkgroup.demo.kafka_clients import ClientRecord
from zkgroup.demo.kafka_tools import KafkaTools, cached_jars
from zkgroup.errors import SourceError

Install = Callable[[str, str], None]
FETCHING = """
for word in "$@"; do case "$word" in -DoutputDirectory=*) out=${word#*=};; esac; done
cat pom.xml >/dev/null && mkdir "$out" && touch "$out/kafka.jar"
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a shell script of a name on the PATH, on which nothing else is but sh and its tools."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "mkdir", "touch", "sleep", "cat"):
        (folder / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def install(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return install


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[[], KafkaTools]]:
    """Makes the tools of a demo."""
    tools: list[KafkaTools] = []

    def make() -> KafkaTools:
        tools.append(KafkaTools(tmp_path))
        return tools[-1]

    yield make
    for one in tools:
        one.close()


def test_what_is_missing_is_named(install: Install, made: Callable[[], KafkaTools]) -> None:
    """Maven is not needed once its jars are there."""
    assert made().reason == "no java and no mvn on the PATH"
    cached_jars().mkdir(parents=True)
    assert made().reason == "no java on the PATH"
    install("java", "")
    assert made().reason == ""


def test_maven_fetches_once(install: Install, made: Callable[[], KafkaTools]) -> None:
    """Into a folder that is complete or not there."""
    install("java", "")
    install("mvn", FETCHING)
    tools = made()
    eventually(tools.has_ended_in_time, what="Maven has ended")

    assert tools.reason == ""
    assert [path.name for path in tools.jars.iterdir()] == ["kafka.jar"]
    assert [path.name for path in tools.jars.parent.iterdir()] == [tools.jars.name]
    assert not made().is_fetching


def test_maven_that_fails_is_a_reason(install: Install, made: Callable[[], KafkaTools]) -> None:
    """With the last line that it printed, and nothing is left in the cache."""
    install("java", "")
    install("mvn", "echo no route; echo '[ERROR] it is offline'; exit 1")
    tools = made()
    eventually(tools.has_ended_in_time, what="Maven has ended")

    assert tools.reason == "Maven cannot fetch its jars: [ERROR] it is offline"
    assert list(tools.jars.parent.iterdir()) == []


def test_maven_that_takes_too_long_is_ended(
    install: Install, made: Callable[[], KafkaTools], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process ends, and its folder is removed."""
    install("java", "")
    install("mvn", f"echo $$ >{tmp_path}/pid; exec sleep 1000")
    tools = made()
    number = int(eventually((tmp_path / "pid").read_text, ignoring=(FileNotFoundError,)))
    assert not tools.has_ended_in_time()
    monkeypatch.setattr(kafka_tools, "MAVEN_S", 0.0)

    assert tools.has_ended_in_time()

    assert not Path(f"/proc/{number}").exists()
    assert tools.reason == "Maven has not fetched Kafka's jars in time"
    assert list(tools.jars.parent.iterdir()) == []


def test_console_clients_are_run_by_their_classes(
    install: Install, made: Callable[[], KafkaTools], tmp_path: Path
) -> None:
    """The producer reads keys and values; the consumer prints offset, key and value, with tabs between."""
    cached_jars().mkdir(parents=True)
    install("java", f'echo "$@" >{tmp_path}/words; cat >{tmp_path}/input; printf "Offset:5\\tk\\tv 1\\n"')
    console = made()
    console.produce("h:1", "t", [ClientRecord(b"k", b"v 1"), ClientRecord(b"k", b"v 2")])
    produced = (tmp_path / "words").read_text()

    assert "kafka.tools.ConsoleProducer --bootstrap-server h:1 --topic t" in produced
    assert "--request-timeout-ms 30000 --message-send-max-retries 1000" in produced
    assert (tmp_path / "input").read_bytes() == b"k\tv 1\nk\tv 2\n"
    assert console.read("h:1", "t", 1) == {5: ClientRecord(b"k", b"v 1")}
    assert "kafka.tools.ConsoleConsumer --bootstrap-server h:1" in (tmp_path / "words").read_text()


def test_class_that_fails_is_an_error(install: Install, made: Callable[[], KafkaTools]) -> None:
    """With the end of what it wrote on stderr."""
    cached_jars().mkdir(parents=True)
    install("java", "echo out; echo 'Exception: no brokers' >&2; exit 3")
    with pytest.raises(SourceError, match=r"^kafka\.Tool ended with 3: Exception: no brokers$"):
        made().run("kafka.Tool")


def test_closing_ends_a_class_that_runs(
    install: Install, made: Callable[[], KafkaTools], tmp_path: Path
) -> None:
    """The thread that waits for it gets an error."""
    cached_jars().mkdir(parents=True)
    install("java", f"echo $$ >{tmp_path}/pid; exec sleep 1000")
    tools = made()
    errors: list[SourceError] = []

    def run() -> None:
        with pytest.raises(SourceError) as caught:
            tools.run("kafka.Tool")
        errors.append(caught.value)

    thread = threading.Thread(target=run)
    thread.start()
    number = int(eventually((tmp_path / "pid").read_text, ignoring=(FileNotFoundError,)))
    tools.close()
    joined(thread)

    assert "kafka.Tool ended with" in str(errors[0])
    assert not Path(f"/proc/{number}").exists()
