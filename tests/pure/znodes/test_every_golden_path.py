"""No recorded znode is passed over: each has a codec or a reason."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from tests.pure.znodes.codecs import (
    AS_KAFKA_2_8,
    CODECS,
    NOT_OURS,
    NULL_AT_FIRST,
    PARENTS,
    READ_ONLY,
    WITHOUT_DATA,
    codec_for,
)
from tests.worlds import golden_data

FOLDERS = ("kafka-0.8.2.2", "kafka-1.1.1", "kafka-2.8.2", "kafka-3.9.1")


def recorded(folder: str) -> Iterator[tuple[str, str, bytes | None]]:
    """File, path and data of every znode and every write of a folder."""
    for znode in golden_data.trees(folder):
        yield znode.file, znode.path, znode.data
    for write in golden_data.writes(folder):
        yield write.file, write.path, write.data


def explained(path: str) -> str | None:
    """The pattern that says why a path has no codec, or None."""
    return next((pattern for pattern in (*PARENTS, *NOT_OURS) if re.fullmatch(pattern, path)), None)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_recorded_path_has_a_codec_or_a_reason(folder: str) -> None:
    """A path without either is a znode that zkgroup does not read; one with both has an unused codec."""
    paths = {path for _, path, _ in recorded(folder)}

    assert [path for path in sorted(paths) if codec_for(path) is None and explained(path) is None] == []
    assert [path for path in sorted(paths) if codec_for(path) and explained(path)] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_recorded_path_has_one_codec(folder: str) -> None:
    """The patterns exclude each other."""
    for path in {path for _, path, _ in recorded(folder)}:
        assert len([pattern for pattern in CODECS if re.fullmatch(pattern, path)]) <= 1, path


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_counts_as_a_parent_has_no_data(folder: str) -> None:
    """Null everywhere, or zero bytes at the root, which ZooKeeper itself answers."""
    for file, path, data in recorded(folder):
        if any(re.fullmatch(pattern, path) for pattern in PARENTS):
            assert not data, (file, path)


def test_every_codec_and_every_reason_is_used() -> None:
    """A pattern without a recording would hide a mistake in it."""
    paths = {path for folder in FOLDERS for _, path, _ in recorded(folder)}

    used = {
        pattern for path in paths for pattern in (*CODECS, *PARENTS, *NOT_OURS) if re.fullmatch(pattern, path)
    }
    assert set(CODECS) | set(PARENTS) | set(NOT_OURS) == used


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_recorded_znode_is_encoded_as_it_was_recorded(folder: str) -> None:
    """Decoding and encoding gives the bytes that Kafka wrote, of every version."""
    seen: Counter[str] = Counter()
    for file, path, data in recorded(folder):
        codec = codec_for(path)
        if codec is None or (data is None and codec in NULL_AT_FIRST):
            continue
        decoded = codec.decode(path, data)
        seen[codec.__name__] += 1
        if codec in READ_ONLY:
            continue
        if codec in WITHOUT_DATA or data is None:
            assert not data
        elif codec in AS_KAFKA_2_8 and folder != "kafka-2.8.2":
            assert codec.decode(path, decoded.encode()) == decoded
        else:
            assert decoded.encode() == data, (file, path)
    assert seen["BrokerRegistration"] >= 3
    assert seen["PartitionState"] >= 20


def test_registrations_and_blocks_are_null_only_before_their_first_data() -> None:
    """The exceptions of the test above are exceptions: data follows in the same transaction, or later."""
    nulls: Counter[str] = Counter()
    for folder in FOLDERS:
        later: defaultdict[tuple[str, str], list[golden_data.Written]] = defaultdict(list)
        for write in golden_data.writes(folder):
            later[write.file, write.path].append(write)
        for (_, path), found in later.items():
            codec = codec_for(path)
            for write, following in zip(found, [*found[1:], None], strict=True):
                if write.data is not None or codec not in NULL_AT_FIRST:
                    continue
                nulls[codec.__name__] += 1
                assert write.op.startswith("create")
                if codec.__name__ == "BrokerRegistration":
                    assert following is not None
                    assert following.zxid == write.zxid
    assert nulls["BrokerRegistration"] >= 10
    assert nulls["ProducerIdBlock"] >= 3


def test_paths_are_built_as_they_were_recorded() -> None:
    """Names of users and clients are percent-encoded once, defaults are literal, numbers have ten digits."""
    paths = {path for folder in FOLDERS for _, path, _ in recorded(folder)}
    built = {
        CODECS[r"/config/users/[^/]+/clients/[^/]+"].path("al ice/x", None),
        CODECS[r"/config/users/[^/]+/clients/[^/]+"].path("alice", "app"),
        CODECS[r"/config/users/[^/]+"].path("alice"),
        CODECS[r"/config/users/[^/]+"].path(None),
        CODECS[r"/config/clients/[^/]+"].path("app"),
        CODECS[r"/config/brokers/[^/]+"].path(3),
        CODECS[r"/config/brokers/[^/]+"].path(None),
        CODECS[r"/config/ips/[^/]+"].path("127.0.0.9"),
        CODECS[r"/config/changes/config_change_\d{10}"].path(3),
        CODECS[r"/isr_change_notification/isr_change_\d{10}"].path(0),
        CODECS[r"/log_dir_event_notification/log_dir_event_\d{10}"].path(0),
    }

    assert len(built) == 11
    assert built <= paths
