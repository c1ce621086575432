"""`zkgroup audit owners`, `offsets`, `sessions` and `findings` on folders of real servers."""

from __future__ import annotations

import csv
import json
import os
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest
from zkgroup_cli.audit_rows import Brief
from zkgroup_cli.render import Output

from tests.real.cli.audit.golden import INCIDENTS, V346, V394, copy
from tests.waiting import ended
from tests.worlds.processes import pipe_without_reader, started
from tests.worlds.shell import Shell

G4 = ("--group", "g4", "--partition", "orders:1")


def test_the_owners_of_a_partition_over_time(lone_shell: Shell) -> None:
    """One member, claimed and released in each rebalance; its end took the last one."""
    document = lone_shell.json("audit", "owners", "--input", str(V346), *G4)

    assert [
        (row["owner"], row["from_zxid"], row["to_zxid"], row["ended_by"]) for row in document["intervals"]
    ] == [
        ("g4_a-0", 0x1A4, 0x1C0, "release"),
        ("g4_a-0", 0x1CB, 0x1D2, "release"),
        ("g4_a-0", 0x1D4, 0x1F7, "release"),
        ("g4_a-0", 0x1FA, 0x202, "session_end"),
    ]
    assert {row["session"] for row in document["intervals"]} == {"0x1a1fb339a96002f"}
    assert document["intervals"][0]["from"] == "2026-11-20T23:08:29.504Z"
    assert (document["group"], document["topic"], document["partition"]) == ("g4", "orders", 1)


def test_the_owners_of_a_partition_between_two_moments(lone_shell: Shell) -> None:
    """Who owned it then, from the beginning to the end: also an end after the second moment is known."""
    words = ("audit", "owners", "--input", str(V346), *G4)
    times = "0x1d5", "2026-11-20T23:08:55Z"

    rows = lone_shell.json(*words, "--between", *times)["intervals"]

    assert [(row["from_zxid"], row["to_zxid"], row["ended_by"]) for row in rows] == [
        (0x1D4, 0x1F7, "release"),
        (0x1FA, 0x202, "session_end"),
    ]
    for names in (("--from", "--to"), ("--since", "--until")):
        assert lone_shell.json(*words, names[0], times[0], names[1], times[1])["intervals"] == rows
    early = lone_shell.json(*words, "--until", "0x1c9")["intervals"]
    assert [(row["from_zxid"], row["to_zxid"]) for row in early] == [(0x1A4, 0x1C0)]
    assert lone_shell.run(*words, "--between", *times, "--to", "0x1c9").code == 2


def test_sessions_of_a_stretch_have_their_whole_lives(lone_shell: Shell) -> None:
    """Those that lived then; each is as without the stretch."""
    words = ("audit", "sessions", "--input", str(INCIDENTS))
    every = lone_shell.json(*words)["sessions"]

    late = lone_shell.json(*words, "--group", "pause", "--since", "0x110")["sessions"]
    early = lone_shell.json(*words, "--until", "0x110")["sessions"]

    (paused,) = [row for row in late if row["session"] == "0x1a1fb66fa0f000e"]
    assert (paused["from"], paused["writes"]) == ("2026-11-21T00:00:56.827Z", 21)
    assert paused in every
    assert early == [row for row in every if (row["from_zxid"] or 0) <= 0x110]


def test_a_group_that_never_was_is_exit_5(lone_shell: Shell) -> None:
    """Those that were are named; a partition that the group never owned is an answer."""
    words = ("audit", "owners", str(INCIDENTS), "--group")
    missing = lone_shell.run(*words, "g44", "--partition", "t:1")
    unowned = lone_shell.run(*words, "adopt", "--partition", "mv:0")

    assert (missing.code, unowned.code) == (5, 0)
    assert "/consumers/g44" in missing.err
    assert "g, idle" in missing.err
    assert "mv-0 of adopt had no owner" in unowned.err


@pytest.mark.parametrize("command", ["owners", "offsets"])
def test_a_partition_that_never_was_is_exit_5(lone_shell: Shell, command: str) -> None:
    """Those of its topic are named."""
    words = ("audit", command, str(INCIDENTS), "--group", "g", "--partition")
    ran = lone_shell.run(*words, "t:9")
    topic = lone_shell.run(*words, "u:0")

    assert (ran.code, ran.out, topic.code, topic.out) == (5, "", 5, "")
    assert "t-9: no such partition; those of t: 0, 1, 2, 3" in ran.err
    assert "u-0: no such partition; those of u: none" in topic.err


@pytest.mark.parametrize(
    "words",
    [
        *(("summary",), ("inspect",), ("tree",), ("diff", "0x1", "0x2"), ("owners", "--group", "g")),
        *(("offsets",), ("sessions",), ("findings",), ("report", "NEW.html"), ("export", "NEW")),
    ],
    ids=lambda words: words[0],
)
def test_an_input_that_is_not_there_is_exit_5(
    lone_shell: Shell, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """What was expected and what was found, in words; a file where a folder is meant is wrong usage."""
    command = [word.replace("NEW", str(tmp_path / "new")) for word in words]
    missing = lone_shell.run("audit", *command, "--input", str(tmp_path / "gone"))

    assert (missing.code, missing.out) == (5, "")
    assert f"{tmp_path / 'gone'}: expected a" in missing.err
    assert ", found nothing" in missing.err


def test_rows_of_incidents_explain_those_of_findings(lone_shell: Shell) -> None:
    """In csv and ndjson the number of a finding's incident is that of a row with `--incidents`."""
    words = ("audit", "findings", str(INCIDENTS))
    document = lone_shell.json(*words, code=3)

    rows = list(csv.DictReader(lone_shell.run(*words, "--incidents", "--format", "csv").lines))
    lines = [json.loads(line) for line in lone_shell.run(*words, "--incidents", "--format", "ndjson").lines]

    assert lines == document["incidents"]
    assert [(int(row["number"]), row["title"], row["act"]) for row in rows] == [
        (one["number"], one["title"], one["act"]) for one in lines
    ]
    assert json.loads(rows[0]["cause"]) == lines[0]["cause"]
    assert lone_shell.run(*words, "--incidents", "--findings").code == 2


@pytest.mark.parametrize(
    "words", [("findings",), ("sessions",), ("offsets",), ("report", "NEW.html")], ids=lambda words: words[0]
)
def test_a_mistyped_group_is_not_taken_for_a_quiet_one(
    lone_shell: Shell, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Nothing found would read as "all is well"; nothing is written either."""
    ran = lone_shell.run(
        "audit",
        *(word.replace("NEW", str(tmp_path / "new")) for word in words),
        *("--input", str(V346), "--group", "g44"),
    )

    assert (ran.code, ran.out) == (5, "")
    assert "/consumers/g44: there was no such group; those that were: " in ran.err
    assert list(tmp_path.iterdir()) == []


def test_a_group_that_is_not_found_may_be_in_what_is_damaged(lone_shell: Shell, tmp_path: Path) -> None:
    """The damage is printed beside the error."""
    folder = copy(V394, tmp_path)
    packed = (folder / "log.116.gz").read_bytes()
    (folder / "log.116.gz").write_bytes(packed[: len(packed) // 2])

    ran = lone_shell.run("audit", "offsets", "--group", "none", "--input", str(tmp_path))

    assert ran.code == 5
    assert f"damaged: {folder / 'log.116.gz'}" in ran.err


@pytest.mark.parametrize("partition", ["orders", "orders:", "orders:x", "orders:1,2", ":1"])
def test_a_partition_is_topic_and_number(lone_shell: Shell, partition: str) -> None:
    """Exit 2 with an example."""
    ran = lone_shell.run("audit", "owners", str(V346), "--group", "g4", "--partition", partition)

    assert ran.code == 2
    assert "orders:" in ran.err


def test_every_write_of_an_offset(lone_shell: Shell) -> None:
    """By zxid, with the writer, and whether it owned the partition."""
    document = lone_shell.json("audit", "offsets", "--input", str(V346), *G4)
    whole = lone_shell.json("audit", "offsets", "--input", str(V346), "--group", "g4")

    assert [
        (row["zxid"], row["offset"], row["previous"], row["owned"], row["members"])
        for row in document["offsets"]
    ] == [(0x1C6, 20, None, False, ["g4_a"]), (0x1E0, 26, 20, True, ["g4_a"])]
    assert {"orders", "clicks"} == {row["topic"] for row in whole["offsets"]}
    zxids = [row["zxid"] for row in whole["offsets"]]
    assert zxids == sorted(zxids)
    every = lone_shell.json("audit", "offsets", "--input", str(V346))
    assert (every["group"], len({row["group"] for row in every["offsets"]}) > 1) == (None, True)
    assert [row for row in every["offsets"] if row["group"] == "g4"] == whole["offsets"]


def test_the_rewind_of_the_incidents_is_found(lone_shell: Shell) -> None:
    """A zombie wrote 21 over 1000 in each partition; nothing else went back there."""
    rows = lone_shell.json("audit", "offsets", str(INCIDENTS), "--group", "g", "--rewinds")["offsets"]

    assert [(row["partition"], row["previous"], row["offset"], row["owned"]) for row in rows] == [
        (partition, 1000, 21, False) for partition in range(4)
    ]


def test_a_stretch_begins_with_what_stood_before(lone_shell: Shell) -> None:
    """As rows of a snapshot, whose writers are unknown."""
    rows = lone_shell.json(
        *("audit", "offsets", "--input", str(V346), *G4, "--since", "0x1d0", "--until", "0x1e0")
    )["offsets"]

    assert [(row["kind"], row["offset"], row["session"], row["owned"]) for row in rows] == [
        ("snapshot", 20, None, None),
        ("commit", 26, "0x1a1fb339a96002f", True),
    ]


def test_every_session(lone_shell: Shell) -> None:
    """Who it was and how it ended; of one group its members only."""
    rows = lone_shell.json("audit", "sessions", "--input", str(V394))["sessions"]
    members = lone_shell.json("audit", "sessions", "--input", str(V394), "--group", "g")["sessions"]

    assert {row["ended"] for row in rows} == {"closed", "expired", "open"}
    assert [row["session"] for row in rows if row["ended"] == "expired"] == [
        *("0x100002539810000", "0x100002539810009")
    ]
    assert (rows[0]["brokers"], rows[0]["controller"], rows[0]["timeout_ms"]) == (["1"], True, 6000)
    assert [row["members"] for row in members] == [
        [{"group": "g", "member": f"g_{name}"}] for name in ("a", "b", "c")
    ]


def test_findings_of_a_group_and_a_stretch(lone_shell: Shell) -> None:
    """Others are left out."""
    words = ("audit", "findings", "--input", str(V346))
    whole = lone_shell.json(*words)["findings"]
    mine = lone_shell.json(*words, "--group", "g4")["findings"]
    late = lone_shell.json(*words, "--only", "rebalance", "--since", "0x310")["findings"]

    assert {row["group"] for row in mine} == {"g4"} < {row["group"] for row in whole}
    assert [row["from_zxid"] for row in late] == [
        row["from_zxid"] for row in whole if row["finding"] == "rebalance" and row["from_zxid"] >= 0x310
    ]
    assert late


def test_a_mistyped_finding_names_the_nearest(lone_shell: Shell) -> None:
    """A bound too; nothing is read."""
    mistyped = lone_shell.run("audit", "findings", str(V394), "--only", "rebalance,zombie_comit")
    empty = lone_shell.run("audit", "findings", str(V394), "--only", ",")
    bound = lone_shell.run("audit", "findings", str(V394), "--bound", "rebalance_storm.none=1")
    number = lone_shell.run("audit", "findings", str(V394), "--bound", "rebalance_storm.none=x")

    assert [ran.code for ran in (mistyped, empty, bound, number)] == [2] * 4
    assert "'zombie_commit'" in mistyped.err


def test_findings_for_people_and_programs(lone_shell: Shell) -> None:
    """A row each in every format with `--findings`; the sums on stderr."""
    words = ("audit", "findings", str(V394), "--only", "rebalance,session_end")
    table = lone_shell.run(*words, "--findings")
    rows = list(csv.DictReader(lone_shell.run(*words, "--format", "csv").lines))
    lines = [json.loads(line) for line in lone_shell.run(*words, "--format", "ndjson").lines]

    assert table.code == 0
    assert len(table.lines) - 1 == len(rows) == len(lines) > 0
    assert table.err.startswith("0 errors, ")
    assert {int(row["incident"]) for row in rows} == {line["incident"] for line in lines}


def test_incidents_for_people_fit_80_columns_and_lose_nothing(lone_shell: Shell) -> None:
    """Errors first, warnings after them; texts go on in further lines."""
    lone_shell.environment["COLUMNS"] = "80"
    ran = lone_shell.run("audit", "findings", str(INCIDENTS))
    rows = lone_shell.run("audit", "findings", str(INCIDENTS), "--findings", "--severity", "error")
    document = lone_shell.json("audit", "findings", str(INCIDENTS), code=3)

    assert ran.code == 3
    assert max(map(len, [*ran.lines, *rows.lines])) <= 80
    heads = [line.split()[0] for line in ran.lines if line[:1] not in ("", " ")]
    assert heads == ["error"] * 6 + ["warning"] * 8
    assert "…" not in rows.out
    text = " ".join(ran.out.split())
    for incident in document["incidents"]:
        if incident["severity"] != "info":
            assert f"{incident['number']}. {incident['title']}" in text
            assert incident["act"] in text
    assert "3,916 records delivered again at least (t-0 979," in text


def test_severity_selects_incidents_and_findings(lone_shell: Shell) -> None:
    """As bad as that or worse, with the numbers that they have without it; the exit code stays."""
    words = ("audit", "findings", str(INCIDENTS))
    whole = lone_shell.json(*words, code=3)
    bad = lone_shell.json(*words, "--severity", "error", code=3)
    notes = lone_shell.run(*words, "--severity", "info")

    for name in ("incidents", "findings"):
        assert bad[name] == [one for one in whole[name] if one["severity"] == "error"] != []
    assert len([line for line in notes.lines if line.startswith("info")]) == len(
        [one for one in whole["incidents"] if one["severity"] == "info"]
    )
    numbers = {one["incident"] for one in whole["findings"]}
    assert numbers == {one["number"] for one in whole["incidents"]}


def test_owners_and_offsets_of_a_whole_group(lone_shell: Shell) -> None:
    """Without --partition: the rows of each partition, with its name."""
    words = ("--input", str(INCIDENTS), "--group", "g")
    whole = lone_shell.json("audit", "owners", *words)
    one = lone_shell.json("audit", "owners", *words, "--partition", "t:1")
    table = lone_shell.run("audit", "owners", *words)

    assert (whole["topic"], whole["partition"], one["topic"], one["partition"]) == (None, None, "t", 1)
    assert [row for row in whole["intervals"] if row["partition"] == 1] == one["intervals"] != []
    assert {row["partition"] for row in whole["intervals"]} == {0, 1, 2, 3}
    assert table.lines[0].split()[0] == "PARTITION"
    assert len(table.lines) - 1 == len(whole["intervals"])
    offsets = lone_shell.json("audit", "offsets", *words)["offsets"]
    assert {row["partition"] for row in offsets} == {0, 1, 2, 3}


def test_a_summary_is_one_screen(lone_shell: Shell) -> None:
    """A row for each group, errors first, and one for what is about no group."""
    lone_shell.environment["COLUMNS"] = "80"
    ran = lone_shell.run("audit", "summary", str(INCIDENTS))
    document = lone_shell.json("audit", "summary", str(INCIDENTS), code=3)

    assert ran.code == 3
    assert max(map(len, ran.lines)) <= 80
    assert len(ran.lines) <= 2 + 2 * len(document["groups"]) + 1
    assert ran.lines[1].split() == ["GROUP", "ERRORS", "WARNINGS", "WORST"]
    lone_shell.environment["COLUMNS"] = "200"
    cluster = lone_shell.run("audit", "summary", str(INCIDENTS)).lines[-1]
    assert cluster.split()[:4] == ["(cluster)", "-", "9", "3"]
    assert [row["group"] for row in document["groups"]] == ["g", "adopt", "idle", "pause", None]
    assert [(row["errors"], row["warnings"]) for row in document["groups"]] == [
        *((2, 2), (1, 0), (1, 0), (0, 1), (2, 5)),
    ]
    assert document["groups"][3]["worst"].endswith(
        "pause_e of pause was paused for longer than its session timeout of 3.0 s"
    )


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["findings", "--findings"], "FROM SEVERITY FINDING INCIDENT GROUP PARTITION ZXID"),
        (["sessions"], "FROM TO ENDED SILENT MS WHO"),
        (["owners", "--group", "g"], "PARTITION FROM TO OWNER ENDED BY FROM ZXID SESSION"),
        (["offsets", "--group", "g", "--rewinds"], "TIME OFFSET BEFORE ZXID SESSION MEMBER OWNER"),
        (["offsets", "--since", "0x60", "--until", "0x90"], "TIME GROUP OFFSET ZXID SESSION MEMBER OWNER"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, list) else "",
)
def test_what_a_question_is_about_stays_on_80_columns(
    lone_shell: Shell, words: list[str], shown: str
) -> None:
    """With clock times, and the date once above them."""
    lone_shell.environment["COLUMNS"] = "80"
    ran = lone_shell.run("audit", *words, "--input", str(INCIDENTS))

    dates, heads, *rows = ran.lines
    assert dates.startswith("times in UTC, 2026-11-2")
    assert set(shown.split()) <= set(heads.split())
    assert max(map(len, ran.lines)) <= 80
    assert not [row for row in rows if "2026-" in row]


def test_the_writer_of_a_rewind_is_named_on_80_columns(lone_shell: Shell) -> None:
    """The session as titles of incidents have it; off a terminal the whole id and time."""
    words = ("audit", "offsets", "--input", str(INCIDENTS), "--group", "g", "--rewinds")
    whole = lone_shell.run(*words).lines[1].split()
    lone_shell.environment["COLUMNS"] = "80"
    short = lone_shell.run(*words).lines[2].split()

    assert (short[0], short[6], short[7]) == ("00:00:24.088", "…04", "g_a")
    assert (whole[0], whole[8], whole[10]) == ("2026-11-21T00:00:24.088Z", "0x1a1fb66fa0f0004", "g_other-0")


def test_times_of_several_days_have_their_dates() -> None:
    """A clock time alone could then be of each of them."""
    out, day_ms = Output("table", color=False, width=80), 86_400_000

    one_day, two_days = Brief(out, [0, None, day_ms - 1]), Brief(out, [0, day_ms])

    assert (one_day.time(1), one_day.time(None)) == ("00:00:00.001", None)
    assert two_days.time(1) == "1970-01-01 00:00:00.001"


def test_a_damaged_folder_still_answers_with_exit_3(lone_shell: Shell, tmp_path: Path) -> None:
    """Every question: what is before and behind the damage, and where it is."""
    folder = copy(V394, tmp_path)
    packed = (folder / "log.116.gz").read_bytes()
    (folder / "log.116.gz").write_bytes(packed[: len(packed) // 2])

    for words in (
        ["owners", "--group", "g", "--partition", "orders:0"],
        ["offsets", "--group", "g"],
        ["sessions"],
        ["findings", "--only", "rebalance"],
        ["diff", "0x100", "0x120"],
    ):
        ran = lone_shell.run("audit", *words, "--input", str(tmp_path), "--format", "json")
        assert ran.code == 3, ran
        assert ran.document["as_of"]["zxid"] >= 0x110
        assert f"damaged: {folder / 'log.116.gz'}" in ran.err


def test_files_without_a_record_are_no_healthy_history(lone_shell: Shell, tmp_path: Path) -> None:
    """No findings of nothing: a note says so."""
    (tmp_path / "log.1").write_bytes(b"")

    ended = lone_shell.run("audit", "findings", str(tmp_path))

    assert "the files have no transaction and no tree, so nothing was searched" in ended.err


def test_why_a_snapshot_could_not_be_used_is_said_once(lone_shell: Shell, tmp_path: Path) -> None:
    """As damage; and where there is none, the sentence ends."""
    folder = copy(INCIDENTS, tmp_path)
    for file in folder.iterdir():
        if file.name != "log.1ae.gz":
            file.unlink()
    without = lone_shell.run("audit", "summary", str(folder))
    (folder / "snapshot.1ad").write_bytes(b"no tree at all")
    damaged = lone_shell.run("audit", "summary", str(folder))

    stands = "note: the tree at 0x1ad, on which this stands: what stood before the first record is not known"
    assert f"{stands}, as there is no snapshot\n" in without.err
    assert f"{stands}\n" in damaged.err
    assert damaged.err.count("which starts with 'ZKSN', found 'no tree '") == 1


def test_an_input_may_be_a_file_uri(lone_shell: Shell) -> None:
    """As `audit run` and the data sources of Spark take them."""
    path = str(V394.absolute())

    documents = [
        lone_shell.json("audit", "summary", name) for name in (path, f"file:{path}", f"file://{path}")
    ]

    assert documents[0] == documents[1] == documents[2]


def test_a_folder_in_the_place_of_a_path_is_told_where_it_goes(lone_shell: Shell) -> None:
    """`tree` and `report` have an argument of another kind."""
    ended = lone_shell.run("audit", "tree", str(V394), "/consumers")

    assert ended.code == 2
    assert f"name what is read with --input {V394}" in ended.err


@pytest.mark.parametrize(
    ("words", "expected", "code"),
    [
        (
            ("run", "--output", "out", "--input", "none"),
            "none: expected an export, or a folder, found nothing",
            5,
        ),
        (
            ("report", "--spark", "out", "--input", "none"),
            "none: expected an export, or a folder, found nothing",
            5,
        ),
        (("run", "--output", "out", "--input", "north east=in"), "found the name 'north east'", 2),
        (("run", "--output", "out", "--input", "east="), "expected a folder after the name", 2),
        (("run", "--output", "in", "--input", "in"), "would lie among the files that are read", 2),
        (("run", "--output", "in/version-2/out", "--input", "east=in"), "would lie among the files", 2),
        (
            ("run", "--output", "file/out", "--input", "in"),
            "output file/out: expected a folder, found a file",
            2,
        ),
    ],
)
def test_wrong_inputs_and_outputs_are_refused_before_spark_starts(
    lone_shell: Shell,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    expected: str,
    code: int,
) -> None:
    """It would take seconds to start, and the files that are read stay as they are."""

    def session(*_: object) -> NoReturn:
        raise AssertionError("started")

    monkeypatch.setattr("zkgroup_cli.commands.audit.report.session", session)
    monkeypatch.chdir(tmp_path)
    copy(V394, tmp_path / "in")
    (tmp_path / "file").touch()

    ended = lone_shell.run("audit", *words)

    assert ended.code == code
    assert expected in ended.err


@pytest.mark.parametrize("output_format", ["table", "ndjson"])
def test_the_exit_code_of_findings_is_the_same_where_nobody_reads(
    lone_shell: Shell, output_format: str
) -> None:
    """`| head -1`: the rest is dropped, and the errors of the history still count."""
    words = ("audit", "findings", str(INCIDENTS), "--format", output_format)
    with os.fdopen(pipe_without_reader(), "wb") as gone:
        ran = started(words, lone_shell.variables, stdout=gone.fileno(), stderr=subprocess.PIPE)
        with ran:
            assert ran.stderr is not None
            message = ran.stderr.read()
            code = ended(ran)

    assert code == 3
    assert b"Traceback" not in message
    assert b"BrokenPipe" not in message
