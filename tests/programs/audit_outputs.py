"""Records what the audit finds, and compares two such records: a change of code that may change no finding.

    python -m tests.programs.audit_outputs record INTO [FOLDER...]
    python -m tests.programs.audit_outputs compare BEFORE AFTER

`record` writes one file for each recorded data folder of tests/golden, for each FOLDER of a server, and for
each of 120 random histories: findings as JSON, damages, notes and facts.
`compare` ends with 1 and names the files and the first lines that differ.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.worlds.golden_data import FOLDER
from tests.worlds.plain_findings import find
from tests.worlds.random_histories import histories
from zkgroup.audit.findings.engine import ALL_RULES, RULES, audit
from zkgroup.audit.incidents.attribution import numbered
from zkgroup.audit.incidents.incident import finding_fields, findings_document
from zkgroup.audit.inputs.facts import facts_of
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.inputs.source import PointInTime

RANDOM = 120
FROM_ZXID = 0x8E


def record(into: Path, folders: Sequence[Path]) -> None:
    """One file each."""
    into.mkdir(parents=True, exist_ok=True)
    for name, document in (*_folders(folders), *_random()):
        (into / f"{name}.json").write_text(json.dumps(document, indent=1))


def _folders(more: Sequence[Path]) -> Iterator[tuple[str, Any]]:
    alone = [[folder] for folder in (*sorted(FOLDER.rglob("version-2")), *more)]
    for folders in [*alone, sorted((FOLDER / "zookeeper" / "3.8.4").glob("server-*/version-2"))]:
        for start in (None, PointInTime(zxid=FROM_ZXID)):
            source = open_source(folders)
            found = audit(source, ALL_RULES, start=start)
            name = "-".join([*folders[0].parts[-3:], str(len(folders)), "part" if start else "whole"])
            yield (
                name,
                {
                    **findings_document(found, numbered(found)),
                    "damages": source.damages(),
                    "notes": source.notes(),
                    "facts": repr(found.facts).split("), "),
                },
            )


def _random() -> Iterator[tuple[str, Any]]:
    for seed, events in histories(0, RANDOM):
        found = find(RULES, lambda events=events: events)  # type: ignore[misc]
        yield (
            f"random-{seed}",
            {
                "findings": [finding_fields(one) for one in found],
                "facts": repr(facts_of(events)).split("), "),
            },
        )


def compare(before: Path, after: Path) -> int:
    """How many files differ."""
    names = sorted({file.name for folder in (before, after) for file in folder.iterdir()})
    bad = 0
    for name in names:
        files = [folder / name for folder in (before, after)]
        texts = [_compared(file) if file.exists() else [] for file in files]
        if texts[0] != texts[1]:
            bad += 1
            lines = [pair for pair in zip(*texts, strict=False) if pair[0] != pair[1]][:3]
            print(f"{name}: {len(texts[0])} and {len(texts[1])} lines", *lines, sep="\n  ")
    print(f"{len(names)} files, {bad} differ")
    return bad


def _compared(file: Path) -> list[str]:
    """The lines of a record without its incidents, which older states of the code do not have."""
    document = json.loads(file.read_text())
    document.pop("incidents", None)
    for finding in document["findings"]:
        finding.pop("incident", None)
    return json.dumps(document, indent=1).splitlines()


if __name__ == "__main__":
    if sys.argv[1] == "record":
        record(Path(sys.argv[2]), [Path(name) for name in sys.argv[3:]])
    else:
        sys.exit(min(compare(Path(sys.argv[2]), Path(sys.argv[3])), 1))
