"""Demos that read the files of their own servers refuse another ensemble."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.shell import Shell


@pytest.mark.parametrize(
    ("demo", "whose"), [("brokers", "own servers"), ("coordinator", "own server"), ("audit", "own server")]
)
@pytest.mark.parametrize(
    "options",
    [("-z", "h:1"), ("--profile", "p"), ("--zk-tls-ca", "ca"), ("--connect-timeout", "5s")],
    ids=lambda options: options[0],
)
def test_demo_takes_no_ensemble(demo: str, whose: str, options: tuple[str, str], tmp_path: Path) -> None:
    """It proves by its own servers' files, so an ensemble given is refused by name, not ignored."""
    ran = Shell(tmp_path).run(*options, "demo", demo)

    assert ran.code == 2
    name = {"-z": "--zookeeper"}.get(options[0], options[0])
    assert f"{name}: it reads the files of its {whose}" in ran.err
