"""`zkgroup demo` on its own server and on an ensemble: what it proves, and that it leaves nothing.

The command that the README shows is run by `.ci/run demo` as it is written there.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.worlds.shell import Shell
from zkgroup.demo import group
from zkgroup.demo.group import GroupRun
from zkgroup.demo.run import DemoOptions
from zkgroup.model.requests import SetData
from zkgroup.zookeeper import ClientSettings, Digest, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper
from zkgroup.zookeeper.settings import CREATOR_ALL_ACL

LAST = "/consumers/demo/offsets/flights/9"


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedZooKeeper]:
    """An ensemble that exists before the demo."""
    with EmbeddedZooKeeper(fsync=False) as server:
        yield server


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which a demo in this process has its files."""
    files = tmp_path / "files"
    files.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(files))
    return files


@contextmanager
def blocking(address: str, settings: ClientSettings | None = None) -> Iterator[Blocking]:
    client = ZooKeeperClient(address, settings or ClientSettings())
    try:
        zk = Blocking(client)
        zk.wait_connected()
        yield zk
    finally:
        client.close()


def test_demo_uses_the_ensemble_given_and_tidies_up(
    server: EmbeddedZooKeeper, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --zookeeper it runs below the chroot as the given user, and deletes its group, topic and files.

    No other user may write there, so the members need the credentials, too. They are several times as fast as
    those of the demo for users.
    """
    digest = tmp_path / "digest"
    digest.write_text("me:canary\n")
    mine = ClientSettings(auth=Digest.from_file(digest), acl=CREATOR_ALL_ACL)
    with blocking(server.address, mine) as zk:
        zk.create_missing("/mine")
    monkeypatch.setattr(group, "RECORDS_PER_S", 2_500)

    words = ("-z", f"{server.address}/mine", "--zk-digest-file", str(digest), "demo", "--format", "json")
    ran = Shell(tmp_path).run(*words)

    assert ran.code == 0, ran
    report = ran.document
    assert report["passed"] is True
    assert [check["statement"] for check in report["checks"] if not check["holds"]] == []
    assert report["records"] == 20_000
    assert report["history"]["deliveries"] >= 20_000
    assert "SIGKILL to ben" in ran.err
    assert "canary" not in ran.out + ran.err
    assert list(files.iterdir()) == []
    with blocking(f"{server.address}/mine", mine) as zk:
        assert zk.find("/brokers/topics/flights") is None
        assert zk.find("/consumers/demo") is None


class ForeignHand:
    """A screen that sets an offset to the end of its partition at a point of the story.

    It is connected before, as the members need only seconds for all records from that point on.
    """

    def __init__(self, until_end: ExitStack) -> None:
        self._until_end = until_end
        self._zk: Blocking | None = None
        self._has_moved = False

    def __call__(self, run: GroupRun) -> None:
        if self._zk is None and run.zookeeper:
            self._zk = self._until_end.enter_context(blocking(run.zookeeper))
        if not self._has_moved and run.events[-1].text == "every partition has an owner":
            assert self._zk is not None
            self._zk.multi(SetData(LAST, b"2310", -1))
            self._has_moved = True


@pytest.mark.usefixtures("files")
def test_demo_that_lost_records_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A foreign client moves an offset to the end: records are never processed, and the proof fails.

    The files are kept for inspection.
    """
    monkeypatch.setattr(group, "RECORDS_PER_S", 1_000)

    with ExitStack() as until_end:
        report = GroupRun.run(DemoOptions(keep=True), ForeignHand(until_end))

    assert not report.passed
    wrong = {check.statement: check.evidence for check in report.checks if not check.holds}
    assert re.search(r"; missing 9:\d+, 9:\d+, .* and [\d,]+ more", wrong["every record was processed"])
    assert report.folder is not None
    data = report.folder / "zookeeper"
    with EmbeddedZooKeeper(data_dir=data, fsync=False) as kept, blocking(kept.address) as zk:
        assert zk.read(LAST).data == b"2310"


def test_demo_refuses_a_foreign_topic_of_its_name(
    server: EmbeddedZooKeeper, files: Path, tmp_path: Path
) -> None:
    """A topic `flights` with another number of partitions is not changed: a conflict, with advice."""
    shell = Shell(tmp_path)
    create = shell.run("-z", server.address, "topic", "create", "flights", "--partitions", "3")
    assert create.code == 0, create

    ran = shell.run("-z", server.address, "demo")

    assert ran.code == 6
    assert "expected 12 partitions or no such topic, found 3" in ran.err
    assert list(files.iterdir()) == []
    with blocking(server.address) as zk:
        assert zk.find("/brokers/topics/flights") is not None
