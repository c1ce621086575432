"""`zkgroup offsets` against a real server: exit code, stdout, stderr, undo files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worlds.record_brokers import RecordBrokers
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.admin.cluster.brokers import ClusterReader
from zkgroup.clients.producer import NewRecord, ProducerSettings, RecordProducer
from zkgroup.errors import ConflictError, PartlyDoneError, ZkGroupError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import StaticSubscription, TopicPartition
from zkgroup.model.requests import Create, SetData
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState
from zkgroup.znodes.consumers import Offset, Registration
from zkgroup.znodes.group_records import AuditRecord, Reset
from zkgroup.zookeeper.client import SystemClock


@pytest.fixture
def idle(groups: ServerGroups) -> ServerGroups:
    """A group without members, with offsets 0, 10 and 20 of three partitions."""
    groups.topic("orders", 3)
    groups.parents("billing", "orders")
    for number in range(3):
        groups.offset("billing", "orders", number, 10 * number)
    return groups


@pytest.fixture
def living(groups: ServerGroups) -> ServerGroups:
    """The same with two members."""
    groups.topic("orders", 3)
    groups.living("billing", "orders", 3)
    return groups


def test_show_has_offsets_versions_and_owners(shell: Shell, living: ServerGroups) -> None:
    """The document of the contract; the table has the same rows."""
    document = shell.json("offsets", "show", "billing")
    table = shell.run("offsets", "show", "billing")

    row = document["offsets"][2]
    assert list(row) == [
        *("topic", "partition", "offset", "version", "committed_at", "owner", "log_end_offset", "lag"),
        *("written_by", "written_at", "written_host", "written_version", "written_evidence"),
    ]
    assert (row["offset"], row["owner"], row["log_end_offset"]) == (20, "billing_b-0", None)
    assert len(table.lines) == 4


def test_show_with_a_source_has_lag(shell: Shell, idle: ServerGroups, tmp_path: Path) -> None:
    """The ends come from the records; a partition without a file holds none."""
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "1.jsonl").write_text("{}\n" * 25)

    rows = shell.json("offsets", "show", "billing", "--source", f"files:{tmp_path}")["offsets"]

    assert [(row["log_end_offset"], row["lag"]) for row in rows] == [(0, 0), (25, 15), (0, 0)]


def test_an_unknown_source_is_a_usage_error(shell: Shell, idle: ServerGroups) -> None:
    """The forms that there are, named."""
    ran = shell.run("offsets", "show", "billing", "--source", "ftp:x")

    assert ran.code == 2
    assert "files:DIR" in ran.err


def test_export_and_import_are_a_round_trip(shell: Shell, idle: ServerGroups, tmp_path: Path) -> None:
    """The 0.8.2 lines by default, JSON and CSV on demand; each imports."""
    lines = shell.run("offsets", "export", "billing")
    assert lines.lines == [f"/consumers/billing/offsets/orders/{n}:{10 * n}" for n in range(3)]
    for form in ("table", "json", "csv", "ndjson"):
        text = shell.run("offsets", "export", "billing", "--format", form).out
        file = tmp_path / f"export.{form}"
        file.write_text(text)
        idle.offset("billing", "orders", 1, 99)

        ran = shell.run("offsets", "import", str(file), "--execute")

        assert (ran.code, idle.offset_of("billing", "orders", 1)) == (0, 10)


def test_import_reads_stdin_and_can_make_a_group(shell: Shell, idle: ServerGroups) -> None:
    """`-` is stdin; a group that is not there yet is made."""
    ran = shell.run("offsets", "import", "-", "--execute", stdin="/consumers/new/offsets/orders/0:5\n")

    assert (ran.code, idle.offset_of("new", "orders", 0)) == (0, 5)


def test_import_of_two_groups_is_one_report(shell: Shell, idle: ServerGroups) -> None:
    """Each group has its own plan and its own undo."""
    text = "/consumers/one/offsets/orders/0:5\n/consumers/two/offsets/orders/0:6\n"

    ran = shell.run("offsets", "import", "-", "--execute", "--format", "json", stdin=text)

    assert [one["group"] for one in ran.document["groups"]] == ["one", "two"]
    assert len(shell.undo_files) == 2


def test_a_broken_file_is_a_usage_error_with_the_line(shell: Shell, idle: ServerGroups) -> None:
    """Nothing is imported from a file that cannot be read to its end."""
    ran = shell.run("offsets", "import", "-", "--execute", stdin="/consumers/g/offsets/t/0:5\n\nnonsense\n")

    assert ran.code == 2
    assert ":3: expected /consumers/GROUP/offsets" in ran.err


def test_undo_gives_the_bytes_back_that_were_there(shell: Shell, idle: ServerGroups) -> None:
    """Past bug: -1 was restored for what was no offset; of a deleted group nothing was restored."""
    path = Offset.path("billing", TopicPartition("orders", 1))
    idle.zk.multi(SetData(path, b"rubbish", 0))

    for act in (["offsets", "set", "billing", "orders:1=5"], ["group", "delete", "billing"]):
        done = shell.run(*act, "--execute")
        undone = shell.run("offsets", "undo", "--execute")

        assert (done.code, undone.code) == (0, 0), (done, undone)
        assert idle.zk.read(path).data == b"rubbish"


@pytest.mark.parametrize("words", [["import"], ["reset", "billing", "--from-file"]])
def test_a_file_that_is_no_text_is_a_usage_error(
    shell: Shell, idle: ServerGroups, tmp_path: Path, words: list[str]
) -> None:
    """Named, with what was expected; no bug of zkgroup."""
    file = tmp_path / "offsets.bin"
    file.write_bytes(b"\xff\xfe")

    ran = shell.run("offsets", *words, str(file))

    assert ran.code == 2
    assert f"{file}: expected text in UTF-8" in ran.err


@pytest.mark.parametrize("value", ["orders:0=9223372036854775808", "orders:2147483648=1", "orders:0=²"])
def test_values_that_no_jvm_can_read_are_refused(shell: Shell, idle: ServerGroups, value: str) -> None:
    """An offset is a Long, a partition an Int, both in plain digits."""
    ran = shell.run("offsets", "set", "billing", value, "--execute")

    assert (ran.code, "expected" in ran.err) == (2, True)
    assert idle.offset_of("billing", "orders", 0) == 0


def test_an_unreadable_offset_is_not_left_out_in_silence(shell: Shell, idle: ServerGroups) -> None:
    """`show` says why it is unknown; an export without it is partly done (exit 4)."""
    path = Offset.path("billing", TopicPartition("orders", 1))
    idle.zk.multi(SetData(path, b"x", 0))

    shown = shell.run("offsets", "show", "billing")
    exported = shell.run("offsets", "export", "billing")

    assert (shown.code, exported.code) == (0, 4)
    assert f"note: {path}: expected an offset" in shown.err
    assert f"not exported: {path}: expected an offset" in exported.err
    assert exported.lines == [f"/consumers/billing/offsets/orders/{n}:{10 * n}" for n in (0, 2)]


def test_set_shows_first_and_acts_only_on_execute(shell: Shell, idle: ServerGroups) -> None:
    """No --execute, no change; with it the undo file is there and the audit record in ZooKeeper."""
    shown = shell.json("offsets", "set", "billing", "orders:1=42")
    assert (shown["executed"], shown["undo"]) == (False, None)
    assert shown["changes"] == [
        {"topic": "orders", "partition": 1, "before": 10, "after": 42, "changed": True}
    ]
    assert idle.offset_of("billing", "orders", 1) == 10

    done = shell.json("offsets", "set", "billing", "orders:1=42", "--execute")

    (file,) = shell.undo_files
    audit = idle.zk.read(AuditRecord.path("billing"))
    assert (done["executed"], done["undo"]) == (True, file.stem)
    assert idle.offset_of("billing", "orders", 1) == 42
    assert AuditRecord.decode(audit.path, audit.data).undo.startswith(file.stem)
    assert json.loads(file.read_text())["command"].startswith("zkgroup offsets set billing orders:1=42")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (["--to", "7"], [7, 7, 7]),
        (["--to", "+5"], [5, 15, 25]),
        (["--to", "-5"], [0, 5, 15]),
        (["--to-offset", "7"], [7, 7, 7]),
        (["--to-offset", "0"], [0, 0, 0]),
        (["--shift-by", "-5"], [0, 5, 15]),
        (["--shift-by", "0"], [0, 10, 20]),
        (["--to", "7", "--topic", "orders:0,2"], [7, 10, 7]),
    ],
)
def test_reset_moves_to_a_target(
    shell: Shell, idle: ServerGroups, target: list[str], expected: list[int]
) -> None:
    """Our words and Kafka's."""
    ran = shell.run("offsets", "reset", "billing", *target, "--execute")

    assert ran.code == 0
    assert [idle.offset_of("billing", "orders", number) for number in range(3)] == expected


def test_reset_by_the_records(shell: Shell, idle: ServerGroups, tmp_path: Path) -> None:
    """Earliest and latest come from the source."""
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "1.jsonl").write_text("{}\n" * 25)
    source = ["--source", f"files:{tmp_path}", "--topic", "orders:1", "--execute"]

    assert shell.run("offsets", "reset", "billing", "--to-latest", *source).code == 0
    assert idle.offset_of("billing", "orders", 1) == 25
    assert shell.run("offsets", "reset", "billing", "--to", "earliest", *source).code == 0
    assert idle.offset_of("billing", "orders", 1) == 0


_FILE = "/consumers/{group}/offsets/{topic}/{partition}:5\n"


@pytest.mark.parametrize("execute", [[], ["--execute"]])
@pytest.mark.parametrize(
    ("group", "topic", "partition", "code", "message"),
    [
        ("billing", "ordres", 0, 5, "/brokers/topics/ordres: there is no topic ordres"),
        ("billing", "orders", 7, 5, "/brokers/topics/orders: orders has no partition 7"),
        ("nobody", "orders", 7, 5, "orders has no partition 7"),
        ("billing", "or ders", 0, 2, "topic 'or ders'"),
        ("billing", "..", 0, 2, "topic '..'"),
        ("bil ling", "orders", 0, 2, "group 'bil ling'"),
    ],
)
def test_a_typo_writes_nothing(
    shell: Shell,
    idle: ServerGroups,
    group: str,
    topic: str,
    partition: int,
    code: int,
    message: str,
    execute: list[str],
) -> None:
    """What does not exist is exit 5, an illegal name 2, in the preview already and in all three commands."""
    before = idle.zk.list_many(["/consumers", "/consumers/billing/offsets"])
    text = _FILE.format(group=group, topic=topic, partition=partition)
    rows = shell.home / "rows.csv"
    rows.write_text(f"{topic},{partition},5\n")
    commands = [
        ["set", group, f"{topic}:{partition}=5"],
        ["reset", group, "--to", "5", "--topic", f"{topic}:{partition}"],
        ["import", "-"],
        *([] if " " in topic else [["reset", group, "--from-file", str(rows)]]),
    ]

    for words in commands:
        ran = shell.run("offsets", *words, *execute, stdin=text)
        assert (ran.code, ran.out, message in ran.err) == (code, "", True), (words, ran)

    assert (idle.zk.list_many(list(before)), shell.undo_files) == (before, [])


def test_what_is_missing_can_be_allowed(shell: Shell, idle: ServerGroups) -> None:
    """For offsets that are there before their topic; a reset goes back with it to a topic that is gone."""
    assert shell.run("offsets", "set", "billing", "later:0=5", "--allow-missing", "--execute").code == 0
    refused = shell.run("offsets", "reset", "billing", "--to", "6", "--execute")
    allowed = shell.run("offsets", "reset", "billing", "--to", "6", "--execute", "--allow-missing")

    assert (refused.code, allowed.code) == (5, 0)
    assert "note: there is no topic later: the offsets are written in advance" in allowed.err
    assert [idle.offset_of("billing", topic, 0) for topic in ("later", "orders")] == [6, 6]


@pytest.mark.parametrize(
    "words", [["set", "new", "orders:2=5"], ["reset", "new", "--to", "5", "--topic", "orders"]]
)
def test_a_new_group_can_be_given_offsets(shell: Shell, idle: ServerGroups, words: list[str]) -> None:
    """Before its first member joins; the preview says that it is new."""
    shown = shell.run("offsets", *words)
    done = shell.run("offsets", *words, "--execute")

    assert "note: there is no group 'new' yet: this creates it" in shown.err
    assert (shown.code, done.code, idle.offset_of("new", "orders", 2)) == (0, 0, 5)


def test_reset_from_a_file(shell: Shell, idle: ServerGroups, tmp_path: Path) -> None:
    """Kafka's `--from-file`."""
    file = tmp_path / "plan.csv"
    file.write_text("orders,0,1\norders,2,3\n")

    ran = shell.run("offsets", "reset", "billing", "--from-file", str(file), "--execute")

    assert ran.code == 0
    assert [idle.offset_of("billing", "orders", number) for number in range(3)] == [1, 10, 3]


@pytest.fixture
def own_brokers(idle: ServerGroups) -> Iterator[RecordBrokers]:
    """Broker 1 leads the partitions of the group's topic; partition 1 has the records 0 to 2."""
    with RecordBrokers(1) as brokers:
        for number in range(3):
            tp = TopicPartition("orders", number)
            brokers.lead(tp, 1)
            state = PartitionState(leader=1, leader_epoch=0, isr=(1,), controller_epoch=1)
            above = [f"/brokers/topics/orders/partitions{child}" for child in ("", f"/{number}")]
            idle.zk.create_missing(*above)
            idle.zk.multi(Create(PartitionState.path(tp), state.encode()))
        idle.zk.create_missing("/brokers/ids")
        idle.zk.multi(Create(BrokerRegistration.path(1), brokers.registration(1).encode(), True))
        cluster = ClusterReader(Ensemble(idle.zk, SystemClock()))
        producer = RecordProducer(cluster, "orders", lambda _: None, ProducerSettings(acks="1"))
        for number in range(3):
            producer.send(NewRecord(b"a", partition=1, timestamp_ms=1_000_000 + number))
        producer.flush()
        producer.close()
        yield brokers


@pytest.mark.parametrize(
    ("target", "offset"), [("latest", 3), ("earliest", 0), ("1970-01-01T00:16:40.001Z", 1), ("2000-01-01", 3)]
)
def test_reset_asks_our_own_brokers_without_a_source(
    shell: Shell, idle: ServerGroups, own_brokers: RecordBrokers, target: str, offset: int
) -> None:
    """As `offsets show` does; the end of the log where all records are older."""
    ran = shell.run(
        "offsets", "reset", "billing", "--to", target, "--topic", "orders:1", "--execute", "--yes"
    )

    assert (ran.code, idle.offset_of("billing", "orders", 1)) == (0, offset), ran


def test_reset_names_the_partition_whose_broker_does_not_answer(
    shell: Shell, idle: ServerGroups, own_brokers: RecordBrokers
) -> None:
    """Nothing is written; a target that needs no log does not ask."""
    own_brokers.stop(1)
    refused = shell.run("offsets", "reset", "billing", "--to", "latest", "--topic", "orders:1", "--execute")
    source = shell.run("offsets", "reset", "billing", "--to", "latest", "--source", "none")
    shifted = shell.run(
        "offsets", "reset", "billing", "--to", "-1", "--topic", "orders:1", "--execute", "--yes"
    )

    assert (refused.code, "the offset of orders-1 " in refused.err, "--source" in refused.err) == (
        5,
        True,
        True,
    ), refused
    assert (source.code, shifted.code, idle.offset_of("billing", "orders", 1)) == (2, 0, 9)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "exactly one"),
        (["--to", "5", "--to-latest"], 2, "exactly one"),
        (["--to", "soon"], 2, "earliest, latest, N, +N, -N or a time"),
        (["--to", "latest"], 2, "--source"),
        (["--to", "5", "--topic", "nothing"], 5, "/brokers/topics/nothing"),
        (["--to", "5", "--topic", "orders:x"], 2, "orders:0,3"),
        (["--by-duration", "5"], 2, "no unit"),
        (["--to", "5", "--execute", "--dry-run"], 2, "contradict"),
        (["--to", "5", "--yes"], 2, "--execute"),
    ],
)
def test_reset_refuses_what_it_cannot_do(
    shell: Shell, idle: ServerGroups, words: list[str], code: int, message: str
) -> None:
    """The exit code and the reason; nothing is written."""
    ran = shell.run("offsets", "reset", "billing", *words)

    assert ran.code == code
    assert message in ran.err
    assert [idle.offset_of("billing", "orders", number) for number in range(3)] == [0, 10, 20]


def test_a_living_group_refuses_without_force(shell: Shell, living: ServerGroups) -> None:
    """Exit 2 before anything is shown as possible; the members are named."""
    for words in (["set", "billing", "orders:0=5"], ["reset", "billing", "--to", "5"], ["import", "-"]):
        ran = shell.run("offsets", *words, "--execute", stdin="/consumers/billing/offsets/orders/0:5\n")

        assert (ran.code, ran.out) == (2, "")
        assert "billing_a, billing_b" in ran.err
        assert "--force" in ran.err
    assert living.offset_of("billing", "orders", 0) == 0


def test_force_leaves_a_marker_for_the_owner(shell: Shell, living: ServerGroups) -> None:
    """Offset and marker together, and it stands; the undo needs --force as well (recipes 6)."""
    ran = shell.run("offsets", "set", "billing", "orders:0=5", "--execute", "--force", "--wait")

    marker = living.zk.read(Reset.path("billing", TopicPartition("orders", 0)))
    assert (ran.code, living.offset_of("billing", "orders", 0)) == (0, 5)
    assert Reset.decode(marker.path, marker.data).offset == 5
    assert "--execute --force" in ran.err


def test_what_does_not_stand_is_exit_4(shell: Shell, living: ServerGroups) -> None:
    """Below a JVM member, which shows only with its next commit that it did not notice."""
    jvm = Registration.of(StaticSubscription({"orders": 1}), 1)
    living.zk.multi(SetData(Registration.path("billing", "billing_a"), jvm.encode(), 0))
    words = ("set", "billing", "orders:0=5", "--execute", "--force", "--wait", "--timeout", "1ms")

    document = shell.json("offsets", *words, code=4)
    undone = shell.run("undo", "--execute", "--force", "--wait", "--timeout", "1ms")

    (member, _) = document["members"]
    assert member == {"member": "billing_a", "kind": "jvm", "obeys": False, "partitions": 1}
    assert [one["standing"] for one in document["standing"]] == ["pending"]
    assert undone.code == 4
    assert "written, but it does not stand: orders-0 of billing has not been committed since" in undone.err


def test_undo_restores_once_and_not_over_newer_commits(shell: Shell, idle: ServerGroups) -> None:
    """Without an id the last change; a conflict (exit 6) where the offset has changed since."""
    shell.run("offsets", "set", "billing", "orders:1=42", "--execute")
    undo_id = shell.undo_files[0].stem

    shown = shell.run("offsets", "undo")
    assert (shown.code, idle.offset_of("billing", "orders", 1)) == (0, 42)
    assert undo_id in shown.err
    idle.offset("billing", "orders", 1, 43)
    refused = shell.run("offsets", "undo", undo_id, "--execute")
    assert refused.code == 6
    assert "is at 43, was left at 42" in refused.err
    idle.offset("billing", "orders", 1, 42)
    done = shell.run("offsets", "undo", undo_id, "--execute")

    assert (done.code, idle.offset_of("billing", "orders", 1)) == (0, 10)


def test_undo_takes_back_what_an_act_made(shell: Shell, idle: ServerGroups) -> None:
    """Past bug: -1 and an empty group were left. In the preview it is `gone`, in JSON null."""
    idle.topic("clicks", 2)
    shell.run("offsets", "set", "new", "orders:0=42", "clicks:1=7", "--execute")

    shown = shell.run("offsets", "undo")
    undone = shell.json("offsets", "undo", "--execute")

    assert shown.lines[1].split()[-3:] == ["7", "-", "gone"]
    assert [(row["before"], row["after"]) for row in undone["changes"]] == [(7, None), (42, None)]
    assert not idle.exists("/consumers/new")
    assert shell.run("offsets", "undo", "--execute").code == 0
    assert [idle.offset_of("new", "orders", 0), idle.offset_of("new", "clicks", 1)] == [42, 7]


def test_offsets_are_deleted_and_come_back(shell: Shell, idle: ServerGroups) -> None:
    """Shown first; the undo gives them back."""
    shown = shell.run("offsets", "delete", "billing", "orders:0,2")
    assert (shown.code, shown.lines[-1]) == (0, "2 offsets would change")

    done = shell.json("offsets", "delete", "billing", "orders:0,2", "--execute")
    left = [idle.offset_of("billing", "orders", number) for number in range(3)]
    missing = shell.run("offsets", "delete", "billing", "orders:0", "--execute")
    undone = shell.run("offsets", "undo", done["undo"], "--execute")

    assert ([row["after"] for row in done["changes"]], left) == ([None, None], [None, 10, None])
    assert (missing.code, "billing has no offset of partition 0 of orders" in missing.err) == (5, True)
    assert undone.code == 0
    assert [idle.offset_of("billing", "orders", number) for number in range(3)] == [0, 10, 20]


def test_offsets_are_not_deleted_below_members(shell: Shell, living: ServerGroups) -> None:
    """Exit 2, and no way to force it."""
    ran = shell.run("offsets", "delete", "billing", "orders", "--execute")

    assert (ran.code, ran.out, shell.undo_files) == (2, "", [])
    assert "billing_a, billing_b; stop them first" in ran.err
    assert "--force" not in ran.err
    assert shell.run("offsets", "delete", "billing", "orders", "--force").code == 2


@pytest.mark.parametrize("error", [ConflictError("moved"), PartlyDoneError("half")])
def test_a_refused_change_leaves_no_record(
    shell: Shell, idle: ServerGroups, monkeypatch: pytest.MonkeyPatch, error: ZkGroupError
) -> None:
    """Nothing happened, so there is nothing to undo; what is done in part has its record."""

    def fail(*args: object, **more: object) -> None:
        raise error

    monkeypatch.setattr("zkgroup.admin.offsets.changes.apply_plan", fail)
    ran = shell.run("offsets", "set", "billing", "orders:1=42", "--execute")

    happened = isinstance(error, PartlyDoneError)
    assert ran.code == error.exit_code
    assert ("to undo: " in ran.err, len(shell.undo_files)) == (happened, int(happened))


def test_the_changes_made_from_here_are_listed(shell: Shell, idle: ServerGroups) -> None:
    """The latest first, those of this ensemble; with --all of every one. A broken record is not hidden."""
    where = shell.environment["ZKGROUP_ZOOKEEPER"]
    empty = shell.run("undo", "list")
    shell.run("offsets", "set", "billing", "orders:1=42", "--execute")
    shell.run("undo", "--execute")
    shell.run("group", "delete", "billing", "--execute")

    listed = shell.json("undo", "list")["undos"]
    table = shell.run("offsets", "undo", "list")
    elsewhere = shell.run("undo", "list", "-z", "127.0.0.1:1", env={"COLUMNS": "400"})
    everywhere = shell.run("undo", "list", "-z", "127.0.0.1:1", "--all", env={"COLUMNS": "400"})
    (shell.undo_files[0].parent / "20200101-000000-ffff.json").write_text("{")
    broken = shell.run("undo", "list")

    assert (empty.code, empty.lines[1:], "no change of" in empty.err) == (0, [], True)
    assert [(row["detail"], row["undoable"], row["zookeeper"]) for row in listed] == [
        ("3 offsets of billing", True, where),
        ("1 offset of billing", True, where),
        ("1 offset of billing", True, where),
    ]
    assert [row["command"] for row in listed][1:] == [
        "zkgroup undo --execute",
        "zkgroup offsets set billing orders:1=42 --execute",
    ]
    assert [line.split()[0] for line in table.lines[1:]] == [row["undo"] for row in listed]
    assert (len(elsewhere.lines), len(everywhere.lines), where in everywhere.out) == (1, 4, True)
    assert (broken.code, "20200101-000000-ffff.json: not an undo file" in broken.err) == (4, True)
    assert len(broken.lines) == 4


@pytest.mark.parametrize("words", [["list", "--execute"], ["list", "--force"], ["--all"]])
def test_listing_changes_nothing(lone_shell: Shell, words: list[str]) -> None:
    """Options of one are usage errors with the other; the list needs no ensemble."""
    assert lone_shell.run("undo", *words).code == 2
    assert lone_shell.run("undo", "list").code == 0


def test_undo_of_nothing_is_exit_5(shell: Shell, idle: ServerGroups) -> None:
    """No file, no act."""
    assert shell.run("offsets", "undo", "20200101-000000-ffff").code == 5
    assert shell.run("offsets", "undo").code == 5


def test_nothing_is_changed_when_the_undo_file_cannot_be_written(shell: Shell, idle: ServerGroups) -> None:
    """The file comes first."""
    (shell.home / "state").write_text("a file, not a folder")

    ran = shell.run("offsets", "set", "billing", "orders:1=42", "--execute")

    assert ran.code == 2
    assert "nothing was changed" in ran.err
    assert idle.offset_of("billing", "orders", 1) == 10


def test_values_that_are_there_already_are_no_act(shell: Shell, idle: ServerGroups) -> None:
    """No undo file, no write, exit 0."""
    document = shell.json("offsets", "set", "billing", "orders:1=10", "--execute")

    assert (document["executed"], document["undo"]) == (False, None)
    assert shell.undo_files == []
