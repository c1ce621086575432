"""`zkgroup demo` as a user runs it: a process, its exit code, its output, and nothing left behind."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from zkgroup_cli.schemas import SCHEMAS

from tests.long.demos.demo_runs import DEMO_TIMEOUT_S, demo, interrupted_when, started_until
from tests.worlds.json_schema import violations
from zkgroup.model.requests import SetData
from zkgroup.zookeeper import ClientSettings, Digest, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper
from zkgroup.zookeeper.settings import CREATOR_ACL

pytestmark = pytest.mark.timeout(420)


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedZooKeeper]:
    """An ensemble that was there before the demo."""
    with EmbeddedZooKeeper(fsync=False) as server:
        yield server


@contextmanager
def blocking(address: str, settings: ClientSettings | None = None) -> Iterator[Blocking]:
    client = ZooKeeperClient(address, settings or ClientSettings())
    try:
        zk = Blocking(client)
        zk.wait_connected()
        yield zk
    finally:
        client.close()


def test_demo_proves_that_nothing_was_lost(tmp_path: Path) -> None:
    """The whole demo on its own server: every check holds, the exit code is 0, and --keep keeps the tree."""
    done = demo("demo", "--keep", "--format", "json", folder=tmp_path)

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert violations(report, SCHEMAS["zkgroup.demo/1"]) == []
    assert report["passed"] is True
    assert [check["statement"] for check in report["checks"] if not check["holds"]] == []
    assert report["records"] == 20_000
    assert report["history"]["deliveries"] >= 20_000
    assert "SIGKILL to ben" in done.stderr
    data = Path(report["kept"]) / "zookeeper"
    assert f"look around: zkgroup zookeeper start --data {data}" in done.stderr
    with EmbeddedZooKeeper(data_dir=data, fsync=False) as server, blocking(server.address) as zk:
        assert zk.find("/consumers/demo/offsets/flights/0") is not None


def test_demo_uses_the_ensemble_given_and_tidies_up(server: EmbeddedZooKeeper, tmp_path: Path) -> None:
    """With --zookeeper it runs there, below the chroot, as the user given; group, topic and files go.

    Nobody else may write there: the members, too, have to say who they are.
    """
    digest = tmp_path / "digest"
    digest.write_text("me:canary\n")
    files = tmp_path / "files"
    files.mkdir()
    mine = ClientSettings(auth=Digest.from_file(digest), acl=CREATOR_ACL)
    with blocking(server.address, mine) as zk:
        zk.create_missing("/mine")

    done = demo("-z", f"{server.address}/mine", "--zk-digest-file", str(digest), "demo", folder=files)

    assert done.returncode == 0, done.stderr
    assert "yes     group verify is clean" in done.stdout
    assert "canary" not in done.stdout + done.stderr
    assert list(files.iterdir()) == []
    with blocking(f"{server.address}/mine", mine) as zk:
        assert zk.find("/brokers/topics/flights") is None
        assert zk.find("/consumers/demo") is None


def test_demo_that_lost_records_says_so(server: EmbeddedZooKeeper, tmp_path: Path) -> None:
    """A foreign hand moves an offset to the end: records are never processed, and the exit code is 3."""
    address = f"{server.address}/spoiled"
    with blocking(server.address) as zk:
        zk.create_missing("/spoiled")

    arguments = ("-z", address, "demo", "--keep")
    with started_until("every partition has an owner", *arguments, folder=tmp_path) as process:
        with blocking(address) as zk:
            zk.multi(SetData("/consumers/demo/offsets/flights/9", b"2310", -1))
        printed, told = process.communicate(timeout=DEMO_TIMEOUT_S)

    assert process.returncode == 3, told
    assert "NO      every record was processed" in printed
    assert "NOT PROVED: every record was processed" in printed
    assert re.search(r"; missing 9:\d+, 9:\d+, .* and [\d,]+ more", printed)
    assert f"then: zkgroup -z {address} offsets show demo" in told
    with blocking(address) as zk:
        assert zk.read("/consumers/demo/offsets/flights/9").data == b"2310"


@pytest.mark.parametrize(
    "options",
    [("--zk-digest-file", "digest"), ("--zk-tls-ca", "ca"), ("--profile", "prod")],
    ids=lambda options: options[0],
)
def test_demo_refuses_what_its_own_server_does_not_know(options: tuple[str, str], tmp_path: Path) -> None:
    """How to connect is for an existing ensemble; without -z it is refused by name, not ignored."""
    done = demo("demo", *options, folder=tmp_path)

    assert done.returncode == 2
    assert f"{options[0]}: only with -z" in done.stderr


def test_demo_refuses_a_foreign_topic_of_its_name(server: EmbeddedZooKeeper, tmp_path: Path) -> None:
    """A topic `flights` with another number of partitions is not touched: conflict, and what to do."""
    create = demo("-z", server.address, "topic", "create", "flights", "--partitions", "3", folder=tmp_path)
    assert create.returncode == 0, create.stderr

    done = demo("-z", server.address, "demo", folder=tmp_path)

    assert done.returncode == 6
    assert "expected 12 partitions or no such topic, found 3" in done.stderr
    with blocking(server.address) as zk:
        assert zk.find("/brokers/topics/flights") is not None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_interrupted_demo_leaves_nothing_running(number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C in the middle stops members and server, removes the files and ends with 130."""
    with interrupted_when("every partition has an owner", number, "demo", folder=tmp_path) as process:
        assert process.wait(120) == 130

    assert list(tmp_path.iterdir()) == []


def test_killed_demo_takes_its_members_with_it(tmp_path: Path) -> None:
    """Even SIGKILL leaves no process: members end when the demo's end of their pipe closes.

    That they are gone is what the leak watch of this suite checks after each test.
    """
    with interrupted_when("every partition has an owner", signal.SIGKILL, "demo", folder=tmp_path) as process:
        assert process.wait(120) == -signal.SIGKILL
