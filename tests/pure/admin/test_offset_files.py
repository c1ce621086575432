"""Files of committed offsets: Kafka's tools read zkgroup's, and the other way round."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkgroup.admin.files import SavedOffset, kafka_csv, offset_lines, parse_offsets, parse_topic_rows
from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition
from zkgroup.model.text import csv_cell
from zkgroup.znodes.consumers import OFFSET_MAX, PARTITION_MAX

names = st.text("abcxyz0189._-", min_size=1, max_size=20).filter(lambda name: name not in (".", ".."))
saved_offsets = st.builds(
    SavedOffset,
    names,
    st.builds(TopicPartition, names, st.integers(0, 10_000)),
    st.integers(0, OFFSET_MAX),
)


def _saved(*rows: tuple[str, str, int, int]) -> tuple[SavedOffset, ...]:
    return tuple(SavedOffset(group, TopicPartition(topic, n), offset) for group, topic, n, offset in rows)


def test_lines_are_those_of_the_jvm_tool() -> None:
    """Path, colon, offset; partitions without a commit are left out."""
    saved = _saved(("g", "orders", 0, 42), ("g", "orders", 1, -1), ("g", "page-views", 10, 0))

    assert list(offset_lines(saved)) == [
        "/consumers/g/offsets/orders/0:42",
        "/consumers/g/offsets/page-views/10:0",
    ]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\n\n", "\n \t\n"])
def test_blank_lines_end_nothing_and_hide_nothing(line_end: str) -> None:
    """Wherever they stand, in every form, what follows them is read, or refused by its own line."""
    forms = [
        ["/consumers/g/offsets/t/0:1", "/consumers/g/offsets/t/1:2"],
        ["group,topic,partition,offset", "g,t,0,1", "g,t,1,2"],
        [f'{{"group":"g","topic":"t","partition":{n},"offset":{n + 1}}}' for n in (0, 1)],
    ]

    for lines in forms:
        text = line_end.join(["", *lines, ""])
        assert parse_offsets("f", text) == _saved(("g", "t", 0, 1), ("g", "t", 1, 2))
        refused_at = len((text + line_end).split("\n"))
        with pytest.raises(ConfigError, match=rf"^f:{refused_at}: expected"):
            parse_offsets("f", f"{text}{line_end}nonsense{line_end}")


@given(st.lists(saved_offsets, min_size=1, unique_by=lambda one: (one.group, one.topic_partition)))
def test_every_form_reads_back_what_was_written(saved: list[SavedOffset]) -> None:
    """Lines, JSON, JSON lines and CSV say the same."""
    rows = [
        {
            "group": one.group,
            "topic": one.topic_partition.topic,
            "partition": one.topic_partition.partition,
            "offset": one.offset,
        }
        for one in saved
    ]
    cells = [",".join(csv_cell(str(one)) for one in row.values()) for row in rows]
    csv = "\n".join(["group,topic,partition,offset", *cells, ""])
    forms = [
        "\n".join(offset_lines(saved)),
        json.dumps({"schema": "zkgroup.offset_export/1", "offsets": rows}),
        "\n".join(json.dumps(row) for row in rows),
        csv,
    ]

    assert [parse_offsets("f", form) for form in forms] == [tuple(saved)] * 4


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no offset"),
        ("/consumers/g/offsets/t/x:1", "f:1: "),
        ("/consumers/g/offsets/t/0:1 # old", "f:1: "),
        ("/consumers/g/offsets/t/0:-1", "from 0 to"),
        (f"/consumers/g/offsets/t/0:{OFFSET_MAX + 1}", "from 0 to"),
        (f"/consumers/g/offsets/t/{PARTITION_MAX + 1}:1", "from 0 to"),
        ("group,topic,partition,offset\ng,t,zero,1", "whole numbers"),
        ("group,topic,partition\ng,t,0", "f:1: expected the columns group,topic,partition,offset"),
        ("group,topic,partition,offset,offset\ng,t,0,1,2", "f:1: expected the columns"),
        ('group,topic,partition,offset\n\ng,t,0,1,"\ng,t,1,2', "f:4: "),
        ("group,topic,partition,offset\ng,t,0,1_0", "f:2: expected whole numbers"),
        ('{"groups":[]}', 'a list "offsets"'),
        ('{"offsets":[{"group":"g"}]}', "offsets[0]"),
        ('{"group":"g","topic":"t","partition":0,"offset":1}\n{', "f:2: "),
        ('{"offsets":[],\n"offsets":[]}', "'offsets' twice"),
        ('{"offsets":[\n{"group":"g"\n:]}', "line 3"),
        ("{" + '"a":{' * 100_000, "recursion"),
        ('{"offsets":[{"group":"g/x","topic":"t","partition":0,"offset":1}]}', "f: offsets[0]: group"),
        ("/consumers/g/offsets/t/0:1\n/consumers/g/offsets/t/0:2", "both 1 and 2"),
    ],
)
def test_what_cannot_be_read_says_where_and_what_was_expected(text: str, told: str) -> None:
    """Nothing is guessed: the line and the expectation are in the error."""
    with pytest.raises(ConfigError) as refused:
        parse_offsets("f", text)

    assert told in str(refused.value)


def test_rows_of_kafkas_tool_have_a_group_where_there_are_several() -> None:
    """Both forms are read; rows without a group are of the one that is named."""
    one = _saved(("g", "orders", 0, 42), ("g", "orders", 1, 0))
    two = (*one, *_saved(("con,ma", "orders", 0, 7), ("group", "orders", 0, 8)))

    assert kafka_csv(one) == "orders,0,42\norders,1,0\n"
    assert kafka_csv(two) == 'g,orders,0,42\ng,orders,1,0\n"con,ma",orders,0,7\ngroup,orders,0,8\n'
    assert parse_offsets("it", kafka_csv(two)) == two
    assert parse_offsets("it", kafka_csv(two[::-1])) == two[::-1]
    assert parse_offsets("it", kafka_csv(one), group="g") == one
    with pytest.raises(ConfigError, match=r"it:1: expected GROUP,.*--group"):
        parse_offsets("it", kafka_csv(one))


def test_one_group_can_be_picked() -> None:
    """`--group` keeps that group's offsets only."""
    text = "/consumers/g/offsets/t/0:1\n/consumers/h/offsets/t/0:2"

    assert parse_offsets("f", text, group="h") == _saved(("h", "t", 0, 2))
    with pytest.raises(ConfigError, match="'x'"):
        parse_offsets("f", text, group="x")


def test_rows_without_a_group_are_kafkas_from_file() -> None:
    """`--from-file` reads topic, partition, offset; Kafka's own export quotes long names."""
    found = {TopicPartition("t", 0): 5, TopicPartition("u", 1): 6}

    assert parse_topic_rows("f", '\n"t",0,5\n\nu,1,6\n', "OFFSET") == found
    for text, told in (
        ("t,0,5\n\nt;1;6", r"f:3: expected TOPIC,PARTITION,OFFSET, found 't;1;6'"),
        (f"t,0,{'9' * 5000}", "f:1: "),  # past bug: more digits than Python's int takes
        ("t,0,5\nt,0,6", "f:2: t-0 has both 5 and 6"),
        ("t,0,-1", "f:1: "),
        ("t/u,0,1", "f:1: .*t/u"),
        ('t,0,5\n"t,1,6', "f:2: "),
        ("\n", "found nothing"),
    ):
        with pytest.raises(ConfigError, match=told):
            parse_topic_rows("f", text, "OFFSET")
