"""How a broker's process shares its descriptors between connections and files."""

from __future__ import annotations

import resource

import pytest

from zkgroup.broker.hosted_controller import (
    DescriptorShares,
    descriptor_limit,
    raise_descriptor_limit,
    shared,
)


@pytest.mark.parametrize(
    ("limit", "shares"),
    [
        (None, DescriptorShares(None, 1000, 400, 128)),
        (20_000, DescriptorShares(20_000, 1000, 400, 128)),
        (1024, DescriptorShares(1024, 496, 400, 128)),
        (256, DescriptorShares(256, 122, 102, 32)),
        (1, DescriptorShares(1, 1, 0, 0)),
    ],
)
def test_descriptors_are_kept_back_for_files(limit: int | None, shares: DescriptorShares) -> None:
    """Connections get what is left, however few the process may have."""
    assert shared(limit, 1000, 400) == shares


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    """As the JVM does at its start."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard - 1, hard))
    try:
        raise_descriptor_limit()
        assert descriptor_limit() == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
