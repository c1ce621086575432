"""Buckets have all rows of a key, and jobs over them find what the laptop finds. No Spark is started."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pyarrow as pa

from tests.worlds.bucket_findings import assert_same
from tests.worlds.random_histories import histories
from zkgroup.audit.findings.buckets import CLUSTER, SPANNING, bucket_of_group, count_for, names_of, numbers_of
from zkgroup.audit.findings.engine import RULES

BUCKETS = 7
HISTORIES = 2


def buckets_of(paths: list[str], chroot: str = "") -> list[str]:
    numbers = numbers_of(pa.array(paths, pa.string()), BUCKETS, chroot)
    return [names_of(BUCKETS)[number] for number in numbers.tolist()]


def test_all_rows_of_a_key_are_in_one_bucket() -> None:
    """Of every rule whose keys are not named as spanning; and those that are named do span.

    A log does not say what was refused: such rows have no path.
    """
    buckets: defaultdict[tuple[str, tuple[str, ...]], set[str]] = defaultdict(set)
    for _, events in histories(0, 40):
        logged = [each._replace(path="") if each.op == "error" else each for each in events]
        for event, bucket in zip(logged, buckets_of([each.path for each in logged]), strict=True):
            for keys in {rule.keys.name: rule.keys for rule in RULES}.values():
                key = keys.key(event)
                if key is not None:
                    buckets[keys.name, key].add(bucket)
    spanning = {name for (name, _), known in buckets.items() if len(known) > 1}

    assert spanning == SPANNING
    assert {name for name, _ in buckets} == {rule.keys.name for rule in RULES}


def test_a_bucket_is_named_by_its_number_or_is_that_of_the_cluster() -> None:
    """Groups are spread; a topic that is called consumers is no group; more logs get more buckets."""
    groups = set(buckets_of([f"/consumers/{number}/ids" for number in range(100)]))

    assert groups | {CLUSTER} == set(names_of(BUCKETS))
    assert buckets_of(["/consumers/g", "/consumers/g/offsets/t/0"]) == 2 * [bucket_of_group("g", BUCKETS)]
    of_none = ["", "/", "/consumers", "/brokers/topics/consumers/partitions", "/controller", "/consumersx/g"]
    assert set(buckets_of(of_none)) == {CLUSTER}
    assert buckets_of(["/kafka/consumers/g", "/consumers/g"], "/kafka") == [
        bucket_of_group("g", BUCKETS),
        CLUSTER,
    ]
    assert buckets_of(["/ä/consumers/ß/ids"], "/ä") == [bucket_of_group("ß", BUCKETS)]
    assert [count_for(size) for size in (0, 1 << 30, 1 << 40)] == [4, 16, 256]


def test_jobs_find_what_the_laptop_finds(tmp_path: Path) -> None:
    """On random histories in several logs: everything, one group, and parts that begin with kept state."""
    found: Counter[str] = Counter()
    for seed in range(HISTORIES):
        found += assert_same(tmp_path, seed)

    assert len(found) > 20
