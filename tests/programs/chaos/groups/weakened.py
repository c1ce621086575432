"""zkgroup with a planted mistake of its group coordinator.

    python -m tests.programs.chaos.groups.weakened MISTAKE ARGUMENTS OF zkgroup...

Mistakes: `load`, a coordinator that takes a slot does not know its groups' generations; `commit`, a commit is
accepted whatever its generation.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from zkgroup_cli.app import main

from zkgroup.broker.groups import slot_loading
from zkgroup.coordinator import coordinator
from zkgroup.coordinator.events import CommitOffsets


def _forget_groups() -> None:
    read = slot_loading.record_of

    def without_members(*arguments: Any) -> Any:
        record = read(*arguments)
        return replace(record, generation=0, reserved_generation=0, protocol=None, leader=None, members=())

    slot_loading.record_of = without_members


def _accept_commits() -> None:
    checked = coordinator.offsets.commit_offsets

    def unchecked(context: Any, group: Any, commit: CommitOffsets) -> None:
        member = next(iter(group.members), "")
        checked(context, group, replace(commit, generation=group.generation, member_id=member))

    coordinator.offsets.commit_offsets = unchecked


MISTAKES = {"load": _forget_groups, "commit": _accept_commits}

if __name__ == "__main__":
    MISTAKES[sys.argv.pop(1)]()
    main()
