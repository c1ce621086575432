"""The deletion of many znodes is cut into transactions that ZooKeeper accepts."""

from __future__ import annotations

import pytest

from zkgroup.znodes.deletions import DELETE_BYTES, in_transactions


@pytest.mark.parametrize(
    ("paths", "parts"),
    [
        ([], []),
        (["/a"], [["/a"]]),
        (["/a", "/b", "/c", "/d"], [["/a", "/b", "/c"], ["/d"]]),  # three at most
        (["/" + "a" * 49, "/b", "/\u00e9", "/c"], [["/" + "a" * 49, "/b"], ["/\u00e9", "/c"]]),
        (["/a", "/" + "b" * 500, "/c"], [["/a"], ["/" + "b" * 500], ["/c"]]),
    ],
    ids=["none", "one", "count", "bytes", "too large alone"],
)
def test_paths_are_cut_by_bytes_and_by_number(paths: list[str], parts: list[list[str]]) -> None:
    """In their order; each path is in one part."""
    bytes_max = 3 * DELETE_BYTES + 52

    assert list(in_transactions(paths, bytes_max, 3)) == parts
