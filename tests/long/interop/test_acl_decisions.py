"""Drawn ACLs decide, and are listed, as by AclAuthorizer of Kafka 2.8.2."""

from __future__ import annotations

from pathlib import Path

from tests.long.interop.conftest import fetched
from tests.long.interop.jars import compiled, kafka_jars
from tests.long.interop.members import HERE
from tests.long.interop.toolbox import Toolbox
from tests.worlds.drawn_acls import differences, drawn

RELEASE, COUNT, SEED = "2.8.2", 2000, 5


def test_acls_decide_as_in_kafka(box: Toolbox, tmp_path: Path) -> None:
    """80,000 decisions and 8,000 lists after 2,000 series of changes."""
    fetched(RELEASE)
    asked = tmp_path / "asked.jsonl"
    asked.write_text("".join(f"{line}\n" for line in drawn(COUNT, SEED)), encoding="utf-8")
    classes = compiled(HERE / "AclDecisions.java", f"{kafka_jars(RELEASE)}/*")

    printed = box.run(RELEASE, "AclDecisions", str(asked), classes=classes)

    answers = [line for line in printed.text.splitlines() if line.startswith("{")]
    assert (printed.code, len(answers)) == (0, COUNT), printed.text[-2000:]
    assert [each for line in answers for each in differences(line)] == []
