"""`broker describe` of a zkgroup broker whose files have failed."""

from __future__ import annotations

from pathlib import Path

from tests.waiting import eventually
from tests.worlds.shell import Shell


def test_the_reason_of_a_failed_replica_is_shown(shell: Shell, tmp_path: Path) -> None:
    """With its path and since when, in both formats; a replica that is well is not named."""
    data = tmp_path / "data"
    lasting = ("--set", "zookeeper.session.timeout.ms=60s")
    with shell.start("broker", "run", "--id", "1", "--data", str(data), *lasting) as broker:
        broker.until_event("controller")
        (data / "orders-0").write_text("in the way")
        assert shell.run("topic", "create", "clicks", "--partitions", "1", "--wait").code == 0
        assert shell.run("topic", "create", "orders", "--partitions", "1").code == 0
        described = eventually(
            lambda: shell.json("broker", "describe", "1"), lambda document: document["failed"]
        )
        table = shell.run("broker", "describe", "1")
        later = shell.json("broker", "describe", "1")["as_of"]["time"]
        broker.stop()

    (failed,) = described["failed"]
    assert (failed["topic"], failed["partition"]) == ("orders", 0)
    assert str(data / "orders-0") in failed["reason"]
    assert failed["since"] <= later  # it may have failed after the first read had begun
    assert table.lines[-1] == f"orders-0 has failed at {failed['since']}: {failed['reason']}"
