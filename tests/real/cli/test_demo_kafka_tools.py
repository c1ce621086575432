"""Kafka's tools in `zkgroup demo brokers`: what is there, and how its processes end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.waiting import eventually
from zkgroup.demo import kafka_clients
from zkgroup.demo.kafka_clients import ClientRecord, KafkaJars, cached_jars, console_clients, run_java
from zkgroup.errors import SourceError

Install = Callable[[str, str], None]
FETCHING = """
for word in "$@"; do case "$word" in -DoutputDirectory=*) out=${word#*=};; esac; done
cat pom.xml >/dev/null && mkdir "$out" && touch "$out/kafka.jar"
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a shell script of a name on the PATH, on which nothing else is but sh and its jars."""
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
def made() -> Iterator[Callable[[], KafkaJars]]:
    """Makes the jars of a demo."""
    jars: list[KafkaJars] = []

    def make() -> KafkaJars:
        jars.append(KafkaJars())
        return jars[-1]

    yield make
    for one in jars:
        one.close()


def test_what_is_missing_is_named(install: Install, made: Callable[[], KafkaJars]) -> None:
    """Maven is not needed once its jars are there."""
    assert made().reason == "no java and no mvn on the PATH"
    cached_jars().mkdir(parents=True)
    assert made().reason == "no java on the PATH"
    install("java", "")
    assert made().reason == ""


def test_maven_fetches_once(install: Install, made: Callable[[], KafkaJars]) -> None:
    """Into a folder that is complete or not there."""
    install("java", "")
    install("mvn", FETCHING)
    jars = made()
    eventually(jars.has_ended_in_time, what="Maven has ended")

    assert jars.reason == ""
    assert [path.name for path in jars.folder.iterdir()] == ["kafka.jar"]
    assert [path.name for path in jars.folder.parent.iterdir()] == [jars.folder.name]
    assert not made().is_fetching


def test_maven_that_fails_is_a_reason(install: Install, made: Callable[[], KafkaJars]) -> None:
    """With the last line that it printed, and nothing is left in the cache."""
    install("java", "")
    install("mvn", "echo no route; echo '[ERROR] it is offline'; exit 1")
    jars = made()
    eventually(jars.has_ended_in_time, what="Maven has ended")

    assert jars.reason == "Maven cannot fetch its jars: [ERROR] it is offline"
    assert list(jars.folder.parent.iterdir()) == []


def test_maven_that_takes_too_long_is_ended(
    install: Install, made: Callable[[], KafkaJars], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process ends, and its folder is removed."""
    install("java", "")
    install("mvn", f"echo $$ >{tmp_path}/pid; exec sleep 1000")
    jars = made()
    number = int(eventually((tmp_path / "pid").read_text, ignoring=(FileNotFoundError,)))
    assert not jars.has_ended_in_time()
    monkeypatch.setattr(kafka_clients, "MAVEN_S", 0.0)

    assert jars.has_ended_in_time()

    assert not Path(f"/proc/{number}").exists()
    assert jars.reason == "Maven has not fetched Kafka's jars in time"
    assert list(jars.folder.parent.iterdir()) == []


def test_console_clients_are_run_by_their_classes(install: Install, tmp_path: Path) -> None:
    """The producer reads keys and values; the consumer prints its records with tabs between."""
    cached_jars().mkdir(parents=True)
    record = "Partition:0\\tOffset:5\\tk\\tv 1\\n"
    install("java", f'echo "$@" >{tmp_path}/words; cat >{tmp_path}/input; printf "{record}"')
    console = console_clients()
    console.produce("h:1", "t", [ClientRecord(b"k", b"v 1"), ClientRecord(b"k", b"v 2")])
    produced = (tmp_path / "words").read_text()

    assert "kafka.tools.ConsoleProducer --bootstrap-server h:1 --topic t" in produced
    assert "--request-timeout-ms 30000 --message-send-max-retries 1000" in produced
    assert (tmp_path / "input").read_bytes() == b"k\tv 1\nk\tv 2\n"
    assert console.read("h:1", "t", 1) == {5: ClientRecord(b"k", b"v 1")}
    assert "kafka.tools.ConsoleConsumer --bootstrap-server h:1" in (tmp_path / "words").read_text()


def test_class_that_fails_is_an_error(install: Install) -> None:
    """With the end of what it wrote on stderr."""
    cached_jars().mkdir(parents=True)
    install("java", "cat >/dev/null; echo out; echo 'Exception: no brokers' >&2; exit 3")
    with pytest.raises(SourceError, match=r"^kafka\.Tool ended with 3: Exception: no brokers$"):
        run_java("kafka.Tool")
