"""`reassign plan` of what is not there, and from a file that lacks something."""

from __future__ import annotations

import pytest

from tests.cli.cluster import Cluster
from tests.cli.groups import Groups
from tests.cli.running import Shell


@pytest.fixture
def cluster(groups: Groups) -> Cluster:
    made = Cluster(groups)
    made.topic("orders", (1, 2), (1, 2))
    return made


def test_a_plan_of_what_does_not_exist_is_not_found(shell: Shell, cluster: Cluster) -> None:
    """Exit 5, as `reassign execute` of it; a broker that cannot take over is refused."""
    plans = [
        ("set-rf", "2", "--topic", "nosuch"),
        ("decommission", "99"),
        ("replace", "99=1"),
        ("replace", "1=99"),
    ]
    ran = [shell.run("reassign", "plan", *words) for words in plans]

    assert [each.code for each in ran] == [5, 5, 5, 2]
    assert ran[0].err == "error: set-rf 2: there is no topic nosuch\n"
    assert ran[1].err == ran[2].err == "error: broker 99 is neither registered nor in any replica list\n"


@pytest.mark.parametrize(("lines", "told"), [("", "orders-0, orders-1"), ("orders,1,5\n", "orders-0")])
def test_a_file_that_lacks_sizes_is_named(shell: Shell, cluster: Cluster, lines: str, told: str) -> None:
    """With the partitions that are missing."""
    file = shell.home / "sizes.csv"
    file.write_text(lines)

    ran = shell.run("reassign", "plan", "balance", "--sizes-file", str(file))

    expected = f"{file}: expected TOPIC,PARTITION,BYTES of every partition, found none of {told}"
    assert (ran.code, ran.err) == (2, f"error: {expected}\n")
